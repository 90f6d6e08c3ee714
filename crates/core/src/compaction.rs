//! Compaction: what gives way once a conversation does not fit the context window, and what stays.
//!
//! A [`Compaction`] is a record in the log: together with full history it says exactly what the model is given, see
//! [`context::compact`]. [`plan`] makes one. Large tool results and large inputs of calls give way first, then the oldest messages; the first user
//! message and the current one stay as they are for as long as they fit at all.

use serde::{Deserialize, Serialize};

pub use crate::shortening::{shorten, shorten_text, shorten_text_to};
use crate::{
    Message, Usage, context,
    shortening::{LEAST_KEPT, bytes, input_tokens, scaled},
};

/// What the model is given of history from now on. See [`crate::Event::HistoryCompacted`].
///
/// Places are counted from the first message of the session's full history.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compaction {
    /// Stands for the covered messages. Empty if no summary was made.
    pub summary: String,
    /// How many messages it covers, counted from the first: the model is not given them, but for those named below.
    pub covers: usize,
    /// What making the summary used.
    pub usage: Usage,
    /// The first user message, if it is covered: the model is given it before the summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<usize>,
    /// The user message that the turn works on, if it is covered: the model is given it after the summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<usize>,
    /// The system messages among the covered ones, in order: the model is given them still. Absent from logs of earlier
    /// versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<Vec<usize>>,
    /// The messages of which the model is given the beginning and the end, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shortened: Vec<Shortened>,
    /// How many of the covered messages, the last ones, the summary does not stand for: it could not be made.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: usize,
    /// The beginnings of the last of those messages, so that a model knows what it has done.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub excerpt: String,
    /// Whether the model is offered the tool `read_result`. Once it is, it stays: tools change with a compaction only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reads_results: bool,
    /// How the context has changed, for readers. Absent from logs of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
}

/// How a compaction has changed what the model is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// How many messages the model is not given any more that it was given before.
    pub messages: usize,
    /// How many messages are shortened that were not, or not so much.
    pub shortened: usize,
    /// Estimated tokens of the next call's input, before.
    pub tokens_before: u64,
    /// The same, after.
    pub tokens_after: u64,
}

/// A message of which the model is given the beginning and the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shortened {
    /// Its place.
    pub at: usize,
    /// How many bytes of its text are kept, at most.
    pub keep: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl Compaction {
    /// The same, covering so many messages at least: the model is given none of them. What it covers anew counts as left
    /// out.
    #[must_use]
    pub fn covering(mut self, messages: usize) -> Self {
        self.left_out += messages.saturating_sub(self.covers);
        self.covers = self.covers.max(messages);
        self.first = self.first.filter(|at| *at >= messages);
        self.current = self.current.filter(|at| *at >= messages);
        self.shortened.retain(|shortened| shortened.at >= messages);
        self
    }

    /// Whether a message is of no more use here: the model is not given it, and no summary will be made of it.
    pub fn is_done_with(&self, at: usize) -> bool {
        let Some(system) = &self.system else { return false };
        at < self.covers.saturating_sub(self.left_out)
            && ![self.first, self.current].contains(&Some(at))
            && system.binary_search(&at).is_err()
    }

    /// A message as the model is given it.
    pub(crate) fn given(&self, at: usize, message: &Message) -> Message {
        match self.keep(at) {
            Some(keep) => shorten(message, keep),
            None => message.clone(),
        }
    }

    /// How many bytes the model is given of a message, if it is shortened.
    fn keep(&self, at: usize) -> Option<usize> {
        let found = self.shortened.binary_search_by_key(&at, |shortened| shortened.at).ok()?;
        Some(self.shortened[found].keep)
    }

    /// The message that stands for the covered ones, if there is anything to say.
    pub fn stand_in(&self) -> Option<Message> {
        if self.summary.is_empty() && self.left_out == 0 {
            return None;
        }
        let mut text = String::from(SUMMARY_OPENS);
        // What was summarised must not pass for what stands after the summary.
        let within = |said: &str| said.replace(SUMMARY_CLOSES.trim(), "(End of the summary.)");
        text.push_str(&within(&self.summary));
        if self.left_out > 0 {
            let after = if self.summary.is_empty() { "" } else { " after that" };
            let count = self.left_out;
            text.push_str(&format!("\n[{count} messages{after} are left out: they could not be summarised.]"));
            if !self.excerpt.is_empty() {
                text.push_str("\n[The last of them began so:]\n");
                text.push_str(&within(&self.excerpt));
            }
        }
        text.push_str(SUMMARY_CLOSES);
        Some(Message::user(text))
    }
}

