//! Submissions: which turn they begin, take up or wait for. `accept.rs` does what is decided here.

use std::{collections::HashSet, sync::Arc, time::Duration};

use everturn_core::{
    Answer, CallId, FormId, Message, SessionConfig, SessionId, TenantId, Usage, Wait, WaitingFor,
    submission::{self, Admission, OnBusy, SessionPhase, Submission},
};
use everturn_store::{Refusal, SecretPlace, StoreError, TurnStatus};
use tokio::time::Instant;

use crate::{
    Agent, Engine, Started, Submit, SubmitError, Target,
    accept::{Begin, Place, Resume},
    account::Slot,
    earlier_history::EarlierHistory,
    gates::{Alone, Gate},
    live::LiveTurn,
    seeded,
    session_head::SessionHead,
    session_history::{PAGE, SessionHistory},
};

/// How often a submission is judged anew because the session changed meanwhile. Other submissions wait, but the turn under
/// way and other processes do not.
const MAX_CONFLICTS: u32 = 200;
/// The longest wait before it is judged anew, in milliseconds: those who collide must not meet again.
const CONFLICT_WAIT: u64 = 20;
/// How long an answer to an open form waits for a turn that works on another answer.
const ANSWER_PATIENCE: Duration = Duration::from_secs(30);
/// How long at a time: a turn that was begun again may ask the same again, and runs until it is answered.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// What a submission has while it is judged.
struct Judging<'gate> {
    /// To run in.
    slot: Option<Slot>,
    /// The session's gate, and whether this one holds it.
    gate: Option<&'gate Arc<Gate>>,
    alone: Option<Alone<'gate>>,
    /// The place of the submission that interrupts next, if it has that.
    interrupting: Option<Alone<'gate>>,
    /// How many were about to join the session's queue before this one looked at it.
    joining: usize,
    delay: Option<Delay>,
}

