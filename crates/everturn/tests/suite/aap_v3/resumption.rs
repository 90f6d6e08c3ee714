//! Streams that were lost, and applications that lost all they knew.

use serde_json::json;

use super::application::{Application, BASE};
use crate::suite::harness::{Client, Gate, Reply, script, shared};

fn view(client: &Client, session: &str, turn: &str, mode: &str, cursor: Option<&str>) -> String {
    let path = format!("/api/v1/sessions/{session}/messages/{turn}/stream?as=aap-{mode}");
    let headers: Vec<_> = cursor.map(|cursor| ("last-event-id", cursor)).into_iter().collect();
    let answer = client.send_with("GET", &path, &headers, "");
    assert!(answer.status == 200 || (answer.status == 204 && answer.body.is_empty()), "{answer:?}");
    answer.body
}

fn id(frame: &str) -> &str {
    frame.lines().find_map(|line| line.strip_prefix("id: ")).unwrap()
}

#[test]
fn a_lost_stream_is_picked_up_through_the_door_for_any_view() {
    let shared = shared();
    let client = shared.client("acme");
    let made = client.send("POST", &format!("{BASE}/sessions"), r#"{"agent":{"name":"scripted"}}"#).json();
    let session = made["sessionId"].as_str().unwrap();
    let gate = Gate::default();
    script("v3-lost", [Reply::new().text("It ").text("goes ").hold(&gate).text("on.").stops()]);
    let body = r#"{"stream":"delta","messages":[{"role":"user","content":"play v3-lost"}]}"#;
    let mut stream = client.open("POST", &format!("{BASE}/sessions/{session}/turns"), body);
    let turn = stream.header("x-message-id").to_owned();
    assert_eq!(stream.header("x-session-id"), session);
    let mut seen = String::new();
    let last = loop {
        let frame = stream.next().unwrap();
        seen += &format!("{frame}\n\n");
        if frame.contains("goes ") {
            break id(&frame).to_owned();
        }
    };
    drop(stream);
    gate.open();
    seen += &view(&client, session, &turn, "delta", Some(&last));
    assert_eq!(seen, view(&client, session, &turn, "delta", None), "no gap, no repeat");
    assert!(seen.starts_with("event: turn_start\n"), "no event names the session: {seen}");
    assert!(seen.ends_with("data: {\"stopReason\":\"end_turn\"}\n\n"), "{seen}");
    for (index, frame) in seen.split_inclusive("\n\n").enumerate() {
        let rest: String = seen.split_inclusive("\n\n").skip(index + 1).collect();
        assert_eq!(view(&client, session, &turn, "delta", Some(id(frame))), rest, "after {frame}");
    }
}

/// It finds what waits in the history, and goes on as if it had been there.
#[test]
fn an_application_that_knows_nothing_any_more_finds_the_calls_that_wait() {
    let tools = json!([{ "name": "clock" }]);
    let mut application = Application::start(&json!({ "agent": { "name": "demo", "tools": tools } }));
    let first = application.say("delta", "use clock");
    let history = application.history("full");
    let call = &history.last().unwrap()["content"];
    let call = call.as_array().unwrap().iter().find(|block| block["type"] == "tool_use").unwrap();
    assert_eq!((&call["name"], call["toolCallId"].as_str()), (&json!("clock"), Some(first.call("clock"))));
    let granted = json!([{ "role": "tool_permission", "toolCallId": call["toolCallId"], "granted": true }]);
    let second = application.turn("delta", &json!({}), &granted);
    assert_eq!(second.stop, "end_turn");
    assert_eq!(first.answer.header("x-message-id"), second.answer.header("x-message-id"), "two legs of one turn");
}
