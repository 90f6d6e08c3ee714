//! Summaries: what stands for older history once it does not fit the context window any more.

use std::{fmt::Write as _, time::Duration};

use everturn_core::{
    Content, Effort, Message, ModelOptions,
    compaction::{Room, shorten_text},
    context,
};
use everturn_models::{ModelError, ModelErrorKind, ModelEvent, ModelFinish, ModelRequest};

use crate::{
    excerpt::excerpt,
    step::backoff,
    told::CountInput,
    turn::Turn,
    watchdog::{Silences, Watchdog},
};

/// What the model is asked for. The demo model knows the first words.
const SUMMARISE: &str = "Summarise the conversation so far for the assistant who will go on with it. Keep names, \
    numbers, decisions, open questions and the results of tools; leave out pleasantries. Answer with the summary alone";

/// The shortest request for a summary, in tokens. Where not even that fits, none is made.
const SHORTEST: u64 = 512;
/// How often a summary that cannot be used, or is refused, is asked for again: each time shorter.
const SHORTER_ATTEMPTS: u32 = 2;
/// How often a summary is asked for again that failed for the moment: the turn can go on without it.
const RETRIES: u32 = 3;
/// The longest wait before that.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// The longest silence of a model that makes a summary.
const LONGEST_SILENCE: Duration = Duration::from_secs(90);
/// The same once it was silent in the turn.
const NEXT_SILENCE: Duration = Duration::from_secs(10);
/// The most bytes of one tool result in a transcript. The whole is in the log.
const MOST_OF_RESULT: usize = 4096;
/// Below so many bytes nothing is left of a message that is worth its line.
const SHORTEST_PART: usize = 64;
/// About how many tokens a request has beside the transcript and the earlier summary.
const INSTRUCTION: u64 = 80;
/// The most bytes of the input of one tool call.
const MOST_OF_INPUT: usize = 2048;

/// The part of full history that a summary is to stand for, and what there is room for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    /// The first message that the summary before it does not stand for.
    pub(crate) from: usize,
    /// The first message that this one is not to stand for.
    pub(crate) to: usize,
    /// A message that the model is given beside the summary, for good.
    pub(crate) verbatim: Option<usize>,
    /// The first and the end of the messages that the provider refuses. The summary does not mention them.
    pub(crate) untold: (usize, usize),
    /// Whether a failure without words may be an overflow.
    pub(crate) may_overflow: bool,
    pub(crate) room: Room,
}

/// How long a request for a summary is, and how long a summary it asks for.
#[derive(Clone, Copy, Debug)]
struct Ask {
    /// The most tokens of the request.
    input: u64,
    /// The most tokens of the summary.
    tokens: u64,
}

impl Ask {
    fn shorter(self) -> Self {
        Self { tokens: (self.tokens / 2).max(1), ..self.of_less() }
    }

    /// The same summary, of half as much.
    fn of_less(self) -> Self {
        Self { input: (self.input / 2).max(SHORTEST), ..self }
    }
}

/// Why there is no summary.
pub(crate) enum Unmade {
    Failed(ModelError),
    /// There is one, but it cannot stand for what it summarises.
    Unusable(ModelError),
}

impl Unmade {
    pub(crate) fn error(&self) -> &ModelError {
        let (Self::Failed(error) | Self::Unusable(error)) = self;
        error
    }
}

