//! Answers: chunks with deltas, then `[DONE]`.
//!
//! Servers differ in the details, and the differences that matter are taken: reasoning under several names, content as
//! parts, calls without an index or with the same one, usage in several places, no `[DONE]` at the end, no stream at all.

use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::{
    Own,
    details::Details,
    think_tag::{Piece, ThinkTag},
    usage,
};
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
    choices: Option<Vec<Choice>>,
    #[serde(default)]
    usage: Value,
    /// Groq.
    #[serde(default)]
    x_groq: Value,
    #[serde(default)]
    error: Value,
    /// `error` in the chunks of older vLLM, which are errors themselves.
    #[serde(default)]
    object: Value,
    /// Errors of servers that put them nowhere else.
    #[serde(default)]
    message: Value,
    #[serde(default)]
    detail: Value,
    /// MiniMax's errors.
    #[serde(default)]
    base_resp: Value,
}

#[derive(Deserialize)]
struct Choice {
    delta: Option<Delta>,
    /// The whole answer of a server that does not stream.
    message: Option<Delta>,
    finish_reason: Option<String>,
    /// Moonshot.
    #[serde(default)]
    usage: Value,
}

#[derive(Deserialize)]
struct Delta {
    #[serde(default)]
    content: Value,
    /// DeepSeek, Kimi, SGLang, llama.cpp.
    #[serde(default)]
    reasoning_content: Value,
    /// OpenRouter, Groq, newer vLLM.
    #[serde(default)]
    reasoning: Value,
    /// Copilot.
    #[serde(default)]
    reasoning_text: Value,
    /// OpenRouter.
    #[serde(default)]
    reasoning_details: Value,
    refusal: Option<String>,
    tool_calls: Option<Vec<CallDelta>>,
}

#[derive(Deserialize)]
struct CallDelta {
    index: Option<u64>,
    #[serde(default, deserialize_with = "text_or_nothing")]
    id: String,
    function: Option<FunctionDelta>,
    /// Gemini's signature.
    #[serde(default)]
    extra_content: Value,
}

#[derive(Deserialize)]
struct FunctionDelta {
    #[serde(default, deserialize_with = "text_or_nothing")]
    name: String,
    #[serde(default)]
    arguments: Value,
}

/// Servers send numbers and `null` where a text should be.
fn text_or_nothing<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::String(text) => text,
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    })
}

/// Reads one answer.
#[derive(Default)]
pub(super) struct Chunks {
    calls: Vec<OpenCall>,
    has_spoken: bool,
    /// Whether the field that the reasoning comes in is recorded.
    has_field: bool,
    /// Bytes of reasoning that came as parts of the content and are not recorded yet.
    thought: usize,
    details: Details,
    think_tag: ThinkTag,
    /// Whether what is known only at the end of an answer is recorded.
    is_recorded: bool,
}

struct OpenCall {
    index: Option<u64>,
    id: String,
    part: u32,
    extra: Value,
    /// The name that came once more after the input was whole: another call may begin under the same id.
    repeated: Option<String>,
}

impl Decoder for Chunks {
    fn frame(&mut self, frame: &str, answer: &mut Answer) -> Result<(), Fault> {
        if frame.trim() == "[DONE]" {
            if !self.has_spoken {
                return Err(Fault::Ended("[DONE] before it said anything".to_owned()));
            }
            self.record(answer);
            answer.end();
            return Ok(());
        }
        let chunk: Chunk = serde_json::from_str(frame).map_err(|_| Fault::nonsense(frame))?;
        if let Some(fault) = fault(&chunk, frame) {
            return Err(fault);
        }
        for usage in [&chunk.usage, &chunk.x_groq["usage"]].into_iter().filter_map(usage::read) {
            answer.usage(usage);
        }
        // We ask for one choice.
        let Some(choice) = chunk.choices.into_iter().flatten().next() else { return Ok(()) };
        self.has_spoken = true;
        if let Some(usage) = usage::read(&choice.usage) {
            answer.usage(usage);
        }
        if let Some(delta) = choice.delta.or(choice.message) {
            self.delta(delta, answer)?;
        }
        let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) else { return Ok(()) };
        let finish = finish(&reason)?;
        self.record(answer);
        answer.finish(finish);
        Ok(())
    }
}

