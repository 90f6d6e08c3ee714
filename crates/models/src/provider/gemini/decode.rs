//! Answers: chunks with parts; the last one says why the model stopped.

use everturn_core::{Json, Usage};
use serde::Deserialize;
use serde_json::{Value, json};

use super::mark::Mark;
use crate::{
    model::ModelFinish,
    provider::{
        answer::{Answer, Decoder},
        failure::{Fault, Report},
    },
};

/// The most signatures that are kept of one answer, in bytes. A part beyond it goes back unsigned.
const MAX_SIGNATURES: usize = 4 * 1024 * 1024;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Chunk {
    candidates: Option<Vec<Candidate>>,
    prompt_feedback: Option<Feedback>,
    usage_metadata: Option<Tokens>,
    error: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    content: Option<Content>,
    finish_reason: Option<String>,
    finish_message: Option<String>,
}

#[derive(Deserialize)]
struct Content {
    parts: Option<Vec<Part>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part {
    text: Option<String>,
    thought: Option<bool>,
    thought_signature: Option<String>,
    function_call: Option<FunctionCall>,
}

#[derive(Deserialize)]
struct FunctionCall {
    id: Option<String>,
    name: Option<String>,
    args: Option<Json>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Feedback {
    block_reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tokens {
    prompt_token_count: Option<u64>,
    tool_use_prompt_token_count: Option<u64>,
    cached_content_token_count: Option<u64>,
    candidates_token_count: Option<u64>,
    thoughts_token_count: Option<u64>,
}

/// Reads one answer.
#[derive(Default)]
pub(super) struct Chunks {
    /// Whether there was a text or a call.
    has_content: bool,
    /// Whether the last piece was a signed text, which no other text may be joined to.
    after_signed_text: bool,
    signature_bytes: usize,
}

impl Decoder for Chunks {
    fn frame(&mut self, frame: &str, answer: &mut Answer) -> Result<(), Fault> {
        let chunk: Chunk = serde_json::from_str(frame).map_err(|_| Fault::nonsense(frame))?;
        if let Some(error) = chunk.error {
            return Err(Fault::Reported(Report::from_json(&error)));
        }
        if let Some(tokens) = &chunk.usage_metadata {
            answer.usage(usage(tokens));
        }
        if chunk.prompt_feedback.is_some_and(|feedback| feedback.block_reason.is_some()) {
            answer.finish(ModelFinish::Refusal);
        }
        let Some(candidate) = chunk.candidates.into_iter().flatten().next() else { return Ok(()) };
        for part in candidate.content.and_then(|content| content.parts).into_iter().flatten() {
            self.part(part, answer)?;
        }
        if let Some(reason) = &candidate.finish_reason
            && let Some(finish) = finish(reason, candidate.finish_message.as_deref())?
        {
            if finish == ModelFinish::Stop && !self.has_content {
                return Err(Fault::Ended(format!("{reason} and neither text nor calls")));
            }
            answer.finish(finish);
        }
        Ok(())
    }
}

impl Chunks {
    fn part(&mut self, part: Part, answer: &mut Answer) -> Result<(), Fault> {
        let signature = part.thought_signature.filter(|signature| self.has_room_for(signature));
        if let Some(FunctionCall { id, name, args }) = part.function_call {
            let id = id.filter(|id| !id.is_empty());
            if signature.is_some() || id.is_some() {
                answer.own_of_next(&Mark::Next { signature, id });
            }
            answer.whole_call(name.unwrap_or_default(), args.as_ref().map_or("{}", Json::as_str))?;
            (self.has_content, self.after_signed_text) = (true, false);
            return Ok(());
        }
        let text = part.text.unwrap_or_default();
        match (part.thought.unwrap_or(false), signature) {
            (true, signature) => {
                if let Some(signature) = signature {
                    answer.own_before_next(&Mark::Thought { text: text.clone(), signature });
                    self.after_signed_text = false;
                }
                answer.thinking(text);
            }
            (false, Some(signature)) if text.is_empty() => {
                answer.own(&Mark::Empty { signature });
                self.after_signed_text = false;
            }
            (false, signature) => {
                let is_signed = signature.is_some();
                if is_signed || (self.after_signed_text && !text.is_empty()) {
                    answer.own_of_next(&Mark::Next { signature, id: None });
                }
                if !text.is_empty() {
                    (self.has_content, self.after_signed_text) = (true, is_signed);
                    answer.text(text);
                }
            }
        }
        Ok(())
    }

    fn has_room_for(&mut self, signature: &str) -> bool {
        let bytes = self.signature_bytes.saturating_add(signature.len());
        let has_room = !signature.is_empty() && bytes <= MAX_SIGNATURES;
        if has_room {
            self.signature_bytes = bytes;
        }
        has_room
    }
}

fn usage(tokens: &Tokens) -> Usage {
    let sum = |a: Option<u64>, b: Option<u64>| a.unwrap_or(0).saturating_add(b.unwrap_or(0));
    Usage {
        // The tokens from the cache are counted in the prompt's.
        input: sum(tokens.prompt_token_count, tokens.tool_use_prompt_token_count),
        output: sum(tokens.candidates_token_count, tokens.thoughts_token_count),
        cached_input: tokens.cached_content_token_count.unwrap_or(0),
        reasoning: tokens.thoughts_token_count.unwrap_or(0),
        ..Usage::default()
    }
}

/// What a reason to stop means. `None` for one that says nothing.
fn finish(reason: &str, message: Option<&str>) -> Result<Option<ModelFinish>, Fault> {
    let words = || match message {
        Some(message) if !message.is_empty() => format!("{reason}: {message}"),
        Some(_) | None => reason.to_owned(),
    };
    Ok(Some(match reason {
        "FINISH_REASON_UNSPECIFIED" => return Ok(None),
        // The second is what servers that translate to this wire say of calls.
        "STOP" | "FUNCTION_CALL" => ModelFinish::Stop,
        // A long answer that could be continued by another request; we ask for no answer of that length.
        "MAX_TOKENS" | "CONTINUATION" => ModelFinish::MaxTokens,
        "SAFETY"
        | "RECITATION"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "ESCALATION"
        | "MODEL_ARMOR"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => ModelFinish::Refusal,
        // The same request would end in the same way.
        "LANGUAGE" | "PUP_LIMITED_DISABLED" | "MISSING_THOUGHT_SIGNATURE" | "TOO_MANY_TOOL_CALLS" => {
            let error = json!({ "code": 400, "message": format!("the answer ended with {}", words()) });
            return Err(Fault::Reported(Report::from_json(&error)));
        }
        // MALFORMED_FUNCTION_CALL, UNEXPECTED_TOOL_CALL, MALFORMED_RESPONSE, IMAGE_OTHER, NO_IMAGE, OTHER, and reasons of
        // later days: nothing shows that the answer is whole, and another try may do better.
        _ => return Err(Fault::Ended(words())),
    }))
}
