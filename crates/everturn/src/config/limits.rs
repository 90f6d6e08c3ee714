//! Bounds on what clients and providers may ask of the server.

use std::{ops::RangeInclusive, time::Duration};

use super::{
    check::duration,
    file::{self, Number},
    problem::Report,
};

/// Bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest body of a request, in bytes.
    pub body_bytes: usize,
    /// Deepest nesting of JSON in a request.
    pub json_depth: usize,
    /// Most turns that run at once.
    pub concurrent_turns: usize,
    /// Most turns that wait for one of them to end; more are refused.
    pub queued_turns: usize,
    /// How long a turn waits in that queue before it is refused.
    pub queue_timeout: Duration,
    /// Most open connections.
    pub connections: usize,
    /// How long a provider may take to begin its answer. `None`: 60 seconds; servers that load a model first have as long as
    /// a silence may be.
    pub first_byte_timeout: Option<Duration>,
    /// How long a provider may be silent within a model step. `None`: 5 minutes for models that think, 60 seconds for
    /// others.
    pub step_idle_timeout: Option<Duration>,
    /// How often a failed model step is tried again.
    pub retries: u32,
    /// Longest wait before another try within a step; a turn that must wait longer pauses.
    pub retry_max: Duration,
    /// Recent events of a running turn that are kept in memory for its readers, in bytes.
    pub ring_bytes: usize,
    /// Memory that requests and turns may hold, in bytes. `None`: see [`Limits::memory_of`].
    pub memory: Option<u64>,
    /// Memory for sessions that were used lately, all of them together, in bytes. Others are read from the store when they
    /// are used again.
    pub warm_sessions: usize,
    /// How long steps may go on after the server was told to stop.
    pub shutdown_grace: Duration,
    /// After so long a silence a stream gets a heartbeat.
    pub heartbeat: Duration,
    /// Most messages that wait in a session for the turn under way to end.
    pub session_queue: usize,
    /// Most messages that wait so in all sessions of a tenant.
    pub tenant_queue: usize,
    /// How long people have to answer a form; `None` for ever.
    pub form_expiry: Option<Duration>,
    /// How long people have to say whether a tool may run; `None` for ever.
    pub approval_expiry: Option<Duration>,
    /// How long people have to answer what a tool asks while it runs.
    pub question_expiry: Duration,
    /// Longest pause that a provider may ask a turn for.
    pub pause_max: Duration,
    /// Largest answer to a form, in bytes.
    pub form_answer_bytes: usize,
    /// Largest content of an artifact, in bytes.
    pub artifact_bytes: usize,
    /// Largest document, in bytes.
    pub document_bytes: usize,
    /// How much of a document's text a model is given, in bytes.
    pub document_context_bytes: usize,
    /// Memory that reading a document may take beside the document itself, in bytes.
    pub document_memory: usize,
    /// How long reading a document may take.
    pub document_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 20 * 1024 * 1024,
            json_depth: 64,
            concurrent_turns: 10_000,
            queued_turns: 1000,
            queue_timeout: Duration::from_secs(30),
            connections: 20_000,
            first_byte_timeout: None,
            step_idle_timeout: None,
            retries: 4,
            retry_max: Duration::from_secs(30),
            ring_bytes: 256 * 1024,
            memory: None,
            warm_sessions: 32 * 1024 * 1024,
            shutdown_grace: Duration::from_secs(5),
            heartbeat: Duration::from_secs(15),
            session_queue: 100,
            tenant_queue: 1_000,
            form_expiry: Some(Duration::from_secs(7 * 24 * 60 * 60)),
            approval_expiry: None,
            question_expiry: Duration::from_secs(10 * 60),
            pause_max: Duration::from_secs(24 * 60 * 60),
            form_answer_bytes: 256 * 1024,
            artifact_bytes: 4 * 1024 * 1024,
            document_bytes: 50_000_000,
            document_context_bytes: 200 * 1024,
            document_memory: 256 * 1024 * 1024,
            document_time: Duration::from_secs(20),
        }
    }
}

