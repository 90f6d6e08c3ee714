//! Requests as clients send them. What is not known is skipped; what is known has a type.

use std::fmt;

use everturn_http::Object;
use serde::{
    Deserialize, Deserializer,
    de::{self, SeqAccess, Visitor, value::SeqAccessDeserializer},
};
use serde_json::value::RawValue;

/// What a field holds that only counts by being there.
pub(crate) type Anything = Option<Box<RawValue>>;

/// The body of `POST /v1/chat/completions`.
#[derive(Debug, Deserialize)]
pub(crate) struct ChatIn {
    pub(crate) model: Option<String>,
    pub(crate) messages: Vec<Object<MessageIn>>,
    pub(crate) session_id: Option<String>,
    pub(crate) stream: Option<bool>,
    pub(crate) stream_options: Option<Object<StreamOptionsIn>>,
    pub(crate) include_tool_progress: Option<bool>,
    pub(crate) max_iterations: Option<i64>,
    pub(crate) tools: Option<Vec<Object<ToolIn>>>,
    pub(crate) tool_choice: Anything,
    pub(crate) parallel_tool_calls: Option<bool>,
    pub(crate) temperature: Option<f64>,
    pub(crate) top_p: Option<f64>,
    pub(crate) frequency_penalty: Option<f64>,
    pub(crate) presence_penalty: Option<f64>,
    pub(crate) seed: Option<i64>,
    /// A string or a list of strings.
    pub(crate) stop: Anything,
    pub(crate) response_format: Option<Object<FormatIn>>,
    pub(crate) max_tokens: Option<i64>,
    pub(crate) max_completion_tokens: Option<i64>,
    pub(crate) reasoning_effort: Option<String>,
    // What follows is refused where it asks for something.
    pub(crate) n: Option<i64>,
    pub(crate) logprobs: Option<bool>,
    pub(crate) top_logprobs: Option<i64>,
    pub(crate) logit_bias: Anything,
    pub(crate) modalities: Option<Vec<String>>,
    pub(crate) audio: Anything,
    pub(crate) functions: Anything,
    pub(crate) function_call: Anything,
    pub(crate) web_search_options: Anything,
}

/// `stream_options`.
#[derive(Debug, Deserialize)]
pub(crate) struct StreamOptionsIn {
    pub(crate) include_usage: Option<bool>,
}

/// `response_format`.
#[derive(Debug, Deserialize)]
pub(crate) struct FormatIn {
    pub(crate) r#type: String,
    pub(crate) json_schema: Option<Object<JsonSchemaIn>>,
}

/// `response_format.json_schema`.
#[derive(Debug, Deserialize)]
pub(crate) struct JsonSchemaIn {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) schema: Anything,
    pub(crate) strict: Option<bool>,
}

/// A message of any role; which fields it must have depends on the role.
#[derive(Debug, Deserialize)]
pub(crate) struct MessageIn {
    pub(crate) role: String,
    pub(crate) content: Option<ContentIn>,
    pub(crate) refusal: Option<String>,
    pub(crate) tool_calls: Option<Vec<Object<ToolCallIn>>>,
    pub(crate) tool_call_id: Option<String>,
    /// The reasoning before an answer, a text. Anything else is none: clients send back what other servers gave them.
    pub(crate) reasoning_content: Anything,
    /// The same, as OpenRouter and vLLM call it.
    pub(crate) reasoning: Anything,
    pub(crate) reasoning_details: Anything,
    pub(crate) audio: Anything,
    pub(crate) function_call: Anything,
}

/// One of OpenRouter's `reasoning_details`. Encrypted ones have no text.
#[derive(Debug, Deserialize)]
pub(crate) struct ReasoningDetailIn {
    pub(crate) text: Option<String>,
    pub(crate) summary: Option<String>,
}

/// A call, as the assistant made it.
#[derive(Debug, Deserialize)]
pub(crate) struct ToolCallIn {
    pub(crate) id: String,
    pub(crate) r#type: Option<String>,
    pub(crate) function: Option<Object<FunctionCallIn>>,
}

/// What is called.
#[derive(Debug, Deserialize)]
pub(crate) struct FunctionCallIn {
    pub(crate) name: String,
    pub(crate) arguments: String,
}

/// A tool of the application's.
#[derive(Debug, Deserialize)]
pub(crate) struct ToolIn {
    pub(crate) r#type: String,
    pub(crate) function: Option<Object<FunctionIn>>,
}

/// What it does.
#[derive(Debug, Deserialize)]
pub(crate) struct FunctionIn {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) parameters: Anything,
    pub(crate) strict: Option<bool>,
}

/// `tool_choice`, where it is an object.
#[derive(Debug, Deserialize)]
pub(crate) struct ChoiceIn {
    pub(crate) r#type: String,
    pub(crate) function: Option<Object<NamedIn>>,
    pub(crate) allowed_tools: Option<Object<AllowedIn>>,
}

/// A tool by its name.
#[derive(Debug, Deserialize)]
pub(crate) struct NamedIn {
    pub(crate) name: String,
}

/// The tools that may be called.
#[derive(Debug, Deserialize)]
pub(crate) struct AllowedIn {
    pub(crate) mode: String,
    pub(crate) tools: Vec<Object<AllowedToolIn>>,
}

/// One of them.
#[derive(Debug, Deserialize)]
pub(crate) struct AllowedToolIn {
    pub(crate) function: Option<Object<NamedIn>>,
}

/// A text, or parts.
#[derive(Debug)]
pub(crate) enum ContentIn {
    Text(String),
    Parts(Vec<Object<PartIn>>),
}

/// A part of any type; which fields it must have depends on the type.
#[derive(Debug, Deserialize)]
pub(crate) struct PartIn {
    pub(crate) r#type: String,
    pub(crate) text: Option<String>,
    pub(crate) refusal: Option<String>,
    pub(crate) image_url: Option<Object<ImageIn>>,
    pub(crate) file: Option<Object<FileIn>>,
}

/// `file`.
#[derive(Debug, Deserialize)]
pub(crate) struct FileIn {
    pub(crate) file_data: Option<String>,
    pub(crate) file_id: Option<String>,
    pub(crate) filename: Option<String>,
}

/// `image_url`.
#[derive(Debug, Deserialize)]
pub(crate) struct ImageIn {
    pub(crate) url: String,
}

impl<'de> Deserialize<'de> for ContentIn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = ContentIn;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or an array of content parts")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<ContentIn, E> {
        Ok(ContentIn::Text(text.to_owned()))
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<ContentIn, E> {
        Ok(ContentIn::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, parts: A) -> Result<ContentIn, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(parts)).map(ContentIn::Parts)
    }
}
