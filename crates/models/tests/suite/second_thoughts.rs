//! Refusals that say little: of formats, of one image among several, of all tools together.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use everturn_core::{Block, CallId, Content, Json, Message, ModelOptions, OutputFormat, ToolChoice, ToolSpec, ToolUse};
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
            // In a stream that begins well.
            Some(message) if status == "200 OK" => {
                (status, format!("data: {}\n\n", json!({ "error": { "message": message, "code": 500 } })))
            }
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
    let images = urls.iter().map(|url| Block::Image { url: (*url).into() });
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
    for status in ["500 Internal Server Error", "200 OK"] {
        let judge = |body: &Value| {
            let body = body.to_string();
            (body.contains(BAD) || body.contains("bad_tool")).then_some("Internal server error")
        };
        let (server, model) = server(status, judge).await;
        let with_image = images(&[GOOD, BAD]);
        let with_tool = ModelRequest { tools: tools(&["one", "bad_tool", "two"]), ..images(&[]) };
        for (request, left_out) in
            [(with_image, "an image or document is left out"), (with_tool, "the tool bad_tool is left out")]
        {
            // The first attempts may have met a passing fault.
            assert!(answer(&*model, request.clone()).await.contains("Internal server error"));
            let shown = answer(&*model, ModelRequest { attempt: 2, ..request }).await;
            assert!(shown.contains(left_out) && shown.ends_with("text: ok\nfinished: Stop ?"), "{status}: {shown}");
        }
        let body = server.last_body();
        assert!(body.contains("one") && body.contains("two"), "{body}");
    }
}

/// A server that recovers, or fails now and then, costs the conversation nothing: no image, no tool, no compaction.
#[tokio::test]
async fn faults_that_pass() {
    // Which requests fail, in order; all others are answered.
    for pattern in ["x", "x.x", "x.x.", "xx", "xxxx.x", "....x", "x.x....x"] {
        let count = AtomicUsize::new(0);
        let judge = move |_: &Value| {
            let at = count.fetch_add(1, Ordering::Relaxed);
            (pattern.as_bytes().get(at) == Some(&b'x')).then_some("Internal server error")
        };
        let (server, model) = server("500 Internal Server Error", judge).await;
        let mut request = images(&[GOOD]);
        request.messages = [Message::user("long ".repeat(2000)), Message::assistant("yes")]
            .into_iter()
            .chain(request.messages.iter().cloned())
            .collect();
        let request = ModelRequest { tools: tools(&["one", "two"]), attempt: 2, ..request };
        for _ in 0..3 {
            let shown = answer(&*model, request.clone()).await;
            let is_fine = shown == "text: ok\nfinished: Stop ?" || shown.starts_with("Unavailable: ");
            assert!(is_fine, "{pattern}: {shown}");
        }
        assert_eq!(answer(&*model, request).await, "text: ok\nfinished: Stop ?", "{pattern}");
        let body = server.last_body();
        assert!(body.contains(GOOD) && body.contains("\"one\"") && body.contains("\"two\""), "{pattern}: {body}");
    }
}

/// What is refused in words that nobody knows is found by trials: a field, tools, instructions, the roles of messages.
#[tokio::test]
async fn refusals_in_unknown_words() {
    type Judge = fn(&Value) -> bool;
    let cases: [(&str, Judge, &str); 7] = [
        ("stream_options", |body| body.get("stream_options").is_some(), ""),
        ("temperature", |body| body.get("temperature").is_some(), "temperature is not sent"),
        ("tool_choice", |body| body.get("tool_choice").is_some(), "tool_choice is not sent"),
        ("all tools", |body| body.get("tools").is_some(), "2 tools are left out"),
        ("one tool", |body| body.to_string().contains("bad_tool"), "the tool bad_tool is left out"),
        ("system", |body| body["messages"][0]["role"] == "system", ""),
        ("calls", |body| body.to_string().contains("\"role\":\"tool\""), "tool calls are given as text"),
    ];
    let call = ToolUse { id: CallId::new("c1"), name: "one".into(), input: Json::empty_object() };
    let messages = [
        Message::user("look"),
        Message::Assistant { content: Content::Blocks(vec![Block::ToolUse(call)]) },
        Message::Tool { call_id: CallId::new("c1"), content: Content::Text("seen".into()), is_error: false },
        Message::assistant("I see."),
        Message::user("and now?"),
    ];
    let request = ModelRequest {
        system: "Be brief.".into(),
        messages: messages.into(),
        tools: tools(&["one", "bad_tool"]),
        options: ModelOptions {
            temperature: Some(500),
            tool_choice: Some(ToolChoice::None),
            ..ModelOptions::default()
        },
        ..ModelRequest::default()
    };
    for (what, is_refused, notice) in cases {
        let (server, model) =
            server("400 Bad Request", move |body| is_refused(body).then_some("Something is not right here")).await;
        let shown = answer(&*model, request.clone()).await;
        assert!(shown.contains(notice) && shown.ends_with("text: ok\nfinished: Stop ?"), "{what}: {shown}");
        let (requests, body) = (server.seen().len(), server.last_body());
        let kept = [("temperature", "\"temperature\""), ("one tool", "bad_tool"), ("calls", "\"role\":\"tool\"")];
        for (other, part) in kept.iter().filter(|(other, _)| *other != what && what != "all tools") {
            assert!(body.contains(part), "{what} cost {other}: {body}");
        }
        assert!(requests < 20, "{what}: {requests} requests");
        // It is known from now on.
        answer(&*model, request.clone()).await;
        assert_eq!(server.seen().len(), requests + 1, "{what}");
    }
    // Nothing helps, and nothing is left out.
    let (server, model) = server("400 Bad Request", |_| Some("Something is not right here")).await;
    assert!(answer(&*model, request.clone()).await.starts_with("Rejected: "));
    assert!(server.seen().len() < 30, "{}", server.seen().len());
}

