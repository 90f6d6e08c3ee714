//! Providers that refuse a part of a request are asked again without it.

use std::sync::Arc;

use everturn_core::{Block, Content, Json, Message, ModelOptions, ToolSpec};
use everturn_models::{Model, ModelRequest, OpenAiWire, Provider, ProviderConfig, ProviderKind};
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::{
    scripted::{Scripted, Seen, judged},
    transcript::answer,
};

const CHAT: &str =
    "data: {\"choices\":[{\"delta\":{\"content\":\"ok\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
const PNG: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

fn refused(message: &str) -> (&'static str, String) {
    ("400 Bad Request", json!({ "error": { "message": message, "type": "invalid_request_error" } }).to_string())
}

/// A server that refuses what `judge` finds wrong with a body, and its model.
async fn server(judge: impl Fn(&Value) -> Option<String> + Send + Sync + 'static) -> (Scripted, Arc<dyn Model>) {
    let server = judged(move |seen: &Seen| {
        let body: Value = serde_json::from_str(&seen.body).unwrap_or_default();
        judge(&body).map_or(("200 OK", CHAT.to_owned()), |message| refused(&message))
    })
    .await;
    let config = ProviderConfig { base_url: Some(server.url.clone()), ..ProviderConfig::new(ProviderKind::OpenAi) };
    let model = Provider::new("test", config).unwrap().model("m");
    (server, model)
}

