//! The conversation: contents with parts.

use std::{borrow::Cow, collections::HashMap};

use everturn_core::{Json, ToolUse};
use serde::Serialize;

use super::{facts::Facts, mark::Mark};
use crate::{
    model::DocumentContent,
    provider::{
        history::{self, Entry, Part as UserPart, ResultImages, ToolResult},
        image::{self, Image},
        proof::{self, Placed},
        wire::Ask,
    },
};

/// What the provider takes for a signature where a call has none, because another model made it.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// The images that a tool result may hold.
const RESULT_IMAGES: [&str; 3] = ["image/png", "image/jpeg", "image/webp"];

/// Says why the user, who said nothing, sends images.
const IMAGES_FOLLOW: &str = "The images of the tool results above:";

/// What the user says where the conversation ends with an answer: newer models refuse to go on from one.
const GO_ON: &str = "Continue.";

#[derive(Serialize)]
pub(super) struct Content<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    parts: Vec<Part<'a>>,
}

impl<'a> Content<'a> {
    /// Instructions, which nobody says.
    pub(super) fn system(text: String) -> Self {
        Self { role: None, parts: vec![Part::text(text)] }
    }

    fn holds_results(&self) -> bool {
        self.parts.iter().any(|part| matches!(part.content, PartContent::FunctionResponse { .. }))
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Part<'a> {
    #[serde(flatten)]
    content: PartContent<'a>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    thought: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought_signature: Option<Cow<'static, str>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum PartContent<'a> {
    Text(Cow<'a, str>),
    InlineData(Blob<'a>),
    #[serde(rename_all = "camelCase")]
    FileData {
        mime_type: &'static str,
        file_uri: &'a str,
    },
    FunctionCall {
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<Cow<'a, str>>,
        name: &'a str,
        args: &'a Json,
    },
    FunctionResponse {
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<Cow<'a, str>>,
        name: &'a str,
        response: Response,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        parts: Vec<ResultPart<'a>>,
    },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Blob<'a> {
    mime_type: &'a str,
    data: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum ResultPart<'a> {
    InlineData(Blob<'a>),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Response {
    Output(String),
    Error(String),
}

impl<'a> From<PartContent<'a>> for Part<'a> {
    fn from(content: PartContent<'a>) -> Self {
        Self { content, thought: false, thought_signature: None }
    }
}

impl<'a> Part<'a> {
    fn text(text: impl Into<Cow<'a, str>>) -> Self {
        PartContent::Text(text.into()).into()
    }

    fn signed(content: PartContent<'a>, signature: Option<String>) -> Self {
        Self { thought_signature: signature.map(Cow::Owned), ..content.into() }
    }

    fn is_call(&self) -> bool {
        matches!(self.content, PartContent::FunctionCall { .. })
    }
}

/// The conversation as the model is given it.
pub(super) fn contents<'a>(ask: &Ask<'a>, facts: Facts) -> Vec<Content<'a>> {
    let result_images = if facts.is_modern { ResultImages::Inline } else { ResultImages::FromUser };
    let mut writer = Writer { ask: *ask, facts, ids: HashMap::new(), contents: Vec::new() };
    for entry in history::entries(ask, result_images) {
        match entry {
            Entry::System(text) => writer.push("user", vec![Part::text(history::system_as_text(text))]),
            Entry::User(parts) => {
                let parts = parts.into_iter().flat_map(|part| writer.user_parts(part)).collect();
                writer.push("user", parts);
            }
            Entry::Assistant { thinking, text, calls, .. } => {
                let parts = writer.model_parts(thinking.map(|(record, _)| record), text, &calls);
                writer.push("model", parts);
            }
            Entry::Results(results) => writer.results(results),
        }
    }
    if writer.contents.last().is_none_or(|last| last.role != Some("user")) {
        writer.push("user", vec![Part::text(GO_ON)]);
    }
    writer.contents
}

struct Writer<'a> {
    ask: Ask<'a>,
    facts: Facts,
    /// The provider's ids of the last answer's calls, by ours.
    ids: HashMap<&'a str, String>,
    contents: Vec<Content<'a>>,
}

impl<'a> Writer<'a> {
    /// Adds to the conversation. Neighbours of one role are joined, but for results: a content with results and anything
    /// else has been taken for the model's own.
    fn push(&mut self, role: &'static str, mut parts: Vec<Part<'a>>) {
        match self.contents.last_mut() {
            Some(last) if last.role == Some(role) && !last.holds_results() => last.parts.append(&mut parts),
            Some(_) | None => self.contents.push(Content { role: Some(role), parts }),
        }
    }

