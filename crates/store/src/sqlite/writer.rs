//! The one thread that writes.

use std::{
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::Thread,
    time::{Duration, Instant},
};

use everturn_core::TurnId;
use rusqlite::{Connection, TransactionBehavior, config::DbConfig};
use tokio::sync::{
    mpsc::{self, error::TryRecvError},
    oneshot,
};

use super::{
    batch::{Batch, RowIds},
    checkpoint::Checkpointer,
    free_space::{FreeSpace, Space},
    live::LiveTurns,
    location::Location,
    trim::{Extent, OLDEST},
};
use crate::{ClaimedTurn, Command, NodeId, Receipt, Refusal, StoreError};

type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

/// What the writer is asked to do. Whoever asked may be gone when the answer comes.
pub(super) enum Request {
    Commit {
        batch: Arc<Vec<Command>>,
        answer: Answer<Vec<Result<Receipt, Refusal>>>,
    },
    Claim {
        node: NodeId,
        limit: usize,
        answer: Answer<Vec<ClaimedTurn>>,
    },
    /// Lets a test bring the connection into trouble.
    #[cfg(test)]
    Run(Box<dyn FnOnce(&mut Connection) + Send>),
}

/// Owns the connection that writes.
pub(super) struct Writer {
    connection: Connection,
    live: Arc<LiveTurns>,
    ids: RowIds,
    extent: Extent,
    checkpointer: Checkpointer,
    free_space: FreeSpace,
    location: Arc<Location>,
    /// When to look next whether the files are where they were.
    look_at: Instant,
    /// Whether anything was deleted since the file was last put in order.
    may_hold_copies: bool,
}

/// How often to look whether the files are where they were.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A file up to this size is written anew at the end if anything was deleted.
const REWRITTEN: u64 = 64 << 20;

impl Writer {
    pub(super) fn new(
        location: Arc<Location>,
        mut connection: Connection,
        live: Arc<LiveTurns>,
        ids: RowIds,
        extent: Extent,
        space: Arc<Space>,
    ) -> rusqlite::Result<Self> {
        let checkpointer = Checkpointer::start(location.database(), &mut connection)?;
        let free_space = FreeSpace::new(&connection, space)?;
        // Rows in `log` tell of a crash, before which sessions may have been deleted.
        let may_hold_copies = extent.load.rows > 0;
        let look_at = Instant::now() + LOOK_EVERY;
        Ok(Self { connection, live, ids, extent, checkpointer, free_space, location, look_at, may_hold_copies })
    }

    /// Works until nobody can ask any more. If it panics, the channel closes and everybody who waits is told so.
    pub(super) fn run(mut self, mut requests: mpsc::Receiver<Request>) {
        while let Some(request) = self.next(&mut requests) {
            match request {
                Request::Commit { batch, answer } => {
                    let judged = self
                        .look_around()
                        .and_then(|()| self.transact(|work| batch.iter().map(|command| work.judge(command)).collect()));
                    let _ = answer.send(judged);
                }
                Request::Claim { node, limit, answer } => {
                    let claimed = self.look_around().and_then(|()| self.transact(|work| work.claim(&node, limit)));
                    let _ = answer.send(claimed);
                }
                #[cfg(test)]
                Request::Run(job) => job(&mut self.connection),
            }
            self.checkpointer.after_commit(&self.connection);
            self.free_space.changed();
        }
        self.close();
    }

    /// Waits for a request. Meanwhile clears away what was deleted, gives its space back, and looks whether the files are
    /// where they were.
    fn next(&mut self, requests: &mut mpsc::Receiver<Request>) -> Option<Request> {
        loop {
            // Files that were moved away may be on their way to somewhere else: they are left as they are.
            let in_place = self.look_around().is_ok();
            if in_place && self.extent.owed().is_some() {
                match requests.try_recv() {
                    Ok(request) => return Some(request),
                    Err(TryRecvError::Disconnected) => return None,
                    Err(TryRecvError::Empty) => self.clear_away(),
                }
                continue;
            }
            let due = self.free_space.due().filter(|_| in_place);
            // Once it is due it comes first, so that a busy store shrinks too. It takes a small part of the time.
            if due.is_some_and(|due| due <= Instant::now()) {
                self.give_space_back();
                continue;
            }
            let until = due.map_or(self.look_at, |due| due.min(self.look_at));
            if let Poll::Ready(request) = receive_until(requests, until) {
                return request;
            }
        }
    }

    /// Whether the files are where they were, as of a look that is a second old at most.
    fn look_around(&mut self) -> Result<(), StoreError> {
        let now = Instant::now();
        if self.look_at <= now {
            self.location.look();
            self.look_at = now + LOOK_EVERY;
        }
        self.location.health()
    }

