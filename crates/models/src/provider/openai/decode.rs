//! Answers: chunks with deltas, then `[DONE]`.
//!
//! Servers differ in the details, and the differences that matter are taken: reasoning under two names, content as
//! parts, calls without an index or with the same one, no `[DONE]` at the end.

use everturn_core::Usage;
use serde::Deserialize;
use serde_json::Value;

use crate::{
    model::ModelFinish,
    provider::{
        answer::{Answer, Decoder},
        failure::{Fault, Report},
    },
};

#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Vec<Choice>,
    usage: Option<Tokens>,
    error: Option<Value>,
    /// `error` in the chunks of older vLLM, which are errors themselves.
    object: Option<String>,
}

#[derive(Deserialize)]
struct Choice {
    delta: Option<Delta>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Delta {
    #[serde(default)]
    content: Value,
    /// vLLM, llama.cpp, DeepSeek.
    #[serde(default)]
    reasoning_content: Value,
    /// OpenRouter and newer vLLM.
    #[serde(default)]
    reasoning: Value,
    refusal: Option<String>,
    tool_calls: Option<Vec<CallDelta>>,
}

#[derive(Deserialize)]
struct CallDelta {
    index: Option<u64>,
    id: Option<String>,
    function: Option<FunctionDelta>,
}

#[derive(Deserialize)]
struct FunctionDelta {
    name: Option<String>,
    #[serde(default)]
    arguments: Value,
}

#[derive(Deserialize)]
struct Tokens {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
}

#[derive(Deserialize)]
struct PromptDetails {
    cached_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct CompletionDetails {
    reasoning_tokens: Option<u64>,
}

/// Reads one answer.
#[derive(Default)]
pub(super) struct Chunks {
    calls: Vec<OpenCall>,
    has_spoken: bool,
}

struct OpenCall {
    index: Option<u64>,
    id: String,
    part: u32,
}

impl Decoder for Chunks {
    fn frame(&mut self, frame: &str, answer: &mut Answer) -> Result<(), Fault> {
        if frame.trim() == "[DONE]" {
            if !self.has_spoken {
                return Err(Fault::Ended("[DONE] before it said anything".to_owned()));
            }
            answer.end();
            return Ok(());
        }
        let chunk: Chunk = serde_json::from_str(frame).map_err(|_| Fault::nonsense(frame))?;
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            return Err(Fault::Reported(Report::from_json(&error)));
        }
        if chunk.object.as_deref() == Some("error") {
            return Err(Fault::Reported(Report::from_body(frame.as_bytes())));
        }
        if let Some(tokens) = chunk.usage
            && let Some(input) = tokens.prompt_tokens
        {
            let (prompt, completion) = (tokens.prompt_tokens_details, tokens.completion_tokens_details);
            answer.usage(Usage {
                cached_input: prompt.and_then(|prompt| prompt.cached_tokens).unwrap_or(0),
                reasoning: completion.and_then(|completion| completion.reasoning_tokens).unwrap_or(0),
                ..Usage::of(input, tokens.completion_tokens.unwrap_or(0))
            });
        }
        // We ask for one choice.
        let Some(choice) = chunk.choices.into_iter().next() else { return Ok(()) };
        self.has_spoken = true;
        if let Some(delta) = choice.delta {
            self.delta(delta, answer)?;
        }
        match choice.finish_reason.as_deref() {
            None | Some("") => {}
            Some("length" | "max_tokens") => answer.finish(ModelFinish::MaxTokens),
            Some("content_filter" | "refusal") => answer.finish(ModelFinish::Refusal),
            Some("error") => return Err(Fault::Ended("an error of the model's host".to_owned())),
            Some(_) => answer.finish(ModelFinish::Stop),
        }
        Ok(())
    }
}

impl Chunks {
    fn delta(&mut self, delta: Delta, answer: &mut Answer) -> Result<(), Fault> {
        match (delta.reasoning_content, delta.reasoning) {
            // Servers in transition send the same piece under both names.
            (Value::String(text), _) if !text.is_empty() => answer.thinking(text),
            (_, Value::String(text)) => answer.thinking(text),
            _ => {}
        }
        match delta.content {
            Value::String(text) => answer.text(text),
            Value::Array(parts) => content_parts(&parts, answer),
            _ => {}
        }
        if let Some(refusal) = delta.refusal.filter(|refusal| !refusal.is_empty()) {
            answer.text(refusal);
            answer.refuse();
        }
        for call in delta.tool_calls.unwrap_or_default() {
            self.call(call, answer)?;
        }
        Ok(())
    }

    fn call(&mut self, delta: CallDelta, answer: &mut Answer) -> Result<(), Fault> {
        let id = delta.id.unwrap_or_default();
        let (name, arguments) = match delta.function {
            Some(function) => (function.name.unwrap_or_default(), function.arguments),
            None => (String::new(), Value::Null),
        };
        let known = match delta.index {
            Some(_) => self.calls.iter().rev().find(|call| call.index == delta.index),
            None => self.calls.last(),
        };
        // A new id with a name begins a call even under a known index: some servers number every call 0. Without an
        // index, a name alone begins one.
        let continues = |call: &&OpenCall| {
            name.is_empty() || (id.is_empty() && delta.index.is_some()) || (!id.is_empty() && call.id == id)
        };
        let part = match known.filter(continues) {
            Some(call) => call.part,
            None => {
                let part = answer.start_call(name)?;
                self.calls.push(OpenCall { index: delta.index, id, part });
                part
            }
        };
        match arguments {
            Value::String(json) => answer.call_input(part, &json),
            Value::Null => Ok(()),
            // Not what the wire says, but some servers send the object itself.
            whole => answer.call_input(part, &whole.to_string()),
        }
    }
}

/// Content as parts: Mistral's servers send text and thinking so.
fn content_parts(parts: &[Value], answer: &mut Answer) {
    for part in parts {
        if let Some(text) = part.get("text").and_then(Value::as_str) {
            answer.text(text);
        }
        match part.get("thinking") {
            Some(Value::String(text)) => answer.thinking(text.as_str()),
            Some(Value::Array(pieces)) => {
                for text in pieces.iter().filter_map(|piece| piece.get("text")?.as_str()) {
                    answer.thinking(text);
                }
            }
            _ => {}
        }
    }
}
