//! Answers that are held to what their request asks for where the provider does not: stop texts, and one call at most.

use everturn_core::ModelOptions;
use serde_json::{Value, json};

use super::*;

fn events_of(frames: &[Value]) -> Vec<String> {
    frames.iter().map(|frame| format!("data: {frame}\n\n")).collect()
}

/// The frames of an answer: its text in these pieces, then this many calls, then why it ended and what it took.
fn frames(wire: &dyn Wire, pieces: &[&str], calls: usize) -> Vec<String> {
    let ids = (0..calls).map(|at| (at, format!("c{at}")));
    match wire.name() {
        "chat" => {
            let delta = |delta: Value| json!({ "choices": [{ "delta": delta }] });
            let mut frames: Vec<Value> = pieces.iter().map(|text| delta(json!({ "content": text }))).collect();
            frames.extend(ids.map(|(at, id)| {
                let function = json!({ "name": "clock", "arguments": "{}" });
                let extra = json!({ "google": { "thought_signature": id } });
                delta(
                    json!({ "tool_calls": [{ "index": at, "id": id, "function": function, "extra_content": extra }] }),
                )
            }));
            frames.push(json!({ "choices": [{ "delta": {}, "finish_reason": "stop" }] }));
            frames.push(json!({ "choices": [], "usage": { "prompt_tokens": 7, "completion_tokens": 5 } }));
            [events_of(&frames), vec!["data: [DONE]\n\n".to_owned()]].concat()
        }
        "responses" => {
            let reasoning = |id: &str| json!({ "type": "reasoning", "id": id, "summary": [], "encrypted_content": id });
            let done = |at: usize, item: Value| json!({ "type": "response.output_item.done", "output_index": at, "item": item });
            let text = |text: &&str| json!({ "type": "response.output_text.delta", "output_index": 1, "delta": text });
            let mut frames = vec![done(0, reasoning("r"))];
            frames.extend(pieces.iter().map(text));
            frames.extend(ids.flat_map(|(at, id)| {
                let call = json!({ "type": "function_call", "name": "clock", "call_id": id, "arguments": "{}" });
                [done(2 * at + 2, reasoning(&format!("r{at}"))), done(2 * at + 3, call)]
            }));
            let usage = json!({ "input_tokens": 7, "output_tokens": 5 });
            frames.push(json!({ "type": "response.completed", "response": { "status": "completed", "usage": usage } }));
            events_of(&frames)
        }
        "anthropic" => {
            let block =
                |at: usize, block: Value| json!({ "type": "content_block_start", "index": at, "content_block": block });
            let delta = |at: usize, delta: Value| json!({ "type": "content_block_delta", "index": at, "delta": delta });
            let stop = |at: usize| json!({ "type": "content_block_stop", "index": at });
            let thinking = json!({ "type": "thinking", "thinking": "", "signature": "s" });
            let usage = json!({ "input_tokens": 7, "output_tokens": 1 });
            let mut frames = vec![
                json!({ "type": "message_start", "message": { "usage": usage } }),
                block(0, thinking),
                stop(0),
                block(1, json!({ "type": "text", "text": "" })),
            ];
            frames.extend(pieces.iter().map(|text| delta(1, json!({ "type": "text_delta", "text": text }))));
            frames.push(stop(1));
            frames.extend(ids.flat_map(|(at, id)| {
                let call = json!({ "type": "tool_use", "id": id, "name": "clock", "input": {} });
                [block(at + 2, call), stop(at + 2)]
            }));
            let usage = json!({ "output_tokens": 5 });
            frames.push(json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" }, "usage": usage }));
            frames.push(json!({ "type": "message_stop" }));
            events_of(&frames)
        }
        "gemini" => {
            let part = |part: Value| json!({ "candidates": [{ "content": { "parts": [part] } }] });
            let mut frames: Vec<Value> = pieces.iter().map(|text| part(json!({ "text": text }))).collect();
            frames.extend(ids.map(|(_, id)| {
                part(json!({ "functionCall": { "id": id, "name": "clock", "args": {} }, "thoughtSignature": id }))
            }));
            let usage = json!({ "promptTokenCount": 7, "candidatesTokenCount": 5 });
            frames.push(json!({ "candidates": [{ "finishReason": "STOP" }], "usageMetadata": usage }));
            events_of(&frames)
        }
        "ollama" => {
            let message = |message: Value| format!("{}\n", json!({ "message": message }));
            let mut frames: Vec<String> = pieces.iter().map(|text| message(json!({ "content": text }))).collect();
            frames.extend(ids.map(|_| {
                message(
                    json!({ "thinking": "hm", "tool_calls": [{ "function": { "name": "clock", "arguments": {} } }] }),
                )
            }));
            frames.push(format!("{}\n", json!({ "done": true, "prompt_eval_count": 7, "eval_count": 5 })));
            frames
        }
        other => unreachable!("{other}"),
    }
}

fn stops(stops: &[&str]) -> ModelOptions {
    ModelOptions { stop: stops.iter().map(|stop| (*stop).to_owned()).collect(), ..ModelOptions::default() }
}

/// An answer of which so much has come; the provider keeps the connection open.
fn begun(wire: &dyn Wire, frames: &[String], options: &ModelOptions) -> AnswerStream {
    let chunks: Vec<_> = frames.iter().map(|frame| Ok(Bytes::from(frame.clone()))).collect();
    let failures = Failures { provider: "test".into(), secrets: Vec::new() };
    let body = stream::iter(chunks).chain(stream::pending()).boxed();
    AnswerStream::new(wire, body, failures, Origin::default()).held_to(options)
}

/// A whole answer.
fn whole(wire: &dyn Wire, frames: &[String], options: &ModelOptions) -> AnswerStream {
    let chunks: Vec<_> = frames.iter().map(|frame| Ok(Bytes::from(frame.clone()))).collect();
    let failures = Failures { provider: "test".into(), secrets: Vec::new() };
    AnswerStream::new(wire, stream::iter(chunks).boxed(), failures, Origin::default()).held_to(options)
}

/// What can be shown of an answer by now: its events without signs of life.
fn events(mut answer: AnswerStream) -> Vec<ModelEvent> {
    let mut events = Vec::new();
    while let Some(Some(item)) = answer.next().now_or_never() {
        events.push(item.unwrap());
    }
    events.retain(|event| !matches!(event, ModelEvent::Alive | ModelEvent::Used(_)));
    events
}

fn shown(wire: &dyn Wire, frames: &[String], options: &ModelOptions) -> Vec<ModelEvent> {
    events(whole(wire, frames, options))
}

fn text_of(events: &[ModelEvent]) -> String {
    events
        .iter()
        .filter_map(|event| if let ModelEvent::Text(text) = event { Some(text.as_str()) } else { None })
        .collect()
}

fn calls_of(events: &[ModelEvent]) -> usize {
    events.iter().filter(|event| matches!(event, ModelEvent::ToolCall { .. })).count()
}

fn record_of(events: &[ModelEvent]) -> &str {
    let mut records = events.iter().filter_map(|event| match event {
        ModelEvent::ThinkingSignature(record) => Some(record.as_str()),
        _ => None,
    });
    records.next().unwrap_or_default()
}

fn usage_of(events: &[ModelEvent]) -> Option<u64> {
    let Some(ModelEvent::Finished { finish, usage }) = events.last() else { panic!("{events:?}") };
    assert_eq!(*finish, crate::model::ModelFinish::Stop);
    usage.map(|usage| usage.output)
}

#[test]
fn a_stop_text_ends_the_answer_on_every_wire() {
    for (wire, _) in SAMPLES {
        let name = wire.name();
        for (pieces, stop, expected) in [
            (vec!["one END two"], vec!["END"], "one "),
            (vec!["one E", "N", "D two"], vec!["END"], "one "),
            (vec!["one E", "E", "ND two"], vec!["END"], "one E"),
            (vec!["one\n", "\ntwo END"], vec!["END", "\n\n"], "one"),
            (vec!["one 1 2 3 4 5 6"], vec!["a", "b", "c", "d", "f", "6"], "one 1 2 3 4 5 "),
        ] {
            let events = shown(wire, &frames(wire, &pieces, 1), &stops(&stop));
            assert_eq!(text_of(&events), expected, "{name} {pieces:?}");
            assert_eq!(calls_of(&events), 0, "{name} {pieces:?}");
            // The provider has not told what the whole answer took.
            assert_eq!(usage_of(&events), None, "{name} {pieces:?}");
        }
    }
}

#[test]
fn text_that_only_resembles_a_stop_text_is_not_lost() {
    for (wire, _) in SAMPLES {
        let name = wire.name();
        for pieces in [vec!["one E", "N", "e two"], vec!["one EN"], vec!["one ", "E"], vec!["E", "EN", "N"]] {
            let events = shown(wire, &frames(wire, &pieces, 1), &stops(&["END", "ONE"]));
            assert_eq!(text_of(&events), pieces.concat(), "{name} {pieces:?}");
            assert_eq!((calls_of(&events), usage_of(&events)), (1, Some(5)), "{name} {pieces:?}");
            // The text before a call is shown before the call.
            let call = events.iter().position(|event| matches!(event, ModelEvent::ToolCallStarted { .. })).unwrap();
            assert_eq!(text_of(&events[..call]), pieces.concat(), "{name} {pieces:?}");
        }
    }
}

#[test]
fn text_is_held_back_no_longer_than_the_model_writes() {
    for (wire, _) in SAMPLES {
        let name = wire.name();
        let frames = frames(wire, &["one EN"], 0);
        // The provider is still to say what the answer took, and that nothing follows.
        let rest = match name {
            "chat" => 2,
            "anthropic" => 1,
            _ => 0,
        };
        let until_reason = &frames[..frames.len() - rest];
        assert_eq!(text_of(&events(begun(wire, until_reason, &stops(&["END"])))), "one EN", "{name}");
        assert_eq!(
            text_of(&events(begun(wire, &frames[..1], &stops(&["END"])))).trim_end(),
            match name {
                "chat" | "gemini" | "ollama" => "one",
                _ => "",
            }
        );
        // An answer that breaks off has shown all that came.
        let body = stream::iter([Ok(Bytes::from(frames[..frames.len() - rest - 1].concat()))]).boxed();
        let failures = Failures { provider: "test".into(), secrets: Vec::new() };
        let cut = AnswerStream::new(wire, body, failures, Origin::default()).held_to(&stops(&["END"]));
        let (events, errors): (Vec<_>, Vec<_>) =
            cut.collect::<Vec<_>>().now_or_never().unwrap().into_iter().partition(Result::is_ok);
        let events: Vec<_> = events.into_iter().map(Result::unwrap).collect();
        assert_eq!((text_of(&events).as_str(), errors.len()), ("one EN", 1), "{name}");
    }
}

#[test]
fn a_stop_text_ends_the_call_at_the_provider() {
    for (wire, _) in SAMPLES {
        let frames = frames(wire, &["one ", "END", " two"], 1);
        let mut answer = begun(wire, &frames, &stops(&["END"]));
        let mut events = Vec::new();
        // The body has no end. Only a reader that hangs up comes to the end of the answer.
        while let Some(item) = answer.next().now_or_never().unwrap() {
            events.push(item.unwrap());
        }
        assert!(matches!(events.last(), Some(ModelEvent::Finished { .. })), "{}", wire.name());
    }
}

#[test]
fn an_answer_in_one_piece_ends_at_a_stop_text_too() {
    let chat = json!({ "choices": [{ "message": { "content": "one END two" }, "finish_reason": "stop" }], "usage": { "prompt_tokens": 7, "completion_tokens": 5 } });
    let anthropic = json!({ "type": "message", "content": [{ "type": "text", "text": "one END two" }, { "type": "tool_use", "name": "clock", "id": "c" }], "stop_reason": "tool_use" });
    let gemini =
        json!([{ "candidates": [{ "content": { "parts": [{ "text": "one END two" }] }, "finishReason": "OTHER" }] }]);
    for (wire, document) in [(SAMPLES[0].0, chat), (SAMPLES[1].0, anthropic), (SAMPLES[2].0, gemini)] {
        let body = stream::iter([Ok(Bytes::from(document.to_string()))]).boxed();
        let failures = Failures { provider: "test".into(), secrets: Vec::new() };
        let answer = AnswerStream::new(wire, body, failures, Origin::default()).held_to(&stops(&["END"]));
        let events: Vec<_> = answer.map(Result::unwrap).collect::<Vec<_>>().now_or_never().unwrap();
        assert_eq!((text_of(&events).as_str(), calls_of(&events)), ("one ", 0), "{}", wire.name());
        assert!(matches!(events.last(), Some(ModelEvent::Finished { .. })), "{}", wire.name());
    }
}

#[test]
fn the_record_of_a_stopped_answer_has_what_stands_before_the_stop_text() {
    let record = |wire: &dyn Wire, pieces: &[&str]| {
        record_of(&shown(wire, &frames(wire, pieces, 1), &stops(&["END"]))).to_owned()
    };
    let (anthropic, gemini) = (SAMPLES[1].0, SAMPLES[2].0);
    expect![[r#":{"from":"","pieces":[{"own":{"type":"thinking","length":0,"signature":"s"}},{"text":4}]}"#]]
        .assert_eq(&record(anthropic, &["one E", "ND two"]));
    expect![[
        r#":{"from":"","pieces":[{"own":{"reasoning":{"id":"r","summary":[],"encrypted_content":"r"}}},{"text":4}]}"#
    ]]
    .assert_eq(&record(RESPONSES, &["one E", "ND two"]));
    // Reasoning goes back only before something.
    assert_eq!(record(anthropic, &["E", "ND two"]), "");
    assert_eq!(record(RESPONSES, &["END"]), "");
    // A signature is of a whole text. One that is cut is not signed.
    let part = |text: &str, signature: &str| {
        let part = json!({ "text": text, "thoughtSignature": signature });
        format!("data: {}\n\n", json!({ "candidates": [{ "content": { "parts": [part] } }] }))
    };
    let events = shown(gemini, &[part("one ", "A"), part("two E", "B"), part("ND", "C")], &stops(&["END"]));
    assert_eq!(text_of(&events), "one two ");
    expect![[r#":{"from":"","pieces":[{"own":{"next":{"signature":"A"}}},{"text":4},{"text":4}]}"#]]
        .assert_eq(record_of(&events));
    let events = shown(gemini, &[part("one ", "A"), part("END", "B")], &stops(&["END"]));
    expect![[r#":{"from":"","pieces":[{"own":{"next":{"signature":"A"}}},{"text":4}]}"#]].assert_eq(record_of(&events));
}

#[test]
fn the_gap_between_two_messages_is_no_stop_text() {
    let text =
        |at: usize, text: &str| json!({ "type": "response.output_text.delta", "output_index": at, "delta": text });
    let done = json!({ "type": "response.completed", "response": { "status": "completed" } });
    let frames = events_of(&[text(0, "one"), text(1, "two\n"), text(1, "\nthree"), done]);
    assert_eq!(text_of(&shown(RESPONSES, &frames, &stops(&["\n\n"]))), "one\n\ntwo");
}

#[test]
fn one_call_is_made_where_one_is_asked_for() {
    let one_call = ModelOptions { parallel_tool_calls: Some(false), ..ModelOptions::default() };
    for (wire, _) in SAMPLES {
        let name = wire.name();
        let frames = frames(wire, &["Hm."], 3);
        assert_eq!(calls_of(&shown(wire, &frames, &ModelOptions::default())), 3, "{name}");
        let events = shown(wire, &frames, &one_call);
        let of_calls = events.iter().filter(|event| {
            matches!(
                event,
                ModelEvent::ToolCallStarted { .. } | ModelEvent::ToolInputDelta { .. } | ModelEvent::BadToolCall { .. }
            )
        });
        assert_eq!(calls_of(&events), 1, "{name}");
        assert!(of_calls.count() <= 2, "{name}: {events:?}");
        assert_eq!((text_of(&events).as_str(), usage_of(&events)), ("Hm.", Some(5)), "{name}");
        // Nothing in the record is of a call that is not made.
        let record = record_of(&events);
        let calls = record.matches("\"call\"").count() - record.matches("\"call\":").count();
        assert_eq!(calls, usize::from(!record.is_empty()), "{name}: {record}");
        for foreign in ["c1", "c2", "r1", "r2"] {
            assert!(!record.contains(foreign), "{name}: {record}");
        }
    }
}
