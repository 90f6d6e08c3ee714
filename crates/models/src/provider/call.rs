//! One HTTP call, and its answer as a stream of events.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream::BoxStream};
use http::header::CONTENT_TYPE;
use reqwest::{Client, Response, Url};

use super::{
    answer::{Answer, Decoder},
    failure::{Failures, Fault},
    frames::{Frames, Framing},
    wire::{Settings, Wire},
};
use crate::model::{EventStream, ModelError, ModelErrorKind, ModelEvent, ModelRequest};

/// How much of a response that is no answer is read.
const MAX_ERROR_BODY: usize = 64 * 1024;

/// Calls the models of one provider.
pub(super) struct Caller {
    pub(super) wire: &'static dyn Wire,
    pub(super) base: Url,
    pub(super) client: Client,
    pub(super) failures: Failures,
}

impl Caller {
    /// Calls a model. Returns when the response has begun.
    pub(super) async fn call(
        &self,
        model: &str,
        settings: Settings,
        request: ModelRequest,
    ) -> Result<EventStream, ModelError> {
        let body = self.wire.body(model, settings, &request).map_err(|error| {
            let message = format!("failed to write the request to {}: {error}", self.failures.provider);
            ModelError::new(ModelErrorKind::Rejected, message)
        })?;
        // The body holds all of it; the conversation can be large and the answer long in coming.
        drop(request);
        let url = self.wire.url(&self.base, model);
        let response = self.client.post(url).header(CONTENT_TYPE, "application/json").body(body).send().await.map_err(
            |error| {
                let origin = self.base.origin().ascii_serialization();
                self.failures.transport(error, &format!("cannot be reached at {origin}"))
            },
        )?;
        if !response.status().is_success() {
            let (status, headers) = (response.status(), response.headers().clone());
            return Err(self.failures.status(status, &headers, &read_bounded(response).await));
        }
        let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
        if is_page(content_type, self.wire.framing()) {
            let content_type = content_type.to_owned();
            return Err(self.failures.not_a_stream(&content_type, &read_bounded(response).await));
        }
        let body = response.bytes_stream().boxed();
        Ok(AnswerStream::new(self.wire, body, self.failures.clone()).boxed())
    }
}

/// Whether a content type shows that there is no stream: some web page, or a whole JSON document.
fn is_page(content_type: &str, framing: Framing) -> bool {
    content_type.starts_with("text/html")
        || (framing == Framing::Events && content_type.starts_with("application/json"))
}

/// The beginning of a body. What cannot be read is left out: there is an error to report already.
async fn read_bounded(response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(Ok(chunk)) = chunks.next().await {
        let room = MAX_ERROR_BODY - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if body.len() == MAX_ERROR_BODY {
            break;
        }
    }
    body
}

/// An answer on its way.
pub(super) struct AnswerStream {
    /// The response's body, until it has ended or is no longer of interest. Dropping it ends the call.
    body: Option<BoxStream<'static, reqwest::Result<Bytes>>>,
    frames: Option<Frames>,
    decoder: Box<dyn Decoder>,
    answer: Answer,
    /// Given out after the events that came before it.
    failure: Option<ModelError>,
    failures: Failures,
}

impl AnswerStream {
    pub(super) fn new(wire: &dyn Wire, body: BoxStream<'static, reqwest::Result<Bytes>>, failures: Failures) -> Self {
        Self {
            body: Some(body),
            frames: Some(Frames::new(wire.framing())),
            decoder: wire.decoder(),
            answer: Answer::default(),
            failure: None,
            failures,
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let mut frames = Vec::new();
        let too_large = match &mut self.frames {
            Some(decoder) => decoder.push(bytes, &mut frames).is_err(),
            None => false,
        };
        for frame in &frames {
            self.decoder.frame(frame, &mut self.answer)?;
            if self.answer.is_ended() {
                return Ok(());
            }
        }
        if too_large { Err(Fault::FrameTooLarge) } else { Ok(()) }
    }

    /// The body has ended, well or not. Where the provider had already said why the model stopped, the answer is
    /// complete in both cases.
    fn end(&mut self, error: Option<reqwest::Error>) {
        self.body = None;
        if let Some(rest) = self.frames.take().and_then(Frames::finish) {
            match self.decoder.frame(&rest, &mut self.answer) {
                // A piece of a frame is what a cut leaves.
                Ok(()) | Err(Fault::Nonsense(_)) => {}
                Err(fault) => {
                    self.failure = Some(self.failures.fault(fault));
                    return;
                }
            }
        }
        if !self.answer.complete() {
            self.failure = Some(match error {
                Some(error) => self.failures.transport(error, "broke off in the middle of its answer"),
                None => self.failures.cut(),
            });
        }
    }
}

impl Stream for AnswerStream {
    type Item = Result<ModelEvent, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if let Some(event) = this.answer.pop() {
                return Poll::Ready(Some(Ok(event)));
            }
            if let Some(failure) = this.failure.take() {
                return Poll::Ready(Some(Err(failure)));
            }
            let Some(body) = &mut this.body else { return Poll::Ready(None) };
            match ready!(body.poll_next_unpin(cx)) {
                Some(Ok(bytes)) => match this.take(&bytes) {
                    Ok(()) if this.answer.is_ended() => {
                        // Usually the body ends here too; having seen its end lets the connection be used again.
                        if let Some(body) = &mut this.body {
                            let _ = body.poll_next_unpin(cx);
                        }
                        this.frames = None;
                        this.end(None);
                    }
                    Ok(()) => {}
                    Err(fault) => {
                        this.body = None;
                        this.failure = Some(this.failures.fault(fault));
                    }
                },
                Some(Err(error)) => this.end(Some(error)),
                None => this.end(None),
            }
        }
    }
}
