//! Submissions: how turns are begun and taken up.

use std::sync::{Arc, atomic::Ordering};

use everturn_core::{
    Answer, CallId, CommandId, Event, Message, Segment, SegmentBuilder, SessionConfig, SessionId, TenantId, Timestamp,
    TurnId, TurnStarted, TurnState,
    submission::{self, Admission, SessionPhase, Submission},
};
use everturn_store::{BeginTurn, Command, Refusal, ResumeTurn, SecretPlace, Supersede, TurnRecord, TurnStatus};
use tokio::sync::OwnedSemaphorePermit;

use crate::{
    Agent, Engine, SessionUpdate, SubmissionKey, SubmitError, ownership::Owned, prior::Prior, repetition::command_key,
    tail::Tail, turn,
};

/// How often a submission is judged anew because the session changed meanwhile.
const MAX_CONFLICTS: usize = 4;

/// What a client submits.
#[derive(Clone, Debug)]
pub struct Submit {
    /// Who.
    pub tenant: TenantId,
    /// To which session.
    pub target: Target,
    /// Settings to change first.
    pub update: SessionUpdate,
    /// What.
    pub submission: Submission,
    /// The client's name for it, so that it can be sent again without a second effect.
    pub key: Option<SubmissionKey>,
}

/// The session of a submission.
#[derive(Clone, Debug)]
pub enum Target {
    /// A new one, with this agent.
    New {
        /// Name of the agent.
        agent: String,
    },
    /// One that exists.
    Existing(SessionId),
}

/// A leg of a turn that has begun.
#[derive(Clone, Debug)]
pub struct Started {
    /// The session.
    pub session: SessionId,
    /// The turn.
    pub turn: TurnId,
    /// Seq of the leg's first event.
    pub leg_start: u64,
    /// None if no leg of the turn is live.
    pub(crate) tail: Option<Arc<Tail>>,
}

/// The session that a submission goes to, with its settings from now on.
struct Place {
    session: SessionId,
    agent: Arc<Agent>,
    config: SessionConfig,
}

/// A turn to begin.
struct Begin {
    expected_version: Option<u64>,
    supersedes: Option<Supersede>,
    prior: Prior,
    input: Vec<Message>,
}

/// A turn to take up.
struct Resume {
    expected_version: u64,
    turn: TurnId,
    prior: Prior,
    answers: Vec<Answer>,
}

impl Engine {
    /// Accepts a submission and starts to work on it. On return it is durable; it then runs to its end whether or not
    /// anybody watches, also if the caller goes away while this call is under way.
    pub async fn submit(&self, submit: Submit) -> Result<Started, SubmitError> {
        let engine = self.clone();
        let task = self.0.tasks.spawn(async move { engine.submit_now(submit).await });
        task.await.unwrap_or(Err(SubmitError::Crashed))
    }

    async fn submit_now(&self, submit: Submit) -> Result<Started, SubmitError> {
        // Before anything else: what was accepted once would now be refused, as a second turn while the first one runs.
        if let Some(started) = self.find_repetition(&submit).await? {
            return Ok(started);
        }
        let mut slot = None;
        for _ in 0..MAX_CONFLICTS {
            let result = match &submit.target {
                Target::New { agent } => Box::pin(self.begin_session(&submit, agent, &mut slot)).await,
                Target::Existing(session) => Box::pin(self.submit_to(&submit, session, &mut slot)).await,
            };
            match result {
                Err(SubmitError::Rejected(Refusal::Changed)) => {}
                Err(SubmitError::Rejected(Refusal::NotFound)) => return Err(SubmitError::NotFound),
                Err(SubmitError::Rejected(refusal)) => return self.repeated(&submit, refusal).await,
                result => return result,
            }
        }
        Err(submission::Refused::Busy.into())
    }

    async fn begin_session(
        &self,
        submit: &Submit,
        agent: &str,
        slot: &mut Option<OwnedSemaphorePermit>,
    ) -> Result<Started, SubmitError> {
        let agent = self.agent(agent)?;
        let session = SessionId::mint();
        let config = SessionConfig { agent: agent.name.clone(), ..SessionConfig::default() };
        let config = self.updated(submit, &agent, &session, &config)?;
        submission::admit(SessionPhase::Idle, &submit.submission, |_| false)?;
        let Submission::Begin(input) = &submit.submission else { return Err(submission::Refused::Empty.into()) };
        self.acquire(slot).await?;
        let begin = Begin { expected_version: None, supersedes: None, prior: Prior::default(), input: input.clone() };
        self.begin_turn(submit, Place { session, agent, config }, begin, slot).await
    }

