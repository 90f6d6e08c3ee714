//! What was used, summed up as it is used.

use everturn_core::{Day, KeyId, Usage};

/// What is counted together. One for every day, agent, model and key that something was used with.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UsageSlot {
    /// When.
    pub day: Day,
    /// By which agent.
    pub agent: String,
    /// Of which model, `provider/model`.
    pub model: String,
    /// With which key; `None` where none was needed.
    pub key: Option<KeyId>,
}

/// How much was used. Sums stop at 2^60.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageCount {
    /// Turns that began.
    pub turns: u64,
    /// Model calls, those that were made again included.
    pub calls: u64,
    /// Tokens.
    pub tokens: Usage,
}

/// What a tenant used, in one slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageRow {
    /// Which.
    pub slot: UsageSlot,
    /// How much.
    pub count: UsageCount,
}
