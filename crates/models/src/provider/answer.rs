//! An answer while it arrives: the events to give out, the tool calls that are still open, and how it ended.

use std::collections::VecDeque;

use everturn_core::{Json, ModelOptions, Usage};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::{
    failure::Fault,
    proof::Piece,
    stop_texts::{Checked, StopTexts},
};
use crate::model::{ModelEvent, ModelFinish};

/// The most tool input that one answer may hold, in bytes of JSON, all calls together. An artifact may have 4 MiB; JSON
/// that writes everything but ASCII as `\u…` takes three times as much. The call that goes beyond is not made, and the
/// model is told so.
pub(super) const MAX_TOOL_INPUT: usize = 12 * 1024 * 1024;

/// How much tool input of one answer is read at all, in bytes. A provider that sends more never stops by itself.
pub(super) const MAX_INPUT_READ: usize = 16 * 1024 * 1024;

/// The most calls that one answer may make.
pub(super) const MAX_CALLS: usize = 128;

/// How much of a bad input the model is shown, in characters.
const SHOWN_INPUT: usize = 200;

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
    /// The pieces of the answer in the provider's order.
    pieces: Vec<(Piece<Box<RawValue>>, Bond)>,
    stops: StopTexts,
    /// Whether a stop text has ended the answer. What the provider sends after it is no part of the answer.
    has_stopped: bool,
    /// Whether the answer may make only one call.
    one_call: bool,
}

/// What a piece of the wire's own needs beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bond {
    /// Nothing.
    Free,
    /// A text or call after it.
    Leads,
    /// The text or call after it, as a whole.
    Marks,
}

#[derive(Debug)]
struct Call {
    name: String,
    input: String,
    open: bool,
    /// Whether it is not made: it is one too many, or came after a stop text.
    is_dropped: bool,
    /// Whether its input went beyond [`MAX_TOOL_INPUT`], and was dropped.
    too_long: bool,
}

impl Answer {
    /// The next event to give out.
    pub(super) fn pop(&mut self) -> Option<ModelEvent> {
        self.ready.pop_front()
    }

    /// Whether such an event is about to be given out.
    pub(super) fn is_any_ready(&self, is: impl Fn(&ModelEvent) -> bool) -> bool {
        self.ready.iter().any(is)
    }

    /// Whether there is nothing to give out at the moment.
    pub(super) fn is_silent(&self) -> bool {
        self.ready.is_empty()
    }

    /// Holds the answer to what a request asks for, also where its provider does not.
    pub(super) fn hold_to(&mut self, options: &ModelOptions) {
        self.stops = StopTexts::new(&options.stop);
        self.one_call = options.parallel_tool_calls == Some(false);
    }

    /// A piece of text.
    pub(super) fn text(&mut self, text: impl Into<String>) {
        let text = text.into();
        if text.is_empty() || self.has_stopped {
            return;
        }
        self.add_text(text.len());
        let Checked { text, beyond } = self.stops.check(&text);
        self.show_text(text);
        if let Some(beyond) = beyond {
            self.stop(beyond);
        }
    }

    /// Text of ours between two messages of an answer. It is no stop text, whatever it says.
    pub(super) fn gap(&mut self, text: &str) {
        if !self.has_stopped {
            self.release_text();
            self.add_text(text.len());
            self.show_text(text.to_owned());
        }
    }

    fn add_text(&mut self, bytes: usize) {
        match self.pieces.last_mut() {
            Some((Piece::Text(length), _)) => *length += bytes,
            Some((Piece::Own(_) | Piece::Call, _)) | None => self.pieces.push((Piece::Text(bytes), Bond::Free)),
        }
    }

    fn show_text(&mut self, text: String) {
        if !text.is_empty() {
            self.ready.push_back(ModelEvent::Text(text));
        }
    }

    /// The text so far is complete: gives what was held back of it, because it could have been a stop text.
    pub(super) fn release_text(&mut self) {
        let text = self.stops.release();
        self.show_text(text);
    }

    /// A stop text has ended the answer. The last bytes of its text are not a part of it.
    fn stop(&mut self, mut beyond: usize) {
        let mut calls = 0;
        while beyond > 0 {
            match self.pieces.pop() {
                Some((Piece::Text(length), bond)) if length > beyond => {
                    // A mark that stands for a whole text says nothing of a part.
                    self.pieces.pop_if(|(_, bond)| *bond == Bond::Marks);
                    self.pieces.push((Piece::Text(length - beyond), bond));
                    beyond = 0;
                }
                Some((Piece::Text(length), _)) => beyond -= length,
                Some((Piece::Call, _)) => calls += 1,
                Some((Piece::Own(_), _)) => {}
                None => break,
            }
        }
        self.drop_leading_pieces();
        self.pieces.extend((0..calls).map(|_| (Piece::Call, Bond::Free)));
        // Calls that began before the text are made if they are whole.
        for part in 0..self.calls.len() as u32 {
            if self.has_whole_input(part) {
                self.close_call(part);
            } else if let Some(call) = self.calls.get_mut(part as usize).filter(|call| call.open) {
                (call.open, call.is_dropped) = (false, true);
            }
        }
        // The provider has not said what the whole answer took, and will not: we hang up.
        self.usage = None;
        self.finish(ModelFinish::Stop);
        self.has_stopped = true;
        self.ended = true;
    }

    /// Forgets the last pieces that want a text or call after them.
    fn drop_leading_pieces(&mut self) {
        while self.pieces.pop_if(|(_, bond)| *bond != Bond::Free).is_some() {}
    }

    pub(super) fn thinking(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !text.is_empty() && !self.has_stopped {
            self.ready.push_back(ModelEvent::Thinking(text));
        }
    }

