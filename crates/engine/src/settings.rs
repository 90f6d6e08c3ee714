//! Limits and times of the engine.

use std::{sync::Arc, time::Duration};

use everturn_documents::Reader;

use crate::{Clock, HereReader, SystemClock};

/// How long things are kept. `None`: for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The deltas of finished turns. Without them a turn replays to the same end, each answer in one piece.
    pub deltas: Option<Duration>,
    /// The logs of finished turns, but for their beginning and their end. Messages stay.
    pub logs: Option<Duration>,
    /// Artifacts that nobody changed.
    pub artifacts: Option<Duration>,
    /// Sessions in which nothing happened; they are deleted.
    pub sessions: Option<Duration>,
    /// The names of deleted sessions, which are not given again meanwhile.
    pub deleted: Option<Duration>,
    /// How often to look.
    pub interval: Duration,
    /// How long the clock must have gone evenly before it is believed: since the process began, and since the clock last
    /// jumped ahead. Things that are kept for a shorter time wait only that long.
    pub clock_grace: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            deltas: None,
            logs: None,
            artifacts: None,
            sessions: None,
            deleted: None,
            interval: Duration::from_secs(10 * 60),
            clock_grace: Duration::from_secs(60 * 60),
        }
    }
}

/// How the engine behaves under load and trouble.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How many turns may run at once.
    pub concurrent_turns: usize,
    /// How many submissions may wait for a free slot.
    pub queued_turns: usize,
    /// How long a submission waits for a free slot.
    pub queue_timeout: Duration,
    /// How long a provider may take to begin its answer. `None`: one minute; servers that load a model first have as long as
    /// a silence may be.
    pub first_byte_timeout: Option<Duration>,
    /// How long a provider may be silent within a call, without so much as a ping. `None`: five minutes for models that
    /// think, one for others.
    pub step_idle_timeout: Option<Duration>,
    /// How often a failed model call is made again, before the next model is tried.
    pub retries: u32,
    /// Wait before the first retry; doubles with each.
    pub retry_base: Duration,
    /// The longest wait before a retry, also where the provider asks for more.
    pub retry_max: Duration,
    /// The longest pause that a provider may ask for. A turn rests so long, and goes on after it.
    pub pause_max: Duration,
    /// How many messages may wait in a session for the turn under way to end.
    pub session_queue: usize,
    /// How many messages may wait so in all sessions of a tenant.
    pub tenant_queue: usize,
    /// How long people have to answer a form; `None` for ever.
    pub form_expiry: Option<Duration>,
    /// How long people have to say whether a tool may run; `None` for ever.
    pub approval_expiry: Option<Duration>,
    /// How long people have to answer what a tool asks while it runs.
    pub question_patience: Duration,
    /// Largest answer to a form, in bytes.
    pub form_answer_bytes: usize,
    /// Largest content of an artifact, in bytes.
    pub artifact_bytes: usize,
    /// Largest document, in bytes.
    pub document_bytes: usize,
    /// Where documents are read.
    pub document_reader: Arc<dyn Reader>,
    /// How much of a document's text a model is given, in bytes.
    pub document_context_bytes: usize,
    /// What is cleared away, and when.
    pub retention: Retention,
    /// The memory that requests and turns may hold, in bytes.
    pub memory_bytes: u64,
    /// What is kept in memory of sessions that were used lately, all of them together, in bytes.
    pub warm_bytes: u64,
    /// Recent events that a live turn keeps in memory for its readers, in bytes.
    pub ring_bytes: usize,
    /// Where waits and retention look at the time.
    pub clock: Arc<dyn Clock>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            concurrent_turns: 10_000,
            queued_turns: 1_000,
            queue_timeout: Duration::from_secs(10),
            first_byte_timeout: None,
            step_idle_timeout: None,
            retries: 4,
            retry_base: Duration::from_millis(500),
            retry_max: Duration::from_secs(30),
            pause_max: Duration::from_secs(24 * 60 * 60),
            session_queue: 100,
            tenant_queue: 1_000,
            form_expiry: Some(Duration::from_secs(7 * 24 * 60 * 60)),
            approval_expiry: None,
            question_patience: Duration::from_secs(10 * 60),
            form_answer_bytes: 256 * 1024,
            artifact_bytes: 4 * 1024 * 1024,
            document_bytes: 50 * 1024 * 1024,
            document_reader: Arc::new(HereReader),
            document_context_bytes: 200 * 1024,
            retention: Retention::default(),
            memory_bytes: 1024 * 1024 * 1024,
            warm_bytes: 32 * 1024 * 1024,
            ring_bytes: 256 * 1024,
            clock: Arc::new(SystemClock),
        }
    }
}
