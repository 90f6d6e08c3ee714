//! Messages that wait until the turns before them have ended.
//!
//! They are turns that the store keeps as queued. Whoever ends a turn starts the next; a process that finds a queue
//! nobody works on, at its start, does too.

use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use everturn_core::{Event, SessionId, TenantId, Timestamp, TurnId, TurnStarted, TurnState};
use everturn_store::{Refusal, StoreError, TurnRecord, TurnStatus};
use futures_util::future::BoxFuture;

use crate::{
    Engine, Started, SubmitError,
    accept::{Place, Taken, is_queued},
    earlier_history::EarlierHistory,
    spending,
};

/// How many sessions with a queue that nobody works on are looked for at a time.
const STALLED_BATCH: usize = 500;
/// How long to wait before another attempt at a queue.
const QUEUE_WAIT: Duration = Duration::from_millis(500);

/// The sessions that have queued turns, as far as this process knows: so that the end of a turn need not ask the store.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    known: Mutex<HashSet<(TenantId, SessionId)>>,
    /// Those that were found without anybody working on them, and are being worked on now.
    taken_over: Mutex<HashSet<(TenantId, SessionId)>>,
}

impl Queues {
    /// Whether nobody has taken this queue over already.
    fn take_over(&self, queue: &(TenantId, SessionId)) -> bool {
        self.taken_over.lock().unwrap_or_else(PoisonError::into_inner).insert(queue.clone())
    }

    fn leave(&self, queue: &(TenantId, SessionId)) {
        self.taken_over.lock().unwrap_or_else(PoisonError::into_inner).remove(queue);
    }

    pub(crate) fn insert(&self, tenant: &TenantId, session: &SessionId) {
        let mut queues = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        queues.insert((tenant.clone(), session.clone()));
    }

    pub(crate) fn contains(&self, tenant: &TenantId, session: &SessionId) -> bool {
        let queues = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        !queues.is_empty() && queues.contains(&(tenant.clone(), session.clone()))
    }

    fn remove(&self, tenant: &TenantId, session: &SessionId) {
        let mut queues = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        queues.remove(&(tenant.clone(), session.clone()));
    }
}

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
            match Box::pin(self.look_at_queue(tenant, session)).await {
                Ok(Looked::Started(started)) => {
                    tracing::debug!(turn = %started.turn, "a queued turn begins");
                    return;
                }
                Ok(Looked::Busy) => return,
                Ok(Looked::Empty) => return self.0.queues.remove(tenant, session),
                // Somebody else was faster, or the session changed in between: look again.
                Err(SubmitError::Rejected(Refusal::Changed)) => {}
                Err(SubmitError::NotFound | SubmitError::Rejected(_)) => return self.0.queues.remove(tenant, session),
                Err(error) => {
                    tracing::warn!(%session, %error, "cannot start a queued turn yet");
                    tokio::time::sleep(QUEUE_WAIT).await;
                }
            }
        }
    }

    async fn look_at_queue(&self, tenant: &TenantId, session: &SessionId) -> Result<Looked, SubmitError> {
        let store = &self.0.store;
        let record = store.session(tenant, session).await?.ok_or(SubmitError::NotFound)?;
        match record.last_turn.as_ref().map(|turn| &turn.status) {
            Some(TurnStatus::Running | TurnStatus::Waiting(_)) => return Ok(Looked::Busy),
            Some(TurnStatus::Ended(_) | TurnStatus::Queued) | None => {}
        }
        if record.queued == 0 {
            return Ok(Looked::Empty);
        }
        // Queued turns are the newest.
        let queued = usize::try_from(record.queued).unwrap_or(usize::MAX);
        let newest = store.turns_below(tenant, session, None, queued).await?;
        let Some(next) = newest.into_iter().rfind(is_queued) else { return Ok(Looked::Empty) };
        let TurnRecord { id: turn, messages: input, begins_history, by, options, .. } = next;
        let earlier = match begins_history {
            true => EarlierHistory::default(),
            false => self.session_history(&record).await?.earlier,
        };
        let agent = self.agent_or_stand_in(tenant, &record.config).await?;
        let agent_name = agent.name.clone();
        let used_before = record.usage;
        let started = TurnStarted {
            agent: agent_name,
            opens_session: false,
            input,
            begins_history,
            request: None,
            used_before,
            last_used: earlier.last_used(),
            by: by.clone(),
            options,
        };
        let taken = Taken {
            expected_version: record.version,
            turn,
            earlier,
            state: TurnState::default(),
            event: Event::TurnStarted(started),
            writes: vec![spending::turn_begun(&agent, by.clone(), Timestamp::now())],
        };
        let slot = tokio::select! {
            slot = self.slot_in_turn(tenant, by.as_ref()) => slot,
            // The next start goes on with the queue.
            () = self.0.drain.cancelled() => return Ok(Looked::Busy),
        };
        let place = Place { session: session.clone(), agent, config: record.config };
        let started = self.take_up(tenant, place, taken, None, &mut Some(slot)).await?;
        self.0.metrics.turns_started.inc();
        Ok(Looked::Started(started))
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
        let mut turns = self.0.store.turns(tenant, session).await?;
        turns.retain(is_queued);
        Ok(turns)
    }

    /// Names of the queued turns.
    pub(crate) async fn queued_names(&self, tenant: &TenantId, session: &SessionId) -> Result<Vec<TurnId>, StoreError> {
        Ok(self.queued(tenant, session).await?.into_iter().map(|turn| turn.id).collect())
    }
}
