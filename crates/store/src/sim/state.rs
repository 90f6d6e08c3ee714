//! What a simulated store holds, and how commands change it.

use std::collections::{BTreeMap, HashMap, HashSet};

use everturn_core::{CommandId, Segment, SessionConfig, SessionId, TenantId, Timestamp, TurnId, Usage};

use crate::{
    Append, BeginTurn, ClaimedTurn, Command, CommandKey, NewSession, NodeId, Receipt, Refusal, Rest, ResumeTurn,
    SessionRecord, SessionRow, TurnRecord, TurnStatus, TurnSummary,
};

type Verdict = Result<Receipt, Refusal>;
type Name = (TenantId, SessionId);

#[derive(Debug, Default)]
pub(super) struct State {
    sessions: HashMap<Name, Session>,
    list: BTreeMap<u64, Name>,
    deleted: HashSet<Name>,
    turns: HashMap<TurnId, Turn>,
    keys: HashMap<(TenantId, String), Kept>,
    last_position: u64,
    turns_begun: u64,
}

#[derive(Debug)]
struct Session {
    position: u64,
    version: u64,
    config: SessionConfig,
    usage: Usage,
    created_at: Timestamp,
    updated_at: Timestamp,
    opened_by_turn: bool,
    turns: Vec<TurnId>,
}

#[derive(Debug)]
struct Turn {
    session: Name,
    /// How many turns had begun before it.
    age: u64,
    /// Its owner, while it runs.
    node: Option<NodeId>,
    epoch: u64,
    /// What the command gave that last took it up.
    taken: Receipt,
    /// The resumption that did.
    taken_by: Option<CommandId>,
    rest_version: u64,
    record: TurnRecord,
    log: Vec<Segment>,
}

/// A command that had a key.
#[derive(Debug)]
struct Kept {
    key: CommandKey,
    at: Timestamp,
}

fn end(segment: &Segment) -> u64 {
    segment.first_seq().saturating_add(u64::from(segment.count())).saturating_sub(1)
}

fn follows(head: u64, segment: &Segment) -> Result<(), Refusal> {
    let first_seq = segment.first_seq();
    if first_seq == head + 1 { Ok(()) } else { Err(Refusal::Gap { head, first_seq }) }
}

impl Turn {
    fn push(&mut self, segment: &Segment) {
        if segment.count() > 0 {
            self.record.head = end(segment);
            self.log.push(segment.clone());
        }
    }
}

impl State {
    pub(super) fn judge(&mut self, command: &Command) -> Verdict {
        match command {
            Command::CreateSession(new) => self.create_session(new),
            Command::BeginTurn(begin) => self.begin_turn(begin),
            Command::ResumeTurn(resume) => self.resume_turn(resume),
            Command::Append(append) => self.append(append),
            Command::DeleteSession { tenant, session } => self.delete_session(tenant, session),
        }
    }

    fn create_session(&mut self, new: &NewSession) -> Verdict {
        let name = (new.tenant.clone(), new.id.clone());
        if let Some(session) = self.sessions.get(&name) {
            let unchanged = session.version > 1 || session.config == new.config;
            let same = !session.opened_by_turn && session.created_at == new.at && unchanged;
            return if same { Ok(Receipt { epoch: 0, version: 1 }) } else { Err(Refusal::Exists) };
        }
        if self.deleted.contains(&name) {
            return Err(Refusal::Exists);
        }
        self.insert_session(name, &new.config, new.at, false);
        Ok(Receipt { epoch: 0, version: 1 })
    }

    fn insert_session(&mut self, name: Name, config: &SessionConfig, at: Timestamp, opened_by_turn: bool) {
        self.last_position += 1;
        self.list.insert(self.last_position, name.clone());
        let session = Session {
            position: self.last_position,
            version: 1,
            config: config.clone(),
            usage: Usage::default(),
            created_at: at,
            updated_at: at,
            opened_by_turn,
            turns: Vec::new(),
        };
        self.sessions.insert(name, session);
    }

