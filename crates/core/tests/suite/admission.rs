//! Which submissions a session takes, whatever it waits for.

use everturn_core::{
    submission::{Admission, OnBusy, Refused, SessionPhase, Submission, admit},
    *,
};
use proptest::{collection::vec, prelude::*};

use super::arbitrary::{answer, waiting};

const ON_BUSY: [OnBusy; 4] = [OnBusy::Supersede, OnBusy::Reject, OnBusy::Enqueue, OnBusy::Interrupt];

/// Calls of different names.
fn calls() -> impl Strategy<Value = Vec<WaitingCall>> {
    vec(waiting(), 0..5).prop_map(|mut calls| {
        let mut seen = std::collections::HashSet::new();
        calls.retain(|call| seen.insert(call.id.clone()));
        calls
    })
}

/// Whether an answer is of the kind that a call waits for.
fn fits(answer: &Answer, waiting_for: WaitingFor) -> bool {
    match answer {
        Answer::Result { .. } => matches!(waiting_for, WaitingFor::Result | WaitingFor::Form),
        Answer::Permission { .. } => matches!(waiting_for, WaitingFor::Form | WaitingFor::Permission),
        Answer::Form { .. } => matches!(waiting_for, WaitingFor::Form | WaitingFor::Permission),
        Answer::Expired { .. } => matches!(waiting_for, WaitingFor::Form | WaitingFor::Permission),
        Answer::Elapsed { .. } => waiting_for == WaitingFor::Timer,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    /// Answers are taken if each fits a call that waits, no call gets two, and none is left out but timers; or only
    /// some of them, if that is what is said.
    #[test]
    fn answers_are_taken_if_they_fit(calls in calls(), answers in vec(answer(), 0..6)) {
        let wait = Wait::of(calls.clone());
        let phase = SessionPhase::Waiting(&wait);
        let found = |answer: &Answer| calls.iter().find(|call| call.id == *answer.call_id());
        let mut seen = std::collections::HashSet::new();
        let sound = !answers.is_empty()
            && answers.iter().all(|answer| found(answer).is_some_and(|call| fits(answer, call.waiting_for)))
            && answers.iter().all(|answer| seen.insert(answer.call_id().clone()));
        let is_left = |call: &&WaitingCall| call.waiting_for != WaitingFor::Timer && !seen.contains(&call.id);
        let left: Vec<_> = calls.iter().filter(is_left).map(|call| call.id.clone()).collect();
        for on_busy in ON_BUSY {
            let some = admit(phase, &Submission::SomeAnswers(answers.clone()), on_busy, |_| false);
            prop_assert_eq!(some.is_ok(), sound, "{:?}", some);
            prop_assert!(some.is_err() || some == Ok(Admission::Resume));
            let all = admit(phase, &Submission::Answers(answers.clone()), on_busy, |_| false);
            match (sound, left.is_empty()) {
                (true, true) => prop_assert_eq!(all, Ok(Admission::Resume)),
                (true, false) => prop_assert_eq!(all, Err(Refused::Missing(left.clone()))),
                (false, _) => prop_assert_eq!(all, some, "the same fault is found either way"),
            }
        }
    }

    /// Nothing can be answered in a session that does not wait.
    #[test]
    fn answers_out_of_time_are_refused(answers in vec(answer(), 0..4), known: bool) {
        for submission in [Submission::Answers(answers.clone()), Submission::SomeAnswers(answers.clone())] {
            let running = admit(SessionPhase::Running, &submission, OnBusy::Enqueue, |_| known);
            prop_assert_eq!(running, Err(Refused::Busy));
            let idle = admit(SessionPhase::Idle, &submission, OnBusy::Enqueue, |_| known);
            let expected = match answers.first().map(|answer| answer.call_id().clone()) {
                None => Refused::Empty,
                Some(call) if known => Refused::AlreadyAnswered(call),
                Some(call) => Refused::UnknownCall(call),
            };
            prop_assert_eq!(idle, Err(expected));
        }
    }

    /// What time alone resolves is not waited for by anybody; what somebody must answer is not woken by timers.
    #[test]
    fn a_wait_says_what_wakes_it(calls in calls()) {
        let wait = Wait::of(calls.clone());
        let has = |waiting_for| calls.iter().any(|call| call.waiting_for == waiting_for);
        let asks = has(WaitingFor::Form) || has(WaitingFor::Permission);
        let expected = match (asks, has(WaitingFor::Result), calls.is_empty()) {
            (true, _, _) => Wake::Form,
            (false, true, _) => Wake::ClientTools,
            (false, false, true) => Wake::RateLimit,
            (false, false, false) => Wake::Timer,
        };
        prop_assert_eq!(wait.wake(), expected);
        let timed = wait.is_timed();
        let counts = |call: &&WaitingCall| timed || call.waiting_for != WaitingFor::Timer;
        prop_assert_eq!(wait.wake_at, calls.iter().filter(counts).filter_map(|call| call.until).min());
    }
}

#[test]
fn a_message_is_taken_by_the_phase_and_the_senders_word() {
    let wait = Wait::of(Vec::new());
    let phases =
        [("idle", SessionPhase::Idle), ("running", SessionPhase::Running), ("waiting", SessionPhase::Waiting(&wait))];
    let mut table = String::new();
    for (name, phase) in phases {
        for on_busy in ON_BUSY {
            let verdict = |messages| match admit(phase, &Submission::Begin(messages), on_busy, |_| false) {
                Ok(admission) => format!("{admission:?}"),
                Err(refused) => format!("refused as {refused:?}"),
            };
            let (message, nothing) = (verdict(vec![Message::user("hi")]), verdict(Vec::new()));
            table += &format!("{name}, {on_busy:?}: {message}; empty {nothing}\n");
        }
    }
    let expected = "\
idle, Supersede: Begin; empty refused as Empty
idle, Reject: Begin; empty refused as Empty
idle, Enqueue: Begin; empty refused as Empty
idle, Interrupt: Begin; empty refused as Empty
running, Supersede: refused as Busy; empty refused as Busy
running, Reject: refused as Busy; empty refused as Empty
running, Enqueue: Queue; empty refused as Empty
running, Interrupt: Interrupt; empty refused as Empty
waiting, Supersede: Supersede; empty refused as Empty
waiting, Reject: refused as Busy; empty refused as Empty
waiting, Enqueue: Queue; empty refused as Empty
waiting, Interrupt: Supersede; empty refused as Empty
";
    assert_eq!(table, expected);
}
