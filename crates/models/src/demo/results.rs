//! What the demo model says about the results of its tool calls.

use everturn_core::{Message, ToolUse};
use serde_json::{Map, Value};

use super::{artifact, feature::Feature, intent, words};
use crate::model::ModelRequest;

/// What came of the tool calls that end the conversation.
pub(super) fn tell(request: &ModelRequest) -> String {
    let is_result = |message: &&Message| matches!(message, Message::Tool { .. });
    let mut results: Vec<_> = request.messages.iter().rev().take_while(is_result).collect();
    results.reverse();
    let caller = request.messages.iter().rev().find(|message| !is_result(message));
    let calls: Vec<_> = caller.into_iter().flat_map(Message::tool_uses).collect();
    let mut lines = Vec::new();
    for message in results.iter().take(words::MAX_LIST) {
        let Message::Tool { call_id, content, is_error } = message else { continue };
        let call = calls.iter().find(|call| call.id == *call_id);
        let name = call.map_or("the tool", |call| call.name.as_str());
        let (text, done) = (content.text(), call.filter(|_| !is_error));
        // What a person wrote may hold any word, also those by which trouble is known.
        let told = done.and_then(|call| form_result(call, &text));
        let told = told.or_else(|| trouble(name, &text, *is_error));
        let told = told.or_else(|| done.and_then(|call| feature_result(call, &text)));
        lines.push(told.unwrap_or_else(|| plain_result(name, &text, intent::images(content))));
    }
    let more = results.len().saturating_sub(words::MAX_LIST);
    if more > 0 {
        lines.push(format!("There are {more} more results."));
    }
    lines.join("\n")
}

/// What a person answered, where the result is an answer to a form.
fn form_result(call: &ToolUse, text: &str) -> Option<String> {
    if Feature::named(&call.name) != Some(Feature::Form) {
        return None;
    }
    let answer: Map<String, Value> = serde_json::from_str(text).ok()?;
    let kind = artifact::member(call, "kind")?;
    match (kind.as_str(), answer.get("approved")) {
        ("approval", Some(Value::Bool(true))) => Some("Thank you, you approved it.".to_owned()),
        ("approval", Some(Value::Bool(false))) => Some("You did not approve it, so I leave it.".to_owned()),
        _ if answer.is_empty() => Some("Thank you. You left the form empty.".to_owned()),
        ("integration", _) => {
            let names: Vec<&str> = answer.keys().map(String::as_str).collect();
            let names = words::list(&names);
            Some(format!("Thank you, I have {names} now. I do not repeat what you wrote, for it may be secret."))
        }
        _ => {
            let shown = |(name, value): (&String, &Value)| match value {
                Value::Null | Value::Bool(_) | Value::Number(_) => format!("{name} is {value}"),
                Value::String(text) => format!("{name} is {}", words::quote(text)),
                Value::Array(_) | Value::Object(_) => format!("{name} is {}", words::quote(&value.to_string())),
            };
            let answers: Vec<String> = answer.iter().take(words::MAX_LIST).map(shown).collect();
            Some(format!("Thank you. You answered: {}.", answers.join(", ")))
        }
    }
}

/// What went wrong, if anything did.
fn trouble(name: &str, text: &str, is_error: bool) -> Option<String> {
    let beginning: String = text.chars().take(64).collect::<String>().to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| beginning.contains(word));
    let said = words::quote(text);
    if says(&["denied", "not allowed", "declined"]) {
        return Some(format!("`{name}` was not allowed to run: {said}."));
    }
    if says(&["unknown"]) {
        return Some(format!("Nobody knows what came of `{name}`: {said}."));
    }
    (is_error || says(&["error"])).then(|| format!("`{name}` failed: {said}."))
}

/// What came of a pause or an artifact.
fn feature_result(call: &ToolUse, text: &str) -> Option<String> {
    match Feature::named(&call.name)? {
        Feature::Form => None,
        Feature::Wait if text.is_empty() => Some("I waited as you asked.".to_owned()),
        Feature::Wait => Some(format!("I waited as you asked: {}.", words::quote(text))),
        Feature::CreateArtifact => {
            let id = artifact::id(text)?;
            let title = words::quote(&artifact::member(call, "title")?);
            Some(format!(
                "I wrote {title}, which is kept as artifact `{id}`. Say `change it`, and how, for a new version."
            ))
        }
        Feature::UpdateArtifact => {
            let id = artifact::id(text)?;
            Some(format!("I changed artifact `{id}`: what you asked for has a section of its own now, at the end."))
        }
    }
}

fn plain_result(name: &str, text: &str, images: usize) -> String {
    let said = words::quote(text);
    match (images, text.is_empty()) {
        (0, true) => format!("`{name}` finished and said nothing."),
        (0, false) => format!("`{name}` says {said}."),
        (count, true) => format!("`{name}` gave me {}.", count_images(count)),
        (count, false) => format!("`{name}` says {said} and gave me {}.", count_images(count)),
    }
}

fn count_images(count: usize) -> String {
    if count == 1 { "1 image".to_owned() } else { format!("{count} images") }
}
