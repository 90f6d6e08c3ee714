//! Notices when the answer of an attempt has been taken.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use axum::{
    body::{Body, Bytes, HttpBody},
    response::Response,
};
use http_body::{Frame, SizeHint};

use crate::attempts::Attempt;

/// Keeps the attempt until the last part of its answer has been taken.
pub(crate) fn until_delivered(response: Response, attempt: Option<Attempt>) -> Response {
    match attempt {
        Some(attempt) => response.map(|body| Body::new(Delivered { body, attempt })),
        None => response,
    }
}

struct Delivered {
    body: Body,
    attempt: Attempt,
}

impl HttpBody for Delivered {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        // A body of known length is not asked for more than it has.
        if frame.is_none() || (matches!(frame, Some(Ok(_))) && self.body.is_end_stream()) {
            self.attempt.done();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
