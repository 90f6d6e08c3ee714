//! Answers that stream a turn.

use std::time::Duration;

use axum::{body::Body, response::Response};
use everturn_core::{SessionId, TurnId};
use everturn_engine::{ReadError, TurnReader};
use futures_util::stream;
use http::{HeaderName, HeaderValue, StatusCode, header};

/// Names the session, on every answer that has one.
pub const SESSION_ID: HeaderName = HeaderName::from_static("x-session-id");
/// Names the turn, on every answer that has one.
pub const MESSAGE_ID: HeaderName = HeaderName::from_static("x-message-id");

/// An answer that shows a turn until the reader's projection ends it, with a heartbeat after so long a silence.
///
/// The body is pulled: nothing is read from the log before the connection can take it. Dropping it ends the reader
/// and nothing else.
pub fn event_stream(reader: TurnReader, silence: Duration) -> Response {
    let view = reader.view().clone();
    let opening = Some(reader.opening()).filter(|opening| !opening.is_empty());
    let chunks = stream::unfold((Some(reader), opening), move |(reader, opening)| {
        async move {
            let mut reader = reader?;
            if let Some(opening) = opening {
                return Some((Ok(opening), (Some(reader), None)));
            }
            match tokio::time::timeout(silence, reader.next()).await {
                Ok(Ok(Some(frames))) => Some((Ok(frames), (Some(reader), None))),
                Ok(Ok(None)) => None,
                Err(_elapsed) => Some((Ok(reader.heartbeat()), (Some(reader), None))),
                // Ending the body with an error tells the client that it has not seen the end.
                Ok(Err(error)) => {
                    tracing::error!(turn = %reader.view().turn, %error, "cannot read a turn's log");
                    Some((Err::<_, ReadError>(error), (None, None)))
                }
            }
        }
    });
    let mut response = Response::new(Body::from_stream(chunks));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Proxies that buffer would hold the stream back.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    identify(response, &view.session, &view.turn)
}

/// The answer to who has seen all of a turn that is over. Its status is the one that tells browsers not to come again.
pub(crate) fn no_more(session: &SessionId, turn: &TurnId) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    identify(response, session, turn)
}

/// Names the session and the turn in an answer's headers.
pub fn identify(mut response: Response, session: &SessionId, turn: &TurnId) -> Response {
    let headers = response.headers_mut();
    for (name, id) in [(SESSION_ID, session.as_str()), (MESSAGE_ID, turn.as_str())] {
        // Ids are made of characters that headers take.
        if let Ok(value) = HeaderValue::from_str(id) {
            headers.insert(name, value);
        }
    }
    response
}
