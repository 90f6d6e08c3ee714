//! What people answer, and by which door.

use everturn_core::{Answer, Content, FormId, Json, Wait, WaitingCall, WaitingFor, submission::Submission};
use everturn_engine::Reply;
use rand::{Rng as _, rngs::StdRng};

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
