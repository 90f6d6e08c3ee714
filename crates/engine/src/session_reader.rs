//! Readers of a whole session: one turn after the other, those to come included.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    str::FromStr,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use bytes::Bytes;
use everturn_core::{Event, Outcome, SessionId, TenantId, TurnId};
use everturn_store::{SessionRecord, StoreError, TurnOutline, TurnStatus};
use tokio::sync::Notify;

use crate::{Cursor, CursorError, Engine, OpenError, Projection, ReadError, TurnReader, projection::write_cursor};

/// How often a reader looks for the next turn itself, should nobody tell it.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// How many turns are looked at at a time.
const PAGE: usize = 16;
/// How many turns after the last one are looked at for the next: most often it is the first of them.
const AHEAD: usize = 4;
/// How many up to the last one are looked at, to see whether they are still there.
const BEHIND: usize = 4;
/// How many of the turns that it has read a reader remembers, to notice when they are taken away.
const REMEMBERED: usize = 256;

/// Where a reader of a session stands: in which turn, and where in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionCursor {
    /// The turn.
    pub turn: TurnId,
    /// The place in it.
    pub cursor: Cursor,
}

impl fmt::Display for SessionCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cursor = Vec::new();
        write_cursor(&mut cursor, self.cursor);
        write!(f, "{}:{}", self.turn, String::from_utf8_lossy(&cursor))
    }
}

impl FromStr for SessionCursor {
    type Err = CursorError;

    /// Takes the `id:` of a frame of a session's stream back.
    fn from_str(text: &str) -> Result<Self, CursorError> {
        let (turn, cursor) = text.split_once(':').ok_or(CursorError)?;
        Ok(Self { turn: turn.parse().map_err(|_| CursorError)?, cursor: cursor.parse()? })
    }
}

/// Those who wait for the next turn of a session.
#[derive(Debug, Default)]
pub(crate) struct Watchers(Mutex<HashMap<(TenantId, SessionId), Weak<Notify>>>);

impl Watchers {
    fn watch(&self, tenant: &TenantId, session: &SessionId) -> Arc<Notify> {
        let mut watchers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if watchers.len().is_power_of_two() {
            watchers.retain(|_, watcher| watcher.strong_count() > 0);
        }
        let entry = watchers.entry((tenant.clone(), session.clone())).or_default();
        entry.upgrade().unwrap_or_else(|| {
            let notify = Arc::new(Notify::new());
            *entry = Arc::downgrade(&notify);
            notify
        })
    }

    /// Says that a turn has begun, or that a session is gone.
    pub(crate) fn tell(&self, tenant: &TenantId, session: &SessionId) {
        let mut watchers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if watchers.is_empty() {
            return;
        }
        let key = (tenant.clone(), session.clone());
        match watchers.get(&key).map(Weak::upgrade) {
            Some(Some(notify)) => notify.notify_waiters(),
            Some(None) => drop(watchers.remove(&key)),
            None => {}
        }
    }
}

/// Reads all turns of a session, as one projection shows them, from some place on.
pub struct SessionReader {
    engine: Engine,
    tenant: TenantId,
    session: SessionId,
    projection: &'static dyn Projection,
    turn: Option<TurnReader>,
    /// The last turn that was read, or is being read, by its ordinal.
    after: u64,
    /// The last turns up to that one, in order.
    read: VecDeque<(u64, TurnId)>,
    begun: Arc<Notify>,
}

