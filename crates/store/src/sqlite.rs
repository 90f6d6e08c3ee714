//! A store in one SQLite file.
//!
//! One thread writes, a few connections read, and no other process may use the file. Events are first written to one
//! table in the order of commits, whichever turn they belong to, so that a commit of many turns is about as cheap as a
//! commit of one; when a turn rests, its events are gathered, so that reading them is cheap too. `schema.rs` describes
//! the tables, `live.rs` what is kept in memory.

mod batch;
mod checkpoint;
mod chores;
#[cfg(all(test, feature = "test-support"))]
mod failure_tests;
mod fault;
mod free_space;
#[cfg(all(test, feature = "test-support"))]
mod history_tests;
mod keys;
mod legs;
mod live;
mod location;
mod log;
mod open;
mod place;
#[cfg(all(test, feature = "test-support"))]
mod plan_tests;
mod readers;
mod records;
mod reseal;
mod rows;
mod schema;
#[cfg(all(test, feature = "test-support"))]
mod space_tests;
#[cfg(all(test, feature = "test-support"))]
mod tenancy_tests;
mod tokens;
mod trim;
mod usage;
mod vacuum;
mod writer;

use std::{path::Path, sync::Arc, thread::JoinHandle};

use bytes::Bytes;
use everturn_core::{Day, KeyId, Segment, SessionId, TenantId, Timestamp, TurnId, Usage};
use futures_util::{FutureExt, future::BoxFuture};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};

pub use self::{
    free_space::Space,
    open::OpenError,
    reseal::{Reseal, ResealError, Resealed},
    vacuum::Vacuumed,
};
use self::{
    live::LiveTurns,
    location::Location,
    open::Opened,
    readers::Readers,
    rows::Place,
    writer::{Request, Writer},
};
use crate::{
    ClaimedTurn, Command, CommandKey, DueTurn, NodeId, Receipt, RecordFilter, RecordKind, RecordRow, Refusal,
    SessionRecord, SessionRow, Store, StoreError, TurnOutline, TurnRecord, UnfinishedTurn, UsageRow, UsageSlot,
};

/// How many requests wait for the writer. The engine hands over one batch at a time, so this is plenty.
const WAITING_REQUESTS: usize = 16;

/// What a commit survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// A crash of the machine: every commit waits until the disk has it.
    #[default]
    Fsync,
    /// A crash of the process. A crash of the machine may take the last commits back, though never some and not others
    /// out of order.
    Process,
}

/// A [`Store`] in one SQLite file.
///
/// What is deleted is overwritten, and closing clears away the copies that its tables held until then. SQLite itself may
/// leave copies of rows that it moved from page to page: a file of 64 MiB or less is written anew when it is closed after
/// deletions, a larger one keeps them until somebody runs `everturn vacuum`.
///
/// The space of what is deleted goes back to the file system while the store is in use; see `free_space.rs`.
///
/// A turn that several sessions share is kept once; each of the others has a row of a few bytes for it.
///
/// Files and directories that it makes are for its user alone; those that were there keep their mode, and the
/// write-ahead log has the mode of the database.
///
/// Dropping it waits until the writer is done and the file is in order. [`SqliteStore::close`] does the same without
/// blocking a thread of the runtime.
#[derive(Debug)]
pub struct SqliteStore {
    live: Arc<LiveTurns>,
    readers: Readers,
    requests: Option<mpsc::Sender<Request>>,
    writer: Option<JoinHandle<()>>,
    space: Arc<Space>,
    location: Arc<Location>,
}

impl SqliteStore {
    /// Opens the database at `path`, or creates it and its directory. Blocks while it does.
    pub fn open(path: impl AsRef<Path>, durability: Durability) -> Result<Self, OpenError> {
        let Opened { path, connection, running, ids, extent, lock } = open::open(path.as_ref(), durability)?;
        let live = Arc::new(LiveTurns::new(running));
        let (requests, inbox) = mpsc::channel(WAITING_REQUESTS);
        let unavailable = |what: String| OpenError::Unavailable { path: path.clone(), what };
        let space = Arc::<Space>::default();
        // The connection has read, so its write-ahead log is there.
        let location = Location::remember(&path).map(Arc::new).map_err(|error| OpenError::io(&path, &error))?;
        let writer = Writer::new(Arc::clone(&location), connection, Arc::clone(&live), ids, extent, Arc::clone(&space))
            .map_err(|error| unavailable(error.to_string()))?;
        let thread = std::thread::Builder::new().name("everturn-writer".to_owned()).spawn(move || {
            writer.run(inbox);
            drop(lock);
        });
        let thread = thread.map_err(|error| unavailable(error.to_string()))?;
        let readers = Readers::new(Arc::clone(&location));
        Ok(Self { live, readers, requests: Some(requests), writer: Some(thread), space, location })
    }

