//! A model that says and does anything, by chance, and notes when it is asked what no provider would take.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use everturn_core::{Message, Usage};
use everturn_models::{ModelErrorKind, ModelFinish, ModelRequest};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};

use crate::suite::harness::*;

/// Tools that take a text.
const TOOLS: [&str; 10] = ["look", "book", "pay", "send", "weather", "slow", "panicky", "nosuch", "plans", "orders"];
const FORM: &str = r#"{"kind":"clarify","title":"Where?","schema":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}"#;

/// What the model was asked in vain.
pub(super) type Complaints = Arc<Mutex<Vec<String>>>;

pub(super) fn random_model(name: &str, seed: u64, complaints: Complaints) -> Arc<ScriptedModel> {
    let mut rng = StdRng::seed_from_u64(seed);
    ScriptedModel::thinking(name, move |request| {
        complaints.lock().unwrap().extend(complaint(&request.messages.to_vec()));
        if request.messages.is_empty() {
            complaints.lock().unwrap().push("there is no message".to_owned());
        }
        let summary = request.system.is_empty();
        if summary { summarise(&mut rng) } else { answer(&mut rng, request) }
    })
}

fn summarise(rng: &mut StdRng) -> Script {
    if rng.random_ratio(1, 20) {
        return vec![fail(ModelErrorKind::Unavailable)];
    }
    vec![say("They talked"), say(" a lot."), stop()]
}

/// Writes an artifact, or another version of one, in pieces or not.
fn write(rng: &mut StdRng, request: &ModelRequest, part: u32, script: &mut Script) {
    let results = request.messages.iter().filter_map(|message| match message {
        Message::Tool { content, .. } => Some(content.text()),
        _ => None,
    });
    let words: Vec<_> = results.flat_map(|text| text.split(' ').map(str::to_owned).collect::<Vec<_>>()).collect();
    let known = words.iter().rev().find(|word| word.starts_with("art_")).map(|word| word.trim_end_matches(','));
    let content = format!("line {}\\nline \\u00e9", rng.random_range(0..100));
    let (name, whole) = match known.filter(|_| rng.random_bool(0.7)) {
        Some(id) => ("update_artifact", format!(r#"{{"artifact_id":"{id}","content":"{content}"}}"#)),
        None => ("create_artifact", format!(r#"{{"title":"T","type":"text","content":"{content}"}}"#)),
    };
    if rng.random() {
        script.push(call_begins(part, name));
        let cut = rng.random_range(1..whole.len());
        script.extend([input(part, &whole[..cut]), Beat::Pause(Duration::from_millis(rng.random_range(0..20)))]);
        script.push(input(part, &whole[cut..]));
    }
    script.push(call_ends(part, name, &whole));
}

fn answer(rng: &mut StdRng, request: &ModelRequest) -> Script {
    let mut script = Vec::new();
    let tells = rng.random_ratio(1, 3);
    if tells {
        script.push(told(rng.random_range(0..500), rng.random_range(0..9)));
    }
    if rng.random_ratio(1, 4) {
        script.push(think("Let me see."));
    }
    for _ in 0..rng.random_range(0..4) {
        script.push(say(["Well, ", "I think ", "that is so. ", "Yes. "][rng.random_range(0..4)]));
        if tells && rng.random() {
            script.push(told(rng.random_range(0..500), rng.random_range(0..900)));
        }
        if rng.random_ratio(1, 3) {
            script.push(Beat::Pause(Duration::from_millis(rng.random_range(0..200))));
        }
    }
    // Long conversations come to an end.
    let eager = if request.messages.len() > 16 { 0 } else { rng.random_range(0..4) };
    for part in 0..eager {
        match rng.random_range(0..14) {
            0..8 => {
                let input = if rng.random_ratio(1, 10) { r#"{"text": 1}"# } else { r#"{"text": "x"}"# };
                script.push(call(TOOLS[rng.random_range(0..TOOLS.len())], input));
            }
            8..10 => script.push(call("request_form", FORM)),
            // What takes longer than a moment is never over, as far as the simulation is concerned.
            10 => script.push(call("wait", r#"{"seconds": 86400}"#)),
            11 => script.push(call("wait", r#"{"until": "2020-01-01T00:00:00Z"}"#)),
            _ => write(rng, request, part, &mut script),
        }
        if rng.random_ratio(1, 3) {
            script.push(Beat::Pause(Duration::from_millis(rng.random_range(0..20))));
        }
    }
    if rng.random_ratio(1, 30) {
        script.push(bad_call("look", "[]"));
    }
    let usage = rng.random_bool(0.7).then(|| Usage::of(rng.random_range(0..500), rng.random_range(0..50)));
    match rng.random_range(0..100) {
        0..5 => script.push(fail(ModelErrorKind::Unavailable)),
        5..8 => {
            script.push(fail_after(ModelErrorKind::RateLimited, Duration::from_millis(rng.random_range(0..4))));
        }
        8..10 => script.push(fail(ModelErrorKind::Rejected)),
        10..13 => {}
        13..15 => script.push(fail(ModelErrorKind::ContextOverflow)),
        15..17 => script.push(Beat::Silence),
        17..18 => script.push(Beat::Panic),
        18..21 => script.push(finish(ModelFinish::MaxTokens, usage)),
        21..23 => script.push(finish(ModelFinish::Refusal, usage)),
        _ => script.push(finish(ModelFinish::Stop, usage)),
    }
    script
}
