//! What is said of messages that no summary could be made of: a line each, so that a model knows what it has done.

use std::collections::HashMap;

use everturn_core::{CallId, Message};

/// The most bytes of what a person or the model said.
const MOST_OF_TEXT: usize = 120;
/// The most bytes of a call's input.
const MOST_OF_INPUT: usize = 80;
/// The most bytes of a call's result.
const MOST_OF_RESULT: usize = 24;

/// The beginnings of the last of these messages, in at most so many bytes.
pub(crate) fn excerpt<'a>(messages: impl Iterator<Item = &'a Message>, most: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    // The line of each call, which its result is added to.
    let mut calls: HashMap<&CallId, usize> = HashMap::new();
    for message in messages {
        match message {
            Message::System { .. } => {}
            Message::User { content } => {
                lines.push(format!("User: {}", beginning(&content.text_and_media(), MOST_OF_TEXT)));
            }
            Message::Assistant { content } => {
                let text = content.text();
                if !text.is_empty() {
                    lines.push(format!("Assistant: {}", beginning(&text, MOST_OF_TEXT)));
                }
                for call in message.tool_uses() {
                    calls.insert(&call.id, lines.len());
                    lines.push(format!("Called {} {}", call.name, beginning(call.input.as_str(), MOST_OF_INPUT)));
                }
            }
            Message::Tool { call_id, content, is_error } => {
                if let Some(line) = calls.get(call_id).and_then(|at| lines.get_mut(*at)) {
                    let outcome = if *is_error { " failed: " } else { " gave: " };
                    line.push_str(outcome);
                    line.push_str(&beginning(&content.text_and_media(), MOST_OF_RESULT));
                }
            }
        }
    }
    let mut bytes = 0;
    let fits = |line: &&String| {
        bytes += line.len() + 1;
        bytes <= most
    };
    let kept = lines.iter().rev().take_while(fits).count();
    lines.split_off(lines.len() - kept).join("\n")
}

/// The first words of a text, on one line.
fn beginning(text: &str, most: usize) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.len() <= most { text } else { format!("{}…", &text[..text.floor_char_boundary(most)]) }
}

#[cfg(test)]
mod tests {
    use everturn_core::{Block, Content, Json, ToolUse};

    use super::*;

    #[test]
    fn calls_are_told_with_their_results_and_the_newest_stay() {
        let call = |id: &str, input: &str| {
            let input = Json::parse(input).unwrap();
            let call = ToolUse { id: CallId::new(id), name: "work".to_owned(), input };
            Message::Assistant { content: Content::Blocks(vec![Block::ToolUse(call)]) }
        };
        let result = |id: &str, text: &str, is_error: bool| Message::Tool {
            call_id: CallId::new(id),
            content: Content::Text(text.to_owned()),
            is_error,
        };
        let messages = [
            Message::user("do\nboth"),
            call("a", r#"{"job":1}"#),
            result("a", &"é".repeat(60), false),
            call("b", r#"{"job":2}"#),
            result("b", "no", true),
        ];
        let expected = format!(
            "User: do both\nCalled work {{\"job\":1}} gave: {}…\nCalled work {{\"job\":2}} failed: no",
            "é".repeat(12)
        );
        assert_eq!(excerpt(messages.iter(), 1000), expected);
        assert_eq!(excerpt(messages.iter(), 40), "Called work {\"job\":2} failed: no");
        assert_eq!(excerpt(messages.iter(), 10), "");
    }
}