    /// How large the file is and how much of it is free.
    pub fn space(&self) -> &Arc<Space> {
        &self.space
    }

    /// Ends all work and leaves the file in order. Calls that are under way get their answer.
    pub async fn close(self) {
        let closed = tokio::task::spawn_blocking(move || drop(self)).await;
        if closed.is_err() {
            tracing::error!("the store was not closed in order");
        }
    }

    /// Lets a test use the writer's connection.
    #[cfg(test)]
    async fn on_writer<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Connection) -> T + Send + 'static,
    ) -> Result<T, StoreError> {
        self.ask(|answer| {
            Request::Run(Box::new(move |connection| {
                let _ = answer.send(Ok(job(connection)));
            }))
        })
        .await
    }

    /// Reads turns of a session, and gives the one that runs the head that it has.
    fn read_turns(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        read: impl FnOnce(&Connection, &Place) -> Result<Vec<TurnRecord>, StoreError> + Send + 'static,
    ) -> BoxFuture<'_, Result<Vec<TurnRecord>, StoreError>> {
        let (tenant, session, live) = (tenant.clone(), session.clone(), Arc::clone(&self.live));
        self.readers.read(move |connection| turns_of(connection, &live, &tenant, &session, read)).boxed()
    }

    async fn ask<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<T, StoreError>>) -> Request,
    ) -> Result<T, StoreError> {
        let (answer, answered) = oneshot::channel();
        let requests = self.requests.as_ref().ok_or(StoreError::Closed)?;
        requests.send(request(answer)).await.map_err(|_| StoreError::Closed)?;
        answered.await.map_err(|_| StoreError::Closed)?
    }
}

/// Turns of a session. The one that runs has the head that it has now.
fn turns_of(
    connection: &Connection,
    live: &LiveTurns,
    tenant: &TenantId,
    session: &SessionId,
    read: impl FnOnce(&Connection, &Place) -> Result<Vec<TurnRecord>, StoreError>,
) -> Result<Vec<TurnRecord>, StoreError> {
    // The turn that was started last is the only one that can run. Memory first, then the rows: see `live.rs`.
    let Some(place) = rows::place(connection, tenant, session)? else { return Ok(Vec::new()) };
    let head = place.last.as_ref().and_then(|turn| Some((live.head(turn)?, turn)));
    let mut turns = read(connection, &place)?;
    if let Some((head, id)) = head {
        turns.iter_mut().filter(|turn| turn.id == *id).for_each(|turn| turn.head = turn.head.max(head));
    }
    Ok(turns)
}

/// See [`Store::read`].
fn segments_of(
    connection: &mut Connection,
    live: &LiveTurns,
    turn: &TurnId,
    seq: u64,
    max_bytes: usize,
) -> Result<Vec<Segment>, StoreError> {
    let rows = live.rows(turn, seq, max_bytes as u64);
    // Events move from one table to the other, so both must be seen at the same moment.
    let snapshot = connection.transaction()?;
    match rows::turn_id(&snapshot, turn)? {
        Some(turn) => log::read(&snapshot, turn, seq, max_bytes, &rows),
        None => Ok(Vec::new()),
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.readers.close();
        self.requests = None;
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("the writer of the store panicked");
        }
    }
}

impl Store for SqliteStore {
    fn health(&self) -> Result<(), StoreError> {
        self.location.health()
    }

