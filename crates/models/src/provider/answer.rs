//! An answer while it arrives: the events to give out, the tool calls that are still open, and how it ended.

use std::collections::VecDeque;

use everturn_core::{Json, Usage};

use super::failure::Fault;
use crate::model::{ModelEvent, ModelFinish};

/// The most tool input that one answer may hold, in bytes, all calls together.
pub(super) const MAX_TOOL_INPUT: usize = 1024 * 1024;

/// The most calls that one answer may make.
pub(super) const MAX_CALLS: usize = 128;

/// Reads one wire's frames.
pub(super) trait Decoder: Send {
    /// Adds what a frame says to the answer.
    fn frame(&mut self, frame: &str, answer: &mut Answer) -> Result<(), Fault>;
}

/// What a decoder has read so far.
#[derive(Debug, Default)]
pub(super) struct Answer {
    ready: VecDeque<ModelEvent>,
    calls: Vec<Call>,
    input_bytes: usize,
    finish: Option<ModelFinish>,
    usage: Option<Usage>,
    refused: bool,
    ended: bool,
}

#[derive(Debug)]
struct Call {
    name: String,
    input: String,
    open: bool,
}

impl Answer {
    /// The next event to give out.
    pub(super) fn pop(&mut self) -> Option<ModelEvent> {
        self.ready.pop_front()
    }

    pub(super) fn text(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !text.is_empty() {
            self.ready.push_back(ModelEvent::Text(text));
        }
    }

    pub(super) fn thinking(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !text.is_empty() {
            self.ready.push_back(ModelEvent::Thinking(text));
        }
    }

    pub(super) fn signature(&mut self, signature: String) {
        self.ready.push_back(ModelEvent::ThinkingSignature(signature));
    }

    /// A call begins. Gives its part.
    pub(super) fn start_call(&mut self, name: String) -> Result<u32, Fault> {
        if self.calls.len() == MAX_CALLS {
            return Err(Fault::TooManyCalls);
        }
        let part = self.calls.len() as u32;
        self.ready.push_back(ModelEvent::ToolCallStarted { part, name: name.clone() });
        self.calls.push(Call { name, input: String::new(), open: true });
        Ok(part)
    }

    /// A piece of an open call's input, to be shown as it comes.
    pub(super) fn call_input(&mut self, part: u32, json: &str) -> Result<(), Fault> {
        if json.is_empty() {
            return Ok(());
        }
        self.hold_input(part, json)?;
        self.ready.push_back(ModelEvent::ToolInputDelta { part, json: json.to_owned() });
        Ok(())
    }

    /// A whole call from a wire that does not stream input.
    pub(super) fn whole_call(&mut self, name: String, input: &str) -> Result<u32, Fault> {
        let part = self.start_call(name)?;
        self.hold_input(part, input)?;
        self.close_call(part);
        Ok(part)
    }

    fn hold_input(&mut self, part: u32, json: &str) -> Result<(), Fault> {
        self.input_bytes += json.len();
        if self.input_bytes > MAX_TOOL_INPUT {
            return Err(Fault::TooMuchToolInput);
        }
        if let Some(call) = self.calls.get_mut(part as usize) {
            call.input.push_str(json);
        }
        Ok(())
    }

    /// A call is complete. Does nothing to one that already is.
    pub(super) fn close_call(&mut self, part: u32) {
        let Some(call) = self.calls.get_mut(part as usize).filter(|call| call.open) else { return };
        call.open = false;
        let name = std::mem::take(&mut call.name);
        let input = std::mem::take(&mut call.input);
        // Several wires send nothing, or `null`, for a call without input.
        let json = match input.trim() {
            "" | "null" => Ok(Json::empty_object()),
            text => Json::parse(text),
        };
        self.ready.push_back(match json {
            Ok(input) if input.is_object() => ModelEvent::ToolCall { part, name, input },
            Ok(_) | Err(_) => ModelEvent::BadToolCall { part, name, input },
        });
    }

    /// The model declines in what it says now, whatever reason it will give for stopping.
    pub(super) fn refuse(&mut self) {
        self.refused = true;
    }

    /// Why the model stopped. From here on a stream that ends is not cut.
    pub(super) fn finish(&mut self, finish: ModelFinish) {
        self.finish = Some(if self.refused { ModelFinish::Refusal } else { finish });
    }

    /// What the whole answer has used so far.
    pub(super) fn usage(&mut self, usage: Usage) {
        if self.usage.replace(usage) != Some(usage) && usage.total() > 0 {
            self.ready.push_back(ModelEvent::Used(usage));
        }
    }

    /// The provider says that nothing follows. That counts as a reason to stop where it gave none.
    pub(super) fn end(&mut self) {
        self.ended = true;
        if self.finish.is_none() {
            self.finish(ModelFinish::Stop);
        }
    }

    /// Whether the provider said that nothing follows.
    pub(super) fn is_ended(&self) -> bool {
        self.ended
    }

    /// Closes the answer: open calls, then `Finished`. False where the provider has not said why the model stopped, so
    /// that the answer is a piece of one.
    pub(super) fn complete(&mut self) -> bool {
        let Some(finish) = self.finish else { return false };
        for part in 0..self.calls.len() as u32 {
            self.close_call(part);
        }
        // A call that used nothing is a provider that does not count.
        let usage = self.usage.filter(|usage| usage.total() > 0);
        self.ready.push_back(ModelEvent::Finished { finish, usage });
        true
    }
}
