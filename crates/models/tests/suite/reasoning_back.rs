//! Reasoning that goes back with the answers of turns in which the model made calls.

use std::sync::Arc;

use everturn_core::{Block, CallId, Content, Json, Message, ToolSpec, ToolUse};
use everturn_models::{Model, ModelEvent, ModelRequest, OpenAiWire, Provider, ProviderConfig, ProviderKind};
use futures_util::StreamExt;
use serde_json::{Value, json};

use super::{
    scripted::{Scripted, Seen, judged},
    transcript::answer,
};

const CALL: &str = "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"I need the time.\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"clock\",\"arguments\":\"{}\"}}]},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n";
const TEXT: &str = "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"Now I know.\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"Noon.\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

/// A server with DeepSeek's rule: in a turn that made calls every answer has its reasoning, if `is_fine` finds it.
async fn server(rules_of: Option<&str>, name: &str, is_fine: fn(&Value) -> bool) -> (Scripted, Arc<dyn Model>) {
    let server = judged(move |seen: &Seen| {
        let body: Value = serde_json::from_str(&seen.body).unwrap();
        let messages = body["messages"].as_array().unwrap();
        let turns = messages.split(|message| message["role"] == "user");
        let answers = |turn: &[Value]| -> Vec<Value> {
            turn.iter().filter(|message| message["role"] == "assistant").cloned().collect()
        };
        let is_bad = turns.map(answers).any(|answers| {
            answers.iter().any(|answer| answer.get("tool_calls").is_some()) && !answers.iter().all(is_fine)
        });
        if is_bad {
            let words = "The `reasoning_content` in the thinking mode must be passed back to the API.";
            return ("400 Bad Request", json!({ "error": { "message": words } }).to_string());
        }
        let last = messages.last().unwrap();
        let wants_call = last["role"] == "user" && last["content"].as_str().is_some_and(|text| text.contains("time"));
        ("200 OK", if wants_call { CALL } else { TEXT }.to_owned())
    })
    .await;
    let config = ProviderConfig {
        base_url: Some(server.url.clone()),
        rules_of: rules_of.map(str::to_owned),
        ..ProviderConfig::new(ProviderKind::OpenAi)
    };
    let model = Provider::new("test", config).unwrap().model(name);
    (server, model)
}

fn request(messages: &[Message]) -> ModelRequest {
    let clock = ToolSpec {
        name: "clock".into(),
        title: None,
        description: "Tells the time.".into(),
        input_schema: Json::empty_object(),
    };
    ModelRequest { messages: messages.to_vec().into(), tools: [clock].into(), ..ModelRequest::default() }
}

/// Makes one call and adds its answer to the conversation; gives the notices.
async fn step(model: &dyn Model, messages: &mut Vec<Message>) -> Vec<String> {
    let (mut thinking, mut proof, mut text) = (String::new(), None, String::new());
    let (mut calls, mut notices) = (Vec::new(), Vec::new());
    let mut stream = model.stream(request(messages)).await.unwrap();
    while let Some(event) = stream.next().await {
        match event.unwrap() {
            ModelEvent::Text(piece) => text.push_str(&piece),
            ModelEvent::Thinking(piece) => thinking.push_str(&piece),
            ModelEvent::ThinkingSignature(record) => proof = Some(record),
            ModelEvent::Notice(notice) => notices.push(notice),
            ModelEvent::ToolCall { name, input, .. } => {
                let id = CallId::new(format!("call_{}", messages.len()));
                calls.push(ToolUse { id, name, input });
            }
            _ => {}
        }
    }
    let results: Vec<Message> = calls.iter().map(|call| Message::tool(call.id.clone(), "12:00")).collect();
    messages.push(Message::Assistant { content: Content::answer(thinking, proof, text, calls) });
    messages.extend(results);
    notices
}

/// A turn with a call, then a turn without one.
async fn two_turns(model: &dyn Model, messages: &mut Vec<Message>) -> Vec<String> {
    messages.push(Message::user("What time is it?"));
    let mut notices = step(model, messages).await;
    notices.extend(step(model, messages).await);
    messages.push(Message::user("Thank you."));
    notices.extend(step(model, messages).await);
    notices
}

fn reasoning(body: &str) -> Vec<Option<String>> {
    let body: Value = serde_json::from_str(body).unwrap();
    let answers = body["messages"].as_array().unwrap().iter().filter(|message| message["role"] == "assistant");
    answers.map(|answer| answer["reasoning_content"].as_str().map(str::to_owned)).collect()
}

/// DeepSeek refuses a turn that made calls where any answer of it has lost its reasoning; Kimi asks for the same.
#[tokio::test]
async fn all_answers_of_a_turn_with_calls_have_it() {
    for (host, name) in
        [(Some("api.deepseek.com"), "deepseek-flash"), (None, "deepseek-flash"), (Some("api.moonshot.ai"), "kimi-k2.6")]
    {
        let (server, model) =
            server(host, name, |answer| answer["reasoning_content"].as_str().is_some_and(|text| !text.is_empty()))
                .await;
        let mut messages = Vec::new();
        for _ in 0..2 {
            assert_eq!(two_turns(&*model, &mut messages).await, [] as [&str; 0], "{name}");
        }
        assert_eq!(server.seen().len(), 6, "{name}: no request is refused");
        let known = |text: &str| Some(text.to_owned());
        // The answer of a turn without calls goes back without.
        let expected =
            [known("I need the time."), known("Now I know."), None, known("I need the time."), known("Now I know.")];
        assert_eq!(reasoning(&server.last_body()), expected, "{name}");
    }
}

