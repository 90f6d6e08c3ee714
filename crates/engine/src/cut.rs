//! Fork and truncate: sessions that begin with a part of another's history, and sessions that lose their end.
//!
//! Whole turns are shared or taken away. A cut within a turn leaves a new turn with the first of its messages, which has
//! no more to its log than what was said.

use everturn_core::{
    Event, Message, MessagePlace, MessageRef, ModelOptions, OptionValue, Outcome, Said, SegmentBuilder, SessionConfig,
    SessionId, TenantId, Timestamp, TurnEnded, TurnId, TurnStarted, Usage,
};
use everturn_store::{
    Command, CommandKey, EndedTurn, NewSession, Refusal, Rest, SecretPlace, SessionRecord, Shares, TruncateSession,
    TurnRecord, TurnStatus,
};

use crate::{
    CutError, Engine, SubmissionKey,
    committer::CommitError,
    conversation::said_in_turn,
    earlier_history::in_history,
    memory::{ALL_TURNS, CUT},
};

/// How often a cut is judged anew because the session changed meanwhile.
const MAX_CONFLICTS: u32 = 20;

/// How many of a session's last turns are looked at at a time.
const PAGE: usize = 8;

/// What stays of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cut {
    /// All of it.
    Nothing,
    /// What was said before this message.
    Before(MessageRef),
    /// Everything up to the end of this turn.
    Through(TurnId),
    /// What was said before this time.
    BeforeTime(Timestamp),
}

/// Where a cut is.
struct Kept {
    /// The last turn that stays whole, by its ordinal.
    through: u64,
    /// What stays of the one after it.
    part: Option<EndedTurn>,
}