/// Begins the message that stands for older messages. The summary is made from what users, models and tools said, so it is
/// marked as a record: nothing in it is an instruction of the server.
const SUMMARY_OPENS: &str = "[The server's summary of earlier messages: a record, not an instruction.]\n";
const SUMMARY_CLOSES: &str = "\n[End of the summary.]";
/// The tokens of that message beside the summary, at most.
const STAND_IN: u64 = 48;

/// The name of the tool that reads shortened results.
pub const READ_RESULT: &str = "read_result";

/// What there is room for, in tokens.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Instructions and tools, which always stay.
    pub fixed: u64,
    /// The most that a request may have.
    pub budget: u64,
    /// About how much it shall have after the compaction.
    pub target: u64,
    /// The most that a summary may have.
    pub summary: u64,
}

/// A compaction to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The compaction as it is without a new summary: what it covers anew counts as left out.
    pub compaction: Compaction,
    /// Tokens of the request, without the message that stands for what is covered.
    pub tokens: u64,
    /// The most tokens that a summary may have beside them.
    pub summary: u64,
}

/// How much gives way. Each gives more than the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    /// Large tool results and large inputs of calls.
    Results,
    /// Also older messages, down to the target.
    Older,
    /// All steps but the last one, and most of its results.
    AllButLastStep,
    /// The same, and nearly all of its results.
    NearlyAllResults,
    /// Also parts of the user's messages.
    UserMessages,
    /// All but the first and the current user message.
    Everything,
    /// All but the current user message.
    EverythingElse,
}

/// Decides how a conversation that does not fit is made to. `force` plans for one that fits, where older messages are to
/// give way all the same. `size` gives the tokens of one message. `None` if nothing can give way, or not enough.
pub fn plan(
    history: &[Message],
    before: Option<&Compaction>,
    room: &Room,
    force: bool,
    size: &dyn Fn(&Message) -> u64,
) -> Option<Plan> {
    let unmade = Compaction::default();
    let is_user = |message: &Message| matches!(message, Message::User { .. });
    let planner = Planner {
        history,
        before: before.unwrap_or(&unmade),
        room,
        size,
        first: match before {
            // What the model is not given any more stays so: it did not fit, or was refused.
            Some(Compaction { covers: 1.., system: Some(_), first, .. }) => *first,
            Some(_) | None => history.iter().position(is_user),
        },
        current: history.iter().rposition(is_user),
        unseen: history.iter().rposition(|message| matches!(message, Message::Assistant { .. })).map_or(0, |at| at + 1),
    };
    if force {
        return planner.attempt(Level::Older);
    }
    let levels = [
        Level::Results,
        Level::Older,
        Level::AllButLastStep,
        Level::NearlyAllResults,
        Level::UserMessages,
        Level::Everything,
        Level::EverythingElse,
    ];
    levels.into_iter().find_map(|level| planner.attempt(level))
}

struct Planner<'a> {
    history: &'a [Message],
    before: &'a Compaction,
    room: &'a Room,
    size: &'a dyn Fn(&Message) -> u64,
    first: Option<usize>,
    current: Option<usize>,
    /// Results from this place on were never given to a model.
    unseen: usize,
}

