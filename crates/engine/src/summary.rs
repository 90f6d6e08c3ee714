//! Summaries: what stands for older history once it does not fit the context window any more.

use std::fmt::Write as _;

use everturn_core::{Content, Message, ModelOptions, context};
use everturn_models::{ModelError, ModelErrorKind, ModelEvent, ModelFinish, ModelRequest};
use futures_util::StreamExt as _;

use crate::{step::backoff, told::CountInput, turn::Turn};

/// What the model is asked for. The demo model knows the first words.
const SUMMARISE: &str = "Summarise the conversation so far for the assistant who will go on with it. Keep names, \
    numbers, decisions, open questions and the results of tools; leave out pleasantries. Answer with the summary alone";

/// The part of full history that a summary is to stand for, and what there is room for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    /// How many messages the summary before it stands for.
    pub(crate) covered: usize,
    /// How many this one is to stand for.
    pub(crate) cut: usize,
    /// Tokens of the whole context.
    pub(crate) budget: u64,
}

impl Span {
    /// Tokens of the summary.
    fn room(self) -> u64 {
        (self.budget / 4).max(1)
    }
}

impl Turn {
    /// Has the model summarise a part of history, again while it fails for the moment. What all attempts used is kept
    /// aside, see [`Turn::take_summary`].
    pub(crate) async fn summarise(&mut self, span: Span) -> Result<String, ModelError> {
        let mut attempt = 0;
        loop {
            let error = match Box::pin(self.attempt_summary(span)).await {
                Ok(summary) => return Ok(summary),
                Err(error) => error,
            };
            self.end_summary(None, CountInput::IfAnswered);
            let settings = &self.shared.settings;
            let wait = error.retry_after.unwrap_or_else(|| backoff(settings.retry_base, attempt));
            if !error.is_retryable() || attempt >= settings.retries || wait > settings.retry_max {
                return Err(error);
            }
            attempt += 1;
            tokio::time::sleep(wait).await;
        }
    }

    async fn attempt_summary(&mut self, span: Span) -> Result<String, ModelError> {
        let messages = vec![Message::user(self.summary_request(span))];
        self.begin_summary(context::estimate(&messages));
        let options = ModelOptions { max_output_tokens: Some(span.room()), ..ModelOptions::default() };
        let request = ModelRequest { messages: messages.into(), options, ..ModelRequest::default() };
        let idle = self.shared.settings.idle_timeout();
        let silent = |_| ModelError::new(ModelErrorKind::Timeout, format!("the model was silent for {idle:?}"));
        let call = self.agent.models[self.model].stream(request);
        let mut stream = tokio::time::timeout(idle, call).await.map_err(silent)??;
        while let Some(event) = tokio::time::timeout(idle, stream.next()).await.map_err(silent)? {
            match event? {
                ModelEvent::Text(text) => self.hear_summary(&text),
                ModelEvent::Used(usage) => self.hear_of_summary(usage),
                ModelEvent::Finished { finish, usage } => {
                    return usable(self.end_summary(usage, CountInput::Always), finish, span);
                }
                ModelEvent::Alive
                | ModelEvent::Notice(_)
                | ModelEvent::Thinking(_)
                | ModelEvent::ThinkingSignature(_)
                | ModelEvent::ToolCallStarted { .. }
                | ModelEvent::ToolInputDelta { .. }
                | ModelEvent::ToolCall { .. }
                | ModelEvent::BadToolCall { .. } => {}
            }
        }
        Err(ModelError::new(ModelErrorKind::Unavailable, "the model's summary ended before it was complete"))
    }

    fn summary_request(&self, span: Span) -> String {
        let mut transcript = String::new();
        if let Some(earlier) = self.compaction() {
            transcript.push_str(&format!("Earlier summary: {}\n", earlier.summary));
        }
        self.full_history()[span.covered..span.cut].iter().for_each(|message| transcribe(&mut transcript, message));
        // The transcript itself must fit; its beginning is the most dispensable part.
        let room = usize::try_from(span.budget.saturating_mul(3)).unwrap_or(usize::MAX);
        if transcript.len() > room {
            let from = transcript.ceil_char_boundary(transcript.len() - room);
            transcript.replace_range(..from, "[the beginning is left out]\n");
        }
        format!("{SUMMARISE}, in at most {} words.\n\n{transcript}", (span.room() / 2).max(1))
    }
}

/// The summary, if it can stand for what it summarises: all older context would be lost with a bad one.
fn usable(summary: String, finish: ModelFinish, span: Span) -> Result<String, ModelError> {
    let bad = match finish {
        ModelFinish::Refusal => {
            return Err(ModelError::new(ModelErrorKind::Rejected, "the model declined to summarise the conversation"));
        }
        ModelFinish::MaxTokens => "was cut off",
        ModelFinish::Stop if summary.trim().is_empty() => "is empty",
        ModelFinish::Stop if context::estimate_text(&summary) > span.room() * 2 => "is too long",
        ModelFinish::Stop => return Ok(summary),
    };
    Err(ModelError::new(ModelErrorKind::Unavailable, format!("the model's summary {bad}")))
}

fn transcribe(out: &mut String, message: &Message) {
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
