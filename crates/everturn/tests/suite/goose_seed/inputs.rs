//! What clients may say, in either style, at either door.

use std::fmt::Write as _;

use expect_test::expect;
use serde_json::{Value, json};

use super::world::{Door, Stream, World};
use crate::suite::harness::{Reply, asked, go_on, key, script};

const PNG: &str = "iVBORw0KGgo=";

/// The last message that the model of a script was given.
#[track_caller]
fn given(name: &str) -> Value {
    let last = asked(name).pop().unwrap();
    last["messages"].as_array().unwrap().last().unwrap()["content"].clone()
}

#[test]
fn contents_in_every_style() {
    let world = World::start();
    let url = format!("data:image/png;base64,{PNG}");
    let text = json!({ "type": "text", "text": "play seed-inputs" });
    let shown = json!([text, { "type": "image_url", "image_url": { "url": url } }]);
    let source = json!({ "type": "base64", "media_type": "image/png", "data": PNG });
    let table = [
        (json!("play seed-inputs"), json!("play seed-inputs")),
        (json!([text]), json!("play seed-inputs")),
        (
            json!([{ "type": "text", "text": "play seed-inputs", "annotations": { "audience": ["user"] }, "_meta": {} }]),
            json!("play seed-inputs"),
        ),
        (json!([text, { "type": "image", "source": source }]), shown.clone()),
        (json!([text, { "type": "image", "data": PNG, "mimeType": "image/png" }]), shown.clone()),
        (json!([text, { "type": "image", "data": PNG, "mimeType": "image/png", "annotations": {} }]), shown),
        // What people do not see is not given to the model either.
        (json!([{ "type": "text", "text": "play seed-inputs\u{e0041}\u{e0042}" }]), json!("play seed-inputs")),
        // What Goose's own software puts into messages says nothing to anybody.
        (
            json!([text, { "type": "systemNotification", "notificationType": "inlineMessage", "msg": "psst" }]),
            json!("play seed-inputs"),
        ),
    ];
    script("seed-inputs", []);
    for door in Door::BOTH {
        for (content, expected) in &table {
            go_on("seed-inputs", [Reply::says(&["Seen."])]);
            let stream = world.post(door, &json!({ "user_message": { "role": "user", "content": content } }));
            assert_eq!((stream.text().as_str(), stream.reason()), ("Seen.", "stop"), "{door:?} {content}");
            assert_eq!(given("seed-inputs"), *expected, "{door:?} {content}");
        }
    }
}

/// Whatever else a client knows of its message, in whichever style, or nothing.
#[test]
fn envelopes_in_every_style() {
    let world = World::start();
    let table = [
        json!({}),
        json!({ "role": "user" }),
        json!({ "created_at": "2026-03-04T10:00:00Z" }),
        json!({ "created_at": "2026-03-04T11:00:00.5+01:00", "metadata": {} }),
        json!({ "created": 1_772_618_400, "metadata": { "userVisible": true, "agentVisible": true } }),
        json!({ "created": 1_772_618_400, "role": "user", "id": "k3j9x0ab" }),
        json!({ "created": null, "created_at": null, "metadata": null, "id": null }),
        json!({ "metadata": { "userVisible": false, "agentVisible": true, "steer": true, "inference": {} } }),
        json!({ "unknown": [1, { "deep": true }] }),
    ];
    script("seed-envelopes", []);
    for door in Door::BOTH {
        for (index, envelope) in table.iter().enumerate() {
            go_on("seed-envelopes", [Reply::says(&["Seen."])]);
            let mut message = envelope.clone();
            message["content"] = json!("play seed-envelopes");
            let body = json!({ "session_id": format!("{}-{index}", door.view()), "user_message": message });
            assert_eq!(world.post(door, &body).text(), "Seen.", "{door:?} {envelope}");
            assert_eq!(given("seed-envelopes"), "play seed-envelopes", "{door:?} {envelope}");
        }
    }
}

