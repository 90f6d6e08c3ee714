//! One HTTP call, and its answer as a stream of events.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use everturn_core::ModelOptions;
use futures_util::{
    Stream, StreamExt,
    stream::{self, BoxStream},
};
use http::header::CONTENT_TYPE;
use reqwest::{Client, Response, Url};
use serde_json::value::RawValue;

use super::{
    answer::{Answer, Decoder},
    attempt::{Unfinished, shows},
    describe::Questions,
    failure::{Failures, Fault, Report},
    frames::Frames,
    learned::Memory,
    proof::{self, Proof},
    wire::{ListedModel, Settings, Wire},
};
use crate::model::{ModelError, ModelErrorKind, ModelEvent, ModelFinish};

/// How much of a response that is no answer is read.
const MAX_ERROR_BODY: usize = 64 * 1024;
/// The longest list of models, in bytes.
const MAX_LIST: usize = 8 * 1024 * 1024;
/// How long a list of models may take.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);

/// Calls the models of one provider.
pub(super) struct Caller {
    pub(super) base: Url,
    pub(super) client: Client,
    pub(super) failures: Failures,
    pub(super) settings: Settings,
    pub(super) memory: Memory,
    pub(super) unfinished: Unfinished,
    pub(super) questions: Questions,
}

impl Caller {
    /// Sends a request. Returns when the response has begun.
    pub(super) async fn send(
        &self,
        wire: &dyn Wire,
        model: &str,
        body: Bytes,
    ) -> Result<BoxStream<'static, reqwest::Result<Bytes>>, Refused> {
        let url = wire.url(&self.base, model);
        let sent = self.client.post(url).header(CONTENT_TYPE, "application/json").body(body).send().await;
        let response = sent.map_err(|error| Refused::plain(self.failures.unreached(error, &self.base)))?;
        if !response.status().is_success() {
            let (status, headers) = (response.status(), response.headers().clone());
            let body = read_bounded(response).await;
            let mut report = Report::from_body(&body);
            report.http = Some(status.as_u16());
            return Err(Refused { error: self.failures.status(status, &headers, &report), report });
        }
        let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
        if content_type.starts_with("text/html") {
            let content_type = content_type.to_owned();
            return Err(Refused::plain(self.failures.not_an_answer(&content_type, &read_bounded(response).await)));
        }
        Ok(response.bytes_stream().boxed())
    }

    /// The provider's list of models; `None` if it has none, or none that can be read in time.
    pub(super) async fn list(&self, wire: &dyn Wire) -> Result<Vec<ListedModel>, ModelError> {
        let none = || ModelError::new(ModelErrorKind::Rejected, format!("{} lists no models", self.failures.provider));
        let url = wire.list_url(&self.base).ok_or_else(none)?;
        let unreached = |error| self.failures.unreached(error, &self.base);
        let response = self.client.get(url).timeout(LIST_TIMEOUT).send().await.map_err(unreached)?;
        if !response.status().is_success() {
            let (status, headers) = (response.status(), response.headers().clone());
            return Err(self.failures.status(status, &headers, &Report::from_body(&read_bounded(response).await)));
        }
        let body = read_up_to(response, MAX_LIST).await;
        let models = wire.read_list(&body);
        if models.is_empty() { Err(none()) } else { Ok(models) }
    }
}

/// A call that was not answered.
pub(super) struct Refused {
    pub(super) error: ModelError,
    pub(super) report: Report,
}

impl Refused {
    /// One whose words are not the provider's.
    fn plain(error: ModelError) -> Self {
        Self { error, report: Report::default() }
    }
}

/// The beginning of a body. What cannot be read is left out: there is an error to report already.
async fn read_bounded(response: Response) -> Vec<u8> {
    read_up_to(response, MAX_ERROR_BODY).await
}

pub(super) async fn read_up_to(response: Response, most: usize) -> Vec<u8> {
    let mut body = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(Ok(chunk)) = chunks.next().await {
        let room = most - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if body.len() == most {
            break;
        }
    }
    body
}

/// What an answer's proofs belong to.
#[derive(Clone, Debug, Default)]
pub(super) struct Origin {
    pub(super) wire: &'static str,
    /// `provider/model`.
    pub(super) from: String,
    /// See [`Proof::prefix`].
    pub(super) prefix: Option<String>,
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
    origin: Origin,
    /// What the provider said of the failure, until somebody takes it.
    report: Option<Report>,
    /// Whether anything of the answer was given out.
    has_shown: bool,
}