fn tool(name: &str) -> ToolSpec {
    let input_schema = Json::parse(r#"{"type":"object","properties":{}}"#).unwrap();
    ToolSpec { name: name.into(), title: None, description: "A tool.".into(), input_schema }
}

fn request() -> ModelRequest {
    let blocks = vec![Block::Text("look".into()), Block::Image { url: PNG.into() }];
    ModelRequest {
        messages: [Message::User { content: Content::Blocks(blocks) }].into(),
        tools: [tool("good"), tool("bad")].into(),
        options: ModelOptions { temperature: Some(200), max_output_tokens: Some(9000), ..ModelOptions::default() },
        ..ModelRequest::default()
    }
}

/// Two calls of one model: what they give, and how many requests it took.
async fn check(judge: impl Fn(&Value) -> Option<String> + Send + Sync + 'static, expect: Expect) {
    let (server, model) = server(judge).await;
    let first = answer(&*model, request()).await;
    let took = server.seen().len();
    let second = answer(&*model, request()).await;
    expect.assert_eq(&format!("{first}\n({took} requests)\n{second}\n({} requests)", server.seen().len() - took));
}

/// Templates of vLLM, llama.cpp and Mistral raise errors at instructions within the conversation.
#[tokio::test]
async fn instructions_within_the_conversation_come_from_the_user_where_they_must() {
    for words in [
        "System message must be at the beginning.",
        "Unexpected role 'system' after role 'assistant'",
        "Conversation roles must alternate user/assistant/user/assistant/...",
    ] {
        let judge = move |body: &Value| {
            let roles: Vec<_> = body["messages"].as_array().unwrap().iter().map(|said| said["role"].clone()).collect();
            let is_fine =
                roles[1..].iter().zip(["user", "assistant"].iter().cycle()).all(|(role, wanted)| role == wanted);
            (!is_fine || roles[0] != "system").then(|| words.to_owned())
        };
        let (server, model) = server(judge).await;
        let system = |content: &str| Message::System { content: content.into() };
        let mut messages =
            vec![Message::user("one"), Message::assistant("two"), system("Be brief."), Message::user("three")];
        let said = |messages: &[Message]| ModelRequest {
            system: "You help.".into(),
            messages: messages.into(),
            ..ModelRequest::default()
        };
        assert!(answer(&*model, said(&messages)).await.contains("ok"), "{words}");
        messages.extend([Message::assistant("four"), system("Be kind."), Message::user("five")]);
        assert!(answer(&*model, said(&messages)).await.contains("ok"), "{words}");
        let sent: Vec<Value> = server.seen().iter().map(|seen| serde_json::from_str(&seen.body).unwrap()).collect();
        assert_eq!(sent.len(), 3, "{words}: one refusal, then it is known");
        let [second, third] = [1, 2].map(|at| sent[at]["messages"].as_array().unwrap().clone());
        assert_eq!(third[..second.len()], second[..], "what was sent stays");
        assert_eq!(second[3], json!({ "role": "user", "content": "<system>\nBe brief.\n</system>\n\nthree" }));
    }
}

#[tokio::test]
async fn fields() {
    let judge = |body: &Value| {
        let message = "Unsupported parameter: 'temperature' is not supported with this model.";
        body.get("temperature").map(|_| message.to_owned())
    };
    check(
        judge,
        expect![[r#"
        notice: temperature is not sent: m does not take it
        text: ok
        finished: Stop ?
        (2 requests)
        notice: temperature is not sent: m does not take it
        text: ok
        finished: Stop ?
        (1 requests)"#]],
    )
    .await;
}

#[tokio::test]
async fn caps() {
    let judge = |body: &Value| {
        let message =
            |asked| format!("max_tokens: {asked} > 4096, which is the maximum allowed number of output tokens for m");
        body["max_tokens"].as_u64().filter(|asked| *asked > 4096).map(message)
    };
    check(
        judge,
        expect![[r#"
            notice: the answer has at most 4096 tokens, not 9000: m writes no more
            text: ok
            finished: Stop ?
            (2 requests)
            notice: the answer has at most 4096 tokens, not 9000: m writes no more
            text: ok
            finished: Stop ?
            (1 requests)"#]],
    )
    .await;
}

#[tokio::test]
async fn tools() {
    let judge = |body: &Value| {
        let bad = body["tools"].as_array()?.iter().position(|tool| tool["function"]["name"] == "bad")?;
        Some(format!("Invalid schema: tools[{bad}].function.parameters is too clever"))
    };
    check(
        judge,
        expect![[r#"
        notice: the tool bad is left out: the provider of m refuses its declaration
        text: ok
        finished: Stop ?
        (2 requests)
        notice: the tool bad is left out: the provider of m refuses its declaration
        text: ok
        finished: Stop ?
        (1 requests)"#]],
    )
    .await;
}

#[tokio::test]
async fn images() {
    let judge = |body: &Value| {
        body.to_string().contains("image_url").then(|| "Invalid image data: could not process image".to_owned())
    };
    check(
        judge,
        expect![[r#"
        notice: an image or document is left out: the provider of m refuses it
        text: ok
        finished: Stop ?
        (2 requests)
        notice: an image or document is left out: the provider of m refuses it
        text: ok
        finished: Stop ?
        (1 requests)"#]],
    )
    .await;
}

/// One part after the other is found, and a provider that takes nothing at all is not asked without end.
#[tokio::test]
async fn everything_and_nothing() {
    let judge = |body: &Value| {
        if body.get("temperature").is_some() {
            return Some("temperature: Extra inputs are not permitted".to_owned());
        }
        if body.to_string().contains("image_url") {
            return Some("messages[0].content[1]: image is broken".to_owned());
        }
        body.get("tools").map(|_| "m does not support tools".to_owned())
    };
    check(judge, expect![[r#"
        notice: temperature is not sent: m does not take it|tools is not sent: m does not take it|an image or document is left out: the provider of m refuses it
        text: ok
        finished: Stop ?
        (4 requests)
        notice: temperature is not sent: m does not take it|tools is not sent: m does not take it|an image or document is left out: the provider of m refuses it
        text: ok
        finished: Stop ?
        (1 requests)"#]])
    .await;
    check(
        |_| Some("Invalid value: 'temperature', 'tools[0]', an image, max_tokens: 9 > 1".to_owned()),
        expect![[r#"
            Rejected: test answered 400: Invalid value: 'temperature', 'tools[0]', an image, max_tokens: 9 > 1
            (14 requests)
            Rejected: test answered 400: Invalid value: 'temperature', 'tools[0]', an image, max_tokens: 9 > 1
            (14 requests)"#]],
    )
    .await;
}

/// An overflow tells the window by its number, if that can be true.
#[tokio::test]
async fn windows() {
    let long = || ModelRequest { system: "word ".repeat(20_000), ..request() };
    for (request, message, window) in [
        (long(), "This model's maximum context length is 8192 tokens.", Some(8192)),
        // The provider counts 15 % more than we do.
        (
            long(),
            "This model's maximum context length is 8192 tokens. However, your request has 24200 input tokens.",
            Some(7062),
        ),
        // What was sent is too much.
        (long(), "Your input exceeds the context window of this model.", Some(21_043)),
        // Not known to be true: the next conversation is not to suffer from it.
        (request(), "prompt is too long: 200001 tokens > 200000 maximum", None),
        (request(), "This model's maximum context length is 10 tokens.", None),
    ] {
        let (_server, model) = server(move |_| Some(message.to_owned())).await;
        assert_eq!(model.context_window(), None);
        assert!(answer(&*model, request).await.starts_with("ContextOverflow: "), "{message}");
        let held = model.context_window().map(|window| window * 100 / model.density(None));
        assert_eq!(held, window, "{message}");
    }
}

/// A question that fits is asked again with room for a shorter answer.
#[tokio::test]
async fn answers_that_leave_no_room() {
    let judge = |body: &Value| {
        let message = |asked| {
            format!(
                "This model's maximum context length is 4096 tokens. However, you requested {} tokens (3000 in the messages, {asked} in the completion).",
                asked + 3000
            )
        };
        body["max_tokens"].as_u64().filter(|asked| asked + 3000 > 4096).map(message)
    };
    check(
        judge,
        expect![[r#"
            text: ok
            finished: Stop ?
            (2 requests)
            text: ok
            finished: Stop ?
            (1 requests)"#]],
    )
    .await;
}

/// A refused value is left out of its own call only.
#[tokio::test]
async fn values() {
    let judge = |body: &Value| {
        let message = "Invalid 'temperature': decimal above maximum value. Expected a value <= 0.1.";
        body["temperature"].as_f64().filter(|value| *value > 0.1).map(|_| message.to_owned())
    };
    let (server, model) = server(judge).await;
    let shown = answer(&*model, request()).await;
    assert!(shown.starts_with("notice: temperature is not sent"), "{shown}");
    let mild = ModelOptions { temperature: Some(100), ..ModelOptions::default() };
    answer(&*model, ModelRequest { options: mild, ..request() }).await;
    assert!(server.last_body().contains("\"temperature\":0.1"), "{}", server.last_body());
}

/// Many tools and many images are refused one by one.
#[tokio::test]
async fn many_refusals() {
    let judge = |body: &Value| {
        let bad = |tool: &Value| tool["function"]["name"].as_str().is_some_and(|name| name.starts_with("bad"));
        let at = body["tools"].as_array()?.iter().position(bad)?;
        Some(format!("Invalid schema: tools[{at}].function.parameters is too clever"))
    };
    let (server, model) = server(judge).await;
    let tools = (0..20).map(|n| tool(&format!("bad{n}"))).chain([tool("good")]).collect();
    let shown = answer(&*model, ModelRequest { tools, ..request() }).await;
    assert!(shown.ends_with("text: ok\nfinished: Stop ?"), "{shown}");
    assert!(server.last_body().contains("good") && !server.last_body().contains("bad"), "{}", server.last_body());
}

/// A request that is too large because of its images goes without them.
#[tokio::test]
async fn requests_of_too_many_bytes() {
    let server = judged(|seen: &Seen| match seen.body.contains("image_url") {
        true => (
            "413 Payload Too Large",
            json!({ "error": { "type": "request_too_large", "message": "too large" } }).to_string(),
        ),
        false => ("200 OK", CHAT.to_owned()),
    })
    .await;
    let config = ProviderConfig { base_url: Some(server.url.clone()), ..ProviderConfig::new(ProviderKind::OpenAi) };
    let model = Provider::new("test", config).unwrap().model("m");
    let shown = answer(&*model, request()).await;
    assert!(shown.ends_with("text: ok\nfinished: Stop ?"), "{shown}");
    assert_eq!(model.context_window(), None);
}

/// The vendor's filter is a refusal, not a failure.
#[tokio::test]
async fn filters() {
    let server = judged(|_: &Seen| {
        let error = json!({ "error": { "message": "The prompt was filtered.", "code": "content_filter" } });
        ("400 Bad Request", error.to_string())
    })
    .await;
    let config = ProviderConfig { base_url: Some(server.url.clone()), ..ProviderConfig::new(ProviderKind::OpenAi) };
    let model = Provider::new("test", config).unwrap().model("m");
    let plain = ModelRequest { messages: [Message::user("hi")].into(), ..ModelRequest::default() };
    assert_eq!(answer(&*model, plain).await, "text: The prompt was filtered.\nfinished: Refusal ?");
}

/// OpenAI refuses reasoning that it cannot read in the stream of its answer, before it says anything.
#[tokio::test]
async fn proofs_that_are_refused_within_a_stream() {
    let failed = json!({ "type": "response.failed", "response": { "status": "failed", "error": {
        "code": "invalid_encrypted_content",
        "message": "The encrypted content gAAA could not be verified. Reason: it could not be decrypted or parsed.",
    } } });
    let done = json!({ "type": "response.completed", "response": { "status": "completed", "output": [],
        "usage": { "input_tokens": 1, "output_tokens": 1 } } });
    let text = json!({ "type": "response.output_text.delta", "output_index": 0, "item_id": "msg_1", "content_index": 0, "delta": "ok" });
    let server = judged(move |seen: &Seen| {
        let frames: &[&Value] = if seen.body.contains("gAAA") { &[&failed] } else { &[&text, &done] };
        ("200 OK", frames.iter().map(|frame| format!("data: {frame}\n\n")).collect())
    })
    .await;
    let config = ProviderConfig {
        base_url: Some(server.url.clone()),
        wire: Some(OpenAiWire::Responses),
        ..ProviderConfig::new(ProviderKind::OpenAi)
    };
    let model = Provider::new("test", config).unwrap().model("gpt-6-sol");
    let proof = r#"responses:{"from":"test/gpt-6-sol","pieces":[{"own":{"reasoning":{"id":"rs_1","summary":[],"encrypted_content":"gAAA"}}},{"text":5},{"own":{"message":{"phase":null}}}]}"#;
    let thought = Content::answer("hm".into(), Some(proof.into()), "hello".into(), vec![]);
    let messages = [Message::user("hi"), Message::Assistant { content: thought }, Message::user("again")];
    let shown = answer(&*model, ModelRequest { messages: messages.into(), ..ModelRequest::default() }).await;
    let notice = "notice: earlier reasoning is left out: the provider of gpt-6-sol refuses it";
    assert_eq!(shown, format!("{notice}\ntext: ok\nused: 1+1\nfinished: Stop 1+1"));
    assert_eq!(server.seen().len(), 2);
    assert!(server.seen()[0].body.contains("gAAA") && server.last_body().contains("hello"), "{:?}", server.seen());
}

/// OpenAI streams its newer models only to organisations that it has verified: the others get their answers whole.
#[tokio::test]
async fn streams() {
    let whole = json!({ "object": "response", "status": "completed", "output": [
        { "type": "message", "content": [{ "type": "output_text", "text": "ok" }] },
    ] });
    let refusal = json!({ "error": {
        "message": "Your organization must be verified to stream this model. Please go to the settings.",
        "type": "invalid_request_error", "param": "stream", "code": "unsupported_value",
    } });
    let server = judged(move |seen: &Seen| match seen.body.contains("\"stream\":true") {
        true => ("400 Bad Request", refusal.to_string()),
        false => ("200 OK", whole.to_string()),
    })
    .await;
    let config = ProviderConfig {
        base_url: Some(server.url.clone()),
        wire: Some(OpenAiWire::Responses),
        ..ProviderConfig::new(ProviderKind::OpenAi)
    };
    let model = Provider::new("test", config).unwrap().model("gpt-6-sol");
    for requests in [2, 3] {
        let shown = answer(&*model, request()).await;
        let expected = "the answer comes in one piece: test/gpt-6-sol does not stream it";
        assert!(shown.contains(expected) && shown.ends_with("text: ok\nfinished: Stop ?"), "{shown}");
        assert_eq!(server.seen().len(), requests);
    }
}

/// Gemma takes no instructions from the system: the user says them.
#[tokio::test]
async fn instructions() {
    let judge = |body: &Value| {
        let has_system = body["messages"].as_array()?.iter().any(|message| message["role"] == "system");
        has_system.then(|| "Developer instruction is not enabled for models/m".to_owned())
    };
    let (server, model) = server(judge).await;
    let messages = [Message::user("hi"), Message::System { content: "Be kind.".into() }, Message::user("there")];
    let request = ModelRequest { system: "Be brief.".into(), messages: messages.into(), ..ModelRequest::default() };
    assert_eq!(answer(&*model, request).await, "text: ok\nfinished: Stop ?");
    let body: Value = serde_json::from_str(&server.last_body()).unwrap();
    let roles: Vec<_> = body["messages"].as_array().unwrap().iter().map(|message| &message["role"]).collect();
    assert_eq!(roles, ["user"]);
    let said = body["messages"].to_string();
    assert!(said.contains("Be brief.") && said.contains("Be kind.") && said.contains("there"), "{said}");
}

/// A deployment whose name tells nothing is asked for its reasoning, without which its next step would not know it. One that does
/// not reason says so once.
#[tokio::test]
async fn a_deployment_is_asked_for_its_reasoning() {
    let text = json!({ "type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "ok" });
    let done = json!({ "type": "response.completed", "response": { "status": "completed", "output": [] } });
    let server = judged(move |seen: &Seen| match seen.body.contains("reasoning.encrypted_content") {
        true => refused("Encrypted content is not supported with this model."),
        false => ("200 OK", format!("data: {text}\n\ndata: {done}\n\n")),
    })
    .await;
    let config = ProviderConfig {
        base_url: Some(server.url.clone()),
        wire: Some(OpenAiWire::Responses),
        ..ProviderConfig::new(ProviderKind::OpenAi)
    };
    let model = Provider::new("test", config).unwrap().model("my-deployment");
    for requests in [2, 3] {
        let shown = answer(&*model, ModelRequest { messages: [Message::user("hi")].into(), ..request() }).await;
        assert!(shown.ends_with("text: ok\nfinished: Stop ?"), "{shown}");
        assert!(!shown.contains("include"), "nobody asked for it: {shown}");
        assert_eq!(server.seen().len(), requests);
    }
}