impl Limits {
    pub(super) fn check(report: &mut Report<'_>, file: &file::Limits) -> Self {
        const ANY_COUNT: RangeInclusive<i64> = 1..=1_000_000;
        let default = Self::default();
        let mut size = |name, value: &Option<Number>, range, default: usize| {
            number(report, name, value.as_ref(), range).and_then(|n| usize::try_from(n).ok()).unwrap_or(default)
        };
        let body_bytes = size("body_bytes", &file.body_bytes, 1024..=1024 * 1024 * 1024, default.body_bytes);
        // The JSON reader itself gives up at 128.
        let json_depth = size("json_depth", &file.json_depth, 8..=127, default.json_depth);
        let concurrent_turns = size("concurrent_turns", &file.concurrent_turns, ANY_COUNT, default.concurrent_turns);
        let queued_turns = size("queued_turns", &file.queued_turns, 0..=1_000_000, default.queued_turns);
        let connections = size("connections", &file.connections, ANY_COUNT, default.connections);
        let ring_bytes = size("ring_bytes", &file.ring_bytes, 4096..=64 * 1024 * 1024, default.ring_bytes);
        // Sixteen gibibytes: beyond that the figure is a mistake.
        let warm_sessions = size("warm_sessions", &file.warm_sessions, 0..=16 << 30, default.warm_sessions);
        let session_queue = size("session_queue", &file.session_queue, 0..=10_000, default.session_queue);
        let tenant_queue = size("tenant_queue", &file.tenant_queue, 0..=1_000_000, default.tenant_queue);
        let form_answer_bytes =
            size("form_answer_bytes", &file.form_answer_bytes, 1024..=8 * 1024 * 1024, default.form_answer_bytes);
        // What the store takes in one piece.
        let artifact_bytes =
            size("artifact_bytes", &file.artifact_bytes, 1024..=8 * 1024 * 1024, default.artifact_bytes);
        let document_bytes = size("document_bytes", &file.document_bytes, 1024..=500_000_000, default.document_bytes);
        let document_context_bytes = size(
            "document_context_bytes",
            &file.document_context_bytes,
            1024..=1024 * 1024,
            default.document_context_bytes,
        );
        // With less, no document is read: the reader itself takes some of it.
        let document_memory =
            size("document_memory", &file.document_memory, 8 * 1024 * 1024..=16 << 30, default.document_memory);
        let memory = number(report, "memory", file.memory.as_ref(), LEAST_MEMORY as i64..=1 << 50);
        let memory = memory.and_then(|bytes| u64::try_from(bytes).ok());
        let least = least_memory(body_bytes, document_bytes);
        if let (Some(file), Some(bytes)) = (&file.memory, memory.filter(|bytes| *bytes < least)) {
            let message = format!(
                "`memory` must be at least four times the largest body (`body_bytes`, `document_bytes`): {least}, not {bytes}"
            );
            report.add(Some(file.span()), message, None);
        }
        let form_expiry = match &file.form_expiry {
            Some(text) if text.get_ref() == "never" => None,
            text => duration(report, "form_expiry", text.as_ref()).or(default.form_expiry),
        };
        let approval_expiry = match &file.approval_expiry {
            Some(text) if text.get_ref() == "never" => None,
            text => duration(report, "approval_expiry", text.as_ref()).or(default.approval_expiry),
        };
        let retries = number(report, "retries", file.retries.as_ref(), 0..=100)
            .and_then(|n| u32::try_from(n).ok())
            .unwrap_or(default.retries);
        let first_byte_timeout = duration(report, "first_byte_timeout", file.first_byte_timeout.as_ref());
        let step_idle_timeout = duration(report, "step_idle_timeout", file.step_idle_timeout.as_ref());
        let mut time = |name, text, default| duration(report, name, text).unwrap_or(default);
        Self {
            body_bytes,
            json_depth,
            concurrent_turns,
            queued_turns,
            queue_timeout: time("queue_timeout", file.queue_timeout.as_ref(), default.queue_timeout),
            connections,
            first_byte_timeout,
            step_idle_timeout,
            retries,
            retry_max: time("retry_max", file.retry_max.as_ref(), default.retry_max),
            ring_bytes,
            memory,
            warm_sessions,
            shutdown_grace: time("shutdown_grace", file.shutdown_grace.as_ref(), default.shutdown_grace),
            heartbeat: time("heartbeat", file.heartbeat.as_ref(), default.heartbeat),
            session_queue,
            tenant_queue,
            form_expiry,
            approval_expiry,
            question_expiry: time("question_expiry", file.question_expiry.as_ref(), default.question_expiry),
            pause_max: time("pause_max", file.pause_max.as_ref(), default.pause_max),
            form_answer_bytes,
            artifact_bytes,
            document_bytes,
            document_context_bytes,
            document_memory,
            document_time: time("document_time", file.document_time.as_ref(), default.document_time),
        }
    }
}

/// The least memory that requests and turns can do with, in bytes.
const LEAST_MEMORY: u64 = 256 * 1024 * 1024;
/// How large a request of Goose's clients may be, whatever `body_bytes` says.
const GOOSE_BODY: usize = 50 * 1024 * 1024;

impl Limits {
    /// The memory that requests and turns may hold on a machine with so much: a quarter of it, unless it is configured.
    pub fn memory_of(&self, machine: u64) -> u64 {
        let least = least_memory(self.body_bytes, self.document_bytes);
        self.memory.unwrap_or_else(|| (machine / 4).max(LEAST_MEMORY).max(least))
    }
}

/// The memory that the largest thing takes which one request may send, and as much for what becomes of it, as half of all: more
/// than half no tenant gets.
fn least_memory(body_bytes: usize, document_bytes: usize) -> u64 {
    let largest = body_bytes.max(document_bytes).max(GOOSE_BODY) as u64;
    largest.saturating_mul(4)
}

/// A number within a range; a problem if it is not.
pub(super) fn number(
    report: &mut Report<'_>,
    name: &str,
    value: Option<&Number>,
    range: RangeInclusive<i64>,
) -> Option<i64> {
    let value = value?;
    let number = *value.get_ref();
    if range.contains(&number) {
        return Some(number);
    }
    let message = format!("`{name}` must be between {} and {}, not {number}", range.start(), range.end());
    report.add(Some(value.span()), message, None);
    None
}
