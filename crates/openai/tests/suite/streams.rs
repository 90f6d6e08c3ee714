//! Answers in chunks.

use expect_test::expect;
use serde_json::json;

use super::harness::{Reply, Server, finish, text, tool, user};

/// A stream as text, with stable names for what changes each time.
fn shown(answer: &super::harness::Answer) -> String {
    let text = std::str::from_utf8(&answer.body).unwrap();
    let (session, turn) = (answer.header("x-session-id"), answer.header("x-message-id"));
    let text = text.replace(session, "SESSION").replace(turn, "TURN");
    let text = text.replace(turn.strip_prefix("turn_").unwrap(), "TURN");
    let mut out = String::new();
    for line in text.lines() {
        let line = line.split("\"id\":\"call_").enumerate().map(|(at, part)| match at {
            0 => part.to_owned(),
            _ => format!("\"id\":\"CALL\"{}", part.split_once('"').unwrap().1),
        });
        let line: String = line.collect();
        let line = match line.split_once("\"created\":") {
            Some((head, rest)) => {
                format!("{head}\"created\":0{}", rest.trim_start_matches(|c: char| c.is_ascii_digit()))
            }
            None => line,
        };
        out += &line.replace("\"object\":\"chat.completion.chunk\",\"created\":0,\"model\":\"first\"", "…");
        out.push('\n');
    }
    out
}

