//! One live turn: does what the plan says next until the turn rests.
//!
//! The turn's state is the fold of its log; every change is an event first. Cancelling is dropping the work under way
//! (which ends provider calls and tools) and recording how the turn ends.

use std::{
    collections::{BTreeMap, HashMap},
    panic::AssertUnwindSafe,
    sync::Arc,
    time::Instant,
};

use everturn_core::{
    CallId, CallState, CancelReason, Content, EffectClass, Event, FailureCode, Finish, Next, Outcome, Phase,
    SessionConfig, SessionId, StepFinished, TenantId, Timestamp, TurnEnded, TurnState, Usage, Wait, next,
};
use everturn_store::{Rest, TurnStatus, TurnSummary, Write};
use futures_util::FutureExt as _;

use crate::{
    Agent,
    committer::CommitError,
    document_context::Documents,
    earlier_history::{EarlierHistory, FinishedTurn},
    engine::Shared,
    forms,
    history::Spoken,
    live::{Interrupt, LiveTurn},
    metrics::Label,
    next_turn::{BegunTurn, NextTurn},
    notices::Noticed,
    output_format::Misfit,
    permissions::Permissions,
    session_head::SessionHead,
    told::Told,
    turn_log::{Pushed, TurnLog},
    unnamed_overflow::{Faults, Lengths},
    warm_sessions::{WaitingTurn, WarmSession},
    watchdog::Silences,
};

/// What the model is told of a call with effects that was cut off while it ran.
const UNKNOWN_OUTCOME: &str = "Tool call interrupted: the turn was ended while it ran. Whether it had its effect is \
    unknown; check before you call it again";

/// How a turn ends whose session is about to be deleted.
const DELETED: Outcome = Outcome::Cancelled { reason: CancelReason::SessionDeleted };

/// Why work on a turn stopped before it came to rest.
#[derive(Debug)]
pub(crate) enum Stopped {
    /// The log takes no more: another owner, a deleted session, a broken store.
    Log(CommitError),
    /// The server shuts down; the next start goes on from here.
    Draining,
}

impl From<CommitError> for Stopped {
    fn from(error: CommitError) -> Self {
        Self::Log(error)
    }
}

/// How this process left a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// It waits, for so long at most.
    Waiting(Option<Timestamp>),
    /// It is over.
    Ended,
    /// Somebody else goes on with it, or nobody can.
    Halted,
}

/// A turn that this process owns.
pub(crate) struct Turn {
    pub(crate) shared: Arc<Shared>,
    pub(crate) agent: Arc<Agent>,
    pub(crate) tenant: TenantId,
    pub(crate) session: SessionId,
    pub(crate) config: SessionConfig,
    pub(crate) log: Arc<TurnLog>,
    pub(crate) state: TurnState,
    /// What the session's other turns have used, if that is known.
    pub(crate) used_elsewhere: Option<Usage>,
    /// What the session's earlier turns left.
    pub(crate) earlier: EarlierHistory,
    /// The same without what the provider refuses, once it has refused it again.
    pub(crate) without_refused: Option<EarlierHistory>,
    /// What the model is given of history, once a step has begun.
    pub(crate) spoken: Option<Spoken>,
    /// How long the request was that was sent last, in tokens.
    pub(crate) sent: u64,
    /// The shortest request that a model has found too long, in tokens, and which of the agent's models it was.
    pub(crate) overflowed: Option<(usize, u64)>,
    /// How long conversations may be, as answers and faults have shown.
    pub(crate) lengths: Lengths,
    /// Faults without words of the step under way.
    pub(crate) faults: Faults,
    /// Whether the model was silent when it was asked for a summary.
    pub(crate) is_summariser_silent: bool,
    /// Whether the attempt under way has given anything of an answer.
    pub(crate) answer_began: bool,
    /// How long the conversation was when no summary of it could be made, in tokens.
    pub(crate) unsummarised: Option<u64>,
    /// Ties the session's calls to one cache at the provider.
    pub(crate) cache_key: String,
    /// Which of the agent's models is in use.
    pub(crate) model: usize,
    /// The documents that history speaks of.
    pub(crate) documents: Documents,
    /// What people have said of tools for good.
    pub(crate) permissions: Permissions,
    /// The lists of the agent's tool servers, as they were when this turn last looked.
    pub(crate) lists: Option<BTreeMap<String, u64>>,
    /// What providers have told of calls under way.
    pub(crate) told: Told,
    /// How often the model was silent in the step under way.
    pub(crate) silences: Silences,
    /// The notices of model calls that this turn's readers were given.
    pub(crate) notices_told: Vec<String>,
    /// Answers of the step under way that did not have the format that was asked for.
    pub(crate) misfits: Vec<Misfit>,
    /// Whether it is known that the tenant and the key have tokens of the day left.
    pub(crate) has_tokens: bool,
    /// When calls began to run, for those that a stop ends.
    pub(crate) begun: HashMap<CallId, Instant>,
    /// The turn that begins when this one ends, once that is on its way.
    pub(crate) next: Option<NextTurn>,
}

