//! Answers of all wires, read from samples: whole, split at every byte, cut at every byte, and odd ones.

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
    (&chat::Chat, include_str!("samples/chat.sse")),
    (&anthropic::Anthropic, include_str!("samples/anthropic.sse")),
    (&gemini::Gemini, include_str!("samples/gemini.sse")),
    (&ollama::Ollama, include_str!("samples/ollama.ndjson")),
    (RESPONSES, include_str!("samples/responses.sse")),
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
    let answer = AnswerStream::new(wire.wire(), stream::iter(chunks).boxed(), failures, Origin::default());
    // Signs of life depend on how the bytes come.
    let items: Vec<Item> = answer.collect().now_or_never().unwrap();
    items.into_iter().filter(|item| *item != Ok(ModelEvent::Alive)).collect()
}

fn show(items: &[Item]) -> String {
    let line = |item: &Item| match item {
        Ok(ModelEvent::ToolCallStarted { part, name }) => format!("call {part} starts: {name}"),
        Ok(ModelEvent::ToolInputDelta { part, json }) => format!("call {part} input: {json}"),
        Ok(ModelEvent::ToolCall { part, name, input }) => format!("call {part}: {name} {input:?}"),
        Ok(ModelEvent::BadToolCall { part, name, input }) => format!("bad call {part}: {name} {input}"),
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

#[test]
fn chat_sample() {
    check(
        ProviderKind::OpenAi,
        SAMPLES[0].1,
        expect![[r#"
            Thinking("The user wants ")
            Thinking("two cities.")
            Text("Grüße, ")
            Text("東京")
            call 0 starts: get_weather
            call 0 input: {"location":
            call 1 starts: clock
            call 0 input: "Tokyo"}
            used 12+34
            call 0: get_weather {"location":"Tokyo"}
            call 1: clock {}
            ThinkingSignature(":{\"from\":\"\",\"pieces\":[{\"own\":{\"field\":\"reasoning_content\"}},{\"text\":15},\"call\",\"call\"]}")
            Stop 12+34"#]],
    );
}

#[test]
fn responses_sample() {
    check(
        RESPONSES,
        SAMPLES[4].1,
        expect![[r#"
        Thinking("Two cities, ")
        Thinking("hm.")
        Thinking("\n\nFirst Tokyo.")
        Text("Grüße, ")
        Text("東京")
        call 0 starts: get_weather
        call 0 input: {"location":
        call 1 starts: clock
        call 0 input: "Tokyo"}
        call 0: get_weather {"location":"Tokyo"}
        call 1 input: {}
        call 1: clock {}
        used 12+34
        ThinkingSignature(":{\"from\":\"\",\"pieces\":[{\"own\":{\"reasoning\":{\"id\":\"rs_1\",\"summary\":[{\"text\":\"Two cities, hm.\",\"type\":\"summary_text\"},{\"text\":\"First Tokyo.\",\"type\":\"summary_text\"}],\"encrypted_content\":\"gAAAA1\"}}},{\"text\":15},{\"own\":{\"message\":{\"phase\":\"commentary\"}}},\"call\",\"call\"]}")
        Stop 12+34"#]],
    );
}

#[test]
fn anthropic_sample() {
    check(
        ProviderKind::Anthropic,
        SAMPLES[1].1,
        expect![[r#"
            used 42+1
            Thinking("Two cities, ")
            Thinking("hm.")
            Text("Grüße, ")
            Text("東京")
            call 0 starts: get_weather
            call 0 input: {"location":
            call 0 input: "Tokyo"}
            call 0: get_weather {"location":"Tokyo"}
            call 1 starts: clock
            call 1: clock {}
            used 42+34
            ThinkingSignature(":{\"from\":\"\",\"pieces\":[{\"own\":{\"type\":\"thinking\",\"length\":15,\"signature\":\"EqQB\"}},{\"own\":{\"type\":\"redacted_thinking\",\"data\":\"Emwk\"}},{\"text\":15},{\"own\":{\"type\":\"tool_use\",\"id\":\"toolu_1\"}},\"call\",{\"own\":{\"type\":\"tool_use\",\"id\":\"toolu_2\"}},\"call\"]}")
            Stop 42+34"#]],
    );
}

#[test]
fn gemini_sample() {
    check(
        ProviderKind::Gemini,
        SAMPLES[2].1,
        expect![[r#"
            used 12+0
            Thinking("Two cities, ")
            Thinking("hm.")
            Text("Grüße, ")
            Text("東京")
            call 0 starts: get_weather
            call 0: get_weather {"location":"Tokyo"}
            used 12+34
            call 1 starts: clock
            call 1: clock {}
            ThinkingSignature(":{\"from\":\"\",\"pieces\":[{\"text\":15},{\"own\":{\"next\":{\"signature\":\"CiQB\"}}},\"call\",\"call\"]}")
            Stop 12+34"#]],
    );
}

#[test]
fn ollama_sample() {
    check(
        ProviderKind::Ollama,
        SAMPLES[3].1,
        expect![[r#"
            Thinking("Two cities, ")
            Thinking("hm.")
            Text("Grüße, ")
            Text("東京")
            call 0 starts: get_weather
            call 0: get_weather {"location":"Tokyo"}
            call 1 starts: clock
            call 1: clock {}
            used 12+34
            ThinkingSignature(":{\"from\":\"\",\"pieces\":[{\"text\":15},{\"own\":null},\"call\",\"call\"]}")
            Stop 12+34"#]],
    );
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

/// A stream of events on the Responses wire.
fn events<const N: usize>(events: [&str; N]) -> String {
    events.map(|event| format!("data: {event}\n\n")).concat()
}

#[test]
fn responses_endings() {
    let text = r#"{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"x"}"#;
    for (end, expect) in [
        (
            r#"{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"usage":{"input_tokens":1,"output_tokens":2}}}"#,
            expect![[r#"
                Text("x")
                used 1+2
                MaxTokens 1+2"#]],
        ),
        (
            r#"{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"content_filter"}}}"#,
            expect![[r#"
                Text("x")
                Refusal ?"#]],
        ),
        (
            r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"rate_limit_exceeded","message":"Please try again in 11.054s."},"usage":null}}"#,
            expect![[r#"
                Text("x")
                RateLimited: test reports: Please try again in 11.054s."#]],
        ),
        (
            r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"The server had an error."},"usage":{"input_tokens":1,"output_tokens":2}}}"#,
            expect![[r#"
                Text("x")
                used 1+2
                Unavailable: test reports: The server had an error."#]],
        ),
        (
            r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"invalid_prompt","message":"Flagged."}}}"#,
            expect![[r#"
                Text("x")
                Rejected: test reports: Flagged."#]],
        ),
        (
            r#"{"type":"response.failed","response":{"status":"failed","error":null}}"#,
            expect![[r#"
            Text("x")
            Unavailable: test gave its answer up with a failure that it does not explain"#]],
        ),
        (
            r#"{"type":"error","code":"context_length_exceeded","message":"Your input exceeds the context window of this model.","param":"input","sequence_number":2}"#,
            expect![[r#"
                Text("x")
                ContextOverflow: test reports: Your input exceeds the context window of this model."#]],
        ),
        (
            r#"{"type":"error","sequence_number":2,"error":{"type":"invalid_request_error","code":"context_length_exceeded","message":"Your input exceeds the context window of this model.","param":"input"}}"#,
            expect![[r#"
                Text("x")
                ContextOverflow: test reports: Your input exceeds the context window of this model."#]],
        ),
        (
            r#"{"error":{"message":"Bad gateway"}}"#,
            expect![[r#"
            Text("x")
            Unavailable: test reports: Bad gateway"#]],
        ),
        (
            r#"[DONE]"#,
            expect![[r#"
            Text("x")
            Unavailable: test closed the stream before its answer was complete"#]],
        ),
        (
            r#"{"type":"response.completed","response":7}"#,
            expect![[r#"
            Text("x")
            Unavailable: test sent what is no part of an answer: {"type":"response.completed","response":7}"#]],
        ),
    ] {
        check(RESPONSES, &events([text, end]), expect);
    }
}

#[test]
fn responses_oddities() {
    // A refusal; two messages of one answer are parted for readers, and the record knows the gap.
    check(
        RESPONSES,
        &events([
            r#"{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"Hm."}"#,
            r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[{"type":"output_text","text":"Hm."}]}}"#,
            r#"{"type":"response.refusal.delta","output_index":1,"content_index":0,"delta":"I cannot."}"#,
            r#"{"type":"response.refusal.done","output_index":1,"content_index":0,"refusal":"I cannot."}"#,
            r#"{"type":"response.completed","response":{"status":"completed","output":[]}}"#,
        ]),
        expect![[r#"
            Text("Hm.")
            Text("\n\n")
            Text("I cannot.")
            ThinkingSignature(":{\"from\":\"\",\"pieces\":[{\"text\":3},{\"own\":{\"message\":{\"phase\":null}}},{\"text\":2},{\"own\":\"gap\"},{\"text\":9}]}")
            Refusal ?"#]],
    );
    // Nothing streamed: all is in the items, or only in the response; reasoning without its encrypted content is not kept.
    check(
        RESPONSES,
        &events([
            r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"Hm."}]}}"#,
            r#"{"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","call_id":"c","name":"clock","arguments":"{\"x\":1}"}}"#,
            r#"{"type":"response.something.new","item":"?","text":{},"response":[]}"#,
            r#"{"type":"response.completed","response":{"status":"completed","output":[{},{},{"type":"message","content":[{"type":"output_text","text":"Hello."}]}]}}"#,
        ]),
        expect![[r#"
            Thinking("Hm.")
            call 0 starts: clock
            call 0 input: {"x":1}
            call 0: clock {"x":1}
            Text("Hello.")
            ThinkingSignature(":{\"from\":\"\",\"pieces\":[\"call\",{\"text\":6}]}")
            Stop ?"#]],
    );
    // Reasoning as text and as a summary is shown once; items of other kinds are kept unless they want an answer.
    check(
        RESPONSES,
        &events([
            r#"{"type":"response.reasoning_text.delta","output_index":0,"content_index":0,"delta":"Hm."}"#,
            r#"{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":0,"delta":"Hm."}"#,
            r#"{"type":"response.output_item.done","output_index":1,"item":{"type":"web_search_call","id":"ws_1"}}"#,
            r#"{"type":"response.output_item.done","output_index":2,"item":{"type":"custom_tool_call","id":"ct_1"}}"#,
            r#"{"type":"response.output_text.done","output_index":3,"content_index":0,"text":"Hello."}"#,
            r#"{"type":"response.completed","response":{"status":"completed","output":[]}}"#,
        ]),
        expect![[r#"
            Thinking("Hm.")
            Text("Hello.")
            ThinkingSignature(":{\"from\":\"\",\"pieces\":[{\"own\":{\"item\":{\"id\":\"ws_1\",\"type\":\"web_search_call\"}}},{\"text\":6}]}")
            Stop ?"#]],
    );
}

#[test]
fn chat_records() {
    // OpenRouter's details come in pieces, and Gemini's signatures with calls that have no index.
    check(
        ProviderKind::OpenAi,
        &events([
            r#"{"choices":[{"delta":{"reasoning":"Two ","reasoning_details":[{"type":"reasoning.text","text":"Two ","index":0}]}}]}"#,
            r#"{"choices":[{"delta":{"reasoning":"cities.","reasoning_details":[{"type":"reasoning.text","text":"cities.","index":0,"signature":"S"}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"clock","arguments":"{}"},"extra_content":{"google":{"thought_signature":"G"}}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"id":"b","function":{"name":"clock","arguments":""}}]},"finish_reason":"stop"}]}"#,
            "[DONE]",
        ]),
        expect![[r#"
            Thinking("Two ")
            Thinking("cities.")
            call 0 starts: clock
            call 0 input: {}
            call 1 starts: clock
            call 0: clock {}
            call 1: clock {}
            ThinkingSignature(":{\"from\":\"\",\"pieces\":[{\"own\":{\"field\":\"reasoning\"}},{\"own\":{\"details\":[{\"index\":0,\"signature\":\"S\",\"text\":\"Two cities.\",\"type\":\"reasoning.text\"}]}},{\"own\":{\"call\":{\"place\":0,\"id\":\"a\",\"extra\":{\"google\":{\"thought_signature\":\"G\"}}}}},{\"own\":{\"call\":{\"place\":1,\"id\":\"b\"}}},\"call\",\"call\"]}")
            Stop ?"#]],
    );
    // Mistral's thinking within the content, then usage in Moonshot's and Groq's places: the last word counts.
    check(
        ProviderKind::OpenAi,
        &events([
            r#"{"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"Hm, "}]}]}}],"usage":null}"#,
            r#"{"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm."}]}]},"usage":{"prompt_tokens":1,"completion_tokens":1}}]}"#,
            r#"{"choices":[{"delta":{"content":"Well."},"finish_reason":"model_length"}],"x_groq":{"usage":{"prompt_tokens":1,"completion_tokens":2}}}"#,
        ]),
        expect![[r#"
            Thinking("Hm, ")
            used 1+1
            Thinking("hm.")
            used 1+2
            Text("Well.")
            ThinkingSignature(":{\"from\":\"\",\"pieces\":[{\"own\":{\"thinking\":7}},{\"text\":5}]}")
            MaxTokens 1+2"#]],
    );
    // Details alone, and a chunk without choices.
    check(
        ProviderKind::OpenAi,
        &events([
            r#"{"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.summary","summary":"Hm."}]}}]}"#,
            r#"{"choices":null,"usage":{"prompt_tokens":1,"completion_tokens":1}}"#,
            "[DONE]",
        ]),
        expect![[r#"
            Thinking("Hm.")
            used 1+1
            ThinkingSignature(":{\"from\":\"\",\"pieces\":[{\"own\":{\"details\":[{\"summary\":\"Hm.\",\"type\":\"reasoning.summary\"}]}}]}")
            Stop 1+1"#]],
    );
}

#[test]
fn chat_errors_in_many_shapes() {
    for (chunk, expect) in [
        (
            r#"{"code":20015,"message":"reasoning_content is missing","data":null}"#,
            expect!["Unavailable: test reports: reasoning_content is missing"],
        ),
        (
            r#"{"detail":"Extra inputs are not permitted"}"#,
            expect!["Unavailable: test reports: Extra inputs are not permitted"],
        ),
        (
            r#"{"base_resp":{"status_code":1004,"status_msg":"login fail"}}"#,
            expect!["Unavailable: test reports: login fail"],
        ),
        (
            r#"{"choices":[{"delta":{},"finish_reason":"network_error"}]}"#,
            expect!["Unavailable: test gave its answer up with network_error"],
        ),
        (
            r#"{"choices":[{"delta":{},"finish_reason":"model_context_window_exceeded"}]}"#,
            expect!["ContextOverflow: test reports: the answer ran out of the context window"],
        ),
        (r#"{"choices":[{"delta":{},"finish_reason":"sensitive"}]}"#, expect!["Refusal ?"]),
    ] {
        check(ProviderKind::OpenAi, &events([chunk]), expect);
    }
}

#[test]
fn chat_finish_reasons() {
    let stream = |reason: &str| {
        format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"x\"}},\"finish_reason\":{reason}}}]}}\n\n")
    };
    check(
        ProviderKind::OpenAi,
        &stream("\"stop\""),
        expect![[r#"
        Text("x")
        Stop ?"#]],
    );
    check(
        ProviderKind::OpenAi,
        &stream("\"length\""),
        expect![[r#"
        Text("x")
        MaxTokens ?"#]],
    );
    check(
        ProviderKind::OpenAi,
        &stream("\"content_filter\""),
        expect![[r#"
        Text("x")
        Refusal ?"#]],
    );
    check(
        ProviderKind::OpenAi,
        &stream("\"error\""),
        expect![[r#"
        Text("x")
        Unavailable: test gave its answer up with an error of the model's host"#]],
    );
    check(
        ProviderKind::OpenAi,
        &stream("null"),
        expect![[r#"
        Text("x")
        Unavailable: test closed the stream before its answer was complete"#]],
    );
    check(
        ProviderKind::OpenAi,
        &(stream("null") + "data: [DONE]\n\n"),
        expect![[r#"
        Text("x")
        Stop ?"#]],
    );
}

#[test]
fn chat_oddities() {
    // A refusal as text of its own.
    check(
        ProviderKind::OpenAi,
        concat!(
            "data: {\"choices\":[{\"delta\":{\"refusal\":\"I cannot.\"}}]}\n\n",
            "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
        ),
        expect![[r#"
            Text("I cannot.")
            Refusal ?"#]],
    );
    // Reasoning under OpenRouter's name, and under both names at once.
    check(
        ProviderKind::OpenAi,
        concat!(
            "data: {\"choices\":[{\"delta\":{\"reasoning\":\"a\",\"reasoning_details\":[{\"text\":\"a\"}]}}]}\n\n",
            "data: {\"choices\":[{\"delta\":{\"reasoning\":\"b\",\"reasoning_content\":\"b\"}}]}\n\n",
            "data: {\"choices\":[{\"delta\":{\"content\":[{\"type\":\"thinking\",\"thinking\":[{\"text\":\"c\"}]},{\"text\":\"d\"}]}}]}\n\n",
            "data: [DONE]\n\n",
        ),
        expect![[r#"
            Thinking("a")
            Thinking("b")
            Thinking("c")
            Text("d")
            ThinkingSignature(":{\"from\":\"\",\"pieces\":[{\"own\":{\"field\":\"reasoning\"}},{\"own\":{\"thinking\":1}},{\"text\":1},{\"own\":{\"details\":[{\"text\":\"a\"}]}}]}")
            Stop ?"#]],
    );
    // Whole calls without an index, with an object for input; and calls that are all number 0.
    check(
        ProviderKind::OpenAi,
        concat!(
            "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"function\":{\"name\":\"a\",\"arguments\":{\"x\":1}}},",
            "{\"function\":{\"name\":\"a\",\"arguments\":\"{}\"}}]}}]}\n\n",
            "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"1\",\"function\":{\"name\":\"b\",\"arguments\":\"{}\"}}]}}]}\n\n",
            "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"2\",\"function\":{\"name\":\"b\",\"arguments\":\"{}\"}}]}}]}\n\n",
            "data: [DONE]\n\n",
        ),
        expect![[r#"
            call 0 starts: a
            call 0 input: {"x":1}
            call 1 starts: a
            call 1 input: {}
            call 2 starts: b
            call 2 input: {}
            call 3 starts: b
            call 3 input: {}
            call 0: a {"x":1}
            call 1: a {}
            call 2: b {}
            call 3: b {}
            Stop ?"#]],
    );
    // Input that is no object, cut by the cap on tokens.
    check(
        ProviderKind::OpenAi,
        concat!(
            "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"1\",\"function\":{\"name\":\"a\",\"arguments\":\"{\\\"x\\\":\"}},",
            "{\"index\":1,\"id\":\"2\",\"function\":{\"name\":\"b\",\"arguments\":\"[1]\"}}]},\"finish_reason\":\"length\"}]}\n\n",
            "data: [DONE]\n\n",
        ),
        expect![[r#"
            call 0 starts: a
            call 0 input: {"x":
            call 1 starts: b
            call 1 input: [1]
            bad call 0: a {"x":
            bad call 1: b [1]
            MaxTokens ?"#]],
    );
    check(
        ProviderKind::OpenAi,
        "data: {\"error\":{\"message\":\"Provider returned error\",\"code\":502}}\n\n",
        expect!["Unavailable: test reports: Provider returned error"],
    );
    // Errors of older vLLM, and an end before the beginning.
    check(
        ProviderKind::OpenAi,
        concat!(
            "data: {\"object\":\"error\",\"message\":\"This model's maximum context length is 8 tokens\",\"code\":400}\n\n",
            "data: [DONE]\n\n",
        ),
        expect!["ContextOverflow: test reports: This model's maximum context length is 8 tokens"],
    );
    check(
        ProviderKind::OpenAi,
        "data: [DONE]\n\n",
        expect!["Unavailable: test gave its answer up with [DONE] before it said anything"],
    );
    check(
        ProviderKind::OpenAi,
        "data: <html>\n\n",
        expect!["Unavailable: test sent what is no part of an answer: <html>"],
    );
    check(
        ProviderKind::OpenAi,
        "data: {\"choices\":7}\n\n",
        expect![[r#"Unavailable: test sent what is no part of an answer: {"choices":7}"#]],
    );
}

#[test]
fn anthropic_endings() {
    let stream = |reason: &str| {
        format!(
            "data: {{\"type\":\"message_delta\",\"delta\":{{\"stop_reason\":\"{reason}\"}}}}\n\ndata: {{\"type\":\"message_stop\"}}\n\n"
        )
    };
    check(ProviderKind::Anthropic, &stream("end_turn"), expect!["Stop ?"]);
    check(ProviderKind::Anthropic, &stream("max_tokens"), expect!["MaxTokens ?"]);
    check(ProviderKind::Anthropic, &stream("refusal"), expect!["Refusal ?"]);
    check(
        ProviderKind::Anthropic,
        "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n",
        expect!["Unavailable: test reports: Overloaded"],
    );
    // Input that comes whole with the block, and a block of a kind we do not know.
    check(
        ProviderKind::Anthropic,
        &(concat!(
            "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"server_tool_use\",\"name\":\"web\"}}\n\n",
            "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{}\"}}\n\n",
            "data: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
            "data: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"a\",\"input\":{\"x\":1}}}\n\n",
            "data: {\"type\":\"content_block_stop\",\"index\":1}\n\n",
        )
        .to_owned()
            + &stream("tool_use")),
        expect![[r#"
            call 0 starts: a
            call 0 input: {"x":1}
            call 0: a {"x":1}
            Stop ?"#]],
    );
}

#[test]
fn gemini_endings() {
    let stream = |reason: &str| {
        format!(
            "data: {{\"candidates\":[{{\"content\":{{\"parts\":[{{\"text\":\"x\"}}]}},\"finishReason\":\"{reason}\"}}]}}\n\n"
        )
    };
    let reasons = [
        "FINISH_REASON_UNSPECIFIED",
        "STOP",
        "FUNCTION_CALL",
        "MAX_TOKENS",
        "CONTINUATION",
        "SAFETY",
        "RECITATION",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "ESCALATION",
        "MODEL_ARMOR",
        "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_RECITATION",
        "LANGUAGE",
        "PUP_LIMITED_DISABLED",
        "MISSING_THOUGHT_SIGNATURE",
        "TOO_MANY_TOOL_CALLS",
        "MALFORMED_FUNCTION_CALL",
        "UNEXPECTED_TOOL_CALL",
        "MALFORMED_RESPONSE",
        "IMAGE_OTHER",
        "NO_IMAGE",
        "OTHER",
        "OF_LATER_DAYS",
    ];
    let ending = |reason: &&str| {
        let items = read(ProviderKind::Gemini, [stream(reason).as_bytes()]);
        assert_eq!(show(&items[..1]), "Text(\"x\")");
        format!("{reason} -> {}", show(&items[1..]))
    };
    expect![[r#"
        FINISH_REASON_UNSPECIFIED -> Unavailable: test closed the stream before its answer was complete
        STOP -> Stop ?
        FUNCTION_CALL -> Stop ?
        MAX_TOKENS -> MaxTokens ?
        CONTINUATION -> MaxTokens ?
        SAFETY -> Refusal ?
        RECITATION -> Refusal ?
        BLOCKLIST -> Refusal ?
        PROHIBITED_CONTENT -> Refusal ?
        SPII -> Refusal ?
        ESCALATION -> Refusal ?
        MODEL_ARMOR -> Refusal ?
        IMAGE_SAFETY -> Refusal ?
        IMAGE_PROHIBITED_CONTENT -> Refusal ?
        IMAGE_RECITATION -> Refusal ?
        LANGUAGE -> Rejected: test reports: the answer ended with LANGUAGE
        PUP_LIMITED_DISABLED -> Rejected: test reports: the answer ended with PUP_LIMITED_DISABLED
        MISSING_THOUGHT_SIGNATURE -> Rejected: test reports: the answer ended with MISSING_THOUGHT_SIGNATURE
        TOO_MANY_TOOL_CALLS -> Rejected: test reports: the answer ended with TOO_MANY_TOOL_CALLS
        MALFORMED_FUNCTION_CALL -> Unavailable: test gave its answer up with MALFORMED_FUNCTION_CALL
        UNEXPECTED_TOOL_CALL -> Unavailable: test gave its answer up with UNEXPECTED_TOOL_CALL
        MALFORMED_RESPONSE -> Unavailable: test gave its answer up with MALFORMED_RESPONSE
        IMAGE_OTHER -> Unavailable: test gave its answer up with IMAGE_OTHER
        NO_IMAGE -> Unavailable: test gave its answer up with NO_IMAGE
        OTHER -> Unavailable: test gave its answer up with OTHER
        OF_LATER_DAYS -> Unavailable: test gave its answer up with OF_LATER_DAYS"#]]
    .assert_eq(&reasons.iter().map(ending).collect::<Vec<_>>().join("\n"));
    let blocked = "data: {\"promptFeedback\":{\"blockReason\":\"SAFETY\"}}\n\n";
    let items = read(ProviderKind::Gemini, [blocked.as_bytes()]);
    assert_eq!(show(&items[items.len() - 1..]), "Refusal ?");
    check(
        ProviderKind::Gemini,
        "data: {\"error\":{\"code\":503,\"message\":\"The model is overloaded.\",\"status\":\"UNAVAILABLE\"}}\n\n",
        expect!["Unavailable: test reports: The model is overloaded."],
    );
    check(
        ProviderKind::Gemini,
        "data: {\"candidates\":[{\"finishReason\":\"MALFORMED_FUNCTION_CALL\",\"finishMessage\":\"Malformed function call: print(\"}]}\n\n",
        expect!["Unavailable: test gave its answer up with MALFORMED_FUNCTION_CALL: Malformed function call: print("],
    );
    // An answer of nothing but thoughts is none.
    for parts in
        ["", "{\"text\":\"\"}", "{\"text\":\"hm\",\"thought\":true}", "{\"text\":\"\",\"thoughtSignature\":\"A\"}"]
    {
        let stream =
            format!("data: {{\"candidates\":[{{\"content\":{{\"parts\":[{parts}]}},\"finishReason\":\"STOP\"}}]}}\n\n");
        let items = read(ProviderKind::Gemini, [stream.as_bytes()]);
        let last = show(&items[items.len() - 1..]);
        assert_eq!(last, "Unavailable: test gave its answer up with STOP and neither text nor calls", "{parts}");
    }
}

#[test]
fn gemini_parts() {
    // Signatures on a text, between texts, on calls and on nothing; two calls in one chunk, one without input.
    check(
        ProviderKind::Gemini,
        concat!(
            "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"one\",\"thoughtSignature\":\"A\"},{\"text\":\"two\"}]}}]}\n\n",
            "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"three\"}]}}]}\n\n",
            "data: {\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"id\":\"46ww\",\"name\":\"clock\"},\"thoughtSignature\":\"B\"},",
            "{\"functionCall\":{\"id\":\"\",\"name\":\"clock\",\"args\":null}}]}}]}\n\n",
            "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"\",\"thoughtSignature\":\"C\"}]},\"finishReason\":\"STOP\"}]}\n\n",
            "data: {\"candidates\":null,\"usageMetadata\":{\"promptTokenCount\":5,\"toolUsePromptTokenCount\":2,\"candidatesTokenCount\":3}}\n\n",
        ),
        expect![[r#"
            Text("one")
            Text("two")
            Text("three")
            call 0 starts: clock
            call 0: clock {}
            call 1 starts: clock
            call 1: clock {}
            used 7+3
            ThinkingSignature(":{\"from\":\"\",\"pieces\":[{\"own\":{\"next\":{\"signature\":\"A\"}}},{\"text\":3},{\"own\":{\"next\":{}}},{\"text\":8},{\"own\":{\"next\":{\"signature\":\"B\",\"id\":\"46ww\"}}},\"call\",\"call\",{\"own\":{\"empty\":{\"signature\":\"C\"}}}]}")
            Stop 7+3"#]],
    );
    // Text after a call.
    check(
        ProviderKind::Gemini,
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"name\":\"clock\",\"args\":[]}},{\"text\":\"x\"}]},\"finishReason\":\"STOP\"}]}\n\n",
        expect![[r#"
            call 0 starts: clock
            bad call 0: clock []
            Text("x")
            ThinkingSignature(":{\"from\":\"\",\"pieces\":[\"call\",{\"text\":1}]}")
            Stop ?"#]],
    );
}

#[test]
fn gemini_usage() {
    let stream = "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"x\"}]},\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":900,\"cachedContentTokenCount\":700,\"toolUsePromptTokenCount\":10,\"candidatesTokenCount\":20,\"thoughtsTokenCount\":30}}\n\n";
    let items = read(ProviderKind::Gemini, [stream.as_bytes()]);
    let Some(Ok(ModelEvent::Finished { usage, .. })) = items.last() else { panic!("{items:?}") };
    let expected = everturn_core::Usage { input: 910, output: 50, cached_input: 700, cache_write: 0, reasoning: 30 };
    assert_eq!(*usage, Some(expected));
}

#[test]
fn ollama_endings() {
    check(
        ProviderKind::Ollama,
        "{\"message\":{\"content\":\"x\"},\"done\":true,\"done_reason\":\"length\"}\n",
        expect![[r#"
            Text("x")
            MaxTokens ?"#]],
    );
    check(
        ProviderKind::Ollama,
        "{\"message\":{\"content\":\"x\"},\"done\":false}\n{\"error\":\"model runner has unexpectedly stopped\"}\n",
        expect![[r#"
            Text("x")
            Unavailable: test reports: model runner has unexpectedly stopped"#]],
    );
    check(
        ProviderKind::Ollama,
        "{\"error\":\"the prompt is longer than the context length currently available to the model\"}\n",
        expect![
            "ContextOverflow: test reports: the prompt is longer than the context length currently available to the model"
        ],
    );
    // The model came, and nobody asked it.
    check(
        ProviderKind::Ollama,
        "{\"message\":{\"role\":\"assistant\",\"content\":\"\"},\"done\":true,\"done_reason\":\"load\"}\n",
        expect!["Unavailable: test gave its answer up with load"],
    );
    // Thoughts without a call leave no record; calls in several records, one without input.
    check(
        ProviderKind::Ollama,
        "{\"message\":{\"content\":\"x\",\"thinking\":\"hm\"}}\n{\"message\":null,\"done\":true}\n",
        expect![[r#"
            Thinking("hm")
            Text("x")
            Stop ?"#]],
    );
    check(
        ProviderKind::Ollama,
        concat!(
            "{\"message\":{\"thinking\":\"hm\",\"tool_calls\":[{\"function\":{\"name\":\"a\"}}]},\"done\":false}\n",
            "{\"message\":{\"tool_calls\":[{\"function\":{\"name\":\"b\",\"arguments\":{\"x\":1}}}]},\"done\":false}\n",
            "{\"done\":true,\"done_reason\":\"stop\",\"eval_count\":3}\n",
        ),
        expect![[r#"
            Thinking("hm")
            call 0 starts: a
            call 0: a {}
            call 1 starts: b
            call 1: b {"x":1}
            used 0+3
            ThinkingSignature(":{\"from\":\"\",\"pieces\":[{\"own\":null},\"call\",\"call\"]}")
            Stop 0+3"#]],
    );
}

#[test]
fn what_an_answer_holds_is_bounded() {
    let call = |index: usize, input: &str| {
        format!(
            "data: {{\"choices\":[{{\"delta\":{{\"tool_calls\":[{{\"index\":{index},\"id\":\"{index}\",\"function\":{{\"name\":\"a\",\"arguments\":\"{input}\"}}}}]}}}}]}}\n\n"
        )
    };
    let last = |stream: String| show(&read(ProviderKind::OpenAi, [stream.as_bytes()]).split_off(1)[..]);
    let input = call(0, &"1".repeat(1000)).repeat(1100);
    assert!(last(input).ends_with("Rejected: test sent more than 1048576 bytes of tool input in one answer"));
    let calls: String = (0..200).map(|index| call(index, "")).collect();
    assert!(last(calls).ends_with("Rejected: test sent more than 128 tool calls in one answer"));
    let frame = format!("data: [DONE\n\ndata: {}", "1".repeat(9 * 1024 * 1024));
    let items = read(ProviderKind::OpenAi, [frame.as_bytes()]);
    assert_eq!(show(&items), "Unavailable: test sent what is no part of an answer: [DONE");
    let frame = "1".repeat(9 * 1024 * 1024);
    let items = read(ProviderKind::Ollama, [frame.as_bytes()]);
    assert_eq!(show(&items), "Rejected: test sent a single event of more than 8388608 bytes");
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