impl fmt::Debug for SessionReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionReader")
            .field("session", &self.session)
            .field("after", &self.after)
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// Reads a session from a cursor on; from one of a turn that is not there any more, with the turns that began after it.
    /// Without one, from the beginning of the turn under way, or from the next one.
    pub async fn read_session(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        projection: &'static dyn Projection,
        cursor: Option<SessionCursor>,
    ) -> Result<SessionReader, OpenError> {
        // Watched before it is looked at, so that no turn begins unseen.
        let begun = self.0.watchers.watch(tenant, session);
        let record = self.0.store.session(tenant, session).await?.ok_or(OpenError::NotFound)?;
        let from = match &cursor {
            Some(cursor) => self.0.store.turn(tenant, session, &cursor.turn).await?,
            None => None,
        };
        let (turn, after) = match (cursor, from) {
            (Some(cursor), Some(from)) => {
                (self.read_turn(tenant, session, &from.id, projection, cursor.cursor).await?, from.ordinal)
            }
            (Some(gone), None) => (None, self.before(&record, &gone.turn).await?),
            (None, _) => (None, self.over_now(&record).await?),
        };
        let read = self.last_turns(&record, after).await?;
        let (tenant, session) = (tenant.clone(), session.clone());
        Ok(SessionReader { engine: self.clone(), tenant, session, projection, turn, after, read, begun })
    }

    /// Reads a session from the first turn that it has.
    pub async fn read_whole_session(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        projection: &'static dyn Projection,
    ) -> Result<SessionReader, OpenError> {
        let begun = self.0.watchers.watch(tenant, session);
        self.0.store.session(tenant, session).await?.ok_or(OpenError::NotFound)?;
        let (tenant, session, read) = (tenant.clone(), session.clone(), VecDeque::new());
        Ok(SessionReader { engine: self.clone(), tenant, session, projection, turn: None, after: 0, read, begun })
    }

    /// The last turn that is over, by its ordinal, before the one under way or the next one.
    async fn over_now(&self, session: &SessionRecord) -> Result<u64, StoreError> {
        let (tenant, store) = (&session.tenant, &self.0.store);
        let last = match &session.last_turn {
            Some(last) => store.turn(tenant, &session.id, &last.id).await?,
            None => None,
        };
        match last {
            Some(last) if !last.status.is_ended() => Ok(last.ordinal - 1),
            Some(last) if session.queued > 0 => Ok(last.ordinal),
            // There may be some that were ended while they were queued.
            Some(_) | None => {
                let newest = store.outlines_below(tenant, &session.id, None, 1).await?;
                Ok(newest.first().filter(|turn| turn.status.is_ended()).map_or(0, |turn| turn.ordinal))
            }
        }
    }

    /// The last turn that began before one that was taken away, by its ordinal: names of turns lie in the order of time.
    async fn before(&self, session: &SessionRecord, gone: &TurnId) -> Result<u64, StoreError> {
        let mut below = None;
        loop {
            let page = self.0.store.outlines_below(&session.tenant, &session.id, below, PAGE).await?;
            match page.iter().find(|turn| turn.id < *gone).map(|turn| turn.ordinal) {
                Some(ordinal) => return Ok(ordinal),
                None if page.len() < PAGE => return Ok(0),
                None => below = page.last().map(|turn| turn.ordinal),
            }
        }
    }

    /// The last turns up to an ordinal, in order.
    async fn last_turns(&self, session: &SessionRecord, after: u64) -> Result<VecDeque<(u64, TurnId)>, StoreError> {
        let last = self.0.store.outlines_below(&session.tenant, &session.id, Some(after + 1), PAGE).await?;
        Ok(last.into_iter().rev().map(|turn| (turn.ordinal, turn.id)).collect())
    }

    /// The client's names for the turns of a session that are under way.
    pub async fn active_requests(&self, tenant: &TenantId, session: &SessionId) -> Result<Vec<String>, ReadError> {
        Ok(self.open_request(tenant, session).await?.into_iter().map(|(_, request)| request).collect())
    }

    /// The turn under way that a client calls so.
    pub async fn turn_of_request(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        request: &str,
    ) -> Result<Option<TurnId>, ReadError> {
        let open = self.open_request(tenant, session).await?;
        Ok(open.filter(|(_, name)| name == request).map(|(turn, _)| turn))
    }

    async fn open_request(
        &self,
        tenant: &TenantId,
        session: &SessionId,
    ) -> Result<Option<(TurnId, String)>, ReadError> {
        let record = self.0.store.session(tenant, session).await?;
        let open = record.and_then(|record| record.last_turn).filter(|turn| !turn.status.is_ended());
        let Some(turn) = open else { return Ok(None) };
        for segment in self.0.store.read(&turn.id, 0, 1).await? {
            if let Some(first) = segment.events().next()
                && let Event::TurnStarted(started) = first?.decode()?
            {
                let request = started.request.unwrap_or_else(|| turn.id.to_string());
                return Ok(Some((turn.id, request)));
            }
        }
        Ok(None)
    }
}

impl SessionReader {
    /// What its stream begins with.
    pub fn opening(&self) -> Bytes {
        Bytes::from_static(self.projection.opening())
    }

