//! All wires against a mock that others wrote from the providers' documents.

use std::{fmt, sync::Arc};

use everturn_core::{CallId, Content, Json, Message, ModelOptions, ToolUse};
use everturn_models::{Model, ModelRequest, ProviderKind};
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::{peers::AiMock, transcript::answer};

const WIRES: [Spoken; 5] = [
    Spoken::Kind(ProviderKind::OpenAi),
    Spoken::Responses,
    Spoken::Kind(ProviderKind::Anthropic),
    Spoken::Kind(ProviderKind::Gemini),
    Spoken::Kind(ProviderKind::Ollama),
];

/// A wire: that of a kind of provider, or OpenAI's other one.
#[derive(Clone, Copy)]
enum Spoken {
    Kind(ProviderKind),
    Responses,
}

impl Spoken {
    fn model(self, mock: &AiMock) -> Arc<dyn Model> {
        match self {
            Self::Kind(kind) => mock.model(kind),
            Self::Responses => mock.responses_model(),
        }
    }
}

impl fmt::Display for Spoken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind(kind) => kind.fmt(f),
            Self::Responses => f.write_str("responses"),
        }
    }
}

fn request(text: &str) -> ModelRequest {
    ModelRequest { messages: [Message::user(text)].into(), ..ModelRequest::default() }
}

/// What each wire makes of the same response.
async fn check(model: &str, response: Value, options: Value, expect: Expect) {
    let mock = AiMock::new(model, response, options).await;
    let mut shown = String::new();
    for wire in WIRES {
        let answer = answer(&*wire.model(&mock), request("hello")).await;
        shown.push_str(&format!("## {wire}\n{}\n", without_made_up_ids(&without_call_ids(&answer))));
    }
    expect.assert_eq(&shown);
}

/// The mock makes up ids of calls, which records repeat.
fn without_call_ids(answer: &str) -> String {
    let mut parts = answer.split("\"id\":\"toolu_");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.split_once('"').map_or("", |(_, rest)| rest);
        shown.push_str(&format!("\"id\":\"toolu_\"{rest}"));
    }
    shown
}

