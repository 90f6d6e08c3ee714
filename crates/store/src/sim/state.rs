//! What a simulated store holds, and how commands change it.

use std::collections::{BTreeMap, HashMap};

use everturn_core::{CommandId, Segment, SessionConfig, SessionId, TenantId, Timestamp, TurnId, Usage};

use super::{
    history::Truncated,
    records::{Kept as KeptRecord, RecordName},
};
use crate::{
    Command, CommandKey, DeleteSession, NodeId, Receipt, Refusal, Rest, SessionRecord, SessionRow, TurnRecord,
    TurnStatus, TurnSummary, UsageCount, UsageSlot,
};

pub(super) type Verdict = Result<Receipt, Refusal>;
pub(super) type Name = (TenantId, SessionId);

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) sessions: HashMap<Name, Session>,
    list: BTreeMap<u64, Name>,
    /// When they were deleted.
    pub(super) deleted: HashMap<Name, Timestamp>,
    pub(super) turns: HashMap<TurnId, Turn>,
    pub(super) records: HashMap<RecordName, KeptRecord>,
    keys: HashMap<(TenantId, String), Kept>,
    pub(super) usage: BTreeMap<(TenantId, UsageSlot), UsageCount>,
    last_position: u64,
    pub(super) last_record: u64,
    pub(super) turns_begun: u64,
}

#[derive(Debug)]
pub(super) struct Session {
    pub(super) position: u64,
    pub(super) version: u64,
    pub(super) config: SessionConfig,
    pub(super) usage: Usage,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
    pub(super) title: Option<String>,
    pub(super) opened_by_turn: bool,
    pub(super) turns: Vec<TurnId>,
    /// The turn that was started last.
    pub(super) started: Option<TurnId>,
    /// The last truncation, by which it is recognised.
    pub(super) truncated: Option<Truncated>,
}

#[derive(Debug)]
pub(super) struct Turn {
    /// The session that began it. Others may have it too, once it has ended.
    pub(super) session: Name,
    /// How many turns had been accepted before it.
    pub(super) age: u64,
    /// Its owner, while it runs.
    pub(super) node: Option<NodeId>,
    pub(super) epoch: u64,
    /// What the command gave that last took it up.
    pub(super) taken: Receipt,
    /// The resumption that did.
    pub(super) taken_by: Option<CommandId>,
    pub(super) rest_version: u64,
    pub(super) record: TurnRecord,
    pub(super) log: Vec<Segment>,
    /// How far its log has been shortened.
    pub(super) level: u8,
}

/// A command that had a key.
#[derive(Debug)]
struct Kept {
    key: CommandKey,
    at: Timestamp,
}

/// Seq of the last event of a segment.
pub(super) fn end(segment: &Segment) -> u64 {
    segment.first_seq().saturating_add(u64::from(segment.count())).saturating_sub(1)
}

/// Refuses events that do not follow the last one.
pub(super) fn follows(head: u64, segment: &Segment) -> Result<(), Refusal> {
    let first_seq = segment.first_seq();
    if first_seq == head + 1 { Ok(()) } else { Err(Refusal::Gap { head, first_seq }) }
}

impl Turn {
    pub(super) fn push(&mut self, segment: &Segment) {
        if segment.count() > 0 {
            self.record.head = end(segment);
            self.log.push(segment.clone());
        }
    }

    pub(super) fn is_queued(&self) -> bool {
        self.record.status == TurnStatus::Queued
    }

    /// Whether it has the messages that a rest keeps.
    pub(super) fn has_kept(&self, rest: &Rest) -> bool {
        rest.keeps <= self.record.messages.len()
    }

    /// Whether it runs or waits.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.record.status, TurnStatus::Running | TurnStatus::Waiting(_))
    }
}

impl State {
    pub(super) fn judge(&mut self, command: &Command) -> Verdict {
        match command {
            Command::CreateSession(new) => self.create_session(new),
            Command::BeginTurn(begin) => self.begin_turn(begin),
            Command::ResumeTurn(resume) => self.resume_turn(resume),
            Command::EndTurn(end) => self.end_turn(end),
            Command::TruncateSession(truncate) => self.truncate_session(truncate),
            Command::Append(append) => self.append(append),
            Command::Put(put) => self.put(put),
            Command::DeleteSession(delete) => self.delete_session(delete),
            Command::ReplaceLog(replace) => self.replace_log(replace),
            Command::ForgetDeleted { before } => self.forget_deleted(*before),
        }
    }

    pub(super) fn insert_session(&mut self, name: Name, config: &SessionConfig, at: Timestamp, opened_by_turn: bool) {
        self.last_position += 1;
        self.list.insert(self.last_position, name.clone());
        let session = Session {
            position: self.last_position,
            version: 1,
            config: config.clone(),
            usage: Usage::default(),
            created_at: at,
            updated_at: at,
            title: None,
            opened_by_turn,
            turns: Vec::new(),
            started: None,
            truncated: None,
        };
        self.sessions.insert(name, session);
    }

