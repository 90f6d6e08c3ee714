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
    let stream = stream_path(session, turn, seq);
    let asks = wait.calls.iter().filter(|call| matches!(call.waiting_for, WaitingFor::Form | WaitingFor::Permission));
    let form_ids: Vec<String> = asks.map(|call| FormId::of_call(&call.id).to_string()).collect();
    let (code, message) = match wait.wake() {
        Wake::Form | Wake::ClientTools => {
            let forms = form_ids.join(", ");
            let message = format!(
                "the turn waits for a person to answer {forms}: GET /api/v1/forms/{{form_id}} shows it, POST \
                 /api/v1/sessions/stream with session_id {session}, form_id and form_answer answers it. The turn then goes \
                 on; read its answer at {stream}"
            );
            ("waiting_for_person", message)
        }
        Wake::Timer | Wake::RateLimit => {
            ("waiting_for_time", format!("the turn waits and goes on by itself; read its answer at {stream}"))
        }
    };
    let waiting = WaitingOut {
        session_id: session.to_string(),
        message_id: turn.to_string(),
        form_ids,
        until: wait.wake_at.filter(|_| wait.is_timed()).map(|at| at.millis() / 1000),
        stream,
    };
    let mut error = ApiError::new(StatusCode::CONFLICT, Some(code), message).for_good();
    error.error.waiting = Some(Box::new(waiting));
    error
}

/// The end of a stream whose turn waits for a person. One that waits for a time goes on by itself.
pub(crate) fn last_words(view: &TurnView) -> Option<Bytes> {
    let wait = view.standing.wait.as_ref().filter(|wait| !wait.is_timed())?;
    let mut frame = b"data: ".to_vec();
    let error = error(&view.session, &view.turn, wait, view.standing.wait_at).error;
    write_json(&mut frame, &ErrorBody { error: &error });
    frame.extend_from_slice(b"\n\n");
    Some(frame.into())
}
