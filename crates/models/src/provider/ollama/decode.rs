//! Answers: one record a line; the last one is `done`.

use everturn_core::{Json, Usage};
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
struct Record {
    message: Option<Message>,
    done: Option<bool>,
    done_reason: Option<String>,
    prompt_eval_count: Option<u64>,
    eval_count: Option<u64>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Message {
    content: Option<String>,
    thinking: Option<String>,
    tool_calls: Option<Vec<ToolCall>>,
}

#[derive(Deserialize)]
struct ToolCall {
    function: Function,
}

#[derive(Deserialize)]
struct Function {
    name: String,
    arguments: Option<Json>,
}

/// Reads one answer.
#[derive(Default)]
pub(super) struct Lines {
    /// Whether the model thought and this is not on record yet.
    has_thought: bool,
}

impl Decoder for Lines {
    fn frame(&mut self, frame: &str, answer: &mut Answer) -> Result<(), Fault> {
        let record: Record = serde_json::from_str(frame).map_err(|_| Fault::nonsense(frame))?;
        if let Some(error) = record.error {
            return Err(Fault::Reported(Report::from_json(&error)));
        }
        if let Some(message) = record.message {
            let thinking = message.thinking.unwrap_or_default();
            self.has_thought |= !thinking.is_empty();
            answer.thinking(thinking);
            answer.text(message.content.unwrap_or_default());
            for ToolCall { function } in message.tool_calls.unwrap_or_default() {
                // The thoughts before a call go back with it; the record says whose they are.
                if std::mem::take(&mut self.has_thought) {
                    answer.own_of_next(&());
                }
                answer.whole_call(function.name, function.arguments.as_ref().map_or("{}", Json::as_str))?;
            }
        }
        if record.done == Some(true) {
            if record.prompt_eval_count.is_some() || record.eval_count.is_some() {
                answer.usage(Usage::of(record.prompt_eval_count.unwrap_or(0), record.eval_count.unwrap_or(0)));
            }
            answer.finish(match record.done_reason.as_deref() {
                Some("length") => ModelFinish::MaxTokens,
                // The model came or went; nothing was answered.
                Some(reason @ ("load" | "unload")) => return Err(Fault::Ended(reason.to_owned())),
                Some(_) | None => ModelFinish::Stop,
            });
            answer.end();
        }
        Ok(())
    }
}
