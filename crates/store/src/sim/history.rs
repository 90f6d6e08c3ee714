//! Commands about the turns of a session as a whole: history that is shared, brought along, or taken away.
//!
//! A session names its turns, and several may name the same. A turn is there as long as one does.

use std::collections::HashSet;

use everturn_core::{ModelOptions, SessionId, TenantId, Timestamp, TurnId};

use super::state::{Name, State, Turn, Verdict, follows};
use crate::{EndedTurn, NewSession, Receipt, Refusal, Shares, TruncateSession, TurnRecord};

/// What a truncation is recognised by.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Truncated {
    version: u64,
    at: Timestamp,
    through: u64,
    turn: Option<TurnId>,
}

impl State {
    pub(super) fn create_session(&mut self, new: &NewSession) -> Verdict {
        let name = (new.tenant.clone(), new.id.clone());
        let created = Receipt { epoch: 0, version: 1 };
        let known = self.sessions.get(&name);
        if known.is_some_and(|session| {
            let says_the_same = session.config == new.config
                && new.may_have_made(session.turns.len() as u64)
                && new.turns.iter().all(|turn| session.turns.contains(&turn.turn));
            !session.opened_by_turn && session.created_at == new.at && (session.version > 1 || says_the_same)
        }) {
            return Ok(created);
        }
        self.check_key(&new.tenant, new.key.as_ref(), new.at)?;
        if known.is_some() || self.deleted.contains_key(&name) {
            return Err(Refusal::Exists);
        }
        let shared = match &new.shares {
            Some(shares) => self.shared(&new.tenant, shares)?,
            None => Vec::new(),
        };
        self.check_ended(&new.turns)?;

        self.insert_session(name.clone(), &new.config, new.at, false);
        if let Some(session) = self.sessions.get_mut(&name) {
            session.title.clone_from(&new.title);
            session.started = shared.last().cloned();
            session.turns = shared;
        }
        for turn in &new.turns {
            self.add_ended(&name, created.version, turn);
        }
        self.keep_key(&new.tenant, new.key.as_ref(), new.at);
        Ok(created)
    }

    /// The turns that a new session is to have in common with another.
    fn shared(&self, tenant: &TenantId, shares: &Shares) -> Result<Vec<TurnId>, Refusal> {
        let session = self.sessions.get(&(tenant.clone(), shares.session.clone())).ok_or(Refusal::NotFound)?;
        let turns = || self.turns_of(session).filter(|turn| turn.record.ordinal <= shares.through);
        if session.version != shares.expected_version || !turns().all(|turn| turn.record.status.is_ended()) {
            return Err(Refusal::Changed);
        }
        Ok(turns().map(|turn| turn.record.id.clone()).collect())
    }

    fn check_ended<'a>(&self, turns: impl IntoIterator<Item = &'a EndedTurn>) -> Result<(), Refusal> {
        let mut names = HashSet::new();
        for turn in turns {
            if !turn.rest.status.is_ended() || turn.rest.keeps > 0 {
                return Err(Refusal::Changed);
            }
            if !names.insert(&turn.turn) || self.turns.contains_key(&turn.turn) {
                return Err(Refusal::Exists);
            }
            follows(0, &turn.segment)?;
        }
        Ok(())
    }

    fn add_ended(&mut self, name: &Name, version: u64, ended: &EndedTurn) {
        let EndedTurn { turn: id, segment, rest, begins_history, at } = ended;
        let Some(session) = self.sessions.get_mut(name) else { return };
        session.turns.push(id.clone());
        session.started = Some(id.clone());
        let mut turn = Turn {
            session: name.clone(),
            age: self.turns_begun,
            node: None,
            epoch: 0,
            taken: Receipt { epoch: 0, version },
            taken_by: None,
            rest_version: version,
            record: TurnRecord {
                id: id.clone(),
                ordinal: session.turns.len() as u64,
                status: rest.status.clone(),
                head: 0,
                begins_history: *begins_history,
                by: None,
                options: ModelOptions::default(),
                messages: rest.messages.clone(),
                usage: rest.usage,
                compaction: rest.compaction.clone(),
                created_at: *at,
                rested_at: Some(*at),
            },
            log: Vec::new(),
            level: 0,
        };
        turn.push(segment);
        self.turns_begun += 1;
        self.turns.insert(id.clone(), turn);
    }

    pub(super) fn truncate_session(&mut self, truncate: &TruncateSession) -> Verdict {
        let name = (truncate.tenant.clone(), truncate.session.clone());
        let receipt = Receipt { epoch: 0, version: truncate.expected_version.saturating_add(1) };
        let truncated = Truncated {
            version: receipt.version,
            at: truncate.at,
            through: truncate.through,
            turn: truncate.turn.as_ref().map(|turn| turn.turn.clone()),
        };
        let known = self.sessions.get(&name);
        if known.is_some_and(|session| session.truncated.as_ref() == Some(&truncated)) {
            return Ok(receipt);
        }
        self.check_key(&truncate.tenant, truncate.key.as_ref(), truncate.at)?;
        let session = known.ok_or(Refusal::NotFound)?;
        let all_ended = self.turns_of(session).all(|turn| turn.record.status.is_ended());
        if session.version != truncate.expected_version || !all_ended {
            return Err(Refusal::Changed);
        }
        self.check_ended(&truncate.turn)?;

        let session = self.sessions.get_mut(&name).ok_or(Refusal::NotFound)?;
        session.turns.truncate(usize::try_from(truncate.through).unwrap_or(usize::MAX));
        session.started = session.turns.last().cloned();
        session.version = receipt.version;
        session.updated_at = truncate.at;
        session.truncated = Some(truncated);
        if let Some(turn) = &truncate.turn {
            self.add_ended(&name, receipt.version, turn);
        }
        self.drop_unheld();
        self.keep_key(&truncate.tenant, truncate.key.as_ref(), truncate.at);
        Ok(receipt)
    }

    /// Drops the turns that no session has any more.
    pub(super) fn drop_unheld(&mut self) {
        let held: HashSet<&TurnId> = self.sessions.values().flat_map(|session| &session.turns).collect();
        self.turns.retain(|id, _| held.contains(id));
    }

    /// A turn, if the session has it.
    pub(super) fn turn_of(&self, name: &Name, turn: &TurnId) -> Option<&Turn> {
        let is_its = self.sessions.get(name).is_some_and(|session| session.turns.contains(turn));
        self.turns.get(turn).filter(|_| is_its)
    }

    pub(super) fn message_count(&self, tenant: &TenantId, session: &SessionId) -> u64 {
        let turns = self.turns(tenant, session);
        let from = turns.iter().rposition(|turn| turn.begins_history).unwrap_or(0);
        turns[from..].iter().map(|turn| turn.messages.len() as u64).sum()
    }
}
