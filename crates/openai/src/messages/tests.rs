use everturn_core::{Block, SessionId, TurnId};
use everturn_http::{BodyLimits, parse_json};
use expect_test::{Expect, expect};

use super::*;

/// A message in short.
fn kinds(message: &Message) -> String {
    let content = match message {
        Message::System { content } => return format!("system {content:?}"),
        Message::User { content } | Message::Assistant { content } | Message::Tool { content, .. } => content,
    };
    let block = |block: &Block| match block {
        Block::Text(text) => format!("{text:?}"),
        Block::ToolUse(call) => format!("{}({})", call.name, call.input.as_str()),
        Block::Image { .. } => "image".to_owned(),
        Block::Thinking { .. } | Block::Document { .. } => "?".to_owned(),
    };
    let blocks: Vec<_> = content.clone().into_blocks().iter().map(block).collect();
    format!("{:?} {}", message.role(), blocks.join(" ")).to_lowercase()
}

fn read(messages: &str) -> Result<Conversation, ApiError> {
    let messages = parse_json(messages.as_bytes(), BodyLimits { bytes: 100_000, depth: 20 })?;
    let conversation = Conversation::of(messages, 5)?;
    check_history(&conversation.messages)?;
    Ok(conversation)
}

#[track_caller]
fn check(messages: &str, expected: Expect) {
    let shown = match read(messages) {
        Ok(conversation) => {
            let news = match &conversation.news {
                News::Said(content, results) => {
                    format!("said {:?} after {} results", content.text(), results.len())
                }
                News::Results(results) => {
                    format!("{} results, missing {:?}", results.len(), conversation.missing())
                }
            };
            let messages: Vec<_> = conversation.messages.iter().map(kinds).collect();
            format!("{}\n=> {news}", messages.join("\n"))
        }
        Err(error) => format!("{} [{}]", error.error.message, error.error.param.unwrap_or_default()),
    };
    expected.assert_eq(&shown);
}

