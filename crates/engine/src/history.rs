//! What the model is given of history, kept within its context window.

use everturn_core::{Compaction, Content, Event, FailureCode, Message, Outcome, Usage, context};
use everturn_models::{ModelError, ModelEvent, ModelRequest};
use futures_util::StreamExt as _;

use crate::{
    step::backoff,
    turn::{Stopped, Turn},
};

/// What the model is asked for when history grows too long. The demo model knows these words.
const SUMMARISE: &str = "Summarise the conversation so far for the assistant who will go on with it. Keep names, \
    numbers, decisions, open questions and the results of tools; leave out pleasantries. Answer with the summary alone.";
/// How often one step may compact before it gives up.
const MAX_ROUNDS: usize = 3;

impl Turn {
    fn full_history(&self) -> Vec<Message> {
        let mut history = self.prior.clone();
        history.extend(self.state.messages());
        history
    }

    fn compaction(&self) -> Option<&Compaction> {
        self.state.compaction.as_ref().or(self.prior_compaction.as_ref())
    }

    /// Instructions and conversation as the model is given them.
    pub(crate) fn context(&self) -> (String, Vec<Message>) {
        let conversation = context::normalise(&context::compact(&self.full_history(), self.compaction()));
        let mut system = self.agent.instructions(&self.config);
        for message in conversation.system {
            if !system.is_empty() {
                system.push_str("\n\n");
            }
            system.push_str(&message);
        }
        (system, conversation.messages)
    }

    /// A guess at the tokens of the next call's input.
    pub(crate) fn estimated_context(&self) -> u64 {
        let (system, messages) = self.context();
        let tools = self.agent.tool_specs(&self.config, &self.shared.tools);
        context::estimate_text(&system) + context::estimate(&messages) + context::estimate_tools(&tools)
    }

    /// Makes the context fit the model's window, by compaction if need be. `overflowed` is our estimate of a context
    /// that the provider found too long: it must become clearly shorter. `false` if it cannot be made to fit; the turn
    /// has ended then.
    pub(crate) async fn fit_context(&mut self, overflowed: Option<u64>) -> Result<bool, Stopped> {
        let window = self.agent.context_window.or_else(|| self.agent.models[self.model].context_window());
        let reserve = |window: u64| self.agent.max_output_tokens.unwrap_or(window / 4).min(window / 2);
        let budget = match (overflowed, window) {
            (None, None) => return Ok(true),
            (None, Some(window)) => window - reserve(window),
            (Some(used), None) => used * 3 / 4,
            (Some(used), Some(window)) => (used * 3 / 4).min(window - reserve(window)),
        };
        for round in 0..MAX_ROUNDS {
            if self.estimated_context() <= budget {
                return Ok(true);
            }
            let keep = budget / (2 << round);
            let covered = self.compaction().map_or(0, |compaction| compaction.covers);
            let Some(cut) = context::cut(&self.full_history(), covered, keep) else { break };
            match Box::pin(self.summarise_with_retries(covered, cut, budget)).await {
                Ok((summary, usage)) => {
                    self.count_tokens(usage);
                    self.record(Event::HistoryCompacted(Compaction { summary, covers: cut, usage }))?;
                }
                Err(error) => {
                    let message = format!("history must be summarised to go on, but that failed: {error}");
                    let retryable = error.is_retryable();
                    self.fail(FailureCode::LlmProviderError, message, retryable, Usage::default()).await?;
                    return Ok(false);
                }
            }
        }
        if self.estimated_context() <= budget {
            return Ok(true);
        }
        self.close(Outcome::MaxTokens, Usage::default(), "Tool call not run: the context window is full").await?;
        Ok(false)
    }

    /// As [`Self::summarise`], again while the provider fails for the moment.
    async fn summarise_with_retries(
        &self,
        covered: usize,
        cut: usize,
        budget: u64,
    ) -> Result<(String, Usage), ModelError> {
        let settings = &self.shared.settings;
        let mut attempt = 0;
        loop {
            let error = match Box::pin(self.summarise(covered, cut, budget)).await {
                Ok(made) => return Ok(made),
                Err(error) => error,
            };
            let wait = error.retry_after.unwrap_or_else(|| backoff(settings.retry_base, attempt));
            if !error.is_retryable() || attempt >= settings.retries || wait > settings.retry_max {
                return Err(error);
            }
            attempt += 1;
            tokio::time::sleep(wait).await;
        }
    }

    /// Has the model summarise what is between two places of full history, together with the summary before it.
    async fn summarise(&self, covered: usize, cut: usize, budget: u64) -> Result<(String, Usage), ModelError> {
        let mut transcript = String::new();
        if let Some(earlier) = self.compaction() {
            transcript.push_str(&format!("Earlier summary: {}\n", earlier.summary));
        }
        self.full_history()[covered..cut].iter().for_each(|message| transcribe(&mut transcript, message));
        // The transcript itself must fit; its beginning is the most dispensable part.
        let room = usize::try_from(budget.saturating_mul(3)).unwrap_or(usize::MAX);
        if transcript.len() > room {
            let from = transcript.ceil_char_boundary(transcript.len() - room);
            transcript.replace_range(..from, "[the beginning is left out]\n");
        }
        let messages = vec![Message::user(format!("{SUMMARISE}\n\n{transcript}"))];
        let input = context::estimate(&messages);
        let request = ModelRequest { messages: messages.into(), ..ModelRequest::default() };
        let idle = self.shared.settings.step_idle_timeout;
        let silent =
            |_| ModelError::new(everturn_models::ModelErrorKind::Timeout, format!("the model was silent for {idle:?}"));
        let call = self.agent.models[self.model].stream(request);
        let mut stream = tokio::time::timeout(idle, call).await.map_err(silent)??;
        let mut summary = String::new();
        while let Some(event) = tokio::time::timeout(idle, stream.next()).await.map_err(silent)? {
            match event? {
                ModelEvent::Text(text) => summary.push_str(&text),
                ModelEvent::Finished { usage, .. } => {
                    let output = context::estimate_text(&summary);
                    return Ok((summary, usage.unwrap_or(Usage { input, output })));
                }
                ModelEvent::Thinking(_)
                | ModelEvent::ThinkingSignature(_)
                | ModelEvent::ToolCallStarted { .. }
                | ModelEvent::ToolInputDelta { .. }
                | ModelEvent::ToolCall { .. }
                | ModelEvent::BadToolCall { .. } => {}
            }
        }
        let message = "the model's summary ended before it was complete";
        Err(ModelError::new(everturn_models::ModelErrorKind::Unavailable, message))
    }
}

fn transcribe(out: &mut String, message: &Message) {
    use std::fmt::Write as _;
    let (who, content): (&str, &Content) = match message {
        // System messages outlive compaction.
        Message::System { .. } => return,
        Message::User { content } => ("User", content),
        Message::Assistant { content } => ("Assistant", content),
        Message::Tool { content, .. } => ("Tool result", content),
    };
    // Writing to a string does not fail.
    let _ = writeln!(out, "{who}: {}", content.text());
    for call in message.tool_uses() {
        let _ = writeln!(out, "Assistant calls {} with {}", call.name, call.input.as_str());
    }
}
