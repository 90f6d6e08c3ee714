//! Limits and times of the engine.

use std::time::Duration;

/// How the engine behaves under load and trouble.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How many turns may run at once.
    pub concurrent_turns: usize,
    /// How many submissions may wait for a free slot.
    pub queued_turns: usize,
    /// How long a submission waits for a free slot.
    pub queue_timeout: Duration,
    /// How long a provider may be silent within a call.
    pub step_idle_timeout: Duration,
    /// How often a failed model call is made again, before the next model is tried.
    pub retries: u32,
    /// Wait before the first retry; doubles with each.
    pub retry_base: Duration,
    /// The longest wait before a retry, also where the provider asks for more.
    pub retry_max: Duration,
    /// Recent events that a live turn keeps in memory for its readers, in bytes.
    pub ring_bytes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            concurrent_turns: 10_000,
            queued_turns: 1_000,
            queue_timeout: Duration::from_secs(10),
            step_idle_timeout: Duration::from_secs(60),
            retries: 4,
            retry_base: Duration::from_millis(500),
            retry_max: Duration::from_secs(30),
            ring_bytes: 256 * 1024,
        }
    }
}