/// An answer whose reasoning is not known gets a stand-in; what is known of others goes back as it was.
#[tokio::test]
async fn unknown_reasoning_does_not_cost_what_is_known() {
    let (server, model) = server(None, "some-model.v1", |answer| {
        answer["reasoning_content"].as_str().is_some_and(|text| !text.is_empty())
    })
    .await;
    let call = ToolUse { id: CallId::new("call_0"), name: "clock".into(), input: Json::empty_object() };
    let mut messages = vec![
        Message::user("hello"),
        Message::Assistant { content: Content::Blocks(vec![Block::ToolUse(call)]) },
        Message::tool(CallId::new("call_0"), "11:00"),
        Message::assistant("Eleven."),
    ];
    assert_eq!(two_turns(&*model, &mut messages).await, [] as [&str; 0]);
    // The first request is refused; from then on it is known what the server wants.
    assert_eq!(server.seen().len(), 4);
    let expected = [" ", " ", "I need the time.", "Now I know."].map(|text| Some(text.to_owned()));
    assert_eq!(reasoning(&server.last_body()), expected);
}

/// A conversation that nothing else helps has its calls as text. The search for that is made once, and calls that come
/// later stay calls.
#[tokio::test]
async fn what_a_search_has_found_is_remembered() {
    let (server, model) = server(None, "deepseek-flash", |answer| {
        answer["reasoning_content"].as_str().is_some_and(|text| text.starts_with("I ") || text.starts_with("Now"))
    })
    .await;
    let call = ToolUse { id: CallId::new("call_0"), name: "clock".into(), input: Json::empty_object() };
    let mut messages = vec![
        Message::user("hello"),
        Message::Assistant { content: Content::Blocks(vec![Block::ToolUse(call)]) },
        Message::tool(CallId::new("call_0"), "11:00"),
        Message::assistant("Eleven."),
        Message::user("And?"),
    ];
    let shown = answer(&*model, request(&messages)).await;
    assert!(shown.contains("text: Noon."), "{shown}");
    let notice =
        "earlier tool calls are given as text: the provider of deepseek-flash refuses this conversation otherwise";
    assert!(shown.contains(notice) && !shown.contains("refuses them"), "{shown}");
    let searched = server.seen().len();
    messages.push(Message::assistant("Noon."));
    two_turns(&*model, &mut messages).await;
    assert_eq!(server.seen().len(), searched + 3, "no request is refused any more");
    let body = server.last_body();
    assert!(
        body.contains("[Call of the tool clock") && body.contains("\"reasoning_content\":\"I need the time.\""),
        "{body}"
    );
}

/// Reasoning that a client has sent back has no proof. Servers that want reasoning get it; the other wires leave it out.
#[tokio::test]
async fn reasoning_without_a_proof_goes_to_those_who_want_it() {
    let call = ToolUse { id: CallId::new("call_0"), name: "clock".into(), input: Json::empty_object() };
    let answer_with = |thought: &str, text: &str, calls: Vec<ToolUse>| Message::Assistant {
        content: Content::answer(thought.into(), None, text.into(), calls),
    };
    let messages = [
        Message::user("hello"),
        answer_with("R1", "", vec![call]),
        Message::tool(CallId::new("call_0"), "11:00"),
        answer_with("R2", "Eleven.", vec![]),
        Message::user("And?"),
    ];
    for (host, name) in
        [("api.deepseek.com", "deepseek-flash"), ("api.moonshot.ai", "kimi-k2.6"), ("api.z.ai", "glm-5")]
    {
        let (server, model) = server(Some(host), name, |answer| {
            answer["reasoning_content"].as_str().is_some_and(|text| text.starts_with('R'))
        })
        .await;
        assert!(answer(&*model, request(&messages)).await.contains("text: Noon."), "{name}");
        assert_eq!(server.seen().len(), 1, "{name}");
        assert_eq!(reasoning(&server.last_body()), ["R1", "R2"].map(|text| Some(text.to_owned())), "{name}");
    }
    for (kind, wire) in [
        (ProviderKind::Anthropic, None),
        (ProviderKind::Gemini, None),
        (ProviderKind::Ollama, None),
        (ProviderKind::OpenAi, Some(OpenAiWire::Responses)),
        (ProviderKind::OpenAi, Some(OpenAiWire::Chat)),
    ] {
        let server = judged(|_: &Seen| ("401 Unauthorized", String::new())).await;
        let config = ProviderConfig {
            base_url: Some(server.url.clone()),
            rules_of: wire.map(|_| "api.openai.com".to_owned()),
            wire,
            ..ProviderConfig::new(kind)
        };
        let model = Provider::new("test", config).unwrap().model("m");
        assert!(model.stream(request(&messages)).await.is_err(), "{kind}");
        let body = server.seen().into_iter().map(|seen| seen.body).find(|body| body.contains("Eleven.")).unwrap();
        let is_left_out = !["R1", "R2", "reasoning_content"].iter().any(|word| body.contains(word));
        assert!(is_left_out, "{kind}: {body}");
    }
}