    fn clear_away(&mut self) {
        if let Err(error) = self.transact_and_trim(|_| Ok(())) {
            tracing::warn!(%error, "cannot clear away what was deleted; the next deletion, or the end, tries again");
            self.extent.owed = 0;
        }
        self.checkpointer.after_commit(&self.connection);
        self.free_space.changed();
    }

    fn give_space_back(&mut self) {
        if self.free_space.work(&mut self.connection) {
            // The file itself is cut when the log has been copied.
            self.checkpointer.copy_soon();
        } else {
            self.checkpointer.after_commit(&self.connection);
        }
    }

    /// Leaves a file that stands alone and holds nothing that was deleted.
    fn close(&mut self) {
        if self.location.check().is_err() {
            // SQLite removes the write-ahead log by its name, and by now that may be the log of another database.
            let kept = self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
            if let Err(error) = kept {
                tracing::warn!(%error, "cannot keep the write-ahead log of a database that was moved");
            }
        }
        let running = self.live.oldest(i64::MAX, usize::MAX);
        if self.extent.load.rows > 0
            && let Err(error) = self.transact(|work| work.clear_log(&running))
        {
            tracing::warn!(%error, "cannot clear away what was deleted; the next start will");
        }
        if self.may_hold_copies
            && let Err(error) = self.rewrite()
        {
            tracing::warn!(%error, "cannot write the database anew; copies of what was deleted may be left in it");
        }
        self.checkpointer.stop();
        if let Err(error) = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())) {
            tracing::warn!(%error, "cannot move the write-ahead log into the database; the next start will");
        }
    }

    /// SQLite overwrites what is deleted, but not the copies that it leaves in unused parts of pages when rows move from
    /// one page to another. Only writing the file anew removes them, and only a small one is written in no time.
    fn rewrite(&self) -> rusqlite::Result<()> {
        let pages: u64 = self.connection.pragma_query_value(None, "page_count", |row| row.get(0))?;
        let size: u64 = self.connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
        if pages.saturating_mul(size) <= REWRITTEN {
            return self.connection.execute_batch("VACUUM");
        }
        let told =
            "copies of what was deleted may be left in unused parts of the database; `everturn vacuum` removes them";
        tracing::info!("{told}");
        Ok(())
    }

    /// One transaction, in which `log` is trimmed if that is due.
    fn transact<T>(&mut self, work: impl FnOnce(&mut Batch<'_, '_>) -> Result<T, StoreError>) -> Result<T, StoreError> {
        if self.extent.is_due() { self.transact_and_trim(work) } else { self.transact_with(work, None) }
    }

    fn transact_and_trim<T>(
        &mut self,
        work: impl FnOnce(&mut Batch<'_, '_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        // What was published is durable, so rows before the first that it names are dead, whatever this batch does.
        let alive = self.live.first_row().unwrap_or(self.ids.next_log);
        let end = if self.extent.is_long() { Some(i64::MAX) } else { self.extent.owed() };
        let oldest = end.map(|end| self.live.oldest(end, OLDEST)).unwrap_or_default();
        self.transact_with(work, Some(Trim { alive, oldest }))
    }

    /// One transaction. What it staged in memory is published if, and only if, it is durable.
    fn transact_with<T>(
        &mut self,
        work: impl FnOnce(&mut Batch<'_, '_>) -> Result<T, StoreError>,
        trim: Option<Trim>,
    ) -> Result<T, StoreError> {
        let mut extent = self.extent;
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut batch = Batch::new(&transaction, &self.live, &mut self.ids);
        if let Some(Trim { alive, oldest }) = trim {
            // First, so that the work takes the pages that this frees: what is overwritten then costs no write.
            extent.trim(&transaction, alive)?;
            batch.gather_oldest(&oldest)?;
        }
        let done = work(&mut batch)?;
        batch.finish()?;
        let Batch { staged, written, gone, .. } = batch;
        extent.grow(written);
        extent.shrink(gone.rows);
        transaction.commit()?;
        staged.publish();
        if gone.from_log {
            extent.owed = self.ids.next_log;
        }
        self.may_hold_copies |= gone.from_pages;
        self.extent = extent;
        Ok(done)
    }
}

/// Wakes the writer.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a request until a time. Ready with none if nobody can ask any more.
fn receive_until(requests: &mut mpsc::Receiver<Request>, until: Instant) -> Poll<Option<Request>> {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let ready @ Poll::Ready(_) = requests.poll_recv(&mut context) {
            return ready;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Poll::Pending;
        }
        std::thread::park_timeout(left);
    }
}

/// What a transaction does to keep `log` short.
struct Trim {
    /// The first row that may be alive.
    alive: i64,
    /// Turns to be gathered.
    oldest: Vec<TurnId>,
}
