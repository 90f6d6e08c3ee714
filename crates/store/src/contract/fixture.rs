//! What the rules are told with: a conversation that makes commands, and readers that check as they read.

mod history;

use std::sync::Arc;

use everturn_core::{
    CallId, CommandId, Compaction, Effort, Event, Json, Message, ModelOptions, OptionValue, Outcome, Segment,
    SegmentBuilder, SessionConfig, SessionId, TenantId, Timestamp, TurnId, Usage, Wait, WaitingCall, WaitingFor,
};

use crate::{
    Append, BeginTurn, Command, CommandKey, DeleteSession, EndTurn, Expect, NewSession, NodeId, Put, Receipt, Record,
    RecordKind, Refusal, ReplaceLog, Rest, ResumeTurn, SessionRecord, Start, Store, Supersede, TurnRecord, TurnStatus,
    Write,
};

pub(crate) use self::history::over;

/// Commands about one session.
#[derive(Clone, Debug)]
pub(crate) struct Talk {
    pub(crate) tenant: TenantId,
    pub(crate) session: SessionId,
    pub(crate) node: NodeId,
}

pub(crate) fn tenant(name: &str) -> TenantId {
    name.parse().expect("a tenant id")
}

pub(crate) fn node(name: &str) -> NodeId {
    NodeId(name.to_owned())
}

pub(crate) fn config(agent: &str) -> SessionConfig {
    let options = [("language".to_owned(), OptionValue::Plain("日本語".to_owned()))].into();
    SessionConfig { agent: agent.to_owned(), options, ..SessionConfig::default() }
}

/// `count` events from `first_seq`, each of which tells its seq.
pub(crate) fn segment(first_seq: u64, count: u64) -> Segment {
    let mut builder = SegmentBuilder::new(first_seq);
    for seq in first_seq..first_seq + count {
        builder.push(Timestamp(1_000_000 + seq as i64), &Event::TextDelta(format!("event {seq}")));
    }
    builder.take()
}

pub(crate) fn waiting() -> TurnStatus {
    waiting_until(None)
}

/// Waits for somebody, but no longer than this.
pub(crate) fn waiting_until(until: Option<i64>) -> TurnStatus {
    let (id, name, until) = (CallId::new("call 1"), "ask".to_owned(), until.map(Timestamp));
    TurnStatus::Waiting(Wait::of(vec![WaitingCall { id, name, waiting_for: WaitingFor::Permission, until }]))
}

pub(crate) fn ended() -> TurnStatus {
    TurnStatus::Ended(Outcome::Completed)
}

/// So many tokens read, and other numbers of each other kind. Nothing that they have to do with each other is the
/// store's business.
pub(crate) fn usage(tokens: u64) -> Usage {
    let [output, cached_input, cache_write, reasoning] = [2, 3, 5, 7].map(|times| tokens.saturating_mul(times));
    Usage { input: tokens, output, cached_input, cache_write, reasoning }
}

/// What a queued turn asks of the model.
pub(crate) fn options() -> ModelOptions {
    ModelOptions { effort: Some(Effort::High), stop: vec!["ende \"日本\"".to_owned()], ..ModelOptions::default() }
}

pub(crate) fn rest(status: TurnStatus, tokens: u64) -> Rest {
    Rest {
        status,
        keeps: 0,
        messages: vec![Message::user("hello"), Message::assistant(format!("answer of {tokens} tokens"))],
        usage: usage(tokens),
        compaction: Some(Compaction {
            summary: "so far".to_owned(),
            covers: 3,
            usage: Usage::default(),
            ..Compaction::default()
        }),
    }
}

pub(crate) fn append(turn: &TurnId, epoch: u64, segment: Segment) -> Command {
    Command::Append(Append { turn: turn.clone(), epoch, segment, rest: None, writes: Vec::new(), at: Timestamp(30) })
}

pub(crate) fn append_rest(turn: &TurnId, epoch: u64, segment: Segment, rest: Rest) -> Command {
    let turn = turn.clone();
    Command::Append(Append { turn, epoch, segment, rest: Some(rest), writes: Vec::new(), at: Timestamp(40) })
}

