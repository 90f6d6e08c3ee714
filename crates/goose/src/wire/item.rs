//! One item of content as clients send it, in either style.

use std::borrow::Cow;

use everturn_core::{Block, CallId, Json, ToolUse};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    ImageUrl,
    field::{At, FieldError, shown},
};

/// How long a call's id may be, in bytes.
const MAX_CALL_ID: usize = 256;
/// How long a tool's name may be, in bytes.
const MAX_TOOL_NAME: usize = 256;

/// The call that stands for one that Goose itself could not read.
pub(crate) const UNREADABLE_CALL: &str = "unreadable_call";

/// An item of any type; which fields it must have depends on the type.
#[derive(Debug, Deserialize)]
pub(crate) struct ItemIn {
    pub(crate) r#type: String,
    pub(crate) id: Option<String>,
    pub(crate) text: Option<String>,
    pub(crate) thinking: Option<String>,
    pub(crate) data: Option<Box<RawValue>>,
    #[serde(rename = "mimeType", alias = "mime_type", alias = "media_type", alias = "mediaType")]
    pub(crate) mime_type: Option<String>,
    pub(crate) source: Option<Box<RawValue>>,
    #[serde(rename = "toolCall", alias = "tool_call")]
    pub(crate) tool_call: Option<Box<RawValue>>,
    #[serde(rename = "toolResult", alias = "tool_result")]
    pub(crate) tool_result: Option<Box<RawValue>>,
    pub(crate) resource: Option<Box<RawValue>>,
    pub(crate) uri: Option<String>,
    pub(crate) name: Option<String>,
    #[serde(rename = "userData", alias = "user_data")]
    pub(crate) user_data: Option<Box<RawValue>>,
    pub(crate) annotations: Option<Box<RawValue>>,
}

/// The types of items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Image,
    ToolRequest,
    ToolResponse,
    Thinking,
    Reasoning,
    ActionRequired,
    ElicitationResponse,
    Audio,
    Resource,
    ResourceLink,
    /// Said to people by the software, and no part of what model and user say.
    Aside,
}

impl Kind {
    /// The type of this name, in either style.
    pub(crate) fn of(name: &str) -> Option<Self> {
        Some(match name {
            "text" => Self::Text,
            "image" => Self::Image,
            "toolRequest" | "tool_request" | "frontendToolRequest" | "frontend_tool_request" => Self::ToolRequest,
            "toolResponse" | "tool_response" => Self::ToolResponse,
            "thinking" => Self::Thinking,
            "reasoning" => Self::Reasoning,
            "actionRequired" | "action_required" => Self::ActionRequired,
            "elicitationResponse" | "elicitation_response" => Self::ElicitationResponse,
            "audio" => Self::Audio,
            "resource" => Self::Resource,
            "resource_link" | "resourceLink" => Self::ResourceLink,
            "redactedThinking"
            | "redacted_thinking"
            | "toolConfirmationRequest"
            | "tool_confirmation_request"
            | "elicitationRequest"
            | "elicitation_request"
            | "systemNotification"
            | "system_notification"
            | "conversationCompacted"
            | "contextLengthExceeded"
            | "summarizationRequested" => Self::Aside,
            _ => return None,
        })
    }
}

/// `{name, arguments}`, by itself or as the value of a result.
#[derive(Deserialize)]
struct CallIn {
    value: Option<Box<RawValue>>,
    error: Option<Box<RawValue>>,
    name: Option<String>,
    arguments: Option<Box<RawValue>>,
}

/// What annotations say that matters here.
#[derive(Deserialize)]
struct Annotations {
    audience: Option<Vec<String>>,
}

