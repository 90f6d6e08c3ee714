//! Commands about turns: begin, take up, append, rest, end, claim.

use everturn_core::{Segment, TurnId, Usage};

use super::state::{Name, Session, State, Turn, Verdict, end, follows};
use crate::{
    Append, BeginTurn, ClaimedTurn, EndTurn, NodeId, Receipt, Refusal, Rest, ResumeTurn, Start, TurnRecord, TurnStatus,
};

impl State {
    pub(super) fn begin_turn(&mut self, begin: &BeginTurn) -> Verdict {
        let name = (begin.tenant.clone(), begin.session.clone());
        let (node, epoch, status) = match &begin.start {
            Start::Now(node) => (Some(node.clone()), 1, TurnStatus::Running),
            Start::Queued => (None, 0, TurnStatus::Queued),
        };
        if let Some(turn) = self.turn_of(&name, &begin.turn) {
            let expected = begin.expected_version.unwrap_or(0).saturating_add(1);
            let version = if turn.is_queued() { turn.taken.version } else { expected };
            return Ok(Receipt { epoch, version });
        }
        self.check_key(&begin.tenant, begin.key.as_ref(), begin.at)?;
        if self.turns.contains_key(&begin.turn) {
            return Err(Refusal::Exists);
        }
        match (begin.expected_version, self.sessions.get(&name)) {
            (None, Some(_)) => return Err(Refusal::Exists),
            (None, None) if begin.supersedes.is_some() || node.is_none() => return Err(Refusal::NotFound),
            (None, None) if self.deleted.contains_key(&name) => return Err(Refusal::Exists),
            (None, None) => {}
            (Some(_), None) => return Err(Refusal::NotFound),
            (Some(expected), Some(session)) => {
                let is_busy = self.turns_of(session).any(|turn| turn.is_open() || turn.is_queued());
                let is_later = expected < session.version && session.config == begin.config;
                let may_join = begin.start == Start::Queued && is_busy && is_later;
                if session.version != expected && !may_join {
                    return Err(Refusal::Changed);
                }
                self.check_place(begin, &name, session)?;
            }
        }
        let version = self.sessions.get(&name).map_or(1, |session| session.version + 1);
        let receipt = Receipt { epoch, version };
        follows(0, &begin.segment)?;
        self.check_writes(&begin.tenant, &begin.writes, Some(&begin.session))?;

        match self.sessions.get_mut(&name) {
            Some(session) => {
                session.version = receipt.version;
                session.config = begin.config.clone();
                session.updated_at = begin.at;
            }
            None => self.insert_session(name.clone(), &begin.config, begin.at, true),
        }
        if let Some(supersede) = &begin.supersedes {
            self.rest(&supersede.turn, &supersede.segment, &supersede.rest, receipt.version, begin.at);
        }
        let mut ordinal = 0;
        if let Some(session) = self.sessions.get_mut(&name) {
            session.turns.push(begin.turn.clone());
            ordinal = session.turns.len() as u64;
            if node.is_some() {
                session.started = Some(begin.turn.clone());
            }
        }
        let mut turn = Turn {
            session: name,
            age: self.turns_begun,
            node,
            epoch,
            taken: receipt,
            taken_by: None,
            rest_version: 0,
            record: TurnRecord {
                id: begin.turn.clone(),
                ordinal,
                status,
                head: 0,
                begins_history: begin.begins_history,
                by: begin.by.clone(),
                options: begin.options.clone(),
                messages: begin.messages.clone(),
                usage: Usage::default(),
                compaction: None,
                created_at: begin.at,
                rested_at: None,
            },
            log: Vec::new(),
            level: 0,
        };
        turn.push(&begin.segment);
        self.turns_begun += 1;
        self.turns.insert(begin.turn.clone(), turn);
        self.write(&begin.tenant, &begin.writes, begin.at);
        self.keep_key(&begin.tenant, begin.key.as_ref(), begin.at);
        Ok(receipt)
    }