    fn user_parts(&self, part: UserPart<'a>) -> Vec<Part<'a>> {
        match part {
            UserPart::Text(text) => vec![Part::text(text)],
            UserPart::Image(url) => vec![image_part(url)],
            UserPart::Document(document) => self.document(document),
        }
    }

    fn document(&self, document: &'a DocumentContent) -> Vec<Part<'a>> {
        match &document.base64 {
            Some(data) if document.media_type == "application/pdf" && self.ask.known.pdf != Some(false) => {
                let blob = Blob { mime_type: &document.media_type, data };
                vec![Part::text(format!("[Document: {}]", document.name)), PartContent::InlineData(blob).into()]
            }
            Some(_) | None => vec![Part::text(document.text.as_str())],
        }
    }

    /// An answer in the order in which the model gave it, every signature on its own part.
    fn model_parts(&mut self, record: Option<&str>, text: String, calls: &[&'a ToolUse]) -> Vec<Part<'a>> {
        self.ids.clear();
        let proof = record.and_then(|record| proof::read::<Mark>("gemini", record));
        let is_own = proof.as_ref().is_some_and(|proof| proof.from == self.ask.from) && !self.ask.without_proofs;
        let mut parts = Vec::new();
        match proof.and_then(|proof| proof.place(&text, calls)) {
            Some(placed) => self.placed_parts(placed, calls, is_own, &mut parts),
            None => {
                if !text.trim().is_empty() {
                    parts.push(Part::text(text));
                }
                for call in calls {
                    parts.push(self.call(call, None, None));
                }
            }
        }
        // Of calls made together only the first has a signature.
        if self.facts.is_modern
            && let Some(first) = parts.iter_mut().find(|part| part.is_call())
        {
            first.thought_signature.get_or_insert(Cow::Borrowed(NO_SIGNATURE));
        }
        parts
    }

    /// `is_own`: whether this model gave the answer, so that its signatures count.
    fn placed_parts(
        &mut self,
        placed: Vec<Placed<'_, Mark>>,
        calls: &[&'a ToolUse],
        is_own: bool,
        parts: &mut Vec<Part<'a>>,
    ) {
        let mut calls = calls.iter();
        let (mut signature, mut id) = (None, None);
        for piece in placed {
            match piece {
                Placed::Own(Mark::Next { signature: next, id: next_id }) => {
                    (signature, id) = (next.filter(|_| is_own), next_id);
                }
                Placed::Own(Mark::Empty { signature }) if is_own => {
                    parts.push(Part::signed(PartContent::Text("".into()), Some(signature)));
                }
                Placed::Own(Mark::Thought { text, signature }) if is_own => {
                    let part = Part::signed(PartContent::Text(text.into()), Some(signature));
                    parts.push(Part { thought: true, ..part });
                }
                Placed::Own(Mark::Empty { .. } | Mark::Thought { .. }) => {}
                Placed::Text(text) => {
                    parts.push(Part::signed(PartContent::Text(text.to_owned().into()), signature.take()));
                }
                // The calls are placed in their order.
                Placed::Call(_) => {
                    let (signature, id) = (signature.take(), id.take());
                    parts.extend(calls.next().map(|call| self.call(call, signature, id)));
                }
            }
        }
    }

    fn call(&mut self, call: &'a ToolUse, signature: Option<String>, id: Option<String>) -> Part<'a> {
        if let Some(id) = id {
            self.ids.insert(call.id.as_str(), id);
        }
        let content = PartContent::FunctionCall { id: self.id(call.id.as_str()), name: &call.name, args: &call.input };
        Part::signed(content, signature)
    }

    /// A call's id towards the provider: its own, else ours. The older models on Vertex refuse all ids.
    fn id(&self, ours: &'a str) -> Option<Cow<'a, str>> {
        let takes_ids = self.facts.is_modern || !self.ask.settings.host.contains("aiplatform");
        let takes_ids = takes_ids && !self.ask.learned.refuses_call_ids;
        let id = || self.ids.get(ours).map_or(Cow::Borrowed(ours), |id| Cow::Owned(id.clone()));
        takes_ids.then(id)
    }

    /// The results of one step in one content, then the images that a result cannot hold.
    fn results(&mut self, results: Vec<ToolResult<'a>>) {
        let (mut parts, mut loose) = (Vec::new(), Vec::new());
        for ToolResult { call_id, name, text, images, is_error } in results {
            let mut held = Vec::new();
            for url in images {
                match Image::of(url) {
                    Image::Data { media_type, base64 } if RESULT_IMAGES.contains(&media_type) => {
                        held.push(ResultPart::InlineData(Blob { mime_type: media_type, data: base64 }));
                    }
                    Image::Data { .. } | Image::Address(_) | Image::Unreadable => loose.push(image_part(url)),
                }
            }
            let response = if is_error { Response::Error(text) } else { Response::Output(text) };
            parts.push(PartContent::FunctionResponse { id: self.id(call_id), name, response, parts: held }.into());
        }
        self.push("user", parts);
        if !loose.is_empty() {
            loose.insert(0, Part::text(IMAGES_FOLLOW));
            self.push("user", loose);
        }
    }
}

fn image_part(url: &str) -> Part<'_> {
    match Image::of(url) {
        Image::Address(url) if url.starts_with("https://") || url.starts_with("gs://") => {
            PartContent::FileData { mime_type: image::media_type_of(url), file_uri: url }.into()
        }
        Image::Address(url) => Part::text(format!("[An image was left out here: {url} is no https address.]")),
        Image::Data { media_type, base64 } => {
            PartContent::InlineData(Blob { mime_type: media_type, data: base64 }).into()
        }
        Image::Unreadable => Part::text(image::UNREADABLE),
    }
}
