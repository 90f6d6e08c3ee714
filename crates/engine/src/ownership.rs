//! The turns that this process owns: running them, and taking over those whose owner is gone.

use std::{collections::HashMap, sync::Arc, time::Duration};

use everturn_core::{Segment, SessionConfig, SessionId, TenantId, TurnId, TurnState, Usage};
use everturn_store::{ClaimedTurn, SessionRecord, StoreError, TurnStatus, TurnSummary, UnfinishedTurn};

use crate::{
    Agent, Engine, ReadError, Started,
    account::Slot,
    document_context::Documents,
    earlier_history::EarlierHistory,
    follower::READ_BYTES,
    live::LiveTurn,
    metrics::LiveGuard,
    permissions::Permissions,
    session_head::SessionHead,
    session_history::PAGE,
    step::cache_key,
    tail::Tail,
    told::Told,
    turn::{Left, Turn},
    turn_log::TurnLog,
    unnamed_overflow::Faults,
    watchdog::Silences,
};

/// How many turns are claimed at a time.
const CLAIM_BATCH: usize = 2000;
/// How many of them are read at a time.
const READ_BATCH: usize = 32;
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
    /// What the session's other turns have used, if that is known.
    pub(crate) used_elsewhere: Option<Usage>,
    /// The session's version since the turn runs, if that is known.
    pub(crate) version: Option<u64>,
}

