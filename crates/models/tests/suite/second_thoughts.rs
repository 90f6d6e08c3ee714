//! Refusals that say little: of formats, of one image among several, of all tools together.

use std::sync::Arc;

use everturn_core::{Block, Content, Json, Message, ModelOptions, OutputFormat, ToolSpec};
use everturn_models::{Model, ModelRequest, Provider, ProviderConfig, ProviderKind};
use serde_json::{Value, json};

use super::{
    scripted::{Scripted, Seen, judged},
    transcript::answer,
};

const CHAT: &str =
    "data: {\"choices\":[{\"delta\":{\"content\":\"ok\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
const GOOD: &str = "https://example.org/good.png";
const BAD: &str = "https://example.org/bad.png";

async fn server(
    status: &'static str,
    judge: impl Fn(&Value) -> Option<&'static str> + Send + Sync + 'static,
) -> (Scripted, Arc<dyn Model>) {
    let server = judged(move |seen: &Seen| {
        let body: Value = serde_json::from_str(&seen.body).unwrap_or_default();
        match judge(&body) {
            Some(message) => (status, json!({ "error": { "message": message } }).to_string()),
            None => ("200 OK", CHAT.to_owned()),
        }
    })
    .await;
    let config = ProviderConfig { base_url: Some(server.url.clone()), ..ProviderConfig::new(ProviderKind::OpenAi) };
    let model = Provider::new("test", config).unwrap().model("m");
    (server, model)
}

fn images(urls: &[&str]) -> ModelRequest {
    let images = urls.iter().map(|url| Block::Image { url: (*url).to_owned() });
    let blocks = std::iter::once(Block::Text("look".into())).chain(images).collect();
    ModelRequest { messages: [Message::User { content: Content::Blocks(blocks) }].into(), ..ModelRequest::default() }
}

/// A schema that a provider cannot compile is asked for in words, and its tools stay.
#[tokio::test]
async fn formats() {
    for message in ["The compiled grammar is too large", "This model does not support response format `json_schema`"] {
        let (server, model) = server("400 Bad Request", move |body| body.get("response_format").map(|_| message)).await;
        let schema = Json::parse(r#"{"type":"object","properties":{"n":{"type":"integer"}}}"#).unwrap();
        let output = OutputFormat::JsonSchema { name: "n".into(), description: None, schema, strict: true };
        let tool = ToolSpec {
            name: "look".into(),
            title: None,
            description: "Looks.".into(),
            input_schema: Json::empty_object(),
        };
        let request = ModelRequest {
            messages: [Message::user("count")].into(),
            tools: [tool].into(),
            options: ModelOptions { output: Some(output), ..ModelOptions::default() },
            ..ModelRequest::default()
        };
        for requests in [2, 3] {
            let shown = answer(&*model, request.clone()).await;
            assert!(shown.ends_with("text: ok\nfinished: Stop ?"), "{shown}");
            assert_eq!(server.seen().len(), requests, "{message}");
        }
        let body = server.last_body();
        assert!(body.contains("fits this schema") && body.contains("look"), "{body}");
    }
}

/// A server that takes a broken image for a fault of its own is asked again without it.
#[tokio::test]
async fn images_that_are_a_fault() {
    let judge = |body: &Value| body.to_string().contains(BAD).then_some("cannot identify image file <_io.BytesIO>");
    let (server, model) = server("500 Internal Server Error", judge).await;
    let shown = answer(&*model, images(&[BAD])).await;
    assert!(shown.contains("an image or document is left out"), "{shown}");
    assert_eq!(server.seen().len(), 2);
}

/// Of several images that were left out together, none is held to be bad in other calls.
#[tokio::test]
async fn images_beside_a_bad_one() {
    let judge = |body: &Value| body.to_string().contains(BAD).then_some("Could not process image");
    let (server, model) = server("400 Bad Request", judge).await;
    let shown = answer(&*model, images(&[GOOD, BAD])).await;
    assert!(shown.contains("2 images and documents are left out"), "{shown}");
    let shown = answer(&*model, images(&[GOOD])).await;
    assert!(server.last_body().contains(GOOD) && !shown.contains("left out"), "{shown}");
    // One that was refused alone is known.
    answer(&*model, images(&[BAD])).await;
    let before = server.seen().len();
    answer(&*model, images(&[BAD])).await;
    assert_eq!(server.seen().len(), before + 1);
}

/// A download that failed may succeed the next time.
#[tokio::test]
async fn images_that_could_not_be_fetched() {
    let judge = |body: &Value| body.to_string().contains(BAD).then_some("Timeout while downloading the image");
    let (server, model) = server("400 Bad Request", judge).await;
    for requests in [2, 4] {
        answer(&*model, images(&[BAD])).await;
        assert_eq!(server.seen().len(), requests);
    }
}

/// Tools that are taken in halves are too many together, also where the provider does not say so.
#[tokio::test]
async fn too_many_tools() {
    for message in ["Request contains an invalid argument.", "tools: List should have at most 8 items, not 12"] {
        let judge = move |body: &Value| (body["tools"].as_array().map_or(0, Vec::len) > 8).then_some(message);
        let (server, model) = server("400 Bad Request", judge).await;
        let input_schema = Json::empty_object();
        let tool = |n: usize| ToolSpec {
            name: format!("t{n}"),
            title: None,
            description: "A tool.".into(),
            input_schema: input_schema.clone(),
        };
        let tools = (0..12).map(tool).collect();
        let request = ModelRequest { messages: [Message::user("hi")].into(), tools, ..ModelRequest::default() };
        let shown = answer(&*model, request).await;
        assert!(shown.contains("tools are left out") && shown.ends_with("text: ok\nfinished: Stop ?"), "{shown}");
        assert!(server.seen().len() <= 5, "{}", server.seen().len());
    }
}
