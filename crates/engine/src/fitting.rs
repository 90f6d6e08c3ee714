//! Keeps what the model is given within its context window: by compaction, which every change of it is recorded as.

use std::ops::Range;

use everturn_core::{
    Compaction, Content, Event, Message, Outcome, ToolChoice, ToolSpec, Usage,
    compaction::{Change, Plan, Room, plan, shorten_text_to},
    context,
};
use everturn_models::{ModelError, ModelErrorKind};

use crate::{
    step::failure_code,
    summary::{Made, Span, Unmade},
    turn::{Stopped, Turn},
};

/// The window of a model of which nobody knows it, in tokens. An overflow corrects it.
const GUESSED_WINDOW: u64 = 128_000;
/// The longest summary that is accepted, in tokens.
const LONGEST_SUMMARY: u64 = 16_384;
/// What a summary may have in any case, in tokens, as long as there is room for it: in fewer words nothing is remembered.
const SHORT_SUMMARY: u64 = 512;

/// The tokens that are kept free for an answer in any case.
const LEAST_ANSWER: u64 = 256;

/// What came of a plan.
pub(crate) enum Carried {
    Out,
    /// No summary could be made; another model is to be tried, which has another window.
    ToAnotherModel,
    /// No summary could be made.
    Failed(ModelError),
}

/// What happens if no model makes a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WithoutSummary {
    /// The oldest messages are left out, with a note that says so.
    LeaveOut,
    /// The same, unless the model can be asked later.
    Wait,
    /// The same, if the model answers at all. It may have failed at the length of the conversation, without saying so.
    IfAnswered,
    /// Nothing changes.
    GiveUp,
}

impl Turn {
    /// Makes the context fit the model's window, by compaction if need be. `overflowed` is our estimate of a context
    /// that the provider found too long: it must become clearly shorter. `false` if it cannot be made to fit; the turn
    /// has ended then.
    pub(crate) async fn fit_context(&mut self, overflowed: Option<u64>) -> Result<bool, Stopped> {
        loop {
            let size = self.estimated_context();
            self.current_model().prepare(size).await;
            let room = self.room(overflowed);
            if size <= room.budget || (overflowed.is_none() && self.waits_for_summary(size)) {
                return Ok(true);
            }
            if self.use_known_summary(size, room.fixed)? {
                continue;
            }
            let Some(plan) = self.planned(&room, false) else { break };
            // A provider that lets nobody in, or asks to wait, will say the same of the turn's own call: nothing is lost by
            // asking. One that has said that the conversation is too long must be given less, and so must one whose window
            // is known to be too small.
            let may_wait = overflowed.is_none() && self.may_fit(size);
            let without = if may_wait { WithoutSummary::Wait } else { WithoutSummary::LeaveOut };
            match Box::pin(self.carry_out(plan, &room, size, without, None)).await? {
                Carried::Out => return Ok(true),
                Carried::Failed(error) => {
                    self.unsummarised = Some(size);
                    self.notice(format!(
                        "the conversation goes on without a summary, which could not be made yet: {error}"
                    ))?;
                    return Ok(true);
                }
                Carried::ToAnotherModel => {}
            }
        }
        // A guess must not end a turn: the provider knows better.
        if self.context_window().is_none() && overflowed.is_none() {
            return Ok(true);
        }
        self.close(Outcome::MaxTokens, Usage::default(), "Tool call not run: the context window is full").await?;
        Ok(false)
    }

