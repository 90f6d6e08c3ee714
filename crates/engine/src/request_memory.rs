//! The memory of model requests: what is sent, images and documents included, and what it is written from.
//!
//! A turn that finds no memory for its request does not fail: it waits a little, then pauses, says so, and comes back.

use std::time::Duration;

use everturn_core::Wait;
use everturn_models::ModelRequest;

use crate::{
    MemoryExhausted, MemoryKind, Reservation,
    step::after,
    turn::{Stopped, Turn},
};

/// How long a turn waits for memory before it pauses, as a slot is not held for long by turns that do nothing.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long it pauses then.
const PAUSE: Duration = Duration::from_secs(10);
/// How much memory a request takes, by what is in it: the body, and what that is written from.
const WRITTEN: u64 = 2;

impl Turn {
    /// Reserves memory for a request. It is needed until the provider has begun to answer: before that the request may be sent
    /// again.
    pub(crate) async fn reserve_request(&self, request: &ModelRequest) -> Result<Reservation, MemoryExhausted> {
        let memory = self.shared.memory.of(&self.tenant);
        memory.reserve_within(PATIENCE, MemoryKind::ModelRequests, bytes(request).saturating_mul(WRITTEN)).await
    }

    /// Rests for a while, in the middle of its step.
    pub(crate) async fn pause_for_memory(&mut self, exhausted: MemoryExhausted) -> Result<(), Stopped> {
        // Each pause is told, not only the first.
        self.notices_told.retain(|told| !told.starts_with(WAITS));
        self.notice(format!("{WAITS}: {exhausted}"))?;
        let wake_at = after(self.now(), PAUSE);
        self.pause(Wait { calls: Vec::new(), wake_at: Some(wake_at) }).await
    }
}

const WAITS: &str = "the turn waits for memory";

/// How many bytes there are in a request.
fn bytes(request: &ModelRequest) -> u64 {
    let documents = request.documents.values().map(|document| {
        let whole = document.base64.as_ref().map_or(0, |base64| base64.len());
        (document.text.len() + whole) as u64
    });
    let tools = request.tools.iter().map(|tool| tool.input_schema.as_str().len() as u64);
    request.system.len() as u64 + request.messages.size().memory + documents.chain(tools).sum::<u64>()
}
