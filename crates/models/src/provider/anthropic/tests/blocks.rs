//! Documents, results and marks for the cache in requests; counts and reasons to stop in answers.

use std::sync::Arc;

use everturn_core::{Block, Content, DocumentId, Message, Usage};
use expect_test::expect;
use serde_json::{Value, json};

use super::{Session, call, clock, read, sse, text, thought};
use crate::{
    model::{DocumentContent, ModelEvent, ModelFinish},
    provider::call::Origin,
};

#[test]
fn documents_and_failed_results() {
    let (pdf, word) = (DocumentId::mint(), DocumentId::mint());
    let document = |name: &str, media_type: &str| DocumentContent {
        name: name.into(),
        media_type: media_type.into(),
        text: format!("# {name}"),
        base64: Some("JVBE".into()),
    };
    let documents =
        [(pdf.clone(), document("a.pdf", "application/pdf")), (word.clone(), document("b.docx", "application/msword"))];
    let mut session = Session::new("claude-opus-5-5");
    session.request.documents = Arc::new(documents.into_iter().collect());
    let named = |id: &DocumentId| Block::Document { id: id.clone(), name: "x".into() };
    session.messages =
        vec![Message::User { content: Content::Blocks(vec![named(&pdf), named(&word), Block::Text("Read.".into())]) }];
    session.answer(&[call("1"), call("2"), call("3")]);
    let photo = Block::Image { url: "data:image/png;base64,iVBO".into() };
    for (at, content, failed) in [
        (2, Content::Blocks(vec![photo.clone()]), true),
        (3, Content::Text(String::new()), false),
        (4, Content::Blocks(vec![Block::Text("seen".into()), photo]), false),
    ] {
        let Message::Tool { call_id, .. } = &session.messages[at] else { unreachable!() };
        session.messages[at] = Message::Tool { call_id: call_id.clone(), content, is_error: failed };
    }
    session.messages.push(Message::user("Well?"));
    let lines: Vec<String> = session.sent().iter().map(|message| message["content"].to_string()).collect();
    expect![[r##"
        [{"source":{"data":"JVBE","media_type":"application/pdf","type":"base64"},"title":"a.pdf","type":"document"},{"text":"# b.docx","type":"text"},{"text":"Read.","type":"text"}]
        [{"id":"call_1_0","input":{"zone":"UTC"},"name":"clock","type":"tool_use"},{"id":"call_1_1","input":{"zone":"UTC"},"name":"clock","type":"tool_use"},{"id":"call_1_2","input":{"zone":"UTC"},"name":"clock","type":"tool_use"}]
        [{"content":[{"text":"(no output)","type":"text"}],"is_error":true,"tool_use_id":"call_1_0","type":"tool_result"},{"tool_use_id":"call_1_1","type":"tool_result"},{"content":[{"text":"seen","type":"text"},{"source":{"data":"iVBO","media_type":"image/png","type":"base64"},"type":"image"}],"tool_use_id":"call_1_2","type":"tool_result"},{"text":"The images of the failed tool calls above:","type":"text"},{"source":{"data":"iVBO","media_type":"image/png","type":"base64"},"type":"image"},{"text":"Well?","type":"text"}]"##]].assert_eq(&lines.join("\n"));
    session.model = "claude-3-haiku-20240307";
    expect![[r##"{"content":[{"text":"# a.pdf","type":"text"},{"text":"# b.docx","type":"text"},{"text":"Read.","type":"text"}],"role":"user"}"##]].assert_eq(&session.sent()[0].to_string());
}

#[test]
fn what_comes_again_is_marked_for_the_cache() {
    let marks = |session: &Session| {
        let body = session.body();
        let mut paths = Vec::new();
        find_marks(&body, "", &mut paths);
        paths.join(" ")
    };
    let mut session = Session::new("claude-opus-5-5");
    session.request.tools = [clock()].into();
    assert_eq!(marks(&session), "/messages/0/content/0 /system/0");
    session.answer(&[thought("", "A"), text("Two."), call("1"), call("2")]);
    assert_eq!(marks(&session), "/messages/0/content/0 /messages/2/content/1 /system/0");
    session.answer(&[thought("", "A"), text("Two.")]);
    assert_eq!(marks(&session), "/messages/2/content/1 /messages/4/content/0 /system/0");
    session.request.system = String::new();
    assert_eq!(marks(&session), "/messages/2/content/1 /messages/4/content/0 /tools/0");
}

fn find_marks(value: &Value, path: &str, found: &mut Vec<String>) {
    if value.get("cache_control").is_some() {
        found.push(path.to_owned());
    }
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| find_marks(value, &format!("{path}/{name}"), found));
        }
        Value::Array(values) => {
            values.iter().enumerate().for_each(|(at, value)| find_marks(value, &format!("{path}/{at}"), found));
        }
        _ => {}
    }
}

#[test]
fn counts_are_totals_and_the_last_one_counts() {
    let frames = [
        json!({"type": "message_start", "message": {"usage": {"input_tokens": 10, "cache_creation_input_tokens": 200,
            "cache_read_input_tokens": 3000, "output_tokens": 1, "output_tokens_details": null}}}),
        json!({"type": "message_delta", "delta": {}, "usage": {"output_tokens": 20, "input_tokens": 0}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 50,
            "input_tokens": 11, "cache_read_input_tokens": null, "output_tokens_details": {"thinking_tokens": 40}}}),
        json!({"type": "message_stop"}),
    ];
    let frames: String = frames.iter().map(|frame| format!("data: {frame}\n\n")).collect();
    let last = read(&frames, Origin::default()).pop().unwrap();
    let usage = Usage { input: 3211, output: 50, cached_input: 3000, cache_write: 200, reasoning: 40 };
    assert_eq!(last, ModelEvent::Finished { finish: ModelFinish::Stop, usage: Some(usage) });
}

#[test]
fn reasons_to_stop() {
    for (reason, expected) in [
        ("end_turn", ModelFinish::Stop),
        ("tool_use", ModelFinish::Stop),
        ("stop_sequence", ModelFinish::Stop),
        ("pause_turn", ModelFinish::Stop),
        ("compaction", ModelFinish::Stop),
        ("max_tokens", ModelFinish::MaxTokens),
        ("refusal", ModelFinish::Refusal),
    ] {
        // A call whose input was cut is none that may run.
        let cut = sse(&[call("toolu_1")]).replace("UTC\\\"}", "").replace("end_turn", reason);
        let events = read(&cut, Origin::default());
        assert!(events.iter().any(|event| matches!(event, ModelEvent::BadToolCall { .. })), "{cut}");
        let Some(ModelEvent::Finished { finish, .. }) = events.last() else { panic!("{reason}") };
        assert_eq!(*finish, expected, "{reason}");
    }
}