    /// What keeps its stream open while there is nothing to show.
    pub fn heartbeat(&self) -> Bytes {
        self.turn.as_ref().map_or_else(|| self.projection.heartbeat(Cursor::default()), TurnReader::heartbeat)
    }

    /// The session that it reads.
    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// The next frames, as soon as there are any; never empty. `None` if the session was deleted, or nothing more will come
    /// from this process. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ReadError> {
        loop {
            if let Some(turn) = &mut self.turn {
                if let Some(frames) = turn.next().await? {
                    return Ok(Some(frames));
                }
                self.turn = None;
            }
            if self.engine.0.draining() {
                return Ok(None);
            }
            let begun = Arc::clone(&self.begun);
            let mut begun = std::pin::pin!(begun.notified());
            begun.as_mut().enable();
            match self.next_turn().await? {
                Some(turn) => {
                    // None if it went away in between.
                    let reader = self.open(&turn).await?;
                    self.remember(&turn);
                    self.turn = reader;
                }
                None if self.engine.0.store.session(&self.tenant, &self.session).await?.is_none() => return Ok(None),
                None => {
                    tokio::select! {
                        () = begun => {}
                        () = tokio::time::sleep(LOOK_AGAIN) => {}
                        () = self.engine.0.drain.cancelled() => {}
                    }
                }
            }
        }
    }

    async fn open(&self, turn: &TurnOutline) -> Result<Option<TurnReader>, ReadError> {
        let opened = self.engine.read_turn(&self.tenant, &self.session, &turn.id, self.projection, Cursor::default());
        match opened.await {
            Ok(reader) => Ok(reader),
            Err(OpenError::NotFound | OpenError::Cursor { .. } | OpenError::Part { .. }) => Ok(None),
            Err(OpenError::Store(error)) => Err(error.into()),
            Err(OpenError::Read(error)) => Err(error),
        }
    }

    fn remember(&mut self, turn: &TurnOutline) {
        self.after = turn.ordinal;
        self.read.push_back((turn.ordinal, turn.id.clone()));
        if self.read.len() > REMEMBERED {
            self.read.pop_front();
        }
    }

    /// The next turn, if it has begun. Those after it must wait for it, also if they are over already.
    ///
    /// Ordinals have no gaps, so it is found by its own, however many turns there are before and after it.
    async fn next_turn(&mut self) -> Result<Option<TurnOutline>, StoreError> {
        let mut from = self.after;
        loop {
            let below = Some(from + AHEAD as u64 + 1);
            let page = self.engine.0.store.outlines_below(&self.tenant, &self.session, below, AHEAD + BEHIND).await?;
            let Some(newest) = page.first().map(|turn| turn.ordinal) else { return Ok(None) };
            if self.was_cut(&page) {
                // Others take the place of those that were taken away.
                if self.read.is_empty() && self.after > 0 {
                    self.begin_now().await?;
                }
                from = self.after;
                continue;
            }
            match page.into_iter().rfind(|turn| turn.ordinal > from && !is_told(turn)) {
                Some(next) => return Ok(Some(next).filter(|turn| turn.status != TurnStatus::Queued)),
                None if newest < from + AHEAD as u64 => return Ok(None),
                None => from = newest,
            }
        }
    }

    /// More was taken away than the reader remembers: it goes on as one that was opened now.
    async fn begin_now(&mut self) -> Result<(), StoreError> {
        if let Some(session) = self.engine.0.store.session(&self.tenant, &self.session).await? {
            self.after = self.engine.over_now(&session).await?;
            self.read = self.engine.last_turns(&session, self.after).await?;
        }
        Ok(())
    }

    /// Whether turns that were read are not in their places any more, as far as this page goes; then those before them count.
    fn was_cut(&mut self, page: &[TurnOutline]) -> bool {
        let lowest = page.last().map_or(0, |turn| turn.ordinal);
        let before = self.after;
        while let Some((ordinal, last)) = self.read.back().filter(|(ordinal, _)| *ordinal >= lowest) {
            if page.iter().any(|turn| turn.ordinal == *ordinal && turn.id == *last) {
                break;
            }
            self.after = ordinal - 1;
            self.read.pop_back();
        }
        self.after < before
    }
}

/// Whether all that is known of a turn is what was said: it is no news.
fn is_told(turn: &TurnOutline) -> bool {
    turn.status == TurnStatus::Ended(Outcome::Completed) && turn.head == 2
}
