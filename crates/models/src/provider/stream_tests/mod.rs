//! Answers of all wires, read from samples: whole, split at every byte, cut at every byte, and odd ones.

mod anthropic_answers;
mod chat_answers;
mod gemini_answers;
mod held_answers;
mod ollama_answers;
mod responses_answers;
mod whole_answers;

use bytes::Bytes;
use expect_test::{Expect, expect};
use futures_util::{FutureExt, StreamExt, stream};

use super::{
    ProviderKind, anthropic,
    call::{AnswerStream, Origin},
    chat,
    failure::Failures,
    gemini, ollama, responses,
    wire::Wire,
};
use crate::model::{ModelError, ModelErrorKind, ModelEvent};

const RESPONSES: &dyn Wire = &responses::Responses;

const SAMPLES: [(&dyn Wire, &str); 5] = [
    (&chat::Chat, include_str!("../samples/chat.sse")),
    (&anthropic::Anthropic, include_str!("../samples/anthropic.sse")),
    (&gemini::Gemini, include_str!("../samples/gemini.sse")),
    (&ollama::Ollama, include_str!("../samples/ollama.ndjson")),
    (RESPONSES, include_str!("../samples/responses.sse")),
];

type Item = Result<ModelEvent, ModelError>;

/// A wire, or a kind of provider that has but one.
trait Spoken {
    fn wire(self) -> &'static dyn Wire;
}

impl Spoken for ProviderKind {
    fn wire(self) -> &'static dyn Wire {
        self.wire().unwrap()
    }
}

impl Spoken for &'static dyn Wire {
    fn wire(self) -> &'static dyn Wire {
        self
    }
}

/// What a wire makes of these chunks.
fn read<'a>(wire: impl Spoken, chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<Item> {
    let chunks: Vec<_> = chunks.into_iter().map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
    let failures = Failures { provider: "test".into(), secrets: Vec::new() };
    let wire = wire.wire();
    let answer = AnswerStream::new(wire, stream::iter(chunks).boxed(), failures, Origin::default());
    // Signs of life depend on how the bytes come.
    let items: Vec<Item> = answer.collect().now_or_never().unwrap();
    items.into_iter().filter(|item| *item != Ok(ModelEvent::Alive)).collect()
}

