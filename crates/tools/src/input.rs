//! How the tools that the engine performs itself describe and read their input.

use std::ops::RangeInclusive;

use everturn_core::{Json, ToolSpec};
use futures_util::future::{BoxFuture, FutureExt};
use serde::Deserialize;

use crate::{ToolFailure, ToolOutput};

/// A spec with a schema in JSON text. Text keeps the order of properties, which is the order in which models write
/// them.
pub(crate) fn spec(name: &str, title: &str, description: &str, schema: &str) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        title: Some(title.to_owned()),
        description: description.to_owned(),
        input_schema: Json::parse(schema).unwrap_or_else(|_| Json::empty_object()),
    }
}

/// The input as a type. The message is for the model that made the input.
pub(crate) fn read<'a, T: Deserialize<'a>>(tool: &str, input: &'a Json) -> Result<T, String> {
    // A list of the members' values would be read as well.
    if !input.is_object() {
        return Err(format!("the input is not what {tool} takes: it must be a JSON object"));
    }
    serde_json::from_str(input.as_str()).map_err(|error| format!("the input is not what {tool} takes: {error}"))
}

/// Whether a text has as many characters as it may have.
pub(crate) fn check_length(name: &str, text: &str, allowed: RangeInclusive<usize>) -> Result<(), String> {
    let length = text.chars().count();
    if allowed.contains(&length) {
        return Ok(());
    }
    Err(format!("{name} has {length} characters, it must have {} to {}", allowed.start(), allowed.end()))
}

/// The answer to a call that the engine should have performed itself.
pub(crate) fn performed_by_the_engine(name: &str) -> BoxFuture<'static, Result<ToolOutput, ToolFailure>> {
    let failure =
        ToolFailure(format!("{name} is performed by the engine itself and cannot be called like other tools"));
    std::future::ready(Err(failure)).boxed()
}