impl Turn {
    /// Has the model summarise a part of history: again while it fails for the moment, and from a shorter part while the
    /// request does not fit, is refused, or what comes cannot be used. What all attempts used is kept aside, see
    /// [`Turn::take_summary`].
    pub(crate) async fn summarise(&mut self, span: Span) -> Result<String, Unmade> {
        let Room { budget, summary, .. } = span.room;
        // The summary itself needs room, too.
        let window = self.window();
        let input = budget.min(window.saturating_sub(summary + window / 64)).max(SHORTEST);
        let mut ask = Ask { input, tokens: summary };
        let (mut attempt, mut shorter) = (0, 0);
        self.silences = Silences::default();
        loop {
            let unmade = match Box::pin(self.attempt_summary(span, ask)).await {
                Ok(summary) => return Ok(summary),
                Err(unmade) => unmade,
            };
            self.end_summary(None, CountInput::IfAnswered);
            let (error, is_unusable) = (unmade.error(), matches!(unmade, Unmade::Unusable(_)));
            self.is_summariser_silent |= error.kind == ModelErrorKind::Timeout;
            let is_too_long = match error.kind {
                ModelErrorKind::ContextOverflow => true,
                ModelErrorKind::Unavailable | ModelErrorKind::Timeout => span.may_overflow && !is_unusable,
                ModelErrorKind::Rejected => span.may_overflow && error.says_nothing,
                _ => false,
            };
            if is_too_long && ask.input > SHORTEST {
                ask = ask.of_less();
                continue;
            }
            let settings = &self.shared.settings;
            let wait = error.retry_after.unwrap_or_else(|| backoff(settings.retry_base, attempt));
            // One that asks to wait is not waited for.
            let retries = if error.kind == ModelErrorKind::RateLimited { 1 } else { RETRIES };
            let may_retry =
                error.is_retryable() && attempt < settings.retries.min(retries) && self.silences.allow_retry();
            if may_retry && !is_unusable && wait <= settings.retry_max.min(LONGEST_WAIT) {
                attempt += 1;
                if error.kind == ModelErrorKind::Timeout {
                    ask = ask.shorter();
                }
                tokio::time::sleep(wait).await;
                continue;
            }
            if (error.is_retryable() && !is_unusable) || shorter == SHORTER_ATTEMPTS {
                return Err(unmade);
            }
            (ask, shorter) = (ask.shorter(), shorter + 1);
        }
    }