impl Turn {
    /// Runs until the turn rests, is interrupted, or the log takes no more. Gives the next turn if that has begun.
    pub(crate) async fn run(mut self, live: Arc<LiveTurn>) -> (Left, Option<BegunTurn>) {
        let left = self.run_to_rest(&live).await;
        match self.next.take() {
            Some(next) if left == Left::Ended => match Box::pin(self.hand_over(next)).await {
                Ok(begun) => return (left, Some(begun)),
                Err(turn) => turn.keep_warm(),
            },
            _ if left != Left::Halted => self.keep_warm(),
            _ => {}
        }
        (left, None)
    }

    /// Adds what this turn leaves to the history before it, if it has ended.
    pub(crate) fn add_to_history(&mut self) {
        // History is added to in place if nobody else holds it.
        (self.spoken, self.documents) = (None, Documents::default());
        if let Phase::Ended(ended) = &self.state.phase {
            let (messages, usage) = (self.state.messages(), self.state.usage);
            let (compaction, outcome) = (self.state.compaction.clone(), ended.outcome.clone());
            let lengths = Some(std::mem::take(&mut self.lengths));
            self.earlier.push(FinishedTurn { messages, compaction, outcome, usage, lengths });
        }
    }

    /// Keeps what the session's next turn will need.
    fn keep_warm(mut self) {
        let head = self.session_head();
        self.add_to_history();
        let Self { shared, tenant, session, log, state, earlier, .. } = self;
        let waiting = match &state.phase {
            Phase::Ended(_) => None,
            Phase::Waiting(_) => Some(Box::new(WaitingTurn { state, version: log.rest_version() })),
            Phase::New | Phase::Running => return,
        };
        shared.warm.put(&tenant, &session, WarmSession { earlier, last: log.turn().clone(), waiting, head });
    }

    /// The session since this turn rests.
    fn session_head(&self) -> Option<Box<SessionHead>> {
        let (tenant, id) = (self.tenant.clone(), self.session.clone());
        // Its queue is for the store to tell.
        if self.shared.queues.contains(&tenant, &id) {
            return None;
        }
        let mut usage = self.used_elsewhere?;
        usage += self.state.usage;
        let last_turn = Some(TurnSummary { id: self.log.turn().clone(), status: status(&self.state) });
        let (version, config) = (self.log.rest_version(), self.config.clone());
        Some(Box::new(SessionHead { tenant, id, version, config, usage, last_turn, queued: 0, is_remembered: true }))
    }

    async fn run_to_rest(&mut self, live: &LiveTurn) -> Left {
        let timeout = self.agent.turn_timeout;
        let interrupt = tokio::select! {
            biased;
            interrupt = live.interrupted() => Some(interrupt),
            () = tokio::time::sleep(timeout) => Some(Interrupt::Cancel(CancelReason::Timeout)),
            stopped = AssertUnwindSafe(Box::pin(self.work())).catch_unwind() => match stopped {
                Ok(Ok(())) => None,
                Ok(Err(Stopped::Draining)) => Some(Interrupt::Halt),
                // A fault of ours must not leave a turn that nobody ends.
                Err(_panic) => Some(Interrupt::Fault),
                Ok(Err(Stopped::Log(error))) => {
                    tracing::warn!(turn = %self.log.turn(), %error, "stopped working on a turn");
                    Some(Interrupt::Halt)
                }
            },
        };
        let closed = match interrupt {
            None => Ok(()),
            Some(Interrupt::Halt) => return Left::Halted,
            // It has come to rest and only the store is slow: nothing may follow.
            Some(Interrupt::Cancel(_) | Interrupt::Fault) if self.state.phase != Phase::Running => self.rested().await,
            Some(Interrupt::Fault) => {
                let message = "the server met a fault while it ran this turn".to_owned();
                let usage = self.used_by_interrupted_step();
                self.fail(FailureCode::Internal, message, true, usage).await
            }
            Some(Interrupt::Cancel(reason)) => {
                let usage = self.used_by_interrupted_step();
                self.close(Outcome::Cancelled { reason }, usage, cancelled_text(reason)).await
            }
        };
        match (closed, &self.state.phase) {
            (Ok(()), Phase::Waiting(wait)) => Left::Waiting(wait.wake_at),
            // Its session goes with it: nothing comes after it.
            (Ok(()), Phase::Ended(ended)) if ended.outcome == DELETED => Left::Halted,
            (Ok(()), Phase::Ended(_)) => Left::Ended,
            (Ok(()), Phase::New | Phase::Running) | (Err(Stopped::Draining), _) => Left::Halted,
            (Err(Stopped::Log(error)), _) => {
                tracing::warn!(turn = %self.log.turn(), %error, "could not record how a turn ended");
                Left::Halted
            }
        }
    }