    fn begin_turn(&mut self, begin: &BeginTurn) -> Verdict {
        let name = (begin.tenant.clone(), begin.session.clone());
        let receipt = Receipt { epoch: 1, version: begin.expected_version.unwrap_or(0).saturating_add(1) };
        let known = self.turns.get(&begin.turn);
        if known.is_some_and(|turn| turn.session == name) {
            return Ok(receipt);
        }
        self.check_key(&begin.tenant, begin.key.as_ref(), begin.at)?;
        if known.is_some() {
            return Err(Refusal::Exists);
        }
        match (begin.expected_version, self.sessions.get(&name)) {
            (None, Some(_)) => return Err(Refusal::Exists),
            (None, None) if begin.supersedes.is_some() => return Err(Refusal::NotFound),
            (None, None) if self.deleted.contains(&name) => return Err(Refusal::Exists),
            (None, None) => {}
            (Some(_), None) => return Err(Refusal::NotFound),
            (Some(expected), Some(session)) => {
                if session.version != expected {
                    return Err(Refusal::Changed);
                }
                self.check_place(begin, &name, session)?;
            }
        }
        follows(0, &begin.segment)?;

        match self.sessions.get_mut(&name) {
            Some(session) => {
                session.version = receipt.version;
                session.config = begin.config.clone();
                session.updated_at = begin.at;
            }
            None => self.insert_session(name.clone(), &begin.config, begin.at, true),
        }
        if let Some(supersede) = &begin.supersedes {
            self.rest(&supersede.turn, &supersede.segment, &supersede.rest, receipt.version);
        }
        let mut ordinal = 0;
        if let Some(session) = self.sessions.get_mut(&name) {
            session.turns.push(begin.turn.clone());
            ordinal = session.turns.len() as u64;
        }
        let mut turn = Turn {
            session: name,
            age: self.turns_begun,
            node: Some(begin.node.clone()),
            epoch: 1,
            taken: receipt,
            taken_by: None,
            rest_version: 0,
            record: TurnRecord {
                id: begin.turn.clone(),
                ordinal,
                status: TurnStatus::Running,
                head: 0,
                messages: begin.messages.clone(),
                usage: Usage::default(),
                compaction: None,
                created_at: begin.at,
            },
            log: Vec::new(),
        };
        turn.push(&begin.segment);
        self.turns_begun += 1;
        self.turns.insert(begin.turn.clone(), turn);
        self.keep_key(&begin.tenant, begin.key.as_ref(), begin.at);
        Ok(receipt)
    }

    pub(super) fn kept(&self, tenant: &TenantId, key: &str, at: Timestamp) -> Option<&CommandKey> {
        let kept = self.keys.get(&(tenant.clone(), key.to_owned()))?;
        (kept.at > CommandKey::forgotten(at)).then_some(&kept.key)
    }

    /// Refuses a command whose key was kept not long ago.
    fn check_key(&self, tenant: &TenantId, key: Option<&CommandKey>, at: Timestamp) -> Result<(), Refusal> {
        match key.and_then(|key| self.kept(tenant, &key.key, at)) {
            None => Ok(()),
            Some(CommandKey { fingerprint, outcome, .. }) => {
                Err(Refusal::Repeated { fingerprint: fingerprint.clone(), outcome: outcome.clone() })
            }
        }
    }

    fn keep_key(&mut self, tenant: &TenantId, key: Option<&CommandKey>, at: Timestamp) {
        if let Some(key) = key {
            self.keys.insert((tenant.clone(), key.key.clone()), Kept { key: key.clone(), at });
        }
    }

    /// Whether the session's last turn lets the new one begin.
    fn check_place(&self, begin: &BeginTurn, name: &Name, session: &Session) -> Result<(), Refusal> {
        let last = session.turns.last().and_then(|id| self.turns.get(id));
        let free = last.is_none_or(|turn| turn.record.status == TurnStatus::Ended);
        let Some(supersede) = &begin.supersedes else {
            return if free { Ok(()) } else { Err(Refusal::Changed) };
        };
        let turn = self.turns.get(&supersede.turn).filter(|turn| turn.session == *name).ok_or(Refusal::NotFound)?;
        let waits = matches!(turn.record.status, TurnStatus::Waiting(_));
        if !waits || session.turns.last() != Some(&supersede.turn) {
            return Err(Refusal::Changed);
        }
        follows(turn.record.head, &supersede.segment)
    }

