//! Requests.

use everturn_core::{Json, ToolSpec, ToolUse};
use serde::Serialize;

use super::proof::Proof;
use crate::provider::{
    history::{self, Entry, Part as UserPart, ResultImages, ToolResult},
    image::{self, Image},
    wire::{Ask, Written, temperature},
};

/// What the provider takes for a signature where a call never had one, because another provider made it.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Content<'a>>,
    contents: Vec<Content<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tools<'a>>,
    #[serde(skip_serializing_if = "GenerationConfig::is_empty")]
    generation_config: GenerationConfig,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tools<'a> {
    function_declarations: Vec<Declaration<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Declaration<'a> {
    name: &'a str,
    description: &'a str,
    /// Takes all of JSON Schema, unlike `parameters`.
    parameters_json_schema: &'a Json,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GenerationConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_config: Option<ThinkingConfig>,
}

impl GenerationConfig {
    fn is_empty(&self) -> bool {
        self.max_output_tokens.is_none() && self.thinking_config.is_none() && self.temperature.is_none()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ThinkingConfig {
    include_thoughts: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_budget: Option<u64>,
}

#[derive(Serialize)]
struct Content<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    parts: Vec<Part<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Part<'a> {
    #[serde(flatten)]
    content: PartContent<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought_signature: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum PartContent<'a> {
    Text(String),
    #[serde(rename_all = "camelCase")]
    InlineData {
        mime_type: &'a str,
        data: &'a str,
    },
    #[serde(rename_all = "camelCase")]
    FileData {
        mime_type: &'static str,
        file_uri: &'a str,
    },
    FunctionCall {
        id: &'a str,
        name: &'a str,
        args: &'a Json,
    },
    FunctionResponse {
        id: &'a str,
        name: &'a str,
        response: Response,
    },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Response {
    Output(String),
    Error(String),
}

impl<'a> From<PartContent<'a>> for Part<'a> {
    fn from(content: PartContent<'a>) -> Self {
        Self { content, thought_signature: None }
    }
}

pub(super) fn write(ask: &Ask<'_>) -> Result<Written, serde_json::Error> {
    let Ask { settings, request, .. } = *ask;
    let model = super::short_name(ask.model);
    let options = &request.options;
    let mut contents: Vec<Content<'_>> = Vec::new();
    for entry in history::entries(ask, ResultImages::Inline) {
        let (role, mut parts) = match entry {
            Entry::System(text) => ("user", vec![PartContent::Text(history::system_as_text(text)).into()]),
            Entry::User(parts) => ("user", parts.iter().map(user_part).collect()),
            Entry::Assistant { thinking, text, calls } => ("model", model_parts(model, thinking, text, calls)),
            Entry::Results(results) => ("user", result_parts(results)),
        };
        match contents.last_mut() {
            Some(last) if last.role == Some(role) => last.parts.append(&mut parts),
            Some(_) | None => contents.push(Content { role: Some(role), parts }),
        }
    }
    let system = request.system.clone();
    let system_instruction =
        (!system.is_empty()).then(|| Content { role: None, parts: vec![PartContent::Text(system).into()] });
    let declarations: Vec<Declaration<'_>> = request.tools.iter().map(declaration).collect();
    let tools = if declarations.is_empty() { vec![] } else { vec![Tools { function_declarations: declarations }] };
    let thinking_config = (thinks(model) || settings.thinking_budget.is_some())
        .then_some(ThinkingConfig { include_thoughts: true, thinking_budget: settings.thinking_budget });
    let (max_output_tokens, temperature) = (ask.max_output(), temperature(options));
    let generation_config = GenerationConfig { temperature, max_output_tokens, thinking_config };
    let body = serde_json::to_vec(&Body { system_instruction, contents, tools, generation_config })?;
    Ok(Written { body, ..Written::default() })
}

/// Whether a model thinks of itself, so that it can be asked to show its thoughts. The older ones, and those that draw
/// or speak, refuse the question.
fn thinks(model: &str) -> bool {
    let is_other = ["image", "tts", "audio"].iter().any(|word| model.contains(word));
    (model.starts_with("gemini-2.5") || signs_calls(model)) && !is_other
}

/// Whether a model refuses calls in history without a signature.
fn signs_calls(model: &str) -> bool {
    model.starts_with("gemini-3")
}

fn user_part<'a>(part: &UserPart<'a>) -> Part<'a> {
    match part {
        UserPart::Text(text) => PartContent::Text(text.to_string()).into(),
        UserPart::Document(document) => PartContent::Text(document.text.clone()).into(),
        UserPart::Image(url) => image_part(url),
    }
}

fn image_part(url: &str) -> Part<'_> {
    match Image::of(url) {
        Image::Address(url) => PartContent::FileData { mime_type: image::media_type_of(url), file_uri: url }.into(),
        Image::Data { media_type, base64 } => PartContent::InlineData { mime_type: media_type, data: base64 }.into(),
        Image::Unreadable => PartContent::Text(image::UNREADABLE.to_owned()).into(),
    }
}

fn model_parts<'a>(
    model: &str,
    thinking: Option<(&str, &str)>,
    text: String,
    calls: Vec<&'a ToolUse>,
) -> Vec<Part<'a>> {
    let mut proof = thinking.map(|(proof, _)| Proof::read(proof)).unwrap_or_default();
    let mut parts = Vec::new();
    if !text.trim().is_empty() {
        parts.push(Part { content: PartContent::Text(text), thought_signature: proof.text.take() });
    }
    let is_signed = !proof.calls.is_empty();
    for (place, call) in (0..).zip(calls) {
        let content = PartContent::FunctionCall { id: call.id.as_str(), name: &call.name, args: &call.input };
        // Of calls made together only the first has a signature.
        let stand_in = || (place == 0 && !is_signed && signs_calls(model)).then(|| NO_SIGNATURE.to_owned());
        parts.push(Part { content, thought_signature: proof.calls.remove(&place).or_else(stand_in) });
    }
    parts
}

/// The results, then their images: a result itself holds text only.
fn result_parts(results: Vec<ToolResult<'_>>) -> Vec<Part<'_>> {
    let mut images = Vec::new();
    let mut parts = Vec::new();
    for ToolResult { call_id: id, name, text, images: urls, is_error } in results {
        let response = if is_error { Response::Error(text) } else { Response::Output(text) };
        parts.push(PartContent::FunctionResponse { id, name, response }.into());
        images.extend(urls.into_iter().map(image_part));
    }
    parts.append(&mut images);
    parts
}

fn declaration(tool: &ToolSpec) -> Declaration<'_> {
    Declaration { name: &tool.name, description: &tool.description, parameters_json_schema: &tool.input_schema }
}
