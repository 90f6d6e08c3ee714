//! Judges the commands of a batch and writes those that are kept.
//!
//! Every check of a command comes before its first write, so a refused command leaves nothing behind and needs no
//! savepoint.

mod history;
mod lookup;
mod records;
mod sessions;
mod turns;
mod write;

use everturn_core::Segment;
use rusqlite::Connection;

use super::{
    live::{LiveTurns, Load, Staged},
    log::MAX_SEQ,
    usage::Spent,
};
use crate::{Command, Receipt, Refusal, StoreError};

/// Why a command is not kept.
enum Stop {
    Refused(Refusal),
    /// The batch fails.
    Failed(StoreError),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

impl From<rusqlite::Error> for Stop {
    fn from(error: rusqlite::Error) -> Self {
        Self::Failed(error.into())
    }
}

type Judged = Result<Receipt, Stop>;

/// Rows are numbered by the writer: a number is not given twice as long as a reader may remember it.
#[derive(Debug)]
pub(super) struct RowIds {
    pub(super) next_turn: i64,
    pub(super) next_log: i64,
}

impl RowIds {
    fn turn(&mut self) -> i64 {
        self.next_turn += 1;
        self.next_turn - 1
    }

    fn log(&mut self) -> i64 {
        self.next_log += 1;
        self.next_log - 1
    }
}

/// What a batch has taken away, and so must be cleared away.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gone {
    /// How much it has deleted from `log`.
    pub(super) rows: Load,
    /// Whether dead rows of `log` may hold what it has taken away.
    pub(super) from_log: bool,
    /// Whether unused parts of pages may.
    pub(super) from_pages: bool,
}

/// A batch on its way into the database.
pub(super) struct Batch<'transaction, 'writer> {
    connection: &'transaction Connection,
    pub(super) staged: Staged<'writer>,
    ids: &'writer mut RowIds,
    /// How much of running turns it has gathered.
    gathered: Load,
    /// How much it has written to `log`.
    pub(super) written: Load,
    pub(super) gone: Gone,
    spent: Spent,
}

impl<'transaction, 'writer> Batch<'transaction, 'writer> {
    pub(super) fn new(
        connection: &'transaction Connection,
        live: &'writer LiveTurns,
        ids: &'writer mut RowIds,
    ) -> Self {
        Self {
            connection,
            staged: Staged::new(live),
            ids,
            gathered: Load::default(),
            written: Load::default(),
            gone: Gone::default(),
            spent: Spent::default(),
        }
    }

    /// Writes what the commands have in common. Nothing is judged after that.
    pub(super) fn finish(&self) -> Result<(), StoreError> {
        self.spent.write(self.connection)
    }

    pub(super) fn judge(&mut self, command: &Command) -> Result<Result<Receipt, Refusal>, StoreError> {
        let judged = match command {
            Command::CreateSession(new) => self.create_session(new),
            Command::BeginTurn(begin) => self.begin_turn(begin),
            Command::ResumeTurn(resume) => self.resume_turn(resume),
            Command::EndTurn(end) => self.end_turn(end),
            Command::TruncateSession(truncate) => self.truncate_session(truncate),
            Command::Append(append) => self.append(append),
            Command::Put(put) => self.put(put),
            Command::DeleteSession(delete) => self.delete_session(delete),
            Command::ReplaceLog(replace) => self.replace_log(replace),
            Command::ForgetDeleted { before } => self.forget_deleted(*before),
        };
        match judged {
            Ok(receipt) => Ok(Ok(receipt)),
            Err(Stop::Refused(refusal)) => Ok(Err(refusal)),
            Err(Stop::Failed(error)) => Err(error),
        }
    }
}

/// Refuses a segment unless it begins right after `head` and ends where a log may end.
fn follows(head: u64, segment: &Segment) -> Result<(), Refusal> {
    let first_seq = segment.first_seq();
    if first_seq == head + 1 && head + u64::from(segment.count()) <= MAX_SEQ {
        Ok(())
    } else {
        Err(Refusal::Gap { head, first_seq })
    }
}

/// Whether a log that ends at `head` has all of a segment's events.
fn ends_within(segment: &Segment, head: u64) -> bool {
    segment.first_seq().saturating_add(u64::from(segment.count())) <= head + 1
}

/// Whether a log that ends at `head` ends with a segment.
fn ends_at(segment: &Segment, head: u64) -> bool {
    segment.first_seq().saturating_add(u64::from(segment.count())) == head + 1
}
