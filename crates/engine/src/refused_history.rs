//! Earlier messages that a provider takes no longer, in words that name none of them: a summary takes their place.
//!
//! The provider may have taken them for many turns: its model was changed, or a rule of it. Without this, every later turn
//! of the session would fail.

use everturn_core::{Compaction, Message, compaction::Plan, context};
use everturn_models::{ModelErrorKind, ModelEvent, ModelFinish, ModelRequest};

use crate::{
    fitting::{Carried, WithoutSummary},
    told::CountInput,
    turn::{Stopped, Turn},
    watchdog::Watchdog,
};

/// How often a step looks for refused messages.
const SEARCHES: u32 = 3;

/// The notice of earlier messages that a summary stands for.
const SUMMARISED: &str = "earlier messages are summarised: the provider refuses one of them as it is";
/// The notice of earlier messages of which no summary could be made.
const LEFT_OUT: &str = "earlier messages are left out: the provider refuses them, also to summarise them";

impl Turn {
    /// Puts a summary in the place of earlier turns up to the last one that the provider refuses, if it refuses a call because
    /// of them. `false` if it does not, and nothing has changed.
    pub(crate) async fn summarise_refused_history(&mut self) -> Result<bool, Stopped> {
        // A provider that takes the history, and declines or fails later on, would be asked for ever.
        if self.faults.searches >= SEARCHES {
            return Ok(false);
        }
        self.faults.searches += 1;
        let before = self.compaction().cloned().unwrap_or_default();
        if before.clone().covering(self.earlier.messages()) == before {
            return Ok(false);
        }
        let found = self.last_refused_turn(&before).await;
        let Some(found) = found else {
            self.record_spent_summary()?;
            return Ok(false);
        };
        let Some(refused) = found else { return Ok(true) };
        let places = self.earlier_given().places_of(refused);
        let first = self.first_beside(&before, refused + 1).await;
        let mut compaction = before.covering(places.end);
        let (size, room) = (self.estimated_context(), self.room(None));
        let later = self.earlier_given().since(refused + 1);
        let mut tokens = room.fixed + context::estimate(&later) + context::estimate(&self.state.messages());
        if let Some((at, message)) = first {
            compaction.first = Some(at);
            tokens += self.size_of(&message);
        }
        let plan = Plan { compaction, tokens, summary: room.summary };
        let carried = Box::pin(self.carry_out(plan, &room, size, WithoutSummary::Wait, Some(places))).await?;
        if !matches!(carried, Carried::Out) {
            return Ok(false);
        }
        let is_left_out = self.compaction().is_some_and(|made| made.left_out > 0);
        self.notice(if is_left_out { LEFT_OUT } else { SUMMARISED }.to_owned())?;
        Ok(true)
    }

    /// The first user message and its place, if it is older than what the provider refuses, and the provider takes it before
    /// the turns from one on.
    async fn first_beside(&mut self, before: &Compaction, turn: usize) -> Option<(usize, Message)> {
        let history = self.earlier_given();
        let begin = history.places_of(turn.saturating_sub(1)).start;
        let is_user = |message: &Message| matches!(message, Message::User { .. });
        let at = match before {
            Compaction { covers: 1.., system: Some(_), first, .. } => *first,
            _ => history.full().position(is_user),
        };
        let is_whole = |at: &usize| !before.shortened.iter().any(|shortened| shortened.at == *at);
        let at = at.filter(|at| *at < begin).filter(is_whole)?;
        let message = history.full().nth(at)?.clone();
        let messages = [message.clone()].into_iter().chain(history.since(turn)).chain(self.state.messages()).collect();
        (self.is_answered_of(messages).await == Some(true)).then_some((at, message))
    }

    /// The last of the earlier turns with which a call is refused. `None` if earlier turns are not to blame, or it cannot be
    /// found out; `Some(None)` if the call is not refused any more.
    async fn last_refused_turn(&mut self, before: &Compaction) -> Option<Option<usize>> {
        let turns = self.earlier_given().turns();
        if !self.is_answered_since(turns).await? {
            return None;
        }
        if self.is_answered(self.request()).await? {
            return Some(None);
        }
        // With those from this one on it is refused, with those from that one on it is not.
        let is_covered = |turn: &usize| self.earlier_given().places_of(*turn).end <= before.covers;
        let (mut refused, mut fine) = ((0..turns).find(|turn| !is_covered(turn)).unwrap_or(0), turns);
        while fine - refused > 1 {
            let middle = refused + (fine - refused) / 2;
            if self.is_answered_since(middle).await? {
                fine = middle;
            } else {
                refused = middle;
            }
        }
        Some(Some(refused))
    }

    /// Whether what a provider's filter declines may be older than the turns that it has declined: these are left out already.
    pub(crate) fn may_be_older(&self) -> bool {
        let declined = self.earlier.declined();
        declined > 0 && declined == self.earlier.messages()
    }

    /// Whether the provider begins to answer this turn's messages after those of earlier turns from one on. `None` if it says
    /// neither yes nor no.
    async fn is_answered_since(&mut self, turn: usize) -> Option<bool> {
        self.is_answered_of(self.earlier_given().since(turn).into_iter().chain(self.state.messages()).collect()).await
    }

    /// Whether the provider begins to answer messages. `None` if it says neither yes nor no.
    async fn is_answered_of(&mut self, messages: Vec<Message>) -> Option<bool> {
        let messages = self.with_documents(context::normalise(&messages).messages.into());
        self.is_answered(ModelRequest { messages, ..self.request() }).await
    }

    /// Whether the provider begins to answer a request. The answer itself is not waited for.
    pub(crate) async fn is_answered(&mut self, request: ModelRequest) -> Option<bool> {
        let Ok(_memory) = self.reserve_request(&request).await else { return None };
        self.begin_summary(request.messages.size().tokens);
        let call = Watchdog::call(&self.shared.settings, self.current_model(), request, &self.silences).await;
        let answered = match call {
            Err(error) => Err(error),
            Ok((mut watchdog, mut stream)) => loop {
                match watchdog.next(&mut stream).await {
                    Ok(ModelEvent::Alive | ModelEvent::Notice(_)) => {}
                    Ok(ModelEvent::Used(usage)) => self.hear_of_summary(usage),
                    Ok(ModelEvent::Finished { finish: ModelFinish::Refusal, .. }) => break Ok(false),
                    Ok(ModelEvent::Text(text)) => self.hear_summary(&text),
                    Ok(_) => break Ok(true),
                    Err(error) => break Err(error),
                }
            },
        };
        let count = if answered.is_ok() { CountInput::Always } else { CountInput::IfAnswered };
        self.end_summary(None, count);
        match answered {
            Ok(is_answered) => Some(is_answered),
            Err(error) => match error.kind {
                ModelErrorKind::RateLimited | ModelErrorKind::Denied | ModelErrorKind::Timeout => None,
                ModelErrorKind::Rejected | ModelErrorKind::Unavailable | ModelErrorKind::ContextOverflow => Some(false),
            },
        }
    }
}
