//! The turns that this process owns: running them, and taking over those whose owner is gone.

use std::{sync::Arc, time::Duration};

use everturn_core::{SessionConfig, SessionId, TenantId, TurnId, TurnState};
use everturn_store::{ClaimedTurn, StoreError};
use tokio::sync::OwnedSemaphorePermit;

use crate::{
    Agent, Engine, ReadError, Started, live::LiveTurn, metrics::LiveGuard, missing_agent, prior::Prior, tail::Tail,
    turn::Turn, turn_log::TurnLog,
};

/// How many turns are claimed at a time.
const CLAIM_BATCH: usize = 500;
/// How long to wait before another attempt at a turn that could not be read.
const RECOVER_WAIT: Duration = Duration::from_secs(1);

/// A turn that this process owns, with what is known of it.
pub(crate) struct Owned {
    pub(crate) tenant: TenantId,
    pub(crate) session: SessionId,
    pub(crate) agent: Arc<Agent>,
    pub(crate) config: SessionConfig,
    pub(crate) turn: TurnId,
    pub(crate) epoch: u64,
    pub(crate) state: TurnState,
}

impl Engine {
    /// Starts the task that works on a turn.
    pub(crate) fn run(
        &self,
        owned: Owned,
        prior: Prior,
        enlisted: Enlisted,
        slot: Option<OwnedSemaphorePermit>,
    ) -> Started {
        let Owned { tenant, session, agent, config, turn: id, epoch, state } = owned;
        let live = Arc::clone(&enlisted.live);
        let started = Started {
            session: session.clone(),
            turn: id.clone(),
            leg_start: state.leg_start,
            tail: Some(Arc::clone(&live.tail)),
        };
        let log = TurnLog::new(id, epoch, state.head, self.0.committer.clone(), Arc::clone(&live.tail));
        let model = agent.models.iter().position(|model| model.name() == state.model).unwrap_or(0);
        let (shared, log) = (Arc::clone(&self.0), Arc::new(log));
        let turn = Turn { shared, agent, tenant, session, config, log, state, prior, model };
        self.0.tasks.spawn(async move {
            turn.run(live).await;
            drop((slot, enlisted));
        });
        started
    }

    /// Goes on with the turns whose owner is gone.
    pub(crate) async fn take_over(&self) -> Result<(), StoreError> {
        let mut turns = 0;
        loop {
            let claimed = self.0.store.claim(&self.0.node, CLAIM_BATCH).await?;
            let last = claimed.len() < CLAIM_BATCH;
            turns += claimed.len();
            for turn in claimed {
                self.0.metrics.turns_recovered.inc();
                // Readers can follow it from now on, however long it takes until it runs.
                let live = self.enlist(&turn.tenant, &turn.session, &turn.turn, turn.head);
                let engine = self.clone();
                self.0.tasks.spawn(async move { Box::pin(engine.recover(turn, live)).await });
            }
            if last {
                if turns > 0 {
                    tracing::info!(turns, "going on with turns that were left unfinished");
                }
                return Ok(());
            }
        }
    }

    /// Makes a turn known to readers and to those who would end it.
    pub(crate) fn enlist(&self, tenant: &TenantId, session: &SessionId, turn: &TurnId, head: u64) -> Enlisted {
        let tail = Arc::new(Tail::new(head, self.0.settings.ring_bytes));
        let live = Arc::new(LiveTurn::new(tenant.clone(), session.clone(), tail));
        self.0.live.insert(turn.clone(), Arc::clone(&live));
        let counted = self.0.metrics.live_turn();
        Enlisted { engine: self.clone(), turn: turn.clone(), live, _counted: counted }
    }

    pub(crate) async fn recover(&self, claimed: ClaimedTurn, live: Enlisted) {
        let slot = Arc::clone(&self.0.slots).acquire_owned().await.ok();
        while !self.0.draining() {
            match Box::pin(self.load(&claimed)).await {
                Ok(None) => return,
                Ok(Some((owned, prior))) => {
                    self.run(owned, prior, live, slot);
                    return;
                }
                Err(ReadError::Store(error)) if error.is_retryable() => {
                    tracing::warn!(turn = %claimed.turn, %error, "cannot read an unfinished turn yet");
                    tokio::time::sleep(RECOVER_WAIT).await;
                }
                Err(error) => {
                    tracing::error!(turn = %claimed.turn, %error, "cannot go on with a turn");
                    return;
                }
            }
        }
    }

    /// Everything that is needed to go on with a turn; `None` if its session was deleted.
    async fn load(&self, claimed: &ClaimedTurn) -> Result<Option<(Owned, Prior)>, ReadError> {
        let ClaimedTurn { tenant, session, turn, epoch, .. } = claimed;
        let Some(record) = self.0.store.session(tenant, session).await? else { return Ok(None) };
        let state = self.fold(turn).await?;
        let mut turns = self.0.store.turns(tenant, session).await?;
        turns.retain(|other| other.id != *turn);
        let prior = Prior::of(turns);
        let config = record.config;
        let agent = match self.0.agents.get(&config.agent) {
            Some(agent) => Arc::clone(agent),
            // The turn must end visibly all the same.
            None => Arc::new(missing_agent::stand_in(&config.agent)),
        };
        let (tenant, session, turn) = (tenant.clone(), session.clone(), turn.clone());
        Ok(Some((Owned { tenant, session, agent, config, turn, epoch: *epoch, state }, prior)))
    }
}

/// A turn that is known as live. Dropping it takes the turn off the list and ends its streams, however its task ends.
pub(crate) struct Enlisted {
    engine: Engine,
    turn: TurnId,
    pub(crate) live: Arc<LiveTurn>,
    _counted: LiveGuard,
}

impl Drop for Enlisted {
    fn drop(&mut self) {
        self.engine.0.live.remove(&self.turn, &self.live);
        self.live.tail.close();
    }
}