    fn commit(&self, batch: Arc<Vec<Command>>) -> BoxFuture<'_, Result<Vec<Result<Receipt, Refusal>>, StoreError>> {
        self.ask(|answer| Request::Commit { batch, answer }).boxed()
    }

    fn claim(&self, node: &NodeId, limit: usize) -> BoxFuture<'_, Result<Vec<ClaimedTurn>, StoreError>> {
        let node = node.clone();
        self.ask(move |answer| Request::Claim { node, limit, answer }).boxed()
    }

    fn session(
        &self,
        tenant: &TenantId,
        session: &SessionId,
    ) -> BoxFuture<'_, Result<Option<SessionRecord>, StoreError>> {
        let (tenant, session) = (tenant.clone(), session.clone());
        self.readers.read(move |connection| rows::session(connection, &tenant, &session)).boxed()
    }

    fn sessions(
        &self,
        tenant: &TenantId,
        below: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<SessionRow>, StoreError>> {
        let tenant = tenant.clone();
        self.readers.read(move |connection| rows::sessions(connection, &tenant, below, limit)).boxed()
    }

    fn kept(
        &self,
        tenant: &TenantId,
        key: &str,
        at: Timestamp,
    ) -> BoxFuture<'_, Result<Option<CommandKey>, StoreError>> {
        let (tenant, key) = (tenant.clone(), key.to_owned());
        self.readers.read(move |connection| keys::find(connection, &tenant, &key, at)).boxed()
    }

    fn turns(&self, tenant: &TenantId, session: &SessionId) -> BoxFuture<'_, Result<Vec<TurnRecord>, StoreError>> {
        self.read_turns(tenant, session, rows::turns)
    }

    fn turns_below(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        below: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<TurnRecord>, StoreError>> {
        let read = move |connection: &Connection, place: &Place| rows::turns_below(connection, place, below, limit);
        self.read_turns(tenant, session, read)
    }

    fn outlines_below(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        below: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<TurnOutline>, StoreError>> {
        let (tenant, session) = (tenant.clone(), session.clone());
        let read = self.readers.read(move |connection| match rows::place(connection, &tenant, &session)? {
            Some(place) => rows::outlines_below(connection, &place, below, limit),
            None => Ok(Vec::new()),
        });
        read.boxed()
    }

    fn queued(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<TurnRecord>, StoreError>> {
        let (tenant, session) = (tenant.clone(), session.clone());
        self.readers.read(move |connection| rows::queued(connection, &tenant, &session, limit)).boxed()
    }

    fn message_count(&self, tenant: &TenantId, session: &SessionId) -> BoxFuture<'_, Result<u64, StoreError>> {
        let (tenant, session) = (tenant.clone(), session.clone());
        self.readers.read(move |connection| rows::message_count(connection, &tenant, &session)).boxed()
    }

    fn history_bytes(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        below: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<u64, StoreError>> {
        let (tenant, session) = (tenant.clone(), session.clone());
        self.readers.read(move |connection| rows::history_bytes(connection, &tenant, &session, below, limit)).boxed()
    }

    fn queued_of_tenant(&self, tenant: &TenantId) -> BoxFuture<'_, Result<u64, StoreError>> {
        let tenant = tenant.clone();
        self.readers.read(move |connection| chores::queued_of_tenant(connection, &tenant)).boxed()
    }

    fn due(&self, limit: usize) -> BoxFuture<'_, Result<Vec<DueTurn>, StoreError>> {
        self.readers.read(move |connection| chores::due(connection, limit)).boxed()
    }

    fn stalled(&self, limit: usize) -> BoxFuture<'_, Result<Vec<(TenantId, SessionId)>, StoreError>> {
        self.readers.read(move |connection| chores::stalled(connection, limit)).boxed()
    }

    fn record(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        id: &str,
    ) -> BoxFuture<'_, Result<Option<RecordRow>, StoreError>> {
        let (tenant, id) = (tenant.clone(), id.to_owned());
        self.readers.read(move |connection| records::record(connection, &tenant, kind, &id)).boxed()
    }

    fn records(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        filter: &RecordFilter,
        below: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<RecordRow>, StoreError>> {
        let (tenant, filter) = (tenant.clone(), filter.clone());
        self.readers.read(move |connection| records::records(connection, &tenant, kind, &filter, below, limit)).boxed()
    }

    fn blob(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        id: &str,
        part: u32,
    ) -> BoxFuture<'_, Result<Option<Bytes>, StoreError>> {
        let (tenant, id) = (tenant.clone(), id.to_owned());
        self.readers.read(move |connection| records::blob(connection, &tenant, kind, &id, part)).boxed()
    }

    fn old_logs(&self, before: Timestamp, level: u8, limit: usize) -> BoxFuture<'_, Result<Vec<TurnId>, StoreError>> {
        self.readers.read(move |connection| chores::old_logs(connection, before, level, limit)).boxed()
    }

    fn old_records(
        &self,
        kind: RecordKind,
        state: &str,
        before: Timestamp,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<RecordRow>, StoreError>> {
        let state = state.to_owned();
        self.readers.read(move |connection| records::old_records(connection, kind, &state, before, limit)).boxed()
    }

    fn records_of_all(
        &self,
        kind: RecordKind,
        state: &str,
        above: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<RecordRow>, StoreError>> {
        let state = state.to_owned();
        self.readers.read(move |connection| records::records_of_all(connection, kind, &state, above, limit)).boxed()
    }

    fn usage(
        &self,
        tenant: &TenantId,
        days: (Day, Day),
        after: Option<&UsageSlot>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<UsageRow>, StoreError>> {
        let (tenant, after) = (tenant.clone(), after.cloned());
        self.readers.read(move |connection| usage::page(connection, &tenant, days, after.as_ref(), limit)).boxed()
    }

    fn used_on(&self, tenant: &TenantId, day: Day, key: Option<&KeyId>) -> BoxFuture<'_, Result<Usage, StoreError>> {
        let (tenant, key) = (tenant.clone(), key.cloned());
        self.readers.read(move |connection| usage::on(connection, &tenant, day, key.as_ref())).boxed()
    }

    fn stored_bytes(&self, tenant: &TenantId) -> BoxFuture<'_, Result<u64, StoreError>> {
        let tenant = tenant.clone();
        self.readers.read(move |connection| usage::stored_bytes(connection, &tenant)).boxed()
    }

    fn idle_sessions(
        &self,
        before: Timestamp,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(TenantId, SessionId)>, StoreError>> {
        self.readers.read(move |connection| chores::idle_sessions(connection, before, limit)).boxed()
    }

    fn turn(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        turn: &TurnId,
    ) -> BoxFuture<'_, Result<Option<TurnRecord>, StoreError>> {
        let (tenant, session, turn, live) = (tenant.clone(), session.clone(), turn.clone(), Arc::clone(&self.live));
        let read = self.readers.read(move |connection| {
            let head = live.head(&turn);
            let mut record = rows::turn(connection, &tenant, &session, &turn)?;
            if let (Some(record), Some(head)) = (&mut record, head) {
                record.head = record.head.max(head);
            }
            Ok(record)
        });
        read.boxed()
    }

    fn read(&self, turn: &TurnId, seq: u64, max_bytes: usize) -> BoxFuture<'_, Result<Vec<Segment>, StoreError>> {
        let (turn, live) = (turn.clone(), Arc::clone(&self.live));
        self.readers.read(move |connection| segments_of(connection, &live, &turn, seq, max_bytes)).boxed()
    }

    fn unfinished<'a>(
        &'a self,
        turns: &'a [ClaimedTurn],
        page: usize,
        max_bytes: usize,
    ) -> BoxFuture<'a, Result<Vec<Option<UnfinishedTurn>>, StoreError>> {
        let (turns, live) = (turns.to_vec(), Arc::clone(&self.live));
        let read = self.readers.read(move |connection| {
            let read_one = |ClaimedTurn { tenant, session, turn, .. }: &ClaimedTurn| {
                let Some(record) = rows::session(connection, tenant, session)? else { return Ok(None) };
                let behind = rows::ordinal(connection, turn)?.map(|ordinal| ordinal + 1);
                let newest =
                    |connection: &Connection, place: &Place| rows::turns_below(connection, place, behind, page);
                let turns = turns_of(connection, &live, tenant, session, newest)?;
                let log = segments_of(connection, &live, turn, 0, max_bytes)?;
                Ok(Some(UnfinishedTurn { session: record, turns, log }))
            };
            turns.iter().map(read_one).collect()
        });
        read.boxed()
    }
}
