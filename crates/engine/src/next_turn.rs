//! The next turn of a session's queue begins in the commit that ends the turn before it, from memory: nothing is read between
//! the two.
//!
//! Where that cannot be, because the queue is not known, another turn is first in it or no slot is free, the end of the
//! turn starts the next as `queue.rs` does.

use std::sync::Arc;

use everturn_core::{
    CancelReason, CommandId, Event, Outcome, Phase, Segment, Timestamp, TurnId, TurnStarted, TurnState, Usage,
};
use everturn_store::{Receipt, ResumeTurn};
use tokio::sync::oneshot;

use crate::{
    Agent, Engine, accept::segment, account::Slot, committer::CommitError, earlier_history::EarlierHistory,
    ownership::Owned, spending, turn::Turn,
};

/// A command that is committed together with the end of a turn, right after it.
pub(crate) struct AndThen {
    pub(crate) command: Box<ResumeTurn>,
    pub(crate) reply: oneshot::Sender<Result<Receipt, CommitError>>,
}

/// A turn that is about to begin.
pub(crate) struct NextTurn {
    turn: TurnId,
    agent: Arc<Agent>,
    state: TurnState,
    segment: Segment,
    begins_history: bool,
    used_before: Usage,
    last_used: Usage,
    slot: Slot,
    outcome: oneshot::Receiver<Result<Receipt, CommitError>>,
}

/// A turn that has begun, for those who run it.
pub(crate) struct BegunTurn {
    owned: Owned,
    earlier: EarlierHistory,
    segment: Segment,
    slot: Slot,
}

impl Turn {
    /// What begins the next turn of the queue, now that this one ends; `None` if that is for others to do.
    pub(crate) fn next_turn(&self) -> Option<(NextTurn, AndThen)> {
        let Phase::Ended(ended) = &self.state.phase else { return None };
        // A superseding message begins its own turn, and a deleted session has no next one.
        if let Outcome::Cancelled { reason: CancelReason::Superseded | CancelReason::SessionDeleted } = ended.outcome {
            return None;
        }
        let next = self.shared.queues.next(&self.tenant, &self.session)?;
        let mut used_before = self.used_elsewhere?;
        used_before += self.state.usage;
        if self.shared.draining() {
            return None;
        }
        let engine = Engine(Arc::clone(&self.shared));
        let slot = engine.free_slot_in_turn(&self.tenant, next.by.as_ref())?;
        let agent = engine.configured_agent(&self.config)?;
        let used = Some(self.state.usage).filter(|usage| !usage.is_zero());
        let last_used = used.unwrap_or_else(|| self.earlier.last_used());
        let at = Timestamp::now();
        let started = Event::TurnStarted(TurnStarted {
            agent: agent.name.clone(),
            opens_session: false,
            input: next.input.clone(),
            begins_history: next.begins_history,
            request: None,
            compacts: false,
            used_before,
            last_used,
            by: next.by.clone(),
            options: next.options.clone(),
        });
        let mut state = TurnState::default();
        state.apply(1, &started);
        let segment = segment(1, at, &[started]);
        let command = ResumeTurn {
            id: CommandId::mint(),
            tenant: self.tenant.clone(),
            session: self.session.clone(),
            // An earlier one than the session has: so it is held to have these settings still, which those who queued may
            // have changed.
            expected_version: 0,
            config: self.config.clone(),
            turn: next.turn.clone(),
            node: self.shared.node.clone(),
            segment: segment.clone(),
            writes: vec![spending::turn_begun(&agent, next.by.clone(), at)],
            key: None,
            at,
        };
        let (reply, outcome) = oneshot::channel();
        let (turn, begins_history) = (next.turn.clone(), next.begins_history);
        let next = NextTurn { turn, agent, state, segment, begins_history, used_before, last_used, slot, outcome };
        Some((next, AndThen { command: Box::new(command), reply }))
    }

    /// Waits for what became of the next turn, and gives it what it needs of this one.
    pub(crate) async fn hand_over(mut self, next: NextTurn) -> Result<BegunTurn, Self> {
        let NextTurn { turn, agent, state, segment, begins_history, used_before, last_used, slot, outcome } = next;
        match outcome.await {
            Ok(Ok(receipt)) => {
                self.shared.queues.left(&self.tenant, &self.session, &turn);
                let earlier = if begins_history {
                    EarlierHistory::default().after(last_used)
                } else {
                    self.add_to_history();
                    self.earlier
                };
                let owned = Owned {
                    tenant: self.tenant,
                    session: self.session,
                    agent,
                    config: self.config,
                    turn,
                    epoch: receipt.epoch,
                    state,
                    used_elsewhere: Some(used_before),
                    version: Some(receipt.version),
                };
                Ok(BegunTurn { owned, earlier, segment, slot })
            }
            // Another is first in the queue, or the settings are others.
            refused => {
                tracing::debug!(%turn, ?refused, "a queued turn does not begin yet");
                self.shared.queues.doubt(&self.tenant, &self.session);
                Err(self)
            }
        }
    }
}

impl Engine {
    /// Runs a turn that has begun in the commit that ended the one before it.
    pub(crate) fn go_on(&self, begun: BegunTurn) {
        let BegunTurn { owned, earlier, segment, slot } = begun;
        let enlisted = self.enlist(&owned.tenant, &owned.session, &owned.turn, 0);
        enlisted.live.tail.publish(segment);
        self.0.watchers.tell(&owned.tenant, &owned.session);
        self.0.warm.forget(&owned.tenant, &owned.session);
        self.0.metrics.turns_started.inc();
        tracing::debug!(turn = %owned.turn, "a queued turn begins");
        self.run(owned, earlier, enlisted, Some(slot));
    }
}
