//! Answers that stream a turn.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    task::Poll,
    time::Duration,
};

use axum::{
    body::{Body, Bytes},
    response::Response,
};
use everturn_core::{SessionId, TurnId};
use everturn_engine::{ReadError, TurnReader, TurnView};
use http::{HeaderName, HeaderValue, StatusCode, header};
use tokio::time::{Instant, Sleep};

/// Names the session, on every answer that has one.
pub const SESSION_ID: HeaderName = HeaderName::from_static("x-session-id");
/// Names the turn, on every answer that has one.
pub const MESSAGE_ID: HeaderName = HeaderName::from_static("x-message-id");

/// An answer that shows a turn until the reader's projection ends it, with a heartbeat after so long a silence.
///
/// The body is pulled: nothing is read from the log before the connection can take it. Dropping it ends the reader
/// and nothing else.
pub fn event_stream(reader: TurnReader, silence: Duration) -> Response {
    stream(reader, silence, None)
}

/// How long a stream stays open while its turn rests.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// How long, from the moment when nothing more comes.
    pub limit: Duration,
    /// What the stream ends with then; `None` if the turn does not rest.
    pub last_words: fn(&TurnView) -> Option<Bytes>,
}

/// As [`event_stream`], for clients that shall not wait for a turn that rests.
pub fn impatient_event_stream(reader: TurnReader, silence: Duration, patience: Patience) -> Response {
    stream(reader, silence, Some(patience))
}

fn stream(reader: TurnReader, silence: Duration, patience: Option<Patience>) -> Response {
    let view = reader.view().clone();
    let opening = Some(reader.opening()).filter(|opening| !opening.is_empty());
    let reading = Reading { reader, opening, silence: Silence::new(silence), patience, rests_since: None };
    let chunks = futures_util::stream::unfold(Some(reading), async |reading| {
        let mut reading = reading?;
        if let Some(opening) = reading.opening.take() {
            return Some((Ok(opening), Some(reading)));
        }
        match reading.next().await {
            Next::Frames(frames) => Some((Ok(frames), Some(reading))),
            Next::LastWords(words) => Some((Ok(words), None)),
            Next::End => None,
            // Ending the body with an error tells the client that it has not seen the end.
            Next::Failed(error) => {
                tracing::error!(turn = %reading.reader.view().turn, %error, "cannot read a turn's log");
                Some((Err::<_, ReadError>(error), None))
            }
        }
    });
    identify(event_response(Body::from_stream(chunks)), &view.session, &view.turn)
}

/// An answer of server-sent events.
pub(crate) fn event_response(body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Proxies that buffer would hold the stream back.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// A stream under way.
struct Reading {
    reader: TurnReader,
    opening: Option<Bytes>,
    silence: Silence,
    patience: Option<Patience>,
    /// Since when nothing comes because the turn rests.
    rests_since: Option<Instant>,
}

/// What a stream goes on with.
enum Next {
    Frames(Bytes),
    /// Frames after which nothing comes.
    LastWords(Bytes),
    End,
    Failed(ReadError),
}

impl Reading {
    async fn next(&mut self) -> Next {
        let words = self.patience.and_then(|patience| (patience.last_words)(self.reader.view()));
        if words.is_none() {
            self.rests_since = None;
        }
        let deadline = match (self.patience, &words) {
            (Some(patience), Some(_)) => Some(*self.rests_since.get_or_insert_with(Instant::now) + patience.limit),
            (Some(_) | None, _) => None,
        };
        let coming = self.silence.guard(self.reader.next());
        let come = match (deadline, words) {
            (Some(deadline), Some(words)) => match tokio::time::timeout_at(deadline, coming).await {
                Ok(come) => come,
                Err(_elapsed) => return Next::LastWords(words),
            },
            (Some(_) | None, _) => coming.await,
        };
        match come {
            Some(Ok(Some(frames))) => Next::Frames(frames),
            Some(Ok(None)) => Next::End,
            Some(Err(error)) => Next::Failed(error),
            None => Next::Frames(self.reader.heartbeat()),
        }
    }
}

/// Notices when nothing has come for a while. The timer is moved only when it fires, so that a fast stream never touches
/// it.
pub(crate) struct Silence {
    limit: Duration,
    heard: Instant,
    sleep: Pin<Box<Sleep>>,
}

impl Silence {
    pub(crate) fn new(limit: Duration) -> Self {
        let heard = Instant::now();
        Self { limit, heard, sleep: Box::pin(tokio::time::sleep_until(heard + limit)) }
    }

    /// Waits for something to come; `None` after so long a silence.
    pub(crate) async fn guard<T>(&mut self, coming: impl Future<Output = T>) -> Option<T> {
        let mut coming = pin!(coming);
        poll_fn(|cx| {
            if let Poll::Ready(come) = coming.as_mut().poll(cx) {
                self.heard = Instant::now();
                return Poll::Ready(Some(come));
            }
            while self.sleep.as_mut().poll(cx).is_ready() {
                let now = Instant::now();
                let silent = now >= self.heard + self.limit;
                if silent {
                    self.heard = now;
                }
                self.sleep.as_mut().reset(self.heard + self.limit);
                if silent {
                    return Poll::Ready(None);
                }
            }
            Poll::Pending
        })
        .await
    }
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
