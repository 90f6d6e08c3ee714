//! An answer that is read and sent back is the answer that was given.

use everturn_core::{CallId, Content, Message, ToolUse};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{contents::contents, decode::Chunks, facts::facts};
use crate::{
    model::{ModelEvent, ModelRequest},
    provider::{
        answer::{Answer, Decoder},
        catalog::Known,
        learned::Learned,
        proof::{self, Proof},
        wire::{Ask, Settings},
    },
};

const FROM: &str = "gemini/gemini-4-argon";

/// A part as a model gives it.
#[derive(Clone, Debug)]
enum Given {
    Text(String, Option<String>),
    Call(Option<String>, Option<String>),
    Thought(String, Option<String>),
}

impl Given {
    fn json(&self) -> Value {
        let mut part = match self {
            Self::Text(text, _) => json!({ "text": text }),
            Self::Call(Some(id), _) => json!({ "functionCall": { "id": id, "name": "clock", "args": { "a": 1 } } }),
            Self::Call(None, _) => json!({ "functionCall": { "name": "clock", "args": { "a": 1 } } }),
            Self::Thought(text, _) => json!({ "text": text, "thought": true }),
        };
        if let Self::Text(_, Some(signature)) | Self::Call(_, Some(signature)) | Self::Thought(_, Some(signature)) =
            self
        {
            part["thoughtSignature"] = signature.as_str().into();
        }
        part
    }
}

fn given() -> impl Strategy<Value = Vec<Given>> {
    let signature = || proptest::option::of("[A-Za-z0-9+/=]{1,8}");
    let part = prop_oneof![
        (".{0,6}", signature()).prop_map(|(text, signature)| Given::Text(text, signature)),
        (proptest::option::of("[a-z0-9]{1,4}"), signature()).prop_map(|(id, signature)| Given::Call(id, signature)),
        (".{0,6}", signature()).prop_map(|(text, signature)| Given::Thought(text, signature)),
    ];
    proptest::collection::vec(part, 1..8)
}

/// The parts, read in chunks of this length and kept as history keeps them.
fn remembered(given: &[Given], chunk: usize) -> (Message, Option<String>) {
    let (mut decoder, mut answer) = (Chunks::default(), Answer::default());
    for parts in given.chunks(chunk) {
        let parts: Vec<Value> = parts.iter().map(Given::json).collect();
        let frame = json!({ "candidates": [{ "content": { "parts": parts } }] });
        decoder.frame(&frame.to_string(), &mut answer).unwrap();
    }
    answer.end();
    let mut record = None;
    answer.complete(|pieces| {
        record = proof::write("gemini", &Proof { from: FROM.to_owned(), prefix: None, pieces });
        record.clone()
    });
    let (mut thinking, mut text, mut calls) = (String::new(), String::new(), Vec::new());
    while let Some(event) = answer.pop() {
        match event {
            ModelEvent::Thinking(piece) => thinking.push_str(&piece),
            ModelEvent::Text(piece) => text.push_str(&piece),
            ModelEvent::ToolCall { part, name, input } => {
                calls.push(ToolUse { id: CallId::new(format!("ours_{part}")), name, input });
            }
            _ => {}
        }
    }
    (Message::Assistant { content: Content::answer(thinking, record.clone(), text, calls) }, record)
}

/// What goes back of an answer, to a model of this name.
fn sent(message: Message, from: &str, without_proofs: bool) -> Vec<Value> {
    sent_to("generativelanguage.googleapis.com", message, from, without_proofs)
}

fn sent_to(host: &str, message: Message, from: &str, without_proofs: bool) -> Vec<Value> {
    let request =
        ModelRequest { messages: [Message::user("hello"), message].into_iter().collect(), ..ModelRequest::default() };
    let settings = Settings { host: host.to_owned(), ..Settings::default() };
    let (learned, known) = (Learned::default(), Known::default());
    let model = from.split_once('/').unwrap().1;
    let (settings, learned, request) = (&settings, &learned, &request);
    let ask = Ask { from, model, settings, known, learned, request, without_proofs, ends_with_wish: false };
    let contents = serde_json::to_value(contents(&ask, facts(model))).unwrap();
    let model_content = contents.as_array().unwrap().iter().find(|content| content["role"] == "model");
    model_content.map(|content| content["parts"].as_array().unwrap().clone()).unwrap_or_default()
}