#[test]
fn conversations() {
    check(
        r#"[{"role":"developer","content":[{"type":"text","text":"Be "},{"type":"text","text":"brief"}]},
                {"role":"user","content":"hi","name":"ann"},{"role":"assistant","content":null,"refusal":"no"},
                {"role":"user","content":[{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AA==","detail":"low"}}]},
                {"role":"system","content":"now"}]"#,
        expect![[r#"
            system "Be \nbrief"
            user "hi"
            assistant "no"
            user "look" image
            system "now"
            => said "look" after 0 results"#]],
    );
    check(
        r#"[{"role":"user","content":"w"},{"role":"assistant","content":"let me","tool_calls":[
                {"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},
                {"id":"b","type":"function","function":{"name":"g","arguments":""}}]},
                {"role":"tool","tool_call_id":"b","content":[{"type":"text","text":"2"}]}]"#,
        expect![[r#"
                user "w"
                assistant "let me" f({"x":1}) g({})
                tool "2"
                => 1 results, missing ["a"]"#]],
    );
    // LangGraph asks so for an answer in another form; its parts have lines of their own.
    check(
        r#"[{"role":"system","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
                {"role":"user","content":"x"},
                {"role":"assistant","content":[{"type":"text","text":"y"},{"type":"text","text":"z"}]}]"#,
        expect![[r#"
            system "a\nb"
            user "x"
            assistant "y\nz"
            user "continue."
            => said "Continue." after 0 results"#]],
    );
}

#[test]
fn what_cannot_be() {
    let call = r#"{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}}]}"#;
    check("[]", expect!["messages: send at least one message [messages]"]);
    check(
        r#"[{"role":"user","content":""}]"#,
        expect![
            "messages[0].content: it is empty; send a text, or parts with a text or an image [messages[0].content]"
        ],
    );
    check(
        r#"[{"role":"user","content":[{"type":"input_audio"}]}]"#,
        expect![[
            r#"messages[0].content[0].type: parts of type "input_audio" are not supported; use text, image_url or file [messages[0].content[0].type]"#
        ]],
    );
    check(
        r#"[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://x/y.png"}}]}]"#,
        expect![[
            r#"messages[0].content[0].image_url.url: "http://x/y.png" is neither an http:// or https:// URL of a public host nor a data:image/…;base64,… URL [messages[0].content[0].image_url.url]"#
        ]],
    );
    check(
        r#"[{"role":"robot","content":"x"}]"#,
        expect![[
            r#"messages[0].role: "robot" is not known; use system, developer, user, assistant or tool [messages[0].role]"#
        ]],
    );
    check(
        r#"[{"role":"user","content":"x"},{"role":"tool","tool_call_id":"zz","content":"x"}]"#,
        expect![
            "messages[1].tool_call_id: it answers no call of an assistant's message before it; send the message with its tool_calls too [messages[1].tool_call_id]"
        ],
    );
    check(
        &format!(r#"[{call},{call}]"#),
        expect!["messages: the last message calls tools; send their results after it [messages]"],
    );
    check(
        r#"[{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}},
                {"id":"a","function":{"name":"g","arguments":"{}"}}]}]"#,
        expect![
            "messages[0].tool_calls[1].id: it is the id of another call of this message [messages[0].tool_calls[1].id]"
        ],
    );
    check(
        &format!(r#"[{}]"#, call.replace("{}\"", "{\\\"x\\\":[[[[[1]]]]]}\"")),
        expect![
            "messages[0].tool_calls[0].function.arguments: its JSON is nested deeper than 5 levels, which is the limit [messages[0].tool_calls[0].function.arguments]"
        ],
    );
    check(
        r#"[{"role":"user","content":3}]"#,
        expect![
            "the body is not valid at [0].content: invalid type: integer `3`, expected a string or an array of content parts at line 1 column 27 [[0].content]"
        ],
    );
}

#[test]
fn ids_that_are_counted_anew_with_every_answer() {
    let call = |id: &str, name: &str| {
        format!(
            r#"{{"role":"assistant","tool_calls":[{{"id":"{id}","function":{{"name":"{name}","arguments":"{{\"x\":"}}}}]}}"#
        )
    };
    let result = |id: &str, text: &str| format!(r#"{{"role":"tool","tool_call_id":"{id}","content":"{text}"}}"#);
    let rounds = [
        call("c", "f"),
        result("c", "1"),
        call("c", "g"),
        result("c", "2"),
        call("c_2", "h"),
        result("c_2", "3"),
        call("c", "i"),
        result("c", "4"),
    ];
    let conversation = read(&format!("[{}]", rounds.join(","))).unwrap();
    let shown = |message: &Message| match message {
        Message::Tool { call_id, content, .. } => format!("{call_id} = {}", content.text()),
        message => {
            message.tool_uses().map(|call| format!("{} {}{}", call.id, call.name, call.input.as_str())).collect()
        }
    };
    let shown: Vec<_> = conversation.messages.iter().map(shown).collect();
    expect![[r#"
            c f{}
            c = 1
            c_2 g{}
            c_2 = 2
            c_2_1 h{}
            c_2_1 = 3
            c_3 i{}
            c_3 = 4"#]]
    .assert_eq(&shown.join("\n"));
    assert!(conversation.missing().is_empty());
    let missing = read(&format!("[{},{}]", rounds[..7].join(","), result("c_2", "4"))).unwrap().missing();
    assert_eq!(missing, ["c"]);
}

#[test]
fn our_own_ids_know_their_call() {
    let (session, turn, call) = (SessionId::mint(), TurnId::mint(), CallId::mint());
    let id = call_id::shown(&session, &turn, &call);
    let messages = format!(
        r#"[{{"role":"assistant","tool_calls":[{{"id":"{id}","function":{{"name":"f","arguments":"{{}}"}}}}]}},
                {{"role":"tool","tool_call_id":"{id}","content":"x"}}]"#
    );
    let News::Results(mut results) = read(&messages).unwrap().news else { panic!("no results") };
    assert!(results[0].answers(&call) && results[0].place.as_ref().unwrap().may_be_of(&turn));
    assert_eq!(results[0].call().as_str(), id, "its turn is not found yet");
    results[0].find([CallId::mint(), call.clone()].iter());
    assert_eq!(results[0].call(), call);
}
