//! What the demo model does with the built-in tools for forms, pauses and artifacts, and with a request for a title.

use std::time::Duration;

use everturn_core::{CallId, Content, Json, Message, ToolUse};
use everturn_models::{DemoModel, Model, ModelEvent, ModelRequest, Pace};
use everturn_tools::{ArtifactInput, FormRequest, InputStream, Piece, ToolSet, WaitRequest, builtin_tools};
use expect_test::{Expect, expect};
use futures_util::StreamExt;

use super::transcript::answer;

fn request(messages: Vec<Message>) -> ModelRequest {
    let tools = builtin_tools().iter().map(|tool| tool.spec().clone()).collect();
    ModelRequest { messages: messages.into(), tools, ..ModelRequest::default() }
}

fn unpaced() -> DemoModel {
    DemoModel::new("demo/assistant", Pace::Unpaced)
}

/// Shows the answer, with the pieces of a call's input joined.
async fn check(messages: Vec<Message>, expect: Expect) {
    let shown = answer(&unpaced(), request(messages)).await.replace(" |", " ");
    let lines = shown.lines().filter(|line| !line.contains(" input: ") && !line.starts_with("finished"));
    expect.assert_eq(&lines.collect::<Vec<_>>().join("\n"));
}

/// A call and its result, as history has them.
fn called(name: &str, input: &Json, result: &str) -> Vec<Message> {
    let call = ToolUse { id: CallId::new("call_1"), name: name.to_owned(), input: input.clone() };
    let content = Content::answer(String::new(), None, String::new(), vec![call]);
    vec![Message::user("do it"), Message::Assistant { content }, Message::tool(CallId::new("call_1"), result)]
}

async fn check_result(name: &str, input: &str, result: &str, expect: Expect) {
    check(called(name, &Json::parse(input).unwrap(), result), expect).await;
}

/// The call that a message leads to: the pieces of its input, and the whole, which the tool takes.
async fn call(messages: Vec<Message>) -> (Vec<String>, Json) {
    let mut stream = unpaced().stream(request(messages)).await.unwrap();
    let mut pieces = Vec::new();
    let mut started = false;
    while let Some(event) = stream.next().await {
        match event.unwrap() {
            ModelEvent::ToolCallStarted { part: 0, .. } => started = true,
            ModelEvent::ToolInputDelta { part: 0, json } => {
                assert!(started, "a piece before the call");
                pieces.push(json);
            }
            ModelEvent::ToolCall { part: 0, name, input } => {
                ToolSet::new(builtin_tools()).unwrap().validate("acme", &name, &input).await.unwrap();
                match name.as_str() {
                    "request_form" => drop(FormRequest::parse(&input).unwrap()),
                    "wait" => drop(WaitRequest::parse(&input).unwrap()),
                    name => drop(ArtifactInput::parse(name, &input).unwrap()),
                }
                return (pieces, input);
            }
            _ => {}
        }
    }
    panic!("no call");
}