/// A key of a command that says something.
pub(crate) fn key(name: &str, says: &str) -> CommandKey {
    let (fingerprint, outcome) = (format!("print of {says}"), format!("outcome of {says}"));
    CommandKey { key: name.to_owned(), fingerprint, outcome }
}

/// What whoever repeats the key of such a command is told.
pub(crate) fn repeated(says: &str) -> Result<Receipt, Refusal> {
    let CommandKey { fingerprint, outcome, .. } = key("", says);
    Err(Refusal::Repeated { fingerprint, outcome })
}

/// A record that says something.
pub(crate) fn record(kind: RecordKind, id: &str, session: Option<&SessionId>, state: &str, says: &str) -> Record {
    let body = Json::of(&says).expect("text is valid JSON");
    Record {
        kind,
        id: id.to_owned(),
        session: session.cloned(),
        turn: None,
        state: state.to_owned(),
        body,
        outcome: None,
    }
}

/// Writes, and nothing else.
pub(crate) fn put(owner: &TenantId, writes: Vec<Write>) -> Command {
    let at = Timestamp(70);
    Command::Put(Box::new(Put { tenant: owner.clone(), expects: Vec::new(), writes, key: None, at }))
}

/// The same, if the record is at this revision.
pub(crate) fn put_if(owner: &TenantId, record: &Record, revision: Option<u64>, writes: Vec<Write>) -> Command {
    let expects = vec![Expect { kind: record.kind, id: record.id.clone(), revision }];
    Command::Put(Box::new(Put { tenant: owner.clone(), expects, writes, key: None, at: Timestamp(70) }))
}

/// Puts another log in the place of a turn's.
pub(crate) fn replace_log(turn: &TurnId, segments: Vec<Segment>, level: u8) -> Command {
    Command::ReplaceLog(Box::new(ReplaceLog { turn: turn.clone(), segments, level }))
}

/// The command with what it brings along. Commands that bring nothing stay as they are.
pub(crate) fn with_writes(mut command: Command, new: Vec<Write>) -> Command {
    match &mut command {
        Command::BeginTurn(begin) => begin.writes = new,
        Command::ResumeTurn(resume) => resume.writes = new,
        Command::EndTurn(end) => end.writes = new,
        Command::Append(append) => append.writes = new,
        Command::Put(put) => put.writes = new,
        Command::CreateSession(_)
        | Command::TruncateSession(_)
        | Command::DeleteSession(_)
        | Command::ReplaceLog(_)
        | Command::ForgetDeleted { .. } => {}
    }
    command
}

/// The command, at a time.
pub(crate) fn timed(mut command: Command, at: i64) -> Command {
    let at = Timestamp(at);
    match &mut command {
        Command::CreateSession(new) => new.at = at,
        Command::BeginTurn(begin) => begin.at = at,
        Command::ResumeTurn(resume) => resume.at = at,
        Command::EndTurn(end) => end.at = at,
        Command::TruncateSession(truncate) => truncate.at = at,
        Command::Append(append) => append.at = at,
        Command::Put(put) => put.at = at,
        Command::DeleteSession(delete) => delete.at = at,
        Command::ReplaceLog(_) | Command::ForgetDeleted { .. } => {}
    }
    command
}

/// The command with a key, at a time. Commands that take none stay as they are.
pub(crate) fn keyed(mut command: Command, key: &CommandKey, at: i64) -> Command {
    match &mut command {
        Command::BeginTurn(begin) => (begin.key, begin.at) = (Some(key.clone()), Timestamp(at)),
        Command::ResumeTurn(resume) => (resume.key, resume.at) = (Some(key.clone()), Timestamp(at)),
        Command::EndTurn(end) => (end.key, end.at) = (Some(key.clone()), Timestamp(at)),
        Command::Put(put) => (put.key, put.at) = (Some(key.clone()), Timestamp(at)),
        Command::DeleteSession(delete) => (delete.key, delete.at) = (Some(key.clone()), Timestamp(at)),
        Command::CreateSession(new) => (new.key, new.at) = (Some(key.clone()), Timestamp(at)),
        Command::TruncateSession(truncate) => (truncate.key, truncate.at) = (Some(key.clone()), Timestamp(at)),
        Command::Append(_) | Command::ReplaceLog(_) | Command::ForgetDeleted { .. } => {}
    }
    command
}

