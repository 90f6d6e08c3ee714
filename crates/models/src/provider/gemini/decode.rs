//! Answers: chunks with parts; the last one says why the model stopped.

use everturn_core::{Json, Usage};
use serde::Deserialize;
use serde_json::Value;

use super::proof::Proof;
use crate::{
    model::ModelFinish,
    provider::{
        answer::{Answer, Decoder},
        failure::{Fault, Report},
    },
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Chunk {
    #[serde(default)]
    candidates: Vec<Candidate>,
    prompt_feedback: Option<Feedback>,
    usage_metadata: Option<Tokens>,
    error: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    content: Option<Content>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Content {
    #[serde(default)]
    parts: Vec<Part>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part {
    text: Option<String>,
    #[serde(default)]
    thought: bool,
    thought_signature: Option<String>,
    function_call: Option<FunctionCall>,
}

#[derive(Deserialize)]
struct FunctionCall {
    #[serde(default)]
    name: String,
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
    candidates_token_count: Option<u64>,
    thoughts_token_count: Option<u64>,
}

/// Reads one answer.
#[derive(Default)]
pub(super) struct Chunks {
    proof: Proof,
}

impl Decoder for Chunks {
    fn frame(&mut self, frame: &str, answer: &mut Answer) -> Result<(), Fault> {
        let chunk: Chunk = serde_json::from_str(frame).map_err(|_| Fault::nonsense(frame))?;
        if let Some(error) = chunk.error {
            return Err(Fault::Reported(Report::from_json(&error)));
        }
        if let Some(tokens) = chunk.usage_metadata {
            let sum = |a: Option<u64>, b: Option<u64>| a.unwrap_or(0).saturating_add(b.unwrap_or(0));
            answer.usage(Usage::of(
                sum(tokens.prompt_token_count, tokens.tool_use_prompt_token_count),
                sum(tokens.candidates_token_count, tokens.thoughts_token_count),
            ));
        }
        if chunk.prompt_feedback.is_some_and(|feedback| feedback.block_reason.is_some()) {
            answer.finish(ModelFinish::Refusal);
        }
        let Some(candidate) = chunk.candidates.into_iter().next() else { return Ok(()) };
        for part in candidate.content.into_iter().flat_map(|content| content.parts) {
            self.part(part, answer)?;
        }
        match candidate.finish_reason.as_deref() {
            None | Some("FINISH_REASON_UNSPECIFIED") => {}
            Some("MAX_TOKENS") => answer.finish(ModelFinish::MaxTokens),
            Some(
                "SAFETY" | "RECITATION" | "LANGUAGE" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" | "IMAGE_SAFETY",
            ) => answer.finish(ModelFinish::Refusal),
            // The model made a call that could not be read; another try may do better.
            Some(reason @ ("MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "OTHER")) => {
                return Err(Fault::Ended(reason.to_owned()));
            }
            Some(_) => answer.finish(ModelFinish::Stop),
        }
        Ok(())
    }
}

impl Chunks {
    fn part(&mut self, part: Part, answer: &mut Answer) -> Result<(), Fault> {
        match (part.text, part.thought) {
            (Some(text), true) => answer.thinking(text),
            (Some(text), false) => answer.text(text),
            (None, _) => {}
        }
        let call = match part.function_call {
            Some(FunctionCall { name, args }) => {
                Some(answer.whole_call(name, args.as_ref().map_or("{}", Json::as_str))?)
            }
            None => None,
        };
        if let Some(signature) = part.thought_signature {
            match call {
                Some(call) => {
                    self.proof.calls.insert(call, signature);
                }
                None => self.proof.text = Some(signature),
            }
            answer.own(&self.proof);
        }
        Ok(())
    }
}
