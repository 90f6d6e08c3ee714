//! Answers: events that build up a list of items, then one that ends it.
//!
//! The events of an item are shown as they come; what an item has to say that no event said is taken from the item itself
//! when it is done, because some servers stream less than others.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use everturn_core::Usage;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::Own;
use crate::{
    model::ModelFinish,
    provider::{
        answer::{Answer, Decoder},
        failure::{Fault, Report},
    },
};

/// The largest item of an unknown kind that is kept for the next request, in bytes.
const MAX_OTHER: usize = 64 * 1024;

/// Kinds of items that want an answer which nobody here gives. Sent back without one, they are refused.
const UNANSWERED: [&str; 6] =
    ["apply_patch_call", "computer_call", "custom_tool_call", "local_shell_call", "mcp_approval_request", "shell_call"];

/// Codes of errors that the same request would meet again.
const FINAL_CODES: [&str; 7] = [
    "invalid_prompt",
    "usage_not_included",
    "bio_policy",
    "cyber_policy",
    "misalignment_policy_violation",
    "data_residency_mismatch",
    "invalid_encrypted_content",
];

/// What is needed of all kinds of events. Parts whose shape depends on the kind are read when the kind is known.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, default)]
    r#type: Cow<'a, str>,
    #[serde(default)]
    output_index: u64,
    #[serde(default)]
    summary_index: u64,
    #[serde(default)]
    content_index: u64,
    #[serde(default)]
    delta: Value,
    /// All of a text that came in deltas before.
    #[serde(default)]
    text: Value,
    #[serde(default)]
    refusal: Value,
    #[serde(default)]
    arguments: Value,
    #[serde(borrow)]
    item: Option<&'a RawValue>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
    #[serde(default)]
    error: Value,
    /// `response` where the whole answer came instead of events.
    #[serde(default)]
    object: Value,
}

#[derive(Deserialize)]
struct Item {
    #[serde(default)]
    r#type: String,
    #[serde(flatten)]
    fields: serde_json::Map<String, Value>,
}

#[derive(Deserialize)]
struct Response {
    status: Option<String>,
    #[serde(default)]
    output: Vec<Item>,
    error: Option<Value>,
    incomplete_details: Option<Incomplete>,
    usage: Option<Tokens>,
}

#[derive(Deserialize)]
struct Incomplete {
    reason: Option<String>,
}

#[derive(Deserialize)]
struct Tokens {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
    input_tokens_details: Option<InputDetails>,
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Deserialize)]
struct InputDetails {
    cached_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct OutputDetails {
    reasoning_tokens: Option<u64>,
}

/// Which kind of text of an item came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Shown {
    Summary,
    Reasoning,
    Text,
    Refusal,
}

/// Reads one answer.
#[derive(Default)]
pub(super) struct Events {
    /// The calls by their place in the output, and whether any of their input came.
    calls: BTreeMap<u64, (u32, bool)>,
    /// The texts that came, by item, kind and place within the item.
    shown: BTreeSet<(u64, Shown, u64)>,
    /// The items that are done.
    done: BTreeSet<u64>,
    /// The part of the reasoning that came last.
    thought: Option<(u64, u64)>,
    /// The message that came last, and whether its end is marked.
    message: Option<(u64, bool)>,
}