impl AnswerStream {
    pub(super) fn new(
        wire: &dyn Wire,
        body: BoxStream<'static, reqwest::Result<Bytes>>,
        failures: Failures,
        origin: Origin,
    ) -> Self {
        Self {
            body: Some(body),
            frames: Some(Frames::new(wire.framing())),
            decoder: wire.decoder(),
            answer: Answer::default(),
            failure: None,
            failures,
            origin,
            report: None,
            has_shown: false,
        }
    }

    /// Holds the answer to what its request asks for, also where the provider does not.
    pub(super) fn held_to(mut self, options: &ModelOptions) -> Self {
        self.answer.hold_to(options);
        self
    }

    /// An answer that the vendor's filter has declined before the model could give it.
    pub(super) fn declined(wire: &dyn Wire, failures: Failures, words: &str) -> Self {
        let mut declined = Self::empty(wire, failures);
        declined.answer.text(words);
        declined.answer.finish(ModelFinish::Refusal);
        declined
    }

    /// No answer yet.
    pub(super) fn empty(wire: &dyn Wire, failures: Failures) -> Self {
        Self::new(wire, stream::empty().boxed(), failures, Origin::default())
    }

    /// Tells something before the answer.
    pub(super) fn notice(&mut self, notice: String) {
        self.answer.notice(notice);
    }

    /// What the provider said of the failure that ended the answer, if it was the provider that did.
    pub(super) fn take_report(&mut self) -> Option<Report> {
        self.report.take()
    }

    fn fail(&mut self, fault: Fault) {
        self.answer.release_text();
        if let Fault::Reported(report) = &fault {
            if report.is_declined() && (self.has_shown || self.answer.is_any_ready(shows)) {
                // What was shown stays, and the rest will not come.
                self.answer.notice(format!("the provider stopped the answer: {}", report.shown()));
                self.answer.finish(ModelFinish::Refusal);
                self.frames = None;
                return self.end(None);
            }
            self.report = Some(report.clone());
        }
        self.failure = Some(self.failures.fault(fault));
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let mut frames = Vec::new();
        let too_large = match &mut self.frames {
            Some(decoder) => decoder.push(bytes, &mut frames).is_err(),
            None => false,
        };
        for frame in &frames {
            let read = self.decoder.frame(frame, &mut self.answer);
            // What follows the end is of no interest, a failure included.
            if self.answer.is_ended() {
                return Ok(());
            }
            read?;
        }
        if too_large { Err(Fault::FrameTooLarge) } else { Ok(()) }
    }

    /// Takes an answer that came as one document. Gemini's is a list of frames if it was asked for a stream.
    fn whole(&mut self, document: &str) -> Result<(), Fault> {
        match serde_json::from_str::<Vec<&RawValue>>(document) {
            Ok(frames) => frames.iter().try_for_each(|frame| self.decoder.frame(frame.get(), &mut self.answer)),
            Err(_) => self.decoder.frame(document, &mut self.answer),
        }
    }

    /// The body has ended, well or not. Where the provider had already said why the model stopped, the answer is
    /// complete in both cases.
    fn end(&mut self, error: Option<reqwest::Error>) {
        self.body = None;
        let is_whole = self.frames.as_ref().is_some_and(Frames::is_whole);
        let rest = self.frames.take().and_then(Frames::finish);
        if let Some(rest) = &rest {
            let read = if is_whole { self.whole(rest) } else { self.decoder.frame(rest, &mut self.answer) };
            match read {
                // A piece of a frame is what a cut leaves.
                Ok(()) | Err(Fault::Nonsense(_)) => {}
                Err(_) if self.answer.is_ended() => {}
                Err(fault) => {
                    self.fail(fault);
                    return;
                }
            }
        }
        let Origin { wire, from, prefix } = std::mem::take(&mut self.origin);
        if !self.answer.complete(|pieces| proof::write(wire, &Proof { from, prefix, pieces })) {
            self.failure = Some(match error {
                None if is_whole => {
                    self.failures.not_an_answer("application/json", rest.unwrap_or_default().as_bytes())
                }
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
                this.has_shown |= shows(&event);
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
                    // Bytes that show nothing are a sign of life all the same.
                    Ok(()) if this.answer.is_silent() => return Poll::Ready(Some(Ok(ModelEvent::Alive))),
                    Ok(()) => {}
                    Err(fault) => {
                        this.body = None;
                        this.fail(fault);
                    }
                },
                Some(Err(error)) => this.end(Some(error)),
                None => this.end(None),
            }
        }
    }
}