    fn resume_turn(&mut self, resume: &ResumeTurn) -> Verdict {
        let name = (resume.tenant.clone(), resume.session.clone());
        let version = resume.expected_version.saturating_add(1);
        if let Some(turn) = self.turns.get(&resume.turn).filter(|turn| turn.session == name)
            && turn.taken_by.as_ref() == Some(&resume.id)
        {
            return Ok(turn.taken);
        }
        self.check_key(&resume.tenant, resume.key.as_ref(), resume.at)?;
        let session = self.sessions.get_mut(&name).ok_or(Refusal::NotFound)?;
        let turn = self.turns.get_mut(&resume.turn).filter(|turn| turn.session == name).ok_or(Refusal::NotFound)?;
        if session.version != resume.expected_version || !matches!(turn.record.status, TurnStatus::Waiting(_)) {
            return Err(Refusal::Changed);
        }
        follows(turn.record.head, &resume.segment)?;

        session.version = version;
        session.config = resume.config.clone();
        session.updated_at = resume.at;
        turn.epoch += 1;
        turn.node = Some(resume.node.clone());
        turn.taken = Receipt { epoch: turn.epoch, version };
        turn.taken_by = Some(resume.id.clone());
        turn.record.status = TurnStatus::Running;
        turn.push(&resume.segment);
        let receipt = turn.taken;
        self.keep_key(&resume.tenant, resume.key.as_ref(), resume.at);
        Ok(receipt)
    }

    fn append(&mut self, append: &Append) -> Verdict {
        let turn = self.turns.get_mut(&append.turn).ok_or(Refusal::NotFound)?;
        if turn.epoch != append.epoch {
            return Err(Refusal::Fenced);
        }
        let plain = Receipt { epoch: turn.epoch, version: 0 };
        let head = turn.record.head;
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
        let Some(rest) = &append.rest else {
            turn.push(&append.segment);
            return Ok(plain);
        };
        if rest.status == TurnStatus::Running {
            return Err(Refusal::Changed);
        }
        let mut version = 0;
        if let Some(session) = self.sessions.get_mut(&turn.session) {
            session.version += 1;
            session.updated_at = append.at;
            version = session.version;
        }
        self.rest(&append.turn, &append.segment, rest, version);
        Ok(Receipt { version, ..plain })
    }

    fn rest(&mut self, turn: &TurnId, segment: &Segment, rest: &Rest, version: u64) {
        let Some(turn) = self.turns.get_mut(turn) else { return };
        turn.push(segment);
        if let Some(session) = self.sessions.get_mut(&turn.session) {
            let before = turn.record.usage;
            session.usage.input = session.usage.input.saturating_sub(before.input);
            session.usage.output = session.usage.output.saturating_sub(before.output);
            session.usage += rest.usage;
        }
        turn.node = None;
        turn.rest_version = version;
        turn.record.status = rest.status.clone();
        turn.record.messages = rest.messages.clone();
        turn.record.usage = rest.usage;
        turn.record.compaction = rest.compaction.clone();
    }

    fn delete_session(&mut self, tenant: &TenantId, session: &SessionId) -> Verdict {
        let name = (tenant.clone(), session.clone());
        if let Some(session) = self.sessions.remove(&name) {
            self.list.remove(&session.position);
            self.turns.retain(|_, turn| turn.session != name);
            self.deleted.insert(name);
        } else if !self.deleted.contains(&name) {
            return Err(Refusal::NotFound);
        }
        Ok(Receipt { epoch: 0, version: 0 })
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
                epoch: turn.epoch,
                head: turn.record.head,
            }
        });
        claimed.collect()
    }

    fn record(&self, name: &Name, session: &Session) -> SessionRecord {
        let last_turn = session.turns.last().and_then(|id| self.turns.get(id));
        SessionRecord {
            id: name.1.clone(),
            tenant: name.0.clone(),
            version: session.version,
            config: session.config.clone(),
            usage: session.usage,
            created_at: session.created_at,
            updated_at: session.updated_at,
            last_turn: last_turn
                .map(|turn| TurnSummary { id: turn.record.id.clone(), status: turn.record.status.clone() }),
        }
    }

    pub(super) fn session(&self, tenant: &TenantId, session: &SessionId) -> Option<SessionRecord> {
        let name = (tenant.clone(), session.clone());
        self.sessions.get(&name).map(|session| self.record(&name, session))
    }

    pub(super) fn sessions(&self, tenant: &TenantId, below: Option<u64>, limit: usize) -> Vec<SessionRow> {
        let page = self.list.range(..below.unwrap_or(u64::MAX)).rev();
        let rows = page.filter(|(_, name)| name.0 == *tenant).filter_map(|(position, name)| {
            let session = self.sessions.get(name)?;
            Some(SessionRow { position: *position, session: self.record(name, session) })
        });
        rows.take(limit).collect()
    }

    pub(super) fn turns(&self, tenant: &TenantId, session: &SessionId) -> Vec<TurnRecord> {
        let session = self.sessions.get(&(tenant.clone(), session.clone()));
        let turns = session.into_iter().flat_map(|session| &session.turns);
        turns.filter_map(|id| self.turns.get(id)).map(|turn| turn.record.clone()).collect()
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
