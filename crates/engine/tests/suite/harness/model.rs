//! A model that does what a test wrote down, and remembers what it was asked.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use everturn_core::{Json, Usage};
use everturn_models::{EventStream, Model, ModelError, ModelErrorKind, ModelEvent, ModelFinish, ModelRequest};
use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream};
use tokio::sync::watch;

use super::gate::{Counted, Gate, in_time};

/// What a model does next within one call.
#[derive(Clone, Debug)]
pub(crate) enum Beat {
    Event(ModelEvent),
    Fail(ModelError),
    /// Nothing, until the test opens the gate.
    Gate(Gate),
    /// Nothing for a while.
    Pause(Duration),
    /// Nothing, for ever.
    Silence,
    Panic,
}

/// One call, as written down. A script that runs out is a stream that ends without having finished.
pub(crate) type Script = Vec<Beat>;

pub(crate) fn say(text: &str) -> Beat {
    Beat::Event(ModelEvent::Text(text.to_owned()))
}

pub(crate) fn think(text: &str) -> Beat {
    Beat::Event(ModelEvent::Thinking(text.to_owned()))
}

pub(crate) fn sign(proof: &str) -> Beat {
    Beat::Event(ModelEvent::ThinkingSignature(proof.to_owned()))
}

pub(crate) fn call(name: &str, input: &str) -> Beat {
    let input = Json::parse(input).expect("tests write valid JSON");
    Beat::Event(ModelEvent::ToolCall { part: 0, name: name.to_owned(), input })
}

/// A call begins whose input streams; this tells it from other calls of the answer.
pub(crate) fn call_begins(part: u32, name: &str) -> Beat {
    Beat::Event(ModelEvent::ToolCallStarted { part, name: name.to_owned() })
}

/// A piece of its input.
pub(crate) fn input(part: u32, json: &str) -> Beat {
    Beat::Event(ModelEvent::ToolInputDelta { part, json: json.to_owned() })
}

/// It is complete.
pub(crate) fn call_ends(part: u32, name: &str, input: &str) -> Beat {
    let input = Json::parse(input).expect("tests write valid JSON");
    Beat::Event(ModelEvent::ToolCall { part, name: name.to_owned(), input })
}

pub(crate) fn bad_call(name: &str, input: &str) -> Beat {
    let problem = format!("is not a JSON object: {input}");
    Beat::Event(ModelEvent::BadToolCall { part: 0, name: name.to_owned(), problem })
}

/// The provider tells what the call has used so far.
pub(crate) fn told(input: u64, output: u64) -> Beat {
    Beat::Event(ModelEvent::Used(Usage::of(input, output)))
}

/// The answer is complete, and took 100 + 10 tokens.
pub(crate) fn stop() -> Beat {
    finish(ModelFinish::Stop, Some(Usage::of(100, 10)))
}

pub(crate) fn finish(finish: ModelFinish, usage: Option<Usage>) -> Beat {
    Beat::Event(ModelEvent::Finished { finish, usage })
}

pub(crate) fn fail(kind: ModelErrorKind) -> Beat {
    Beat::Fail(ModelError::new(kind, format!("provider says {kind:?}")))
}

pub(crate) fn fail_after(kind: ModelErrorKind, retry_after: Duration) -> Beat {
    let error = ModelError::new(kind, format!("provider says {kind:?}"));
    Beat::Fail(ModelError { retry_after: Some(retry_after), ..error })
}

type Brain = Box<dyn FnMut(&ModelRequest) -> Script + Send>;

/// Implements [`Model`]. Shared by all engines of a test, as a provider would be.
pub(crate) struct ScriptedModel {
    name: String,
    context_window: Option<u64>,
    density: u64,
    thinks: bool,
    reads_pdf: bool,
    brain: Mutex<Brain>,
    requests: Mutex<Vec<ModelRequest>>,
    called: watch::Sender<usize>,
    under_way: watch::Sender<usize>,
}

impl fmt::Debug for ScriptedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedModel").field("name", &self.name).finish_non_exhaustive()
    }
}