    /// Whether the session's other turns let the new one in.
    fn check_place(&self, begin: &BeginTurn, name: &Name, session: &Session) -> Result<(), Refusal> {
        if begin.start == Start::Queued {
            let is_bare = begin.supersedes.is_none() && begin.segment.count() == 0;
            return if is_bare { Ok(()) } else { Err(Refusal::Changed) };
        }
        let has_queue = self.turns_of(session).any(Turn::is_queued);
        let Some(supersede) = &begin.supersedes else {
            let is_free = !has_queue && !self.turns_of(session).any(Turn::is_open);
            return if is_free { Ok(()) } else { Err(Refusal::Changed) };
        };
        let turn = self.turn_of(name, &supersede.turn).ok_or(Refusal::NotFound)?;
        let waits = matches!(turn.record.status, TurnStatus::Waiting(_));
        if !waits || has_queue || !supersede.rest.status.is_ended() || !turn.has_kept(&supersede.rest) {
            return Err(Refusal::Changed);
        }
        follows(turn.record.head, &supersede.segment)
    }

    pub(super) fn resume_turn(&mut self, resume: &ResumeTurn) -> Verdict {
        let name = (resume.tenant.clone(), resume.session.clone());
        if let Some(turn) = self.turn_of(&name, &resume.turn)
            && turn.taken_by.as_ref() == Some(&resume.id)
        {
            return Ok(turn.taken);
        }
        self.check_key(&resume.tenant, resume.key.as_ref(), resume.at)?;
        let session = self.sessions.get(&name).ok_or(Refusal::NotFound)?;
        let turn = self.turn_of(&name, &resume.turn).ok_or(Refusal::NotFound)?;
        let is_its_turn = match turn.record.status {
            TurnStatus::Waiting(_) => true,
            TurnStatus::Queued => {
                let first = self.turns_of(session).find(|turn| turn.is_queued());
                let is_first = first.is_some_and(|first| first.record.id == resume.turn);
                is_first && !self.turns_of(session).any(Turn::is_open)
            }
            TurnStatus::Running | TurnStatus::Ended(_) => false,
        };
        let is_later = resume.expected_version < session.version && session.config == resume.config;
        let is_current = session.version == resume.expected_version || (turn.is_queued() && is_later);
        if !is_current || !is_its_turn {
            return Err(Refusal::Changed);
        }
        let version = session.version + 1;
        follows(turn.record.head, &resume.segment)?;
        self.check_writes(&resume.tenant, &resume.writes, None)?;

        let session = self.sessions.get_mut(&name).ok_or(Refusal::NotFound)?;
        session.version = version;
        session.config = resume.config.clone();
        session.updated_at = resume.at;
        session.started = Some(resume.turn.clone());
        let turn = self.turns.get_mut(&resume.turn).ok_or(Refusal::NotFound)?;
        turn.epoch += 1;
        turn.node = Some(resume.node.clone());
        turn.taken = Receipt { epoch: turn.epoch, version };
        turn.taken_by = Some(resume.id.clone());
        turn.record.status = TurnStatus::Running;
        turn.push(&resume.segment);
        let receipt = turn.taken;
        self.write(&resume.tenant, &resume.writes, resume.at);
        self.keep_key(&resume.tenant, resume.key.as_ref(), resume.at);
        Ok(receipt)
    }

    pub(super) fn end_turn(&mut self, command: &EndTurn) -> Verdict {
        let name = (command.tenant.clone(), command.session.clone());
        let version = command.expected_version.saturating_add(1);
        let known = self.turn_of(&name, &command.turn);
        if let Some(turn) = known
            && turn.record.status.is_ended()
            && turn.record.status == command.rest.status
            && turn.record.head == end(&command.segment)
            && turn.rest_version == version
        {
            return Ok(Receipt { epoch: turn.epoch, version });
        }
        self.check_key(&command.tenant, command.key.as_ref(), command.at)?;
        let session = self.sessions.get(&name).ok_or(Refusal::NotFound)?;
        let turn = known.ok_or(Refusal::NotFound)?;
        let rests = matches!(turn.record.status, TurnStatus::Waiting(_) | TurnStatus::Queued);
        let is_sound = command.rest.status.is_ended() && turn.has_kept(&command.rest);
        if session.version != command.expected_version || !rests || !is_sound {
            return Err(Refusal::Changed);
        }
        follows(turn.record.head, &command.segment)?;
        self.check_writes(&command.tenant, &command.writes, None)?;

        let receipt = Receipt { epoch: turn.epoch, version };
        let session = self.sessions.get_mut(&name).ok_or(Refusal::NotFound)?;
        session.version = version;
        session.updated_at = command.at;
        self.rest(&command.turn, &command.segment, &command.rest, version, command.at);
        self.write(&command.tenant, &command.writes, command.at);
        self.keep_key(&command.tenant, command.key.as_ref(), command.at);
        Ok(receipt)
    }

