//! A model that says and does anything, by chance, and notes when it is asked what no provider would take.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use everturn_core::Usage;
use everturn_models::{ModelErrorKind, ModelFinish, ModelRequest};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};

use crate::suite::harness::*;

const TOOLS: [&str; 8] = ["look", "book", "pay", "send", "weather", "slow", "panicky", "nosuch"];

/// What the model was asked in vain.
pub(super) type Complaints = Arc<Mutex<Vec<String>>>;

pub(super) fn random_model(name: &str, seed: u64, complaints: Complaints) -> Arc<ScriptedModel> {
    let mut rng = StdRng::seed_from_u64(seed);
    ScriptedModel::thinking(name, move |request| {
        complaints.lock().unwrap().extend(complaint(&request.messages));
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

fn answer(rng: &mut StdRng, request: &ModelRequest) -> Script {
    let mut script = Vec::new();
    if rng.random_ratio(1, 4) {
        script.push(think("Let me see."));
    }
    for _ in 0..rng.random_range(0..4) {
        script.push(say(["Well, ", "I think ", "that is so. ", "Yes. "][rng.random_range(0..4)]));
        if rng.random_ratio(1, 3) {
            script.push(Beat::Pause(Duration::from_millis(rng.random_range(0..200))));
        }
    }
    // Long conversations come to an end.
    let eager = if request.messages.len() > 16 { 0 } else { rng.random_range(0..4) };
    for _ in 0..eager {
        let input = if rng.random_ratio(1, 10) { r#"{"text": 1}"# } else { r#"{"text": "x"}"# };
        script.push(call(TOOLS[rng.random_range(0..TOOLS.len())], input));
        if rng.random_ratio(1, 3) {
            script.push(Beat::Pause(Duration::from_millis(rng.random_range(0..20))));
        }
    }
    if rng.random_ratio(1, 30) {
        script.push(bad_call("look", "[]"));
    }
    let usage =
        rng.random_bool(0.7).then(|| Usage { input: rng.random_range(0..500), output: rng.random_range(0..50) });
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