/// An answer without the ids that the mock makes up for reasoning.
fn without_made_up_ids(answer: &str) -> String {
    let line = |line: &str| match line.split_once(r#""id":"rs"#) {
        Some((before, _)) => format!(r#"{before}"id":"rs…"#),
        None => line.to_owned(),
    };
    answer.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn text_and_usage() {
    let usage = json!({
        "prompt_tokens": 7, "completion_tokens": 3, "input_tokens": 7, "output_tokens": 3,
        "promptTokenCount": 7, "candidatesTokenCount": 3,
    });
    let response = json!({"content": "Hello, wörld. How are you?", "usage": usage});
    check(
        "text",
        response,
        json!({"chunkSize": 10}),
        expect![[r###"
            ## openai
            text: Hello, wör|ld. How ar|e you?
            used: 7+3
            finished: Stop 7+3
            ## responses
            text: Hello, wör|ld. How ar|e you?
            used: 7+3
            signature: responses:{"from":"responses/text","pieces":[{"own":{"reasoning":{"id":"rs…
            finished: Stop 7+3
            ## anthropic
            used: 7+3
            text: Hello, wör|ld. How ar|e you?
            finished: Stop 7+3
            ## gemini
            text: Hello, wör|ld. How ar
            used: 7+3
            text: e you?
            finished: Stop 7+3
            ## ollama
            text: Hello, wör|ld. How ar|e you?
            finished: Stop ?
        "###]],
    )
    .await;
}

#[tokio::test]
async fn thinking_text_and_calls() {
    let calls = json!([
        {"name": "get_weather", "arguments": "{\"location\":\"Tokyo\"}"},
        {"name": "clock", "arguments": "{}"},
    ]);
    let response = json!({
        "content": "Let me look.", "reasoning": "Two cities, hm.", "reasoningSignature": "c2ln", "toolCalls": calls,
    });
    // The mock sends the reasoning of Ollama's models under a name that Ollama does not have.
    check(
        "calls",
        response,
        json!({"chunkSize": 8}),
        expect![[r###"
            ## openai
            thinking: Two citi|es, hm.
            text: Let me l|ook.
            call 0 started: get_weather
            call 0 input: {"locati|on":"Tok|yo"}
            call 1 started: clock
            call 1 input: {}
            used: 2+13
            call 0: get_weather {"location":"Tokyo"}
            call 1: clock {}
            signature: chat:{"from":"openai/calls","pieces":[{"own":{"field":"reasoning_content"}},{"text":12},"call","call"]}
            finished: Stop 2+13
            ## responses
            thinking: Two citi|es, hm.
            text: Let me l|ook.
            call 0 started: get_weather
            call 0 input: {"locati|on":"Tok|yo"}
            call 0: get_weather {"location":"Tokyo"}
            call 1 started: clock
            call 1 input: {}
            call 1: clock {}
            signature: responses:{"from":"responses/calls","pieces":[{"own":{"reasoning":{"id":"rs…
            finished: Stop ?
            ## anthropic
            thinking: Two citi|es, hm.
            text: Let me l|ook.
            call 0 started: get_weather
            call 0 input: {"locati|on":"Tok|yo"}
            call 0: get_weather {"location":"Tokyo"}
            call 1 started: clock
            call 1 input: {}
            call 1: clock {}
            signature: anthropic:{"from":"anthropic/calls","prefix":"82013cf4085ccbbe2fc406ca.0","pieces":[{"own":{"type":"thinking","length":15,"signature":"c2ln"}},{"text":12},{"own":{"type":"tool_use","id":"toolu_"}},"call",{"own":{"type":"tool_use","id":"toolu_"}},"call"]}
            finished: Stop ?
            ## gemini
            thinking: Two citi|es, hm.
            text: Let me l|ook.
            call 0 started: get_weather
            call 0: get_weather {"location":"Tokyo"}
            call 1 started: clock
            call 1: clock {}
            finished: Stop ?
            ## ollama
            text: Let me l|ook.
            call 0 started: get_weather
            call 0: get_weather {"location":"Tokyo"}
            call 1 started: clock
            call 1: clock {}
            finished: Stop ?
        "###]],
    )
    .await;
}

#[tokio::test]
async fn finish_reasons() {
    // The mock always has Ollama stop of itself, and has a filter fail Responses in a way of its own.
    for (wire, reason, expected) in [
        (Spoken::Responses, "stop", "Stop"),
        (Spoken::Responses, "length", "MaxTokens"),
        (Spoken::Kind(ProviderKind::OpenAi), "stop", "Stop"),
        (Spoken::Kind(ProviderKind::OpenAi), "length", "MaxTokens"),
        (Spoken::Kind(ProviderKind::OpenAi), "content_filter", "Refusal"),
        (Spoken::Kind(ProviderKind::Anthropic), "stop", "Stop"),
        (Spoken::Kind(ProviderKind::Anthropic), "length", "MaxTokens"),
        (Spoken::Kind(ProviderKind::Anthropic), "refusal", "Refusal"),
        (Spoken::Kind(ProviderKind::Gemini), "stop", "Stop"),
        (Spoken::Kind(ProviderKind::Gemini), "length", "MaxTokens"),
        (Spoken::Kind(ProviderKind::Gemini), "content_filter", "Refusal"),
        (Spoken::Kind(ProviderKind::Ollama), "stop", "Stop"),
    ] {
        let response = json!({"content": "I would", "finishReason": reason});
        let mock = AiMock::new(&format!("finish-{wire}-{reason}"), response, json!({})).await;
        let shown = answer(&*wire.model(&mock), request("hello")).await;
        // The mock makes up reasoning for a model that is asked for it.
        let is_said = |line: &&str| !line.starts_with("used: ") && !line.starts_with("signature: ");
        let said: Vec<_> = shown.lines().filter(is_said).collect();
        let [text, finished] = said[..] else { panic!("{wire} {reason}: {shown}") };
        assert_eq!(text, "text: I would", "{wire} {reason}: {shown}");
        assert!(finished.starts_with(&format!("finished: {expected} ")), "{wire} {reason}: {shown}");
    }
}

#[tokio::test]
async fn a_cut_stream_is_an_error() {
    let options = json!({"chunkSize": 4, "truncateAfterChunks": 4, "latency": 5});
    check(
        "cut",
        json!({"content": "one two three four five six seven"}),
        options,
        expect![[r#"
            ## openai
            text: one |two 
            error: Unavailable: openai broke off in the middle of its answer: unexpected EOF during chunk size line
            ## responses
            error: Unavailable: responses broke off in the middle of its answer: unexpected EOF during chunk size line
            ## anthropic
            text: one 
            error: Unavailable: anthropic broke off in the middle of its answer: unexpected EOF during chunk size line
            ## gemini
            text: one |two |thre
            error: Unavailable: gemini broke off in the middle of its answer: unexpected EOF during chunk size line
            ## ollama
            text: one |two |thre
            error: Unavailable: ollama broke off in the middle of its answer: unexpected EOF during chunk size line
        "#]],
    )
    .await;
}

#[tokio::test]
async fn errors() {
    let error = |message: &str, kind: &str, code: &str, status: u16| json!({"error": {"message": message, "type": kind, "code": code}, "status": status, "retryAfter": 7});
    for (model, response, expect) in [
        (
            "limit",
            error("Slow down", "rate_limit_error", "rate_limit_exceeded", 429),
            expect![[r#"
                ## openai
                RateLimited: openai answered 429: Slow down, retry after 7s
                ## responses
                RateLimited: responses answered 429: Slow down, retry after 7s
                ## anthropic
                RateLimited: anthropic answered 429: Slow down, retry after 7s
                ## gemini
                RateLimited: gemini answered 429: Slow down, retry after 7s
                ## ollama
                RateLimited: ollama answered 429: Slow down, retry after 7s
            "#]],
        ),
        (
            "key",
            error("Bad key test-key", "authentication_error", "invalid_api_key", 401),
            expect![[r#"
                ## openai
                Denied: openai answered 401: Bad key [key]
                ## responses
                Denied: responses answered 401: Bad key [key]
                ## anthropic
                Denied: anthropic answered 401: Bad key [key]
                ## gemini
                Denied: gemini answered 401: Bad key [key]
                ## ollama
                Denied: ollama answered 401: Bad key [key]
            "#]],
        ),
        (
            "missing",
            error("No such model", "not_found_error", "model_not_found", 404),
            expect![[r#"
                ## openai
                Denied: openai answered 404: No such model
                ## responses
                Denied: responses answered 404: No such model
                ## anthropic
                Denied: anthropic answered 404: No such model
                ## gemini
                Denied: gemini answered 404: No such model
                ## ollama
                Denied: ollama answered 404: No such model
            "#]],
        ),
        (
            "overflow",
            error("prompt is too long: 9 > 8", "invalid_request_error", "context_length_exceeded", 400),
            expect![[r#"
                ## openai
                ContextOverflow: openai answered 400: prompt is too long: 9 > 8
                ## responses
                ContextOverflow: responses answered 400: prompt is too long: 9 > 8
                ## anthropic
                ContextOverflow: anthropic answered 400: prompt is too long: 9 > 8
                ## gemini
                ContextOverflow: gemini answered 400: prompt is too long: 9 > 8
                ## ollama
                ContextOverflow: ollama answered 400: prompt is too long: 9 > 8
            "#]],
        ),
        (
            "down",
            error("Overloaded", "overloaded_error", "overloaded", 503),
            expect![[r#"
                ## openai
                Unavailable: openai answered 503: Overloaded
                ## responses
                Unavailable: responses answered 503: Overloaded
                ## anthropic
                Unavailable: anthropic answered 503: Overloaded
                ## gemini
                Unavailable: gemini answered 503: Overloaded
                ## ollama
                Unavailable: ollama answered 503: Overloaded
            "#]],
        ),
    ] {
        check(model, response, json!({}), expect).await;
    }
}

#[tokio::test]
async fn the_mock_understands_our_history() {
    let call = ToolUse {
        id: CallId::new("call_1"),
        name: "get_weather".into(),
        input: Json::parse(r#"{"location":"Tokyo"}"#).unwrap(),
    };
    let request = ModelRequest {
        system: "Be brief.".into(),
        messages: [
            Message::user("weather?"),
            Message::Assistant { content: Content::answer(String::new(), None, "Let me look.".into(), vec![call]) },
            Message::tool(CallId::new("call_1"), "sunny"),
            Message::assistant("It is sunny."),
            Message::user("thanks"),
        ]
        .into(),
        options: ModelOptions { max_output_tokens: Some(99), ..ModelOptions::default() },
        ..ModelRequest::default()
    };
    let mock = AiMock::new("history", json!({"content": "ok"}), json!({})).await;
    for wire in WIRES {
        answer(&*wire.model(&mock), request.clone()).await;
    }
    let mut shown = String::new();
    for entry in mock.journal().await {
        shown.push_str(&format!("## {}\n", entry["path"].as_str().unwrap()));
        for message in entry["body"]["messages"].as_array().unwrap() {
            shown.push_str(&format!("{message}\n"));
        }
    }
    expect![[r###"
        ## /v1/chat/completions
        {"content":"Be brief.","role":"system"}
        {"content":"weather?","role":"user"}
        {"content":"Let me look.","role":"assistant","tool_calls":[{"function":{"arguments":"{\"location\":\"Tokyo\"}","name":"get_weather"},"id":"call_1","type":"function"}]}
        {"content":"sunny","role":"tool","tool_call_id":"call_1"}
        {"content":"It is sunny.","role":"assistant"}
        {"content":"thanks","role":"user"}
        ## /v1/responses
        {"content":"Be brief.","role":"system"}
        {"content":"weather?","role":"user"}
        {"content":"Let me look.","role":"assistant"}
        {"content":null,"role":"assistant","tool_calls":[{"function":{"arguments":"{\"location\":\"Tokyo\"}","name":"get_weather"},"id":"call_1","type":"function"}]}
        {"content":"sunny","role":"tool","tool_call_id":"call_1"}
        {"content":"It is sunny.","role":"assistant"}
        {"content":"thanks","role":"user"}
        ## /v1/messages
        {"content":"Be brief.","role":"system"}
        {"content":"weather?","role":"user"}
        {"content":"Let me look.","role":"assistant","tool_calls":[{"function":{"arguments":"{\"location\":\"Tokyo\"}","name":"get_weather"},"id":"call_1","type":"function"}]}
        {"content":"sunny","role":"tool","tool_call_id":"call_1"}
        {"content":"It is sunny.","role":"assistant"}
        {"content":"thanks","role":"user"}
        ## /v1beta/models/history:streamGenerateContent?alt=sse
        {"content":"Be brief.","role":"system"}
        {"content":"weather?","role":"user"}
        {"content":"Let me look.","role":"assistant","tool_calls":[{"function":{"arguments":"{\"location\":\"Tokyo\"}","name":"get_weather"},"id":"call_1","type":"function"}]}
        {"content":"{\"output\":\"sunny\"}","role":"tool","tool_call_id":"call_1"}
        {"content":"It is sunny.","role":"assistant"}
        {"content":"thanks","role":"user"}
        ## /api/chat
        {"content":"Be brief.","role":"system"}
        {"content":"weather?","role":"user"}
        {"content":"Let me look.","role":"assistant","tool_calls":[{"function":{"arguments":"{\"location\":\"Tokyo\"}","name":"get_weather"},"id":"call_0","type":"function"}]}
        {"content":"sunny","role":"tool"}
        {"content":"It is sunny.","role":"assistant"}
        {"content":"thanks","role":"user"}
    "###]].assert_eq(&shown);
}

#[tokio::test]
async fn keys_go_where_each_provider_wants_them() {
    let mock = AiMock::new("headers", json!({"content": "ok"}), json!({})).await;
    for wire in WIRES {
        answer(&*wire.model(&mock), request("hello")).await;
    }
    let mut shown = String::new();
    for entry in mock.journal().await {
        let headers = &entry["headers"];
        let path = entry["path"].as_str().unwrap();
        for name in ["authorization", "x-api-key", "anthropic-version", "x-goog-api-key"] {
            if let Some(value) = headers[name].as_str() {
                shown.push_str(&format!("{path} {name}: {value}\n"));
            }
        }
    }
    expect![[r#"
        /v1/chat/completions authorization: [REDACTED]
        /v1/responses authorization: [REDACTED]
        /v1/messages x-api-key: [REDACTED]
        /v1/messages anthropic-version: 2023-06-01
        /v1beta/models/headers:streamGenerateContent?alt=sse x-goog-api-key: [REDACTED]
        /api/chat authorization: [REDACTED]
    "#]]
    .assert_eq(&shown);
}
