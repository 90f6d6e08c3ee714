//! Summaries: what stands for older history once it does not fit the context window any more.

use std::fmt::Write as _;

use everturn_core::{Content, Effort, Message, ModelOptions, context};
use everturn_models::{ModelError, ModelErrorKind, ModelEvent, ModelFinish, ModelRequest};

use crate::{
    step::backoff,
    told::CountInput,
    turn::Turn,
    watchdog::{Silences, Watchdog},
};

/// What the model is asked for. The demo model knows the first words.
const SUMMARISE: &str = "Summarise the conversation so far for the assistant who will go on with it. Keep names, \
    numbers, decisions, open questions and the results of tools; leave out pleasantries. Answer with the summary alone";

/// The shortest transcript that is summarised, in bytes. Where not even that fits, nothing is.
const SHORTEST: u64 = 2048;

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

impl Turn {
    /// Tokens of a summary: a quarter of the context, and no more than the model and the agent write in one answer.
    fn summary_room(&self, span: Span) -> u64 {
        /// More than anybody reads.
        const MOST: u64 = 16_384;
        let caps = [self.agent.model_options.max_output_tokens, self.current_model().max_output(), Some(MOST)];
        let most = caps.into_iter().flatten().min().unwrap_or(MOST);
        (span.budget / 4).min(most).max(1)
    }

    /// Has the model summarise a part of history, again while it fails for the moment, and from a shorter part while the
    /// request itself does not fit. What all attempts used is kept aside, see [`Turn::take_summary`].
    pub(crate) async fn summarise(&mut self, span: Span) -> Result<String, ModelError> {
        let (mut attempt, mut bytes) = (0, span.budget.saturating_mul(3));
        self.silences = Silences::default();
        loop {
            let error = match Box::pin(self.attempt_summary(span, bytes)).await {
                Ok(summary) => return Ok(summary),
                Err(error) => error,
            };
            self.end_summary(None, CountInput::IfAnswered);
            let settings = &self.shared.settings;
            if error.kind == ModelErrorKind::ContextOverflow && bytes > SHORTEST {
                bytes /= 2;
                continue;
            }
            let wait = error.retry_after.unwrap_or_else(|| backoff(settings.retry_base, attempt));
            let may_retry = error.is_retryable() && attempt < settings.retries && self.silences.allow_retry();
            if !may_retry || wait > settings.retry_max {
                return Err(error);
            }
            attempt += 1;
            tokio::time::sleep(wait).await;
        }
    }

    async fn attempt_summary(&mut self, span: Span, bytes: u64) -> Result<String, ModelError> {
        let room = self.summary_room(span);
        let messages = vec![Message::user(self.summary_request(span, bytes))];
        self.begin_summary(context::estimate(&messages));
        let options = ModelOptions {
            // Some models think whatever they are asked, and count it as a part of the answer.
            max_output_tokens: Some(room.saturating_mul(2)),
            effort: Some(Effort::Low),
            ..ModelOptions::default()
        };
        let request = ModelRequest { messages: messages.into(), options, ..ModelRequest::default() };
        let (mut watchdog, mut stream) =
            Watchdog::call(&self.shared.settings, self.current_model(), request, &self.silences).await?;
        loop {
            match watchdog.next(&mut stream).await? {
                ModelEvent::Text(text) => self.hear_summary(&text),
                ModelEvent::Used(usage) => self.hear_of_summary(usage),
                ModelEvent::Finished { finish, usage } => {
                    return usable(self.end_summary(usage, CountInput::Always), finish, room);
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
    }

    fn summary_request(&self, span: Span, bytes: u64) -> String {
        let mut transcript = String::new();
        self.full_history()[span.covered..span.cut].iter().for_each(|message| transcribe(&mut transcript, message));
        // The transcript itself must fit; its beginning is the most dispensable part.
        let room = usize::try_from(bytes).unwrap_or(usize::MAX);
        if transcript.len() > room {
            let from = transcript.ceil_char_boundary(transcript.len() - room);
            transcript.replace_range(..from, "[the beginning is left out]\n");
        }
        // What was summarised before must not be lost by what is left out now.
        if let Some(earlier) = self.compaction() {
            transcript.insert_str(0, &format!("Earlier summary: {}\n", earlier.summary));
        }
        format!("{SUMMARISE}, in at most {} words.\n\n{transcript}", (self.summary_room(span) / 2).max(1))
    }

    /// Stands for a part of history that could not be summarised: what was summarised before, and how much is missing.
    pub(crate) fn summary_without_model(&self, span: Span) -> String {
        let left_out = span.cut - span.covered;
        let note = format!("[{left_out} messages after that were left out: they could not be summarised.]");
        match self.compaction() {
            Some(earlier) => format!("{}\n{note}", earlier.summary),
            None => note.replace(" after that", ""),
        }
    }
}

/// The summary, if it can stand for what it summarises: all older context would be lost with a bad one.
fn usable(summary: String, finish: ModelFinish, room: u64) -> Result<String, ModelError> {
    let bad = match finish {
        ModelFinish::Refusal => {
            return Err(ModelError::new(ModelErrorKind::Rejected, "the model declined to summarise the conversation"));
        }
        ModelFinish::MaxTokens => "was cut off",
        ModelFinish::Stop if summary.trim().is_empty() => "is empty",
        ModelFinish::Stop if context::estimate_text(&summary) > room * 2 => "is too long",
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
