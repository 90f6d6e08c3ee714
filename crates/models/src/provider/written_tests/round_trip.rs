//! Answers as they arrive, and as they go back in the next request.

use bytes::Bytes;
use everturn_core::{CallId, Content, Message, ToolUse};
use expect_test::{Expect, expect};
use futures_util::{FutureExt, StreamExt, stream};

use super::{OPENAI, write, written};
use crate::{
    model::{ModelEvent, ModelRequest},
    provider::{
        call::{AnswerStream, Origin},
        chat::Chat,
        failure::Failures,
        responses::Responses,
        wire::Wire,
    },
};

/// The conversation's second request, after an answer that came as this stream.
fn check(wire: &dyn Wire, host: &str, model: &str, answer: &str, expect: Expect) {
    let body = stream::iter([Ok(Bytes::copy_from_slice(answer.as_bytes()))]).boxed();
    let failures = Failures { provider: "p".into(), secrets: Vec::new() };
    let first = ModelRequest { messages: [Message::user("Go.")].into(), ..ModelRequest::default() };
    let prefix = write(wire, host, model, &first, false).prefix;
    let origin = Origin { wire: wire.name(), from: format!("p/{model}"), prefix };
    let items: Vec<_> = AnswerStream::new(wire, body, failures, origin).collect().now_or_never().unwrap();
    let (mut thinking, mut signature, mut text, mut calls) = (String::new(), None, String::new(), Vec::new());
    for item in items {
        match item.unwrap() {
            ModelEvent::Thinking(piece) => thinking.push_str(&piece),
            ModelEvent::ThinkingSignature(record) => signature = Some(record),
            ModelEvent::Text(piece) => text.push_str(&piece),
            ModelEvent::ToolCall { part, name, input } => {
                calls.push(ToolUse { id: CallId::new(format!("call_{part}")), name, input });
            }
            _ => {}
        }
    }
    let content = Content::answer(thinking, signature, text, calls);
    let request = ModelRequest {
        messages: [Message::user("Go."), Message::Assistant { content }].into(),
        ..ModelRequest::default()
    };
    let lines = written(wire, host, model, &request, false);
    let items: Vec<_> = lines.into_iter().filter(|line| line.starts_with('{')).skip(1).collect();
    expect.assert_eq(&items.join("\n"));
}

#[test]
fn answers_go_back_as_they_came() {
    check(
        &Responses,
        OPENAI,
        "gpt-5.6",
        include_str!("../samples/responses.sse"),
        expect![[r#"
            {"encrypted_content":"gAAAA1","id":"rs_1","summary":[{"text":"Two cities, hm.","type":"summary_text"},{"text":"First Tokyo.","type":"summary_text"}],"type":"reasoning"}
            {"content":"Grüße, 東京","phase":"commentary","role":"assistant","type":"message"}
            {"arguments":"{\"location\":\"Tokyo\"}","call_id":"call_0","name":"get_weather","type":"function_call"}
            {"arguments":"{}","call_id":"call_1","name":"clock","type":"function_call"}"#]],
    );
    check(
        &Chat,
        "api.deepseek.com",
        "deepseek-flash",
        include_str!("../samples/chat.sse"),
        expect![[
            r#"{"content":"Grüße, 東京","reasoning_content":"The user wants two cities.","role":"assistant","tool_calls":[{"function":{"arguments":"{\"location\":\"Tokyo\"}","name":"get_weather"},"id":"call_0","type":"function"},{"function":{"arguments":"{}","name":"clock"},"id":"call_1","type":"function"}]}"#
        ]],
    );
    let mistral = concat!(
        r#"data: {"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"Hm, "}]}]}}]}"#,
        "\n\n",
        r#"data: {"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm."}]}]}}]}"#,
        "\n\n",
        r#"data: {"choices":[{"delta":{"content":"Well."},"finish_reason":"stop"}]}"#,
        "\n\n",
    );
    check(
        &Chat,
        "api.mistral.ai",
        "magistral-medium-latest",
        mistral,
        expect![[
            r#"{"content":[{"thinking":[{"text":"Hm, hm.","type":"text"}],"type":"thinking"},{"text":"Well.","type":"text"}],"role":"assistant"}"#
        ]],
    );
    let gemini = concat!(
        r#"data: {"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"clock","arguments":"{}"},"extra_content":{"google":{"thought_signature":"G"}}}]},"finish_reason":"tool_calls"}]}"#,
        "\n\n",
    );
    check(
        &Chat,
        "generativelanguage.googleapis.com",
        "gemini-3-pro",
        gemini,
        expect![[
            r#"{"content":"","role":"assistant","tool_calls":[{"extra_content":{"google":{"thought_signature":"G"}},"function":{"arguments":"{}","name":"clock"},"id":"call_0","type":"function"}]}"#
        ]],
    );
    let openrouter = concat!(
        r#"data: {"choices":[{"delta":{"reasoning":"Hm.","reasoning_details":[{"type":"reasoning.text","text":"Hm.","index":0}]}}]}"#,
        "\n\n",
        r#"data: {"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.text","signature":"S","index":0}],"tool_calls":[{"index":0,"id":"toolu_1","function":{"name":"clock","arguments":""}}]},"finish_reason":"tool_calls"}]}"#,
        "\n\n",
    );
    check(
        &Chat,
        "openrouter.ai",
        "anthropic/claude-sonnet-5",
        openrouter,
        expect![[
            r#"{"content":null,"reasoning_details":[{"index":0,"signature":"S","text":"Hm.","type":"reasoning.text"}],"role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"clock"},"id":"toolu_1","type":"function"}]}"#
        ]],
    );
}