impl Decoder for Events {
    fn frame(&mut self, frame: &str, answer: &mut Answer) -> Result<(), Fault> {
        if frame.trim() == "[DONE]" {
            return Ok(());
        }
        let nonsense = |_| Fault::nonsense(frame);
        let event: Event<'_> = serde_json::from_str(frame).map_err(nonsense)?;
        let (at, content, summary) = (event.output_index, event.content_index, event.summary_index);
        let item = || serde_json::from_str::<Item>(event.item.map_or("{}", RawValue::get)).map_err(nonsense);
        let mut piece = |kind, index| self.text((at, kind, index), string(&event.delta), answer);
        match &*event.r#type {
            "response.output_text.delta" => piece(Shown::Text, content),
            "response.refusal.delta" => piece(Shown::Refusal, content),
            "response.reasoning_summary_text.delta" => piece(Shown::Summary, summary),
            "response.reasoning_text.delta" => piece(Shown::Reasoning, content),
            "response.output_text.done" => self.rest((at, Shown::Text, content), string(&event.text), answer),
            "response.refusal.done" => self.rest((at, Shown::Refusal, content), string(&event.refusal), answer),
            "response.reasoning_summary_text.done" => {
                self.rest((at, Shown::Summary, summary), string(&event.text), answer);
            }
            "response.reasoning_text.done" => self.rest((at, Shown::Reasoning, content), string(&event.text), answer),
            "response.function_call_arguments.delta" => self.call_input(at, &string(&event.delta), answer)?,
            "response.function_call_arguments.done" => self.rest_of_input(at, &string(&event.arguments), answer)?,
            "response.output_item.added" => self.begin(at, &item()?, answer)?,
            "response.output_item.done" => self.complete(at, item()?, answer)?,
            "response.completed" | "response.incomplete" | "response.failed" => {
                let response = serde_json::from_str(event.response.map_or("{}", RawValue::get)).map_err(nonsense)?;
                self.end(event.r#type == "response.failed", response, answer)?;
            }
            // The error is the event itself, or lies within it.
            "error" => return Err(reported(&serde_json::from_str(frame).map_err(nonsense)?)),
            _ if event.object == "response" => {
                self.end(false, serde_json::from_str(frame).map_err(nonsense)?, answer)?;
            }
            // Proxies report errors without a type.
            _ if !event.error.is_null() => return Err(reported(&event.error)),
            // Signs of life, annotations, parts that begin and end, and what is newer than this.
            _ => {}
        }
        Ok(())
    }
}

impl Events {
    /// A piece of text that is shown.
    fn text(&mut self, place: (u64, Shown, u64), text: String, answer: &mut Answer) {
        if text.is_empty() {
            return;
        }
        let (at, kind, index) = place;
        match kind {
            Shown::Text | Shown::Refusal => {
                self.begin_message(at, answer);
                if kind == Shown::Refusal {
                    answer.refuse();
                }
                answer.text(text);
            }
            Shown::Summary | Shown::Reasoning => {
                // Open models give both, and the summary is the same once more.
                let other = if kind == Shown::Summary { Shown::Reasoning } else { Shown::Summary };
                if self.has_shown(at, other) {
                    return;
                }
                let is_next = self.thought.replace((at, index)).is_some_and(|before| before != (at, index));
                answer.thinking(if is_next { format!("\n\n{text}") } else { text });
            }
        }
        self.shown.insert(place);
    }

    /// The whole of a text, shown where no piece of it was.
    fn rest(&mut self, place: (u64, Shown, u64), text: String, answer: &mut Answer) {
        if !self.shown.contains(&place) {
            self.text(place, text, answer);
        }
    }

    fn has_shown(&self, at: u64, kind: Shown) -> bool {
        self.shown.range((at, kind, 0)..=(at, kind, u64::MAX)).next().is_some()
    }

    /// Parts two messages of one answer from each other, for readers and for history.
    fn begin_message(&mut self, at: u64, answer: &mut Answer) {
        match self.message {
            Some((before, _)) if before == at => return,
            Some((_, is_marked)) => {
                if !is_marked {
                    answer.own(&Own::Message { phase: None });
                }
                answer.gap("\n\n");
                answer.own(&Own::Gap);
            }
            None => {}
        }
        self.message = Some((at, false));
    }

