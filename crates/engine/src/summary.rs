//! Summaries: what stands for older history once it does not fit the context window any more.
//!
//! What is longer than a request may be is summarised in several, one after the other: each is given the summary of the one
//! before it.

use std::time::Duration;

use everturn_core::{Effort, Message, ModelOptions, compaction::Room, context};
use everturn_models::{ModelError, ModelErrorKind, ModelEvent, ModelFinish, ModelRequest};

use crate::{
    excerpt::excerpt,
    step::backoff,
    summary_check::Judge,
    told::CountInput,
    transcript::first_part,
    turn::Turn,
    watchdog::{Silences, Watchdog},
};

/// What the model is asked for. The demo model knows the first words.
const SUMMARISE: &str = "Summarise the conversation so far for the assistant who will go on with it. Keep names, \
    numbers, decisions, open questions and the results of tools; leave out pleasantries. Answer with the summary alone";

/// The most requests that one summary is made with. What does not fit into them is shortened.
const MOST_REQUESTS: usize = 16;
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
/// The longest that a model may write at one summary. One that writes a word a second is never silent.
const LONGEST_WRITING: Duration = Duration::from_secs(5 * 60);
/// About how many tokens a request has beside the transcript and the earlier summary.
const INSTRUCTION: u64 = 80;
/// The most tokens of output that a model is given which spends them on its thoughts.
const MOST_THOUGHTS: u64 = 32_768;

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
    /// The most tokens that the model may write: some think whatever they are asked, and count it as a part of the answer.
    output: u64,
    /// Whether the model wrote too much when it was asked before.
    is_overlong: bool,
}

impl Ask {
    /// Fewer words of the same, with the same room to write them: a lower cap would only cut them off earlier.
    fn in_fewer_words(self) -> Self {
        Self { tokens: (self.tokens / 2).max(1), is_overlong: true, ..self }
    }

    fn shorter(self) -> Self {
        let tokens = (self.tokens / 2).max(1);
        Self { tokens, output: self.output.min(tokens.max(self.output / 2)), ..self.of_less() }
    }

    /// The same summary, of half as much.
    fn of_less(self) -> Self {
        Self { input: (self.input / 2).max(SHORTEST), ..self }
    }
}

/// A summary.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) summary: String,
    /// The first message that it does not stand for.
    pub(crate) to: usize,
}

/// Why there is no summary.
pub(crate) struct Unmade {
    pub(crate) error: ModelError,
    /// Whether the model gave one, which cannot stand for what it summarises.
    pub(crate) is_unusable: bool,
    /// A summary of the first of the messages, if there is one.
    pub(crate) part: Option<Made>,
}

/// What came of one request.
enum Attempt {
    Made(String),
    /// The call failed.
    Failed(ModelError),
    /// What the model said is no summary.
    Unusable {
        error: ModelError,
        /// What can be used of it where no better one comes.
        left: Option<String>,
        /// Whether the model spent its tokens on thoughts.
        is_thought: bool,
        /// Whether it was cut off, or is too long.
        is_overlong: bool,
    },
    /// The model wrote for too long.
    Endless {
        error: ModelError,
        left: Option<String>,
    },
}

impl Turn {
    /// Has the model summarise a part of history, with as many requests as it takes. What all attempts used is kept aside, see
    /// [`Turn::take_summary`].
    pub(crate) async fn summarise(&mut self, span: Span) -> Result<Made, Unmade> {
        let Room { budget, summary, .. } = span.room;
        // The summary itself needs room, too.
        let window = self.window();
        let input = budget.min(window.saturating_sub(summary + window / 64)).max(SHORTEST);
        // Twice what the request asks for, within what the model and the agent allow, as the room for summaries is.
        let mut ask = Ask { input, tokens: summary, output: summary, is_overlong: false };
        let earlier = self.compaction().map(|earlier| earlier.summary.clone()).unwrap_or_default();
        let mut made = Made { summary: earlier, to: span.from };
        self.silences = Silences::default();
        for request in 0..MOST_REQUESTS {
            let left = MOST_REQUESTS - request;
            match Box::pin(self.summarise_next(span, &made, &mut ask, left)).await {
                Ok(next) => made = next,
                Err(unmade) => return Err(Unmade { part: (request > 0).then_some(made), ..unmade }),
            }
            if !self.has_transcript(Span { from: made.to, ..span }) {
                break;
            }
        }
        Ok(Made { to: span.to, ..made })
    }

