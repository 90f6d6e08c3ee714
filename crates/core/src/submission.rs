//! Which submissions a session takes.
//!
//! A submission is judged whole before anything is consumed: one that is refused changes nothing. So nobody can speak
//! for a server-side tool, and no call is resolved twice.

use std::collections::HashSet;

use crate::{
    Answer, CallId, CallRoute, CallState, CancelReason, Content, Event, Message, Outcome, Timestamp, TurnState, Wait,
    WaitingFor,
};

/// What a client submits to a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Submission {
    /// A message that begins a turn, with whatever history comes before it.
    Begin(Vec<Message>),
    /// Answers to all the calls that the turn waits for.
    Answers(Vec<Answer>),
    /// Answers to some of them; the turn does what it can with these and waits for the others.
    SomeAnswers(Vec<Answer>),
    /// Have history compacted now, by a turn that does nothing else.
    Compact,
}

/// What becomes of a message that comes while a turn is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnBusy {
    /// A turn that waits gives way to it; while one runs it is refused.
    #[default]
    Supersede,
    /// It is refused.
    Reject,
    /// It waits its turn.
    Enqueue,
    /// The turn under way is ended.
    Interrupt,
}

/// Where a session stands.
#[derive(Clone, Copy, Debug)]
pub enum SessionPhase<'a> {
    /// No turn is under way.
    Idle,
    /// A turn runs, or is about to.
    Running,
    /// A turn waits.
    Waiting(&'a Wait),
}

/// What an accepted submission does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Begins a turn.
    Begin,
    /// Ends the waiting turn and begins another.
    Supersede,
    /// Takes up the waiting turn.
    Resume,
    /// Begins a turn once those before it have ended.
    Queue,
    /// The turn under way must be ended first; then the submission is judged again.
    Interrupt,
}

/// Why a submission is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A turn is under way.
    #[error("a turn is running in this session; wait until it ends, then send this again")]
    Busy,
    /// No answers at all.
    #[error("there is nothing in the submission; send one user message, or answers to the waiting tool calls")]
    Empty,
    /// No such call waits.
    #[error("no tool call {0:?} waits for an answer in this session")]
    UnknownCall(CallId),
    /// The call has its result.
    #[error("tool call {0:?} was answered before; an answer counts once")]
    AlreadyAnswered(CallId),
    /// Two answers to one call.
    #[error("tool call {0:?} is answered twice in this submission; answer each call once")]
    AnsweredTwice(CallId),
    /// A result for a tool that the server runs.
    #[error("tool call {id:?} ({name}) runs on the server: send a tool_permission for it, not a result")]
    ResultForServerTool {
        /// The call.
        id: CallId,
        /// The tool.
        name: String,
    },
    /// An answer to a call that only time resolves.
    #[error("tool call {id:?} ({name}) is a timer; it needs no answer")]
    AnswerForTimer {
        /// The call.
        id: CallId,
        /// The tool.
        name: String,
    },
    /// A permission for a tool that the application runs.
    #[error("tool call {id:?} ({name}) runs in the application: send its result, not a permission")]
    PermissionForClientTool {
        /// The call.
        id: CallId,
        /// The tool.
        name: String,
    },
    /// Calls are left out.
    #[error("every waiting tool call must be answered in one submission; missing: {}", list(.0))]
    Missing(Vec<CallId>),
}

fn list(ids: &[CallId]) -> String {
    ids.iter().map(CallId::as_str).collect::<Vec<_>>().join(", ")
}

/// Judges a submission. `answered` tells whether a call of the session's history has its result already.
pub fn admit(
    phase: SessionPhase<'_>,
    submission: &Submission,
    on_busy: OnBusy,
    answered: impl Fn(&CallId) -> bool,
) -> Result<Admission, Refused> {
    match submission {
        Submission::Begin(messages) => admit_message(phase, messages, on_busy),
        Submission::Answers(answers) => admit_answers(phase, answers, Extent::All, answered),
        Submission::SomeAnswers(answers) => admit_answers(phase, answers, Extent::Some, answered),
        Submission::Compact => match phase {
            SessionPhase::Idle => Ok(Admission::Begin),
            SessionPhase::Running | SessionPhase::Waiting(_) => Err(Refused::Busy),
        },
    }
}

