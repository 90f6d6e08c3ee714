//! Tool calls and results as plain text, for models that take no tools at all, or not those of a conversation.
//!
//! Servers without tools refuse messages that speak of calls as well. The conversation stays readable to the model.

use std::{borrow::Cow, collections::HashMap};

use everturn_core::{Block, Content, Message, ToolUse};

use crate::model::ModelRequest;

/// Writes the answers of a request's conversation that made such calls as the assistant's words, and the results as the
/// user's. `false` if there are none.
pub(super) fn write_calls_as_text(request: &mut Cow<'_, ModelRequest>, is_plain: impl Fn(&ToolUse) -> bool) -> bool {
    let messages = request.messages.clone();
    let plain = messages.iter().filter(|message| message.tool_uses().any(&is_plain));
    let names: HashMap<&str, &str> =
        plain.flat_map(Message::tool_uses).map(|call| (call.id.as_str(), call.name.as_str())).collect();
    if names.is_empty() {
        return false;
    }
    request.to_mut().messages = messages
        .iter()
        .map(|message| match message {
            Message::Assistant { content } if message.tool_uses().any(&is_plain) => {
                Message::Assistant { content: Content::Text(with_calls(content)) }
            }
            Message::Tool { call_id, content, is_error } => {
                let Some(name) = names.get(call_id.as_str()) else { return message.clone() };
                let what = if *is_error { "Error" } else { "Result" };
                Message::User { content: with_heading(&format!("[{what} of the tool {name}]"), content) }
            }
            Message::System { .. } | Message::User { .. } | Message::Assistant { .. } => message.clone(),
        })
        .collect();
    true
}

/// Joins messages of one speaker that stand next to each other, for servers that want the speakers to take turns.
pub(super) fn join_neighbours(request: &mut Cow<'_, ModelRequest>) {
    let mut joined: Vec<Message> = Vec::new();
    for message in request.messages.iter() {
        match (joined.last_mut(), message) {
            (Some(Message::User { content }), Message::User { content: more })
            | (Some(Message::Assistant { content }), Message::Assistant { content: more }) => join(content, more),
            _ => joined.push(message.clone()),
        }
    }
    if joined.len() < request.messages.len() {
        request.to_mut().messages = joined.into();
    }
}

fn join(content: &mut Content, more: &Content) {
    if let (Content::Text(text), Content::Text(more)) = (&mut *content, more) {
        text.push_str("\n\n");
        text.push_str(more);
        return;
    }
    let blocks = |content: &Content| match content {
        Content::Text(text) => vec![Block::Text(text.clone())],
        Content::Blocks(blocks) => blocks.clone(),
    };
    *content = Content::Blocks([blocks(content), blocks(more)].concat());
}

/// An answer's text, with a line for each call. Its reasoning is left out: its proof speaks of calls.
fn with_calls(content: &Content) -> String {
    let lines = content.blocks().iter().filter_map(|block| match block {
        Block::Text(text) => Some(text.trim_end().to_owned()).filter(|text| !text.is_empty()),
        Block::ToolUse(call) => Some(format!("[Call of the tool {} with {}]", call.name, call.input.as_str())),
        Block::Thinking { .. } | Block::Image { .. } | Block::Document { .. } => None,
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn with_heading(heading: &str, content: &Content) -> Content {
    let blocks = match content {
        Content::Text(text) => return Content::Text(format!("{heading}\n{text}")),
        Content::Blocks(blocks) => blocks,
    };
    Content::Blocks([Block::Text(heading.to_owned())].into_iter().chain(blocks.iter().cloned()).collect())
}

#[cfg(test)]
mod tests {
    use everturn_core::{CallId, Json};

    use super::*;

    #[test]
    fn calls_and_results_become_words() {
        let call = ToolUse { id: CallId::new("c1"), name: "clock".into(), input: Json::empty_object() };
        let thinking = Block::Thinking { text: "hm".into(), signature: Some("proof".into()) };
        let answer = Content::Blocks(vec![thinking, Block::Text("Let me look.".into()), Block::ToolUse(call)]);
        let messages = vec![
            Message::user("What time is it?"),
            Message::Assistant { content: answer },
            Message::Tool { call_id: CallId::new("c1"), content: Content::Text("noon".into()), is_error: false },
            Message::assistant("Noon."),
        ];
        let request = ModelRequest { messages: messages.into(), ..ModelRequest::default() };
        let mut request = Cow::Borrowed(&request);
        assert!(write_calls_as_text(&mut request, |_| true));
        let expected = [
            Message::user("What time is it?"),
            Message::assistant("Let me look.\n[Call of the tool clock with {}]"),
            Message::user("[Result of the tool clock]\nnoon"),
            Message::assistant("Noon."),
        ];
        assert_eq!(request.messages, expected.into());
    }
}