#[tokio::test]
async fn help_shows_what_to_say() {
    check(vec![Message::user("help")], expect![[r#"
        text: Hello! I am the demo model. I am a small script inside the server: I need no key and no network, and the same request always gets the same answer. Try one of these:

        - `why is the sky blue?`: I think before I answer.
        - `what time is it?`: I call `clock`.
        - `what is 12*7?`: I call `calculator`.
        - `ask me for a colour`: I show you a form and wait for your answer.
        - `wait 10 seconds`: the turn rests, and goes on by itself.
        - `write a page about tea`: I write an artifact while you watch.
        - `change it`: I write a new version of the last artifact.
        - `read_result`: I call that tool. Add its input as JSON if you like.
        - `clock and calculator`: I call both at the same time.
        - `stream 200 at 20/s`: a long answer at the pace you choose.
        - `refuse`, `max tokens` or `fail`: other ways for a turn to end.
        - an image: I count it."#]]).await;
}

#[tokio::test]
async fn forms_are_asked_for() {
    check(vec![Message::user("Show me a form")], expect![[r#"
        text: I call `request_form`.
        call 0 started: request_form
        call 0: request_form {"kind":"clarify","title":"A few details, please","description":"The demo model asks because you said “Show me a form”.","schema":{"type":"object","properties":{"colour":{"type":"string","title":"Colour","enum":["red","green","blue"]},"quantity":{"type":"integer","title":"Quantity","minimum":1,"maximum":100}},"required":["colour","quantity"],"additionalProperties":false}}"#]]).await;
    check(vec![Message::user("let me sign it")], expect![[r#"
        text: I call `request_form`.
        call 0 started: request_form
        call 0: request_form {"kind":"signature","title":"Please sign","description":"The demo model asks because you said “let me sign it”.","schema":{"type":"object","properties":{"name":{"type":"string","title":"Your full name","minLength":1}},"required":["name"],"additionalProperties":false}}"#]]).await;
    check(vec![Message::user("connect my calendar")], expect![[r#"
        text: I call `request_form`.
        call 0 started: request_form
        call 0: request_form {"kind":"integration","title":"Connect a service","description":"The demo model asks because you said “connect my calendar”.","schema":{"type":"object","properties":{"service":{"type":"string","title":"Service","minLength":1},"key":{"type":"string","title":"Key","format":"password","writeOnly":true,"minLength":1}},"required":["service","key"],"additionalProperties":false}}"#]]).await;
    check(vec![Message::user("may I approve that?")], expect![[r#"
        text: I call `request_form`.
        call 0 started: request_form
        call 0: request_form {"kind":"approval","title":"Do you approve?","description":"The demo model asks because you said “may I approve that?”."}"#]]).await;
}

#[tokio::test]
async fn answers_to_forms_are_used() {
    check_result(
        "request_form",
        r#"{"kind":"clarify"}"#,
        r#"{"colour":"error red","quantity":2}"#,
        expect!["text: Thank you. You answered: colour is “error red”, quantity is 2."],
    )
    .await;
    check_result(
        "request_form",
        r#"{"kind":"approval"}"#,
        r#"{"approved":true}"#,
        expect!["text: Thank you, you approved it."],
    )
    .await;
    check_result(
        "request_form",
        r#"{"kind":"approval"}"#,
        r#"{"approved":false,"reason":"denied"}"#,
        expect!["text: You did not approve it, so I leave it."],
    )
    .await;
    check_result(
        "request_form",
        r#"{"kind":"integration"}"#,
        r#"{"key":"s3cret","service":"mail"}"#,
        expect![
            "text: Thank you, I have `key` and `service` now. I do not repeat what you wrote, for it may be secret."
        ],
    )
    .await;
    check_result(
        "request_form",
        r#"{"kind":"clarify"}"#,
        "Nobody answered in time",
        expect!["text: `request_form` says “Nobody answered in time”."],
    )
    .await;
    check_result(
        "request_form",
        r#"{"kind":"clarify"}"#,
        "The form was declined",
        expect!["text: `request_form` was not allowed to run: “The form was declined”."],
    )
    .await;
}

#[tokio::test]
async fn pauses_are_made() {
    check(
        vec![Message::user("wait 2 minutes")],
        expect![[r#"
        text: I call `wait`.
        call 0 started: wait
        call 0: wait {"seconds":120}"#]],
    )
    .await;
    check_result(
        "wait",
        r#"{"seconds":120}"#,
        "The wait is over.",
        expect!["text: I waited as you asked: “The wait is over.”."],
    )
    .await;
}

#[tokio::test]
async fn an_artifact_is_written() {
    let (_, input) = call(vec![Message::user("Write a page about green tea, please")]).await;
    let input = input.to_value();
    assert_eq!((&input["title"], &input["type"]), (&"Green tea".into(), &"markdown".into()));
    expect![[r##"
        # Green tea

        This document is about green tea. You asked for it with the words “Write a page about green tea, please”, and it appeared while it was being written.

        ## In short

        - The subject is "green tea", and nothing here leaves it.
        - The text is *Markdown*: headings, lists and `code` are shown as such.
        - It can be kept, opened again and downloaded.

        ## In more words

        Whoever wants to know all about green tea needs a model that knows facts. The demo model knows none, so it writes what it can stand for: that you wished to read of green tea, and that a document grows beside the conversation instead of within it.

        ## What comes next

        Say `change it`, and how. A new version then takes the place of this one, and this one is still there to go back to.
    "##]].assert_eq(input["content"].as_str().unwrap());
    let created = r#"{"title":"Green tea","type":"markdown","content":"x"}"#;
    check_result("create_artifact", created, "Kept as artifact art_12, version 1.", expect!["text: I wrote “Green tea”, which is kept as artifact `art_12`. Say `change it`, and how, for a new version."]).await;
}

#[tokio::test]
async fn an_artifact_is_changed() {
    let created = Json::parse(r##"{"title":"Tea","type":"markdown","content":"# Tea\n"}"##).unwrap();
    let mut messages = called("create_artifact", &created, "Kept as artifact art_12, version 1.");
    messages.extend([Message::assistant("I wrote it."), Message::user("Now change it to coffee")]);
    check(messages, expect![[r##"
        text: I call `update_artifact`.
        call 0 started: update_artifact
        call 0: update_artifact {"artifact_id":"art_12","content":"# Tea\n\n## Change\n\nYou asked: “Now change it to coffee”. I change nothing but this: what was there before stands above, and the change has this section of its own.\n"}"##]]).await;
    check_result(
        "update_artifact",
        r#"{"artifact_id":"art_12","content":"x"}"#,
        "art_12",
        expect!["text: I changed artifact `art_12`: what you asked for has a section of its own now, at the end."],
    )
    .await;
    check(
        vec![Message::user("change it")],
        expect![
            "text: You said “change it”. I am the demo model and know only a few requests. Say `help` to see them."
        ],
    )
    .await;
}

#[tokio::test]
async fn inputs_are_ones_that_the_tools_take() {
    let created = Json::parse(r#"{"title":"Tea","type":"markdown","content":"Tea"}"#).unwrap();
    for message in [
        "show me a form",
        "ask me for my name, my email, a city, a date, a colour and a number",
        "sign",
        "integration",
        "approve",
        "request_form",
        "wait 3 seconds",
        "wait 2000 days",
        "use wait",
        "create_artifact",
        "write a file",
        &format!("write a document called {}", "é".repeat(5000)),
        "update_artifact",
        "change it",
    ] {
        let mut messages = called("create_artifact", &created, "Kept as artifact art_12, version 1.");
        messages.extend([Message::assistant("I wrote it."), Message::user(message)]);
        call(messages).await;
    }
}

#[tokio::test]
async fn inputs_stream_in_small_pieces_that_cut_escapes() {
    for message in ["Write a page about tea", "show me a \"form\""] {
        let (pieces, input) = call(vec![Message::user(message)]).await;
        assert_eq!(pieces.concat(), input.as_str(), "{message}");
        assert!(pieces.len() > 20 && pieces.iter().all(|piece| (1..12).contains(&piece.len())), "{pieces:?}");
        assert!(pieces.iter().any(|piece| piece.ends_with('\\') && !piece.ends_with("\\\\")), "{pieces:?}");
    }
}

#[tokio::test]
async fn content_can_be_shown_while_it_streams() {
    let (pieces, input) = call(vec![Message::user("Write a page about “tea”")]).await;
    let (mut stream, mut fields, mut content) = (InputStream::new(), Vec::new(), String::new());
    for json in pieces {
        let read = stream.push(&json, &mut |piece| match piece {
            Piece::Field { name } => fields.push(name.to_owned()),
            Piece::Text(text) if fields.len() == 3 => content.push_str(text),
            Piece::Text(_) | Piece::FieldEnd | Piece::End => {}
        });
        read.unwrap();
    }
    // What a reader wants to know first comes first.
    assert_eq!(fields, ["title", "type", "content"]);
    assert_eq!(input.to_value()["content"], content);
}

#[tokio::test(start_paused = true)]
async fn inputs_stream_at_the_pace_of_words() {
    let (pieces, _) = call(vec![Message::user("show me a form")]).await;
    let started = tokio::time::Instant::now();
    answer(&DemoModel::assistant(), request(vec![Message::user("show me a form")])).await;
    let took = started.elapsed();
    // Forty a second, with the three words before the call; the first comes at once.
    let expected = Duration::from_millis(25) * u32::try_from(pieces.len() + 2).unwrap();
    assert!((expected..expected + Duration::from_millis(100)).contains(&took), "{took:?}, {expected:?}");
}

#[tokio::test]
async fn a_title_is_made_of_main_words() {
    let messages = vec![Message::user("Why is the sky so blue?"), Message::assistant("I thought first.")];
    let system = "Write a title for this conversation. Answer with the title alone.".to_owned();
    let request = ModelRequest { system, messages: messages.into(), ..ModelRequest::default() };
    expect![[r#"
        text: Sky |blue
        finished: Stop 26+2"#]]
    .assert_eq(&answer(&unpaced(), request).await);
}
