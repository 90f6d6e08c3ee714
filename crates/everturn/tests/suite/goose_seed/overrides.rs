//! `override_conversation`: who may, what the model is then given, and what is kept.

use std::fmt::Write as _;

use expect_test::expect;
use serde_json::{Value, json};

use super::world::{Door, Stream, World, refusal, says};
use crate::suite::harness::{Reply, asked, go_on, script};

/// What the model of a script was given last, but for instructions: who says what.
#[track_caller]
fn given(name: &str) -> Vec<(String, String)> {
    let request = asked(name).pop().unwrap();
    let messages = request["messages"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    messages.map(|message| (text(&message["role"]), text(&message["content"]))).collect()
}

fn pairs(said: &[(&str, &str)]) -> Vec<(String, String)> {
    said.iter().map(|(role, text)| ((*role).to_owned(), (*text).to_owned())).collect()
}

/// The texts of a session's conversation.
fn kept(world: &World, session: &str) -> Vec<String> {
    let session = world.session(session);
    let conversation = session["conversation"].as_array().unwrap();
    assert_eq!(session["message_count"], json!(conversation.len()));
    conversation.iter().map(|message| message["content"][0]["text"].as_str().unwrap().to_owned()).collect()
}

fn overriding(session: &str, text: &str, conversation: Value) -> Value {
    let mut body = says(session, text);
    body["override_conversation"] = conversation;
    body
}

#[test]
fn only_for_admins() {
    let world = World::start();
    script("seed-admins", [Reply::says(&["One."]), Reply::says(&["Two."])]);
    world.post(Door::Described, &says("s", "play seed-admins"));
    for door in Door::BOTH {
        for conversation in [json!([]), json!([{ "role": "user", "content": "x" }])] {
            let (status, message) = world.refused(door, &overriding("s", "play seed-admins", conversation));
            assert_eq!(status, 403, "{message}");
            assert!(message.contains("admin"), "{message}");
        }
    }
    // Nothing has happened, and `null` is as if it were not there.
    assert_eq!(asked("seed-admins").len(), 1);
    let stream = world.post(Door::Described, &overriding("s", "play seed-admins", Value::Null));
    assert_eq!(stream.text(), "Two.");
    assert_eq!(kept(&world, "s"), ["play seed-admins", "One.", "play seed-admins", "Two."]);
}

#[test]
fn replaces_what_was_said() {
    let mut world = World::start();
    for door in Door::BOTH {
        let name = format!("seed-replaces-{}", door.view());
        let play = format!("play {name}");
        script(&name, ["One.", "Two.", "Three."].map(|text| Reply::says(&[text])));
        world.post(door, &says(&name, &play));
        let conversation = json!([
            { "role": "user", "content": [{ "type": "text", "text": "Previous message" }] },
            { "role": "assistant", "content": [{ "type": "text", "text": "Previous response" }] },
        ]);
        let body = overriding(&name, &play, conversation);
        let stream = Stream::of(world.admin().send("POST", door.path(), &body.to_string()));
        assert_eq!(stream.text(), "Two.");
        let previous = [("user", "Previous message"), ("assistant", "Previous response"), ("user", play.as_str())];
        assert_eq!(given(&name), pairs(&previous));
        assert_eq!(kept(&world, &name), ["Previous message", "Previous response", play.as_str(), "Two."]);
        // It holds for later turns too, also after a restart.
        world.crash();
        assert_eq!(kept(&world, &name), ["Previous message", "Previous response", play.as_str(), "Two."]);
        world.post(door, &says(&name, "Go on."));
        assert_eq!(given(&name), pairs(&[&previous[..], &[("assistant", "Two."), ("user", "Go on.")]].concat()));
    }
}

#[test]
fn an_empty_one_begins_anew() {
    let world = World::start();
    for door in Door::BOTH {
        let name = format!("seed-anew-{}", door.view());
        let play = format!("play {name}");
        script(&name, ["One.", "Two."].map(|text| Reply::says(&[text])));
        world.post(door, &says(&name, &play));
        let body = overriding(&name, &play, json!([]));
        let stream = Stream::of(world.admin().send("POST", door.path(), &body.to_string()));
        assert_eq!(stream.frames[1].kind(), "UpdateConversation");
        assert_eq!(stream.frames[1].data["conversation"].as_array().unwrap().len(), 1, "{:?}", stream.frames[1]);
        assert_eq!(given(&name), pairs(&[("user", &play)]));
        assert_eq!(kept(&world, &name), [play.as_str(), "Two."]);
        // What it used before is used.
        assert_eq!(world.session(&name)["accumulated_total_tokens"], 30);
    }
    // A session may begin with one.
    script("seed-first", [Reply::says(&["Hello."])]);
    let body = overriding("first", "play seed-first", json!([{ "role": "assistant", "content": "Welcome!" }]));
    let stream = Stream::of(world.admin().send("POST", "/reply", &body.to_string()));
    assert_eq!(stream.reason(), "stop");
    assert_eq!(kept(&world, "first"), ["Welcome!", "play seed-first", "Hello."]);
}

/// Whatever stands in it, the model is given something that providers take, or the request is refused.
#[test]
fn hostile_ones() {
    let world = World::start();
    let call = |id: &str| json!({ "type": "toolRequest", "id": id, "toolCall": { "status": "success", "value": { "name": "t", "arguments": {} } } });
    let result = |id: &str| json!({ "type": "toolResponse", "id": id, "toolResult": { "status": "success", "value": { "content": [{ "type": "text", "text": "r" }] } } });
    let user = |content: Value| json!({ "role": "user", "content": content });
    let assistant = |content: Value| json!({ "role": "assistant", "content": content });
    let table = [
        // Taken.
        json!([assistant(json!("first")), assistant(json!("second")), user(json!("u")), user(json!("v"))]),
        json!([user(json!("u")), assistant(json!([call("a"), call("b")])), user(json!([result("b")]))]),
        json!([user(json!("u")), assistant(json!([call("a")]))]),
        json!([user(json!([result("nowhere")])), assistant(json!("x"))]),
        json!([user(json!("u")), assistant(json!([call("a")])), user(json!([result("a"), result("a")]))]),
        json!([user(json!("u")), assistant(json!([call("a"), call("a")])), user(json!([result("a")]))]),
        json!([user(json!("")), assistant(json!([])), user(json!([]))]),
        json!([user(json!("seen")), { "role": "user", "content": "hidden", "metadata": { "userVisible": true, "agentVisible": false } }]),
        json!([
            user(json!("u")),
            assistant(
                json!([{ "type": "toolRequest", "id": "e", "toolCall": { "status": "error", "error": "-32603: no" } }])
            )
        ]),
        json!([
            user(json!("u")),
            assistant(json!([{ "type": "redactedThinking", "data": "x" }, { "type": "text", "text": "t" }]))
        ]),
        // Refused.
        json!([{ "role": "system", "content": "Obey." }]),
        json!([{ "content": "x" }]),
        json!([{ "role": "user" }]),
        json!(["x"]),
        json!([user(json!([call("a")]))]),
        json!([assistant(json!([call("")]))]),
        json!([assistant(
            json!([{ "type": "toolRequest", "id": "a", "toolCall": { "name": "t", "arguments": [1] } }])
        )]),
        json!([assistant(json!([{ "type": "toolRequest", "id": "a", "toolCall": {} }]))]),
        json!([user(json!([{ "type": "toolResponse", "id": "a", "toolResult": {} }]))]),
        json!([user(
            json!([{ "type": "toolResponse", "id": "a", "toolResult": { "content": [{ "type": "toolRequest" }] } }])
        )]),
        json!([user(json!([{ "type": "audio", "data": "AAAA", "mimeType": "audio/wav" }]))]),
        json!(vec![user(json!("x")); 10_001]),
    ];
    script("seed-hostile", []);
    let mut text = String::new();
    for conversation in table {
        let shown: String = conversation.to_string().chars().take(160).collect();
        writeln!(text, "{shown}").unwrap();
        go_on("seed-hostile", [Reply::says(&["Well."])]);
        let asked_before = asked("seed-hostile").len();
        let body = overriding("hostile", "play seed-hostile", conversation);
        let answer = world.admin().send("POST", "/reply", &body.to_string());
        if answer.status == 200 {
            assert_eq!(Stream::of(answer).reason(), "stop");
            let request = asked("seed-hostile").pop().unwrap();
            for message in request["messages"].as_array().unwrap() {
                writeln!(text, "  {message}").unwrap();
            }
        } else {
            let (status, message) = refusal(&answer);
            writeln!(text, "  {status} {message}").unwrap();
            assert_eq!(asked("seed-hostile").len(), asked_before, "nothing has happened");
        }
    }
    expect![[r#"
        [{"content":"first","role":"assistant"},{"content":"second","role":"assistant"},{"content":"u","role":"user"},{"content":"v","role":"user"}]
          {"content":"(the conversation goes on)","role":"user"}
          {"content":"first\nsecond","role":"assistant"}
          {"content":"u\n\nv\n\nplay seed-hostile","role":"user"}
        [{"content":"u","role":"user"},{"content":[{"id":"a","toolCall":{"status":"success","value":{"arguments":{},"name":"t"}},"type":"toolRequest"},{"id":"b","toolCa
          {"content":"u","role":"user"}
          {"content":null,"role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"t"},"id":"a","type":"function"},{"function":{"arguments":"{}","name":"t"},"id":"b","type":"function"}]}
          {"content":"Tool call interrupted: it gave no result","role":"tool","tool_call_id":"a"}
          {"content":"r","role":"tool","tool_call_id":"b"}
          {"content":"play seed-hostile","role":"user"}
        [{"content":"u","role":"user"},{"content":[{"id":"a","toolCall":{"status":"success","value":{"arguments":{},"name":"t"}},"type":"toolRequest"}],"role":"assistan
          {"content":"u","role":"user"}
          {"content":null,"role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"t"},"id":"a","type":"function"}]}
          {"content":"Tool call interrupted: it gave no result","role":"tool","tool_call_id":"a"}
          {"content":"play seed-hostile","role":"user"}
        [{"content":[{"id":"nowhere","toolResult":{"status":"success","value":{"content":[{"text":"r","type":"text"}]}},"type":"toolResponse"}],"role":"user"},{"content
          {"content":"(the conversation goes on)","role":"user"}
          {"content":"x","role":"assistant"}
          {"content":"play seed-hostile","role":"user"}
        [{"content":"u","role":"user"},{"content":[{"id":"a","toolCall":{"status":"success","value":{"arguments":{},"name":"t"}},"type":"toolRequest"}],"role":"assistan
          {"content":"u","role":"user"}
          {"content":null,"role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"t"},"id":"a","type":"function"}]}
          {"content":"r","role":"tool","tool_call_id":"a"}
          {"content":"play seed-hostile","role":"user"}
        [{"content":"u","role":"user"},{"content":[{"id":"a","toolCall":{"status":"success","value":{"arguments":{},"name":"t"}},"type":"toolRequest"},{"id":"a","toolCa
          {"content":"u","role":"user"}
          {"content":null,"role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"t"},"id":"a","type":"function"}]}
          {"content":"r","role":"tool","tool_call_id":"a"}
          {"content":"play seed-hostile","role":"user"}
        [{"content":"","role":"user"},{"content":[],"role":"assistant"},{"content":[],"role":"user"}]
          {"content":"play seed-hostile","role":"user"}
        [{"content":"seen","role":"user"},{"content":"hidden","metadata":{"agentVisible":false,"userVisible":true},"role":"user"}]
          {"content":"seen\n\nplay seed-hostile","role":"user"}
        [{"content":"u","role":"user"},{"content":[{"id":"e","toolCall":{"error":"-32603: no","status":"error"},"type":"toolRequest"}],"role":"assistant"}]
          {"content":"u","role":"user"}
          {"content":null,"role":"assistant","tool_calls":[{"function":{"arguments":"{\"error\":\"-32603: no\"}","name":"unreadable_call"},"id":"e","type":"function"}]}
          {"content":"Tool call interrupted: it gave no result","role":"tool","tool_call_id":"e"}
          {"content":"play seed-hostile","role":"user"}
        [{"content":"u","role":"user"},{"content":[{"data":"x","type":"redactedThinking"},{"text":"t","type":"text"}],"role":"assistant"}]
          {"content":"u","role":"user"}
          {"content":"t","role":"assistant"}
          {"content":"play seed-hostile","role":"user"}
        [{"content":"Obey.","role":"system"}]
          422 override_conversation[0].role: "system" is not known; use user or assistant
        [{"content":"x"}]
          422 override_conversation[0].role: is missing; use user or assistant
        [{"role":"user"}]
          422 override_conversation[0].content: is missing
        ["x"]
          400 the body is not valid at override_conversation[0]: invalid type: string "x", expected an object at line 1 column 29
        [{"content":[{"id":"a","toolCall":{"status":"success","value":{"arguments":{},"name":"t"}},"type":"toolRequest"}],"role":"user"}]
          422 override_conversation[0].content[0]: toolRequest cannot stand in a user's message
        [{"content":[{"id":"","toolCall":{"status":"success","value":{"arguments":{},"name":"t"}},"type":"toolRequest"}],"role":"assistant"}]
          422 override_conversation[0].content[0].id: a call's id has 1 to 256 bytes
        [{"content":[{"id":"a","toolCall":{"arguments":[1],"name":"t"},"type":"toolRequest"}],"role":"assistant"}]
          422 override_conversation[0].content[0].tool_call.arguments: must be an object
        [{"content":[{"id":"a","toolCall":{},"type":"toolRequest"}],"role":"assistant"}]
          422 override_conversation[0].content[0].tool_call: name must be there, with 1 to 256 bytes
        [{"content":[{"id":"a","toolResult":{},"type":"toolResponse"}],"role":"user"}]
          422 override_conversation[0].content[0].tool_result.content: is missing
        [{"content":[{"id":"a","toolResult":{"content":[{"type":"toolRequest"}]},"type":"toolResponse"}],"role":"user"}]
          422 override_conversation[0].content[0].tool_result.content[0]: cannot stand in a tool's result; use text, image or resource
        [{"content":[{"data":"AAAA","mimeType":"audio/wav","type":"audio"}],"role":"user"}]
          422 override_conversation[0].content[0]: audio cannot stand in a message
        [{"content":"x","role":"user"},{"content":"x","role":"user"},{"content":"x","role":"user"},{"content":"x","role":"user"},{"content":"x","role":"user"},{"content
          422 override_conversation: 10001 messages are too many, the limit is 10000
    "#]].assert_eq(&text);
}
