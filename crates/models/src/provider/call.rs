//! One HTTP call, and its answer as a stream of events.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use everturn_core::context;
use futures_util::{Stream, StreamExt, stream::BoxStream};
use http::header::CONTENT_TYPE;
use reqwest::{Client, Response, Url};

use super::{
    adapt::{self, Changes},
    answer::{Answer, Decoder},
    catalog,
    describe::Questions,
    failure::{Failures, Fault, Report},
    frames::{Frames, Framing},
    learned::Memory,
    media::{self, Limits},
    patch::patch,
    proof::{self, Proof},
    wire::{Ask, ListedModel, Settings, Wire, Written},
};
use crate::model::{EventStream, ModelError, ModelErrorKind, ModelEvent, ModelRequest};

/// How much of a response that is no answer is read.
const MAX_ERROR_BODY: usize = 64 * 1024;
/// The longest list of models, in bytes.
const MAX_LIST: usize = 8 * 1024 * 1024;
/// How long a list of models may take.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);

/// How often one call is written anew because the provider refused a part of it.
const MAX_CHANGES: usize = 6;

/// Calls the models of one provider.
pub(super) struct Caller {
    pub(super) base: Url,
    pub(super) client: Client,
    pub(super) failures: Failures,
    pub(super) settings: Settings,
    pub(super) memory: Memory,
    pub(super) questions: Questions,
}

impl Caller {
    /// Calls a model. Returns when the response has begun.
    ///
    /// A provider that refuses a part of the request, such as a field that the model does not take, is asked again without
    /// that part; what was left out is told first.
    pub(super) async fn call(
        &self,
        wire: &'static dyn Wire,
        from: &str,
        model: &str,
        request: ModelRequest,
    ) -> Result<EventStream, ModelError> {
        let request = media::readable(request, Limits::of(wire, self.settings.is_official)).await;
        let known = catalog::known(model);
        let mut changes = Changes::default();
        loop {
            let learned = self.memory.of(model);
            let settings = &self.settings;
            let without_proofs = changes.without_proofs;
            let ask = Ask { from, model, settings, known, learned: &learned, request: &request, without_proofs };
            let Written { body, notices, prefix } = self.write(wire, &ask)?;
            let body = Bytes::from(body);
            let response = match self.send(wire, model, body.clone()).await {
                Ok(response) => response,
                Err(Refused { error, report }) => {
                    if error.kind == ModelErrorKind::Rejected
                        && changes.count < MAX_CHANGES
                        && let Some(change) = adapt::change(&report, &request, &body, &learned)
                        && changes.apply(change, model, &self.memory)
                    {
                        tracing::debug!(model = from, %error, "asking again without what was refused");
                        continue;
                    }
                    if error.kind == ModelErrorKind::ContextOverflow {
                        self.learn_window(model, &report, &request);
                    }
                    return Err(error);
                }
            };
            // The body held all of it; the conversation can be large and the answer long in coming.
            drop(request);
            let origin = Origin { wire: wire.name(), from: from.to_owned(), prefix };
            let mut answer = AnswerStream::new(wire, response, self.failures.clone(), origin);
            changes.notices.into_iter().chain(notices).for_each(|notice| answer.answer.notice(notice));
            return Ok(answer.boxed());
        }
    }

    fn write(&self, wire: &dyn Wire, ask: &Ask<'_>) -> Result<Written, ModelError> {
        let patches = [self.settings.body.as_ref(), ask.request.body.as_ref()];
        let written = wire.write(ask).and_then(|written| {
            let body = patch(written.body, &ask.learned.fields, &patches)?;
            Ok(Written { body, ..written })
        });
        written.map_err(|error| {
            let message = format!("failed to write the request to {}: {error}", self.failures.provider);
            ModelError::new(ModelErrorKind::Rejected, message)
        })
    }

    async fn send(
        &self,
        wire: &dyn Wire,
        model: &str,
        body: Bytes,
    ) -> Result<BoxStream<'static, reqwest::Result<Bytes>>, Refused> {
        let url = wire.url(&self.base, model);
        let sent = self.client.post(url).header(CONTENT_TYPE, "application/json").body(body).send().await;
        let response = sent.map_err(|error| {
            let origin = self.base.origin().ascii_serialization();
            Refused::plain(self.failures.transport(error, &format!("cannot be reached at {origin}")))
        })?;
        if !response.status().is_success() {
            let (status, headers) = (response.status(), response.headers().clone());
            let body = read_bounded(response).await;
            let report = Report::from_body(&body);
            return Err(Refused { error: self.failures.status(status, &headers, &report), report });
        }
        let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
        if is_page(content_type, wire.framing()) {
            let content_type = content_type.to_owned();
            return Err(Refused::plain(self.failures.not_a_stream(&content_type, &read_bounded(response).await)));
        }
        Ok(response.bytes_stream().boxed())
    }

    /// Keeps what an overflow says about the model's window: the size that it names, else that it is smaller than what was
    /// sent, by our own estimate.
    fn learn_window(&self, model: &str, report: &Report, request: &ModelRequest) {
        let sent = || {
            let tokens = context::estimate_text(&request.system)
                + context::estimate(&request.messages)
                + context::estimate_tools(&request.tools);
            (tokens - tokens / 10).max(1)
        };
        let window = report.window().unwrap_or_else(sent);
        self.memory
            .learn(model, |learned| learned.window = Some(learned.window.map_or(window, |known| known.min(window))));
    }

    /// The provider's list of models; `None` if it has none, or none that can be read in time.
    pub(super) async fn list(&self, wire: &dyn Wire) -> Result<Vec<ListedModel>, ModelError> {
        let none = || ModelError::new(ModelErrorKind::Rejected, format!("{} lists no models", self.failures.provider));
        let url = wire.list_url(&self.base).ok_or_else(none)?;
        let origin = self.base.origin().ascii_serialization();
        let unreached = |error| self.failures.transport(error, &format!("cannot be reached at {origin}"));
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
struct Refused {
    error: ModelError,
    report: Report,
}

impl Refused {
    /// One whose words are not the provider's.
    fn plain(error: ModelError) -> Self {
        Self { error, report: Report::default() }
    }
}

/// Whether a content type shows that there is no stream: some web page, or a whole JSON document.
fn is_page(content_type: &str, framing: Framing) -> bool {
    content_type.starts_with("text/html")
        || (framing == Framing::Events && content_type.starts_with("application/json"))
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
        let Origin { wire, from, prefix } = std::mem::take(&mut self.origin);
        if !self.answer.complete(|pieces| proof::write(wire, &Proof { from, prefix, pieces })) {
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
                    // Bytes that show nothing are a sign of life all the same.
                    Ok(()) if this.answer.is_silent() => return Poll::Ready(Some(Ok(ModelEvent::Alive))),
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
