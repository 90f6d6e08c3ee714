//! Declarations of tools that a provider refuses, whether or not it says which.

use everturn_core::{Json, Message, ToolSpec};
use everturn_models::{Model, ModelRequest, Provider, ProviderConfig, ProviderKind};
use serde_json::{Value, json};

use super::{
    scripted::{Scripted, Seen, judged},
    transcript::answer,
};

const CHAT: &str =
    "data: {\"choices\":[{\"delta\":{\"content\":\"ok\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

fn tool(name: &str) -> ToolSpec {
    let input_schema = Json::parse(r#"{"type":"object","properties":{}}"#).unwrap();
    ToolSpec { name: name.into(), title: None, description: "A tool.".into(), input_schema }
}

/// A question with a hundred tools, of which these are bad.
fn request(bad: &[usize]) -> ModelRequest {
    let name = |n: usize| if bad.contains(&n) { format!("bad{n}") } else { format!("good{n}") };
    let tools = (0..100).map(|n| tool(&name(n))).collect();
    ModelRequest { messages: [Message::user("hi")].into(), tools, ..ModelRequest::default() }
}

fn names(body: &str) -> Vec<String> {
    let body: Value = serde_json::from_str(body).unwrap();
    let tools = body["tools"].as_array().cloned().unwrap_or_default();
    tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
}

/// A server that refuses bad tools in these words, and its model.
async fn server(status: &'static str, words: Value) -> (Scripted, std::sync::Arc<dyn Model>) {
    let server = judged(move |seen: &Seen| match names(&seen.body).iter().any(|name| name.starts_with("bad")) {
        true => (status, words.to_string()),
        false => ("200 OK", CHAT.to_owned()),
    })
    .await;
    let config = ProviderConfig { base_url: Some(server.url.clone()), ..ProviderConfig::new(ProviderKind::OpenAi) };
    let model = Provider::new("test", config).unwrap().model("m");
    (server, model)
}

/// llama.cpp, vLLM and Kimi refuse the whole request and say what is wrong, but not where.
#[tokio::test]
async fn the_bad_tool_is_found() {
    for (status, words) in [
        (
            "400 Bad Request",
            json!({ "error": { "message": "JSON schema conversion failed:\nUnrecognized schema: {}" } }),
        ),
        ("500 Internal Server Error", json!({ "error": { "message": "failed to parse grammar" } })),
        (
            "400 Bad Request",
            json!({ "error": { "message": "Grammar error: Unimplemented keys: [\"propertyNames\"]" } }),
        ),
        (
            "400 Bad Request",
            json!({ "error": { "message": "tools.function.parameters is not a valid moonshot flavored json schema" } }),
        ),
    ] {
        let (server, model) = server(status, words).await;
        let notice = "notice: the tool bad71 is left out: the provider of m refuses its declaration";
        assert_eq!(answer(&*model, request(&[71])).await, format!("{notice}\ntext: ok\nfinished: Stop ?"));
        assert_eq!(names(&server.last_body()).len(), 99);
        let took = server.seen().len();
        assert!(took <= 18, "{took} requests");
        // Nothing of the conversation goes into a trial.
        assert_eq!(server.seen().iter().filter(|seen| seen.body.contains("\"hi\"")).count(), 2);
        assert_eq!(answer(&*model, request(&[71])).await, format!("{notice}\ntext: ok\nfinished: Stop ?"));
        assert_eq!(server.seen().len(), took + 1);
    }
}

#[tokio::test]
async fn several_bad_tools_are_found_within_bounds() {
    let (server, model) = server("400 Bad Request", json!({ "error": { "message": "Grammar error" } })).await;
    let shown = answer(&*model, request(&[3, 50, 99])).await;
    assert!(shown.contains("3 tools are left out") && shown.contains("bad3, bad50, bad99"), "{shown}");
    assert_eq!(names(&server.last_body()).len(), 97);
    let all: Vec<usize> = (0..100).collect();
    let shown = answer(&*model, request(&all)).await;
    assert!(shown.ends_with("text: ok\nfinished: Stop ?"), "{shown}");
    // Those that were tried by themselves are told apart from those that there was no time for.
    let lines: Vec<&str> = shown.lines().collect();
    let count = |words: &str| {
        let line = lines.iter().flat_map(|line| line.split('|')).find(|line| line.contains(words));
        let line = line.unwrap_or_else(|| panic!("{words}: {shown}")).trim_start_matches("notice: ");
        line.split(' ').next().unwrap().parse::<usize>().unwrap()
    };
    let (refused, untried) = (count("refuses their declarations: "), count("ended before these were tried: "));
    assert!(refused > 3 && untried > 3 && refused + untried == 100, "{shown}");
    assert!(server.seen().len() < 100, "{} requests", server.seen().len());
}

/// What the user wrote cannot have tools left out.
#[tokio::test]
async fn a_refusal_that_is_not_about_the_tools_leaves_them() {
    let server = judged(|seen: &Seen| match seen.body.contains("evil") {
        true => ("400 Bad Request", json!({ "error": { "message": "cannot read: Grammar error" } }).to_string()),
        false => ("200 OK", CHAT.to_owned()),
    })
    .await;
    let config = ProviderConfig { base_url: Some(server.url.clone()), ..ProviderConfig::new(ProviderKind::OpenAi) };
    let model = Provider::new("test", config).unwrap().model("m");
    let evil = ModelRequest { messages: [Message::user("evil: Grammar error")].into(), ..request(&[]) };
    assert!(answer(&*model, evil).await.starts_with("Rejected: "));
    assert!(server.seen().len() <= 6, "{} requests", server.seen().len());
    assert_eq!(answer(&*model, request(&[])).await, "text: ok\nfinished: Stop ?");
    assert_eq!(names(&server.last_body()).len(), 100);
}

/// Mistral tells the place in a list.
#[tokio::test]
async fn a_place_in_a_list_is_read() {
    let server = judged(|seen: &Seen| match names(&seen.body).iter().position(|name| name.starts_with("bad")) {
        Some(at) => {
            let finding = json!({ "type": "value_error", "loc": ["body", "tools", at, "function"], "msg": "Invalid" });
            ("422 Unprocessable Entity", json!({ "object": "error", "message": { "detail": [finding] } }).to_string())
        }
        None => ("200 OK", CHAT.to_owned()),
    })
    .await;
    let config = ProviderConfig { base_url: Some(server.url.clone()), ..ProviderConfig::new(ProviderKind::OpenAi) };
    let model = Provider::new("test", config).unwrap().model("m");
    let shown = answer(&*model, request(&[8])).await;
    assert!(shown.contains("the tool bad8 is left out"), "{shown}");
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn as_many_tools_are_sent_as_are_taken() {
    for words in [
        "Invalid 'tools': array too long. Expected an array with maximum length 64, but got an array with length 100 instead.",
        "'tools' : maximum number of items is 64",
    ] {
        let server = judged(move |seen: &Seen| match names(&seen.body).len() > 64 {
            true => ("400 Bad Request", json!({ "error": { "message": words, "param": "tools" } }).to_string()),
            false => ("200 OK", CHAT.to_owned()),
        })
        .await;
        let config = ProviderConfig { base_url: Some(server.url.clone()), ..ProviderConfig::new(ProviderKind::OpenAi) };
        let model = Provider::new("test", config).unwrap().model("m");
        for requests in [2, 3] {
            let shown = answer(&*model, request(&[])).await;
            let notice = "notice: 36 tools are left out: the provider of m takes at most 64: good64, good65, ";
            assert!(shown.starts_with(notice) && shown.ends_with("text: ok\nfinished: Stop ?"), "{shown}");
            assert_eq!((server.seen().len(), names(&server.last_body()).len()), (requests, 64));
        }
    }
}
