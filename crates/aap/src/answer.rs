//! The answer in one piece (`stream: "none"`): what a leg has added to history, once it stops.

use everturn_core::{Answer, Block, CallId, Content, Event, Message};
use everturn_engine::Flow;
use serde::Serialize;
use utoipa::ToSchema;

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
            Event::Resumed { answers, .. } if answers.iter().all(|answer| matches!(answer, Answer::Elapsed { .. })) => {
            }
            Event::Resumed { answers, .. } => {
                self.order = answers.iter().map(|answer| answer.call_id().clone()).collect();
            }
            Event::StepFinished(finished) => {
                self.settle();
                let message = Message::Assistant { content: without(finished.content, &finished.withheld) };
                self.order = message.tool_uses().map(|call| call.id.clone()).collect();
                if !matches!(&message, Message::Assistant { content } if content.is_empty()) {
                    self.messages.push(message);
                }
            }
            // The application knows of its own tools.
            Event::ToolFinished { application: true, .. } => {}
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
            | Event::StepUsed(_)
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

    /// What the leg said; `None` if it has not stopped.
    pub(crate) fn response(&self) -> Option<Response<'_>> {
        Some(Response { stop_reason: self.stop?, messages: self.messages.iter().map(MessageOut::from).collect() })
    }
}

/// An answer without the calls that the application is not shown.
fn without(mut content: Content, withheld: &[CallId]) -> Content {
    if let Content::Blocks(blocks) = &mut content {
        blocks.retain(|block| !matches!(block, Block::ToolUse(call) if withheld.contains(&call.id)));
    }
    content
}

/// `AgentResponse`.
#[derive(Serialize, ToSchema)]
#[schema(as = aap::Response)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Response<'a> {
    /// Why the turn stopped.
    stop_reason: StopReason,
    /// What it added to history.
    messages: Vec<MessageOut<'a>>,
}

/// `AgentResponse` to a request that made its session.
#[derive(Serialize, ToSchema)]
#[schema(as = aap::v1::CreatedResponse)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CreatedResponse<'a> {
    /// The session.
    pub(crate) session_id: &'a str,
    #[serde(flatten)]
    pub(crate) response: Response<'a>,
}
