//! One model call of a turn, with its retries and fallbacks.

use std::{sync::Arc, time::Duration};

use everturn_core::{
    CallId, CallRoute, Content, Event, FailureCode, Finish, Json, Message, SessionId, StepFinished, Timestamp, ToolUse,
    Usage, Wait,
};
use everturn_models::{ModelError, ModelErrorKind, ModelEvent, ModelFinish, ModelRequest};
use sha2::{Digest as _, Sha256};

use crate::{
    MemoryExhausted, Settings,
    draft::Drafts,
    metrics::Label,
    output_format::Misfit,
    told::CountInput,
    turn::{Stopped, Turn},
    turn_log::Pushed,
    unnamed_overflow::Faults,
    watchdog::{Silences, Watchdog},
};

/// How many calls one answer may make.
const MAX_CALLS: usize = 64;
/// How often the call of one step is made, whatever each attempt is made for: more than all of them together should need.
const MAX_CALLS_OF_STEP: u32 = 60;
/// No model has a smaller window, in tokens.
const SMALLEST_WINDOW: u64 = 1024;
/// How long one answer may be, reasoning and calls included.
const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;

/// How many different notices of model calls one turn keeps.
const MAX_NOTICES: usize = 32;

/// The notice of messages that the provider refused before, and that this call is made without.
const REFUSED_BEFORE: &str = "earlier messages are left out of this turn: the provider refused them before";

/// The notice of messages that the model is not given.
const DECLINED_BEFORE: &str = "earlier messages are left out: the model or its provider declined them";

/// The longest pause for a provider that says "slow down" and names no time. The pauses before it are shorter; together
/// they take about as long again.
const LONGEST_UNASKED_PAUSE: Duration = Duration::from_secs(15 * 60);

/// How long model calls wait for tool servers, counted from the start of the server.
const PATIENCE: Duration = Duration::from_secs(2);
/// The same for those whose tools the model has had.
const PATIENCE_IF_USED: Duration = Duration::from_secs(10);

/// How an attempt at a step went.
enum Attempt {
    Finished,
    Failed(ModelError),
    /// The answer is whole, but is not what was asked for.
    Unfit(Misfit, Usage),
    /// The provider declined because of earlier messages, which are left out now.
    Declined(Usage),
    /// There is no memory for the request.
    NoMemory(MemoryExhausted),
}

impl Turn {
    /// Makes the next model call.
    pub(crate) async fn step(&mut self) -> Result<(), Stopped> {
        self.await_tools().await;
        self.load_documents().await;
        self.load_permissions().await;
        self.tell_list_changes()?;
        self.settle_context();
        if !self.fit_context(None).await? {
            return Ok(());
        }
        let model = self.current_model().name().to_owned();
        self.record(Event::StepStarted { step: self.state.steps + 1, model })?;
        self.shared.metrics.steps.inc();
        self.tell_what_was_declined()?;
        self.tell_left_out_tools()?;
        self.attempts().await
    }

    /// Tells readers that a note stands for earlier messages, for as long as no summary stands for them.
    fn tell_what_was_declined(&mut self) -> Result<(), Stopped> {
        let covered = self.compaction().map_or(0, |compaction| compaction.covers);
        if self.earlier.declined() > covered { self.notice(DECLINED_BEFORE.to_owned()) } else { Ok(()) }
    }

    /// Makes a model call again that was interrupted by the end of the process.
    pub(crate) async fn restart_step(&mut self) -> Result<(), Stopped> {
        let usage = self.used_by_interrupted_step();
        let reason = "the server stopped while the model was answering".to_owned();
        let attempt = self.state.step.as_ref().map_or(0, |step| step.attempts);
        self.void_attempt(reason, attempt, usage)?;
        // The model had all of them when it was interrupted.
        self.shared.tools.started(&self.agent.servers(), PATIENCE_IF_USED).await;
        self.load_documents().await;
        self.load_permissions().await;
        self.settle_context();
        self.attempts().await
    }