/// A conversation with a call, its result and an image, in the one style and in the other.
fn conversations() -> [Value; 3] {
    let described = json!([
        { "role": "user", "content": "What is in the file?", "created_at": "2026-03-04T10:00:00Z" },
        { "role": "assistant", "content": [
            { "type": "text", "text": "I look." },
            { "type": "tool_request", "id": "req-123", "tool_call": { "name": "read_file", "arguments": { "path": "/a" } } },
        ] },
        { "role": "user", "content": [{ "type": "tool_response", "id": "req-123", "tool_result": {
            "content": [{ "type": "text", "text": "File contents here..." }], "is_error": false } }] },
        { "role": "assistant", "content": [{ "type": "text", "text": "Contents." }] },
        { "role": "user", "content": [
            { "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": PNG } },
        ] },
        { "role": "assistant", "content": [
            { "type": "tool_request", "id": "req-124", "tool_call": { "name": "draw", "arguments": {} } },
        ] },
        { "role": "user", "content": [{ "type": "tool_response", "id": "req-124", "tool_result": {
            "content": [{ "type": "text", "text": "no ink" }], "is_error": true } }] },
    ]);
    let meta = json!({ "userVisible": true, "agentVisible": true });
    let message = |role: &str, content: Value| json!({ "id": "msg_1", "role": role, "created": 1_772_618_400, "content": content, "metadata": meta });
    let success = |value: Value| json!({ "status": "success", "value": value });
    let released = json!([
        message("user", json!([{ "type": "text", "text": "What is in the file?" }])),
        message(
            "assistant",
            json!([
                { "type": "thinking", "thinking": "Hm.", "signature": "" },
                { "type": "text", "text": "I look." },
                { "type": "toolRequest", "id": "req-123",
                  "toolCall": success(json!({ "name": "read_file", "arguments": { "path": "/a" } })) },
            ])
        ),
        message(
            "user",
            json!([{ "type": "toolResponse", "id": "req-123", "toolResult": success(json!({
            "content": [{ "type": "text", "text": "File contents here..." }], "isError": false })) }])
        ),
        message("assistant", json!([{ "type": "text", "text": "Contents." }])),
        message("user", json!([{ "type": "image", "data": PNG, "mimeType": "image/png" }])),
        message(
            "assistant",
            json!([
                { "type": "toolRequest", "id": "req-124", "toolCall": success(json!({ "name": "draw" })) },
            ])
        ),
        message(
            "user",
            json!([
                { "type": "toolResponse", "id": "req-124", "toolResult": { "status": "error", "error": "no ink" } },
            ])
        ),
    ]);
    // Results as bare lists, as the first releases had them; arguments as text, as some providers have them.
    let mut old = released.clone();
    old[2]["content"][0]["toolResult"] = success(json!([{ "type": "text", "text": "File contents here..." }]));
    old[1]["content"][2]["toolCall"]["value"]["arguments"] = json!("{\"path\":\"/a\"}");
    old[3]["content"] = json!("Contents.");
    [described, released, old]
}

