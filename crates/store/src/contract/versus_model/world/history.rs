//! Commands about the turns of a session as a whole.

use everturn_core::TurnId;
use rand::{Rng, seq::IndexedRandom};

use super::World;
use crate::{
    Command, EndedTurn, NewSession, SessionRecord, Shares, SimStore, Store, TurnRecord,
    contract::fixture::{Talk, over, rest, segment, waiting},
};

impl World {
    /// An empty session, or one with turns of its own or of another.
    pub(super) async fn creation(&mut self, talk: &Talk, model: &SimStore) -> Command {
        let mut new =
            NewSession { title: self.random.random_ratio(1, 3).then(|| "a title".to_owned()), ..talk.new_session() };
        let parents = model.sessions(&talk.tenant, None, 10).await.expect("a list");
        if let Some(row) = parents.choose(&mut self.random)
            && self.random.random_ratio(3, 4)
        {
            let parent = row.session.clone();
            let turns = model.turns(&talk.tenant, &parent.id).await.expect("a read").len() as u64;
            let (through, expected_version) = (self.random.random_range(0..=turns + 1), self.near(parent.version));
            new.shares = Some(Shares { session: parent.id, expected_version, through });
        }
        if self.random.random_ratio(1, 3) {
            new.turns = (0..self.random.random_range(1..4)).map(|_| self.ended_turn()).collect();
        }
        Command::CreateSession(Box::new(new))
    }

    pub(super) fn truncation(&mut self, talk: &Talk, session: Option<&SessionRecord>, turns: &[TurnRecord]) -> Command {
        let version = self.near(session.map_or(1, |session| session.version));
        let through = self.random.random_range(0..=turns.len() as u64 + 1);
        let turn = self.random.random_ratio(1, 2).then(|| self.ended_turn());
        talk.truncate_to(version, through, turn)
    }

    /// A turn that is over, as a rule.
    fn ended_turn(&mut self) -> EndedTurn {
        let known = if self.random.random_ratio(1, 12) { self.turns.choose(&mut self.random).cloned() } else { None };
        let turn = known.unwrap_or_else(TurnId::mint);
        self.turns.push(turn.clone());
        let count = self.random.random_range(0..40);
        let mut ended = EndedTurn { begins_history: self.random.random_ratio(1, 5), ..over(&turn, count) };
        match self.random.random_range(0..24) {
            0 => ended.rest = rest(waiting(), 1),
            1 => ended.segment = segment(2, count),
            _ => {}
        }
        ended
    }

    /// The command; if it begins a turn, somebody may have submitted it, and history may begin anew with it.
    pub(super) fn begins_history(&mut self, command: impl FnOnce(&mut Self) -> Command) -> Command {
        let mut command = command(self);
        if let Command::BeginTurn(begin) = &mut command {
            begin.begins_history = self.random.random_ratio(1, 6);
            begin.by = self.caller();
        }
        command
    }
}