/// What a submission waits for before it is judged again.
enum Delay {
    /// A turn that works on another answer.
    UntilRest(Arc<LiveTurn>),
    /// Its turn to interrupt.
    InterruptNext,
    /// The time until the next interrupt of the session, or the end of the turn that is to be interrupted.
    Interrupt(Duration, Option<Arc<LiveTurn>>),
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
        // One after the other: the second would want a place to run in, for nothing.
        let alone = submit.key.as_ref().map(|key| self.0.keys.of(&submit.tenant, &key.key));
        let _alone = match &alone {
            Some(alone) => Some(alone.lock().await),
            None => None,
        };
        // Before anything else: what was accepted once would now be refused, as a second turn while the first one runs.
        if let Some(started) = self.find_repetition(&submit).await? {
            return Ok(started);
        }
        match self.submit_first(&submit).await {
            Ok(started) => Ok(started),
            // Or it came twice at once, and the other one was taken in between.
            Err(error) => self.find_repetition(&submit).await?.ok_or(error),
        }
    }

    async fn submit_first(&self, submit: &Submit) -> Result<Started, SubmitError> {
        let begun = Instant::now();
        let gate = match &submit.target {
            Target::New { .. } | Target::Seeded { .. } => None,
            Target::Existing(session) | Target::Named { session, .. } => {
                Some(self.0.sessions.of(&submit.tenant, session.as_str()))
            }
        };
        let mut judging =
            Judging { slot: None, gate: gate.as_ref(), alone: None, interrupting: None, joining: 0, delay: None };
        for conflicts in 0..MAX_CONFLICTS {
            // One after the other: those who are judged together collide, and only one of them gets on. Who is judged anew
            // keeps its place, also after an interrupt: what it made room for is its own turn and nobody else's.
            if let (None, Some(gate)) = (&judging.alone, judging.gate) {
                judging.alone = Some(gate.lock_beside_joining().await);
            }
            // Counted before the session is read: a submission that is in neither count has not joined and never will.
            judging.joining = judging.gate.map_or(0, |gate| gate.joining());
            let result = match &submit.target {
                Target::New { agent } | Target::Seeded { agent } => {
                    Box::pin(self.begin_session(submit, SessionId::mint(), agent, &mut judging.slot)).await
                }
                Target::Existing(session) => Box::pin(self.submit_to(submit, session, &mut judging)).await,
                Target::Named { session, agent } => {
                    match Box::pin(self.submit_to(submit, session, &mut judging)).await {
                        Err(SubmitError::NotFound) => {
                            Box::pin(self.begin_session(submit, session.clone(), agent, &mut judging.slot)).await
                        }
                        result => result,
                    }
                }
            };
            match result {
                Err(SubmitError::Rejected(Refusal::Changed)) if begun.elapsed() < ANSWER_PATIENCE => {
                    match judging.delay.take() {
                        Some(Delay::UntilRest(turn)) => {
                            drop(judging.alone.take());
                            turn.stopped(LOOK_AGAIN).await;
                        }
                        Some(Delay::InterruptNext) => {
                            drop(judging.alone.take());
                            if let Some(gate) = judging.gate {
                                let left = ANSWER_PATIENCE.saturating_sub(begun.elapsed());
                                judging.interrupting = tokio::time::timeout(left, gate.interrupt_next()).await.ok();
                            }
                        }
                        Some(Delay::Interrupt(time, turn)) => {
                            drop(judging.alone.take());
                            match turn {
                                Some(turn) => turn.stopped(time).await,
                                None => tokio::time::sleep(time).await,
                            }
                        }
                        None => {
                            let longest = u64::from(conflicts).min(CONFLICT_WAIT);
                            tokio::time::sleep(Duration::from_millis(rand::random_range(0..=longest))).await;
                        }
                    }
                }
                Err(SubmitError::Rejected(Refusal::Changed)) => break,
                Err(SubmitError::Rejected(Refusal::NotFound)) => return Err(SubmitError::NotFound),
                Err(SubmitError::Rejected(Refusal::Exists)) => {
                    // Somebody else has made it in between, or it was there once.
                    if let Target::Named { session, .. } = &submit.target
                        && self.0.store.session(&submit.tenant, session).await?.is_none()
                    {
                        return Err(SubmitError::Deleted { session: session.clone() });
                    }
                }
                Err(SubmitError::Rejected(refusal)) => return self.repeated(submit, refusal).await,
                result => return result,
            }
        }
        Err(submission::Refused::Busy.into())
    }

    async fn begin_session(
        &self,
        submit: &Submit,
        session: SessionId,
        agent: &str,
        slot: &mut Option<Slot>,
    ) -> Result<Started, SubmitError> {
        if let Some(form) = submit.reply.as_ref().and_then(|reply| reply.form.clone()) {
            return Err(SubmitError::FormClosed { form });
        }
        let agent = self.agent_for_new(&submit.tenant, agent).await?;
        let agent = self.dress(&agent, submit.update.overlay.as_ref())?;
        let config = SessionConfig { agent: agent.name.clone(), ..SessionConfig::default() };
        let config = self.updated(submit, &agent, &session, &config).await?;
        submission::admit(SessionPhase::Idle, &submit.submission, submit.on_busy, |_| false)?;
        let Submission::Begin(input) = &submit.submission else { return Err(submission::Refused::Empty.into()) };
        self.acquire(submit, slot).await?;
        let opening = match submit.target {
            Target::Seeded { .. } => seeded::opening(input, &config),
            Target::New { .. } | Target::Existing(_) | Target::Named { .. } => Vec::new(),
        };
        let begin = Begin {
            opening,
            expected_version: None,
            used_before: Usage::default(),
            supersedes: None,
            earlier: EarlierHistory::default(),
            input: input.clone(),
            compacts: false,
        };
        self.begin_turn(submit, Place { session, agent, config }, begin, slot).await
    }

    async fn submit_to(
        &self,
        submit: &Submit,
        session: &SessionId,
        judging: &mut Judging<'_>,
    ) -> Result<Started, SubmitError> {
        let head = self.session_head(&submit.tenant, session).await?.ok_or(SubmitError::NotFound)?;
        let is_remembered = head.is_remembered;
        match Box::pin(self.submit_at(submit, head, judging)).await {
            // A store that failed may have kept what it was given all the same: that is not tried again.
            Err(error) if is_remembered && !matches!(error, SubmitError::Store(_)) => {
                self.forget_head(&submit.tenant, session);
                Err(SubmitError::Rejected(Refusal::Changed))
            }
            result => result,
        }
    }

    async fn submit_at(
        &self,
        submit: &Submit,
        head: SessionHead,
        judging: &mut Judging<'_>,
    ) -> Result<Started, SubmitError> {
        let session = &head.id;
        if head.queued > 0 {
            self.0.queues.insert(&submit.tenant, session);
        }
        let may_answer = self.may_answer(submit, &head).await?;
        if may_answer && let Some(started) = self.answer_question(submit, &head).await? {
            return Ok(started);
        }
        let phase = phase(&head);
        let submission = match reply_to(submit, phase) {
            Ok(Some(answer)) => Submission::SomeAnswers(vec![answer]),
            reply => {
                let form = submit.reply.as_ref().and_then(|reply| reply.form.as_ref());
                // The turn works on another answer.
                if may_answer && self.is_open_in(&submit.tenant, session, form).await? {
                    // Also for one that asks again what it asked before the process was started anew.
                    let turn = head.last_turn.as_ref().and_then(|turn| self.0.live.get(&turn.id));
                    judging.delay = turn.map(Delay::UntilRest);
                    return Err(SubmitError::Rejected(Refusal::Changed));
                }
                reply?;
                without_timers(submit.submission.clone(), phase)
            }
        };
        let agent = match &submit.update.overlay {
            None => self.agent_of_session(&submit.tenant, &head.config).await?,
            // It takes the place of the one before, all of it.
            overlay => {
                let agent = self.find_agent(&submit.tenant, &head.config.agent, false).await?;
                self.dress(&agent, overlay.as_ref())?
            }
        };
        let config = self.updated(submit, &agent, session, &head.config).await?;
        let place = Place { session: session.clone(), agent, config };
        let admission = match submission::admit(phase, &submission, submit.on_busy, |_| false) {
            // Only now is it worth looking through all that was said.
            Err(submission::Refused::UnknownCall(_)) => {
                let answered = self.answered_before(&submit.tenant, session, &submission).await?;
                submission::admit(phase, &submission, submit.on_busy, |id| answered.contains(id))?
            }
            admission => admission?,
        };
        let (expected_version, used_before) = (head.version, head.usage);
        match admission {
            Admission::Queue => {
                self.check_storage(&submit.tenant, 0).await?;
                self.check_tokens(&submit.tenant, &submit.account).await?;
                return self.join_queue(submit, place, &head, judging).await;
            }
            Admission::Interrupt => return self.interrupt_first(&submit.tenant, &head, judging).await,
            Admission::Supersede if head.queued > 0 => match submit.on_busy {
                OnBusy::Interrupt => return self.interrupt_first(&submit.tenant, &head, judging).await,
                OnBusy::Supersede | OnBusy::Reject | OnBusy::Enqueue => return Err(submission::Refused::Busy.into()),
            },
            Admission::Begin | Admission::Supersede | Admission::Resume => {}
        }
        let slot = &mut judging.slot;
        self.acquire(submit, slot).await?;
        let SessionHistory { earlier, waiting } = self.session_history(&head).await?;
        let open = head.last_turn.as_ref().map(|turn| turn.id.clone()).zip(waiting);
        match (submission, open) {
            (Submission::Compact, _) => {
                let begin = Begin {
                    opening: Vec::new(),
                    expected_version: Some(expected_version),
                    used_before,
                    supersedes: None,
                    earlier,
                    input: Vec::new(),
                    compacts: true,
                };
                self.begin_turn(submit, place, begin, slot).await
            }
            (Submission::Begin(input), open) => {
                let supersedes = open.map(|(turn, state)| self.supersede(&place, &submit.tenant, &turn, state));
                let (opening, expected_version) = (Vec::new(), Some(expected_version));
                let begin =
                    Begin { opening, expected_version, used_before, supersedes, earlier, input, compacts: false };
                self.begin_turn(submit, place, begin, slot).await
            }
            (Submission::Answers(answers) | Submission::SomeAnswers(answers), Some((turn, state))) => {
                let options = submit.options_of_answers.then(|| Box::new(submit.options.clone()));
                let resume = Resume { expected_version, turn, state, used: used_before, earlier, answers, options };
                let key = submit.key.as_ref();
                self.resume_turn(&submit.tenant, place, resume, key, slot).await
            }
            (Submission::Answers(_) | Submission::SomeAnswers(_), None) => Err(submission::Refused::Empty.into()),
        }
    }

    /// Which of the calls that a submission answers have a result already. Reads the session from its end, as far as needed.
    async fn answered_before(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        submission: &Submission,
    ) -> Result<HashSet<CallId>, StoreError> {
        let (Submission::Answers(answers) | Submission::SomeAnswers(answers)) = submission else {
            return Ok(HashSet::new());
        };
        let mut open: HashSet<&CallId> = answers.iter().map(Answer::call_id).collect();
        let (mut answered, mut below) = (HashSet::new(), None);
        while !open.is_empty() {
            let page = self.0.store.turns_below(tenant, session, below, PAGE).await?;
            for message in page.iter().flat_map(|turn| &turn.messages) {
                if let Message::Tool { call_id, .. } = message
                    && let Some(id) = open.take(call_id)
                {
                    answered.insert(id.clone());
                }
            }
            if page.len() < PAGE {
                break;
            }
            below = page.last().map(|turn| turn.ordinal);
        }
        Ok(answered)
    }

    /// Puts a submission into the session's queue. The next one is judged as soon as the command is on its way: what joins
    /// a queue collides with nothing, unless it changes the session's settings.
    async fn join_queue(
        &self,
        submit: &Submit,
        place: Place,
        head: &SessionHead,
        judging: &mut Judging<'_>,
    ) -> Result<Started, SubmitError> {
        let limit = self.0.settings.session_queue;
        if head.queued.saturating_add(judging.joining as u64) >= limit as u64 {
            // Those who are about to join may be in both counts.
            let is_full = judging.joining == 0 || head.queued >= limit as u64;
            return Err(if is_full {
                SubmitError::QueueFull { limit }
            } else {
                SubmitError::Rejected(Refusal::Changed)
            });
        }
        // Joins the tenant's count before the store is asked: every other submission is in one of the counts, or in both.
        let of_tenant = self.0.tenant_queues.of(&submit.tenant, "");
        let joining_of_tenant = of_tenant.join();
        let (limit, joining) = (self.0.settings.tenant_queue as u64, of_tenant.joining() as u64);
        let queued = self.0.store.queued_of_tenant(&submit.tenant).await?;
        if queued.saturating_add(joining) > limit {
            return Err(if queued >= limit || joining == 1 {
                SubmitError::TenantQueueFull { limit: self.0.settings.tenant_queue }
            } else {
                SubmitError::Rejected(Refusal::Changed)
            });
        }
        let keeps_settings = place.config == head.config;
        let joining = judging.gate.map(Gate::join);
        let queued = self.queue_turn(submit, place, head)?;
        if keeps_settings {
            drop(judging.alone.take());
        }
        let started = queued.await;
        if !keeps_settings {
            self.0.busy.forget(&submit.tenant, &head.id);
        }
        drop((joining, joining_of_tenant));
        started
    }

    /// Whether a submission may be meant for a form of the turn that runs. Most turns have none, and every message may be an
    /// answer.
    async fn may_answer(&self, submit: &Submit, head: &SessionHead) -> Result<bool, StoreError> {
        let runs = head.last_turn.as_ref().is_some_and(|turn| turn.status == TurnStatus::Running);
        match &submit.reply {
            Some(reply) if runs && reply.form.is_some() => Ok(true),
            // Who says that the turn is to be ended does not mean to answer it.
            Some(_) if runs && submit.on_busy != OnBusy::Interrupt => {
                // A turn of this process knows whether it has asked anything.
                let live = head.last_turn.as_ref().and_then(|turn| self.0.live.get(&turn.id));
                match live.is_some_and(|live| !live.has_asked()) {
                    true => Ok(false),
                    false => self.is_open_in(&submit.tenant, &head.id, None).await,
                }
            }
            Some(_) | None => Ok(false),
        }
    }

    /// Ends what is under way in a session, so that a submission can be judged again.
    async fn interrupt_first(
        &self,
        tenant: &TenantId,
        head: &SessionHead,
        judging: &mut Judging<'_>,
    ) -> Result<Started, SubmitError> {
        if let Some(gate) = judging.gate {
            if judging.interrupting.is_none() {
                judging.interrupting = gate.try_interrupt();
            }
            if judging.interrupting.is_none() {
                judging.delay = Some(Delay::InterruptNext);
                return Err(SubmitError::Rejected(Refusal::Changed));
            }
            // Those who came before are ended, too.
            gate.joined().await;
        }
        match self.0.sessions.interrupt(tenant, head.id.as_str()) {
            Ok(()) => Box::pin(self.clear_session(tenant, &head.id)).await?,
            Err(time) => {
                let turn = head.last_turn.as_ref().and_then(|turn| self.0.live.get(&turn.id));
                judging.delay = Some(Delay::Interrupt(time, turn));
            }
        }
        Err(SubmitError::Rejected(Refusal::Changed))
    }

    async fn updated(
        &self,
        submit: &Submit,
        agent: &Agent,
        session: &SessionId,
        config: &SessionConfig,
    ) -> Result<SessionConfig, SubmitError> {
        let seal = |option: &str, value: &str| {
            self.0.secrets.seal(SecretPlace { tenant: &submit.tenant, session, option }, value)
        };
        let config = submit.update.apply(agent, &self.0.tools, config, seal)?;
        submit.update.check_schemas(&submit.tenant, &self.0.tools, submit.options.output.as_ref()).await?;
        Ok(config)
    }
}

