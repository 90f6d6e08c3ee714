//! The answer in one piece (`stream: "none"`): what a leg has added to history, once it stops.

use everturn_core::{Answer, CallId, Event, Message, SessionId};
use everturn_engine::Flow;
use serde::Serialize;

use crate::wire::{MessageOut, StopReason, stop_reason};

/// Gathers what a leg says.
#[derive(Debug, Default)]
pub(crate) struct LegAnswer {
    messages: Vec<Message>,
    /// Calls in the order in which their results stand.
    order: Vec<CallId>,
    /// Results of those calls, until the next message.
    results: Vec<(usize, Message)>,
    stop: Option<StopReason>,
}

impl LegAnswer {
    /// Takes the leg's next event.
    pub(crate) fn take(&mut self, event: Event) -> Flow {
        match event {
            Event::Resumed { answers } if answers.iter().all(|answer| matches!(answer, Answer::Elapsed { .. })) => {}
            Event::Resumed { answers } => self.order = answers.iter().map(|answer| answer.call_id().clone()).collect(),
            Event::StepFinished(finished) => {
                self.settle();
                let message = Message::Assistant { content: finished.content };
                self.order = message.tool_uses().map(|call| call.id.clone()).collect();
                if !matches!(&message, Message::Assistant { content } if content.is_empty()) {
                    self.messages.push(message);
                }
            }
            Event::ToolFinished { call_id, content, is_error, .. } => {
                let place = self.order.iter().position(|id| *id == call_id).unwrap_or(usize::MAX);
                self.results.push((place, Message::Tool { call_id, content, is_error }));
            }
            Event::Waiting(wait) if wait.is_timed() => {}
            Event::Waiting(_) => self.stop = Some(StopReason::ToolUse),
            Event::TurnEnded(ended) => self.stop = Some(stop_reason(&ended.outcome)),
            Event::TurnStarted(_)
            | Event::StepStarted { .. }
            | Event::TextDelta(_)
            | Event::ThinkingDelta(_)
            | Event::ToolCalled { .. }
            | Event::StepRestarted { .. }
            | Event::ModelChanged { .. }
            | Event::ToolIntended { .. }
            | Event::TimerSet { .. }
            | Event::FormOpened(_)
            | Event::FormClosed { .. }
            | Event::Notified { .. }
            | Event::ArtifactStarted(_)
            | Event::ArtifactDelta(_)
            | Event::ArtifactFinished(_)
            | Event::Dropped { .. }
            | Event::HistoryCompacted(_)
            | Event::Unknown { .. } => {}
        }
        if self.stop.is_some() {
            self.settle();
            return Flow::Close;
        }
        Flow::Continue
    }

    fn settle(&mut self) {
        self.results.sort_by_key(|(place, _)| *place);
        self.messages.extend(self.results.drain(..).map(|(_, message)| message));
    }

    /// `AgentResponse`; with the session's id if the request created it. `None` if the leg has not stopped.
    pub(crate) fn response<'a>(&'a self, created: Option<&'a SessionId>) -> Option<Response<'a>> {
        let messages = self.messages.iter().map(MessageOut::from).collect();
        Some(Response { session_id: created.map(SessionId::as_str), stop_reason: self.stop?, messages })
    }
}

/// `AgentResponse`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Response<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<&'a str>,
    stop_reason: StopReason,
    messages: Vec<MessageOut<'a>>,
}