    /// Waits a little for tool servers, right after the process was started anew; longer for those that the conversation
    /// has used before. One that does not start delays nothing later on.
    async fn await_tools(&self) {
        let mut servers = self.agent.servers();
        if servers.is_empty() {
            return;
        }
        let used = |server: &&str| {
            let is_its = |name: &str| name.strip_prefix(*server).is_some_and(|rest| rest.starts_with("__"));
            let mut own = self.state.settled().iter().flat_map(Message::tool_uses);
            self.earlier.has_called(is_its) || own.any(|call| is_its(&call.name))
        };
        self.shared.tools.started(&servers, PATIENCE).await;
        servers.retain(used);
        self.shared.tools.started(&servers, PATIENCE_IF_USED).await;
    }

    /// Makes a model call again that the turn has paused before.
    pub(crate) async fn retry_step(&mut self) -> Result<(), Stopped> {
        self.load_documents().await;
        self.load_permissions().await;
        self.settle_context();
        self.attempts().await
    }

    pub(crate) fn current_model(&self) -> &Arc<dyn everturn_models::Model> {
        &self.agent.models[self.model.min(self.agent.models.len() - 1)]
    }

    fn void_attempt(&mut self, reason: String, attempt: u32, usage: Usage) -> Result<(), Stopped> {
        self.shared.metrics.step_restarts.inc();
        self.record(Event::StepRestarted { reason, attempt, usage })?;
        self.forget_told();
        Ok(())
    }