    async fn work(&mut self) -> Result<(), Stopped> {
        loop {
            match next(&self.state, self.agent.max_steps) {
                Next::Rest => return Ok(()),
                Next::Step | Next::RestartStep | Next::RetryStep | Next::Compact if self.shared.draining() => {
                    return Err(Stopped::Draining);
                }
                Next::Step if self.waits_for_tokens().await? => return Ok(()),
                Next::Step if self.is_beyond_storage().await? => return Ok(()),
                Next::Step => self.step().await?,
                Next::RestartStep => self.restart_step().await?,
                Next::RetryStep => self.retry_step().await?,
                Next::Compact => self.compact_on_demand().await?,
                Next::Resolve(resolutions) => self.resolve(resolutions).await?,
                Next::OpenForms(calls) => self.ask(&calls).await?,
                Next::Wait(wait) => self.pause(wait).await?,
                Next::End(outcome) => self.end(outcome).await?,
            }
        }
    }

    /// Appends an event.
    pub(crate) fn record(&mut self, event: Event) -> Result<Pushed, Stopped> {
        let writes = self.spending(std::slice::from_ref(&event));
        let pushed = self.log.push(std::slice::from_ref(&event), writes, None)?;
        self.state.apply(pushed.seq, &event);
        Ok(pushed)
    }

    /// Appends events together with what changes beside the log.
    pub(crate) fn record_all(&mut self, events: &[Event], mut writes: Vec<Write>) -> Result<Pushed, Stopped> {
        writes.extend(self.spending(events));
        if events.iter().any(|event| matches!(event, Event::FormOpened(_)))
            && let Some(live) = self.shared.live.get(self.log.turn())
        {
            live.asks();
        }
        let pushed = self.log.push(events, writes, None)?;
        for (seq, event) in (self.state.head + 1..).zip(events) {
            self.state.apply(seq, event);
        }
        Ok(pushed)
    }

    /// What time it is for this turn: times that it sets are measured from here.
    pub(crate) fn now(&self) -> Timestamp {
        let (timelines, turn) = (&self.shared.timelines, self.log.turn());
        // Times that were set before stay on the timeline that they were set on.
        if !self.state.open_calls().any(|call| call.timer.is_some() || call.form.is_some()) {
            timelines.begin(turn);
        }
        timelines.now(turn)
    }

    /// Rests until somebody answers or the time has come.
    pub(crate) async fn pause(&mut self, wait: Wait) -> Result<(), Stopped> {
        self.rest(vec![Event::Waiting(wait)], Vec::new()).await
    }

    /// Asks people, and rests: in one commit, so that whoever sees the question can answer it.
    async fn ask(&mut self, calls: &[CallId]) -> Result<(), Stopped> {
        let (mut events, writes) = self.open_forms(calls);
        let mut asked = self.state.clone();
        for (seq, event) in (asked.head + 1..).zip(&events) {
            asked.apply(seq, event);
        }
        match next(&asked, self.agent.max_steps) {
            Next::Wait(wait) => {
                events.push(Event::Waiting(wait));
                self.rest(events, writes).await
            }
            _ => self.record_all(&events, writes).map(drop),
        }
    }

    /// Appends the events that bring the turn to rest, and waits until they are durable.
    async fn rest(&mut self, events: Vec<Event>, mut writes: Vec<Write>) -> Result<(), Stopped> {
        writes.extend(self.spending(&events));
        for (seq, event) in (self.state.head + 1..).zip(&events) {
            self.state.apply(seq, event);
        }
        let rest = rest(&self.state);
        let notice = self.shared.notices.of_rest(self.noticed(), &self.state);
        writes.extend(notice);
        let (next, then) = self.next_turn().unzip();
        self.log.push(&events, writes, Some((rest, then)))?;
        self.next = next;
        self.rested().await
    }

