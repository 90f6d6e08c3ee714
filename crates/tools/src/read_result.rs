//! Reads tool results that were shortened in what the model is given.

use everturn_core::{EffectClass, Json, ToolSpec, compaction::READ_RESULT};
use futures_util::future::BoxFuture;
use serde::Deserialize;

use crate::{Tool, ToolContext, ToolFailure, ToolKind, ToolOutput, input};

/// The most bytes that one call reads.
const MAX_LENGTH: usize = 32 * 1024;
/// How many it reads unless it says.
const LENGTH: usize = 8 * 1024;

const DESCRIPTION: &str = "Reads a part of an earlier tool result that is shown shortened in this conversation. The note \
    in the shortened result names the call_id and the offset. Read on with the offset that the answer names.";

const SCHEMA: &str = r#"{
  "type": "object",
  "properties": {
    "call_id": {
      "type": "string",
      "description": "The id of the tool call whose result to read, as the note in the result names it.",
      "minLength": 1,
      "maxLength": 256
    },
    "offset": {
      "type": "integer",
      "description": "The byte to begin at; 0 if left out.",
      "minimum": 0
    },
    "length": {
      "type": "integer",
      "description": "How many bytes to read; 8192 if left out, 32768 at most.",
      "minimum": 1,
      "maximum": 32768
    }
  },
  "required": ["call_id"],
  "additionalProperties": false
}"#;

/// What a model asks to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultRequest {
    /// The call whose result it is.
    pub call_id: String,
    /// The first byte.
    pub offset: usize,
    /// How many bytes, within the bounds of one call.
    pub length: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    call_id: String,
    offset: Option<u64>,
    length: Option<u64>,
}

impl ResultRequest {
    /// Reads an input. The message is for the model that made it.
    pub fn parse(input: &Json) -> Result<Self, String> {
        let Input { call_id, offset, length } = input::read(READ_RESULT, input)?;
        let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let length = length.map_or(LENGTH, bytes).clamp(1, MAX_LENGTH);
        Ok(Self { call_id, offset: offset.map_or(0, bytes), length })
    }

    /// The part of a result that is asked for, with a line that says which part it is and where the next one begins.
    pub fn part_of(&self, text: &str) -> Result<String, String> {
        let total = text.len();
        if self.offset >= total {
            return Err(format!("offset {} is beyond the end: the result has {total} bytes", self.offset));
        }
        let from = text.floor_char_boundary(self.offset);
        let mut to = text.floor_char_boundary(from.saturating_add(self.length));
        if to == from {
            // A character that is longer than what was asked for.
            to = text.ceil_char_boundary(from + 1);
        }
        let rest = if to < total { format!("; read on with offset {to}") } else { String::new() };
        Ok(format!("[bytes {from} to {to} of {total}{rest}]\n{}", &text[from..to]))
    }
}

/// The tool. The engine answers its calls, from the session's history.
#[derive(Debug)]
pub struct ReadResult {
    spec: ToolSpec,
}

impl ReadResult {
    /// The tool `read_result`.
    pub fn new() -> Self {
        Self { spec: input::spec(READ_RESULT, "Read result", DESCRIPTION, SCHEMA) }
    }
}

impl Default for ReadResult {
    fn default() -> Self {
        Self::new()
    }
}

impl Tool for ReadResult {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effect(&self) -> EffectClass {
        EffectClass::ReadOnly
    }

    fn is_builtin(&self) -> bool {
        true
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Result
    }

    fn call(&self, _: ToolContext, _: Json) -> BoxFuture<'static, Result<ToolOutput, ToolFailure>> {
        input::performed_by_the_engine(READ_RESULT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(input: &str, text: &str) -> Result<String, String> {
        ResultRequest::parse(&Json::parse(input).unwrap())?.part_of(text)
    }

    #[test]
    fn parts_follow_one_another() {
        let text = "abcdefghij";
        let part = read(r#"{"call_id":"c","length":4}"#, text).unwrap();
        assert_eq!(part, "[bytes 0 to 4 of 10; read on with offset 4]\nabcd");
        let part = read(r#"{"call_id":"c","offset":4,"length":9}"#, text).unwrap();
        assert_eq!(part, "[bytes 4 to 10 of 10]\nefghij");
    }

    #[test]
    fn characters_stay_whole() {
        let part = read(r#"{"call_id":"c","offset":1,"length":1}"#, "éé").unwrap();
        assert_eq!(part, "[bytes 0 to 2 of 4; read on with offset 2]\né");
    }

    #[test]
    fn one_call_reads_a_bounded_part() {
        let text = "x".repeat(100_000);
        let default = read(r#"{"call_id":"c"}"#, &text).unwrap();
        assert!(default.starts_with("[bytes 0 to 8192 of 100000;"), "{}", &default[..60]);
        let most = ResultRequest::parse(&Json::parse(r#"{"call_id":"c","length":999999}"#).unwrap()).unwrap();
        assert_eq!(most.length, MAX_LENGTH);
        let beyond = read(r#"{"call_id":"c","offset":100000}"#, &text).unwrap_err();
        assert_eq!(beyond, "offset 100000 is beyond the end: the result has 100000 bytes");
    }
}
