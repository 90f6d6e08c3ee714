//! What a provider tells about a model when it is asked.
//!
//! A provider that describes its models is asked once for each, before the first call; a question that failed is asked
//! again after a while. A call does not depend on the answer.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use http::header::CONTENT_TYPE;
use reqwest::Url;
use tokio::time::{Instant, timeout};

use super::{
    call::{Caller, read_up_to},
    wire::Wire,
};

/// How long a provider may take to describe a model.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How long a question that failed is not asked again. Each failure doubles it.
const PAUSE: Duration = Duration::from_secs(60);
/// The longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(60 * 60);
/// The longest description, in bytes.
const MAX_DESCRIPTION: usize = 8 * 1024 * 1024;
/// Most models that are remembered.
const MAX_MODELS: usize = 256;

/// How a provider is asked about a model.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) url: Url,
    /// The JSON to be posted; without it the question is a `GET`.
    pub(super) body: Option<Vec<u8>>,
}

/// What a provider tells about a model. `None` where it tells nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Described {
    /// Tokens of its context that calls should use.
    pub(super) window: Option<u64>,
    /// Tokens of its longest answer.
    pub(super) max_output: Option<u64>,
    /// Whether it reads images.
    pub(super) sees: Option<bool>,
    /// Whether it thinks.
    pub(super) thinks: Option<bool>,
    /// Whether it calls tools.
    pub(super) takes_tools: Option<bool>,
}

/// Which models have been asked about.
#[derive(Debug, Default)]
pub(super) struct Questions(Mutex<HashMap<String, Arc<tokio::sync::Mutex<Asked>>>>);

#[derive(Debug, Default)]
enum Asked {
    #[default]
    Never,
    Answered,
    Failed {
        at: Instant,
        pause: Duration,
    },
}

impl Asked {
    /// The question has failed once more.
    fn failed(&self) -> Self {
        let pause = match self {
            Self::Failed { pause, .. } => (*pause * 2).min(LONGEST_PAUSE),
            Self::Never | Self::Answered => PAUSE,
        };
        Self::Failed { at: Instant::now(), pause }
    }
}

impl Questions {
    fn of(&self, model: &str) -> Arc<tokio::sync::Mutex<Asked>> {
        let mut models = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if models.len() >= MAX_MODELS && !models.contains_key(model) {
            models.clear();
        }
        Arc::clone(models.entry(model.to_owned()).or_default())
    }
}

impl Caller {
    /// Asks the provider about a model, unless that was done. Keeps what it tells.
    pub(super) async fn describe(&self, wire: &dyn Wire, model: &str) {
        let Some(question) = wire.question(&self.base, model) else { return };
        let asked = self.questions.of(model);
        // Calls that begin together wait for the same answer.
        let mut asked = asked.lock().await;
        match *asked {
            Asked::Never => {}
            Asked::Failed { at, pause } if at.elapsed() >= pause => {}
            Asked::Answered | Asked::Failed { .. } => return,
        }
        let answer = timeout(TIMEOUT, self.ask(question)).await.ok().flatten();
        let Some(described) = answer.and_then(|body| wire.read_description(&self.base, model, &body)) else {
            tracing::debug!(provider = self.failures.provider, model, "the provider does not describe the model");
            *asked = asked.failed();
            return;
        };
        *asked = Asked::Answered;
        self.memory.learn(model, |learned| {
            // What a refusal has taught is newer than a description.
            learned.window = learned.window.or(described.window);
            learned.max_output = learned.max_output.or(described.max_output);
            learned.thinks = described.thinks.or(learned.thinks);
            learned.takes_tools = learned.takes_tools.or(described.takes_tools);
            learned.is_blind |= described.sees == Some(false);
            learned.is_described = true;
        });
    }

    async fn ask(&self, question: Question) -> Option<Vec<u8>> {
        let request = match question.body {
            Some(body) => self.client.post(question.url).header(CONTENT_TYPE, "application/json").body(body),
            None => self.client.get(question.url),
        };
        let response = request.send().await.ok()?;
        if !response.status().is_success() {
            return None;
        }
        Some(read_up_to(response, MAX_DESCRIPTION).await)
    }
}