    /// Waits until the turn's rest is durable.
    async fn rested(&self) -> Result<(), Stopped> {
        self.log.durable(self.state.head).await?;
        self.shared.notices.tell();
        if let Phase::Ended(ended) = &self.state.phase {
            let kind = outcome_label(&ended.outcome).to_owned();
            self.shared.metrics.turns_ended.get_or_create(&Label { kind }).inc();
        }
        Ok(())
    }

    /// The turn, as notices name it.
    pub(crate) fn noticed(&self) -> Noticed<'_> {
        Noticed { tenant: &self.tenant, session: &self.session, turn: self.log.turn() }
    }

    /// Ends a turn that no step runs in.
    pub(crate) async fn end(&mut self, outcome: Outcome) -> Result<(), Stopped> {
        self.rest(vec![Event::TurnEnded(self.ended(&self.state, outcome))], Vec::new()).await
    }

    /// The end of the turn, with all that it used.
    fn ended(&self, state: &TurnState, outcome: Outcome) -> TurnEnded {
        let mut ended = state.ended(outcome);
        ended.usage += self.unlogged();
        ended
    }

    /// Ends a turn wherever it stands: what a step has produced is kept, open calls are answered.
    pub(crate) async fn close(&mut self, outcome: Outcome, usage: Usage, calls: &str) -> Result<(), Stopped> {
        let mut state = self.state.clone();
        let mut events = Vec::new();
        let mut writes = forms::cancelled(&state);
        writes.extend(self.spend_summary());
        if let Some(step) = &state.step {
            let (content, finish) = (step.content(), Finish::Aborted);
            let withheld = self.withheld(&step.calls, finish);
            let finished = StepFinished { content, finish, usage, deltas_dropped: false, step: 0, withheld };
            events.push(Event::StepFinished(finished));
            state.apply(state.head + 1, &events[0]);
        }
        let cut_off = |open: &CallState| Event::ToolFinished {
            call_id: open.call.id.clone(),
            tool: open.call.name.clone(),
            content: Content::Text(match &open.intent {
                // It may have had its effect before it was cut off; the model must not take it for undone.
                Some((_, EffectClass::Effectful)) => UNKNOWN_OUTCOME.to_owned(),
                Some((_, EffectClass::ReadOnly | EffectClass::Idempotent)) | None => calls.to_owned(),
            }),
            is_error: true,
            duration_ms: self.ran_for(open),
            never_began: state.never_began(open),
            application: self.is_applications(&open.call.name, &open.route),
        };
        events.extend(state.open_calls().map(cut_off));
        events.push(Event::TurnEnded(self.ended(&state, outcome)));
        self.rest(events, writes).await
    }

    /// Ends the turn because it cannot be finished.
    pub(crate) async fn fail(
        &mut self,
        code: FailureCode,
        message: String,
        retryable: bool,
        usage: Usage,
    ) -> Result<(), Stopped> {
        tracing::warn!(turn = %self.log.turn(), code = code.as_str(), reason = message, "a turn failed");
        let outcome = Outcome::Failed { code, message, retryable };
        self.close(outcome, usage, "Tool call not run: the turn failed").await
    }
}

/// What is kept of a turn that rests.
pub(crate) fn rest(state: &TurnState) -> Rest {
    Rest {
        status: status(state),
        keeps: state.kept(),
        messages: state.messages_between(state.kept(), usize::MAX),
        usage: state.usage,
        compaction: state.compaction.clone(),
    }
}

/// The status of a turn that rests.
fn status(state: &TurnState) -> TurnStatus {
    match &state.phase {
        Phase::Waiting(wait) => TurnStatus::Waiting(wait.clone()),
        Phase::Ended(ended) => TurnStatus::Ended(ended.outcome.clone()),
        // Nothing rests so; whoever finds it must not take it for one that waits.
        Phase::New | Phase::Running => TurnStatus::Running,
    }
}

/// What the model is told of calls that a cancelled turn left open.
pub(crate) fn cancelled_text(reason: CancelReason) -> &'static str {
    match reason {
        CancelReason::UserStop => "Tool call cancelled: the user stopped the turn",
        CancelReason::Timeout => "Tool call cancelled: the turn took too long",
        CancelReason::Superseded => "Tool call skipped: the user sent a new message",
        CancelReason::SessionDeleted => "Tool call cancelled: the session was deleted",
    }
}

fn outcome_label(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Completed => "completed",
        Outcome::MaxTokens => "max_tokens",
        Outcome::Refused => "refused",
        Outcome::Failed { .. } => "failed",
        Outcome::Cancelled { .. } => "cancelled",
    }
}
