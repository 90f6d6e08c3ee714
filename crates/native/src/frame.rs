//! The frames of the API's streams.

use std::borrow::Cow;

use everturn_core::{ArtifactRef, Json};
use everturn_http::document;
use serde::Serialize;
use serde_json::{Number, json};

use crate::{
    forms::kinds,
    links::artifact_url,
    turn_out::{is_zero, reasons, wakes},
};

/// What a turn's stream shows, event by event.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = native::Frame)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Frame<'a> {
    /// The turn has begun.
    Start { session_id: &'a str, message_id: &'a str, agent_id: &'a str },
    /// A tool begins.
    ToolStarted { tool_call_id: &'a str, tool_name: &'a str, label: &'a str, iteration: u32 },
    /// How far a tool is.
    ToolProgress {
        tool_call_id: &'a str,
        #[schema(value_type = f64)]
        progress: Number,
        /// What `progress` will be in the end, where the tool says so.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(nullable = false, value_type = f64, required = false)]
        total: Option<Number>,
        /// What it does now, in its words.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(nullable = false)]
        message: Option<String>,
    },
    /// A tool is done.
    ToolCompleted { tool_call_id: &'a str, tool_name: &'a str, success: bool, message: &'a str, duration_ms: u64 },
    /// The first version of an artifact is being written.
    ArtifactStart { artifact_id: &'a str, artifact_type: &'a str, title: &'a str },
    /// Another version of an artifact is being written.
    ArtifactUpdate { artifact_id: &'a str, version: u32, title: &'a str },
    /// A piece of an artifact.
    ArtifactDelta { artifact_id: &'a str, content_chunk: &'a str, chunk_index: u32 },
    /// A version of an artifact is written.
    ArtifactComplete { artifact_id: &'a str, version: u32, content_type: &'a str, download_url: String },
    /// Somebody is asked something.
    FormRequest {
        form_id: &'a str,
        #[schema(schema_with = kinds)]
        form_kind: &'a str,
        payload: Payload<'a>,
    },
    /// The turn waits; this stream stays open.
    Paused {
        #[schema(schema_with = wakes)]
        wake: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(nullable = false, format = DateTime)]
        wake_at: Option<String>,
    },
    /// A step of the turn begins again: what was said since it began is said anew.
    RetryNotification { attempt: u32, reason: &'a str },
    /// The model's provider does not do what was asked for, or was asked for something else instead.
    Notice { message: &'a str },
    /// Events that are not kept any more.
    Compacted { dropped_events: u32 },
    /// What the model is given of the conversation became shorter. What clients read of it stays as it is.
    CompactedHistory {
        /// How many messages the model is not given any more that it was given before.
        messages: usize,
        /// Whether a summary stands for them. If not, they are left out, and the model is told so.
        summarised: bool,
        /// How many messages, mostly tool results, the model is given shortened now: their beginning and their end.
        shortened: usize,
        /// An estimate of the next model call's input, before.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(nullable = false)]
        tokens_before: Option<u64>,
        /// The same, after.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(nullable = false)]
        tokens_after: Option<u64>,
    },
    /// The turn is done; the last event.
    Complete {
        session_id: &'a str,
        message_id: &'a str,
        final_response: &'a str,
        total_input_tokens: u64,
        total_output_tokens: u64,
        #[serde(skip_serializing_if = "is_zero")]
        #[schema(required = false)]
        total_cached_input_tokens: u64,
        #[serde(skip_serializing_if = "is_zero")]
        #[schema(required = false)]
        total_reasoning_tokens: u64,
        artifacts: Vec<ArtifactOut<'a>>,
    },
    /// The turn has failed; the last event.
    Error {
        error: &'a str,
        code: &'a str,
        message: &'a str,
        retryable: bool,
        user_message: &'static str,
        #[serde(skip_serializing_if = "str::is_empty")]
        partial_response: &'a str,
        total_input_tokens: u64,
        total_output_tokens: u64,
        #[serde(skip_serializing_if = "is_zero")]
        #[schema(required = false)]
        total_cached_input_tokens: u64,
        #[serde(skip_serializing_if = "is_zero")]
        #[schema(required = false)]
        total_reasoning_tokens: u64,
    },
    /// The turn was cancelled; the last event.
    Cancelled {
        #[schema(schema_with = reasons)]
        reason: &'static str,
        #[serde(skip_serializing_if = "str::is_empty")]
        partial_response: &'a str,
        total_input_tokens: u64,
        total_output_tokens: u64,
        #[serde(skip_serializing_if = "is_zero")]
        #[schema(required = false)]
        total_cached_input_tokens: u64,
        #[serde(skip_serializing_if = "is_zero")]
        #[schema(required = false)]
        total_reasoning_tokens: u64,
    },
}

/// What a form asks.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = native::FrameForm)]
pub(crate) struct Payload<'a> {
    pub(crate) title: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) description: Option<&'a str>,
    /// A JSON schema: what an answer looks like.
    #[schema(schema_with = document::any_json)]
    pub(crate) schema: &'a Json,
    pub(crate) tool_call_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, format = DateTime)]
    pub(crate) expires_at: Option<String>,
}

/// An artifact that the turn has written.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = native::FrameArtifact)]
pub(crate) struct ArtifactOut<'a> {
    pub(crate) artifact_id: &'a str,
    pub(crate) title: &'a str,
    pub(crate) version: u32,
    pub(crate) content_type: &'a str,
    pub(crate) download_url: String,
}

impl<'a> From<&'a ArtifactRef> for ArtifactOut<'a> {
    fn from(artifact: &'a ArtifactRef) -> Self {
        let ArtifactRef { id, version, title, content_type } = artifact;
        let download_url = artifact_url(id, *version);
        Self { artifact_id: id.as_str(), title, version: *version, content_type, download_url }
    }
}

/// All that a stream's `data` can be, for the document: the frames, and those that are written without this type.
pub(crate) struct Event;

impl utoipa::PartialSchema for Event {
    fn schema() -> document::AnySchema {
        let piece = |kind: &str, of: &str| {
            json!({
                "type": "object",
                "description": of,
                "required": ["type", "content"],
                "properties": { "type": { "type": "string", "enum": [kind] }, "content": { "type": "string" } },
            })
        };
        let heartbeat = json!({
            "type": "object",
            "description": "Nothing has happened for a while.",
            "required": ["type"],
            "properties": { "type": { "type": "string", "enum": ["heartbeat"] } },
        });
        document::schema(json!({
            "description": "The data of an event of the view `native`. Clients pass over types that they do not know.",
            "oneOf": [
                { "$ref": "#/components/schemas/native.Frame" },
                piece("delta", "A piece of the answer."),
                piece("thinking", "A piece of what the model thinks."),
                heartbeat,
            ],
        }))
    }
}

impl utoipa::ToSchema for Event {
    fn name() -> Cow<'static, str> {
        "native.Event".into()
    }

    fn schemas(schemas: &mut Vec<(String, document::AnySchema)>) {
        schemas.push((
            <Frame<'_> as utoipa::ToSchema>::name().into_owned(),
            <Frame<'_> as utoipa::PartialSchema>::schema(),
        ));
        <Frame<'_> as utoipa::ToSchema>::schemas(schemas);
    }
}