#[test]
fn conversations_in_every_style() {
    let world = World::start();
    script("seed-conversations", []);
    for door in Door::BOTH {
        for conversation in conversations() {
            go_on("seed-conversations", [Reply::says(&["I see."])]);
            let body = json!({
                "user_message": { "content": "play seed-conversations" },
                "override_conversation": conversation,
            });
            let stream = Stream::of(world.admin().send("POST", door.path(), &body.to_string()));
            assert_eq!((stream.text().as_str(), stream.reason()), ("I see.", "stop"));
        }
    }
    let asked = asked("seed-conversations");
    for request in &asked[1..] {
        assert_eq!(request["messages"], asked[0]["messages"], "all mean the same");
    }
    let mut given = String::new();
    for message in asked[0]["messages"].as_array().unwrap() {
        writeln!(given, "{message}").unwrap();
    }
    expect![[r#"
        {"content":"What is in the file?","role":"user"}
        {"content":"I look.","role":"assistant","tool_calls":[{"function":{"arguments":"{\"path\":\"/a\"}","name":"read_file"},"id":"req-123","type":"function"}]}
        {"content":"File contents here...","role":"tool","tool_call_id":"req-123"}
        {"content":"Contents.","role":"assistant"}
        {"content":[{"image_url":{"url":"data:image/png;base64,iVBORw0KGgo="},"type":"image_url"}],"role":"user"}
        {"content":null,"role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"draw"},"id":"req-124","type":"function"}]}
        {"content":"no ink","role":"tool","tool_call_id":"req-124"}
        {"content":"play seed-conversations","role":"user"}
    "#]].assert_eq(&given);
}

/// Messages may bring images, so more than other requests: up to 50 MiB.
#[test]
fn large_requests() {
    let world = World::start();
    script("seed-large", Door::BOTH.map(|_| Reply::says(&["Seen."])));
    for door in Door::BOTH {
        let mut body = json!({ "user_message": { "content": "play seed-large" } });
        body["padding"] = json!("x".repeat(40 << 20));
        assert_eq!(world.post(door, &body).text(), "Seen.");
        // Said beforehand, so that nobody has to send it.
        let length = (51_usize << 20).to_string();
        let head = format!(
            "POST {} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\nConnection: close\r\n\r\n",
            door.path(),
            key("acme"),
        );
        let answer = world.server.raw(head.as_bytes());
        assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains("52428800"), "{answer}");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let world = World::start();
    let item = |item: Value| json!({ "user_message": { "role": "user", "content": [item] } });
    let call = json!({ "name": "read_file", "arguments": {} });
    let image = |kind: &str, data: Value| json!({ "type": "image", "mimeType": kind, "data": data });
    let table = [
        json!({}),
        json!({ "user_message": null }),
        json!({ "user_message": {} }),
        json!({ "user_message": { "content": "" } }),
        json!({ "user_message": { "content": [] } }),
        json!({ "user_message": { "content": { "type": "text", "text": "x" } } }),
        json!({ "user_message": { "role": "assistant", "content": "x" } }),
        json!({ "user_message": { "role": "user", "content": "x", "created_at": "yesterday" } }),
        json!({ "user_message": { "role": "user", "content": "x", "id": "" } }),
        json!({ "user_message": { "role": "user", "content": "x", "id": "i".repeat(257) } }),
        item(json!({ "type": "text" })),
        item(json!({ "type": "text", "text": "" })),
        item(json!({ "type": "text", "text": 7 })),
        item(json!({ "text": "x" })),
        item(json!("x")),
        item(json!({ "type": "video", "url": "x" })),
        item(json!({ "type": "image" })),
        item(image("image/png", json!("no base64!"))),
        item(image("text/html", json!("AAAA"))),
        item(image("image/png;x", json!("AAAA"))),
        item(image("image/png", json!(7))),
        item(json!({ "type": "image", "source": { "type": "base64", "data": "AAAA" } })),
        item(json!({ "type": "image", "source": { "type": "url", "url": "file:///etc/passwd" } })),
        item(json!({ "type": "tool_request", "id": "a", "tool_call": call })),
        item(json!({ "type": "toolResponse", "id": "a", "toolResult": { "status": "success", "value": [] } })),
        item(json!({ "type": "thinking", "thinking": "x", "signature": "" })),
        item(json!({ "type": "resource", "resource": { "uri": "a", "text": "x" } })),
        item(json!({ "type": "actionRequired", "data": { "actionType": "toolConfirmation", "id": "a" } })),
        item(json!({ "type": "actionRequired", "data": { "actionType": "elicitationResponse", "id": "form_1" } })),
        json!({ "session_id": "a b", "user_message": { "content": "x" } }),
        json!({ "session_id": "", "user_message": { "content": "x" } }),
        json!({ "session_id": "s".repeat(129), "user_message": { "content": "x" } }),
        json!({ "session_id": 7, "user_message": { "content": "x" } }),
        json!({ "agent": "nobody", "user_message": { "content": "x" } }),
        json!({ "recipe_version": "1.0.0", "user_message": { "content": "x" } }),
        json!({ "recipe_name": "code-helper", "user_message": { "content": "x" } }),
        json!({ "override_conversation": "x", "user_message": { "content": "x" } }),
    ];
    let mut text = String::new();
    for body in &table {
        let [described, released] = Door::BOTH.map(|door| world.refused(door, body));
        assert_eq!(described, released, "{body}");
        let shown: String = body.to_string().chars().take(120).collect();
        writeln!(text, "{shown}\n  {} {}", described.0, described.1).unwrap();
    }
    assert_eq!(world.client().send("GET", "/goose/sessions", "").json()["sessions"], json!([]), "nothing was made");
    expect![[r#"
        {}
          422 user_message is missing
        {"user_message":null}
          422 user_message is missing
        {"user_message":{}}
          422 user_message.content: is missing
        {"user_message":{"content":""}}
          422 user_message.content: is empty; send a text or an image
        {"user_message":{"content":[]}}
          422 user_message.content: is empty; send a text or an image
        {"user_message":{"content":{"text":"x","type":"text"}}}
          400 the body is not valid at user_message.content: invalid type: map, expected a string or an array of objects at line 1 column 28
        {"user_message":{"content":"x","role":"assistant"}}
          422 user_message.role: must be "user"
        {"user_message":{"content":"x","created_at":"yesterday","role":"user"}}
          400 the body is not valid at user_message.created_at: invalid value: string "yesterday", expected seconds since 1970, or a time such as 2026-03-04T10:00:00Z at line 1 column 55
        {"user_message":{"content":"x","id":"","role":"user"}}
          422 user_message.id: a message's id has 1 to 256 bytes
        {"user_message":{"content":"x","id":"iiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiii
          422 user_message.id: a message's id has 1 to 256 bytes
        {"user_message":{"content":[{"type":"text"}],"role":"user"}}
          422 user_message.content[0]: an item of type text needs "text"
        {"user_message":{"content":[{"text":"","type":"text"}],"role":"user"}}
          422 user_message.content: is empty; send a text or an image
        {"user_message":{"content":[{"text":7,"type":"text"}],"role":"user"}}
          400 the body is not valid at user_message.content[0].text: invalid type: integer `7`, expected a string at line 1 column 37
        {"user_message":{"content":[{"text":"x"}],"role":"user"}}
          400 the body is not valid at user_message.content[0]: missing field `type` at line 1 column 40
        {"user_message":{"content":["x"],"role":"user"}}
          400 the body is not valid at user_message.content[0]: invalid type: string "x", expected an object at line 1 column 31
        {"user_message":{"content":[{"type":"video","url":"x"}],"role":"user"}}
          422 user_message.content[0]: type "video" is not known; use text, image, tool_request, tool_response, thinking or action_required (toolRequest and so on)
        {"user_message":{"content":[{"type":"image"}],"role":"user"}}
          422 user_message.content[0]: an image needs data, in base64, and its media type
        {"user_message":{"content":[{"data":"no base64!","mimeType":"image/png","type":"image"}],"role":"user"}}
          422 user_message.content[0].data: is not base64
        {"user_message":{"content":[{"data":"AAAA","mimeType":"text/html","type":"image"}],"role":"user"}}
          422 user_message.content[0]: the media type of an image must be such as "image/png"; it is "text/html"
        {"user_message":{"content":[{"data":"AAAA","mimeType":"image/png;x","type":"image"}],"role":"user"}}
          422 user_message.content[0]: the media type of an image must be such as "image/png"; it is "image/png;x"
        {"user_message":{"content":[{"data":7,"mimeType":"image/png","type":"image"}],"role":"user"}}
          422 user_message.content[0].data: invalid type: integer `7`, expected a string
        {"user_message":{"content":[{"source":{"data":"AAAA","type":"base64"},"type":"image"}],"role":"user"}}
          422 user_message.content[0].source: the media type of an image must be such as "image/png"; it is missing
        {"user_message":{"content":[{"source":{"type":"url","url":"file:///etc/passwd"},"type":"image"}],"role":"user"}}
          422 user_message.content[0].source.url: "file:///etc/passwd" is no https:// URL
        {"user_message":{"content":[{"id":"a","tool_call":{"arguments":{},"name":"read_file"},"type":"tool_request"}],"role":"us
          422 user_message.content[0]: tool_request is for the assistant's messages
        {"user_message":{"content":[{"id":"a","toolResult":{"status":"success","value":[]},"type":"toolResponse"}],"role":"user"
          422 user_message.content[0]: results come from the tools of this server; a message says text, shows images or answers a form
        {"user_message":{"content":[{"signature":"","thinking":"x","type":"thinking"}],"role":"user"}}
          422 user_message.content[0]: thinking is for the assistant's messages
        {"user_message":{"content":[{"resource":{"text":"x","uri":"a"},"type":"resource"}],"role":"user"}}
          422 user_message.content[0]: resource is for the results of tools
        {"user_message":{"content":[{"data":{"actionType":"toolConfirmation","id":"a"},"type":"actionRequired"}],"role":"user"}}
          422 user_message.content[0]: is no answer; send actionType "elicitationResponse"
        {"user_message":{"content":[{"data":{"actionType":"elicitationResponse","id":"form_1"},"type":"actionRequired"}],"role":
          422 user_message.content[0]: an answer to a form needs user_data
        {"session_id":"a b","user_message":{"content":"x"}}
          422 session_id: an id is made of A-Z a-z 0-9 . _ - only, this one has ' '
        {"session_id":"","user_message":{"content":"x"}}
          422 session_id: an id has 1 to 128 characters, this one has 0
        {"session_id":"sssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssss
          422 session_id: an id has 1 to 128 characters, this one has 129
        {"session_id":7,"user_message":{"content":"x"}}
          400 the body is not valid at session_id: invalid type: integer `7`, expected a string at line 1 column 15
        {"agent":"nobody","user_message":{"content":"x"}}
          422 there is no agent "nobody"; there are: goose, twofold, demo, scripted, short, small, lines, hasty, plain
        {"recipe_version":"1.0.0","user_message":{"content":"x"}}
          422 recipe_version: say which recipe in recipe_name
        {"recipe_name":"code-helper","user_message":{"content":"x"}}
          404 this server has no recipes; put them into a folder and name it in the configuration: [recipes] dir
        {"override_conversation":"x","user_message":{"content":"x"}}
          400 the body is not valid at override_conversation: invalid type: string "x", expected a sequence at line 1 column 28
    "#]].assert_eq(&text);
}
