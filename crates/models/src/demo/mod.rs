//! A model that runs inside the server: offline, deterministic and stateless.
//!
//! It is the first model that a newcomer meets, so it explains itself and shows on plain requests what a turn can do:
//! thinking, tool calls, forms, artifacts, pauses, long answers at a chosen pace, refusals and failures. It is also the
//! load source of benchmarks. It understands a handful of words and pretends nothing more: the same request always gets
//! the same answer.

mod arithmetic;
mod artifact;
mod estimate;
mod feature;
mod form;
mod intent;
mod mention;
mod pause;
mod playback;
mod results;
mod schema_fill;
mod script;
mod title;
mod words;

use std::num::NonZeroU32;

use futures_util::{FutureExt, StreamExt, future::BoxFuture};

use self::{playback::Playback, script::Script};
use crate::model::{EventStream, Model, ModelError, ModelErrorKind, ModelRequest};

/// How many tokens the demo model's context holds. Small, so that compaction can be seen.
pub(crate) const CONTEXT_WINDOW: u64 = 32_768;

/// How fast a [`DemoModel`] speaks where the request names no pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// This many pieces a second.
    PerSecond(NonZeroU32),
    /// As fast as its reader takes them, without a timer.
    Unpaced,
}

impl Pace {
    /// Pleasant to watch: about forty words a second.
    pub const PLEASANT: Self = match NonZeroU32::new(40) {
        Some(rate) => Self::PerSecond(rate),
        None => Self::Unpaced,
    };
}

/// The offline demo model.
#[derive(Clone, Debug)]
pub struct DemoModel {
    name: String,
    pace: Pace,
}

impl DemoModel {
    /// A demo model that answers to `name` (`provider/model`) and speaks at `pace`.
    pub fn new(name: impl Into<String>, pace: Pace) -> Self {
        Self { name: name.into(), pace }
    }

    /// `demo/assistant`, the one for people.
    pub fn assistant() -> Self {
        Self::new("demo/assistant", Pace::PLEASANT)
    }

    /// `demo/load`, the one for benchmarks: no timers unless a request names a pace.
    pub fn load() -> Self {
        Self::new("demo/load", Pace::Unpaced)
    }
}

impl Model for DemoModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn context_window(&self) -> Option<u64> {
        Some(CONTEXT_WINDOW)
    }

    fn stream(&self, request: ModelRequest) -> BoxFuture<'static, Result<EventStream, ModelError>> {
        let pace = self.pace;
        async move {
            // Counted as the engine counts, so that it compacts in time: this model is no vendor that counts otherwise.
            let fixed = everturn_core::context::estimate_text(&request.system)
                + everturn_core::context::estimate_tools(&request.tools);
            let tokens = fixed + request.messages.size().tokens;
            if tokens > CONTEXT_WINDOW {
                return Err(ModelError::new(
                    ModelErrorKind::ContextOverflow,
                    format!("the conversation has about {tokens} tokens, the demo model holds {CONTEXT_WINDOW}"),
                ));
            }
            let script = Script::new(&request, estimate::request(&request))?;
            let pace = script.rate().map_or(pace, Pace::PerSecond);
            Ok(Playback::new(script, pace).boxed())
        }
        .boxed()
    }
}