impl Engine {
    /// Starts the task that works on a turn.
    pub(crate) fn run(
        &self,
        owned: Owned,
        earlier: EarlierHistory,
        mut enlisted: Enlisted,
        slot: Option<Slot>,
    ) -> Started {
        let Owned { tenant, session, agent, config, turn: id, epoch, state, used_elsewhere, version } = owned;
        if state.open_calls().any(|call| call.form.is_some() || call.question.is_some()) {
            enlisted.live.asks();
        }
        if let Some(version) = version {
            let last_turn = Some(TurnSummary { id: id.clone(), status: TurnStatus::Running });
            self.0.busy.put(SessionHead {
                tenant: tenant.clone(),
                id: session.clone(),
                version,
                config: config.clone(),
                // Nothing is begun or taken up where a turn runs.
                usage: Usage::default(),
                last_turn,
                queued: 0,
                is_remembered: true,
            });
        }
        let live = Arc::clone(&enlisted.live);
        let started = Started {
            tenant: tenant.clone(),
            session: session.clone(),
            turn: id.clone(),
            leg_start: state.leg_start,
            tail: Some(Arc::clone(&live.tail)),
        };
        let log = TurnLog::new(id, epoch, state.head, self.0.committer.clone(), Arc::clone(&live.tail));
        let model = agent.models.iter().position(|model| model.name() == state.model).unwrap_or(0);
        let (shared, log) = (Arc::clone(&self.0), Arc::new(log));
        let titled = config.titled;
        let ours = (self.clone(), tenant.clone(), session.clone(), Arc::clone(&agent));
        let own = Arc::clone(&log);
        let cache_key = cache_key(&session);
        let turn = Turn {
            cache_key,
            shared,
            agent,
            tenant,
            session,
            config,
            log,
            state,
            used_elsewhere,
            lengths: earlier.lengths().clone(),
            earlier,
            without_refused: None,
            spoken: None,
            sent: 0,
            overflowed: None,
            faults: Faults::default(),
            is_summariser_silent: false,
            answer_began: false,
            unsummarised: None,
            model,
            documents: Documents::default(),
            permissions: Permissions::default(),
            lists: None,
            told: Told::default(),
            silences: Silences::default(),
            notices_told: Vec::new(),
            misfits: Vec::new(),
            has_tokens: false,
            begun: HashMap::new(),
            next: None,
        };
        self.0.tasks.spawn(async move {
            let (left, next) = turn.run(live).await;
            enlisted.rests = matches!(left, Left::Waiting(_));
            drop((slot, enlisted));
            let (engine, tenant, session, agent) = ours;
            engine.0.busy.rests(&tenant, &session, own.turn());
            if !matches!(left, Left::Waiting(_)) {
                engine.0.timelines.forget(own.turn());
            }
            match left {
                Left::Waiting(wake_at) => engine.expect_wake(own.turn(), wake_at),
                Left::Ended => {
                    match next {
                        Some(next) => engine.go_on(next),
                        None if engine.0.queues.contains(&tenant, &session) => {
                            engine.start_next(&tenant, &session).await;
                        }
                        None => {}
                    }
                    if titled {
                        engine.name_session(&tenant, &session, &agent);
                    }
                }
                Left::Halted => {}
            }
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
            for batch in claimed.chunks(READ_BATCH) {
                self.recover_together(batch);
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
        let live = self.0.live.start(turn, tenant, session, || Tail::new(head, self.0.settings.ring_bytes));
        live.tail.reach(head);
        let counted = self.0.metrics.live_turn();
        Enlisted { engine: self.clone(), turn: turn.clone(), live, rests: false, _counted: counted }
    }

    /// Goes on with turns. Turns that have a slot at once are read together.
    fn recover_together(&self, batch: &[ClaimedTurn]) {
        let mut claimed = Vec::with_capacity(batch.len());
        let mut places = Vec::with_capacity(batch.len());
        for turn in batch {
            self.0.metrics.turns_recovered.inc();
            // Readers can follow it from now on, however long it takes until it runs.
            let live = self.enlist(&turn.tenant, &turn.session, &turn.turn, turn.head);
            match self.free_slot_in_turn(&turn.tenant, turn.by.as_ref()) {
                Some(slot) => {
                    claimed.push(turn.clone());
                    places.push((live, slot));
                }
                None => self.recover_later(turn.clone(), live, None),
            }
        }
        let engine = self.clone();
        self.0.tasks.spawn(async move {
            let found = match engine.0.store.unfinished(&claimed, PAGE, READ_BYTES).await {
                Ok(found) => found.into_iter().map(Some).collect(),
                Err(_) => vec![None; claimed.len()],
            };
            for ((claimed, (live, slot)), found) in claimed.into_iter().zip(places).zip(found) {
                match found {
                    Some(None) => {}
                    Some(Some(found)) if !engine.0.draining() => {
                        match Box::pin(engine.prepare(&claimed, found)).await {
                            Ok((owned, earlier)) => drop(engine.run(owned, earlier, live, Some(slot))),
                            Err(_) => engine.recover_later(claimed, live, Some(slot)),
                        }
                    }
                    // What went wrong shows when it is read alone, and with whose turn.
                    Some(Some(_)) | None => engine.recover_later(claimed, live, Some(slot)),
                }
            }
        });
    }

    fn recover_later(&self, claimed: ClaimedTurn, live: Enlisted, slot: Option<Slot>) {
        let engine = self.clone();
        self.0.tasks.spawn(async move { Box::pin(engine.recover(claimed, live, slot)).await });
    }

    pub(crate) async fn recover(&self, claimed: ClaimedTurn, live: Enlisted, slot: Option<Slot>) {
        let by = claimed.by.clone();
        let slot = match slot {
            Some(slot) => slot,
            None => tokio::select! {
                slot = self.slot_in_turn(&claimed.tenant, by.as_ref()) => slot,
                // It is to be ended, which needs no slot.
                _ = live.live.interrupted() => {
                    Slot { _permit: None, _place: self.0.running.enter_anyway(&claimed.tenant, by) }
                }
            },
        };
        while !self.0.draining() {
            match Box::pin(self.load(&claimed)).await {
                Ok(None) => return,
                Ok(Some((owned, earlier))) => {
                    self.run(owned, earlier, live, Some(slot));
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
    async fn load(&self, claimed: &ClaimedTurn) -> Result<Option<(Owned, EarlierHistory)>, ReadError> {
        let mut found = self.0.store.unfinished(std::slice::from_ref(claimed), PAGE, READ_BYTES).await?;
        match found.pop().flatten() {
            Some(found) => self.prepare(claimed, found).await.map(Some),
            None => Ok(None),
        }
    }

    /// The same, of what was read of it.
    async fn prepare(
        &self,
        claimed: &ClaimedTurn,
        found: UnfinishedTurn,
    ) -> Result<(Owned, EarlierHistory), ReadError> {
        let ClaimedTurn { tenant, session, turn, epoch, head, .. } = claimed.clone();
        let UnfinishedTurn { session: SessionRecord { config, queued, .. }, turns, log } = found;
        if queued > 0 {
            self.0.queues.insert(&tenant, &session);
        }
        let mut state = TurnState::default();
        for event in log.iter().flat_map(Segment::events) {
            let event = event?;
            state.apply(event.seq, &event.decode()?);
        }
        if state.head < head {
            state = self.fold_on(&turn, state).await?;
        }
        let earlier = self.history_before(&tenant, &session, &turn, Some(turns)).await?;
        let agent = self.agent_or_stand_in(&tenant, &config).await?;
        Ok((Owned { tenant, session, agent, config, turn, epoch, state, used_elsewhere: None, version: None }, earlier))
    }
}

/// A turn that is known as live. Dropping it takes the turn off the list and, unless it only rests, ends its streams,
/// however its task ends.
pub(crate) struct Enlisted {
    engine: Engine,
    turn: TurnId,
    pub(crate) live: Arc<LiveTurn>,
    /// Whether it goes on later: its streams stay open then.
    rests: bool,
    _counted: LiveGuard,
}

impl Drop for Enlisted {
    fn drop(&mut self) {
        let rests = self.rests && !self.engine.0.draining();
        self.engine.0.live.stop(&self.turn, &self.live, rests);
    }
}
