//! Messages that wait until the turns before them have ended.
//!
//! They are turns that the store keeps as queued. Whoever ends a turn starts the next; a process that finds a queue
//! nobody works on, at its start, does too.

use std::time::Duration;

use everturn_core::{Event, KeyId, SessionId, TenantId, Timestamp, TurnId, TurnStarted, TurnState};
use everturn_store::{Refusal, StoreError, TurnRecord, TurnStatus};
use futures_util::future::BoxFuture;

use crate::{
    Engine, Started, SubmitError,
    accept::{Place, Taken},
    account::Slot,
    earlier_history::EarlierHistory,
    session_head::SessionHead,
    spending,
};

/// How many sessions with a queue that nobody works on are looked for at a time.
const STALLED_BATCH: usize = 500;
/// How long to wait before another attempt at a queue.
const QUEUE_WAIT: Duration = Duration::from_millis(500);
/// How many turns of a queue are read at a time: those behind the first begin from memory.
const NEXT_TURNS: usize = 4;

/// What came of looking at a queue.
enum Looked {
    /// Its next turn runs.
    Started(Started),
    /// Another turn of the session runs or waits; its end starts the next.
    Busy,
    /// There is nothing in it.
    Empty,
}

impl Engine {
    /// Starts the next queued turn of a session, if there is one and nothing else is under way.
    ///
    /// Of a named type, since a turn that is started may start the next in its turn.
    pub(crate) fn start_next<'a>(&'a self, tenant: &'a TenantId, session: &'a SessionId) -> BoxFuture<'a, ()> {
        Box::pin(self.work_on_queue(tenant, session))
    }

    /// As [`Self::start_next`], without waiting for it.
    pub(crate) fn spawn_next(&self, tenant: &TenantId, session: &SessionId) {
        let (engine, tenant, session) = (self.clone(), tenant.clone(), session.clone());
        self.0.tasks.spawn(async move { engine.start_next(&tenant, &session).await });
    }

    async fn work_on_queue(&self, tenant: &TenantId, session: &SessionId) {
        while !self.0.draining() {
            let insertion = self.0.queues.insertion(tenant, session);
            match Box::pin(self.look_at_queue(tenant, session)).await {
                Ok(Looked::Started(started)) => {
                    tracing::debug!(turn = %started.turn, "a queued turn begins");
                    return;
                }
                Ok(Looked::Busy) => return,
                Ok(Looked::Empty) => return self.0.queues.remove(tenant, session, insertion),
                // Somebody else was faster, or the session changed in between: look again.
                Err(SubmitError::Rejected(Refusal::Changed)) => {}
                Err(SubmitError::NotFound | SubmitError::Rejected(_)) => {
                    return self.0.queues.remove(tenant, session, insertion);
                }
                Err(error) => {
                    tracing::warn!(%session, %error, "cannot start a queued turn yet");
                    tokio::time::sleep(QUEUE_WAIT).await;
                }
            }
        }
    }

    async fn look_at_queue(&self, tenant: &TenantId, session: &SessionId) -> Result<Looked, SubmitError> {
        // Submissions wait meanwhile: those who come one after the other would change the session again and again.
        let gate = self.0.sessions.of(tenant, session.as_str());
        let mut held: Option<(Option<KeyId>, Slot)> = None;
        loop {
            let alone = gate.lock_beside_joining().await;
            let (head, next) = match self.next_in_queue(tenant, session).await? {
                Ok(next) => next,
                Err(looked) => return Ok(looked),
            };
            // Another may be first by now, on another account.
            let slot = held.take().filter(|(by, _)| *by == next.by).map(|(_, slot)| slot);
            if let Some(slot) = slot.or_else(|| self.free_slot_in_turn(tenant, next.by.as_ref())) {
                return self.start_queued(tenant, head, next, slot).await.map(Looked::Started);
            }
            drop(alone);
            let slot = tokio::select! {
                slot = self.slot_in_turn(tenant, next.by.as_ref()) => slot,
                // The next start goes on with the queue.
                () = self.0.drain.cancelled() => return Ok(Looked::Busy),
            };
            // The queue is looked at once more, since a slot may take long and nobody must wait for it.
            held = Some((next.by, slot));
        }
    }

    /// Starts the first turn of a queue, in a session where nothing else is under way.
    async fn start_queued(
        &self,
        tenant: &TenantId,
        head: SessionHead,
        next: TurnRecord,
        slot: Slot,
    ) -> Result<Started, SubmitError> {
        let TurnRecord { id: turn, messages: input, begins_history, by, options, .. } = next;
        let earlier = self.session_history(&head).await?.earlier;
        let last_used = earlier.last_used();
        let earlier = if begins_history { EarlierHistory::default().after(last_used) } else { earlier };
        let agent = self.agent_or_stand_in(tenant, &head.config).await?;
        let started = TurnStarted {
            agent: agent.name.clone(),
            opens_session: false,
            input,
            begins_history,
            request: None,
            compacts: false,
            used_before: head.usage,
            last_used,
            by: by.clone(),
            options,
        };
        let taken = Taken {
            expected_version: head.version,
            turn,
            earlier,
            state: TurnState::default(),
            used_elsewhere: head.usage,
            event: Event::TurnStarted(started),
            writes: vec![spending::turn_begun(&agent, by, Timestamp::now())],
        };
        // Before it runs: its end looks for the one that comes after it.
        self.0.queues.left(tenant, &head.id, &taken.turn);
        let place = Place { session: head.id, agent, config: head.config };
        let started = self.take_up(tenant, place, taken, None, &mut Some(slot)).await?;
        self.0.metrics.turns_started.inc();
        Ok(started)
    }

    /// The turn that is next in a session's queue, or why there is none to start.
    async fn next_in_queue(
        &self,
        tenant: &TenantId,
        session: &SessionId,
    ) -> Result<Result<(SessionHead, TurnRecord), Looked>, SubmitError> {
        let record = self.0.store.session(tenant, session).await?.ok_or(SubmitError::NotFound)?;
        match record.last_turn.as_ref().map(|turn| &turn.status) {
            Some(TurnStatus::Running | TurnStatus::Waiting(_)) => return Ok(Err(Looked::Busy)),
            Some(TurnStatus::Ended(_) | TurnStatus::Queued) | None => {}
        }
        let first = self.0.store.queued(tenant, session, NEXT_TURNS).await?;
        let is_all = first.len() < NEXT_TURNS;
        let next = first.first().cloned();
        self.0.queues.learn(tenant, session, first, is_all);
        Ok(next.map(|next| (record.into(), next)).ok_or(Looked::Empty))
    }

    /// Goes on with the queues that nobody works on.
    pub(crate) async fn take_over_queues(&self) -> Result<(), StoreError> {
        let stalled = self.0.store.stalled(STALLED_BATCH).await?;
        for queue in stalled {
            // One that waits for a free slot is found again and again.
            if self.0.queues.take_over(&queue) {
                self.0.queues.insert(&queue.0, &queue.1);
                let engine = self.clone();
                self.0.tasks.spawn(async move {
                    engine.start_next(&queue.0, &queue.1).await;
                    engine.0.queues.leave(&queue);
                });
            }
        }
        Ok(())
    }

    /// The turns of a session that are queued, in order.
    pub async fn queued(&self, tenant: &TenantId, session: &SessionId) -> Result<Vec<TurnRecord>, StoreError> {
        self.0.store.queued(tenant, session, usize::MAX).await
    }

    /// Names of the queued turns.
    pub(crate) async fn queued_names(&self, tenant: &TenantId, session: &SessionId) -> Result<Vec<TurnId>, StoreError> {
        Ok(self.queued(tenant, session).await?.into_iter().map(|turn| turn.id).collect())
    }
}