/// Where a session stands. One whose next turn is about to leave the queue is busy.
fn phase(head: &SessionHead) -> SessionPhase<'_> {
    match head.last_turn.as_ref().map(|turn| &turn.status) {
        Some(TurnStatus::Running) => SessionPhase::Running,
        Some(TurnStatus::Waiting(wait)) => SessionPhase::Waiting(wait),
        Some(TurnStatus::Ended(_) | TurnStatus::Queued) | None if head.queued > 0 => SessionPhase::Running,
        Some(TurnStatus::Ended(_) | TurnStatus::Queued) | None => SessionPhase::Idle,
    }
}

/// A submission without permissions for timers. They need none, but clients that answer every call without a result send
/// one; it must not refuse the answers beside it.
fn without_timers(submission: Submission, phase: SessionPhase<'_>) -> Submission {
    let (Submission::Answers(answers), SessionPhase::Waiting(wait)) = (&submission, phase) else { return submission };
    let is_timer = |id: &CallId| wait.calls.iter().any(|call| call.id == *id && call.waiting_for == WaitingFor::Timer);
    let needed = |answer: &&Answer| !(matches!(answer, Answer::Permission { .. }) && is_timer(answer.call_id()));
    let kept: Vec<Answer> = answers.iter().filter(needed).cloned().collect();
    if kept.is_empty() { submission } else { Submission::Answers(kept) }
}