impl ScriptedModel {
    /// A model that plays one script per call. A call too many is refused, so that it shows in the turn.
    pub(crate) fn new(name: &str, scripts: impl IntoIterator<Item = Script>) -> Arc<Self> {
        let mut scripts: VecDeque<_> = scripts.into_iter().collect();
        let none_left = ModelError::new(ModelErrorKind::Rejected, "the test has no script for this call");
        Self::thinking(name, move |_| scripts.pop_front().unwrap_or_else(|| vec![Beat::Fail(none_left.clone())]))
    }

    /// A model that makes up its script when it is called.
    pub(crate) fn thinking(name: &str, brain: impl FnMut(&ModelRequest) -> Script + Send + 'static) -> Arc<Self> {
        Arc::new(Self {
            name: name.to_owned(),
            context_window: None,
            density: 100,
            thinks: false,
            reads_pdf: false,
            brain: Mutex::new(Box::new(brain)),
            requests: Mutex::default(),
            called: watch::Sender::new(0),
            under_way: watch::Sender::new(0),
        })
    }

    /// The same, with a window of so many tokens.
    pub(crate) fn with_window(self: Arc<Self>, tokens: u64) -> Arc<Self> {
        let mut model = Arc::into_inner(self).expect("nobody uses the model yet");
        model.context_window = Some(tokens);
        Arc::new(model)
    }

    /// The same, but its provider counts so many tokens for a hundred of ours.
    pub(crate) fn with_density(self: Arc<Self>, percent: u64) -> Arc<Self> {
        let mut model = Arc::into_inner(self).expect("nobody uses the model yet");
        model.density = percent;
        Arc::new(model)
    }

    /// The same, but it may think before it speaks.
    pub(crate) fn that_thinks(self: Arc<Self>) -> Arc<Self> {
        let mut model = Arc::into_inner(self).expect("nobody uses the model yet");
        model.thinks = true;
        Arc::new(model)
    }

    /// The same, but its provider reads PDF files.
    pub(crate) fn that_reads_pdf(self: Arc<Self>) -> Arc<Self> {
        let mut model = Arc::into_inner(self).expect("nobody uses the model yet");
        model.reads_pdf = true;
        Arc::new(model)
    }

    /// What it was asked, call by call.
    pub(crate) fn requests(&self) -> Vec<ModelRequest> {
        self.requests.lock().unwrap().clone()
    }

    /// Waits until it has been called so often.
    pub(crate) async fn called(&self, times: usize) {
        let mut called = self.called.subscribe();
        let outcome = in_time("for a call of the model", called.wait_for(|called| *called >= times)).await;
        outcome.expect("the model outlives this borrow");
    }

    /// How many calls have neither ended nor been dropped.
    pub(crate) fn under_way(&self) -> usize {
        *self.under_way.borrow()
    }
}

impl Model for ScriptedModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn context_window(&self) -> Option<u64> {
        self.context_window
    }

    fn density(&self, _conversation: Option<&str>) -> u64 {
        self.density
    }

    fn window_of_body(&self, body: &Json) -> Option<u64> {
        body.to_value().pointer("/options/num_ctx")?.as_u64()
    }

    fn thinks(&self) -> bool {
        self.thinks
    }

    fn reads_pdf(&self) -> bool {
        self.reads_pdf
    }

    fn stream(&self, request: ModelRequest) -> BoxFuture<'static, Result<EventStream, ModelError>> {
        let script = (self.brain.lock().unwrap())(&request);
        self.requests.lock().unwrap().push(request);
        self.called.send_modify(|called| *called += 1);
        let counted = Counted::new(&self.under_way);
        let beats = stream::unfold((script.into_iter(), counted), |(mut beats, counted)| async move {
            let item = loop {
                match beats.next()? {
                    Beat::Event(event) => break Ok(event),
                    Beat::Fail(error) => break Err(error),
                    Beat::Gate(gate) => gate.pass().await,
                    Beat::Pause(time) => tokio::time::sleep(time).await,
                    Beat::Silence => std::future::pending().await,
                    Beat::Panic => panic!("the model panics, as the test wants it"),
                }
            };
            Some((item, (beats, counted)))
        });
        // A call that fails before it says anything fails as a whole, as it does with providers.
        let mut beats = Box::pin(beats.peekable());
        async move {
            let first = beats.as_mut().peek().now_or_never().flatten().cloned();
            match first {
                Some(Err(error)) => Err(error),
                Some(Ok(_)) | None => Ok(beats.boxed()),
            }
        }
        .boxed()
    }
}
