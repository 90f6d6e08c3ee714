//! How much somebody may use.

use std::num::{NonZeroU32, NonZeroU64};

use serde::{Deserialize, Serialize};

/// What a key or a tenant may use at most; nothing said is no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quota {
    /// Requests in a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_second: Option<NonZeroU32>,
    /// Turns that run at once. Those that wait do not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrent_turns: Option<NonZeroU32>,
    /// Tokens in a day, UTC, both directions together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_day: Option<NonZeroU64>,
    /// Bytes of documents, artifacts and logs. Counted for a tenant as a whole: a key has no such bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<NonZeroU64>,
}

impl Quota {
    /// Whether nothing is bounded.
    pub fn is_unbounded(&self) -> bool {
        *self == Self::default()
    }
}