impl Talk {
    /// A session that does not exist yet.
    pub(crate) fn new(owner: &str) -> Self {
        Self { tenant: tenant(owner), session: SessionId::mint(), node: node("node a") }
    }

    pub(crate) fn create(&self) -> Command {
        Command::CreateSession(Box::new(self.new_session()))
    }

    pub(crate) fn new_session(&self) -> NewSession {
        NewSession {
            tenant: self.tenant.clone(),
            id: self.session.clone(),
            config: config("created"),
            title: None,
            shares: None,
            turns: Vec::new(),
            key: None,
            at: Timestamp(10),
        }
    }

    pub(crate) fn delete(&self) -> Command {
        let (tenant, session) = (self.tenant.clone(), self.session.clone());
        Command::DeleteSession(DeleteSession { tenant, session, idle_before: None, key: None, at: Timestamp(60) })
    }

    pub(crate) fn delete_if_idle(&self, before: i64) -> Command {
        let (tenant, session) = (self.tenant.clone(), self.session.clone());
        let idle_before = Some(Timestamp(before));
        Command::DeleteSession(DeleteSession { tenant, session, idle_before, key: None, at: Timestamp(before) })
    }

    pub(crate) fn begin_turn(&self, turn: &TurnId, expected_version: Option<u64>, count: u64) -> BeginTurn {
        BeginTurn {
            tenant: self.tenant.clone(),
            session: self.session.clone(),
            expected_version,
            config: config("begun"),
            supersedes: None,
            turn: turn.clone(),
            start: Start::Now(self.node.clone()),
            segment: segment(1, count),
            messages: vec![Message::user("hello")],
            begins_history: false,
            by: None,
            options: ModelOptions::default(),
            writes: Vec::new(),
            key: None,
            at: Timestamp(20),
        }
    }

    pub(crate) fn begin(&self, turn: &TurnId, expected_version: Option<u64>, count: u64) -> Command {
        Command::BeginTurn(Box::new(self.begin_turn(turn, expected_version, count)))
    }

    /// Puts a turn into the queue.
    pub(crate) fn queue(&self, turn: &TurnId, expected_version: u64) -> Command {
        let start = Start::Queued;
        Command::BeginTurn(Box::new(BeginTurn {
            start,
            options: options(),
            ..self.begin_turn(turn, Some(expected_version), 0)
        }))
    }

    /// Ends a turn that rests, by these events.
    pub(crate) fn end(&self, turn: &TurnId, expected_version: u64, segment: Segment) -> Command {
        Command::EndTurn(Box::new(EndTurn {
            tenant: self.tenant.clone(),
            session: self.session.clone(),
            expected_version,
            turn: turn.clone(),
            segment,
            rest: rest(ended(), 3),
            writes: Vec::new(),
            key: None,
            at: Timestamp(55),
        }))
    }

    /// Begins a turn in the place of another.
    pub(crate) fn replace(&self, turn: &TurnId, expected_version: u64, old: &TurnId, last: Segment) -> Command {
        let mut begin = self.begin_turn(turn, Some(expected_version), 1);
        begin.supersedes = Some(Supersede { turn: old.clone(), segment: last, rest: rest(ended(), 7) });
        Command::BeginTurn(Box::new(begin))
    }

    pub(crate) fn resume(&self, turn: &TurnId, expected_version: u64, segment: Segment) -> Command {
        Command::ResumeTurn(Box::new(ResumeTurn {
            id: CommandId::mint(),
            tenant: self.tenant.clone(),
            session: self.session.clone(),
            expected_version,
            config: config("resumed"),
            turn: turn.clone(),
            node: self.node.clone(),
            segment,
            writes: Vec::new(),
            key: None,
            at: Timestamp(50),
        }))
    }

