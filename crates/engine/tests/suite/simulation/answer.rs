//! What people answer, and by which door; and tools that ask.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use everturn_core::{Answer, Content, FormId, Json, Wait, WaitingCall, WaitingFor, submission::Submission};
use everturn_engine::Reply;
use everturn_tools::{Question, ToolContext};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};

use crate::suite::harness::Behaviour;

/// A tool that tells and asks a few things, and takes its time.
pub(super) fn curious(seed: u64) -> Behaviour {
    let rng = Arc::new(Mutex::new(StdRng::seed_from_u64(seed)));
    Behaviour::does(move |ToolContext { reporter, .. }| {
        let mut rng = StdRng::seed_from_u64(rng.lock().unwrap().random());
        async move {
            let mut told = String::new();
            for _ in 0..rng.random_range(0..3) {
                for _ in 0..rng.random_range(0..3) {
                    reporter.notify("notifications/progress", Json::empty_object());
                }
                tokio::time::sleep(Duration::from_millis(rng.random_range(0..100))).await;
                let schema = r#"{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}"#;
                let schema = Json::parse(schema).expect("valid JSON");
                told += &format!(
                    "{:?}",
                    reporter.ask(Question { title: "Which?".to_owned(), description: None, schema }).await
                );
            }
            told
        }
    })
}

/// What is said to a question of a tool that runs.
pub(super) fn to_question(form: &FormId, rng: &mut StdRng) -> Reply {
    match rng.random_range(0..4) {
        0 => Reply { form: None, value: words(rng) },
        1 => Reply { form: Some(form.clone()), value: Json::parse("[]").expect("valid JSON") },
        _ => Reply { form: Some(form.clone()), value: value(WaitingFor::Form, rng) },
    }
}

/// Answers to what a turn waits for.
pub(super) enum Answered {
    /// To calls, by whoever knows those.
    Calls(Submission),
    /// To a form.
    Form(Reply),
    /// To whatever is asked first, in plain words.
    Words(Reply),
}

pub(super) fn answers(wait: &Wait, rng: &mut StdRng) -> Answered {
    let open: Vec<_> = wait.calls.iter().filter(|call| call.waiting_for != WaitingFor::Timer).collect();
    let one = open[rng.random_range(0..open.len())];
    let asks = matches!(one.waiting_for, WaitingFor::Form | WaitingFor::Permission);
    match rng.random_range(0..6) {
        0 => Answered::Calls(Submission::SomeAnswers(vec![answer(one, rng)])),
        1 | 2 if asks => {
            Answered::Form(Reply { form: Some(FormId::of_call(&one.id)), value: value(one.waiting_for, rng) })
        }
        3 if asks => Answered::Words(Reply { form: None, value: words(rng) }),
        _ => Answered::Calls(Submission::Answers(open.into_iter().map(|call| answer(call, rng)).collect())),
    }
}

fn answer(call: &WaitingCall, rng: &mut StdRng) -> Answer {
    let call_id = call.id.clone();
    match call.waiting_for {
        WaitingFor::Result => Answer::Result { call_id, content: Content::Text("sunny".to_owned()) },
        WaitingFor::Form => Answer::Result { call_id, content: Content::Text(r#"{"city": "Oslo"}"#.to_owned()) },
        WaitingFor::Permission => {
            let granted = rng.random_bool(0.7);
            Answer::Permission { call_id, granted, reason: (!granted).then(|| "no".to_owned()) }
        }
        WaitingFor::Timer => panic!("time answers timers"),
    }
}

fn value(waiting_for: WaitingFor, rng: &mut StdRng) -> Json {
    let text = match (waiting_for, rng.random_range(0..5)) {
        (_, 0) => "[]",
        (WaitingFor::Permission, 1) => r#"{"approved":false,"reason":"too dear"}"#,
        (WaitingFor::Permission, _) => r#"{"approved":true}"#,
        (WaitingFor::Form | WaitingFor::Result | WaitingFor::Timer, _) => r#"{"city":"Oslo"}"#,
    };
    Json::parse(text).expect("valid JSON")
}

fn words(rng: &mut StdRng) -> Json {
    Json::of(&["yes", "no", "Oslo", "what?"][rng.random_range(0..4)]).expect("a text")
}
