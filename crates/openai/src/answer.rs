//! The answer in one piece: what a leg says, once it stops.

use everturn_core::{Block, CallId, CallRoute, Content, Event, Finish as StepFinish, FormId, Usage, Wait, WaitingFor};
use everturn_engine::{Flow, Started};

use crate::{
    call_id,
    end::{self, Finish},
    error::ApiError,
    out::{ChoiceOut, Completion, FunctionOut, MessageOut, ToolCallOut, completion_id, created},
    waiting,
};

/// What stands between the texts of two steps.
pub(crate) const BETWEEN_STEPS: &str = "\n\n";

/// Gathers what a leg says.
#[derive(Debug)]
pub(crate) struct LegAnswer<'a> {
    started: &'a Started,
    agent: &'a str,
    /// Whether the answer is to have a format.
    has_format: bool,
    /// The last event seen.
    seq: u64,
    texts: Vec<String>,
    thinking: Vec<String>,
    usage: Usage,
    /// What was asked for and is not done.
    notices: Vec<String>,
    /// The calls of the current step that the application is to run.
    client_calls: Vec<CallId>,
    calls: Vec<ToolCallOut>,
    wait: Option<Wait>,
    /// The forms that people are asked to answer, also those of a tool that runs meanwhile.
    open_forms: Vec<FormId>,
    stop: Option<Result<Finish, ApiError>>,
}

impl<'a> LegAnswer<'a> {
    pub(crate) fn new(started: &'a Started, agent: &'a str, has_format: bool) -> Self {
        Self {
            started,
            agent,
            has_format,
            seq: 0,
            texts: Vec::new(),
            thinking: Vec::new(),
            usage: Usage::default(),
            notices: Vec::new(),
            client_calls: Vec::new(),
            calls: Vec::new(),
            wait: None,
            open_forms: Vec::new(),
            stop: None,
        }
    }

    /// Whether the leg has stopped.
    pub(crate) fn has_stopped(&self) -> bool {
        self.stop.is_some()
    }

    /// Whether it waits for somebody else than the client, or for time.
    pub(crate) fn waits(&self) -> bool {
        self.wait.is_some() || !self.open_forms.is_empty()
    }

    /// Takes the leg's next event. Closes when the leg stops, and when it begins or ends to wait.
    pub(crate) fn take(&mut self, seq: u64, event: Event) -> Flow {
        self.seq = seq;
        match event {
            Event::ToolCalled { call, route: CallRoute::Client } => self.client_calls.push(call.id),
            Event::StepStarted { .. } => self.client_calls.clear(),
            Event::StepRestarted { usage, .. } => {
                self.usage += usage;
                self.client_calls.clear();
            }
            Event::HistoryCompacted(compaction) => self.usage += compaction.usage,
            Event::StepFinished(finished) => {
                self.usage += finished.usage;
                self.step(finished.content, finished.finish);
            }
            Event::Notified { .. } => self.notices.extend(event.as_model_notice()),
            Event::Waiting(wait) if waits_for_client(&wait) => self.stop = Some(Ok(Finish::ToolCalls)),
            Event::Waiting(wait) => {
                self.wait = Some(wait);
                return Flow::Close;
            }
            Event::Resumed { .. } => {
                if self.wait.take().is_some() {
                    return Flow::Close;
                }
            }
            Event::TurnEnded(ended) => {
                // It knows all that was used; what the legs before this one did is not known here.
                if self.started.leg_start <= 1 {
                    self.usage = ended.usage;
                }
                self.wait = None;
                self.stop = Some(end::of(&ended));
            }
            Event::FormOpened(form) => {
                self.open_forms.push(form.form_id);
                return Flow::Close;
            }
            Event::FormClosed { form_id, .. } => {
                self.open_forms.retain(|open| *open != form_id);
                return Flow::Close;
            }
            Event::TurnStarted(_)
            | Event::TextDelta(_)
            | Event::ThinkingDelta(_)
            | Event::ToolCalled { .. }
            | Event::StepUsed(_)
            | Event::ModelChanged { .. }
            | Event::ToolIntended { .. }
            | Event::ToolFinished { .. }
            | Event::TimerSet { .. }
            | Event::ArtifactStarted(_)
            | Event::ArtifactDelta(_)
            | Event::ArtifactFinished(_)
            | Event::Dropped { .. }
            | Event::Unknown { .. } => {}
        }
        if self.stop.is_some() { Flow::Close } else { Flow::Continue }
    }

    fn step(&mut self, content: Content, finish: StepFinish) {
        if self.has_format {
            // What was said beside calls is not the answer, and would spoil its JSON.
            self.texts.clear();
        }
        for block in content.into_blocks() {
            match block {
                Block::Text(_) if self.has_format && finish == StepFinish::ToolUse => {}
                Block::Text(text) if !text.is_empty() => self.texts.push(text),
                Block::Thinking { text, .. } if !text.is_empty() => self.thinking.push(text),
                Block::ToolUse(call) if are_made(finish) && self.client_calls.contains(&call.id) => {
                    let Started { session, turn, .. } = self.started;
                    self.calls.push(ToolCallOut {
                        id: call_id::shown(session, turn, &call.id),
                        r#type: "function",
                        function: FunctionOut { name: call.name, arguments: call.input.as_str().to_owned() },
                    });
                }
                Block::Text(_)
                | Block::Thinking { .. }
                | Block::ToolUse(_)
                | Block::Image { .. }
                | Block::Document { .. } => {}
            }
        }
    }

    /// The answer, or the error that it ended with. `None` if the leg neither stopped nor waits.
    pub(crate) fn completion(&mut self) -> Option<Result<Completion<'_>, ApiError>> {
        let finish = match (self.stop.take(), &self.wait) {
            (Some(Ok(finish)), _) => finish,
            (Some(Err(error)), _) => return Some(Err(error)),
            (None, Some(wait)) => {
                let Started { session, turn, .. } = self.started;
                return Some(Err(waiting::error(session, turn, wait, self.seq)));
            }
            (None, None) if self.open_forms.is_empty() => return None,
            (None, None) => {
                let Started { session, turn, .. } = self.started;
                return Some(Err(waiting::asked(session, turn, &self.open_forms, self.seq)));
            }
        };
        let Started { session, turn, leg_start, .. } = self.started;
        let text = self.texts.join(BETWEEN_STEPS);
        let content = (!text.is_empty() || self.calls.is_empty()).then_some(text);
        let message = MessageOut {
            role: "assistant",
            content,
            refusal: None,
            reasoning_content: self.thinking.join(BETWEEN_STEPS),
            tool_calls: &self.calls,
        };
        Some(Ok(Completion {
            id: completion_id(turn, *leg_start),
            object: "chat.completion",
            created: created(turn),
            model: self.agent,
            choices: [ChoiceOut { index: 0, message, logprobs: None, finish_reason: finish.as_str() }],
            usage: self.usage.into(),
            session_id: session.as_str(),
            message_id: turn.as_str(),
            notices: &self.notices,
        }))
    }
}

/// Whether a turn waits for tools of the application's, whoever else it waits for.
pub(crate) fn waits_for_client(wait: &Wait) -> bool {
    wait.calls.iter().any(|call| call.waiting_for == WaitingFor::Result)
}

/// Whether a step that ended so makes its calls: those of an answer that was cut short are not run.
pub(crate) fn are_made(finish: StepFinish) -> bool {
    match finish {
        StepFinish::Stop | StepFinish::ToolUse => true,
        StepFinish::MaxTokens | StepFinish::Refusal | StepFinish::Aborted => false,
    }
}
