//! Answers that stream a session, turn after turn.

use std::time::Duration;

use axum::{
    body::{Body, Bytes},
    response::Response,
};
use everturn_engine::{ReadError, SessionReader};
use futures_util::stream;
use http::HeaderValue;

use crate::stream::{SESSION_ID, Silence, event_response};

/// An answer that shows a session until it is deleted or the server stops, with a heartbeat after so long a silence.
/// `first` comes before everything else.
pub fn session_stream(reader: SessionReader, first: Bytes, silence: Duration) -> Response {
    let id = HeaderValue::from_str(reader.session().as_str());
    let opening = [first, reader.opening()].concat();
    let reading = Reading { reader, opening: opening.into(), silence: Silence::new(silence) };
    let chunks = stream::unfold(Some(reading), async |reading| {
        let mut reading = reading?;
        if !reading.opening.is_empty() {
            return Some((Ok(std::mem::take(&mut reading.opening)), Some(reading)));
        }
        match reading.silence.guard(reading.reader.next()).await {
            Some(Ok(Some(frames))) => Some((Ok(frames), Some(reading))),
            Some(Ok(None)) => None,
            None => Some((Ok(reading.reader.heartbeat()), Some(reading))),
            Some(Err(error)) => {
                tracing::error!(session = %reading.reader.session(), %error, "cannot read a session's log");
                Some((Err::<_, ReadError>(error), None))
            }
        }
    });
    let mut response = event_response(Body::from_stream(chunks));
    // Ids are made of characters that headers take.
    if let Ok(id) = id {
        response.headers_mut().insert(SESSION_ID, id);
    }
    response
}

/// A stream under way.
struct Reading {
    reader: SessionReader,
    opening: Bytes,
    silence: Silence,
}