    fn begin(&mut self, at: u64, item: &Item, answer: &mut Answer) -> Result<(), Fault> {
        if item.r#type == "function_call" && !self.calls.contains_key(&at) {
            let part = answer.start_call(item.string("name").to_owned())?;
            self.calls.insert(at, (part, false));
        }
        Ok(())
    }

    fn call_input(&mut self, at: u64, json: &str, answer: &mut Answer) -> Result<(), Fault> {
        let Some((part, has_input)) = self.calls.get_mut(&at) else { return Ok(()) };
        *has_input |= !json.is_empty();
        answer.call_input(*part, json)
    }

    /// The whole input of a call, shown where no piece of it was.
    fn rest_of_input(&mut self, at: u64, input: &str, answer: &mut Answer) -> Result<(), Fault> {
        match self.calls.get(&at) {
            Some((_, false)) => self.call_input(at, input, answer),
            Some((_, true)) | None => Ok(()),
        }
    }

    fn complete(&mut self, at: u64, item: Item, answer: &mut Answer) -> Result<(), Fault> {
        if !self.done.insert(at) {
            return Ok(());
        }
        match item.r#type.as_str() {
            "message" => {
                for (index, part) in (0..).zip(item.list("content")) {
                    self.rest((at, Shown::Text, index), string(&part["text"]), answer);
                    self.rest((at, Shown::Refusal, index), string(&part["refusal"]), answer);
                }
                let phase = item.string("phase");
                if let Some((before, is_marked)) = &mut self.message
                    && *before == at
                    && !phase.is_empty()
                {
                    *is_marked = true;
                    answer.own(&Own::Message { phase: Some(phase.to_owned()) });
                }
                Ok(())
            }
            "reasoning" => {
                self.reasoning(at, &item, answer);
                Ok(())
            }
            "function_call" => {
                self.begin(at, &item, answer)?;
                self.rest_of_input(at, item.string("arguments"), answer)?;
                if let Some((part, _)) = self.calls.get(&at) {
                    answer.close_call(*part);
                }
                Ok(())
            }
            kind if kind.is_empty() || UNANSWERED.contains(&kind) => Ok(()),
            _ => {
                let mut fields = item.fields;
                fields.insert("type".to_owned(), Value::String(item.r#type));
                let item = Value::Object(fields);
                if item.to_string().len() <= MAX_OTHER {
                    answer.own(&Own::Item(item));
                }
                Ok(())
            }
        }
    }

    fn reasoning(&mut self, at: u64, item: &Item, answer: &mut Answer) {
        let parts = [(Shown::Summary, "summary"), (Shown::Reasoning, "content")];
        if !parts.iter().any(|(kind, _)| self.has_shown(at, *kind)) {
            for (kind, field) in parts {
                for (index, part) in (0..).zip(item.list(field)) {
                    self.text((at, kind, index), string(&part["text"]), answer);
                }
            }
        }
        // Without its encrypted content the provider would look for the item in a store where it is not.
        let encrypted_content = item.string("encrypted_content");
        if !encrypted_content.is_empty() {
            answer.own_before_next(&Own::Reasoning {
                id: item.string("id").to_owned(),
                summary: item.list("summary").to_vec(),
                encrypted_content: encrypted_content.to_owned(),
            });
        }
    }

    fn end(&mut self, is_failed: bool, response: Response, answer: &mut Answer) -> Result<(), Fault> {
        if let Some(tokens) = response.usage {
            answer.usage(tokens.into());
        }
        let status = response.status.as_deref().unwrap_or_default();
        if is_failed || status == "failed" {
            let error = response.error.filter(|error| !error.is_null());
            return Err(error.map_or_else(
                || Fault::Ended("a failure that it does not explain".to_owned()),
                |error| reported(&error),
            ));
        }
        for (at, item) in (0..).zip(response.output) {
            self.complete(at, item, answer)?;
        }
        let reason = response.incomplete_details.and_then(|details| details.reason);
        answer.finish(match (reason.as_deref(), status) {
            (Some("content_filter"), _) => ModelFinish::Refusal,
            (Some(_), _) | (None, "incomplete") => ModelFinish::MaxTokens,
            (None, _) => ModelFinish::Stop,
        });
        answer.end();
        Ok(())
    }
}

impl Item {
    fn string(&self, field: &str) -> &str {
        self.fields.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    fn list(&self, field: &str) -> &[Value] {
        self.fields.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }
}

impl From<Tokens> for Usage {
    fn from(tokens: Tokens) -> Self {
        let input = tokens.input_tokens_details;
        let of_input = |field: fn(&InputDetails) -> Option<u64>| input.as_ref().and_then(field).unwrap_or(0);
        Self {
            input: tokens.input_tokens,
            output: tokens.output_tokens,
            cached_input: of_input(|details| details.cached_tokens),
            cache_write: of_input(|details| details.cache_write_tokens),
            reasoning: tokens.output_tokens_details.and_then(|details| details.reasoning_tokens).unwrap_or(0),
        }
    }
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// An error within the stream. One that no retry mends is labelled as the provider labels it outside of streams.
fn reported(error: &Value) -> Fault {
    let error = error.get("error").filter(|error| !error.is_null()).unwrap_or(error);
    let code = error.get("code").and_then(Value::as_str).unwrap_or_default();
    let is_final = FINAL_CODES.contains(&code) || code.contains("image");
    if !is_final {
        return Fault::Reported(Report::from_json(error));
    }
    let message = error.get("message").and_then(Value::as_str).unwrap_or(code);
    let labelled = json!({ "message": message, "code": code, "type": "invalid_request_error" });
    Fault::Reported(Report::from_json(&labelled))
}
