//! Keeps `log` short.
//!
//! The rows of a turn lie scattered among those of others, so deleting them when they are gathered would rewrite a page
//! for each. They are left where they are, dead, until no living row lies before them: then whole pages go at once. A
//! turn that is silent for long would keep all that came after it, so when `log` has grown long, the turns with the
//! oldest rows are gathered.
//!
//! Dead rows may also be all that is left of a deleted session. So a deletion makes everything that `log` holds by then
//! due: the writer gathers and trims, a step at a time, whenever it has nothing else to do.

use rusqlite::Connection;

use super::{live::Load, rows::int};
use crate::StoreError;

/// How much is written between two attempts. No more than a busy batch writes: the pages that it frees are overwritten,
/// and that costs next to nothing if the same batch takes them for its own rows.
const EVERY: Load = Load { rows: 256, bytes: 64 << 10 };

/// How many rows go at once, and how many for each that was written in between. So the dead become fewer, and do not
/// hold up a commit.
const AT_ONCE: usize = 1_024;
const FOR_EACH: usize = 4;

/// How much of `log` may be kept by turns that are silent.
const LONG: Load = Load { rows: 128 * 1024, bytes: 64 << 20 };

/// How many turns with old rows are gathered at once.
pub(super) const OLDEST: usize = 32;

/// Where `log` begins and how much it holds, dead rows included.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Extent {
    /// No row is before this one.
    pub(super) first: i64,
    pub(super) load: Load,
    /// How much was written since the last attempt.
    pub(super) since: Load,
    /// Rows before this one may hold what was deleted, and must go soon.
    pub(super) owed: i64,
}

impl Extent {
    /// Rows were written.
    pub(super) fn grow(&mut self, written: Load) {
        for load in [&mut self.load, &mut self.since] {
            load.rows += written.rows;
            load.bytes += written.bytes;
        }
    }

    /// Rows were deleted, though not by [`Extent::trim`].
    pub(super) fn shrink(&mut self, deleted: Load) {
        self.load.rows = self.load.rows.saturating_sub(deleted.rows);
        self.load.bytes = self.load.bytes.saturating_sub(deleted.bytes);
    }

    /// The first row that may stay, if any before it must go soon.
    pub(super) fn owed(&self) -> Option<i64> {
        (self.first < self.owed).then_some(self.owed)
    }

    /// Whether to make an attempt now.
    pub(super) fn is_due(&self) -> bool {
        self.since.rows >= EVERY.rows || self.since.bytes >= EVERY.bytes
    }

    /// Whether the oldest rows must be gathered.
    pub(super) fn is_long(&self) -> bool {
        self.load.rows >= LONG.rows || self.load.bytes >= LONG.bytes
    }

    /// Deletes dead rows; `alive` is the first row that may be alive.
    pub(super) fn trim(&mut self, connection: &Connection, alive: i64) -> Result<(), StoreError> {
        let count = AT_ONCE.max(self.since.rows.saturating_mul(FOR_EACH));
        self.since = Load::default();
        let end = alive.min(self.first.saturating_add(int(count as u64)));
        if end <= self.first {
            return Ok(());
        }
        let range = [self.first, end];
        let bytes: u64 = connection
            .prepare_cached("SELECT ifnull(sum(length(bytes)), 0) FROM log WHERE id >= ?1 AND id < ?2")?
            .query_row(range, |row| row.get(0))?;
        let rows = connection.prepare_cached("DELETE FROM log WHERE id >= ?1 AND id < ?2")?.execute(range)?;
        self.first = end;
        self.shrink(Load { rows, bytes });
        Ok(())
    }
}
