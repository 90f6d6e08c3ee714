//! Ends a model call that gives no sign of life for too long.
//!
//! Bytes count, not events: a provider that sends pings while its model thinks is alive. Only true silence ends the call,
//! for a call that is ended is made again and paid for again.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    task::Poll,
    time::Duration,
};

use everturn_models::{EventStream, Model, ModelError, ModelErrorKind, ModelEvent, ModelRequest};
use futures_util::StreamExt as _;
use tokio::time::{Instant, Sleep};

use crate::Settings;

/// How long a provider may take to begin its answer.
const FIRST_BYTE: Duration = Duration::from_secs(60);
/// How long a model may be silent that thinks before it speaks.
const THINKING: Duration = Duration::from_secs(5 * 60);
/// How long any other model may be silent.
const SPEAKING: Duration = Duration::from_secs(60);

/// Watches one model call.
pub(crate) struct Watchdog {
    limit: Duration,
    heard: Instant,
    sleep: Pin<Box<Sleep>>,
    silences: Silences,
}

/// Counts the silent calls of one step. A model that was silent for minutes may have thought, and charged for it, all the
/// while: it is asked once more, not as often as one that answers with an error.
#[derive(Clone, Debug, Default)]
pub(crate) struct Silences(Arc<AtomicU32>);

impl Silences {
    /// Whether another call is worth its price.
    pub(crate) fn allow_retry(&self) -> bool {
        self.0.load(Ordering::Relaxed) <= 1
    }
}

impl Watchdog {
    /// Calls a model. Returns once the provider has begun to answer.
    pub(crate) async fn call(
        settings: &Settings,
        model: &Arc<dyn Model>,
        request: ModelRequest,
        silences: &Silences,
    ) -> Result<(Self, EventStream), ModelError> {
        Self::call_within(Duration::MAX, settings, model, request, silences).await
    }

    /// The same with a silence of so long at most.
    pub(crate) async fn call_within(
        most: Duration,
        settings: &Settings,
        model: &Arc<dyn Model>,
        request: ModelRequest,
        silences: &Silences,
    ) -> Result<(Self, EventStream), ModelError> {
        let silence = settings.step_idle_timeout.unwrap_or(if model.thinks() { THINKING } else { SPEAKING });
        let usual = || if model.slow_start() { FIRST_BYTE.max(silence) } else { FIRST_BYTE };
        let first = settings.first_byte_timeout.unwrap_or_else(usual);
        let (first, silence) = (first.min(most), silence.min(most));
        let mut watchdog = Self::new(first, silences.clone());
        let stream = watchdog.guard(model.stream(request)).await??;
        watchdog.limit = silence;
        // The timer may stand too late for the shorter limit.
        watchdog.sleep.as_mut().reset(watchdog.heard + silence);
        Ok((watchdog, stream))
    }

    fn new(limit: Duration, silences: Silences) -> Self {
        let heard = Instant::now();
        Self { limit, heard, sleep: Box::pin(tokio::time::sleep_until(heard + limit)), silences }
    }

    /// The next piece of the answer.
    pub(crate) async fn next(&mut self, stream: &mut EventStream) -> Result<ModelEvent, ModelError> {
        match self.guard(stream.next()).await? {
            Some(event) => event,
            None => {
                let message = "the model's answer ended before it was complete";
                Err(ModelError::new(ModelErrorKind::Unavailable, message))
            }
        }
    }

    /// The provider was not asked for a while, so that its silence does not count.
    pub(crate) fn pardon(&mut self) {
        self.heard = Instant::now();
    }

    /// Waits for a sign of life. The timer is moved only when it fires, so that a fast stream never touches it.
    async fn guard<T>(&mut self, call: impl Future<Output = T>) -> Result<T, ModelError> {
        let mut call = pin!(call);
        poll_fn(|cx| {
            if let Poll::Ready(value) = call.as_mut().poll(cx) {
                self.heard = Instant::now();
                return Poll::Ready(Ok(value));
            }
            while self.sleep.as_mut().poll(cx).is_ready() {
                let deadline = self.heard + self.limit;
                if Instant::now() >= deadline {
                    self.silences.0.fetch_add(1, Ordering::Relaxed);
                    let message = format!("the model was silent for {:?}, which is the limit", self.limit);
                    return Poll::Ready(Err(ModelError::new(ModelErrorKind::Timeout, message)));
                }
                self.sleep.as_mut().reset(deadline);
            }
            Poll::Pending
        })
        .await
    }
}