    fn delete_session(&mut self, delete: &DeleteSession) -> Verdict {
        let name = (delete.tenant.clone(), delete.session.clone());
        if !self.sessions.contains_key(&name) && self.deleted.contains_key(&name) {
            return Ok(Receipt { epoch: 0, version: 0 });
        }
        self.check_key(&delete.tenant, delete.key.as_ref(), delete.at)?;
        let session = self.sessions.get(&name).ok_or(Refusal::NotFound)?;
        if delete.idle_before.is_some_and(|before| !self.is_idle(session, before)) {
            return Err(Refusal::Changed);
        }
        let session = self.sessions.remove(&name).ok_or(Refusal::NotFound)?;
        self.list.remove(&session.position);
        self.drop_unheld();
        self.records.retain(|_, kept| kept.session().as_ref() != Some(&name));
        self.deleted.insert(name, delete.at);
        self.keep_key(&delete.tenant, delete.key.as_ref(), delete.at);
        Ok(Receipt { epoch: 0, version: 0 })
    }

    pub(super) fn kept(&self, tenant: &TenantId, key: &str, at: Timestamp) -> Option<&CommandKey> {
        let kept = self.keys.get(&(tenant.clone(), key.to_owned()))?;
        (kept.at > CommandKey::forgotten(at)).then_some(&kept.key)
    }

    /// Refuses a command whose key was kept not long ago.
    pub(super) fn check_key(&self, tenant: &TenantId, key: Option<&CommandKey>, at: Timestamp) -> Result<(), Refusal> {
        match key.and_then(|key| self.kept(tenant, &key.key, at)) {
            None => Ok(()),
            Some(CommandKey { fingerprint, outcome, .. }) => {
                Err(Refusal::Repeated { fingerprint: fingerprint.clone(), outcome: outcome.clone() })
            }
        }
    }

    pub(super) fn keep_key(&mut self, tenant: &TenantId, key: Option<&CommandKey>, at: Timestamp) {
        if let Some(key) = key {
            self.keys.insert((tenant.clone(), key.key.clone()), Kept { key: key.clone(), at });
        }
    }

    /// The session's turns, in order.
    pub(super) fn turns_of(&self, session: &Session) -> impl DoubleEndedIterator<Item = &Turn> {
        session.turns.iter().filter_map(|id| self.turns.get(id))
    }

    fn record_of(&self, name: &Name, session: &Session) -> SessionRecord {
        let last_turn = session.started.as_ref().and_then(|id| self.turns.get(id));
        SessionRecord {
            id: name.1.clone(),
            tenant: name.0.clone(),
            version: session.version,
            config: session.config.clone(),
            usage: session.usage,
            created_at: session.created_at,
            updated_at: session.updated_at,
            title: session.title.clone(),
            last_turn: last_turn
                .map(|turn| TurnSummary { id: turn.record.id.clone(), status: turn.record.status.clone() }),
            queued: self.turns_of(session).filter(|turn| turn.is_queued()).count() as u64,
        }
    }

    pub(super) fn session(&self, tenant: &TenantId, session: &SessionId) -> Option<SessionRecord> {
        let name = (tenant.clone(), session.clone());
        self.sessions.get(&name).map(|session| self.record_of(&name, session))
    }

    pub(super) fn sessions(&self, tenant: &TenantId, below: Option<u64>, limit: usize) -> Vec<SessionRow> {
        let page = self.list.range(..below.unwrap_or(u64::MAX)).rev();
        let rows = page.filter(|(_, name)| name.0 == *tenant).filter_map(|(position, name)| {
            let session = self.sessions.get(name)?;
            Some(SessionRow { position: *position, session: self.record_of(name, session) })
        });
        rows.take(limit).collect()
    }

    pub(super) fn turns(&self, tenant: &TenantId, session: &SessionId) -> Vec<TurnRecord> {
        let session = self.sessions.get(&(tenant.clone(), session.clone()));
        session.into_iter().flat_map(|session| self.turns_of(session)).map(|turn| turn.record.clone()).collect()
    }

    pub(super) fn turns_below(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        below: Option<u64>,
        limit: usize,
    ) -> Vec<TurnRecord> {
        let turns = self.turns(tenant, session).into_iter().rev();
        turns.filter(|turn| below.is_none_or(|below| turn.ordinal < below)).take(limit).collect()
    }

    pub(super) fn read(&self, turn: &TurnId, seq: u64, max_bytes: usize) -> Vec<Segment> {
        let log = self.turns.get(turn).map(|turn| turn.log.as_slice()).unwrap_or_default();
        let from = log.partition_point(|segment| end(segment) <= seq);
        let mut bytes = 0;
        let wanted = log[from..].iter().take_while(|segment| {
            let goes_on = bytes == 0 || bytes < max_bytes;
            bytes += segment.bytes().len();
            goes_on
        });
        wanted.cloned().collect()
    }
}
