//! What the Agent Application Protocol shows of a step while its tools run: nothing, so that a call without a result is
//! always one that waits for the client.

use serde_json::{Value, json};

use super::world::World;
use crate::suite::harness::{Client, Reply, script};

const AGENT: &str = "
[[agents]]
name = 'patient'
model = 'script/model'
titles = false
tools = ['box/*', 'wait']
";

fn history(client: &Client, path: &str) -> Value {
    let history = client.send("GET", path, "").json()["history"].clone();
    assert_eq!(history["full"], history["compacted"], "nothing was compacted");
    history["full"].clone()
}

fn roles(history: &Value) -> Vec<&str> {
    history.as_array().unwrap().iter().map(|message| message["role"].as_str().unwrap()).collect()
}

fn ask(name: &str, tools: Value) -> String {
    let agent = json!({ "name": "patient", "tools": tools });
    let tool = json!({ "name": "get_weather", "description": "", "inputSchema": { "type": "object" } });
    let said = json!([{ "role": "user", "content": format!("play {name}") }]);
    json!({ "agent": agent, "tools": [tool], "stream": "delta", "messages": said }).to_string()
}

#[test]
fn a_step_is_shown_once_its_trusted_tools_have_run() {
    let world = World::with_box("", "", AGENT);
    let (client, file) = (world.client(), world.traces.text("go"));
    let calls =
        [("get_weather", json!({})), ("box__wait", json!({ "until": file })), ("box__echo", json!({ "text": "here" }))];
    script("shown-trusted", [Reply::calls(&calls), Reply::says(&["Done."])]);
    let trusted = json!([{ "name": "box__wait", "trust": true }, { "name": "box__echo", "trust": true }]);
    let mut stream = client.open("PUT", "/session", &ask("shown-trusted", trusted));
    let path = format!("/session/{}", stream.header("x-session-id"));
    stream.until("tool_result");
    assert_eq!(roles(&history(&client, &path)), ["user"], "neither the call nor its siblings");
    world.traces.make("go");
    stream.rest();
    let stopped = history(&client, &path);
    assert_eq!(roles(&stopped), ["user", "assistant", "tool", "tool"]);
    assert_eq!((&stopped[2]["content"], &stopped[3]["content"]), (&json!("waited"), &json!("here")), "in call order");
}

#[test]
fn nothing_that_was_shown_moves() {
    let world = World::with_box("", "", AGENT);
    let (client, file) = (world.client(), world.traces.text("go"));
    let calls =
        [("box__wait", json!({ "until": file })), ("get_weather", json!({})), ("box__echo", json!({ "text": "here" }))];
    script("shown-granted", [Reply::calls(&calls), Reply::says(&["Done."])]);
    let tools = json!([{ "name": "box__wait" }, { "name": "box__echo", "trust": true }]);
    let mut stream = client.open("PUT", "/session", &ask("shown-granted", tools));
    let path = format!("/session/{}", stream.header("x-session-id"));
    stream.rest();
    let stopped = history(&client, &path);
    assert_eq!(roles(&stopped), ["user", "assistant", "tool"]);
    let id = |at: usize| stopped[1]["content"][at]["toolCallId"].clone();
    let answers = json!({ "stream": "delta", "messages": [
        { "role": "tool", "toolCallId": id(1), "content": "rain" },
        { "role": "tool_permission", "toolCallId": id(0), "granted": true },
    ] });
    let mut stream = client.open("POST", &path, &answers.to_string());
    stream.until("turn_start");
    assert_eq!(roles(&history(&client, &path)), ["user"], "a granted tool runs: its call waits for nobody");
    world.traces.make("go");
    stream.rest();
    let ended = history(&client, &path);
    assert!(
        ended.as_array().unwrap().starts_with(stopped.as_array().unwrap()),
        "{ended} begins otherwise than {stopped}"
    );
    let results: Vec<_> = ended.as_array().unwrap()[2..5].iter().map(|result| result["content"].clone()).collect();
    assert_eq!(results, ["here", "waited", "rain"], "what was shown, then the others in call order");
    assert_eq!(ended[5], json!({ "role": "assistant", "content": "Done." }));
}

/// A timer rests, and waits for nobody.
#[test]
fn a_timer_is_no_call_that_waits_for_the_client() {
    let world = World::with_box("", "", AGENT);
    let client = world.client();
    script("shown-timer", [Reply::calls(&[("wait", json!({ "seconds": 3600 }))])]);
    let trusted = json!([{ "name": "wait", "trust": true }]);
    let mut stream = client.open("PUT", "/session", &ask("shown-timer", trusted));
    stream.until("tool_call");
    let session = stream.header("x-session-id").to_owned();
    let native = format!("/api/v1/sessions/{session}");
    crate::suite::harness::eventually("it rests", || {
        (client.send("GET", &native, "").json()["status"] == "waiting").then_some(())
    });
    assert_eq!(roles(&history(&client, &format!("/session/{session}"))), ["user"]);
    assert_eq!(client.send("POST", &format!("{native}/stop"), "").status, 204);
    let ended = history(&client, &format!("/session/{session}"));
    assert_eq!(roles(&ended), ["user", "assistant", "tool"], "{ended}");
}