    pub(super) fn append(&mut self, append: &Append) -> Verdict {
        let turn = self.turns.get(&append.turn).ok_or(Refusal::NotFound)?;
        if turn.epoch != append.epoch {
            return Err(Refusal::Fenced);
        }
        let plain = Receipt { epoch: turn.epoch, version: 0 };
        let head = turn.record.head;
        if turn.is_queued() {
            return Err(Refusal::Changed);
        }
        if turn.node.is_none() {
            return match &append.rest {
                None if end(&append.segment) <= head => Ok(plain),
                Some(_) if end(&append.segment) == head => Ok(Receipt { version: turn.rest_version, ..plain }),
                None | Some(_) => Err(Refusal::Changed),
            };
        }
        if let Err(gap) = follows(head, &append.segment) {
            let kept = append.rest.is_none() && end(&append.segment) <= head;
            return if kept { Ok(plain) } else { Err(gap) };
        }
        if let Some(rest) = &append.rest
            && (matches!(rest.status, TurnStatus::Running | TurnStatus::Queued) || !turn.has_kept(rest))
        {
            return Err(Refusal::Changed);
        }
        let name = turn.session.clone();
        self.check_writes(&name.0, &append.writes, None)?;

        let mut version = 0;
        match &append.rest {
            None => {
                let turn = self.turns.get_mut(&append.turn).ok_or(Refusal::NotFound)?;
                turn.push(&append.segment);
            }
            Some(rest) => {
                let session = self.sessions.get_mut(&name).ok_or(Refusal::NotFound)?;
                session.version += 1;
                session.updated_at = append.at;
                version = session.version;
                self.rest(&append.turn, &append.segment, rest, version, append.at);
            }
        }
        self.write(&name.0, &append.writes, append.at);
        Ok(Receipt { version, ..plain })
    }

    fn rest(&mut self, turn: &TurnId, segment: &Segment, rest: &Rest, version: u64, at: everturn_core::Timestamp) {
        let Some(turn) = self.turns.get_mut(turn) else { return };
        turn.push(segment);
        if let Some(session) = self.sessions.get_mut(&turn.session) {
            session.usage = session.usage.saturating_sub(turn.record.usage);
            session.usage += rest.usage;
        }
        turn.node = None;
        turn.rest_version = version;
        turn.record.status = rest.status.clone();
        turn.record.messages.truncate(rest.keeps);
        turn.record.messages.extend_from_slice(&rest.messages);
        turn.record.usage = rest.usage;
        turn.record.compaction = rest.compaction.clone();
        turn.record.rested_at = Some(at);
    }

    pub(super) fn claim(&mut self, node: &NodeId, limit: usize) -> Vec<ClaimedTurn> {
        let mut orphans: Vec<&mut Turn> =
            self.turns.values_mut().filter(|turn| turn.node.as_ref().is_some_and(|owner| owner != node)).collect();
        orphans.sort_by_key(|turn| turn.age);
        let claimed = orphans.into_iter().take(limit).map(|turn| {
            turn.epoch += 1;
            turn.node = Some(node.clone());
            ClaimedTurn {
                tenant: turn.session.0.clone(),
                session: turn.session.1.clone(),
                turn: turn.record.id.clone(),
                by: turn.record.by.clone(),
                epoch: turn.epoch,
                head: turn.record.head,
            }
        });
        claimed.collect()
    }
}