    /// Cuts the list of tools to what there is room for. A tool whose call is asked for is kept first, then the application's
    /// own, then the server's in their order. Returns how many tools were left out.
    pub(crate) fn fit_tools(&self, specs: &mut Vec<ToolSpec>) -> usize {
        if specs.is_empty() {
            return 0;
        }
        let Some(most) = self.most_tools().filter(|most| context::estimate_tools(specs) > *most) else { return 0 };
        let rank = |spec: &ToolSpec| match &self.state.options.tool_choice {
            Some(ToolChoice::Named(name)) if *name == spec.name => 0,
            _ if self.config.client_tools.iter().any(|own| own.name == spec.name) => 1,
            _ => 2,
        };
        let before = specs.len();
        let mut left = most;
        let mut kept = vec![false; before];
        for place in 0..=2 {
            for (at, spec) in specs.iter().enumerate().filter(|(_, spec)| rank(spec) == place) {
                let tokens = context::estimate_tools(std::slice::from_ref(spec));
                kept[at] = tokens <= left;
                left = left.saturating_sub(tokens);
            }
        }
        let mut kept = kept.into_iter();
        specs.retain(|_| kept.next().unwrap_or(false));
        before - specs.len()
    }

    /// Tells readers that tools are left out because they do not fit.
    pub(crate) fn tell_left_out_tools(&mut self) -> Result<(), Stopped> {
        let mut specs = self.agent.tool_specs(&self.config, &self.shared.tools);
        let (all, tokens) = (specs.len(), context::estimate_tools(&specs));
        let left_out = self.fit_tools(&mut specs);
        if left_out == 0 {
            return Ok(());
        }
        let window = match self.told_window() {
            Some(window) => format!("has {window}"),
            None => "has not enough".to_owned(),
        };
        let notice = format!(
            "{left_out} of {all} tools are left out: their descriptions have about {tokens} tokens, and the model's context \
             window {window}; give the agent fewer tools, or a model with a larger window"
        );
        self.notice(notice)
    }

    /// Whether a summary could not be made a moment ago, and the conversation has grown little since.
    fn waits_for_summary(&self, size: u64) -> bool {
        let window = self.window();
        self.may_fit(size) && self.unsummarised.is_some_and(|before| size < before + window / 8)
    }

    /// The model's window, or a guess at it.
    pub(crate) fn window(&self) -> u64 {
        self.context_window().unwrap_or(GUESSED_WINDOW)
    }

    /// Whether a request of so many tokens may fit the window, as far as anybody knows.
    fn may_fit(&self, size: u64) -> bool {
        self.context_window().is_none() || size <= self.most()
    }

    /// The most that a request may have so that an answer, if a short one, still fits the window.
    fn most(&self) -> u64 {
        let window = self.window();
        window - (window / 16).max(LEAST_ANSWER).min(window / 4)
    }

    /// The tokens of the first user message and of the current one, which stay as long as they fit at all.
    fn task(&self) -> u64 {
        let is_user = |message: &&Message| matches!(message, Message::User { .. });
        let history = self.earlier_given();
        let first = match self.compaction() {
            Some(Compaction { covers: 1.., system: Some(_), first, shortened, .. }) => {
                let is_whole = |at: &usize| !shortened.iter().any(|shortened| shortened.at == *at);
                first.filter(is_whole).and_then(|at| history.full().nth(at))
            }
            Some(_) | None => history.full().find(is_user),
        };
        let current = self.state.settled().iter().rev().find(is_user);
        [first, current].into_iter().flatten().map(|message| self.size_of(message)).sum()
    }

    /// Compacts history because somebody asked for it, to a third of what it is, and ends the turn. Nothing changes where
    /// that would gain little, or no summary can be made.
    pub(crate) async fn compact_on_demand(&mut self) -> Result<(), Stopped> {
        self.load_documents().await;
        self.settle_context();
        loop {
            let size = self.estimated_context();
            self.current_model().prepare(size).await;
            let room = self.room(None);
            let room = Room { target: room.target.min(size / 3), summary: room.summary.min(size / 8).max(1), ..room };
            let is_worth_it = |plan: &Plan| plan.tokens.saturating_add(room.summary) <= size - size / 4;
            let Some(plan) = self.planned(&room, true).filter(is_worth_it) else {
                return self.end(Outcome::Completed).await;
            };
            match Box::pin(self.carry_out(plan, &room, size, WithoutSummary::GiveUp, None)).await? {
                Carried::Out => return self.end(Outcome::Completed).await,
                Carried::ToAnotherModel => {}
                Carried::Failed(error) => {
                    let (code, retryable) = (failure_code(error.kind), error.is_retryable());
                    let message = format!("no summary could be made, and nothing was changed: {error}");
                    return self.fail(code, message, retryable, Usage::default()).await;
                }
            }
        }
    }