    async fn attempt_summary(&mut self, span: Span, ask: Ask) -> Result<String, Unmade> {
        let messages = vec![Message::user(self.summary_request(span, ask))];
        self.begin_summary(context::estimate(&messages));
        let options = ModelOptions {
            // Twice what the request asks for: some models think whatever they are asked, and count it as a part of the
            // answer. Within what the model and the agent allow, as the room for summaries is.
            max_output_tokens: Some(ask.tokens),
            effort: Some(Effort::Low),
            ..ModelOptions::default()
        };
        let context_window = self.agent.asked_window(&**self.current_model());
        let request = ModelRequest { messages: messages.into(), options, context_window, ..ModelRequest::default() };
        let (settings, model) = (&self.shared.settings, self.current_model());
        let silence = if self.is_summariser_silent { NEXT_SILENCE } else { LONGEST_SILENCE };
        let call = Watchdog::call_within(silence, settings, model, request, &self.silences).await;
        let (mut watchdog, mut stream) = call.map_err(Unmade::Failed)?;
        loop {
            match watchdog.next(&mut stream).await.map_err(Unmade::Failed)? {
                ModelEvent::Text(text) => self.hear_summary(&text),
                ModelEvent::Used(usage) => self.hear_of_summary(usage),
                ModelEvent::Finished { finish, usage } => {
                    let summary = self.end_summary(usage, CountInput::Always);
                    let earlier = self.compaction().map_or(0, |earlier| earlier.summary.len());
                    return usable(summary, finish, span.room.summary, earlier).map_err(Unmade::Unusable);
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

    /// The messages that a summary is made of.
    fn summarised(history: &[Message], span: Span) -> impl Iterator<Item = &Message> {
        let places = span.from.min(history.len())..span.to.min(history.len());
        places
            .filter(move |at| span.verbatim != Some(*at) && !(span.untold.0..span.untold.1).contains(at))
            .map(|at| &history[at])
    }

    /// Whether there is anything to summarise.
    pub(crate) fn has_transcript(&self, span: Span) -> bool {
        let history = self.full_history();
        Self::summarised(&history, span).any(|message| !matches!(message, Message::System { .. }))
    }

    /// A line for each message of a span, in at most so many tokens, for where no summary can be made.
    pub(crate) fn excerpt(&self, span: Span, most: u64) -> String {
        let history = self.full_history();
        excerpt(Self::summarised(&history, span), most)
    }

    fn summary_request(&self, span: Span, ask: Ask) -> String {
        let history = self.full_history();
        // The earlier summary is never cut: what was summarised before must not be lost by what is left out now.
        let earlier = self.compaction().map(|earlier| earlier.summary.as_str()).filter(|summary| !summary.is_empty());
        let earlier = earlier.map(|summary| format!("Earlier summary: {summary}\n")).unwrap_or_default();
        let room = ask.input.saturating_sub(context::estimate_text(&earlier) + INSTRUCTION);
        let mut transcript = String::new();
        // Long messages become shorter first, so that something is left of every message.
        let half = usize::try_from(room.saturating_mul(2)).unwrap_or(usize::MAX);
        for most in std::iter::successors(Some(half), |most| Some(most / 2)).take_while(|most| *most > SHORTEST_PART) {
            transcript.clear();
            Self::summarised(&history, span).for_each(|message| transcribe(&mut transcript, message, most));
            if context::estimate_text(&transcript) <= room {
                break;
            }
        }
        let transcript = shorten_beginning(transcript, room);
        format!("{SUMMARISE}, in at most {} words.\n\n{earlier}{transcript}", (ask.tokens / 4).max(1))
    }
}

/// The summary, if it can stand for what it summarises: all older context would be lost with a bad one.
/// `earlier` is how many bytes the summary has that it takes the place of.
fn usable(summary: String, finish: ModelFinish, room: u64, earlier: usize) -> Result<String, ModelError> {
    let bad = match finish {
        ModelFinish::Refusal => {
            return Err(ModelError::new(ModelErrorKind::Rejected, "the model declined to summarise the conversation"));
        }
        ModelFinish::MaxTokens => "was cut off",
        ModelFinish::Stop if summary.trim().is_empty() => "is empty",
        ModelFinish::Stop if summary.chars().filter(|c| c.is_alphanumeric()).count() < LEAST_LETTERS => "says nothing",
        ModelFinish::Stop if context::estimate_text(&summary) > room => "is too long",
        ModelFinish::Stop if sounds_declined(&summary) => "is a refusal",
        ModelFinish::Stop if earlier > LONG && summary.len() < earlier / MOST_SHRUNK => "has lost the earlier one",
        ModelFinish::Stop => return Ok(summary),
    };
    Err(ModelError::new(ModelErrorKind::Unavailable, format!("the model's summary {bad}")))
}

/// With fewer letters a summary says nothing.
const LEAST_LETTERS: usize = 3;

/// A summary of more bytes than this says so much that a later one cannot be a few words.
const LONG: usize = 800;
/// A summary takes the place of one that is so many times as long, at most.
const MOST_SHRUNK: usize = 5;

/// Whether a short text says that nothing was summarised. A summary speaks of the user and the assistant, not for itself.
fn sounds_declined(text: &str) -> bool {
    const OPENINGS: [&str; 8] = [
        "i'm sorry",
        "i\u{2019}m sorry",
        "i am sorry",
        "sorry,",
        "i can't",
        "i can\u{2019}t",
        "i cannot",
        "i'm unable",
    ];
    const SHORT: usize = 240;
    let text = text.trim();
    let lower: String = text.chars().take(16).flat_map(char::to_lowercase).collect();
    text.len() < SHORT && OPENINGS.iter().any(|opening| lower.starts_with(opening))
}

/// The end of a transcript, in about so many tokens at most.
fn shorten_beginning(mut transcript: String, most: u64) -> String {
    let all = context::estimate_text(&transcript);
    if all > most {
        let kept = transcript.len() as u128 * u128::from(most) / u128::from(all);
        let kept = usize::try_from(kept).unwrap_or(usize::MAX).min(transcript.len());
        let from = transcript.ceil_char_boundary(transcript.len() - kept);
        transcript.replace_range(..from, "[the beginning is left out]\n");
    }
    transcript
}

/// Writes a message with at most so many bytes of each of its parts.
fn transcribe(out: &mut String, message: &Message, most: usize) {
    let (who, content, cap): (&str, &Content, usize) = match message {
        // System messages outlive compaction.
        Message::System { .. } => return,
        Message::User { content } => ("User", content, most),
        Message::Assistant { content } => ("Assistant", content, most),
        Message::Tool { content, .. } => ("Tool result", content, MOST_OF_RESULT.min(most)),
    };
    // Writing to a string does not fail.
    let _ = writeln!(out, "{who}: {}", shorten_text(&content.text_and_media(), cap));
    for call in message.tool_uses() {
        let input = shorten_text(call.input.as_str(), MOST_OF_INPUT.min(most));
        let _ = writeln!(out, "Assistant calls {} with {input}", call.name);
    }
}
