//! Which submissions a session takes.
//!
//! A submission is judged whole before anything is consumed: one that is refused changes nothing. So nobody can speak
//! for a server-side tool, and no call is resolved twice.

use std::collections::HashSet;

use crate::{
    Answer, CallId, CancelReason, Content, Event, Message, Outcome, TurnEnded, TurnState, WaitingCall, WaitingFor,
};

/// What a client submits to a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Submission {
    /// A message that begins a turn, with whatever history comes before it.
    Begin(Vec<Message>),
    /// Answers to the calls that the turn waits for.
    Answers(Vec<Answer>),
}

/// Where a session stands.
#[derive(Clone, Copy, Debug)]
pub enum SessionPhase<'a> {
    /// No turn is under way.
    Idle,
    /// A turn runs.
    Running,
    /// A turn waits for these calls.
    Waiting(&'a [WaitingCall]),
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
}

/// Why a submission is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A turn runs.
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
    answered: impl Fn(&CallId) -> bool,
) -> Result<Admission, Refused> {
    let (answers, waiting) = match (phase, submission) {
        (SessionPhase::Running, _) => return Err(Refused::Busy),
        (_, Submission::Begin(messages)) if messages.is_empty() => return Err(Refused::Empty),
        (SessionPhase::Idle, Submission::Begin(_)) => return Ok(Admission::Begin),
        (SessionPhase::Waiting(_), Submission::Begin(_)) => return Ok(Admission::Supersede),
        (SessionPhase::Idle, Submission::Answers(answers)) => (answers, [].as_slice()),
        (SessionPhase::Waiting(waiting), Submission::Answers(answers)) => (answers, waiting),
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
            (Answer::Result { .. }, WaitingFor::Result) | (Answer::Permission { .. }, WaitingFor::Permission) => {}
            (Answer::Result { .. }, WaitingFor::Permission) => return Err(Refused::ResultForServerTool { id, name }),
            (Answer::Permission { .. }, WaitingFor::Result) => {
                return Err(Refused::PermissionForClientTool { id, name });
            }
        }
    }
    let missing: Vec<_> = waiting.iter().filter(|call| !seen.contains(&call.id)).map(|call| call.id.clone()).collect();
    if missing.is_empty() { Ok(Admission::Resume) } else { Err(Refused::Missing(missing)) }
}

/// The events that end a waiting turn because a new message takes its place: every open call gets a result, as
/// providers want it, and the turn its end.
pub fn supersede(state: &TurnState) -> Vec<Event> {
    close(state, "Tool call skipped: the user sent a new message", CancelReason::Superseded)
}

/// The events that end a turn which no step runs in: open calls get this text as their result.
pub fn close(state: &TurnState, text: &str, reason: CancelReason) -> Vec<Event> {
    let mut events: Vec<_> = state
        .open_calls()
        .map(|open| Event::ToolFinished {
            call_id: open.call.id.clone(),
            content: Content::Text(text.to_owned()),
            is_error: true,
            duration_ms: 0,
        })
        .collect();
    events.push(Event::TurnEnded(TurnEnded { outcome: Outcome::Cancelled { reason }, usage: state.usage }));
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting() -> Vec<WaitingCall> {
        let call =
            |id: &str, name: &str, waiting_for| WaitingCall { id: CallId::new(id), name: name.into(), waiting_for };
        vec![call("c1", "get_weather", WaitingFor::Result), call("c2", "delete_file", WaitingFor::Permission)]
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
        let verdict = match admit(phase, &Submission::Answers(answers.to_vec()), answered) {
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
        assert_eq!(admit(SessionPhase::Idle, &message, |_| false), Ok(Admission::Begin));
        assert_eq!(admit(SessionPhase::Waiting(&calls), &message, |_| false), Ok(Admission::Supersede));
        assert_eq!(admit(SessionPhase::Running, &message, |_| false), Err(Refused::Busy));
        assert_eq!(admit(SessionPhase::Idle, &Submission::Begin(Vec::new()), |_| false), Err(Refused::Empty));
    }
}
