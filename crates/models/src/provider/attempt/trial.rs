//! Trials: short questions of our own, by which a part that a provider refuses without naming it is found.
//!
//! A trial has our question instead of the conversation: nothing that a user wrote decides what is left out, and it costs
//! next to nothing.

use std::time::Duration;

use bytes::Bytes;
use everturn_core::{Block, Content, Message, ModelOptions, ToolSpec, Usage};
use futures_util::StreamExt;
use tokio::time::{Instant, timeout, timeout_at};

use super::{Attempt, adapting::shows};
use crate::{
    model::{ModelError, ModelErrorKind, ModelEvent, ModelRequest},
    provider::{
        call::{AnswerStream, Origin, Refused},
        learned::Learned,
        wire::Written,
    },
};

/// The most trials of one search. One bad tool among 128 takes at most 15.
const MAX_TRIALS: usize = 40;

/// How long a search may take. It is a part of the time that a call may take to begin.
const LONGEST: Duration = Duration::from_secs(25);

/// How long the rest of an answer is read, once it has begun.
const LONGEST_REST: Duration = Duration::from_secs(2);

/// The question of a trial.
const QUESTION: &str = "Say ok.";

/// Tokens of a trial's answer. OpenAI takes no fewer.
const ANSWER: u64 = 16;

/// What the provider did with the call that is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Symptom {
    /// It refused the request.
    Refusal,
    /// It failed again and again, as some servers do at what they should refuse.
    Fault,
}

/// What a trial is made with.
#[derive(Clone, Copy)]
pub(super) enum Suspect<'s> {
    Tools(&'s [ToolSpec]),
    Medium(&'s Block),
}

/// A short question, with these images and documents.
pub(super) fn question(attempt: &Attempt, media: Vec<Block>) -> ModelRequest {
    let content = Content::Blocks([Block::Text(QUESTION.to_owned())].into_iter().chain(media).collect());
    ModelRequest {
        messages: [Message::User { content }].into(),
        documents: attempt.request.documents.clone(),
        options: ModelOptions { max_output_tokens: Some(ANSWER), ..ModelOptions::default() },
        body: attempt.request.body.clone(),
        // Ollama loads a model anew for another window.
        context_window: attempt.request.context_window,
        ..ModelRequest::default()
    }
}

/// Some trials for one call.
pub(super) struct Trials<'a> {
    attempt: &'a Attempt,
    symptom: Symptom,
    made: usize,
    end: Instant,
}

impl<'a> Trials<'a> {
    pub(super) fn new(attempt: &'a Attempt, symptom: Symptom) -> Self {
        Self { attempt, symptom, made: 0, end: *attempt.trials_end.get_or_init(|| Instant::now() + LONGEST) }
    }

    /// Whether no more trials can be made.
    pub(super) fn are_over(&self) -> bool {
        self.made >= MAX_TRIALS || Instant::now() >= self.end
    }

    /// Whether the bare question is answered: otherwise the provider is down, and nothing can be found out.
    pub(super) async fn is_provider_well(&mut self) -> bool {
        self.symptom == Symptom::Refusal || self.ask(Vec::new(), &[]).await == Some(false)
    }

    /// Whether the question with this is refused. `None` if it is neither refused nor answered in time.
    pub(super) async fn with(&mut self, suspect: Suspect<'_>) -> Option<bool> {
        match suspect {
            Suspect::Tools(tools) => self.ask(Vec::new(), tools).await,
            Suspect::Medium(medium) => self.ask(vec![medium.clone()], &[]).await,
        }
    }

    /// The same, and a fault is made sure of: it comes again, and the provider answers the bare question meanwhile. A server
    /// that fails now and then would be blamed on the innocent otherwise.
    pub(super) async fn surely_with(&mut self, suspect: Suspect<'_>) -> Option<bool> {
        let verdict = self.with(suspect).await;
        if verdict != Some(true) || self.symptom == Symptom::Refusal {
            return verdict;
        }
        let is_certain =
            self.is_provider_well().await && self.with(suspect).await == Some(true) && self.is_provider_well().await;
        is_certain.then_some(true)
    }

    async fn ask(&mut self, media: Vec<Block>, tools: &[ToolSpec]) -> Option<bool> {
        let request = ModelRequest { tools: tools.into(), ..question(self.attempt, media) };
        self.is_refused(&request, &self.attempt.learned).await
    }

    /// Whether a request is refused that is written for a model of which so much is known.
    pub(super) async fn is_refused(&mut self, request: &ModelRequest, learned: &Learned) -> Option<bool> {
        if self.are_over() {
            return None;
        }
        self.made += 1;
        let attempt = self.attempt;
        let Written { body, .. } = attempt.write_for(request, learned).ok()?;
        let (mut verdict, mut usage) = (None, None);
        let trial = async {
            let response = match attempt.caller.send(attempt.wire, &attempt.model, Bytes::from(body)).await {
                Ok(response) => response,
                Err(Refused { error, report }) => {
                    verdict = self.counts(&error, report.http.is_some());
                    return;
                }
            };
            let failures = attempt.caller.failures.clone();
            let mut answer = AnswerStream::new(attempt.wire, response, failures, Origin::default());
            while let Some(event) = answer.next().await {
                match event {
                    Ok(event) => {
                        usage = told(&event).or(usage);
                        if shows(&event) {
                            verdict = Some(false);
                            break;
                        }
                    }
                    Err(error) => {
                        verdict = self.counts(&error, true);
                        return;
                    }
                }
            }
            // What the trial has used often comes with the end of its answer, which is short.
            let rest = async {
                while let Some(Ok(event)) = answer.next().await {
                    usage = told(&event).or(usage);
                }
            };
            let _ = timeout(LONGEST_REST, rest).await;
        };
        let _ = timeout_at(self.end, trial).await;
        attempt.count_trial(usage.unwrap_or_default());
        verdict
    }

    /// Whether an error is the symptom that is searched.
    fn counts(&self, error: &ModelError, is_answer: bool) -> Option<bool> {
        let is_fault = self.symptom == Symptom::Fault && error.kind == ModelErrorKind::Unavailable && is_answer;
        (error.kind == ModelErrorKind::Rejected || is_fault).then_some(true)
    }
}

/// The usage that an event tells.
fn told(event: &ModelEvent) -> Option<Usage> {
    match event {
        ModelEvent::Used(usage) => Some(*usage),
        ModelEvent::Finished { usage, .. } => *usage,
        _ => None,
    }
}
