//! What providers accept.

use everturn_core::*;

/// Says what a strict provider would not take about a conversation.
pub(super) fn complaint(messages: &[Message]) -> Option<String> {
    let mut rest = messages;
    if !matches!(rest.first(), None | Some(Message::User { .. })) {
        return Some("the first message is not the user's".into());
    }
    let mut seen = std::collections::HashSet::new();
    let mut last = None;
    while let Some((message, after)) = rest.split_first() {
        rest = after;
        let role = message.role();
        match message {
            Message::System { content } if content.is_empty() => return Some("an empty system message".into()),
            Message::System { .. } => {}
            Message::Tool { call_id, .. } => return Some(format!("a result without its call: {call_id}")),
            Message::User { content } if content.is_empty() => return Some("an empty user message".into()),
            Message::User { .. } => {}
            Message::Assistant { content } => {
                if content.is_empty() {
                    return Some("an empty assistant message".into());
                }
                for call in message.tool_uses() {
                    if !seen.insert(call.id.clone()) {
                        return Some(format!("two calls {}", call.id));
                    }
                    match rest.split_first() {
                        Some((Message::Tool { call_id, .. }, after)) if *call_id == call.id => rest = after,
                        _ => return Some(format!("call {} is not answered in its place", call.id)),
                    }
                }
            }
        }
        // Results stand for the user's side: after them the assistant may speak again.
        if last == Some(role)
            && role != Role::System
            && !(role == Role::Assistant && spoke_with_calls(messages, rest.len()))
        {
            return Some(format!("{role:?} twice in a row"));
        }
        last = Some(role);
    }
    None
}

/// Whether the assistant message before the last one taken made calls, so that results lie between the two.
fn spoke_with_calls(messages: &[Message], left: usize) -> bool {
    let taken = &messages[..messages.len() - left];
    let mut assistants = taken.iter().rev().filter(|message| message.role() == Role::Assistant);
    assistants.nth(1).is_some_and(|message| message.tool_uses().next().is_some())
}