    /// Something of the wire's own has its place here: see [`super::proof`].
    pub(super) fn own(&mut self, piece: &impl Serialize) {
        self.push_own(piece, Bond::Free);
    }

    /// The same, for what providers take back only with a text or call after it, such as reasoning.
    pub(super) fn own_before_next(&mut self, piece: &impl Serialize) {
        self.push_own(piece, Bond::Leads);
    }

    /// The same, for what is a part of the text or call that follows, such as its signature.
    pub(super) fn own_of_next(&mut self, piece: &impl Serialize) {
        self.push_own(piece, Bond::Marks);
    }

    fn push_own(&mut self, piece: &impl Serialize, bond: Bond) {
        // Our own types with string keys: writing them to memory cannot fail.
        if let Ok(piece) = to_raw_value(piece)
            && !self.has_stopped
        {
            self.pieces.push((Piece::Own(piece), bond));
        }
    }

    fn take_pieces(&mut self) -> Vec<Piece<Box<RawValue>>> {
        std::mem::take(&mut self.pieces).into_iter().map(|(piece, _)| piece).collect()
    }

    /// Something that is to be told before the answer.
    pub(super) fn notice(&mut self, notice: String) {
        self.ready.push_back(ModelEvent::Notice(notice));
    }

    /// A call begins. Gives its part.
    pub(super) fn start_call(&mut self, name: String) -> Result<u32, Fault> {
        if self.calls.len() == MAX_CALLS {
            return Err(Fault::TooManyCalls);
        }
        let part = self.calls.len() as u32;
        let is_dropped = self.has_stopped || (self.one_call && part > 0);
        if is_dropped {
            // What was to go back with it would go back with something else.
            self.drop_leading_pieces();
        } else {
            self.release_text();
            self.ready.push_back(ModelEvent::ToolCallStarted { part, name: name.clone() });
        }
        self.calls.push(Call { name, input: String::new(), open: !is_dropped, is_dropped, too_long: false });
        Ok(part)
    }

    /// Whether a call is not made.
    pub(super) fn is_dropped(&self, part: u32) -> bool {
        self.calls.get(part as usize).is_some_and(|call| call.is_dropped)
    }

    /// A piece of an open call's input, to be shown as it comes.
    pub(super) fn call_input(&mut self, part: u32, json: &str) -> Result<(), Fault> {
        if json.is_empty() {
            return Ok(());
        }
        if !self.hold_input(part, json)? {
            return Ok(());
        }
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

    /// Whether the input fits.
    fn hold_input(&mut self, part: u32, json: &str) -> Result<bool, Fault> {
        self.input_bytes += json.len();
        if self.input_bytes > MAX_INPUT_READ {
            return Err(Fault::TooMuchToolInput);
        }
        let Some(call) = self.calls.get_mut(part as usize) else { return Ok(true) };
        if call.is_dropped {
            return Ok(false);
        }
        call.too_long |= self.input_bytes > MAX_TOOL_INPUT;
        if call.too_long {
            call.input = String::new();
        } else {
            call.input.push_str(json);
        }
        Ok(!call.too_long)
    }

    /// Whether the input of an open call is a whole JSON object.
    pub(super) fn has_whole_input(&self, part: u32) -> bool {
        let input = self.calls.get(part as usize).map(|call| call.input.trim()).unwrap_or_default();
        input.starts_with('{') && serde_json::from_str::<&RawValue>(input).is_ok()
    }

    /// A call is complete. Does nothing to one that already is.
    pub(super) fn close_call(&mut self, part: u32) {
        let Some(call) = self.calls.get_mut(part as usize).filter(|call| call.open) else { return };
        call.open = false;
        self.pieces.push((Piece::Call, Bond::Free));
        let name = std::mem::take(&mut call.name);
        let input = std::mem::take(&mut call.input);
        if call.too_long {
            let problem = format!(
                "is too long: one answer may hold {MAX_TOOL_INPUT} bytes of tool input, in all of its calls; write less at \
                 once"
            );
            return self.ready.push_back(ModelEvent::BadToolCall { part, name, problem });
        }
        // Several wires send nothing, or `null`, for a call without input.
        let json = match input.trim() {
            "" | "null" => Ok(Json::empty_object()),
            text => Json::parse(text),
        };
        self.ready.push_back(match json {
            Ok(input) if input.is_object() => ModelEvent::ToolCall { part, name, input },
            Ok(_) | Err(_) => {
                let shown: String = input.chars().take(SHOWN_INPUT).collect();
                ModelEvent::BadToolCall { part, name, problem: format!("is not a JSON object: {shown}") }
            }
        });
    }

    /// The model declines in what it says now, whatever reason it will give for stopping.
    pub(super) fn refuse(&mut self) {
        self.refused = true;
    }

    /// Why the model stopped. From here on a stream that ends is not cut.
    pub(super) fn finish(&mut self, finish: ModelFinish) {
        if self.has_stopped {
            return;
        }
        self.release_text();
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

    /// Closes the answer: open calls, then the record that `record` makes of its pieces, then `Finished`. False where the provider has not said why the model stopped, so
    /// that the answer is a piece of one.
    pub(super) fn complete(&mut self, record: impl FnOnce(Vec<Piece<Box<RawValue>>>) -> Option<String>) -> bool {
        self.release_text();
        let Some(finish) = self.finish else { return false };
        for part in 0..self.calls.len() as u32 {
            self.close_call(part);
        }
        if let Some(record) = record(self.take_pieces()) {
            self.ready.push_back(ModelEvent::ThinkingSignature(record));
        }
        // A call that used nothing is a provider that does not count.
        let usage = self.usage.filter(|usage| usage.total() > 0);
        self.ready.push_back(ModelEvent::Finished { finish, usage });
        true
    }
}