#[tokio::test]
async fn a_plain_stream() {
    let server = Server::start([Reply::says(&["Hel", "lo\n\"you\""]).after_thinking("hm")]).await;
    let answer = server.chat(json!({ "model": "first", "messages": [user("hi")], "stream": true })).await;
    assert_eq!(text(&answer.chunks()), "Hello\n\"you\"");
    expect![[r#"
        id: 1
        data: {"id":"chatcmpl-TURN",…,"choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}],"session_id":"SESSION","message_id":"TURN"}

        id: 3
        data: {"id":"chatcmpl-TURN",…,"choices":[{"index":0,"delta":{"reasoning_content":"hm"},"logprobs":null,"finish_reason":null}]}

        id: 4
        data: {"id":"chatcmpl-TURN",…,"choices":[{"index":0,"delta":{"content":"Hel"},"logprobs":null,"finish_reason":null}]}

        id: 5
        data: {"id":"chatcmpl-TURN",…,"choices":[{"index":0,"delta":{"content":"lo\n\"you\""},"logprobs":null,"finish_reason":null}]}

        id: 7.1
        data: {"id":"chatcmpl-TURN",…,"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}],"session_id":"SESSION","message_id":"TURN"}

        id: 7.3
        data: [DONE]

    "#]]
    .assert_eq(&shown(&answer));
}

#[tokio::test]
async fn calls_usage_and_progress() {
    let first = Reply::calls("See.", &[("calculator", json!({ "expression": "1+1" }))]);
    let second = Reply::calls(
        "So.",
        &[("calculator", json!({ "expression": "2+2" })), ("a", json!({ "x": 1 })), ("b", json!({}))],
    );
    let server = Server::start([first, second]).await;
    let body = json!({
        "messages": [user("hi")], "stream": true, "stream_options": { "include_usage": true },
        "include_tool_progress": true, "tools": [tool("a"), tool("b")],
    });
    let answer = server.chat(body).await;
    let chunks = answer.chunks();
    assert_eq!((text(&chunks), finish(&chunks)), ("See.\n\nSo.".to_owned(), "tool_calls".to_owned()));
    assert_eq!(chunks.last().unwrap()["usage"]["total_tokens"], 30);
    let shown = shown(&answer);
    let frames = shown.split_terminator("\n\n");
    let some = frames.filter(|frame| frame.contains("tool") || frame.contains("\"choices\":[],\"usage\""));
    let some: String = some.map(|frame| format!("{}\n\n", mask_progress(frame))).collect();
    expect![[r#"
        event: tool.progress
        id: 6
        data: {"id":"chatcmpl-TURN",…,"choices":[],"tool_progress":{"tool_call_id":"…","tool":"calculator","label":"Calculator","status":"running"},"usage":null}

        event: tool.progress
        id: 7
        data: {"id":"chatcmpl-TURN",…,"choices":[],"tool_progress":{"tool_call_id":"…","tool":"calculator","status":"completed","duration_ms":0},"usage":null}

        data: {"id":"chatcmpl-TURN",…,"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"CALL","type":"function","function":{"name":"a","arguments":""}}]},"logprobs":null,"finish_reason":null}],"usage":null}

        id: 13.3
        data: {"id":"chatcmpl-TURN",…,"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\":1}"}}]},"logprobs":null,"finish_reason":null}],"usage":null}

        data: {"id":"chatcmpl-TURN",…,"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"CALL","type":"function","function":{"name":"b","arguments":""}}]},"logprobs":null,"finish_reason":null}],"usage":null}

        id: 13.4
        data: {"id":"chatcmpl-TURN",…,"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]},"logprobs":null,"finish_reason":null}],"usage":null}

        event: tool.progress
        id: 14
        data: {"id":"chatcmpl-TURN",…,"choices":[],"tool_progress":{"tool_call_id":"…","tool":"calculator","label":"Calculator","status":"running"},"usage":null}

        event: tool.progress
        id: 15
        data: {"id":"chatcmpl-TURN",…,"choices":[],"tool_progress":{"tool_call_id":"…","tool":"calculator","status":"completed","duration_ms":0},"usage":null}

        id: 16.1
        data: {"id":"chatcmpl-TURN",…,"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"tool_calls"}],"usage":null,"session_id":"SESSION","message_id":"TURN"}

        id: 16.2
        data: {"id":"chatcmpl-TURN",…,"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":10,"total_tokens":30}}

    "#]]
    .assert_eq(&some);
}

/// Without the call's id and how long it took.
fn mask_progress(frame: &str) -> String {
    let masked = frame.split("\"tool_call_id\":\"").enumerate().map(|(at, part)| match at {
        0 => part.to_owned(),
        _ => format!("\"tool_call_id\":\"…\"{}", part.split_once('"').unwrap().1),
    });
    let masked: String = masked.collect();
    match masked.split_once("\"duration_ms\":") {
        Some((head, rest)) => {
            format!("{head}\"duration_ms\":0{}", rest.trim_start_matches(|c: char| c.is_ascii_digit()))
        }
        None => masked,
    }
}

#[tokio::test]
async fn the_view_goes_on_anywhere() {
    let server = Server::start([Reply::says(&["one ", "two ", "three"])]).await;
    let body = json!({ "model": "first", "messages": [user("hi")], "stream": true });
    let answer = server.chat(body).await;
    let whole = std::str::from_utf8(&answer.body).unwrap().to_owned();
    let (session, turn) = (answer.header("x-session-id"), answer.header("x-message-id"));
    let path = format!("/api/v1/sessions/{session}/messages/{turn}/stream?as=openai");
    let view = server.get(&path).await;
    assert_eq!(std::str::from_utf8(&view.body).unwrap(), whole);
    let ids: Vec<_> = whole.lines().filter_map(|line| line.strip_prefix("id: ")).collect();
    for id in ids {
        let rest = server.get(&format!("{path}&since={id}")).await;
        let after = whole.split_once(&format!("id: {id}\n")).unwrap().1.split_once("\n\n").unwrap().1;
        assert_eq!(std::str::from_utf8(&rest.body).unwrap(), after, "after {id}");
    }
}

#[tokio::test]
async fn both_ways_say_the_same() {
    let replies = || {
        let calls = Reply::calls("First I look.", &[("calculator", json!({ "expression": "1+1" }))]);
        [calls.clone().after_thinking("a"), Reply::says(&["Then ", "I say"]).after_thinking("b")]
    };
    let server = Server::start([replies(), replies()].concat()).await;
    let whole = server.chat(json!({ "messages": [user("hi")] })).await.json(200);
    let options = json!({ "include_usage": true });
    let body = json!({ "messages": [user("hi")], "stream": true, "stream_options": options });
    let chunks = server.chat(body).await.chunks();
    assert_eq!(whole["choices"][0]["message"]["content"], text(&chunks));
    assert_eq!(whole["usage"], chunks.last().unwrap()["usage"]);
}
