//! Answers: blocks that start, grow and stop.

use std::collections::HashMap;

use everturn_core::Usage;
use serde::Deserialize;
use serde_json::Value;

use super::proof::ThinkingBlock;
use crate::{
    model::ModelFinish,
    provider::{
        answer::{Answer, Decoder},
        failure::{Fault, Report},
    },
};

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Event {
    MessageStart {
        message: Start,
    },
    ContentBlockStart {
        index: u64,
        content_block: Block,
    },
    ContentBlockDelta {
        index: u64,
        delta: Delta,
    },
    ContentBlockStop {
        index: u64,
    },
    MessageDelta {
        delta: Stop,
        usage: Option<Tokens>,
    },
    MessageStop,
    Error {
        error: Value,
    },
    /// Pings, and what will be invented.
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Start {
    usage: Option<Tokens>,
}

#[derive(Deserialize)]
struct Stop {
    stop_reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
    Text {
        #[serde(default)]
        text: String,
    },
    Thinking {
        #[serde(default)]
        thinking: String,
        #[serde(default)]
        signature: String,
    },
    RedactedThinking {
        data: String,
    },
    ToolUse {
        name: String,
        #[serde(default)]
        input: Value,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum Delta {
    #[serde(rename = "text_delta")]
    Text { text: String },
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: String },
    #[serde(rename = "signature_delta")]
    Signature { signature: String },
    #[serde(rename = "input_json_delta")]
    InputJson { partial_json: String },
    #[serde(other)]
    Other,
}

#[derive(Default, Deserialize)]
struct Tokens {
    input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    output_tokens: Option<u64>,
}

/// Reads one answer.
#[derive(Default)]
pub(super) struct Events {
    open: HashMap<u64, Open>,
    thinking: Vec<ThinkingBlock>,
    usage: Option<Usage>,
}

/// A block that has not stopped.
enum Open {
    Thinking { thinking: String, signature: String },
    Call { part: u32, input: Value, streamed: bool },
}

impl Decoder for Events {
    fn frame(&mut self, frame: &str, answer: &mut Answer) -> Result<(), Fault> {
        let event: Event = serde_json::from_str(frame).map_err(|_| Fault::nonsense(frame))?;
        match event {
            Event::MessageStart { message } => self.tokens(message.usage, answer),
            Event::ContentBlockStart { index, content_block } => self.start(index, content_block, answer)?,
            Event::ContentBlockDelta { index, delta } => self.delta(index, delta, answer)?,
            Event::ContentBlockStop { index } => self.stop(index, answer)?,
            Event::MessageDelta { delta, usage } => {
                self.tokens(usage, answer);
                match delta.stop_reason.as_deref() {
                    None => {}
                    Some("max_tokens" | "model_context_window_exceeded") => answer.finish(ModelFinish::MaxTokens),
                    Some("refusal") => answer.finish(ModelFinish::Refusal),
                    Some(_) => answer.finish(ModelFinish::Stop),
                }
            }
            Event::MessageStop => answer.end(),
            Event::Error { error } => return Err(Fault::Reported(Report::from_json(&error))),
            Event::Other => {}
        }
        Ok(())
    }
}

impl Events {
    /// Counts come twice: at the start, and with the final number of tokens written at the end.
    fn tokens(&mut self, tokens: Option<Tokens>, answer: &mut Answer) {
        let Some(tokens) = tokens else { return };
        let mut usage = self.usage.unwrap_or_default();
        if let Some(input) = tokens.input_tokens {
            let cached = tokens.cache_creation_input_tokens.unwrap_or(0) + tokens.cache_read_input_tokens.unwrap_or(0);
            usage.input = usage.input.max(input.saturating_add(cached));
        }
        if let Some(output) = tokens.output_tokens {
            usage.output = output;
        }
        self.usage = Some(usage);
        answer.usage(usage);
    }

    fn start(&mut self, index: u64, block: Block, answer: &mut Answer) -> Result<(), Fault> {
        match block {
            Block::Text { text } => answer.text(text),
            Block::Thinking { thinking, signature } => {
                answer.thinking(thinking.as_str());
                self.open.insert(index, Open::Thinking { thinking, signature });
            }
            Block::RedactedThinking { data } => {
                self.thinking.push(ThinkingBlock::RedactedThinking { data });
                self.sign(answer);
            }
            Block::ToolUse { name, input } => {
                let part = answer.start_call(name)?;
                self.open.insert(index, Open::Call { part, input, streamed: false });
            }
            Block::Other => {}
        }
        Ok(())
    }

    fn delta(&mut self, index: u64, delta: Delta, answer: &mut Answer) -> Result<(), Fault> {
        match (delta, self.open.get_mut(&index)) {
            (Delta::Text { text }, _) => answer.text(text),
            (Delta::Thinking { thinking: piece }, Some(Open::Thinking { thinking, .. })) => {
                thinking.push_str(&piece);
                answer.thinking(piece);
            }
            (Delta::Signature { signature: piece }, Some(Open::Thinking { signature, .. })) => {
                signature.push_str(&piece);
            }
            (Delta::InputJson { partial_json }, Some(Open::Call { part, streamed, .. })) => {
                *streamed |= !partial_json.is_empty();
                answer.call_input(*part, &partial_json)?;
            }
            // Pieces of blocks that we do not know, such as the provider's own tools.
            (Delta::Thinking { .. } | Delta::Signature { .. } | Delta::InputJson { .. } | Delta::Other, _) => {}
        }
        Ok(())
    }

    fn stop(&mut self, index: u64, answer: &mut Answer) -> Result<(), Fault> {
        match self.open.remove(&index) {
            Some(Open::Thinking { thinking, signature }) if !signature.is_empty() => {
                self.thinking.push(ThinkingBlock::Thinking { thinking, signature });
                self.sign(answer);
            }
            Some(Open::Call { part, input, streamed }) => {
                // Input that did not stream came whole with the start.
                if !streamed && input.as_object().is_some_and(|input| !input.is_empty()) {
                    answer.call_input(part, &input.to_string())?;
                }
                answer.close_call(part);
            }
            Some(Open::Thinking { .. }) | None => {}
        }
        Ok(())
    }

    fn sign(&self, answer: &mut Answer) {
        if let Some(block) = self.thinking.last() {
            answer.own(block);
        }
    }
}