/// The parts that must go back: streamed pieces of a text joined, thoughts and empty texts only where they are signed, and
/// a stand-in where the first call has no signature.
fn expected(given: &[Given]) -> Vec<Value> {
    let mut parts: Vec<Value> = Vec::new();
    let mut joins = false;
    let mut calls = 0;
    for one in given {
        match one {
            Given::Text(text, None) if text.is_empty() => continue,
            Given::Text(text, None) if joins => {
                let last = parts.last_mut().unwrap();
                last["text"] = format!("{}{text}", last["text"].as_str().unwrap()).into();
                continue;
            }
            Given::Thought(_, None) => continue,
            Given::Text(..) | Given::Thought(..) => parts.push(one.json()),
            Given::Call(id, signature) => {
                let mut part = one.json();
                part["functionCall"]["id"] = id.clone().unwrap_or_else(|| format!("ours_{calls}")).into();
                if calls == 0 && signature.is_none() {
                    part["thoughtSignature"] = "skip_thought_signature_validator".into();
                }
                calls += 1;
                parts.push(part);
            }
        }
        joins = matches!(one, Given::Text(_, None));
    }
    parts
}

fn is_shown(given: &[Given]) -> bool {
    given.iter().any(|one| match one {
        Given::Text(text, _) => !text.trim().is_empty(),
        Given::Call(..) => true,
        Given::Thought(..) => false,
    })
}

proptest! {
    #[test]
    fn order_and_signatures_survive(given in given(), chunk in 1_usize..4) {
        prop_assume!(is_shown(&given));
        let (message, record) = remembered(&given, chunk);
        // Without a record, history alone tells everything; a text of blanks does not go back then.
        prop_assume!(record.is_some() || !given.iter().any(|one| matches!(one, Given::Text(text, _) if text.trim().is_empty())));
        prop_assert_eq!(sent(message, FROM, false), expected(&given));
    }

    #[test]
    fn signatures_of_another_model_and_refused_ones_do_not_go_back(given in given(), chunk in 1_usize..4) {
        prop_assume!(is_shown(&given));
        let (message, _) = remembered(&given, chunk);
        for (from, without_proofs) in [("gemini/gemini-3.8-flash", false), ("vertex/gemini-4-argon", false), (FROM, true)] {
            let parts = sent(message.clone(), from, without_proofs);
            let signed: Vec<&Value> = parts.iter().filter(|part| part.get("thoughtSignature").is_some()).collect();
            let has_call = parts.iter().any(|part| part.get("functionCall").is_some());
            prop_assert_eq!(signed.len(), usize::from(has_call));
            prop_assert!(signed.iter().all(|part| part["thoughtSignature"] == "skip_thought_signature_validator"));
            prop_assert!(parts.iter().all(|part| part["text"] != "" && part.get("thought").is_none()));
            let texts: String = parts.iter().filter_map(|part| part["text"].as_str()).collect();
            let Message::Assistant { content } = &message else { unreachable!() };
            if !content.text().trim().is_empty() {
                prop_assert_eq!(texts, content.text());
            }
        }
        let older = sent(message, "gemini/gemini-2.5-flash", false);
        prop_assert!(older.iter().all(|part| part.get("thoughtSignature").is_none()));
    }
}

#[test]
fn older_models_on_vertex_are_given_no_ids() {
    let id = |host: &str, from: &str| {
        let (message, _) = remembered(&[Given::Call(Some("46ww".to_owned()), None)], 1);
        sent_to(host, message, from, false)[0]["functionCall"].get("id").cloned()
    };
    assert_eq!(id("us-central1-aiplatform.googleapis.com", "vertex/gemini-2.5-flash"), None);
    assert_eq!(id("us-central1-aiplatform.googleapis.com", "vertex/gemini-3.8-flash"), Some("46ww".into()));
    assert_eq!(id("generativelanguage.googleapis.com", "gemini/gemini-2.5-flash"), Some("46ww".into()));
}
