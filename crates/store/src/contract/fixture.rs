//! What the rules are told with: a conversation that makes commands, and readers that check as they read.

use std::sync::Arc;

use everturn_core::{
    CallId, CommandId, Compaction, Event, Message, OptionValue, Segment, SegmentBuilder, SessionConfig, SessionId,
    TenantId, Timestamp, TurnId, Usage, WaitingCall, WaitingFor,
};

use crate::{
    Append, BeginTurn, Command, CommandKey, NewSession, NodeId, Receipt, Refusal, Rest, ResumeTurn, Store, Supersede,
    TurnStatus,
};

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
    let call = WaitingCall { id: CallId::new("call 1"), name: "ask".to_owned(), waiting_for: WaitingFor::Permission };
    TurnStatus::Waiting(vec![call])
}

pub(crate) fn rest(status: TurnStatus, tokens: u64) -> Rest {
    Rest {
        status,
        messages: vec![Message::user("hello"), Message::assistant(format!("answer of {tokens} tokens"))],
        usage: Usage { input: tokens, output: 2 * tokens },
        compaction: Some(Compaction { summary: "so far".to_owned(), covers: 3, usage: Usage::default() }),
    }
}

pub(crate) fn append(turn: &TurnId, epoch: u64, segment: Segment) -> Command {
    Command::Append(Append { turn: turn.clone(), epoch, segment, rest: None, at: Timestamp(30) })
}

pub(crate) fn append_rest(turn: &TurnId, epoch: u64, segment: Segment, rest: Rest) -> Command {
    Command::Append(Append { turn: turn.clone(), epoch, segment, rest: Some(rest), at: Timestamp(40) })
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

/// The command with a key, at a time. Commands that take none stay as they are.
pub(crate) fn keyed(mut command: Command, key: &CommandKey, at: i64) -> Command {
    match &mut command {
        Command::BeginTurn(begin) => (begin.key, begin.at) = (Some(key.clone()), Timestamp(at)),
        Command::ResumeTurn(resume) => (resume.key, resume.at) = (Some(key.clone()), Timestamp(at)),
        Command::CreateSession(_) | Command::Append(_) | Command::DeleteSession { .. } => {}
    }
    command
}

impl Talk {
    /// A session that does not exist yet.
    pub(crate) fn new(owner: &str) -> Self {
        Self { tenant: tenant(owner), session: SessionId::mint(), node: node("node a") }
    }

    pub(crate) fn create(&self) -> Command {
        let (tenant, id) = (self.tenant.clone(), self.session.clone());
        Command::CreateSession(NewSession { tenant, id, config: config("created"), at: Timestamp(10) })
    }

    pub(crate) fn delete(&self) -> Command {
        Command::DeleteSession { tenant: self.tenant.clone(), session: self.session.clone() }
    }

    pub(crate) fn begin_turn(&self, turn: &TurnId, expected_version: Option<u64>, count: u64) -> BeginTurn {
        BeginTurn {
            tenant: self.tenant.clone(),
            session: self.session.clone(),
            expected_version,
            config: config("begun"),
            supersedes: None,
            turn: turn.clone(),
            node: self.node.clone(),
            segment: segment(1, count),
            messages: vec![Message::user("hello")],
            key: None,
            at: Timestamp(20),
        }
    }

    pub(crate) fn begin(&self, turn: &TurnId, expected_version: Option<u64>, count: u64) -> Command {
        Command::BeginTurn(Box::new(self.begin_turn(turn, expected_version, count)))
    }

    /// Begins a turn in the place of another.
    pub(crate) fn replace(&self, turn: &TurnId, expected_version: u64, old: &TurnId, last: Segment) -> Command {
        let mut begin = self.begin_turn(turn, Some(expected_version), 1);
        begin.supersedes = Some(Supersede { turn: old.clone(), segment: last, rest: rest(TurnStatus::Ended, 7) });
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
            key: None,
            at: Timestamp(50),
        }))
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
    let segments = store.read(turn, after, max_bytes).await.expect("the log can be read");
    let mut events = Vec::new();
    for (index, segment) in segments.iter().enumerate() {
        assert!(segment.last_seq() > after, "a segment before the one that was asked for");
        assert!(index > 0 || segment.first_seq() <= after + 1, "a gap after seq {after}");
        for event in segment.events() {
            let event = event.expect("the segment is what was written");
            events.push((event.seq, event.decode().expect("the event is what was written")));
        }
    }
    assert!(events.windows(2).all(|pair| pair[0].0 + 1 == pair[1].0), "a gap within a page");
    events.retain(|(seq, _)| *seq > after);
    events
}

/// A whole log.
pub(crate) async fn read_all(store: &Arc<dyn Store>, turn: &TurnId, max_bytes: usize) -> Vec<(u64, Event)> {
    let mut events: Vec<(u64, Event)> = Vec::new();
    loop {
        let more = page(store, turn, events.len() as u64, max_bytes).await;
        if more.is_empty() {
            return events;
        }
        events.extend(more);
    }
}

/// Fails unless a log is the events of [`segment`] from 1 to `head`.
pub(crate) async fn assert_log(store: &Arc<dyn Store>, turn: &TurnId, head: u64) {
    let expected: Vec<_> = (1..=head).map(|seq| (seq, Event::TextDelta(format!("event {seq}")))).collect();
    let found = read_all(store, turn, 4096).await;
    assert!(found == expected, "the log of {turn} has {} events where {head} were committed", found.len());
}