/// The error that a chunk reports instead of a piece of an answer.
fn fault(chunk: &Chunk, frame: &str) -> Option<Fault> {
    if !chunk.error.is_null() {
        return Some(Fault::Reported(Report::from_json(&chunk.error)));
    }
    let refusal = &chunk.base_resp;
    if refusal["status_code"].as_i64().is_some_and(|code| code != 0) {
        let report = json!({ "message": refusal["status_msg"].as_str().unwrap_or("an error without words") });
        return Some(Fault::Reported(Report::from_json(&report)));
    }
    let is_bare = chunk.choices.is_none() && (chunk.message.is_string() || chunk.detail.is_string());
    (chunk.object == "error" || is_bare).then(|| Fault::Reported(Report::from_body(frame.as_bytes())))
}

/// Why the model stopped, in the words of many servers.
fn finish(reason: &str) -> Result<ModelFinish, Fault> {
    Ok(match reason {
        "length" | "max_tokens" | "MAX_TOKENS" | "model_length" | "repetition" | "repetition_truncation" => {
            ModelFinish::MaxTokens
        }
        "content_filter"
        | "content_filtered"
        | "refusal"
        | "sensitive"
        | "SAFETY"
        | "RECITATION"
        | "guardrail_intervened" => ModelFinish::Refusal,
        "error" => return Err(Fault::Ended("an error of the model's host".to_owned())),
        "insufficient_system_resource" | "network_error" | "abort" => return Err(Fault::Ended(reason.to_owned())),
        "model_context_window_exceeded" => return Err(Fault::window_exceeded(None)),
        _ => ModelFinish::Stop,
    })
}

impl Chunks {
    fn delta(&mut self, delta: Delta, answer: &mut Answer) -> Result<(), Fault> {
        self.details.add(&delta.reasoning_details);
        // Servers in transition send the same piece under several names.
        let named = [
            ("reasoning_content", &delta.reasoning_content),
            ("reasoning", &delta.reasoning),
            ("reasoning_text", &delta.reasoning_text),
        ];
        let named = named.into_iter().find_map(|(name, value)| Some((name, value.as_str().filter(|t| !t.is_empty())?)));
        match named {
            Some((name, text)) => {
                if !std::mem::replace(&mut self.has_field, true) {
                    answer.own(&Own::Field(name.to_owned()));
                }
                answer.thinking(text);
            }
            None => Details::texts(&delta.reasoning_details).for_each(|text| answer.thinking(text)),
        }
        match delta.content {
            Value::String(text) => self.text(text, answer),
            Value::Array(parts) => self.content_parts(&parts, answer),
            _ => {}
        }
        if let Some(refusal) = delta.refusal.filter(|refusal| !refusal.is_empty()) {
            self.text(refusal, answer);
            answer.refuse();
        }
        for call in delta.tool_calls.unwrap_or_default() {
            self.call(call, answer)?;
        }
        Ok(())
    }

    fn text(&mut self, text: String, answer: &mut Answer) {
        if self.think_tag.is_past() {
            self.piece(Piece::Text(text), answer);
        } else {
            self.think_tag.push(&text).into_iter().for_each(|piece| self.piece(piece, answer));
        }
    }

    fn piece(&mut self, piece: Piece, answer: &mut Answer) {
        match piece {
            Piece::Thinking(thinking) => answer.thinking(thinking),
            Piece::Text(text) if text.is_empty() => {}
            Piece::Text(text) => {
                self.record_thought(answer);
                answer.text(text);
            }
        }
    }

