//! What a view of a turn may want to know of the events before the one that it shows.

use std::sync::Arc;

use crate::{Answer, CallId, CallRoute, CorruptSegment, Event, FormId, Kind, RawEvent, Timestamp, Usage, Wait};

/// Where a turn stands after some of its events: the little that views need, cheap to keep up with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The client's name for the turn, where it gave one.
    pub request: Option<Arc<str>>,
    /// What the session had used before the turn.
    pub used_before: Usage,
    /// What the last turn before it used.
    pub last_used: Usage,
    /// What the turn has used.
    pub used: Usage,
    /// When it began.
    pub started_at: Timestamp,
    /// Which step it is in, from 1; zero before the first.
    pub step: u32,
    /// When that step began.
    pub step_at: Timestamp,
    /// The agent that runs it.
    pub agent: Arc<str>,
    /// Seq of the event with which the application last answered calls of the turn; zero if it has not.
    pub answered_at: u64,
    /// What the turn had used when it last did.
    pub used_before_answer: Usage,
    /// The calls of the current step that the application is to run.
    pub client_calls: Vec<CallId>,
    /// Whether text was said since the application last answered, before the current attempt at a step.
    pub spoken: bool,
    /// What the turn waits for, while it does.
    pub wait: Option<Wait>,
    /// Seq of the event with which it last began to wait.
    pub wait_at: u64,
    /// The forms that people are asked to answer, also those of a tool that runs meanwhile.
    pub open_forms: Vec<FormId>,
    /// Whether the answer is to have a format.
    pub has_format: bool,
    /// How many pieces of text the current attempt at a step has given.
    pub pieces: u32,
}

impl Standing {
    /// What the session has used.
    pub fn used_by_session(&self) -> Usage {
        let mut used = self.used_before;
        used += self.used;
        used
    }

    /// What the turn has used since the application last answered.
    pub fn used_since_answer(&self) -> Usage {
        self.used.saturating_sub(self.used_before_answer)
    }

    /// Takes the next event into account. Deltas, which are most of all, cost nothing.
    pub fn apply(&mut self, raw: &RawEvent<'_>) -> Result<(), CorruptSegment> {
        match raw.kind {
            Kind::TEXT_DELTA => self.pieces = self.pieces.saturating_add(1),
            Kind::TURN_STARTED
            | Kind::STEP_STARTED
            | Kind::STEP_FINISHED
            | Kind::STEP_RESTARTED
            | Kind::TOOL_CALLED
            | Kind::WAITING
            | Kind::RESUMED
            | Kind::FORM_OPENED
            | Kind::FORM_CLOSED
            | Kind::HISTORY_COMPACTED
            | Kind::TURN_ENDED => self.take(raw, &raw.decode()?),
            _ => {}
        }
        Ok(())
    }

    fn take(&mut self, raw: &RawEvent<'_>, event: &Event) {
        let at = raw.at;
        match event {
            Event::Waiting(wait) => (self.wait, self.wait_at) = (Some(wait.clone()), raw.seq),
            Event::Resumed { .. } | Event::TurnEnded(_) => self.wait = None,
            Event::FormOpened(form) => {
                self.open_forms.push(form.form_id.clone());
                self.wait_at = raw.seq;
            }
            Event::FormClosed { form_id, .. } => self.open_forms.retain(|open| open != form_id),
            _ => {}
        }
        match event {
            Event::TurnStarted(started) => {
                self.request = started.request.as_deref().map(Arc::from);
                self.used_before = started.used_before;
                self.last_used = started.last_used;
                self.started_at = at;
                self.agent = started.agent.as_str().into();
                self.has_format = started.options.output.is_some();
            }
            Event::StepStarted { step, .. } => {
                self.begin_attempt();
                self.step = *step;
                self.step_at = at;
            }
            Event::StepFinished(finished) => {
                self.used += finished.usage;
                if finished.step > 0 {
                    (self.step, self.step_at) = (finished.step, at);
                    self.end_text();
                }
                // It stands for its deltas.
                if finished.deltas_dropped && !finished.content.text().is_empty() {
                    self.pieces = self.pieces.saturating_add(1);
                }
            }
            Event::StepRestarted { usage, .. } => {
                self.used += *usage;
                self.begin_attempt();
            }
            Event::ToolCalled { call, route: CallRoute::Client } => self.client_calls.push(call.id.clone()),
            Event::Resumed { answers, options }
                if answers.iter().any(|answer| matches!(answer, Answer::Result { .. })) =>
            {
                if let Some(options) = options {
                    self.has_format = options.output.is_some();
                }
                self.answered_at = raw.seq;
                self.used_before_answer = self.used;
                self.client_calls.clear();
                (self.spoken, self.pieces) = (false, 0);
            }
            Event::HistoryCompacted(compaction) => self.used += compaction.usage,
            Event::TurnEnded(ended) => self.used = ended.usage,
            _ => {}
        }
    }

    fn begin_attempt(&mut self) {
        self.end_text();
        self.client_calls.clear();
    }

    fn end_text(&mut self) {
        self.spoken |= self.pieces > 0;
        self.pieces = 0;
    }
}