    /// What the current model's window has room for.
    pub(crate) fn room(&self, overflowed: Option<u64>) -> Room {
        let caps = [self.agent.model_options.max_output_tokens, self.current_model().max_output()];
        let answer = caps.into_iter().flatten().min();
        let window = self.window();
        // Models that could fill their whole window do not: only a quarter is kept free for them.
        let reserve = answer.filter(|answer| *answer <= window / 2).unwrap_or(window / 4);
        let instructions = context::estimate_text(&self.agent.instructions(&self.config));
        let fixed = instructions + context::estimate_tools(&self.tool_specs());
        // Long instructions leave less for the answer, too.
        let reserve = reserve.min(window.saturating_sub(fixed) / 2);
        // The user's words stay, also where less is left for the answer then.
        let is_tight = fixed + self.task() > (window - reserve) * 3 / 4;
        let fitting = if is_tight { self.most().max(window - reserve) } else { window - reserve };
        let shorter = |used: u64| {
            let shorter = if is_tight { used * 7 / 8 } else { used * 3 / 4 };
            // Instructions and tools do not become shorter: only the conversation beside them does.
            shorter.max(fixed + used.saturating_sub(fixed) / 4)
        };
        let budget = overflowed.map_or(fitting, |used| shorter(used).min(fitting));
        // Far below the budget: each compaction costs a call, and what the provider has in its cache.
        let target = (overflowed.map_or(window, |used| used.min(window)) / 3).min(budget * 2 / 3);
        let beside = budget.saturating_sub(fixed);
        let target = if fixed > target / 2 { fixed + beside / 3 } else { target };
        let usual = (target.saturating_sub(fixed) / 2).min(target / 4);
        let summary = usual.max(SHORT_SUMMARY.min(budget / 16).min(beside / 2));
        let caps = [Some(summary), answer, Some(LONGEST_SUMMARY)];
        let summary = caps.into_iter().flatten().min().unwrap_or(1).max(1);
        Room { fixed, budget, target, summary }
    }

    pub(crate) fn planned(&self, room: &Room, force: bool) -> Option<Plan> {
        let (history, before) = (self.full_history(), self.compaction());
        let size = |message: &Message| self.size_of(message);
        let mut made = plan(&history, before, room, force, &size)?;
        if made.compaction.reads_results && !before.is_some_and(|before| before.reads_results) {
            // The tool that reads what was shortened needs room, too. Where there is none, there is no tool.
            let mut specs = self.tool_specs();
            self.add_read_result(&mut specs);
            let fixed = room.fixed - context::estimate_tools(&self.tool_specs()) + context::estimate_tools(&specs);
            match plan(&history, before, &Room { fixed, ..*room }, force, &size) {
                Some(roomier) => made = roomier,
                None => made.compaction.reads_results = false,
            }
        }
        Some(made)
    }

    /// The tokens of one message, with the documents that it names.
    pub(crate) fn size_of(&self, message: &Message) -> u64 {
        match message {
            Message::User { content: Content::Blocks(_) } => {
                let messages = self.with_documents([message.clone()].into());
                messages.size().tokens + self.documents.estimate(messages.iter())
            }
            _ => context::estimate(std::slice::from_ref(message)) + self.documents.estimate([message]),
        }
    }