fn show(items: &[Item]) -> String {
    let line = |item: &Item| match item {
        Ok(ModelEvent::ToolCallStarted { part, name }) => format!("call {part} starts: {name}"),
        Ok(ModelEvent::ToolInputDelta { part, json }) => format!("call {part} input: {json}"),
        Ok(ModelEvent::ToolCall { part, name, input }) => format!("call {part}: {name} {input:?}"),
        Ok(ModelEvent::BadToolCall { part, name, problem }) => format!("bad call {part}: {name} {problem}"),
        Ok(ModelEvent::Used(usage)) => format!("used {}+{}", usage.input, usage.output),
        Ok(ModelEvent::Finished { finish, usage }) => {
            format!("{finish:?} {}", usage.map_or("?".to_owned(), |usage| format!("{}+{}", usage.input, usage.output)))
        }
        Ok(
            event @ (ModelEvent::Alive
            | ModelEvent::Notice(_)
            | ModelEvent::Text(_)
            | ModelEvent::Thinking(_)
            | ModelEvent::ThinkingSignature(_)),
        ) => {
            format!("{event:?}")
        }
        Err(error) => format!("{:?}: {}", error.kind, error.message),
    };
    items.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn check(wire: impl Spoken, stream: &str, expect: Expect) {
    expect.assert_eq(&show(&read(wire, [stream.as_bytes()])));
}

/// A stream of events on the Responses wire.
fn events<const N: usize>(events: [&str; N]) -> String {
    events.map(|event| format!("data: {event}\n\n")).concat()
}

#[test]
fn a_split_at_any_byte_changes_nothing() {
    for (wire, recording) in SAMPLES {
        let kind = wire.name();
        let bytes = recording.as_bytes();
        let whole = read(wire, [bytes]);
        assert_eq!(read(wire, bytes.chunks(1)), whole, "{kind}");
        for at in 0..bytes.len() {
            let (left, right) = bytes.split_at(at);
            assert_eq!(read(wire, [left, right]), whole, "{kind} at {at}");
        }
        let windows = recording.replace('\n', "\r\n");
        assert_eq!(read(wire, [windows.as_bytes()]), whole, "{kind}");
    }
}

#[test]
fn a_cut_at_any_byte_is_an_error_unless_the_model_had_stopped() {
    for (wire, recording) in SAMPLES {
        let kind = wire.name();
        let bytes = recording.as_bytes();
        let whole = read(wire, [bytes]);
        // The model has stopped once the frame with its reason is there.
        let reason = match kind {
            "chat" => "\"finish_reason\":\"tool_calls\"}]}",
            "anthropic" => "\"output_tokens\":34}}",
            "gemini" => "\"totalTokenCount\":46}}",
            "ollama" => "\"eval_count\":34}",
            "responses" => "\"type\":\"response.completed\"}",
            other => unreachable!("{other}"),
        };
        let stopped = recording.find(reason).unwrap() + reason.len();
        for at in 0..bytes.len() {
            let cut = read(wire, [&bytes[..at]]);
            let (last, before) = cut.split_last().unwrap();
            if at < stopped {
                let Err(error) = last else { panic!("{kind} cut at {at} ended with {last:?}") };
                assert_eq!(error.kind, ModelErrorKind::Unavailable, "{kind} at {at}");
                assert_eq!(before, &whole[..before.len()], "{kind} at {at}");
            } else {
                assert!(matches!(last, Ok(ModelEvent::Finished { .. })), "{kind} at {at}: {last:?}");
                // What the answer took may come after the reason.
                let said = |items: &[Item]| -> Vec<Item> {
                    items.iter().filter(|item| !matches!(item, Ok(ModelEvent::Used(_)))).cloned().collect()
                };
                assert_eq!(said(before), said(&whole[..whole.len() - 1]), "{kind} at {at}");
            }
        }
    }
}

#[test]
fn nothing_at_all_is_a_cut() {
    for (wire, _) in SAMPLES {
        let kind = wire.name();
        assert_eq!(
            show(&read(wire, [])),
            "Unavailable: test closed the stream before its answer was complete",
            "{kind}"
        );
    }
}

#[test]
fn what_an_answer_holds_is_bounded() {
    let call = |index: usize, input: &str| {
        format!(
            "data: {{\"choices\":[{{\"delta\":{{\"tool_calls\":[{{\"index\":{index},\"id\":\"{index}\",\"function\":{{\"name\":\"a\",\"arguments\":\"{input}\"}}}}]}}}}]}}\n\n"
        )
    };
    let last = |stream: String| show(&read(ProviderKind::OpenAi, [stream.as_bytes()]).split_off(1)[..]);
    let long = "1".repeat(1024 * 1024);
    assert!(
        last(call(0, &long).repeat(17))
            .ends_with("Rejected: test sent more than 16777216 bytes of tool input in one answer")
    );
    // A call that is too long is the model's business; those before it stand.
    let good = call(0, "{}");
    let stop = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\ndata: [DONE]\n\n";
    let told = last(good + &call(1, &long).repeat(13) + stop);
    assert!(told.contains("\ncall 0: a {}\n"), "{}", &told[told.len() - 1000..]);
    let problem =
        "bad call 1: a is too long: one answer may hold 12582912 bytes of tool input, in all of its calls; write less";
    assert!(told.contains(problem), "{}", &told[told.len() - 1000..]);
    let calls: String = (0..200).map(|index| call(index, "")).collect();
    assert!(last(calls).ends_with("Rejected: test sent more than 128 tool calls in one answer"));
    let frame = format!("data: [DONE\n\ndata: {}", "1".repeat(17 * 1024 * 1024));
    let items = read(ProviderKind::OpenAi, [frame.as_bytes()]);
    assert_eq!(show(&items), "Unavailable: test sent what is no part of an answer (the server's log has it)");
    let frame = "1".repeat(17 * 1024 * 1024);
    let items = read(ProviderKind::Ollama, [frame.as_bytes()]);
    assert_eq!(show(&items), "Rejected: test sent a single event of more than 16777216 bytes");
}

#[test]
fn what_was_told_before_a_cut_is_passed_on() {
    check(
        ProviderKind::Anthropic,
        "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":700,\"cache_read_input_tokens\":77,\"output_tokens\":1}}}\n\n\
         data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n\
         data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"x\"}}\n\n",
        expect![[r#"
            used 777+1
            Text("x")
            Unavailable: test closed the stream before its answer was complete"#]],
    );
    let gemini = |told: u32| {
        let usage = format!("{{\"promptTokenCount\":777,\"candidatesTokenCount\":{told},\"thoughtsTokenCount\":5}}");
        let candidate = "{\"content\":{\"parts\":[{\"text\":\"x\"}]}}";
        format!("data: {{\"candidates\":[{candidate}],\"usageMetadata\":{usage}}}\n\n")
    };
    // Told again, it is no news.
    check(
        ProviderKind::Gemini,
        &[gemini(3), gemini(3), gemini(6)].concat(),
        expect![[r#"
        used 777+8
        Text("x")
        Text("x")
        used 777+11
        Text("x")
        Unavailable: test closed the stream before its answer was complete"#]],
    );
    let openai = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n\
         data: {\"choices\":[],\"usage\":{\"prompt_tokens\":163,\"completion_tokens\":78}}\n\n";
    check(
        ProviderKind::OpenAi,
        openai,
        expect![[r#"
        Text("x")
        used 163+78
        Unavailable: test closed the stream before its answer was complete"#]],
    );
    // Nothing used is nothing told.
    let zero = openai.replace("163", "0").replace("78", "0");
    check(
        ProviderKind::OpenAi,
        &zero,
        expect![[r#"
        Text("x")
        Unavailable: test closed the stream before its answer was complete"#]],
    );
    let failed = format!("{openai}data: {{\"error\":{{\"message\":\"overloaded\",\"code\":503}}}}\n\n");
    check(
        ProviderKind::OpenAi,
        &failed,
        expect![[r#"
        Text("x")
        used 163+78
        Unavailable: test reports: overloaded"#]],
    );
}
