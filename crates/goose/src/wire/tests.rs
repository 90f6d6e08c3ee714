//! Both styles, both ways.

use everturn_core::{
    Block, CallId, Content, Json, Message, MessagePlace, MessageRef, Said, Timestamp, ToolUse, TurnId,
};
use everturn_http::{BodyLimits, Object, parse_json};
use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Conversation, MessageIn, UserSaid, Visible, history, user_message};
use crate::Style;

const LIMITS: BodyLimits = BodyLimits { bytes: 1 << 20, depth: 64 };

fn read(messages: &Value) -> Result<Vec<Message>, String> {
    let body = serde_json::to_vec(messages).unwrap();
    let messages: Vec<Object<MessageIn>> = parse_json(&body, LIMITS).map_err(|error| error.to_string())?;
    let messages = messages.into_iter().map(|Object(message)| message).collect();
    let said = history("conversation", messages, Visible::ToAgents).map_err(|error| error.to_string())?;
    Ok(said.into_iter().map(|(_, message)| message).collect())
}

fn said(message: Value) -> Result<UserSaid, String> {
    let body = serde_json::to_vec(&message).unwrap();
    let Object(message) = parse_json(&body, LIMITS).map_err(|error| error.to_string())?;
    user_message(message).map_err(|error| error.to_string())
}

/// Both contents are read to the same messages, which are these.
#[track_caller]
fn check(role: &str, described: Value, released: Value, expected: Expect) {
    let described = read(&json!([{ "role": role, "content": described, "created_at": "2026-03-04T10:00:00Z" }]));
    let metadata = json!({ "userVisible": true, "agentVisible": true });
    let released = json!([
        { "id": null, "role": role, "content": released, "created": 1_772_618_400, "metadata": metadata }
    ]);
    assert_eq!(described, read(&released));
    expected.assert_eq(&described.map_or_else(
        |error| format!("refused: {error}"),
        |messages| messages.iter().map(|message| format!("{message:?}\n")).collect(),
    ));
}

