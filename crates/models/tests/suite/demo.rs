//! What the demo model does with requests, as its readers see it.

use std::time::Duration;

use everturn_core::{Block, CallId, Content, Json, Message, ModelOptions, ToolSpec, ToolUse};
use everturn_models::{DemoModel, Model, ModelEvent, ModelFinish, ModelRequest, Pace};
use expect_test::{Expect, expect};
use futures_util::StreamExt;

use super::transcript::answer;

fn tools() -> Vec<ToolSpec> {
    let tool = |name: &str, schema: &str| ToolSpec {
        name: name.to_owned(),
        title: None,
        description: format!("The {name} tool."),
        input_schema: Json::parse(schema).unwrap(),
    };
    vec![
        tool("clock", r#"{"type":"object"}"#),
        tool(
            "calculator",
            r#"{"type":"object","required":["expression"],"properties":{"expression":{"type":"string"}}}"#,
        ),
        tool("get_weather", r#"{"type":"object","required":["location"],"properties":{"location":{"type":"string"}}}"#),
    ]
}

fn request(messages: Vec<Message>) -> ModelRequest {
    ModelRequest { messages: messages.into(), tools: tools().into(), ..ModelRequest::default() }
}

async fn check(messages: Vec<Message>, expect: Expect) {
    let model = DemoModel::new("demo/assistant", Pace::Unpaced);
    let first = answer(&model, request(messages.clone())).await;
    assert_eq!(answer(&model, request(messages)).await, first, "the same request got another answer");
    expect.assert_eq(&first.replace(" |", " "));
}

#[tokio::test]
async fn help_advertises_the_tools_at_hand() {
    check(vec![Message::user("hello")], expect![[r#"
        text: Hello! I am the demo model. I am a small script inside the server: I need no key and no network, and the same request always gets the same answer. Try one of these:

        - `why is the sky blue?`: I think before I answer.
        - `what time is it?`: I call `clock`.
        - `what is 12*7?`: I call `calculator`.
        - `get_weather`: I call that tool. Add its input as JSON if you like.
        - `clock and calculator`: I call both at the same time.
        - `stream 200 at 20/s`: a long answer at the pace you choose.
        - `refuse`, `max tokens` or `fail`: other ways for a turn to end.
        - an image: I count it.
        finished: Stop 69+143"#]]).await;
}

#[tokio::test]
async fn help_without_tools_says_so() {
    let model = DemoModel::new("demo/assistant", Pace::Unpaced);
    let request = ModelRequest { messages: [Message::user("help")].into(), ..ModelRequest::default() };
    expect![[r#"
        text: Hello! I am the demo model. I am a small script inside the server: I need no key and no network, and the same request always gets the same answer. Try one of these:

        - `why is the sky blue?`: I think before I answer.
        - `stream 200 at 20/s`: a long answer at the pace you choose.
        - `refuse`, `max tokens` or `fail`: other ways for a turn to end.
        - an image: I count it.

        This request gave me no tools. Give me some, and I call the ones you name.
        finished: Stop 1+111"#]].assert_eq(&answer(&model, request).await.replace(" |", " "));
}

#[tokio::test]
async fn anything_else_is_echoed() {
    check(
        vec![Message::user("I like tea")],
        expect![[r#"
            text: You said “I like tea”. I am the demo model and know only a few requests. Say `help` to see them.
            finished: Stop 70+25"#]],
    )
    .await;
}

#[tokio::test]
async fn why_shows_thinking() {
    check(vec![Message::user("Why is the sky blue?")], expect![[r#"
        thinking: The message is “Why is the sky blue?”. I know no facts, I look for words that I know. One of them asks me to think aloud, so I do.
        text: I thought first and answered second. The thinking came as pieces of its own, so your application can show it, fold it away or leave it out.
        finished: Stop 73+68"#]]).await;
}

#[tokio::test]
async fn an_obvious_request_calls_a_tool() {
    check(
        vec![Message::user("what time is it?")],
        expect![[r#"
        text: I call `clock`.
        call 0 started: clock
        call 0 input: {}
        call 0: clock {}
        finished: Stop 72+5"#]],
    )
    .await;
    check(
        vec![Message::user("what is 12*7?")],
        expect![[r#"
        text: I call `calculator`.
        call 0 started: calculator
        call 0 input: {"expres|sion":"1|2*7"}
        call 0: calculator {"expression":"12*7"}
        finished: Stop 71+12"#]],
    )
    .await;
}

#[tokio::test]
async fn several_tools_are_called_at_once() {
    check(
        vec![Message::user(r#"get_weather {"location":"Tokyo"} and clock"#)],
        expect![[r#"
        text: I call `get_weather` and `clock` at the same time.
        call 0 started: get_weather
        call 0 input: {"locati|on":"Tok|yo"}
        call 0: get_weather {"location":"Tokyo"}
        call 1 started: clock
        call 1 input: {}
        call 1: clock {}
        finished: Stop 78+22"#]],
    )
    .await;
}

#[tokio::test]
async fn thinking_can_come_before_a_call() {
    check(vec![Message::user("think, then use the clock")], expect![[r#"
        thinking: The message is “think, then use the clock”. I know no facts, I look for words that I know. One of them asks me to think aloud, so I do.
        text: I call `clock`.
        call 0 started: clock
        call 0 input: {}
        call 0: clock {}
        finished: Stop 74+40"#]]).await;
}

#[tokio::test]
async fn results_are_quoted_and_failures_named() {
    let call = |id: &str, name: &str| ToolUse { id: CallId::new(id), name: name.into(), input: Json::empty_object() };
    let names = ["clock", "calculator", "get_weather", "wipe", "camera", "quiet"];
    let uses = names.iter().map(|name| call(&format!("call_{name}"), name)).collect();
    let result = |name: &str, text: &str, is_error| Message::Tool {
        call_id: CallId::new(format!("call_{name}")),
        content: Content::Text(text.into()),
        is_error,
    };
    let photo = Content::Blocks(vec![Block::Image { url: "data:image/png;base64,AA==".into() }]);
    check(
        vec![
            Message::user("do it all"),
            Message::Assistant { content: Content::answer(String::new(), None, String::new(), uses) },
            result("clock", "12:00", false),
            result("calculator", "division by zero", true),
            result("get_weather", "permission denied by the user", true),
            result("wipe", "outcome unknown: the server stopped", true),
            Message::Tool { call_id: CallId::new("call_camera"), content: photo, is_error: false },
            result("quiet", "", false),
        ],
        expect![[r#"
            text: `clock` says “12:00”.
            `calculator` failed: “division by zero”.
            `get_weather` was not allowed to run: “permission denied by the user”.
            Nobody knows what came of `wipe`: “outcome unknown: the server stopped”.
            `camera` gave me 1 image.
            `quiet` finished and said nothing.
            finished: Stop 361+70"#]],
    )
    .await;
}

#[tokio::test]
async fn images_are_counted() {
    let image = |url: &str| Block::Image { url: url.into() };
    let blocks =
        vec![Block::Text("Look".into()), image("https://example.com/a.png"), image("data:image/png;base64,AA==")];
    check(
        vec![Message::User { content: Content::Blocks(blocks) }],
        expect![[r#"
        text: I see 2 images. I can count images, but not look into them.
        finished: Stop 581+14"#]],
    )
    .await;
}

#[tokio::test]
async fn other_endings() {
    check(
        vec![Message::user("refuse")],
        expect![[r#"
        text: I decline, because you asked me to. This is how a refusal looks.
        finished: Refusal 69+16"#]],
    )
    .await;
    check(
        vec![Message::user("max tokens")],
        expect![[r#"
        text: This answer stops in the middle of a sentence, because the model has reached its
        finished: MaxTokens 70+20"#]],
    )
    .await;
    check(vec![Message::user("fail")], expect!["Rejected: the demo model failed because the message asked it to"])
        .await;
}

#[tokio::test]
async fn a_summary_names_the_number_of_messages() {
    check(
        vec![
            Message::user("hello"),
            Message::assistant("Hello!"),
            Message::user("I like tea"),
            Message::assistant("You said that."),
            Message::user("Summarise the conversation so far. Keep names and decisions."),
        ],
        expect![[r#"
            text: Summary of 4 messages: the user began with “hello” and last said “I like tea”.
            finished: Stop 92+21"#]],
    )
    .await;
}

#[tokio::test]
async fn a_conversation_beyond_the_window_overflows() {
    check(
        vec![Message::user("word ".repeat(40_000))],
        expect!["ContextOverflow: the conversation has about 40098 tokens, the demo model holds 32768"],
    )
    .await;
}

#[tokio::test]
async fn the_cap_on_tokens_is_kept() {
    let model = DemoModel::load();
    let request = ModelRequest {
        options: ModelOptions { max_output_tokens: Some(5), ..ModelOptions::default() },
        ..request(vec![Message::user("stream 1000")])
    };
    expect![[r#"
        text: word 1 |word 2 |word 3 
        finished: MaxTokens 71+5"#]]
    .assert_eq(&answer(&model, request).await);
}

#[tokio::test(start_paused = true)]
async fn a_stream_keeps_the_pace_it_was_asked_for() {
    let started = tokio::time::Instant::now();
    let mut stream = DemoModel::assistant().stream(request(vec![Message::user("stream 101 at 20/s")])).await.unwrap();
    let mut words = Vec::new();
    while let Some(Ok(ModelEvent::Text(word))) = stream.next().await {
        words.push(word);
    }
    assert_eq!(words.len(), 101);
    assert_eq!(words[16], "word 17 ");
    let took = started.elapsed();
    assert!((Duration::from_secs(5)..Duration::from_millis(5_100)).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn without_a_pace_in_the_request_it_is_forty_words_a_second() {
    let started = tokio::time::Instant::now();
    answer(&DemoModel::assistant(), request(vec![Message::user("stream 81")])).await;
    let took = started.elapsed();
    assert!((Duration::from_secs(2)..Duration::from_millis(2_100)).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn the_load_model_streams_a_million_pieces_without_timers() {
    let started = tokio::time::Instant::now();
    let mut stream = DemoModel::load().stream(request(vec![Message::user("stream 1000000")])).await.unwrap();
    let (mut count, mut last) = (0_u32, None);
    while let Some(event) = stream.next().await {
        count += 1;
        last = Some(event.unwrap());
    }
    assert_eq!(count, 1_000_001);
    let Some(ModelEvent::Finished { finish: ModelFinish::Stop, usage: Some(usage) }) = last else {
        panic!("ended with {last:?}")
    };
    assert!(usage.output > 1_000_000);
    // The paused clock moves only when a task sleeps.
    assert_eq!(started.elapsed(), Duration::ZERO);
}

#[tokio::test]
async fn an_unpaced_stream_lets_other_tasks_run() {
    let mut stream = DemoModel::load().stream(request(vec![Message::user("stream 100000")])).await.unwrap();
    let other = tokio::spawn(async {});
    while !other.is_finished() {
        assert!(stream.next().await.is_some(), "the stream ended before another task ran");
    }
}
