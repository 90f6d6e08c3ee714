//! Stop: ends a turn wherever it stands, on somebody's word.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use everturn_core::{CancelReason, Event, Outcome, SessionId, TenantId, Timestamp, TurnId, TurnState, submission};
use everturn_store::{Command, CommandKey, EndTurn, Put, Refusal, SessionRecord, StoreError, TurnRecord, TurnStatus};
use serde::{Deserialize, Serialize};

use crate::{
    Engine, ReadError, StopError, SubmissionKey,
    accept::segment,
    committer::CommitError,
    forms,
    live::{Interrupt, LiveTurn},
    notices::Noticed,
    turn,
};

/// How long to wait for a turn to have ended. It takes a commit.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long to wait before another look at a turn that is just beginning or ending.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// Which turn a stop with a key has stopped: the same one when it is sent again, never a later one.
#[derive(Serialize, Deserialize)]
struct Stopped {
    turn: Option<TurnId>,
}

impl Engine {
    /// Ends the session's turn that runs or waits, or this one, which may also be queued. On return its end is durable
    /// and the session takes the next message. Without effect if there is nothing to end.
    pub async fn stop(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        turn: Option<&TurnId>,
        key: Option<SubmissionKey>,
    ) -> Result<(), StopError> {
        let engine = self.clone();
        let (tenant, session, turn) = (tenant.clone(), session.clone(), turn.cloned());
        // In a task of its own: a client that goes away does not take its word back.
        let task = self.0.tasks.spawn(async move {
            let turn = match turn {
                Some(turn) => Some(turn),
                None => engine.open_turn(&tenant, &session).await?,
            };
            let turn = match key {
                Some(key) => engine.remember_stop(&tenant, key, turn).await?,
                None => turn,
            };
            match turn {
                Some(turn) => engine.end(&tenant, &session, &turn, CancelReason::UserStop).await,
                None => Ok(()),
            }
        });
        task.await.unwrap_or(Err(StopError::Crashed))
    }

    /// The turn that runs or waits.
    async fn open_turn(&self, tenant: &TenantId, session: &SessionId) -> Result<Option<TurnId>, StoreError> {
        let Some(record) = self.0.store.session(tenant, session).await? else { return Ok(None) };
        Ok(record.last_turn.filter(|turn| !turn.status.is_ended()).map(|turn| turn.id))
    }

    /// Keeps a stop's key. Gives the turn that the first stop of that key meant.
    async fn remember_stop(
        &self,
        tenant: &TenantId,
        key: SubmissionKey,
        turn: Option<TurnId>,
    ) -> Result<Option<TurnId>, StopError> {
        let outcome = serde_json::to_string(&Stopped { turn: turn.clone() }).unwrap_or_default();
        let fingerprint = key.fingerprint.clone();
        let kept = CommandKey { key: key.key.clone(), fingerprint: key.fingerprint, outcome };
        let (tenant, at) = (tenant.clone(), Timestamp::now());
        let put = Put { tenant, expects: Vec::new(), writes: Vec::new(), key: Some(kept), at };
        match self.0.committer.commit(Command::Put(Box::new(put))).await {
            Ok(_) => Ok(turn),
            Err(CommitError::Refused(Refusal::Repeated { fingerprint: first, outcome })) => {
                // The key of another request is no reason not to stop.
                if first != fingerprint {
                    return Ok(turn);
                }
                let stopped: Option<Stopped> = serde_json::from_str(&outcome).ok();
                Ok(stopped.and_then(|stopped| stopped.turn))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Ends everything that is under way in a session, because a new message takes its place.
    pub(crate) async fn clear_session(&self, tenant: &TenantId, session: &SessionId) -> Result<(), StopError> {
        // The queue first, so that nothing of it begins.
        for turn in self.queued_names(tenant, session).await? {
            self.end(tenant, session, &turn, CancelReason::Superseded).await?;
        }
        match self.open_turn(tenant, session).await? {
            Some(turn) => self.end(tenant, session, &turn, CancelReason::Superseded).await,
            None => Ok(()),
        }
    }

    /// Ends a turn wherever it stands.
    async fn end(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        turn: &TurnId,
        reason: CancelReason,
    ) -> Result<(), StopError> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            // Whoever names a turn of somebody else's ends nothing.
            if let Some(live) = self.0.live.get(turn).filter(|live| live.is_in(tenant, session)) {
                self.end_running(&live, reason).await;
                continue;
            }
            let store = &self.0.store;
            let Some(record) = store.session(tenant, session).await? else { return Ok(()) };
            let Some(found) = store.turn(tenant, session, turn).await? else { return Ok(()) };
            match &found.status {
                TurnStatus::Ended(_) => return Ok(()),
                // Between its commit and the list of live turns, or the other way round.
                TurnStatus::Running => tokio::time::sleep(LOOK_AGAIN).await,
                TurnStatus::Waiting(_) | TurnStatus::Queued => {
                    match Box::pin(self.end_resting(tenant, &record, &found, reason)).await {
                        Ok(()) => return Ok(()),
                        Err(StopError::Rejected(Refusal::Changed)) => {}
                        Err(StopError::Rejected(Refusal::NotFound)) => return Ok(()),
                        Err(error) => return Err(error),
                    }
                }
            }
        }
        Err(StopError::Busy)
    }

    async fn end_running(&self, live: &Arc<LiveTurn>, reason: CancelReason) {
        live.interrupt(Interrupt::Cancel(reason));
        live.stopped(PATIENCE).await;
    }

    async fn end_resting(
        &self,
        tenant: &TenantId,
        session: &SessionRecord,
        turn: &TurnRecord,
        reason: CancelReason,
    ) -> Result<(), StopError> {
        let mut state = self.fold(&turn.id).await?;
        let mut writes = forms::cancelled(&state);
        let queued = turn.status == TurnStatus::Queued;
        let at = Timestamp::now();
        let events = if queued {
            vec![Event::TurnEnded(state.ended(Outcome::Cancelled { reason }))]
        } else {
            submission::close(&state, turn::cancelled_text(reason), reason, at)
        };
        let segment = segment(state.head + 1, at, &events);
        apply_all(&mut state, &events);
        let noticed = Noticed { tenant, session: &session.id, turn: &turn.id };
        writes.extend(self.0.notices.of_rest(noticed, &state));
        let mut rest = turn::rest(&state);
        if queued {
            // Its owner still sees what was not said; no model does.
            rest.messages.clone_from(&turn.messages);
        }
        let command = EndTurn {
            tenant: tenant.clone(),
            session: session.id.clone(),
            expected_version: session.version,
            turn: turn.id.clone(),
            segment: segment.clone(),
            rest,
            writes,
            key: None,
            at,
        };
        // Before its end is shown: whoever finds it in the queue waits for that.
        self.0.queues.left(tenant, &session.id, &turn.id);
        if let Err(error) = self.commit_turn(Command::EndTurn(Box::new(command))).await {
            self.0.queues.doubt(tenant, &session.id);
            return Err(error.into());
        }
        self.show_end(&turn.id, segment);
        self.0.timelines.forget(&turn.id);
        // Those behind it need wait no longer. This process may not know of them yet.
        if session.queued > 0 {
            self.0.queues.insert(tenant, &session.id);
        }
        if self.0.queues.contains(tenant, &session.id) {
            self.spawn_next(tenant, &session.id);
        }
        Ok(())
    }
}

fn apply_all(state: &mut TurnState, events: &[Event]) {
    for (seq, event) in (state.head + 1..).zip(events) {
        state.apply(seq, event);
    }
}

impl From<ReadError> for StopError {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}
