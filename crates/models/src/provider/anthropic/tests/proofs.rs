//! Which thinking is sent again.

use everturn_core::{Block, CallId, Content, Message};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Session, call, clock, proofs_of, remove_marks, text, thought};

#[test]
fn blocks_go_back_exactly_as_they_came() {
    let mut session = Session::new("claude-opus-5-5");
    let first = [
        thought("", "A"),
        json!({"type": "redacted_thinking", "data": "B"}),
        text("One, "),
        text("two."),
        thought("Hm. ", "C"),
        call("toolu_1"),
        thought("Öh.", "D"),
        call("toolu_2"),
    ];
    session.answer(&first);
    let second = [thought("Done.", "E"), text("Three.")];
    session.answer(&second);
    let sent = session.sent();
    assert_eq!(sent[1], json!({"role": "assistant", "content": first}));
    assert_eq!(sent[2]["content"][0]["tool_use_id"], "toolu_1");
    assert_eq!(sent[2]["content"][1]["tool_use_id"], "toolu_2");
    assert_eq!(sent[3], json!({"role": "assistant", "content": second}));
    // The text of the thinking stands in history once, as the thinking that readers see.
    let Message::Assistant { content } = &session.messages[1] else { unreachable!() };
    let Block::Thinking { text, signature: Some(record) } = &content.blocks()[0] else { unreachable!() };
    assert_eq!(text, "Hm. Öh.");
    assert!(!record.contains("Öh"), "{record}");
}

#[test]
fn ids_that_came_before_are_not_used_again() {
    let mut session = Session::new("claude-opus-5-5");
    session.answer(&[thought("", "A"), call("toolu_1")]);
    session.answer(&[thought("", "B"), call("toolu_1")]);
    let ids: Vec<String> = session
        .sent()
        .iter()
        .flat_map(|message| message["content"].as_array().unwrap().clone())
        .filter_map(|block| ["id", "tool_use_id"].iter().find_map(|field| Some(block[field].as_str()?.to_owned())))
        .collect();
    assert_eq!(ids, ["toolu_1", "toolu_1", "call_3_0", "call_3_0"]);
}

/// Three answers, each with thinking: A, B, C.
fn three_answers(model: &'static str) -> Session {
    let mut session = Session::new(model);
    session.answer(&[thought("a", "A"), call("toolu_1")]);
    session.answer(&[thought("b", "B"), text("Well.")]);
    session.answer(&[thought("c", "C"), text("Well, well.")]);
    session
}

#[test]
fn thinking_is_sent_only_after_what_it_followed() {
    let session = three_answers("claude-opus-5-5");
    assert_eq!(session.proofs(), ["A", "B", "C"]);

    let mut changed = session.clone();
    changed.request.system = "Be brief. No tools today.".into();
    assert_eq!(changed.proofs(), [""; 0]);
    // What the model thinks from here on counts here, and no longer where the instructions were others.
    changed.answer(&[thought("d", "D"), text("Yes.")]);
    assert_eq!(changed.proofs(), ["D"]);
    changed.answer(&[thought("e", "E"), text("Yes.")]);
    assert_eq!(changed.proofs(), ["D", "E"]);
    changed.request.system = "Be brief.".into();
    assert_eq!(changed.proofs(), ["A", "B", "C"]);
    changed.answer(&[thought("f", "F"), text("Yes.")]);
    assert_eq!(changed.proofs(), ["A", "B", "C", "F"]);

    let mut changed = session.clone();
    changed.request.tools = [clock()].into();
    assert_eq!(changed.proofs(), [""; 0]);
    changed.learned.tools.insert("clock".into());
    assert_eq!(changed.proofs(), ["A", "B", "C"]);

    let mut changed = session.clone();
    changed.messages[0] = Message::user("Went.");
    assert_eq!(changed.proofs(), [""; 0]);

    let mut changed = session.clone();
    changed.messages[2] = Message::tool(CallId::new("call_1_0"), "cut");
    assert_eq!(changed.proofs(), ["A"]);

    // Compaction: a summary, then the newest messages as they were.
    let mut changed = session.clone();
    changed.messages.drain(1..5);
    assert_eq!(changed.proofs(), [""; 0]);
}

#[test]
fn thinking_that_was_refused_stays_out() {
    let mut session = three_answers("claude-opus-5-5");
    session.without_proofs = true;
    assert_eq!(session.proofs(), [""; 0]);
    session.answer(&[thought("d", "D"), text("Yes.")]);
    session.without_proofs = false;
    assert_eq!(session.proofs(), ["D"]);
    session.answer(&[thought("e", "E"), text("Yes.")]);
    assert_eq!(session.proofs(), ["D", "E"]);
}