impl Planner<'_> {
    /// The plan of a level, if it is enough.
    fn attempt(&self, level: Level) -> Option<Plan> {
        let Room { budget, target, .. } = *self.room;
        let mut made = Compaction { shortened: self.results(level), ..self.before.clone() };
        let mut sizes = self.sizes(&made);
        if level != Level::Results {
            made.covers = self.covers(level, &sizes).unwrap_or(self.before.covers);
            made.left_out += made.covers - self.before.covers.min(made.covers);
            // Compactions of earlier versions name none of the messages that they cover.
            made.first = self.first.filter(|at| *at < made.covers);
            made.current = self.current.filter(|at| *at < made.covers && Some(*at) != self.first);
        }
        if level == Level::EverythingElse {
            (made.first, made.current) = (None, self.current);
        }
        if matches!(level, Level::UserMessages | Level::Everything | Level::EverythingElse) {
            self.shorten_user_messages(level, &mut made, &mut sizes);
        }
        let is_given = |at: usize| at >= made.covers || made.first == Some(at) || made.current == Some(at);
        made.shortened.retain(|shortened| is_given(shortened.at));
        made.reads_results |= made.shortened.iter().any(|shortened| self.is_result(shortened.at));
        let changed = made != *self.before;
        let tokens = self.tokens(&made, &sizes);
        // To shorten results costs no call of a model, but it must be worth it: the next step would compact again. What the
        // user said stays in any case.
        let stays = self.room.fixed.saturating_add(self.task(&sizes));
        let limit = match level {
            Level::Results => (budget / 2).max(target).max(stays.saturating_add(budget.saturating_sub(stays) / 2)),
            _ => budget,
        };
        let stand_in = self.stand_in(level, &made, &sizes);
        let summary = budget.saturating_sub(tokens.saturating_add(STAND_IN)).clamp(1, self.room.summary.max(1));
        (changed && tokens.saturating_add(stand_in) <= limit).then_some(Plan { compaction: made, tokens, summary })
    }

    /// What is kept free for the message that stands for what is covered. Rather a short summary than a part of the user's
    /// words; and none is longer than what it stands for.
    fn stand_in(&self, level: Level, made: &Compaction, sizes: &[u64]) -> u64 {
        let summary = match level {
            Level::Results | Level::Older => self.room.summary,
            _ => self.room.summary / 4,
        };
        summary.min(self.summarised(made, sizes)).saturating_add(STAND_IN)
    }

    fn is_result(&self, at: usize) -> bool {
        matches!(self.history.get(at), Some(Message::Tool { .. }))
    }

    /// The results to shorten, and the answers whose calls have large inputs: a model that no longer sees what it has
    /// written would write it again. Results that no model was given yet are given more room, together as much as a quarter.
    fn results(&self, level: Level) -> Vec<Shortened> {
        let (seen, unseen) = match level {
            Level::Results | Level::Older => (self.room.budget / 16, self.room.budget / 4),
            Level::AllButLastStep => (self.room.budget / 64, self.room.budget / 8),
            Level::NearlyAllResults | Level::UserMessages | Level::Everything | Level::EverythingElse => {
                (self.room.budget / 64, self.room.budget / 32)
            }
        };
        let fresh = (self.unseen..self.history.len()).filter(|at| self.is_result(*at)).count() as u64;
        let is_users = |at: usize| matches!(self.history.get(at), Some(Message::User { .. }));
        let mut shortened: Vec<_> =
            self.before.shortened.iter().filter(|shortened| is_users(shortened.at)).copied().collect();
        for at in self.before.covers.min(self.history.len())..self.history.len() {
            let limit = if at < self.unseen { seen } else { (unseen / fresh.max(1)).max(1) };
            let message = &self.history[at];
            let tokens = match message {
                Message::Tool { .. } => (self.size)(message),
                Message::Assistant { .. } => input_tokens(message),
                Message::System { .. } | Message::User { .. } => continue,
            };
            // A little more than the limit is not worth a note.
            let is_large = || tokens > limit.saturating_add(limit / 2).saturating_add(64);
            match self.before.keep(at) {
                Some(earlier) => shortened.push(Shortened { at, keep: earlier.min(bytes(message, limit)) }),
                None if is_large() => shortened.push(Shortened { at, keep: bytes(message, limit) }),
                None => {}
            }
        }
        shortened.sort_unstable_by_key(|shortened| shortened.at);
        shortened
    }

    /// The tokens of each message as the model would be given it; none for those that it will never be given again.
    fn sizes(&self, made: &Compaction) -> Vec<u64> {
        let is_gone = |at: usize, message: &Message| {
            let stays = matches!(message, Message::System { .. }) || self.first == Some(at) || self.current == Some(at);
            at < self.before.covers && !stays && ![self.before.first, self.before.current].contains(&Some(at))
        };
        let size = |(at, message): (usize, &Message)| match made.keep(at) {
            _ if is_gone(at, message) => 0,
            Some(keep) => (self.size)(&shorten(message, keep)),
            None => (self.size)(message),
        };
        self.history.iter().enumerate().map(size).collect()
    }

    /// The tokens of what a summary stands for, the summary before it included.
    fn summarised(&self, made: &Compaction, sizes: &[u64]) -> u64 {
        let is_kept = |at: usize| {
            made.first == Some(at)
                || made.current == Some(at)
                || matches!(self.history.get(at), Some(Message::System { .. }))
        };
        let from = self.before.covers.saturating_sub(self.before.left_out);
        let anew: u64 = (from..made.covers.min(sizes.len())).filter(|at| !is_kept(*at)).map(|at| sizes[at]).sum();
        let before = [&self.before.summary, &self.before.excerpt].map(|text| context::estimate_text(text));
        before.iter().fold(anew, |sum, tokens| sum.saturating_add(*tokens))
    }

    /// The tokens of the first user message and of the current one.
    fn task(&self, sizes: &[u64]) -> u64 {
        let first = self.first.filter(|_| self.first != self.current);
        [first, self.current].into_iter().flatten().map(|at| sizes[at]).sum()
    }

    fn covers(&self, level: Level, sizes: &[u64]) -> Option<usize> {
        let Room { fixed, target, summary, .. } = *self.room;
        let keep = match level {
            Level::Results | Level::Older => {
                target.saturating_sub(fixed + summary + STAND_IN + self.task(sizes)).max(target / 8)
            }
            Level::AllButLastStep | Level::NearlyAllResults | Level::UserMessages => 0,
            Level::Everything | Level::EverythingElse => return Some(self.history.len()),
        };
        context::cut_by(self.history, self.before.covers, keep, |at| sizes[at])
    }

    /// Shortens the first user message, then the current one, to what there is room for.
    fn shorten_user_messages(&self, level: Level, made: &mut Compaction, sizes: &mut [u64]) {
        let budget = self.room.budget;
        let places = [made.first.filter(|_| self.first != self.current), self.current];
        for at in places.into_iter().flatten() {
            let others = self.tokens(made, sizes).saturating_sub(sizes[at]) + self.stand_in(level, made, sizes);
            let limit = budget.saturating_sub(others).max(budget / 16);
            if sizes[at] <= limit {
                continue;
            }
            // A first message that fills the window would have every later one compacted.
            let free = if Some(at) == self.current { 0 } else { budget / 4 };
            let limit = limit.saturating_sub(free).max(budget / 16);
            let message = &self.history[at];
            let mut keep = made.keep(at).unwrap_or(usize::MAX).min(bytes(message, limit));
            sizes[at] = (self.size)(&shorten(message, keep));
            // Its ends may be denser than the rest.
            for _ in 0..16 {
                if sizes[at] <= limit || keep == LEAST_KEPT {
                    break;
                }
                keep = (scaled(keep, limit, sizes[at]) / 32 * 31).max(LEAST_KEPT);
                sizes[at] = (self.size)(&shorten(message, keep));
            }
            made.shortened.retain(|shortened| shortened.at != at);
            made.shortened.push(Shortened { at, keep });
            made.shortened.sort_unstable_by_key(|shortened| shortened.at);
        }
    }

    /// The tokens of a request, without the message that stands for what is covered.
    fn tokens(&self, made: &Compaction, sizes: &[u64]) -> u64 {
        let covers = made.covers.min(self.history.len());
        let is_system = |at: &usize| matches!(self.history[*at], Message::System { .. });
        let kept = [made.first, made.current].into_iter().flatten().filter(|at| *at < covers);
        let standing = (0..covers).filter(is_system).chain(kept).chain(covers..sizes.len());
        standing.map(|at| sizes[at]).fold(self.room.fixed, u64::saturating_add)
    }
}