fn admit_message(phase: SessionPhase<'_>, messages: &[Message], on_busy: OnBusy) -> Result<Admission, Refused> {
    match (phase, on_busy) {
        (SessionPhase::Running, OnBusy::Supersede) => Err(Refused::Busy),
        _ if messages.is_empty() => Err(Refused::Empty),
        (SessionPhase::Idle, _) => Ok(Admission::Begin),
        (SessionPhase::Waiting(_), OnBusy::Supersede | OnBusy::Interrupt) => Ok(Admission::Supersede),
        (SessionPhase::Running, OnBusy::Interrupt) => Ok(Admission::Interrupt),
        (SessionPhase::Running | SessionPhase::Waiting(_), OnBusy::Enqueue) => Ok(Admission::Queue),
        (SessionPhase::Running | SessionPhase::Waiting(_), OnBusy::Reject) => Err(Refused::Busy),
    }
}

/// How many of the waiting calls a submission must answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    All,
    Some,
}

fn admit_answers(
    phase: SessionPhase<'_>,
    answers: &[Answer],
    extent: Extent,
    answered: impl Fn(&CallId) -> bool,
) -> Result<Admission, Refused> {
    let waiting = match phase {
        SessionPhase::Running => return Err(Refused::Busy),
        SessionPhase::Idle => [].as_slice(),
        SessionPhase::Waiting(wait) => wait.calls.as_slice(),
    };
    if answers.is_empty() {
        return Err(Refused::Empty);
    }
    let mut seen = HashSet::new();
    for answer in answers {
        let id = answer.call_id();
        let Some(call) = waiting.iter().find(|call| call.id == *id) else {
            let known = answered(id);
            return Err(if known { Refused::AlreadyAnswered(id.clone()) } else { Refused::UnknownCall(id.clone()) });
        };
        if !seen.insert(id) {
            return Err(Refused::AnsweredTwice(id.clone()));
        }
        let (id, name) = (id.clone(), call.name.clone());
        match (answer, call.waiting_for) {
            (Answer::Result { .. }, WaitingFor::Result)
            | (Answer::Result { .. } | Answer::Form { .. }, WaitingFor::Form)
            // Applications that cannot show forms have them allowed or denied as any tool of the server's.
            | (Answer::Permission { .. }, WaitingFor::Form)
            // The form of an approval is answered as any other; its answer becomes a permission.
            | (Answer::Permission { .. } | Answer::Form { .. }, WaitingFor::Permission)
            | (Answer::Expired { .. }, WaitingFor::Permission | WaitingFor::Form)
            | (Answer::Elapsed { .. }, WaitingFor::Timer) => {}
            (_, WaitingFor::Timer) => return Err(Refused::AnswerForTimer { id, name }),
            (_, WaitingFor::Permission) => return Err(Refused::ResultForServerTool { id, name }),
            (_, WaitingFor::Result | WaitingFor::Form) => return Err(Refused::PermissionForClientTool { id, name }),
        }
    }
    let unanswered = waiting.iter().filter(|call| call.waiting_for != WaitingFor::Timer && !seen.contains(&call.id));
    let missing: Vec<_> = unanswered.map(|call| call.id.clone()).collect();
    if missing.is_empty() || extent == Extent::Some { Ok(Admission::Resume) } else { Err(Refused::Missing(missing)) }
}

/// The events that end a waiting turn because a new message takes its place: every open call gets a result, as
/// providers want it, and the turn its end.
pub fn supersede(state: &TurnState, now: Timestamp) -> Vec<Event> {
    close(state, "Tool call skipped: the user sent a new message", CancelReason::Superseded, now)
}

