//! Tokens as the tables keep them: five columns each, in the same order everywhere.

use everturn_core::Usage;
use rusqlite::Row;

use super::rows::int;

/// More tokens than anybody can use. Keeps sums within what SQLite counts with.
pub(super) const MOST: i64 = 1 << 60;

/// A count as it is kept.
pub(super) fn bounded(count: u64) -> i64 {
    int(count).min(MOST)
}

/// The values of the columns.
pub(super) fn columns(usage: Usage) -> [i64; 5] {
    [usage.input, usage.output, usage.cached_input, usage.cache_write, usage.reasoning].map(bounded)
}

/// Reads the columns, of which this is the first.
pub(super) fn read(row: &Row<'_>, first: usize) -> rusqlite::Result<Usage> {
    Ok(Usage {
        input: row.get(first)?,
        output: row.get(first + 1)?,
        cached_input: row.get(first + 2)?,
        cache_write: row.get(first + 3)?,
        reasoning: row.get(first + 4)?,
    })
}
