//! Instructions for models that take none from the system: the user says them.

use everturn_core::{Content, Message};

use super::history::system_as_text;
use crate::model::ModelRequest;

/// Moves the instructions of a request into what the user says. The wires join them with the messages beside them.
pub(super) fn from_user(request: &mut ModelRequest) {
    let said = |text: &str| Message::User { content: Content::Text(system_as_text(text)) };
    let system = std::mem::take(&mut request.system);
    let first = Some(system.trim()).filter(|system| !system.is_empty()).map(said);
    let rest = request.messages.iter().map(|message| match message {
        Message::System { content } => said(content),
        Message::User { .. } | Message::Assistant { .. } | Message::Tool { .. } => message.clone(),
    });
    request.messages = first.into_iter().chain(rest).collect();
}
