//! Open streams end with the key that opened them.
//!
//! A key that is revoked or has expired opens nothing more; streams that it opened before would go on for hours. Each key
//! so knows its open streams, and tells them when it is over. A turn that runs goes on: it is the tenant's.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use axum::{
    body::{Body, Bytes, HttpBody},
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use everturn_core::KeyId;
use futures_util::task::AtomicWaker;
use http::{HeaderName, HeaderValue, StatusCode, header};
use http_body::{Frame, SizeHint};

use super::Keys;
use crate::{
    auth::{bearer, in_header},
    problem,
};

/// Where Goose's clients have their key.
const SECRET_KEY: HeaderName = HeaderName::from_static("x-secret-key");

/// On an answer: the key that its stream was opened for, where the request does not show one.
#[derive(Clone, Debug)]
pub(crate) struct OpenedFor(pub(crate) KeyId);

/// A stream was ended because its key is over.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the key that opened the stream was revoked or has expired")]
struct KeyIsOver;

/// Tells one stream to end.
#[derive(Debug, Default)]
pub(super) struct Ending {
    is_over: AtomicBool,
    reader: AtomicWaker,
}

/// The open streams of one key.
#[derive(Debug, Default)]
pub(super) struct OpenStreams(Mutex<Listed>);

#[derive(Debug, Default)]
struct Listed {
    is_over: bool,
    streams: Vec<Weak<Ending>>,
    /// Closed streams are removed from the list when it has so many entries.
    full_at: usize,
}

impl OpenStreams {
    /// A new stream. It ends at once if the key is over.
    pub(super) fn add(&self) -> Arc<Ending> {
        /// Lists of so few streams are not worth clearing.
        const FEW: usize = 64;
        let mut listed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ending = Arc::new(Ending { is_over: listed.is_over.into(), reader: AtomicWaker::new() });
        if listed.streams.len() >= listed.full_at {
            listed.streams.retain(|stream| stream.strong_count() > 0);
            listed.full_at = (listed.streams.len() * 2).max(FEW);
        }
        listed.streams.push(Arc::downgrade(&ending));
        ending
    }

    /// Ends all of them, and those to come.
    pub(super) fn end(&self) {
        let mut listed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        listed.is_over = true;
        let streams = std::mem::take(&mut listed.streams);
        drop(listed);
        for stream in streams.iter().filter_map(Weak::upgrade) {
            stream.is_over.store(true, Ordering::Release);
            stream.reader.wake();
        }
    }
}

/// A body that ends with its key.
struct WithKey {
    body: Body,
    ending: Arc<Ending>,
}

impl HttpBody for WithKey {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        // First the waker, so that an end between the two lines is not missed.
        self.ending.reader.register(cx.waker());
        if self.ending.is_over.load(Ordering::Acquire) {
            // An error cuts the connection: the client has not seen the end.
            return Poll::Ready(Some(Err(axum::Error::new(KeyIsOver))));
        }
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Ends event streams with the key that opened them, and gives late answers to no key that has ended, in every dialect.
pub async fn end_with_key(State(keys): State<Arc<Keys>>, request: Request, next: Next) -> Response {
    let shown = bearer(request.headers()).or_else(|| in_header(request.headers(), &SECRET_KEY));
    let shown = keys.ring.holder(shown);
    let response = next.run(request).await;
    let is_stream = response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream");
    if !is_stream {
        // An answer without content tells nothing, such as that to the request that revokes its own key.
        let tells = response.status().is_success() && response.status() != StatusCode::NO_CONTENT;
        return if tells && shown.is_some_and(|held| !keys.is_live(&held.info.id)) { refused() } else { response };
    }
    let held = match response.extensions().get::<OpenedFor>() {
        Some(OpenedFor(key)) => keys.ring.get(key),
        None => shown,
    };
    let Some(held) = held else { return response };
    response.map(|body| Body::new(WithKey { body, ending: held.streams.add() }))
}

/// The answer to a request whose key ended while it was worked on.
fn refused() -> Response {
    let message = "the key was revoked or has expired since the request came; what the request began goes on";
    let mut response = problem(StatusCode::UNAUTHORIZED, "AUTH_TOKEN_INVALID", message);
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}