    /// The session, which must be there.
    pub(crate) async fn read(&self, store: &Arc<dyn Store>) -> SessionRecord {
        store.session(&self.tenant, &self.session).await.expect("a read").expect("a session")
    }

    /// One of its turns, which must be there.
    pub(crate) async fn read_turn(&self, store: &Arc<dyn Store>, turn: &TurnId) -> TurnRecord {
        store.turn(&self.tenant, &self.session, turn).await.expect("a read").expect("a turn")
    }

    /// Begins a session with one event, and lets its turn wait at event 2, at version 2.
    pub(crate) async fn wait(&self, store: &Arc<dyn Store>, turn: &TurnId) {
        accept(store, self.begin(turn, None, 1)).await;
        accept(store, append_rest(turn, 1, segment(2, 1), rest(waiting(), 5))).await;
    }
}

pub(crate) async fn commit(store: &Arc<dyn Store>, batch: Vec<Command>) -> Vec<Result<Receipt, Refusal>> {
    store.commit(Arc::new(batch)).await.expect("the batch is kept")
}

pub(crate) async fn submit(store: &Arc<dyn Store>, command: Command) -> Result<Receipt, Refusal> {
    let mut verdicts = commit(store, vec![command]).await;
    assert_eq!(verdicts.len(), 1, "one verdict per command");
    verdicts.remove(0)
}

pub(crate) async fn accept(store: &Arc<dyn Store>, command: Command) -> Receipt {
    submit(store, command).await.expect("the command is kept")
}

pub(crate) fn receipt(epoch: u64, version: u64) -> Result<Receipt, Refusal> {
    Ok(Receipt { epoch, version })
}

/// One page of a log as events. Fails if there is a gap, a repetition, or a segment that was not asked for.
pub(crate) async fn page(store: &Arc<dyn Store>, turn: &TurnId, after: u64, max_bytes: usize) -> Vec<(u64, Event)> {
    page_to(store, turn, after, max_bytes).await.0
}

/// One page of a log, and where it ends.
async fn page_to(store: &Arc<dyn Store>, turn: &TurnId, after: u64, max_bytes: usize) -> (Vec<(u64, Event)>, u64) {
    let segments = store.read(turn, after, max_bytes).await.expect("the log can be read");
    let mut events = Vec::new();
    let mut last = segments.first().map_or(after, |segment| segment.first_seq() - 1);
    assert!(last <= after, "a gap after seq {after}");
    for segment in &segments {
        assert!(segment.last_seq() > after, "a segment before the one that was asked for");
        assert_eq!(segment.first_seq(), last + 1, "a gap within a page");
        for event in segment.events() {
            let event = event.expect("the segment is what was written");
            assert_eq!(event.seq, last + 1, "a gap within a segment");
            last = event.last_seq;
            if last > after {
                events.push((event.seq, event.decode().expect("the event is what was written")));
            }
        }
        assert_eq!(segment.last_seq(), last, "a segment that says something else than its events");
    }
    (events, last.max(after))
}

/// A whole log.
pub(crate) async fn read_all(store: &Arc<dyn Store>, turn: &TurnId, max_bytes: usize) -> Vec<(u64, Event)> {
    let (mut events, mut after) = (Vec::new(), 0);
    loop {
        let (more, last) = page_to(store, turn, after, max_bytes).await;
        if more.is_empty() {
            return events;
        }
        events.extend(more);
        after = last;
    }
}

/// Fails unless a log is the events of [`segment`] from 1 to `head`.
pub(crate) async fn assert_log(store: &Arc<dyn Store>, turn: &TurnId, head: u64) {
    let expected: Vec<_> = (1..=head).map(|seq| (seq, Event::TextDelta(format!("event {seq}")))).collect();
    let found = read_all(store, turn, 4096).await;
    assert!(found == expected, "the log of {turn} has {} events where {head} were committed", found.len());
}