/// A provider that refuses a request once, and never again, costs nothing. One with a tight rate is not asked for ever: the next
/// attempt goes on where the last one was interrupted.
#[tokio::test]
async fn refusals_that_pass_or_are_interrupted() {
    let count = AtomicUsize::new(0);
    let judge = move |_: &Value| (count.fetch_add(1, Ordering::Relaxed) == 0).then_some("Invalid request");
    let (server, model) = server("400 Bad Request", judge).await;
    let request = ModelRequest { tools: tools(&["one", "two"]), ..images(&[GOOD, BAD]) };
    assert_eq!(answer(&*model, request.clone()).await, "text: ok\nfinished: Stop ?");
    assert_eq!(server.seen().len(), 2);
    // Every second request meets the rate limit.
    let count = AtomicUsize::new(0);
    let server =
        judged(move |seen: &Seen| match (count.fetch_add(1, Ordering::Relaxed) % 2, seen.body.contains("two")) {
            (1, _) => ("429 Too Many Requests", json!({ "error": { "message": "slow down" } }).to_string()),
            (_, true) => ("400 Bad Request", json!({ "error": { "message": "Invalid request" } }).to_string()),
            (_, false) => ("200 OK", CHAT.to_owned()),
        })
        .await;
    let config = ProviderConfig { base_url: Some(server.url.clone()), ..ProviderConfig::new(ProviderKind::OpenAi) };
    let model = Provider::new("test", config).unwrap().model("m");
    let cache_key = Some("session".to_owned());
    let mut answers = Vec::new();
    for attempt in 0..12 {
        answers.push(answer(&*model, ModelRequest { attempt, cache_key: cache_key.clone(), ..request.clone() }).await);
        if answers.last().is_some_and(|shown| shown.ends_with("Stop ?")) {
            return;
        }
    }
    panic!("{answers:#?}");
}

/// Templates and Mistral say what they want in words that are known.
#[tokio::test]
async fn speakers_that_take_turns_and_short_ids() {
    let call = ToolUse { id: CallId::new("call_0123456789"), name: "one".into(), input: Json::empty_object() };
    let messages = [
        Message::user("look"),
        Message::user("please"),
        Message::Assistant { content: Content::Blocks(vec![Block::ToolUse(call)]) },
        Message::Tool {
            call_id: CallId::new("call_0123456789"),
            content: Content::Text("seen".into()),
            is_error: false,
        },
        Message::user("and now?"),
    ];
    let request = ModelRequest { messages: messages.into(), tools: tools(&["one"]), ..ModelRequest::default() };
    let alternates = |body: &Value| {
        let roles: Vec<_> =
            body["messages"].as_array().unwrap().iter().map(|message| message["role"].clone()).collect();
        let is_fine = roles.windows(2).all(|pair| pair[0] != pair[1]) && !roles.contains(&json!("tool"));
        (!is_fine).then_some("Conversation roles must alternate user/assistant/user/assistant/...")
    };
    for status in ["400 Bad Request", "500 Internal Server Error"] {
        let (server, model) = server(status, alternates).await;
        let shown = answer(&*model, request.clone()).await;
        assert!(shown.ends_with("text: ok\nfinished: Stop ?"), "{status}: {shown}");
        assert!(server.seen().len() < 4, "{}", server.seen().len());
        assert!(server.last_body().contains("[Result of the tool one]"), "{}", server.last_body());
    }
    let (server, model) = server("400 Bad Request", |body| {
        let mut calls = body["messages"].as_array().into_iter().flatten().map(|said| &said["tool_calls"][0]["id"]);
        let id = calls.find_map(Value::as_str).unwrap_or("123456789");
        let words = "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.";
        (id.len() != 9).then_some(words)
    })
    .await;
    assert_eq!(answer(&*model, request).await, "text: ok\nfinished: Stop ?");
    assert_eq!(server.seen().len(), 2);
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

/// An overflow that names no window still says how much was too much. A user's words about windows do not.
#[tokio::test]
async fn an_overflow_without_numbers_is_remembered() {
    let words = "the request exceeds the available context size, try increasing it";
    let (_, model) = server("400 Bad Request", move |_| Some(words)).await;
    let fails = async |text: String| {
        let request = ModelRequest { messages: [Message::user(text)].into(), ..ModelRequest::default() };
        assert!(model.stream(request).await.is_err());
        model.context_window()
    };
    assert_eq!(fails(format!("{words} {}", "long ".repeat(4000))).await, None);
    let learned = fails("long ".repeat(4000)).await.unwrap();
    assert!((4000..6000).contains(&learned), "{learned}");
    assert_eq!(fails("long ".repeat(8000)).await, Some(learned), "less is known to be too much");
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
        assert!(server.seen().len() <= 8, "{}", server.seen().len());
    }
}