    async fn submit_to(
        &self,
        submit: &Submit,
        session: &SessionId,
        slot: &mut Option<OwnedSemaphorePermit>,
    ) -> Result<Started, SubmitError> {
        let store = &self.0.store;
        let record = store.session(&submit.tenant, session).await?.ok_or(SubmitError::NotFound)?;
        let agent = self.agent(&record.config.agent)?;
        let config = self.updated(submit, &agent, session, &record.config)?;
        let place = Place { session: session.clone(), agent, config };
        let phase = match record.last_turn.as_ref().map(|turn| &turn.status) {
            Some(TurnStatus::Running) => SessionPhase::Running,
            Some(TurnStatus::Waiting(calls)) => SessionPhase::Waiting(calls),
            Some(TurnStatus::Ended) | None => SessionPhase::Idle,
        };
        let mut turns = store.turns(&submit.tenant, session).await?;
        let answered = |id: &CallId| {
            let messages = turns.iter().flat_map(|turn| &turn.messages);
            messages.into_iter().any(|m| matches!(m, Message::Tool { call_id, .. } if call_id == id))
        };
        let admission = submission::admit(phase, &submit.submission, answered)?;
        self.acquire(slot).await?;
        let waiting = match admission {
            Admission::Begin => None,
            Admission::Supersede | Admission::Resume => turns.pop(),
        };
        match (&submit.submission, waiting) {
            (Submission::Begin(input), waiting) => {
                let expected_version = Some(record.version);
                let supersedes = match &waiting {
                    Some(turn) => Some(self.supersede(turn).await?),
                    None => None,
                };
                if let (Some(mut turn), Some(supersedes)) = (waiting, &supersedes) {
                    turn.messages.clone_from(&supersedes.rest.messages);
                    turns.push(turn);
                }
                let begin = Begin { expected_version, supersedes, prior: Prior::of(turns), input: input.clone() };
                self.begin_turn(submit, place, begin, slot).await
            }
            (Submission::Answers(answers), Some(turn)) => {
                let (expected_version, turn, answers) = (record.version, turn.id, answers.clone());
                let resume = Resume { expected_version, turn, prior: Prior::of(turns), answers };
                self.resume_turn(submit, place, resume, slot).await
            }
            (Submission::Answers(_), None) => Err(submission::Refused::Empty.into()),
        }
    }

    fn agent(&self, name: &str) -> Result<Arc<Agent>, SubmitError> {
        let agents = &self.0.agents;
        agents
            .get(name)
            .cloned()
            .ok_or_else(|| SubmitError::UnknownAgent { name: name.to_owned(), available: agents.names().join(", ") })
    }

    fn updated(
        &self,
        submit: &Submit,
        agent: &Agent,
        session: &SessionId,
        config: &SessionConfig,
    ) -> Result<SessionConfig, SubmitError> {
        let seal = |option: &str, value: &str| {
            self.0.secrets.seal(SecretPlace { tenant: &submit.tenant, session, option }, value)
        };
        Ok(submit.update.apply(agent, config, seal)?)
    }

    /// Waits for a free slot, within bounds.
    async fn acquire(&self, slot: &mut Option<OwnedSemaphorePermit>) -> Result<(), SubmitError> {
        let shared = &self.0;
        if shared.draining() {
            return Err(SubmitError::ShuttingDown);
        }
        if slot.is_some() {
            return Ok(());
        }
        if let Ok(permit) = Arc::clone(&shared.slots).try_acquire_owned() {
            *slot = Some(permit);
            return Ok(());
        }
        let overloaded = SubmitError::Overloaded { limit: shared.settings.concurrent_turns };
        if shared.queued.fetch_add(1, Ordering::Relaxed) >= shared.settings.queued_turns {
            shared.queued.fetch_sub(1, Ordering::Relaxed);
            return Err(overloaded);
        }
        shared.metrics.turns_queued.inc();
        let permit = tokio::select! {
            permit = Arc::clone(&shared.slots).acquire_owned() => permit.ok(),
            () = tokio::time::sleep(shared.settings.queue_timeout) => None,
            () = shared.drain.cancelled() => None,
        };
        shared.queued.fetch_sub(1, Ordering::Relaxed);
        shared.metrics.turns_queued.dec();
        *slot = permit;
        match slot {
            Some(_) => Ok(()),
            None if shared.draining() => Err(SubmitError::ShuttingDown),
            None => Err(overloaded),
        }
    }