    /// Has the model add as many of the next messages to a summary as one request has room for: again while it fails for the
    /// moment, and with fewer while the request does not fit, is refused, or what comes cannot be used. `usual` is how much is
    /// asked for, of which later requests learn.
    async fn summarise_next(
        &mut self,
        span: Span,
        made: &Made,
        usual: &mut Ask,
        requests: usize,
    ) -> Result<Made, Unmade> {
        let (mut attempts, mut shorter) = (0, 0);
        let mut ask = *usual;
        let mut last_resort = None;
        let judge = Judge { room: span.room.summary, earlier: made.summary.len() };
        loop {
            let (request, to) = self.summary_request(span, made, ask, requests);
            let attempt = Box::pin(self.attempt_summary(request, ask, judge)).await;
            let (error, is_unusable) = match attempt {
                Attempt::Made(summary) => return Ok(Made { summary, to }),
                Attempt::Failed(error) => (error, false),
                Attempt::Unusable { error, left, is_thought, is_overlong } => {
                    last_resort = left.map(|summary| Made { summary, to }).or(last_resort);
                    // A model that writes too much does so again, whatever it is asked.
                    if let (true, false, Some(made)) = (is_overlong, is_thought, &last_resort) {
                        if usual.is_overlong || ask.is_overlong {
                            usual.is_overlong = true;
                            return Ok(made.clone());
                        }
                        ask = ask.in_fewer_words();
                        continue;
                    }
                    let more = (ask.output.saturating_mul(4)).min(self.most_thoughts(ask));
                    if is_thought && more > ask.output {
                        (ask.output, usual.output) = (more, more);
                        continue;
                    }
                    (error, true)
                }
                Attempt::Endless { error, left } => {
                    self.is_summariser_silent = true;
                    let left = left.map(|summary| Made { summary, to }).or(last_resort);
                    return left.ok_or(Unmade { error, is_unusable: false, part: None });
                }
            };
            self.end_summary(None, CountInput::IfAnswered);
            self.is_summariser_silent |= error.kind == ModelErrorKind::Timeout;
            let is_too_long = match error.kind {
                ModelErrorKind::ContextOverflow => true,
                ModelErrorKind::Unavailable | ModelErrorKind::Timeout => span.may_overflow && !is_unusable,
                ModelErrorKind::Rejected => span.may_overflow && error.says_nothing,
                _ => false,
            };
            if is_too_long && ask.input > SHORTEST {
                ask = ask.of_less();
                usual.input = ask.input;
                continue;
            }
            let settings = &self.shared.settings;
            let wait = error.retry_after.unwrap_or_else(|| backoff(settings.retry_base, attempts));
            // One that asks to wait is not waited for.
            let retries = if error.kind == ModelErrorKind::RateLimited { 1 } else { RETRIES };
            let may_retry =
                error.is_retryable() && attempts < settings.retries.min(retries) && self.silences.allow_retry();
            if may_retry && !is_unusable && wait <= settings.retry_max.min(LONGEST_WAIT) {
                attempts += 1;
                if error.kind == ModelErrorKind::Timeout {
                    ask = ask.shorter();
                }
                tokio::time::sleep(wait).await;
                continue;
            }
            if (error.is_retryable() && !is_unusable) || shorter == SHORTER_ATTEMPTS {
                return last_resort.ok_or(Unmade { error, is_unusable, part: None });
            }
            (ask, shorter) = (ask.shorter(), shorter + 1);
        }
    }

    /// The most tokens that a model may write which thinks, beside a request.
    fn most_thoughts(&self, ask: Ask) -> u64 {
        let caps = [self.agent.model_options.max_output_tokens, self.current_model().max_output()];
        let beside = self.window().saturating_sub(ask.input);
        caps.into_iter().flatten().fold(beside.min(MOST_THOUGHTS), u64::min)
    }

    async fn attempt_summary(&mut self, request: String, ask: Ask, judge: Judge) -> Attempt {
        match tokio::time::timeout(LONGEST_WRITING, self.write_summary(request, ask, judge)).await {
            Ok(attempt) => attempt,
            Err(_) => {
                let message = format!("the model took more than {LONGEST_WRITING:?} to write a summary");
                let written = self.end_summary(None, CountInput::Always);
                Attempt::Endless {
                    error: ModelError::new(ModelErrorKind::Timeout, message),
                    left: judge.salvage(&written),
                }
            }
        }
    }

