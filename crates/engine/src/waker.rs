//! Wakes the turns that wait for time: timers, rate limits, forms that nobody answered.
//!
//! What is due is in the store, so a restart forgets nothing. A turn is due by its own time (see `clock.rs`): while the
//! process lives, a wall clock that jumps wakes nothing early or late.

use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use everturn_core::{Answer, Timestamp, TurnId, Wait, WaitingCall, WaitingFor};
use everturn_store::{DueTurn, Refusal, TurnStatus};
use tokio::sync::Notify;

use crate::{
    Engine, SubmitError,
    accept::{Place, Resume},
    session_head::SessionHead,
    session_history::SessionHistory,
};

/// How many due turns are looked for at a time.
const DUE_BATCH: usize = 200;
/// The longest sleep between two looks at the clock and the store.
const LONGEST_SLEEP: Duration = Duration::from_secs(5);
/// How long to wait after the store has failed.
const FAILED_WAIT: Duration = Duration::from_secs(1);
/// How often waking a turn is tried anew because its session changed meanwhile.
const MAX_CONFLICTS: usize = 8;

/// Tells the waker that there may be something to wake earlier than it thinks.
#[derive(Debug, Default)]
pub(crate) struct Waker {
    changed: Notify,
    /// Turns that are being woken.
    waking: Mutex<HashSet<TurnId>>,
}

impl Waker {
    /// Whether the turn is not being woken already.
    fn begin(&self, turn: &TurnId) -> bool {
        self.waking.lock().unwrap_or_else(PoisonError::into_inner).insert(turn.clone())
    }

    fn end(&self, turn: &TurnId) {
        self.waking.lock().unwrap_or_else(PoisonError::into_inner).remove(turn);
    }
}

impl Engine {
    /// Wakes turns until the server shuts down.
    pub(crate) async fn keep_waking(&self) {
        while !self.0.draining() {
            let sleep = match self.wake_due().await {
                Ok(sleep) => sleep,
                Err(error) => {
                    tracing::warn!(%error, "cannot look for turns to wake");
                    FAILED_WAIT
                }
            };
            tokio::select! {
                () = tokio::time::sleep(sleep) => {}
                () = self.0.waker.changed.notified() => {}
                () = self.0.drain.cancelled() => {}
            }
        }
    }

    /// A turn has come to rest that goes on by itself at this time.
    pub(crate) fn expect_wake(&self, turn: &TurnId, wake_at: Option<Timestamp>) {
        let looks = i64::try_from(LONGEST_SLEEP.as_millis()).unwrap_or(i64::MAX);
        let soon = Timestamp(self.0.timelines.now(turn).millis().saturating_add(looks));
        // The others are found in time without being told of.
        if wake_at.is_some_and(|at| at <= soon) {
            self.0.waker.changed.notify_one();
        }
    }

    /// Wakes what is due. Tells how long to sleep.
    async fn wake_due(&self) -> Result<Duration, everturn_store::StoreError> {
        self.take_over_queues().await?;
        // Turns with a time of their own may stand before others that are due, and after others that are not.
        let limit = DUE_BATCH + self.0.timelines.count();
        let due = self.0.store.due(limit).await?;
        let full = due.len() == limit;
        let mut sleep = LONGEST_SLEEP;
        let mut woken = 0;
        for turn in due {
            let ahead = turn.wake_at.millis().saturating_sub(self.0.timelines.now(&turn.turn).millis());
            if let Ok(ahead @ 1..) = u64::try_from(ahead) {
                sleep = sleep.min(Duration::from_millis(ahead));
                continue;
            }
            woken += 1;
            if self.0.waker.begin(&turn.turn) {
                let engine = self.clone();
                self.0.tasks.spawn(async move {
                    if let Err(error) = Box::pin(engine.wake(&turn)).await {
                        tracing::warn!(turn = %turn.turn, %error, "cannot wake a turn yet");
                        tokio::time::sleep(FAILED_WAIT).await;
                    }
                    engine.0.waker.end(&turn.turn);
                    // It may be due again by now, and have been passed over while it was being woken.
                    engine.0.waker.changed.notify_one();
                });
            }
        }
        // If all of them were due, there may be more.
        Ok(if full && woken >= DUE_BATCH { sleep.min(Duration::from_millis(50)) } else { sleep })
    }

    async fn wake(&self, due: &DueTurn) -> Result<(), SubmitError> {
        let DueTurn { tenant, session, turn, .. } = due;
        let by = self.0.store.turn(tenant, session, turn).await?.and_then(|turn| turn.by);
        let mut slot = tokio::select! {
            slot = self.slot_in_turn(tenant, by.as_ref()) => Some(slot),
            () = self.0.drain.cancelled() => return Ok(()),
        };
        // Submissions wait meanwhile, so that the session is still what it was a moment ago.
        let gate = self.0.sessions.of(tenant, session.as_str());
        let _alone = gate.lock().await;
        for _ in 0..MAX_CONFLICTS {
            let Some(record) = self.0.store.session(tenant, session).await? else { return Ok(()) };
            let head = SessionHead::from(record);
            let wait = match head.last_turn.as_ref().filter(|last| last.id == *turn).map(|last| &last.status) {
                Some(TurnStatus::Waiting(wait)) => wait.clone(),
                Some(TurnStatus::Running | TurnStatus::Ended(_) | TurnStatus::Queued) | None => return Ok(()),
            };
            let now = self.0.timelines.now(turn);
            if wait.wake_at.is_none_or(|at| at > now) {
                return Ok(());
            }
            let agent = self.agent_or_stand_in(tenant, &head.config).await?;
            let SessionHistory { earlier, waiting } = self.session_history(&head).await?;
            let Some(state) = waiting else { return Ok(()) };
            let place = Place { session: session.clone(), agent, config: head.config };
            let answers = overdue(&wait, now);
            let (expected_version, turn, options) = (head.version, turn.clone(), None);
            let resume = Resume { expected_version, turn, state, used: head.usage, earlier, answers, options };
            if head.queued > 0 {
                self.0.queues.insert(tenant, session);
            }
            match self.resume_turn(tenant, place, resume, None, &mut slot).await {
                Err(SubmitError::Rejected(Refusal::Changed)) => {}
                Err(SubmitError::Rejected(Refusal::NotFound)) | Ok(_) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The answers that time gives.
fn overdue(wait: &Wait, now: Timestamp) -> Vec<Answer> {
    let answer = |call: &WaitingCall| {
        let call_id = call.id.clone();
        match call.waiting_for {
            WaitingFor::Timer => Some(Answer::Elapsed { call_id }),
            WaitingFor::Permission | WaitingFor::Form => Some(Answer::Expired { call_id }),
            WaitingFor::Result => None,
        }
    };
    wait.calls.iter().filter(|call| call.until.is_some_and(|until| until <= now)).filter_map(answer).collect()
}