#[test]
fn thinking_goes_to_models_that_may_read_it() {
    let mut session = three_answers("claude-opus-5-5");
    session.model = "claude-fable-5-2";
    assert_eq!(session.proofs(), ["A", "B", "C"]);
    session.model = "kimi-k3";
    assert_eq!(session.proofs(), [""; 0]);
    let mut session = three_answers("kimi-k3");
    assert_eq!(session.proofs(), ["A", "B", "C"]);
    session.answer(&[thought("unsigned", ""), text("Yes.")]);
    assert_eq!(session.proofs(), ["A", "B", "C", ""]);
    session.model = "claude-opus-5-5";
    assert_eq!(session.proofs(), [""; 0]);
    // Anthropic's models take nothing that is not signed.
    let mut session = Session::new("claude-opus-5-5");
    session.answer(&[thought("unsigned", ""), text("Yes.")]);
    assert_eq!(session.proofs(), [""; 0]);
}

#[test]
fn a_record_that_does_not_fit_is_ignored() {
    let session = three_answers("claude-opus-5-5");
    for record in ["anthropic:EqQB", "anthropic:[{}]", "anthropic:{}", "gemini:{}", ""] {
        let mut session = session.clone();
        let Message::Assistant { content: Content::Blocks(blocks) } = &mut session.messages[1] else { unreachable!() };
        blocks[0] = Block::Thinking { text: "a".into(), signature: Some(record.to_owned()) };
        assert_eq!(session.sent()[1]["content"], json!([call("call_1_0")]), "{record}");
    }
    // Thinking whose text was changed is not what was signed.
    let mut session = session;
    let Message::Assistant { content: Content::Blocks(blocks) } = &mut session.messages[1] else { unreachable!() };
    let Block::Thinking { text, .. } = &mut blocks[0] else { unreachable!() };
    text.push('!');
    assert_eq!(session.proofs(), ["B", "C"]);
}

/// One block of an answer; its number makes it unlike all others.
fn block(kind: u8, number: usize) -> Value {
    match kind {
        0 => thought(&format!("Hm {number}. "), &format!("sig{number}")),
        1 => thought("", &format!("sig{number}")),
        2 => json!({"type": "redacted_thinking", "data": format!("sig{number}")}),
        3 => call(&format!("toolu_{number}")),
        _ => text(&format!("Wörd {number}. ")),
    }
}

fn answers() -> impl Strategy<Value = Vec<Vec<Value>>> {
    let kinds = prop::collection::vec(prop::collection::vec(0..5_u8, 1..6), 1..6);
    kinds.prop_map(|answers| {
        let mut number = 0;
        let mut blocks = |kinds: Vec<u8>| -> Vec<Value> {
            let mut blocks: Vec<Value> = Vec::new();
            for kind in kinds.into_iter().chain([4]) {
                number += 1;
                blocks.push(block(kind, number));
            }
            blocks
        };
        answers.into_iter().map(&mut blocks).collect()
    })
}

proptest! {
    #[test]
    fn requests_only_grow_and_carry_every_proof(answers in answers()) {
        let mut session = Session::new("claude-opus-5-5");
        let mut before = session.sent();
        let mut given = Vec::new();
        for blocks in &answers {
            session.answer(blocks);
            given.extend(proofs_of(blocks));
            let now = session.sent();
            prop_assert_eq!(&now[..before.len()], &before[..]);
            prop_assert_eq!(session.proofs(), given.clone());
            if blocks.iter().any(|block| block["signature"].is_string() || block["data"].is_string()) {
                prop_assert_eq!(&now[before.len()], &json!({"role": "assistant", "content": blocks}));
            }
            before = now;
        }
    }

    #[test]
    fn no_stale_proof_is_sent(answers in answers(), at in any::<prop::sample::Index>(), tools in any::<bool>()) {
        let mut session = Session::new("claude-opus-5-5");
        // What was sent before each answer, by the proof that came with it.
        let mut beginnings: Vec<(String, Value)> = Vec::new();
        let beginning = |session: &Session, until: usize| {
            let mut body = session.body();
            remove_marks(&mut body);
            let mut messages = body["messages"].as_array().unwrap()[..until].to_vec();
            for message in &mut messages {
                let blocks = message["content"].as_array_mut().unwrap();
                blocks.retain(|block| !block["signature"].is_string() && !block["data"].is_string());
            }
            json!([body["system"], body["tools"], messages])
        };
        for blocks in &answers {
            let sent = beginning(&session, session.sent().len());
            beginnings.extend(proofs_of(blocks).into_iter().map(|proof| (proof, sent.clone())));
            session.answer(blocks);
        }
        if tools {
            session.request.tools = [clock()].into();
        } else {
            let at = at.index(session.messages.len());
            match &mut session.messages[at] {
                Message::User { content } => *content = Content::Text("Something else.".into()),
                Message::Tool { content, .. } => *content = Content::Text("something else".into()),
                Message::Assistant { .. } | Message::System { .. } => session.request.system.push('!'),
            }
        }
        let all = beginnings.len();
        let sent = session.sent();
        let mut kept = 0;
        for (at, message) in sent.iter().enumerate() {
            for proof in proofs_of(message["content"].as_array().unwrap()) {
                let (_, made_after) = beginnings.iter().find(|(given, _)| *given == proof).unwrap();
                prop_assert_eq!(made_after, &beginning(&session, at));
                kept += 1;
            }
        }
        if tools && all > 0 {
            prop_assert_eq!(kept, 0);
        }
    }
}
