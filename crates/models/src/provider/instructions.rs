//! Instructions that stand in for what a model does not take: the system's words, the format of its answer, a forced call.

use everturn_core::{Content, Message, OutputFormat, ToolChoice};

use super::history::system_as_text;
use crate::model::ModelRequest;

/// Moves the instructions of a request into what the user says. The wires join them with the messages beside them.
pub(super) fn from_user(request: &mut ModelRequest) {
    let system = std::mem::take(&mut request.system);
    let first = Some(system.trim()).filter(|system| !system.is_empty()).map(said);
    let rest = request.messages.iter().map(system_as_user);
    request.messages = first.into_iter().chain(rest).collect();
}

/// The same for the instructions within the conversation; those before it stay.
pub(super) fn inner_from_user(request: &mut ModelRequest) {
    if has_inner(request) {
        request.messages = request.messages.iter().map(system_as_user).collect();
    }
}

/// Whether there are instructions within the conversation.
pub(super) fn has_inner(request: &ModelRequest) -> bool {
    request.messages.iter().any(|message| matches!(message, Message::System { .. }))
}

fn said(text: &str) -> Message {
    Message::User { content: Content::Text(system_as_text(text)) }
}

fn system_as_user(message: &Message) -> Message {
    match message {
        Message::System { content } => said(content),
        Message::User { .. } | Message::Assistant { .. } | Message::Tool { .. } => message.clone(),
    }
}

/// Asks in words for the format of the answer. The answer is checked in any case.
pub(super) fn ask_for_format(request: &mut ModelRequest) {
    let words = match request.options.output.take() {
        None => return,
        Some(OutputFormat::JsonObject) => "Answer with a JSON object, and with nothing else.".to_owned(),
        Some(OutputFormat::JsonSchema { schema, .. }) => {
            format!("Answer with JSON that fits this schema, and with nothing else:\n{}", schema.as_str())
        }
    };
    if !request.system.is_empty() {
        request.system.push_str("\n\n");
    }
    request.system.push_str(&words);
}

/// Asks in words for the call that is to be made, at the end of the conversation: all before it stays as it is in the
/// provider's cache. The answer is checked in any case. `false` if no call has to be made, or none can be.
pub(super) fn ask_for_call(request: &mut ModelRequest) -> bool {
    let words = match &request.options.tool_choice {
        Some(ToolChoice::Required) if !request.tools.is_empty() => {
            "Answer with a call of one of your tools, and with nothing else.".to_owned()
        }
        Some(ToolChoice::Named(name)) if request.tools.iter().any(|tool| tool.name == *name) => {
            format!("Answer with a call of the tool {name}, and with nothing else.")
        }
        Some(_) | None => return false,
    };
    let wish = Message::User { content: Content::Text(system_as_text(&words)) };
    request.messages = request.messages.iter().cloned().chain([wish]).collect();
    true
}