    /// Makes the summary of a plan, without the messages that must not be told, and records the compaction.
    pub(crate) async fn carry_out(
        &mut self,
        plan: Plan,
        room: &Room,
        size: u64,
        without_summary: WithoutSummary,
        untold: Option<Range<usize>>,
    ) -> Result<Carried, Stopped> {
        let earlier = self.compaction().cloned().unwrap_or_default();
        let Plan { mut compaction, tokens, summary } = plan;
        let room = Room { summary, ..*room };
        compaction.usage = Usage::default();
        let span = Span {
            from: earlier.covers.saturating_sub(earlier.left_out),
            to: compaction.covers,
            verbatim: compaction.first,
            untold: untold.map_or((0, 0), |places| (places.start, places.end)),
            may_overflow: without_summary == WithoutSummary::IfAnswered,
            room,
        };
        if compaction.covers <= earlier.covers || !self.has_transcript(span) {
            compaction.left_out = earlier.left_out;
        } else {
            match Box::pin(self.summarise(span)).await {
                Ok(Made { summary, .. }) => {
                    (compaction.summary, compaction.left_out, compaction.excerpt) = (summary, 0, String::new());
                    compaction.usage = self.take_summary();
                }
                Err(Unmade { error, is_unusable, part }) => {
                    let may_be_made_later = matches!(error.kind, ModelErrorKind::RateLimited | ModelErrorKind::Denied);
                    let is_answered = is_unusable || !error.is_retryable();
                    let is_left_out = match without_summary {
                        WithoutSummary::GiveUp => false,
                        WithoutSummary::Wait => !may_be_made_later,
                        WithoutSummary::IfAnswered => is_answered && !may_be_made_later,
                        WithoutSummary::LeaveOut => true,
                    };
                    let has_another = self.model + 1 < self.agent.models.len();
                    if has_another || !is_left_out {
                        self.record_spent_summary()?;
                    }
                    if has_another {
                        let model = self.agent.models[self.model + 1].name().to_owned();
                        self.record(Event::ModelChanged { model, reason: error.message })?;
                        self.model += 1;
                        return Ok(Carried::ToAnotherModel);
                    }
                    if !is_left_out {
                        return Ok(Carried::Failed(error));
                    }
                    tracing::warn!(turn = %self.log.turn(), %error, "history was not summarised; its oldest part is left out");
                    compaction.usage = self.take_summary();
                    let mut span = span;
                    if let Some(Made { summary, to }) = part {
                        (compaction.summary, compaction.left_out) = (summary, compaction.covers - to);
                        span.from = to;
                    }
                    let beside = tokens.saturating_add(context::estimate_text(&compaction.summary));
                    let left = (room.budget.saturating_sub(beside) / 2).min(room.summary.max(room.budget / 8));
                    compaction.excerpt = self.excerpt(span, left);
                }
            }
        }
        // Only where a window is much smaller than the one that the summary was made for.
        compaction.summary = shorten_text_to(&compaction.summary, room.summary);
        let covered = self.full_history().into_iter().take(compaction.covers).enumerate();
        let is_system = |(at, message)| matches!(message, Message::System { .. }).then_some(at);
        compaction.system = Some(covered.filter_map(is_system).collect());
        compaction.change = Some(change(&earlier, &compaction, size, tokens));
        self.keep_summary(&compaction);
        self.record(Event::HistoryCompacted(compaction))?;
        // The model is given another beginning from now on.
        self.spoken = None;
        self.settle_context();
        Ok(Carried::Out)
    }
}

/// How a compaction differs from the one before it.
fn change(earlier: &Compaction, made: &Compaction, size: u64, tokens: u64) -> Change {
    let stand_in = made.stand_in().map_or(0, |message| context::estimate(&[message]));
    Change {
        messages: made.covers.saturating_sub(earlier.covers),
        shortened: made.shortened.iter().filter(|shortened| !earlier.shortened.contains(shortened)).count(),
        tokens_before: size,
        tokens_after: tokens + stand_in,
    }
}