impl ItemIn {
    pub(crate) fn kind(&self, at: &At<'_>) -> Result<Kind, FieldError> {
        Kind::of(&self.r#type).ok_or_else(|| {
            let known = "text, image, tool_request, tool_response, thinking or action_required (toolRequest and so on)";
            at.error(format!("type {:?} is not known; use {known}", shown(&self.r#type)))
        })
    }

    /// A field that items of this type have.
    pub(crate) fn needs<'a, T>(&self, at: &At<'_>, name: &str, field: &'a Option<T>) -> Result<&'a T, FieldError> {
        field.as_ref().ok_or_else(|| at.error(format!("an item of type {} needs {name:?}", shown(&self.r#type))))
    }

    pub(crate) fn text(&self, at: &At<'_>) -> Result<String, FieldError> {
        Ok(without_tags(self.needs(at, "text", &self.text)?).into_owned())
    }

    pub(crate) fn call_id(&self, at: &At<'_>) -> Result<CallId, FieldError> {
        let id = self.needs(at, "id", &self.id)?;
        if id.is_empty() || id.len() > MAX_CALL_ID {
            return Err(At::Field(at, "id").error(format!("a call's id has 1 to {MAX_CALL_ID} bytes")));
        }
        Ok(CallId::new(id))
    }

    pub(crate) fn image(&self, at: &At<'_>) -> Result<Block, FieldError> {
        let url = ImageUrl::read(at, self.source.as_deref(), self.data.as_deref(), self.mime_type.as_deref())?;
        Ok(Block::Image { url: url.into() })
    }

    pub(crate) fn call(&self, at: &At<'_>) -> Result<ToolUse, FieldError> {
        let id = self.call_id(at)?;
        let raw = self.needs(at, "tool_call", &self.tool_call)?;
        let at = At::Field(at, "tool_call");
        let outer: CallIn = at.object(raw)?;
        if let (None, None, Some(error)) = (&outer.value, &outer.name, &outer.error) {
            let input =
                Json::of(&serde_json::json!({ "error": error })).map_err(|error| at.error(error.to_string()))?;
            return Ok(ToolUse { id, name: UNREADABLE_CALL.to_owned(), input });
        }
        let inner: CallIn = match &outer.value {
            Some(value) => At::Field(&at, "value").object(value)?,
            None => outer,
        };
        let name = inner.name.filter(|name| !name.is_empty() && name.len() <= MAX_TOOL_NAME);
        let name = name.ok_or_else(|| at.error(format!("name must be there, with 1 to {MAX_TOOL_NAME} bytes")))?;
        Ok(ToolUse { id, name, input: arguments(&at, inner.arguments)? })
    }

    /// Whether a model is meant to see it. Tools say some things to people only.
    pub(crate) fn is_for_models(&self) -> bool {
        let annotations = self.annotations.as_deref().and_then(|raw| serde_json::from_str(raw.get()).ok());
        let audience = annotations.and_then(|Annotations { audience }| audience);
        audience.is_none_or(|audience| audience.iter().any(|who| who == "assistant"))
    }
}

/// The input of a call: an object, or the text of one.
fn arguments(at: &At<'_>, raw: Option<Box<RawValue>>) -> Result<Json, FieldError> {
    let Some(raw) = raw else { return Ok(Json::empty_object()) };
    let given = Json::from(raw);
    if given.is_object() {
        return Ok(given);
    }
    let text = serde_json::from_str::<String>(given.as_str()).ok();
    let written = text.and_then(|text| Json::parse(text.trim()).ok()).filter(Json::is_object);
    written.ok_or_else(|| At::Field(at, "arguments").error("must be an object"))
}

/// Without the characters that people do not see and models read.
pub(crate) fn without_tags(text: &str) -> Cow<'_, str> {
    let is_tag = |c: char| ('\u{e0000}'..='\u{e007f}').contains(&c);
    if text.contains(is_tag) { text.replace(is_tag, "").into() } else { text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_taken_out() {
        assert_eq!(without_tags("a\u{e0041}\u{e007f}b"), "ab");
        assert!(matches!(without_tags("plain 🦢"), Cow::Borrowed("plain 🦢")));
    }
}
