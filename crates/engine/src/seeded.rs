//! Turns that begin where another conversation stopped: with calls that the application has yet to resolve.

use everturn_core::{CallRoute, Content, Event, Finish, Message, SessionConfig, StepFinished, Usage, context};

/// The events that make the calls at the end of a turn's input calls of the turn. What was said stays in the input; so the
/// step that they are of says nothing, and does not count as a call of the model.
pub(crate) fn opening(input: &[Message], config: &SessionConfig) -> Vec<Event> {
    let is_client = |name: &str| config.client_tools.iter().any(|tool| tool.name == name);
    let called = context::unresolved(input).into_iter().map(|call| {
        let route = if is_client(&call.name) {
            CallRoute::Client
        } else {
            // Nobody may say what a tool of the server was called with, and have it run.
            CallRoute::Refused { reason: context::INTERRUPTED.to_owned() }
        };
        Event::ToolCalled { call: call.clone(), route }
    });
    let finished = StepFinished {
        content: Content::Text(String::new()),
        finish: Finish::ToolUse,
        usage: Usage::default(),
        deltas_dropped: false,
        step: 0,
        withheld: Vec::new(),
    };
    called.chain([Event::StepFinished(finished)]).collect()
}
