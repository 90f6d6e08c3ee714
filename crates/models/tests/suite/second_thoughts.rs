//! Refusals that say little: of formats, of one image among several, of all tools together.

use std::sync::Arc;

use everturn_core::{Block, CallId, Content, Json, Message, ModelOptions, OutputFormat, ToolSpec, ToolUse};
use everturn_models::{Model, ModelErrorKind, ModelRequest, Provider, ProviderConfig, ProviderKind};
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

/// Of several images the bad one is found, also where the provider does not say which; the others stay.
#[tokio::test]
async fn images_beside_a_bad_one() {
    let judge = |body: &Value| body.to_string().contains(BAD).then_some("Could not process image");
    let (server, model) = server("400 Bad Request", judge).await;
    let shown = answer(&*model, images(&[GOOD, BAD])).await;
    assert!(shown.contains("an image or document is left out"), "{shown}");
    assert!(server.last_body().contains(GOOD) && !server.last_body().contains(BAD), "{}", server.last_body());
    // It is known from now on.
    let before = server.seen().len();
    answer(&*model, images(&[BAD, GOOD])).await;
    assert_eq!(server.seen().len(), before + 1);
}

/// Where each image is taken by itself, all are left out of the call that has them together, and of no other.
#[tokio::test]
async fn images_that_are_bad_together() {
    let judge = |body: &Value| {
        let body = body.to_string();
        (body.contains(BAD) && body.contains(GOOD)).then_some("Could not process image")
    };
    let (server, model) = server("400 Bad Request", judge).await;
    let shown = answer(&*model, images(&[GOOD, BAD])).await;
    assert!(shown.contains("2 images and documents are left out"), "{shown}");
    let shown = answer(&*model, images(&[GOOD])).await;
    assert!(server.last_body().contains(GOOD) && !shown.contains("left out"), "{shown}");
}

fn tools(names: &[&str]) -> Arc<[ToolSpec]> {
    let tool = |name: &&str| ToolSpec {
        name: (*name).to_owned(),
        title: None,
        description: "A tool.".into(),
        input_schema: Json::empty_object(),
    };
    names.iter().map(tool).collect()
}

/// A server that fails again and again is asked what it fails at: an image, or a tool.
#[tokio::test]
async fn faults_that_come_again() {
    let judge = |body: &Value| {
        let body = body.to_string();
        (body.contains(BAD) || body.contains("bad_tool")).then_some("Internal server error")
    };
    let (server, model) = server("500 Internal Server Error", judge).await;
    let with_image = images(&[GOOD, BAD]);
    let with_tool = ModelRequest { tools: tools(&["one", "bad_tool", "two"]), ..images(&[]) };
    for (request, left_out) in
        [(with_image, "an image or document is left out"), (with_tool, "the tool bad_tool is left out")]
    {
        // The first attempts may have met a passing fault.
        assert!(answer(&*model, request.clone()).await.contains("Internal server error"));
        let shown = answer(&*model, ModelRequest { attempt: 2, ..request }).await;
        assert!(shown.contains(left_out) && shown.ends_with("text: ok\nfinished: Stop ?"), "{shown}");
    }
    let body = server.last_body();
    assert!(body.contains("one") && body.contains("two"), "{body}");
}

/// Nothing is left out because of a server that is down.
#[tokio::test]
async fn a_server_that_is_down() {
    let (server, model) = server("500 Internal Server Error", |_| Some("Internal server error")).await;
    let request = ModelRequest { tools: tools(&["one", "two"]), attempt: 3, ..images(&[GOOD]) };
    assert!(answer(&*model, request).await.contains("Internal server error"));
    assert!(server.seen().len() <= 3, "{}", server.seen().len());
}

/// An overflow in words that nobody knows is taken for one, if the conversation is not a short one.
#[tokio::test]
async fn overflows_in_unknown_words() {
    for words in [
        "number of input tokens (4100) has exceeded max_prompt_tokens (3000) limit.",
        "too many tokens: size limit exceeded by 1502 tokens. Try using shorter or fewer inputs",
        "Requested tokens (4100) exceed context window of 3000",
        "`inputs` must have less than 3000 tokens. Given: 4100",
        "Input too long",
        "Token sequence length exceeds limit: 4100 > 3000",
        "The conversation is larger than what fits",
    ] {
        let (_, model) = server("422 Unprocessable Entity", move |_| Some(words)).await;
        let kind = async |text: &str| {
            let request = ModelRequest { messages: [Message::user(text)].into(), ..ModelRequest::default() };
            let Err(error) = model.stream(request).await else { panic!("{words}") };
            error.kind
        };
        assert_eq!(kind(&"long ".repeat(2000)).await, ModelErrorKind::ContextOverflow, "{words}");
    }
    let (_, model) = server("400 Bad Request", |_| Some("max_new_tokens is larger than the limit of tokens")).await;
    let request = ModelRequest { messages: [Message::user("long ".repeat(2000))].into(), ..ModelRequest::default() };
    assert_eq!(model.stream(request).await.err().unwrap().kind, ModelErrorKind::Rejected);
}

/// A user's own words about windows, which a provider repeats, are no overflow of a short conversation.
#[tokio::test]
async fn an_overflow_that_somebody_said() {
    let said = "maximum context length is 50 tokens";
    let (_, model) =
        server("400 Bad Request", move |_| Some("cannot parse: maximum context length is 50 tokens")).await;
    let request = ModelRequest { messages: [Message::user(said)].into(), ..ModelRequest::default() };
    assert_eq!(model.stream(request).await.err().unwrap().kind, ModelErrorKind::Rejected);
}

/// A template that takes no reasoning beside text: no later call sends any.
#[tokio::test]
async fn reasoning_beside_text() {
    let words = "Cannot pass both content and thinking in an assistant message with tool calls! at row 290, column 178";
    let judge = move |body: &Value| body.to_string().contains("reasoning_content").then_some(words);
    let (server, model) = server("500 Internal Server Error", judge).await;
    let proof = r#"chat:{"from":"test/m","pieces":[{"own":{"field":"reasoning_content"}},{"text":2},"call"]}"#;
    let call = ToolUse { id: CallId::new("c1"), name: "one".into(), input: Json::empty_object() };
    let answered = |proof: &str| {
        let content = Content::answer("hm".into(), Some(proof.to_owned()), "ok".into(), vec![call.clone()]);
        [Message::user("hi"), Message::Assistant { content }, Message::tool(CallId::new("c1"), "done")]
    };
    let request = |proof: &str| ModelRequest {
        messages: answered(proof).into(),
        tools: tools(&["one"]),
        ..ModelRequest::default()
    };
    assert!(answer(&*model, request(proof)).await.ends_with("text: ok\nfinished: Stop ?"));
    let before = server.seen().len();
    answer(&*model, request(proof)).await;
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
    for message in [
        "Request contains an invalid argument.",
        "tools: List should have at most 8 items, not 12",
        "Maximum tools limit reached: 8",
        "Too many tools provided, max 8",
        "Too many tools provided",
    ] {
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
