//! Turns that wait for somebody else than the client: an error that SDKs raise, so that no half answer looks whole.

use axum::body::Bytes;
use everturn_core::{FormId, SessionId, TurnId, Wait, WaitingFor, Wake};
use everturn_engine::{TurnView, write_json};
use http::StatusCode;
use serde::Serialize;

use crate::{
    error::{ApiError, ErrorBody},
    out::stream_path,
};

/// What a turn waits for, in the error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct WaitingOut {
    session_id: String,
    message_id: String,
    /// The forms that people are asked to answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    form_ids: Vec<String>,
    /// When the turn goes on by itself, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<i64>,
    /// Where the rest of the answer can be read.
    stream: String,
}

/// The error of a turn that waits, and has given events up to `seq`.
pub(crate) fn error(session: &SessionId, turn: &TurnId, wait: &Wait, seq: u64) -> ApiError {
    let asks = wait.calls.iter().filter(|call| matches!(call.waiting_for, WaitingFor::Form | WaitingFor::Permission));
    let forms: Vec<FormId> = asks.map(|call| FormId::of_call(&call.id)).collect();
    let until = wait.wake_at.filter(|_| wait.is_timed()).map(|at| at.millis() / 1000);
    let (code, message) = match wait.wake() {
        Wake::Form | Wake::ClientTools => return asked(session, turn, &forms, seq),
        Wake::Timer | Wake::RateLimit => {
            let stream = stream_path(session, turn, seq);
            ("waiting_for_time", format!("the turn waits and goes on by itself; read its answer at {stream}"))
        }
    };
    conflict(code, message, waiting(session, turn, &forms, until, seq))
}

/// The error of a turn in which people are asked to answer forms: it waits for them, or a tool that runs does.
pub(crate) fn asked(session: &SessionId, turn: &TurnId, forms: &[FormId], seq: u64) -> ApiError {
    let waiting = waiting(session, turn, forms, None, seq);
    let (forms, stream) = (waiting.form_ids.join(", "), &waiting.stream);
    let message = format!(
        "the turn waits for a person to answer {forms}: GET /api/v1/forms/{{form_id}} shows it, POST \
         /api/v1/sessions/stream with session_id {session}, form_id and form_answer answers it. The turn then goes \
         on; read its answer at {stream}"
    );
    conflict("waiting_for_person", message, waiting)
}

fn waiting(session: &SessionId, turn: &TurnId, forms: &[FormId], until: Option<i64>, seq: u64) -> WaitingOut {
    WaitingOut {
        session_id: session.to_string(),
        message_id: turn.to_string(),
        form_ids: forms.iter().map(FormId::to_string).collect(),
        until,
        stream: stream_path(session, turn, seq),
    }
}

fn conflict(code: &'static str, message: String, waiting: WaitingOut) -> ApiError {
    let mut error = ApiError::new(StatusCode::CONFLICT, Some(code), message).for_good();
    error.error.waiting = Some(Box::new(waiting));
    error
}

/// The end of a stream whose turn waits for a person. One that waits for a time goes on by itself.
pub(crate) fn last_words(view: &TurnView) -> Option<Bytes> {
    let (session, turn, standing) = (&view.session, &view.turn, &view.standing);
    let error = match &standing.wait {
        Some(wait) if wait.is_timed() => return None,
        Some(wait) => error(session, turn, wait, standing.wait_at),
        None if standing.open_forms.is_empty() => return None,
        None => asked(session, turn, &standing.open_forms, standing.wait_at),
    };
    let mut frame = b"data: ".to_vec();
    write_json(&mut frame, &ErrorBody { error: &error.in_stream() });
    frame.extend_from_slice(b"\n\n");
    Some(frame.into())
}
