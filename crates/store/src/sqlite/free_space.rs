//! Gives the space of what was deleted back to the file system while the store is in use.
//!
//! SQLite keeps the pages of deleted rows in the file, for later rows. The writer looks once a second whether more are
//! free than the next rows will need, and moves pages from the end of the file into the free ones, a few milliseconds'
//! worth at a time; the checkpoint then cuts the file. A file that was made without incremental vacuum cannot do this
//! until it is written anew: `VACUUM` at the end (small files) or `everturn vacuum`.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use rusqlite::{Connection, TransactionBehavior};

/// Free pages beyond which the file shrinks (4 MiB), and how many are left for later rows (1 MiB).
const SPARE: u64 = 1024;
const LEFT: u64 = 256;

/// How often to look. Only pages that were free at two looks in a row are given back: the others are in use.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How often some pages are given back, how many at most, and how long moving them may take: ten megabytes and a
/// twentieth of the writer's time each second.
const STEP_EVERY: Duration = Duration::from_millis(100);
const STEP_PAGES: u64 = 256;
const STEP_TIME: Duration = Duration::from_millis(5);

/// How long to wait after a failure, say of a full disk.
const AFTER_FAILURE: Duration = Duration::from_secs(60);

/// How large the file is and how much of it is free, as of the last look. Shared with whoever shows it.
#[derive(Debug, Default)]
pub struct Space {
    page_bytes: AtomicU64,
    pages: AtomicU64,
    free_pages: AtomicU64,
}

impl Space {
    /// Size of the file, in bytes.
    pub fn bytes(&self) -> u64 {
        self.pages.load(Ordering::Relaxed).saturating_mul(self.page_bytes.load(Ordering::Relaxed))
    }

    /// How much of it is free, in bytes.
    pub fn free_bytes(&self) -> u64 {
        self.free_pages().saturating_mul(self.page_bytes.load(Ordering::Relaxed))
    }

    /// How many of its pages are free.
    pub fn free_pages(&self) -> u64 {
        self.free_pages.load(Ordering::Relaxed)
    }
}

/// Decides when the file shrinks, and by how much.
#[derive(Debug)]
pub(super) struct FreeSpace {
    space: Arc<Space>,
    /// Whether the file has incremental vacuum.
    shrinks: bool,
    /// Free pages at the last look.
    free: u64,
    /// Pages that are to be given back before the next look.
    surplus: u64,
    /// When there is something to do next, unless nothing changes meanwhile.
    due: Option<Instant>,
    looked: Instant,
}

impl FreeSpace {
    pub(super) fn new(connection: &Connection, space: Arc<Space>) -> rusqlite::Result<Self> {
        let shrinks = number(connection, "auto_vacuum")? == 2;
        space.page_bytes.store(number(connection, "page_size")?, Ordering::Relaxed);
        let looked = Instant::now();
        let mut this = Self { space, shrinks, free: 0, surplus: 0, due: Some(looked + LOOK_EVERY), looked };
        this.free = this.measure(connection)?;
        if !shrinks && this.free > SPARE {
            let bytes = this.space.free_bytes();
            tracing::info!(
                bytes,
                "the database has free space that it cannot give back; `everturn vacuum` changes that"
            );
        }
        Ok(this)
    }

    /// Something was committed.
    pub(super) fn changed(&mut self) {
        self.due.get_or_insert(self.looked + LOOK_EVERY);
    }

    /// When there is something to do, unless nothing is committed meanwhile.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Looks, or gives some pages back. Tells whether the file is now as small as it becomes.
    pub(super) fn work(&mut self, connection: &mut Connection) -> bool {
        let worked = if self.surplus > 0 { self.step(connection) } else { self.look(connection).map(|()| false) };
        worked.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot give free space of the database back; it is tried again in a minute");
            self.surplus = 0;
            self.due = Some(Instant::now() + AFTER_FAILURE);
            false
        })
    }

    fn look(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        self.looked = Instant::now();
        let free = self.measure(connection)?;
        let stayed = self.free.min(free);
        self.free = free;
        self.due = None;
        if self.shrinks && free > SPARE {
            self.surplus = if stayed > SPARE { stayed - LEFT } else { 0 };
            let wait = if self.surplus > 0 { Duration::ZERO } else { LOOK_EVERY };
            self.due = Some(self.looked + wait);
        }
        Ok(())
    }

    fn step(&mut self, connection: &mut Connection) -> rusqlite::Result<bool> {
        let begun = Instant::now();
        let pages = self.surplus.min(STEP_PAGES);
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut moved = 0;
        {
            // Each row stands for a page that was given back.
            let mut vacuum = transaction.prepare(&format!("PRAGMA incremental_vacuum({pages})"))?;
            let mut rows = vacuum.query([])?;
            while begun.elapsed() < STEP_TIME && rows.next()?.is_some() {
                moved += 1;
            }
        }
        transaction.commit()?;
        self.free = self.measure(connection)?;
        // What others have taken meanwhile is not free any more.
        self.surplus = self.surplus.saturating_sub(moved.max(1)).min(self.free.saturating_sub(LEFT));
        self.due = Some(if self.surplus > 0 { begun + STEP_EVERY } else { begun + LOOK_EVERY });
        Ok(self.surplus == 0)
    }

    fn measure(&self, connection: &Connection) -> rusqlite::Result<u64> {
        let free = number(connection, "freelist_count")?;
        self.space.pages.store(number(connection, "page_count")?, Ordering::Relaxed);
        self.space.free_pages.store(free, Ordering::Relaxed);
        Ok(free)
    }
}

fn number(connection: &Connection, pragma: &str) -> rusqlite::Result<u64> {
    connection.pragma_query_value(None, pragma, |row| row.get(0))
}