    async fn begin_turn(
        &self,
        submit: &Submit,
        place: Place,
        begin: Begin,
        slot: &mut Option<OwnedSemaphorePermit>,
    ) -> Result<Started, SubmitError> {
        let Place { session, agent, config } = place;
        let Begin { expected_version, supersedes, prior, input } = begin;
        let tenant = submit.tenant.clone();
        let at = Timestamp::now();
        let opens_session = expected_version.is_none();
        let started =
            Event::TurnStarted(TurnStarted { agent: agent.name.clone(), opens_session, input: input.clone() });
        let mut state = TurnState::default();
        state.apply(1, &started);
        let segment = segment(1, at, &[started]);
        let turn = TurnId::mint();
        let command = BeginTurn {
            tenant: tenant.clone(),
            session: session.clone(),
            expected_version,
            config: config.clone(),
            supersedes,
            turn: turn.clone(),
            node: self.0.node.clone(),
            segment: segment.clone(),
            messages: input,
            key: command_key(submit.key.as_ref(), &session, &turn, 1),
            at,
        };
        let receipt = self.commit_turn(Command::BeginTurn(Box::new(command))).await?;
        self.0.metrics.turns_started.inc();
        let enlisted = self.enlist(&tenant, &session, &turn, 0);
        enlisted.live.tail.publish(segment);
        let owned = Owned { tenant, session, agent, config, turn, epoch: receipt.epoch, state };
        Ok(self.run(owned, prior, enlisted, slot.take()))
    }

    /// The end of a waiting turn whose place a new message takes.
    async fn supersede(&self, turn: &TurnRecord) -> Result<Supersede, SubmitError> {
        let mut state = self.fold(&turn.id).await?;
        let events = submission::supersede(&state);
        let segment = segment(state.head + 1, Timestamp::now(), &events);
        for (seq, event) in (state.head + 1..).zip(&events) {
            state.apply(seq, event);
        }
        Ok(Supersede { turn: turn.id.clone(), segment, rest: turn::rest(&state, TurnStatus::Ended) })
    }

    async fn resume_turn(
        &self,
        submit: &Submit,
        place: Place,
        resume: Resume,
        slot: &mut Option<OwnedSemaphorePermit>,
    ) -> Result<Started, SubmitError> {
        let Place { session, agent, config } = place;
        let Resume { expected_version, turn, prior, answers } = resume;
        let tenant = submit.tenant.clone();
        let at = Timestamp::now();
        let mut state = self.fold(&turn).await?;
        let head = state.head;
        let resumed = Event::Resumed { answers };
        state.apply(head + 1, &resumed);
        let segment = segment(head + 1, at, &[resumed]);
        let command = ResumeTurn {
            id: CommandId::mint(),
            tenant: tenant.clone(),
            session: session.clone(),
            expected_version,
            config: config.clone(),
            turn: turn.clone(),
            node: self.0.node.clone(),
            segment: segment.clone(),
            key: command_key(submit.key.as_ref(), &session, &turn, head + 1),
            at,
        };
        let receipt = self.commit_turn(Command::ResumeTurn(Box::new(command))).await?;
        self.0.metrics.turns_resumed.inc();
        let enlisted = self.enlist(&tenant, &session, &turn, head);
        enlisted.live.tail.publish(segment);
        let owned = Owned { tenant, session, agent, config, turn, epoch: receipt.epoch, state };
        Ok(self.run(owned, prior, enlisted, slot.take()))
    }
}

fn segment(first_seq: u64, at: Timestamp, events: &[Event]) -> Segment {
    let mut builder = SegmentBuilder::new(first_seq);
    events.iter().for_each(|event| builder.push(at, event));
    builder.take()
}