    /// Content as parts: Mistral's servers send text and thinking so.
    fn content_parts(&mut self, parts: &[Value], answer: &mut Answer) {
        for part in parts {
            if let Some(text) = part["text"].as_str() {
                self.text(text.to_owned(), answer);
            }
            let thinking = &part["thinking"];
            let pieces = thinking.as_array().map_or(&[] as &[Value], Vec::as_slice);
            let texts = thinking.as_str().into_iter().chain(pieces.iter().filter_map(|piece| piece["text"].as_str()));
            for text in texts {
                self.thought += text.len();
                answer.thinking(text);
            }
        }
    }

    fn call(&mut self, delta: CallDelta, answer: &mut Answer) -> Result<(), Fault> {
        let CallDelta { index, id, function, extra_content } = delta;
        let (mut name, arguments) = function.map_or((String::new(), Value::Null), |f| (f.name, f.arguments));
        let known = match index {
            Some(_) => self.calls.iter().rposition(|call| call.index == index),
            None if !id.is_empty() => {
                self.calls.iter().rposition(|call| call.id == id).or(self.calls.len().checked_sub(1))
            }
            None => self.calls.len().checked_sub(1),
        };
        // A new id with a name begins a call even under a known index: some servers number every call 0. Without an
        // index, a name alone begins one.
        let continues = |at: &usize| {
            let call = &self.calls[*at];
            // Without ids of their own, only a call whose input is whole shows that another one begins.
            let goes_on = || arguments.is_null() || arguments == "" || !answer.has_whole_input(call.part);
            name.is_empty() || (if id.is_empty() { index.is_some() } else { call.id == id } && goes_on())
        };
        let is_blank = arguments.as_str().map_or(arguments.is_null(), |json| json.trim().is_empty());
        let mut at = known.filter(continues);
        if let Some(call) = at.map(|at| &mut self.calls[at]) {
            match call.repeated.take() {
                Some(repeated) if !is_blank => (name, at) = (repeated, None),
                _ if !name.is_empty() && is_blank && answer.has_whole_input(call.part) => {
                    call.repeated = Some(name.clone());
                }
                repeated => call.repeated = repeated,
            }
        }
        let at = match at {
            Some(at) => at,
            None => {
                self.end_text(answer);
                let part = answer.start_call(name)?;
                self.calls.push(OpenCall { index, id, part, extra: Value::Null, repeated: None });
                self.calls.len() - 1
            }
        };
        let call = &mut self.calls[at];
        if !extra_content.is_null() {
            call.extra = extra_content;
        }
        match arguments {
            Value::String(json) => answer.call_input(call.part, &json),
            Value::Null => Ok(()),
            // Not what the wire says, but some servers send the object itself.
            whole => answer.call_input(call.part, &whole.to_string()),
        }
    }

    /// Gives what was held of the text.
    fn end_text(&mut self, answer: &mut Answer) {
        if let Some(piece) = self.think_tag.finish() {
            self.piece(piece, answer);
        }
        self.record_thought(answer);
    }

    /// Records the reasoning that came as a part of the content before something else.
    fn record_thought(&mut self, answer: &mut Answer) {
        if self.thought > 0 {
            answer.own(&Own::Thinking(std::mem::take(&mut self.thought)));
        }
    }

    /// Records what is known only when the answer is there.
    fn record(&mut self, answer: &mut Answer) {
        self.end_text(answer);
        if std::mem::replace(&mut self.is_recorded, true) {
            return;
        }
        let details = self.details.take();
        self.calls.retain(|call| !answer.is_dropped(call.part));
        if details.is_empty() && self.calls.iter().all(|call| call.extra.is_null()) {
            return;
        }
        if !details.is_empty() {
            answer.own(&Own::Details(details));
        }
        for OpenCall { id, part, extra, .. } in &self.calls {
            let extra = Some(extra.clone()).filter(|extra| !extra.is_null());
            answer.own(&Own::Call { place: *part, id: id.clone(), extra });
        }
    }
}