/// The answer that a submission gives to a form, if it does and the session waits for it.
fn reply_to(submit: &Submit, phase: SessionPhase<'_>) -> Result<Option<Answer>, SubmitError> {
    let Some(reply) = &submit.reply else { return Ok(None) };
    let call = match phase {
        SessionPhase::Waiting(wait) => open_form(wait, reply.form.as_ref()),
        SessionPhase::Idle | SessionPhase::Running => None,
    };
    match (call, &reply.form) {
        // Who says that the turn is to be ended does not mean to answer it.
        (Some(_), None) if submit.on_busy == OnBusy::Interrupt => Ok(None),
        (Some(call_id), _) => Ok(Some(Answer::Form { call_id: call_id.clone(), value: reply.value.clone() })),
        (None, Some(form)) => Err(SubmitError::FormClosed { form: form.clone() }),
        (None, None) => Ok(None),
    }
}

fn open_form<'a>(wait: &'a Wait, form: Option<&FormId>) -> Option<&'a CallId> {
    let asks = |waiting_for| matches!(waiting_for, WaitingFor::Form | WaitingFor::Permission);
    let mut calls = wait.calls.iter().filter(|call| asks(call.waiting_for)).map(|call| &call.id);
    calls.find(|call| form.is_none_or(|form| FormId::of_call(call) == *form))
}
