//! Answers: blocks that start, grow and stop.

use std::collections::HashMap;

use everturn_core::Usage;
use serde::Deserialize;
use serde_json::Value;

use super::proof::Own;
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
    /// The whole answer of a gateway that does not stream.
    Message {
        content: Vec<Block>,
        stop_reason: Option<String>,
        usage: Option<Tokens>,
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
        #[serde(default)]
        id: String,
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
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Deserialize)]
struct OutputDetails {
    thinking_tokens: Option<u64>,
}

/// Reads one answer.
#[derive(Default)]
pub(super) struct Events {
    open: HashMap<u64, Open>,
    /// Whether there was a thinking block. The calls around it must go back under the ids that they came with.
    has_thought: bool,
    /// The ids of the calls before the first thinking block.
    ids: Vec<String>,
    /// Whether the block before was text.
    after_text: bool,
    counts: Counts,
}

/// A block that has not stopped.
enum Open {
    Thinking { length: usize, signature: String },
    Call { part: u32, input: Value, streamed: bool },
}

/// What the provider has told of the tokens so far.
#[derive(Default)]
struct Counts {
    /// Neither read from the cache nor written to it.
    plain_input: u64,
    usage: Usage,
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
                finish(delta.stop_reason.as_deref(), self.counts.usage, answer)?;
            }
            Event::Message { content, stop_reason, usage } => {
                self.tokens(usage, answer);
                for (index, block) in (0..).zip(content) {
                    self.start(index, block, answer)?;
                    self.stop(index, answer)?;
                }
                finish(stop_reason.as_deref(), self.counts.usage, answer)?;
            }
            Event::MessageStop => answer.end(),
            Event::Error { error } => return Err(Fault::Reported(Report::from_json(&error))),
            Event::Other => {}
        }
        Ok(())
    }
}

/// Why the model stopped, once it has.
fn finish(reason: Option<&str>, usage: Usage, answer: &mut Answer) -> Result<(), Fault> {
    match reason {
        None => {}
        Some("max_tokens") => answer.finish(ModelFinish::MaxTokens),
        Some("model_context_window_exceeded") => return Err(Fault::window_exceeded(Some(usage))),
        Some("refusal") => answer.finish(ModelFinish::Refusal),
        // A tool of the provider's own takes long. What that tool has found so far is not kept, and without it the answer
        // cannot go on. It has reached no limit of tokens.
        Some("pause_turn") => {
            answer.notice("the answer is not complete: its provider paused it".to_owned());
            answer.finish(ModelFinish::Stop);
        }
        Some(_) => answer.finish(ModelFinish::Stop),
    }
    Ok(())
}

impl Events {
    /// Counts come at the start and again with every `message_delta`: totals so far, of which the later one counts. A zero
    /// after a count is a gateway that does not know.
    fn tokens(&mut self, tokens: Option<Tokens>, answer: &mut Answer) {
        let Some(tokens) = tokens else { return };
        let Counts { plain_input, usage } = &mut self.counts;
        let thinking = tokens.output_tokens_details.and_then(|details| details.thinking_tokens);
        for (count, told) in [
            (plain_input, tokens.input_tokens),
            (&mut usage.cached_input, tokens.cache_read_input_tokens),
            (&mut usage.cache_write, tokens.cache_creation_input_tokens),
            (&mut usage.output, tokens.output_tokens),
            (&mut usage.reasoning, thinking),
        ] {
            if let Some(told) = told.filter(|told| *told > 0) {
                *count = told;
            }
        }
        let counts = &mut self.counts;
        let cached = counts.usage.cached_input.saturating_add(counts.usage.cache_write);
        counts.usage.input = counts.plain_input.saturating_add(cached);
        answer.usage(counts.usage);
    }

    fn start(&mut self, index: u64, block: Block, answer: &mut Answer) -> Result<(), Fault> {
        let is_text = matches!(block, Block::Text { .. });
        if is_text && self.after_text {
            answer.own_before_next(&Own::Text);
        }
        self.after_text = is_text;
        match block {
            Block::Text { text } => answer.text(text),
            Block::Thinking { thinking, signature } => {
                self.think(answer);
                self.open.insert(index, Open::Thinking { length: thinking.len(), signature });
                answer.thinking(thinking);
            }
            Block::RedactedThinking { data } => {
                self.think(answer);
                answer.own_before_next(&Own::RedactedThinking { data });
            }
            Block::ToolUse { id, name, input } => {
                let part = answer.start_call(name)?;
                match (answer.is_dropped(part), self.has_thought) {
                    (true, _) => {}
                    (false, true) => answer.own(&Own::ToolUse { id }),
                    (false, false) => self.ids.push(id),
                }
                self.open.insert(index, Open::Call { part, input, streamed: false });
            }
            Block::Other => {}
        }
        Ok(())
    }

    fn think(&mut self, answer: &mut Answer) {
        self.has_thought = true;
        self.ids.drain(..).for_each(|id| answer.own(&Own::ToolUse { id }));
    }

    fn delta(&mut self, index: u64, delta: Delta, answer: &mut Answer) -> Result<(), Fault> {
        match (delta, self.open.get_mut(&index)) {
            (Delta::Text { text }, _) => answer.text(text),
            (Delta::Thinking { thinking }, Some(Open::Thinking { length, .. })) => {
                *length += thinking.len();
                answer.thinking(thinking);
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
            Some(Open::Thinking { length, signature }) if length > 0 || !signature.is_empty() => {
                answer.own_before_next(&Own::Thinking { length, signature });
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
}
