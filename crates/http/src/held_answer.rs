//! Answers in one piece that hold memory until their client has them.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use axum::{
    body::{Body, Bytes},
    response::Response,
};
use everturn_engine::Reservation;
use http_body::{Body as HttpBody, Frame, SizeHint};

/// How much of an answer the connection is given at once. It buffers a few of these beyond what the client has taken.
const PIECE: usize = 64 * 1024;

/// An answer, and the memory that was reserved for building it. From now on it holds as much as the answer has bytes; they are
/// given back when all but the last have gone out, or when the client goes away.
pub fn held(answer: Response, memory: impl Into<Option<Reservation>>) -> Response {
    let Some(mut memory) = memory.into() else { return answer };
    answer.map(|body| {
        if let Some(bytes) = HttpBody::size_hint(&body).exact() {
            memory.shrink_to(bytes);
        }
        Body::new(HeldBody { body, rest: Bytes::new(), _memory: memory })
    })
}

struct HeldBody {
    body: Body,
    /// What was taken from the body and not given on.
    rest: Bytes,
    _memory: Reservation,
}

impl HttpBody for HeldBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        while self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                end => return Poll::Ready(end),
            }
        }
        let piece = self.rest.len().min(PIECE);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (mut hint, rest) = (self.body.size_hint(), self.rest.len() as u64);
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(hint.lower() + rest);
        hint
    }
}
