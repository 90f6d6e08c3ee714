//! What is to be done at some time: turns that are due, sessions that are stalled, and what has grown old.

use everturn_core::{SessionId, TenantId, Timestamp, TurnId};

use super::state::{Session, State, Turn, Verdict, end, follows};
use crate::{DueTurn, Receipt, Refusal, ReplaceLog, TurnStatus};

impl State {
    pub(super) fn due(&self, limit: usize) -> Vec<DueTurn> {
        let mut due: Vec<(Timestamp, &Turn)> = self
            .turns
            .values()
            .filter_map(|turn| match &turn.record.status {
                TurnStatus::Waiting(wait) => wait.wake_at.map(|at| (at, turn)),
                TurnStatus::Running | TurnStatus::Ended(_) | TurnStatus::Queued => None,
            })
            .collect();
        due.sort_by_key(|(wake_at, turn)| (*wake_at, turn.age));
        let due = due.into_iter().take(limit).map(|(wake_at, turn)| DueTurn {
            tenant: turn.session.0.clone(),
            session: turn.session.1.clone(),
            turn: turn.record.id.clone(),
            wake_at,
        });
        due.collect()
    }

    pub(super) fn queued_of_tenant(&self, tenant: &TenantId) -> u64 {
        self.turns.values().filter(|turn| turn.session.0 == *tenant && turn.is_queued()).count() as u64
    }

    pub(super) fn stalled(&self, limit: usize) -> Vec<(TenantId, SessionId)> {
        let is_stalled = |session: &Session| {
            self.turns_of(session).any(Turn::is_queued) && !self.turns_of(session).any(Turn::is_open)
        };
        self.sessions_sorted(limit, is_stalled, |session| session.position)
    }

    pub(super) fn idle_sessions(&self, before: Timestamp, limit: usize) -> Vec<(TenantId, SessionId)> {
        self.sessions_sorted(
            limit,
            |session| self.is_idle(session, before),
            |session| (session.updated_at, session.position),
        )
    }

    /// Whether a session has nothing to do and has not changed since before this time.
    pub(super) fn is_idle(&self, session: &Session, before: Timestamp) -> bool {
        session.updated_at < before && self.turns_of(session).all(|turn| turn.record.status.is_ended())
    }

    fn sessions_sorted<K: Ord>(
        &self,
        limit: usize,
        is_wanted: impl Fn(&Session) -> bool,
        place: impl Fn(&Session) -> K,
    ) -> Vec<(TenantId, SessionId)> {
        let mut found: Vec<_> = self.sessions.iter().filter(|(_, session)| is_wanted(session)).collect();
        found.sort_by_key(|(_, session)| place(session));
        found.into_iter().take(limit).map(|(name, _)| name.clone()).collect()
    }

    pub(super) fn old_logs(&self, before: Timestamp, level: u8, limit: usize) -> Vec<TurnId> {
        let mut old: Vec<(Timestamp, &Turn)> = self
            .turns
            .values()
            .filter(|turn| turn.record.status.is_ended() && turn.level < level)
            .filter_map(|turn| turn.record.rested_at.map(|at| (at, turn)))
            .filter(|(rested_at, _)| *rested_at < before)
            .collect();
        old.sort_by_key(|(rested_at, turn)| (*rested_at, turn.age));
        old.into_iter().take(limit).map(|(_, turn)| turn.record.id.clone()).collect()
    }

    pub(super) fn replace_log(&mut self, replace: &ReplaceLog) -> Verdict {
        let turn = self.turns.get_mut(&replace.turn).ok_or(Refusal::NotFound)?;
        if !turn.record.status.is_ended() || replace.level < turn.level {
            return Err(Refusal::Changed);
        }
        let head = turn.record.head;
        let mut last = 0;
        for segment in &replace.segments {
            follows(last, segment).map_err(|_| Refusal::Gap { head, first_seq: segment.first_seq() })?;
            last = end(segment);
        }
        if last != head {
            return Err(Refusal::Gap { head, first_seq: last + 1 });
        }
        turn.level = replace.level;
        turn.log = replace.segments.iter().filter(|segment| segment.count() > 0).cloned().collect();
        Ok(Receipt { epoch: turn.epoch, version: 0 })
    }

    pub(super) fn forget_deleted(&mut self, before: Timestamp) -> Verdict {
        self.deleted.retain(|_, at| *at >= before);
        Ok(Receipt { epoch: 0, version: 0 })
    }
}