#[test]
fn both_styles_say_the_same() {
    let text = json!([{ "type": "text", "text": "hi" }]);
    check(
        "user",
        json!("hi"),
        text,
        expect![[r#"
        User { content: Text("hi") }
    "#]],
    );
    check(
        "user",
        json!([{ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "iVBO" } }]),
        json!([{ "type": "image", "data": "iVBO", "mimeType": "image/png" }]),
        expect![[r#"
            User { content: Blocks([Image { url: "data:image/png;base64,iVBO" }]) }
        "#]],
    );
    check(
        "assistant",
        json!([
            { "type": "text", "text": "I look" },
            { "type": "tool_request", "id": "req-123", "tool_call": { "name": "read_file", "arguments": { "path": "a" } } },
        ]),
        json!([
            { "type": "text", "text": "I look" },
            { "type": "toolRequest", "id": "req-123", "metadata": {}, "toolCall": {
                "status": "success", "value": { "name": "read_file", "arguments": { "path": "a" } }
            } },
        ]),
        expect![[r#"
            Assistant { content: Blocks([Text("I look"), ToolUse(ToolUse { id: req-123, name: "read_file", input: {"path":"a"} })]) }
        "#]],
    );
    check(
        "user",
        json!([{ "type": "tool_response", "id": "req-123", "tool_result": {
            "content": [{ "type": "text", "text": "File contents" }], "is_error": true
        } }]),
        json!([{ "type": "toolResponse", "id": "req-123", "toolResult": { "status": "success", "value": {
            "content": [{ "type": "text", "text": "File contents" }], "isError": true
        } } }]),
        expect![[r#"
            Tool { call_id: req-123, content: Text("File contents"), is_error: true }
        "#]],
    );
    check(
        "user",
        json!([{ "type": "tool_response", "id": "c", "tool_result": [{ "type": "text", "text": "old" }] }]),
        json!([{ "type": "toolResponse", "id": "c", "toolResult": {
            "status": "success", "value": [{ "type": "text", "text": "old" }]
        } }]),
        expect![[r#"
            Tool { call_id: c, content: Text("old"), is_error: false }
        "#]],
    );
    check(
        "assistant",
        json!([{ "type": "thinking", "thinking": "hm" }, { "type": "text", "text": "so" }]),
        json!([
            { "type": "thinking", "thinking": "hm", "signature": "proof" },
            { "type": "redactedThinking", "data": "x" },
            { "type": "text", "text": "so", "annotations": { "audience": ["user"] } },
        ]),
        expect![[r#"
            Assistant { content: Blocks([Thinking { text: "hm", signature: None }, Text("so")]) }
        "#]],
    );
}

#[test]
fn what_only_the_releases_have_is_read_too() {
    let error = json!({ "status": "error", "error": "-32603: Something went wrong" });
    let messages = read(&json!([
        { "role": "assistant", "content": [
            { "type": "toolRequest", "id": "a", "toolCall": error },
            { "type": "frontendToolRequest", "id": "b", "toolCall": { "status": "success", "value": { "name": "t" } } },
            { "type": "tool_request", "id": "c", "tool_call": { "name": "t", "arguments": "{\"x\":1}" } },
            { "type": "reasoning", "text": "older releases" },
        ] },
        { "role": "assistant", "metadata": { "userVisible": true, "agentVisible": false }, "content": [
            { "type": "actionRequired", "data": { "actionType": "toolConfirmation", "id": "b", "toolName": "t", "arguments": {} } },
        ] },
        { "role": "user", "content": [
            { "type": "toolResponse", "id": "a", "toolResult": error },
            { "type": "toolResponse", "id": "b", "toolResult": { "status": "success", "value": {
                "content": [
                    { "type": "text", "text": "for people", "annotations": { "audience": ["user"] } },
                    { "type": "text", "text": "for models", "annotations": { "audience": ["assistant"], "priority": 0.0 } },
                    { "type": "image", "data": "AAAA", "mimeType": "image/gif" },
                    { "type": "resource", "resource": { "uri": "file:///a", "text": "inside", "mimeType": "text/plain" } },
                    { "type": "resource", "resource": { "uri": "file:///b", "blob": "AAAA" } },
                    { "type": "resource_link", "uri": "file:///c", "name": "c" },
                    { "type": "audio", "data": "AAAA", "mimeType": "audio/wav" },
                ],
                "structuredContent": { "n": 1 }
            } } },
            { "type": "toolResponse", "id": "c", "toolResult": { "status": "success", "value": { "content": [], "structuredContent": { "n": 1 } } } },
            { "type": "text", "text": "and\u{e0041} now" },
            { "type": "systemNotification", "notificationType": "inlineMessage", "msg": "note" },
        ] },
    ]));
    let shown: String = messages.unwrap().iter().map(|message| format!("{message:?}\n")).collect();
    expect![[r#"
        Assistant { content: Blocks([ToolUse(ToolUse { id: a, name: "unreadable_call", input: {"error":"-32603: Something went wrong"} }), ToolUse(ToolUse { id: b, name: "t", input: {} }), ToolUse(ToolUse { id: c, name: "t", input: {"x":1} }), Thinking { text: "older releases", signature: None }]) }
        Tool { call_id: a, content: Text("-32603: Something went wrong"), is_error: true }
        Tool { call_id: b, content: Blocks([Text("for models"), Image { url: "data:image/gif;base64,AAAA" }, Text("inside"), Text("[resource file:///b]"), Text("[c](file:///c)"), Text("[audio, audio/wav]")]), is_error: false }
        Tool { call_id: c, content: Text("{\"n\":1}"), is_error: false }
        User { content: Text("and now") }
    "#]]
    .assert_eq(&shown);
}

#[track_caller]
fn refused(content: Value, expected: Expect) {
    expected.assert_eq(&said(json!({ "role": "user", "content": content })).unwrap_err());
}

#[test]
fn refusals_say_where_and_why() {
    refused(json!([]), expect!["user_message.content: is empty; send a text or an image"]);
    refused(json!(""), expect!["user_message.content: is empty; send a text or an image"]);
    refused(
        json!(7),
        expect![
            "the body is not valid at content: invalid type: integer `7`, expected a string or an array of objects at line 1 column 12"
        ],
    );
    refused(
        json!([7]),
        expect![
            "the body is not valid at content[0]: invalid type: integer `7`, expected an object at line 1 column 13"
        ],
    );
    refused(
        json!([{ "text": "x" }]),
        expect!["the body is not valid at content[0]: missing field `type` at line 1 column 24"],
    );
    refused(json!([{ "type": "text" }]), expect![[r#"user_message.content[0]: an item of type text needs "text""#]]);
    refused(
        json!([{ "type": "video" }]),
        expect![[
            r#"user_message.content[0]: type "video" is not known; use text, image, tool_request, tool_response, thinking or action_required (toolRequest and so on)"#
        ]],
    );
    refused(
        json!([{ "type": "image", "data": "AAAA" }]),
        expect![[r#"user_message.content[0]: the media type of an image must be such as "image/png"; it is missing"#]],
    );
    refused(
        json!([{ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "a b" } }]),
        expect!["user_message.content[0].source.data: is not base64"],
    );
    refused(
        json!([{ "type": "image", "source": { "type": "url", "url": "file:///etc/passwd" } }]),
        expect![[r#"user_message.content[0].source.url: "file:///etc/passwd" is no https:// URL"#]],
    );
    refused(
        json!([{ "type": "tool_response", "id": "x", "tool_result": [] }]),
        expect![
            "user_message.content[0]: results come from the tools of this server; a message says text, shows images or answers a form"
        ],
    );
    let of = |messages| read(&messages).unwrap_err();
    let call = json!({ "type": "toolRequest", "id": "x", "toolCall": { "status": "success", "value": { "name": "t", "arguments": 7 } } });
    expect!["conversation[0].content[0].tool_call.arguments: must be an object"]
        .assert_eq(&of(json!([{ "role": "assistant", "content": [call] }])));
    expect!["conversation[0].content[0]: toolRequest cannot stand in a user's message"]
        .assert_eq(&of(json!([{ "role": "user", "content": [call] }])));
    expect![[r#"conversation[1].role: "robot" is not known; use user or assistant"#]]
        .assert_eq(&of(json!([{ "role": "user", "content": "x" }, { "role": "robot", "content": "x" }])));
    let nameless = json!({ "type": "tool_response", "id": "", "tool_result": [] });
    expect!["conversation[0].content[0].id: a call's id has 1 to 256 bytes"]
        .assert_eq(&of(json!([{ "role": "user", "content": [nameless] }])));
}

#[test]
fn an_answer_to_a_form_is_no_message() {
    let expected = Ok(UserSaid::Answer { form: "form_1".to_owned(), value: Json::parse(r#"{"k":"v"}"#).unwrap() });
    let data = json!({ "actionType": "elicitationResponse", "id": "form_1", "user_data": { "k": "v" } });
    let metadata = json!({ "userVisible": false, "agentVisible": true });
    assert_eq!(
        said(json!({ "content": [{ "type": "actionRequired", "data": data }], "metadata": metadata })),
        expected
    );
    let flat = json!({ "type": "elicitation_response", "id": "form_1", "user_data": { "k": "v" } });
    assert_eq!(said(json!({ "content": [flat] })), expected);
    let other = json!({ "actionType": "elicitation", "id": "form_1" });
    assert!(said(json!({ "content": [{ "type": "actionRequired", "data": other }] })).is_err());
}

fn text() -> impl Strategy<Value = String> {
    "[a-z \n\"\\\\é🦢]{1,12}"
}

fn image() -> impl Strategy<Value = Block> {
    "[A-Za-z0-9+/]{4,12}".prop_map(|data| Block::Image { url: format!("data:image/png;base64,{data}").into() })
}

fn call() -> impl Strategy<Value = Block> {
    ("[a-z0-9_]{1,8}", "[a-z_]{1,8}", text()).prop_map(|(id, name, value)| {
        let input = Json::of(&json!({ "value": value })).unwrap();
        Block::ToolUse(ToolUse { id: CallId::new(id), name, input })
    })
}

/// In the form in which messages are read: a plain text where there is nothing else.
fn content(blocks: Vec<Block>) -> Content {
    match blocks.as_slice() {
        [Block::Text(text)] => Content::Text(text.clone()),
        _ => Content::Blocks(blocks),
    }
}

fn message() -> impl Strategy<Value = Message> {
    let spoken = || prop_oneof![text().prop_map(Block::Text), image()];
    let thought = text().prop_map(|text| Block::Thinking { text, signature: None });
    let blocks = prop::collection::vec(spoken(), 1..4);
    let answer = prop::collection::vec(prop_oneof![text().prop_map(Block::Text), call(), thought], 1..4);
    let result = (prop::collection::vec(spoken(), 0..4), "[a-z0-9_]{1,8}", any::<bool>());
    prop_oneof![
        blocks.prop_map(|blocks| Message::User { content: content(blocks) }),
        answer.prop_map(|blocks| Message::Assistant { content: content(blocks) }),
        result.prop_map(|(blocks, id, is_error)| {
            let content = if blocks.is_empty() { Content::Text(String::new()) } else { content(blocks) };
            Message::Tool { call_id: CallId::new(id), content, is_error }
        }),
    ]
}

/// Anything, made of the words that messages are made of.
fn anything() -> impl Strategy<Value = Value> {
    let words = "type|text|id|role|user|assistant|content|toolCall|tool_call|toolResult|tool_result|value|name|arguments|status|\
        success|error|image|data|mimeType|source|media_type|image/png|toolRequest|tool_response|actionRequired|actionType|\
        elicitationResponse|user_data|annotations|audience|resource|uri|metadata|userVisible|created|created_at|thinking|.{0,6}";
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        words.prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::hash_map(words, inner, 0..6).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_sent_is_read_back(messages in prop::collection::vec(message(), 1..5)) {
        let turn: TurnId = "turn_1".parse().unwrap();
        let named = |(number, message): (u32, &Message)| Said {
            id: MessageRef { turn: TurnId::clone(&turn), place: MessagePlace::Input(number) },
            at: Timestamp(1_772_618_400_000),
            message: message.clone(),
        };
        let said: Vec<_> = (1..).zip(&messages).map(named).collect();
        let shown = serde_json::to_value(Conversation { style: Style::Released, said: &said }).unwrap();
        prop_assert_eq!(read(&shown), Ok(messages.clone()));
        // The text of the protocol has no reasoning.
        let shown = serde_json::to_value(Conversation { style: Style::Described, said: &said }).unwrap();
        let thoughtless = messages.into_iter().filter_map(without_thoughts).collect::<Vec<_>>();
        prop_assert_eq!(read(&shown), Ok(thoughtless));
    }

    #[test]
    fn nothing_from_outside_makes_us_panic(value in anything()) {
        let _ = said(value.clone());
        let _ = said(json!({ "role": "user", "content": value }));
        let _ = said(json!({ "role": "user", "content": [value] }));
        let _ = read(&json!([{ "role": "assistant", "content": [value] }]));
        let _ = read(&json!([{ "role": "assistant", "content": [{ "type": "toolRequest", "id": "a", "toolCall": value }] }]));
        let _ = read(&json!([{ "role": "user", "content": [{ "type": "toolResponse", "id": "a", "toolResult": value }] }]));
        let _ = read(&value);
    }
}

fn without_thoughts(message: Message) -> Option<Message> {
    let Message::Assistant { content: Content::Blocks(blocks) } = message else { return Some(message) };
    let blocks: Vec<_> = blocks.into_iter().filter(|block| !matches!(block, Block::Thinking { .. })).collect();
    (!blocks.is_empty()).then(|| Message::Assistant { content: content(blocks) })
}
