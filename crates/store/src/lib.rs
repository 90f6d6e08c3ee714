//! Durable storage of sessions, turns and their logs.
//!
//! [`Store`] is the contract; every engine behind it runs the same contract suite. Group commit is not the store's
//! business: the engine gathers commands from all turns and hands over one batch at a time.

mod command;
#[cfg(feature = "test-support")]
pub mod contract;
mod error;
mod record;
mod secrets;
mod session_command;
#[cfg(feature = "test-support")]
mod sim;
mod sqlite;
mod store;
mod usage;

pub use command::{
    Append, BeginTurn, Command, CommandKey, DeleteSession, EndTurn, Expect, Put, Receipt, Refusal, ReplaceLog, Rest,
    ResumeTurn, Start, Supersede, Write,
};
pub use error::StoreError;
pub use record::{
    ClaimedTurn, DueTurn, NodeId, Record, RecordFilter, RecordKind, RecordRow, SessionRecord, SessionRow, TurnOutline,
    TurnRecord, TurnStatus, TurnSummary, UnfinishedTurn,
};
pub use secrets::{CANARY, SecretBox, SecretError, SecretPlace};
pub use session_command::{EndedTurn, NewSession, Shares, TruncateSession};
#[cfg(feature = "test-support")]
pub use sim::{Fault, Faults, SimStore};
pub use sqlite::{Durability, OpenError, Reseal, ResealError, Resealed, Space, SqliteStore, Vacuumed};
pub use store::Store;
pub use usage::{UsageCount, UsageRow, UsageSlot};