    async fn write_summary(&mut self, request: String, ask: Ask, judge: Judge) -> Attempt {
        let messages = vec![Message::user(request)];
        self.begin_summary(context::estimate(&messages));
        let options =
            ModelOptions { max_output_tokens: Some(ask.output), effort: Some(Effort::Low), ..ModelOptions::default() };
        let context_window = self.agent.asked_window(&**self.current_model());
        let body = self.agent.side_body();
        let request =
            ModelRequest { messages: messages.into(), options, body, context_window, ..ModelRequest::default() };
        let _memory = match self.reserve_request(&request).await {
            Ok(memory) => memory,
            Err(exhausted) => {
                return Attempt::Failed(ModelError::new(ModelErrorKind::Unavailable, exhausted.to_string()));
            }
        };
        let (settings, model) = (&self.shared.settings, self.current_model());
        let silence = if self.is_summariser_silent { NEXT_SILENCE } else { LONGEST_SILENCE };
        let call = Watchdog::call_within(silence, settings, model, request, &self.silences).await;
        let (mut watchdog, mut stream) = match call {
            Ok(call) => call,
            Err(error) => return Attempt::Failed(error),
        };
        loop {
            let event = match watchdog.next(&mut stream).await {
                Ok(event) => event,
                Err(error) => return Attempt::Failed(error),
            };
            match event {
                ModelEvent::Text(text) => self.hear_summary(&text),
                ModelEvent::Used(usage) => self.hear_of_summary(usage),
                ModelEvent::Finished { finish, usage } => {
                    let summary = self.end_summary(usage, CountInput::Always);
                    let Err(error) = judge.judge(&summary, finish) else { return Attempt::Made(summary) };
                    let is_cut = finish == ModelFinish::MaxTokens;
                    let is_thought = is_cut && context::estimate_text(&summary) < ask.output / 2;
                    let left = judge.salvage(&summary).filter(|_| finish != ModelFinish::Refusal);
                    let is_overlong = is_cut || context::estimate_text(&summary) > judge.room;
                    return Attempt::Unusable { error, left, is_thought, is_overlong };
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

    /// The messages that a summary is made of, with their places.
    fn summarised(history: &[Message], span: Span) -> impl Iterator<Item = (usize, &Message)> {
        let places = span.from.min(history.len())..span.to.min(history.len());
        places
            .filter(move |at| span.verbatim != Some(*at) && !(span.untold.0..span.untold.1).contains(at))
            .map(|at| (at, &history[at]))
    }

    /// Whether there is anything to summarise.
    pub(crate) fn has_transcript(&self, span: Span) -> bool {
        let history = self.full_history();
        Self::summarised(&history, span).any(|(_, message)| !matches!(message, Message::System { .. }))
    }

    /// A line for each message of a span, in at most so many tokens, for where no summary can be made.
    pub(crate) fn excerpt(&self, span: Span, most: u64) -> String {
        let history = self.full_history();
        excerpt(Self::summarised(&history, span).map(|(_, message)| message), most)
    }

    /// A request for a summary of the next messages after those that one is made of, as many as it has room for, and the place
    /// of the first one that it has none for.
    fn summary_request(&self, span: Span, made: &Made, ask: Ask, requests: usize) -> (String, usize) {
        let history = self.full_history();
        // The earlier summary is never cut: what was summarised before must not be lost by what is left out now.
        let earlier = match made.summary.as_str() {
            "" => String::new(),
            summary => format!("Earlier summary: {summary}\n"),
        };
        let room = ask.input.saturating_sub(context::estimate_text(&earlier) + INSTRUCTION);
        // Where the earlier summary takes nearly all of the room, more requests would not help.
        let requests = if room < ask.input / 4 { 1 } else { requests };
        let next: Vec<_> = Self::summarised(&history, Span { from: made.to, ..span }).collect();
        let messages: Vec<_> = next.iter().map(|(_, message)| *message).collect();
        let (transcript, count) = first_part(&messages, room, requests);
        let to = next.get(count).map_or(span.to, |(at, _)| *at);
        let words = (ask.tokens / 4).max(1);
        (format!("{SUMMARISE}, in at most {words} words.\n\n{earlier}{transcript}"), to)
    }
}