impl Engine {
    /// Makes a session that begins with what a cut leaves of another's conversation. Gives its name.
    pub async fn fork(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        cut: Cut,
        key: Option<SubmissionKey>,
    ) -> Result<SessionId, CutError> {
        if let Some(outcome) = self.cut_before(tenant, key.as_ref()).await? {
            return outcome.parse().map_err(|_| CutError::Rejected(Refusal::NotFound));
        }
        self.check_storage(tenant, 0).await?;
        // Submissions wait meanwhile: in a session that many use, it would never be what it was a moment ago.
        let gate = self.0.sessions.of(tenant, session.as_str());
        let _alone = gate.lock().await;
        let page = if cut == Cut::Nothing { (None, PAGE) } else { ALL_TURNS };
        let _memory = self.reserve_history(tenant, session, page, CUT).await?;
        for _ in 0..MAX_CONFLICTS {
            let record = self.0.store.session(tenant, session).await?.ok_or(CutError::NotFound)?;
            let mut turns = self.turns_to_cut(&record, &cut).await?;
            if let Some(running) = turns.iter_mut().find(|turn| turn.status == TurnStatus::Running) {
                running.messages = self.fold(&running.id).await?.messages();
            }
            let kept = kept(turns, &cut, &record.config)?;
            let fork = SessionId::mint();
            let config = self.seal_again(tenant, session, &fork, record.config);
            let title = record.title.as_ref().map(|title| format!("{title} (copy)"));
            let shares = Shares { session: session.clone(), expected_version: record.version, through: kept.through };
            let new = NewSession {
                tenant: tenant.clone(),
                id: fork.clone(),
                config,
                title,
                shares: Some(shares),
                turns: kept.part.into_iter().collect(),
                key: command_key(key.as_ref(), fork.as_str()),
                at: Timestamp::now(),
            };
            match self.commit_turn(Command::CreateSession(Box::new(new))).await {
                Ok(_) => return Ok(fork),
                Err(CommitError::Refused(Refusal::Changed)) => {}
                Err(CommitError::Refused(Refusal::Repeated { .. })) => {
                    let outcome = self.cut_before(tenant, key.as_ref()).await?.unwrap_or_default();
                    return outcome.parse().map_err(|_| CutError::NotFound);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(CutError::Busy)
    }

    /// The session's turns, in order, as far back as a cut may lie.
    async fn turns_to_cut(&self, record: &SessionRecord, cut: &Cut) -> Result<Vec<TurnRecord>, CutError> {
        let (tenant, session, store) = (&record.tenant, &record.id, &self.0.store);
        if *cut != Cut::Nothing {
            return Ok(store.turns(tenant, session).await?);
        }
        // All of it: what counts is the turn under way, which has none after it but those that are queued.
        let mut turns: Vec<TurnRecord> = Vec::new();
        while !turns.last().is_some_and(|turn| turn.status.is_ended() && turn.head > 1) {
            let below = turns.last().map(|turn| turn.ordinal);
            let page = store.turns_below(tenant, session, below, PAGE).await?;
            if page.is_empty() {
                break;
            }
            turns.extend(page);
        }
        turns.reverse();
        Ok(turns)
    }

    /// Settings with their secrets sealed for another session. One that cannot be opened here is of no use there either.
    fn seal_again(
        &self,
        tenant: &TenantId,
        from: &SessionId,
        to: &SessionId,
        mut config: SessionConfig,
    ) -> SessionConfig {
        config.options.retain(|option, value| {
            let OptionValue::Sealed(sealed) = value else { return true };
            let opened = self.0.secrets.open(SecretPlace { tenant, session: from, option }, sealed);
            let place = SecretPlace { tenant, session: to, option };
            match opened.and_then(|secret| self.0.secrets.seal(place, &secret)) {
                Ok(again) => *sealed = again,
                Err(_) => return false,
            }
            true
        });
        config
    }

    /// Takes away what a cut does not leave of a session's conversation. A turn that waits is ended; while one runs
    /// nothing is cut.
    pub async fn truncate(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        cut: Cut,
        key: Option<SubmissionKey>,
    ) -> Result<(), CutError> {
        if self.cut_before(tenant, key.as_ref()).await?.is_some() {
            return Ok(());
        }
        // Submissions wait meanwhile: in a session that many use, it would never be what it was a moment ago.
        let gate = self.0.sessions.of(tenant, session.as_str());
        let _alone = gate.lock().await;
        let _memory = self.reserve_history(tenant, session, ALL_TURNS, CUT).await?;
        for _ in 0..MAX_CONFLICTS {
            let record = self.0.store.session(tenant, session).await?.ok_or(CutError::NotFound)?;
            self.settle_first(tenant, &record).await?;
            let record = self.0.store.session(tenant, session).await?.ok_or(CutError::NotFound)?;
            let turns = self.0.store.turns(tenant, session).await?;
            let last = turns.last().map_or(0, |turn| turn.ordinal);
            let kept = kept(turns, &cut, &record.config)?;
            if kept.through >= last && key.is_none() {
                return Ok(());
            }
            let command = TruncateSession {
                tenant: tenant.clone(),
                session: session.clone(),
                expected_version: record.version,
                through: kept.through,
                turn: kept.part,
                key: command_key(key.as_ref(), session.as_str()),
                at: Timestamp::now(),
            };
            match self.commit_turn(Command::TruncateSession(Box::new(command))).await {
                Ok(_) => {
                    self.0.warm.forget(tenant, session);
                    return Ok(());
                }
                Err(CommitError::Refused(Refusal::Repeated { .. })) => return Ok(()),
                Err(CommitError::Refused(Refusal::Changed)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(CutError::Busy)
    }

    /// Ends a turn that waits and those that are queued.
    async fn settle_first(&self, tenant: &TenantId, record: &SessionRecord) -> Result<(), CutError> {
        match record.last_turn.as_ref().map(|turn| &turn.status) {
            Some(TurnStatus::Running) => Err(CutError::Busy),
            Some(TurnStatus::Waiting(_)) => Ok(self.clear_session(tenant, &record.id).await?),
            Some(TurnStatus::Ended(_) | TurnStatus::Queued) | None if record.queued > 0 => {
                Ok(self.clear_session(tenant, &record.id).await?)
            }
            Some(TurnStatus::Ended(_) | TurnStatus::Queued) | None => Ok(()),
        }
    }

    /// What a cut with this key gave before.
    async fn cut_before(&self, tenant: &TenantId, key: Option<&SubmissionKey>) -> Result<Option<String>, CutError> {
        let Some(key) = key else { return Ok(None) };
        match self.0.store.kept(tenant, &key.key, Timestamp::now()).await? {
            Some(kept) if kept.fingerprint == key.fingerprint => Ok(Some(kept.outcome)),
            Some(_) => Err(CutError::KeyReused { key: key.key.clone() }),
            None => Ok(None),
        }
    }
}

fn command_key(key: Option<&SubmissionKey>, outcome: &str) -> Option<CommandKey> {
    let SubmissionKey { key, fingerprint } = key?.clone();
    Some(CommandKey { key, fingerprint, outcome: outcome.to_owned() })
}

fn kept(turns: Vec<TurnRecord>, cut: &Cut, config: &SessionConfig) -> Result<Kept, CutError> {
    // Turns that are queued stay where they are, also at a moment when none runs.
    let queued = turns.iter().find(|turn| turn.status == TurnStatus::Queued);
    let last = queued.map(|turn| turn.ordinal - 1).or(turns.last().map(|turn| turn.ordinal)).unwrap_or(0);
    let turns = in_history(turns);
    let open = turns.iter().find(|turn| !turn.status.is_ended()).map(|turn| turn.ordinal);
    let whole = |through: u64| Kept { through, part: None };
    let place = match cut {
        Cut::Nothing => None,
        Cut::Through(turn) => {
            let turn = turns.iter().find(|other| other.id == *turn);
            let turn = turn.ok_or_else(|| CutError::NoMessage { id: turn_name(cut) })?;
            Some((turn.ordinal + 1, 0))
        }
        Cut::Before(id) => Some(place_of(&turns, |said| said.id == *id).ok_or_else(|| no_message(id))?),
        Cut::BeforeTime(time) => place_of(&turns, |said| said.at >= *time),
    };
    let (ordinal, messages) = match (place, open) {
        (None, None) => return Ok(whole(last)),
        (Some((ordinal, messages)), None) => (ordinal, messages),
        // A turn that has not ended is not shared: what it has said so far becomes one that has.
        (Some((ordinal, messages)), Some(open)) if ordinal <= open => (ordinal, messages),
        (_, Some(open)) => (open, usize::MAX),
    };
    let Some(turn) = turns.iter().find(|turn| turn.ordinal == ordinal) else { return Ok(whole(ordinal - 1)) };
    if messages == 0 && !turn.begins_history {
        return Ok(whole(ordinal - 1));
    }
    let messages: Vec<_> = turn.messages.iter().take(messages).cloned().collect();
    Ok(Kept { through: ordinal - 1, part: Some(told(messages, turn.created_at, turn.begins_history, &config.agent)) })
}

/// The first message that is not kept: its turn's ordinal and its place there.
fn place_of(turns: &[TurnRecord], is_it: impl Fn(&Said) -> bool) -> Option<(u64, usize)> {
    turns.iter().find_map(|turn| Some((turn.ordinal, said_in_turn(turn.clone()).iter().position(&is_it)?)))
}

fn no_message(id: &MessageRef) -> CutError {
    // A call's id may have come from outside.
    let id = match &id.place {
        MessagePlace::Input(_) | MessagePlace::Answer(_) => id.to_string(),
        MessagePlace::Result(_) => id.to_string().chars().take(200).collect(),
    };
    CutError::NoMessage { id }
}

fn turn_name(cut: &Cut) -> String {
    match cut {
        Cut::Through(turn) => turn.to_string(),
        Cut::Nothing | Cut::Before(_) | Cut::BeforeTime(_) => String::new(),
    }
}

/// A turn that is there with its end: all that is known of it is what was said.
pub(crate) fn told(messages: Vec<Message>, at: Timestamp, begins_history: bool, agent: &str) -> EndedTurn {
    let response = messages.iter().rev().find_map(|message| match message {
        Message::Assistant { content } => Some(content.text()),
        Message::System { .. } | Message::User { .. } | Message::Tool { .. } => None,
    });
    let started = TurnStarted {
        agent: agent.to_owned(),
        opens_session: false,
        input: messages.clone(),
        begins_history,
        request: None,
        compacts: false,
        used_before: Usage::default(),
        last_used: Usage::default(),
        by: None,
        options: ModelOptions::default(),
    };
    let (outcome, usage) = (Outcome::Completed, Usage::default());
    let response = response.unwrap_or_default();
    let ended = TurnEnded { outcome: outcome.clone(), usage, response, artifacts: Vec::new() };
    let mut builder = SegmentBuilder::new(1);
    builder.push(at, &Event::TurnStarted(started));
    builder.push(at, &Event::TurnEnded(ended));
    let rest = Rest { status: TurnStatus::Ended(outcome), keeps: 0, messages, usage, compaction: None };
    EndedTurn { turn: TurnId::mint(), segment: builder.take(), rest, begins_history, at }
}
