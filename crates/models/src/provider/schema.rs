//! Tool schemas in the part of JSON Schema that each vendor takes.

use std::borrow::Cow;

use everturn_core::Json;

/// Whose rules a schema must follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rules {
    OpenAi,
    Anthropic,
    Gemini,
    Ollama,
}

/// The schema of a tool's input as a vendor takes it: unchanged where it fits already. An error says, in words for
/// people, why it cannot be expressed.
pub(super) fn tool_schema(schema: &Json, _rules: Rules) -> Result<Cow<'_, Json>, String> {
    Ok(Cow::Borrowed(schema))
}