/// The events that end a turn which no step runs in: open calls get this text as their result.
pub fn close(state: &TurnState, text: &str, reason: CancelReason, now: Timestamp) -> Vec<Event> {
    let closed = |open: &CallState| Event::ToolFinished {
        call_id: open.call.id.clone(),
        tool: open.call.name.clone(),
        content: Content::Text(text.to_owned()),
        is_error: true,
        duration_ms: open.timer.map_or(0, |timer| timer.ran_until(now)),
        never_began: state.never_began(open),
        application: open.route == CallRoute::Client,
    };
    let mut events: Vec<_> = state.open_calls().map(closed).collect();
    events.push(Event::TurnEnded(state.ended(Outcome::Cancelled { reason })));
    events
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WaitingCall;

    fn waiting() -> Wait {
        let call = |id: &str, name: &str, waiting_for| WaitingCall {
            id: CallId::new(id),
            name: name.into(),
            waiting_for,
            until: None,
        };
        Wait::of(vec![call("c1", "get_weather", WaitingFor::Result), call("c2", "delete_file", WaitingFor::Permission)])
    }

    fn result(id: &str) -> Answer {
        Answer::Result { call_id: CallId::new(id), content: Content::Text("ok".into()) }
    }

    fn permission(id: &str) -> Answer {
        Answer::Permission { call_id: CallId::new(id), granted: true, reason: None }
    }

    #[track_caller]
    fn check(phase: SessionPhase<'_>, answers: &[Answer], expected: &str) {
        let answered = |id: &CallId| id.as_str() == "old";
        let verdict = match admit(phase, &Submission::Answers(answers.to_vec()), OnBusy::Supersede, answered) {
            Ok(admission) => format!("{admission:?}"),
            Err(refused) => refused.to_string(),
        };
        assert_eq!(verdict, expected);
    }

    #[test]
    fn answers_are_judged_whole() {
        let calls = waiting();
        let phase = SessionPhase::Waiting(&calls);
        check(phase, &[result("c1"), permission("c2")], "Resume");
        check(phase, &[permission("c2"), result("c1")], "Resume");
        check(phase, &[result("c1")], "every waiting tool call must be answered in one submission; missing: c2");
        check(phase, &[result("c9"), result("c1")], "no tool call c9 waits for an answer in this session");
        check(phase, &[result("old")], "tool call old was answered before; an answer counts once");
        check(
            phase,
            &[result("c1"), result("c1")],
            "tool call c1 is answered twice in this submission; answer each call once",
        );
        check(
            phase,
            &[result("c1"), result("c2")],
            "tool call c2 (delete_file) runs on the server: send a tool_permission for it, not a result",
        );
        check(
            phase,
            &[permission("c1"), permission("c2")],
            "tool call c1 (get_weather) runs in the application: send its result, not a permission",
        );
        check(
            phase,
            &[],
            "there is nothing in the submission; send one user message, or answers to the waiting tool calls",
        );
        check(SessionPhase::Idle, &[result("c1")], "no tool call c1 waits for an answer in this session");
        check(SessionPhase::Idle, &[result("old")], "tool call old was answered before; an answer counts once");
        check(
            SessionPhase::Running,
            &[result("c1")],
            "a turn is running in this session; wait until it ends, then send this again",
        );
    }

    #[test]
    fn a_message_begins_a_turn_unless_one_runs() {
        let message = Submission::Begin(vec![Message::user("hi")]);
        let calls = waiting();
        let verdict = |phase, message, on_busy| admit(phase, message, on_busy, |_| false);
        assert_eq!(verdict(SessionPhase::Idle, &message, OnBusy::Supersede), Ok(Admission::Begin));
        assert_eq!(verdict(SessionPhase::Waiting(&calls), &message, OnBusy::Supersede), Ok(Admission::Supersede));
        assert_eq!(verdict(SessionPhase::Running, &message, OnBusy::Supersede), Err(Refused::Busy));
        let empty = Submission::Begin(Vec::new());
        assert_eq!(verdict(SessionPhase::Idle, &empty, OnBusy::Supersede), Err(Refused::Empty));
    }

    #[test]
    fn what_a_busy_session_does_with_a_message_is_the_senders_choice() {
        let message = Submission::Begin(vec![Message::user("hi")]);
        let calls = waiting();
        let running = |on_busy| admit(SessionPhase::Running, &message, on_busy, |_| false);
        let waiting = |on_busy| admit(SessionPhase::Waiting(&calls), &message, on_busy, |_| false);
        assert_eq!(running(OnBusy::Enqueue), Ok(Admission::Queue));
        assert_eq!(running(OnBusy::Interrupt), Ok(Admission::Interrupt));
        assert_eq!(running(OnBusy::Reject), Err(Refused::Busy));
        assert_eq!(waiting(OnBusy::Enqueue), Ok(Admission::Queue));
        assert_eq!(waiting(OnBusy::Interrupt), Ok(Admission::Supersede));
        assert_eq!(waiting(OnBusy::Reject), Err(Refused::Busy));
    }

    #[test]
    fn some_answers_may_come_before_the_others() {
        let calls = waiting();
        let some = Submission::SomeAnswers(vec![permission("c2")]);
        assert_eq!(admit(SessionPhase::Waiting(&calls), &some, OnBusy::Reject, |_| false), Ok(Admission::Resume));
        let wrong = Submission::SomeAnswers(vec![result("c2")]);
        assert!(admit(SessionPhase::Waiting(&calls), &wrong, OnBusy::Reject, |_| false).is_err());
    }
}