    async fn attempts(&mut self) -> Result<(), Stopped> {
        self.silences = Silences::default();
        self.faults = Faults::default();
        self.misfits.clear();
        let mut calls = 0;
        loop {
            calls += 1;
            match Box::pin(self.attempt()).await? {
                Attempt::Finished => {
                    self.note_answer();
                    return Ok(());
                }
                Attempt::Unfit(misfit, usage) => {
                    let reason = misfit.problem.clone();
                    if !self.may_repair() {
                        return self.fail(FailureCode::LlmProviderError, reason, false, usage).await;
                    }
                    let attempts = self.state.step.as_ref().map_or(0, |step| step.attempts);
                    self.void_attempt(reason, attempts, usage)?;
                    self.misfits.push(misfit);
                }
                Attempt::Declined(usage) => {
                    let attempts = self.state.step.as_ref().map_or(0, |step| step.attempts);
                    self.void_attempt("the provider declined earlier messages".to_owned(), attempts, usage)?;
                }
                Attempt::NoMemory(exhausted) => return self.pause_for_memory(exhausted).await,
                Attempt::Failed(error) => {
                    let kind = format!("{:?}", error.kind);
                    self.shared.metrics.model_errors.get_or_create(&Label { kind }).inc();
                    tracing::warn!(turn = %self.log.turn(), model = self.current_model().name(), %error, "a model call failed");
                    if calls >= MAX_CALLS_OF_STEP {
                        let usage = self.used_by_open_step(CountInput::IfAnswered);
                        let reason = format!("{} (the call was made {calls} times, which is the limit)", error.message);
                        return self.fail(failure_code(error.kind), reason, false, usage).await;
                    }
                    if !self.prepare_retry(error).await? {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Gets ready for another attempt; `false` if the turn has come to rest instead.
    async fn prepare_retry(&mut self, error: ModelError) -> Result<bool, Stopped> {
        let usage = self.used_by_open_step(CountInput::IfAnswered);
        let attempts = self.state.step.as_ref().map_or(0, |step| step.attempts);
        self.note_fault(&error);
        if error.kind == ModelErrorKind::ContextOverflow {
            // Fewer tools may be sent now that the window is known better.
            let used = self.sent.max(self.estimated_context());
            // A shorter request overflows no window: its tools are not to blame.
            if used >= SMALLEST_WINDOW {
                let before = self.overflowed.filter(|(model, _)| *model == self.model);
                self.overflowed = Some((self.model, before.map_or(used, |(_, before)| before.min(used))));
            }
            self.void_attempt(error.message, attempts + 1, usage)?;
            let fits = self.fit_context(Some(used)).await?;
            if fits {
                self.tell_left_out_tools()?;
            }
            return Ok(fits);
        }
        // Messages that it refused before may be what it refuses now. If it is something else, nothing is lost.
        if error.kind == ModelErrorKind::Rejected && self.leave_refused_turns_out() {
            self.void_attempt(error.message, attempts, usage)?;
            self.notice(REFUSED_BEFORE.to_owned())?;
            return Ok(true);
        }
        let settings = &self.shared.settings;
        // A provider that asks for no time at all is not asked again at once: it would say the same.
        let asked = error.retry_after.filter(|asked| !asked.is_zero());
        let wait = asked.unwrap_or_else(|| backoff(settings.retry_base, attempts).min(settings.retry_max));
        let may_retry = error.is_retryable() && attempts < settings.retries && self.silences.allow_retry();
        if may_retry && wait <= settings.retry_max {
            self.void_attempt(error.message, attempts + 1, usage)?;
            tokio::time::sleep(wait).await;
            return Ok(true);
        }
        if self.model + 1 < self.agent.models.len() {
            let model = self.agent.models[self.model + 1].name().to_owned();
            self.record(Event::ModelChanged { model, reason: error.message.clone() })?;
            // What the attempt used is counted for the model that made it.
            self.void_attempt(error.message, 0, usage)?;
            self.model += 1;
            (self.silences, self.faults) = (Silences::default(), Faults::default());
            return Ok(true);
        }
        if self.compact_after_faults(&error).await? {
            self.void_attempt(error.message, attempts, usage)?;
            return Ok(true);
        }
        let settings = &self.shared.settings;
        if let Some(pause) = pause(settings, &error, wait, attempts).filter(|pause| *pause <= settings.pause_max) {
            self.void_attempt(error.message, attempts + 1, usage)?;
            let wake_at = after(self.now(), pause);
            self.pause(Wait { calls: Vec::new(), wake_at: Some(wake_at) }).await?;
            return Ok(false);
        }
        // A server that has failed in the turn before as well may fail at something in the conversation.
        let may_be_history = match error.kind {
            ModelErrorKind::Rejected => true,
            ModelErrorKind::Unavailable => self.earlier.unanswered() > 0 && !error.is_busy,
            _ => false,
        };
        if may_be_history && !self.has_begun_to_answer() && self.summarise_refused_history().await? {
            self.void_attempt(error.message, attempts, usage)?;
            return Ok(true);
        }
        let code = failure_code(error.kind);
        let retryable = error.is_retryable();
        self.fail(code, error.message, retryable, usage).await?;
        Ok(false)
    }

    async fn attempt(&mut self) -> Result<Attempt, Stopped> {
        self.forget_told();
        self.answer_began = false;
        self.sent = self.estimated_context();
        let request = self.request();
        let mut memory = match self.reserve_request(&request).await {
            Ok(memory) => memory,
            Err(exhausted) => return Ok(Attempt::NoMemory(exhausted)),
        };
        let (mut watchdog, mut stream) =
            match Watchdog::call(&self.shared.settings, self.current_model(), request, &self.silences).await {
                Ok(call) => call,
                Err(error) => return Ok(Attempt::Failed(error)),
            };
        let mut signature = None;
        // Reasoning that comes after text. Readers are shown reasoning first, so it waits for the whole answer.
        let mut afterthought = String::new();
        let mut received = 0;
        let mut drafts = Drafts::default();
        loop {
            let event = match watchdog.next(&mut stream).await {
                Ok(event) => event,
                Err(error) => return Ok(Attempt::Failed(error)),
            };
            if !matches!(event, ModelEvent::Alive | ModelEvent::Notice(_)) {
                memory.shrink_to(0);
            }
            received += size(&event);
            self.answer_began |= is_of_answer(&event);
            if received > MAX_ANSWER_BYTES {
                let message = format!("the model's answer is longer than {MAX_ANSWER_BYTES} bytes, which is the limit");
                return Ok(Attempt::Failed(ModelError::new(ModelErrorKind::Rejected, message)));
            }
            if goes_on(&event) {
                self.keep_told()?;
            }
            let pushed = match event {
                ModelEvent::Alive => continue,
                ModelEvent::Notice(notice) => {
                    self.notice(notice)?;
                    continue;
                }
                ModelEvent::Text(text) => self.record(Event::TextDelta(text))?,
                ModelEvent::Thinking(text) if self.has_spoken() => {
                    afterthought.push_str(&text);
                    continue;
                }
                ModelEvent::Thinking(text) => self.record(Event::ThinkingDelta(text))?,
                ModelEvent::ThinkingSignature(proof) => {
                    signature = Some(proof);
                    continue;
                }
                ModelEvent::ToolCallStarted { part, name } => {
                    self.draft_started(&mut drafts, part, &name);
                    continue;
                }
                ModelEvent::ToolInputDelta { part, json } => match self.draft_delta(&mut drafts, part, &json).await? {
                    Some(pushed) => pushed,
                    None => continue,
                },
                ModelEvent::ToolCall { part, name, input } => {
                    let route = self.route(&name, &input).await;
                    // The check may have had to wait.
                    watchdog.pardon();
                    let id = self.draft_finished(&mut drafts, part, &name, &input, &route).await?;
                    self.call(id, name, input, route)?
                }
                ModelEvent::BadToolCall { part, name, problem } => {
                    let reason = format!("The input of {name} {problem}");
                    self.call(drafts.abandon(part), name, Json::empty_object(), CallRoute::Refused { reason })?
                }
                ModelEvent::Used(usage) => {
                    self.hear(usage);
                    continue;
                }
                ModelEvent::Finished { finish: ModelFinish::MaxTokens, usage } if self.is_window_full(usage) => {
                    let message = "the model had no room to answer: its context window is full";
                    return Ok(Attempt::Failed(ModelError::new(ModelErrorKind::ContextOverflow, message)));
                }
                ModelEvent::Finished { finish: ModelFinish::Refusal, usage }
                    if self.may_be_older() && self.summarise_refused_history().await? =>
                {
                    let usage = usage.unwrap_or_else(|| self.used_by_open_step(CountInput::Always));
                    return Ok(Attempt::Declined(usage));
                }
                ModelEvent::Finished { finish, usage } => {
                    if finish == ModelFinish::Stop
                        && let Err(misfit) = self.hold_to_request().await
                    {
                        let usage = usage.unwrap_or_else(|| self.used_by_open_step(CountInput::Always));
                        return Ok(Attempt::Unfit(misfit, usage));
                    }
                    self.finish(finish, usage, signature, &afterthought)?;
                    return Ok(Attempt::Finished);
                }
            };
            if pushed.full {
                self.log.durable(pushed.seq).await?;
                // It was the store that kept us waiting.
                watchdog.pardon();
            }
        }
    }

    pub(crate) fn request(&self) -> ModelRequest {
        let (system, messages) = self.context(self.complaints());
        ModelRequest {
            system,
            messages,
            tools: self.offered_tools().into(),
            documents: self.documents.contents(),
            options: self.model_options(),
            cache_key: Some(self.cache_key.clone()),
            body: self.agent.body.clone(),
            context_window: self.agent.asked_window(&**self.current_model()),
            attempt: self.state.step.as_ref().map_or(0, |step| step.attempts),
        }
    }

    /// Tells readers that the provider does not do what was asked for: once in a turn, however many calls it makes.
    pub(crate) fn notice(&mut self, notice: String) -> Result<(), Stopped> {
        if self.notices_told.len() >= MAX_NOTICES || self.notices_told.contains(&notice) {
            return Ok(());
        }
        tracing::info!(turn = %self.log.turn(), model = self.current_model().name(), notice, "a model call was changed");
        let event = Event::model_notice(&notice);
        self.notices_told.push(notice);
        self.record(event)?;
        Ok(())
    }

    fn call(&mut self, id: CallId, name: String, input: Json, route: CallRoute) -> Result<Pushed, Stopped> {
        let made = self.state.step.as_ref().map_or(0, |step| step.calls.len());
        let route = if made < MAX_CALLS {
            route
        } else {
            CallRoute::Refused { reason: format!("Tool call not run: one answer may make {MAX_CALLS} calls at most") }
        };
        self.record(Event::ToolCalled { call: ToolUse { id, name, input }, route })
    }

    /// Whether a call that ended without an answer has filled the window with its question: some servers say no more of an
    /// overflow.
    fn is_window_full(&self, usage: Option<Usage>) -> bool {
        /// A shorter conversation fills no window.
        const SHORT: u64 = 512;
        /// Compactions after which it must be something else.
        const ROUNDS: u32 = 4;
        let has_written = usage.is_some_and(|usage| usage.output > 1);
        let is_early = self.state.step.as_ref().is_none_or(|step| step.attempts < ROUNDS);
        let length = self.estimated_context();
        // A model that thinks in secret may have spent the whole cap on it.
        let has_thought = usage.is_none()
            && self.current_model().thinks()
            && self.current_model().context_window().is_some_and(|window| length < window / 2);
        !self.has_begun_to_answer() && !has_written && !has_thought && is_early && length > SHORT
    }

    /// Whether the answer under way has begun, if only with a call that is not complete.
    pub(crate) fn has_begun_to_answer(&self) -> bool {
        let step = self.state.step.as_ref();
        self.answer_began
            || step.is_some_and(|step| !step.text.is_empty() || !step.thinking.is_empty() || !step.calls.is_empty())
    }

    fn has_spoken(&self) -> bool {
        self.state.step.as_ref().is_some_and(|step| !step.text.is_empty())
    }

    fn finish(
        &mut self,
        finish: ModelFinish,
        usage: Option<Usage>,
        signature: Option<String>,
        afterthought: &str,
    ) -> Result<(), Stopped> {
        let usage = usage.unwrap_or_else(|| self.used_by_open_step(CountInput::Always));
        // The texts move from the state to the event; the calls stay, for the fold.
        let step = self.state.step.get_or_insert_default();
        let (mut thinking, text) = (std::mem::take(&mut step.thinking), std::mem::take(&mut step.text));
        thinking.push_str(afterthought);
        let routed = step.calls.clone();
        let calls: Vec<_> = routed.iter().map(|(call, _)| call.clone()).collect();
        let finish = match finish {
            ModelFinish::Stop if calls.is_empty() => Finish::Stop,
            ModelFinish::Stop => Finish::ToolUse,
            ModelFinish::MaxTokens => Finish::MaxTokens,
            ModelFinish::Refusal => Finish::Refusal,
        };
        let content = Content::answer(thinking, signature, text, calls);
        let withheld = self.withheld(&routed, finish);
        let finished = StepFinished { content, finish, usage, deltas_dropped: false, step: 0, withheld };
        self.record(Event::StepFinished(finished))?;
        Ok(())
    }

    /// The application's calls that nobody will run: it is not shown them, since it would run them.
    pub(crate) fn withheld(&self, calls: &[(ToolUse, CallRoute)], finish: Finish) -> Vec<CallId> {
        let cut_short = !matches!(finish, Finish::Stop | Finish::ToolUse);
        let is_withheld = |(call, route): &&(ToolUse, CallRoute)| {
            self.is_applications(&call.name, route) && (cut_short || *route != CallRoute::Client)
        };
        calls.iter().filter(is_withheld).map(|(call, _)| call.id.clone()).collect()
    }
}

/// The code of a turn that fails because a model call did.
pub(crate) fn failure_code(kind: ModelErrorKind) -> FailureCode {
    match kind {
        ModelErrorKind::RateLimited => FailureCode::LlmRateLimited,
        ModelErrorKind::Unavailable => FailureCode::LlmProviderUnavailable,
        ModelErrorKind::Timeout => FailureCode::LlmRequestTimeout,
        ModelErrorKind::Rejected => FailureCode::LlmRequestRefused,
        ModelErrorKind::ContextOverflow | ModelErrorKind::Denied => FailureCode::LlmProviderError,
    }
}

/// Whether an event is a part of the answer, shown or not.
fn is_of_answer(event: &ModelEvent) -> bool {
    match event {
        ModelEvent::Text(_)
        | ModelEvent::Thinking(_)
        | ModelEvent::ToolCallStarted { .. }
        | ModelEvent::ToolInputDelta { .. }
        | ModelEvent::ToolCall { .. }
        | ModelEvent::BadToolCall { .. } => true,
        // A proof may come with an answer that is otherwise empty.
        ModelEvent::ThinkingSignature(_)
        | ModelEvent::Alive
        | ModelEvent::Notice(_)
        | ModelEvent::Used(_)
        | ModelEvent::Finished { .. } => false,
    }
}

/// Whether an event says that there is more to come. Calls are completed with the end of some answers.
fn goes_on(event: &ModelEvent) -> bool {
    match event {
        ModelEvent::Text(_)
        | ModelEvent::Thinking(_)
        | ModelEvent::ToolCallStarted { .. }
        | ModelEvent::ToolInputDelta { .. } => true,
        ModelEvent::Alive
        | ModelEvent::Notice(_)
        | ModelEvent::ThinkingSignature(_)
        | ModelEvent::ToolCall { .. }
        | ModelEvent::BadToolCall { .. }
        | ModelEvent::Used(_)
        | ModelEvent::Finished { .. } => false,
    }
}

/// What an event adds to an answer, in bytes. A call counts for something even if there is nothing in it.
fn size(event: &ModelEvent) -> usize {
    match event {
        ModelEvent::Text(text) | ModelEvent::Thinking(text) | ModelEvent::ThinkingSignature(text) => text.len(),
        ModelEvent::ToolCall { name, input, .. } => 64 + name.len() + input.as_str().len(),
        ModelEvent::BadToolCall { name, .. } => 64 + name.len(),
        ModelEvent::Alive
        | ModelEvent::Notice(_)
        | ModelEvent::ToolCallStarted { .. }
        | ModelEvent::ToolInputDelta { .. }
        | ModelEvent::Used(_)
        | ModelEvent::Finished { .. } => 0,
    }
}

/// Ties the calls of a session to one cache at the provider, without naming the session.
pub(crate) fn cache_key(session: &SessionId) -> String {
    let digest: [u8; 32] = Sha256::digest(session.as_str()).into();
    digest[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// So long after a time.
pub(crate) fn after(time: Timestamp, wait: Duration) -> Timestamp {
    Timestamp(time.millis().saturating_add(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX)))
}

/// How long a turn pauses before it calls a provider again. A provider that named a time gets that time. One that says
/// "slow down" after all retries gets a pause that doubles each time, whether or not it named a time.
fn pause(settings: &Settings, error: &ModelError, wait: Duration, attempts: u32) -> Option<Duration> {
    match attempts.checked_sub(settings.retries) {
        Some(pauses) if error.kind == ModelErrorKind::RateLimited => {
            let pause = wait.max(settings.retry_max.saturating_mul(2_u32.saturating_pow(pauses)));
            (error.retry_after.is_some() || pause <= LONGEST_UNASKED_PAUSE).then_some(pause)
        }
        Some(_) => None,
        None => (error.retry_after.is_some() && error.is_retryable()).then_some(wait),
    }
}

/// Doubles with each attempt, with jitter so that turns that failed together do not return together.
pub(crate) fn backoff(base: Duration, attempts: u32) -> Duration {
    let doubled = base.saturating_mul(2_u32.saturating_pow(attempts.min(16)));
    doubled.mul_f64(rand::random_range(0.5..1.0))
}
