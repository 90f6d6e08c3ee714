//! Commands that are likely to be kept, and sometimes are not.

mod history;

use std::collections::HashMap;

use bytes::Bytes;
use everturn_core::{
    CancelReason, Event, Json, Message, Outcome, Segment, SegmentBuilder, SessionId, TenantId, Timestamp, TurnId,
};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};

use crate::{
    Command, CommandKey, DeleteSession, NodeId, Receipt, Record, RecordKind, Refusal, Rest, SessionRecord, SimStore,
    Store, TurnRecord, TurnStatus, Write,
    contract::fixture::{
        Talk, append, append_rest, ended, key, keyed, node, put, put_if, record, replace_log, rest, segment, timed,
        waiting_until, with_writes,
    },
};

/// How many keys there are.
pub(super) const KEYS: u32 = 8;

/// How many names of records there are.
pub(super) const RECORDS: u32 = 4;

/// The states of records.
pub(super) const STATES: [&str; 2] = ["open", "closed"];

/// As long as keys are kept.
pub(super) const DAY: i64 = CommandKey::KEPT;

/// A few names, so that commands meet each other.
pub(super) struct World {
    pub(super) random: StdRng,
    pub(super) talks: Vec<Talk>,
    pub(super) turns: Vec<TurnId>,
    /// The epochs that were given.
    pub(super) epochs: HashMap<TurnId, u64>,
    pub(super) node: NodeId,
    /// What the commands take for now.
    pub(super) clock: i64,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let names: Vec<SessionId> = (0..3).map(|_| SessionId::mint()).collect();
        let owners = ["acme", "globex"];
        let talks = owners
            .into_iter()
            .flat_map(|owner| names.iter().map(move |name| Talk { session: name.clone(), ..Talk::new(owner) }));
        Self {
            random: StdRng::seed_from_u64(seed),
            talks: talks.collect(),
            turns: vec![TurnId::mint()],
            epochs: HashMap::new(),
            node: node("owner 0"),
            clock: 0,
        }
    }

    /// The owners of the sessions.
    pub(super) fn tenants(&self) -> [&TenantId; 2] {
        [&self.talks[0].tenant, &self.talks[3].tenant]
    }

    pub(super) fn learn(&mut self, command: &Command, verdict: &Result<Receipt, Refusal>) {
        let turn = match command {
            Command::BeginTurn(begin) => &begin.turn,
            Command::ResumeTurn(resume) => &resume.turn,
            Command::DeleteSession(DeleteSession { session, .. }) => {
                // The name is spent. Sometimes it is tried again, mostly another takes its place.
                for talk in self.talks.iter_mut().filter(|talk| talk.session == *session) {
                    if verdict.is_ok() && self.random.random_ratio(3, 4) {
                        talk.session = SessionId::mint();
                    }
                }
                return;
            }
            Command::CreateSession(_)
            | Command::EndTurn(_)
            | Command::TruncateSession(_)
            | Command::Append(_)
            | Command::Put(_)
            | Command::ReplaceLog(_)
            | Command::ForgetDeleted { .. } => return,
        };
        if let Ok(receipt) = verdict {
            self.epochs.insert(turn.clone(), receipt.epoch);
        }
    }

    pub(super) async fn batch(&mut self, model: &SimStore) -> Vec<Command> {
        let mut batch: Vec<Command> = Vec::new();
        for _ in 0..self.random.random_range(0..5) {
            let command = match batch.choose(&mut self.random) {
                Some(again) if self.random.random_ratio(1, 6) => again.clone(),
                Some(_) | None => self.command(model).await,
            };
            batch.push(command);
        }
        batch
    }

    /// A command, sometimes with a key, sometimes with something that it brings along. Time goes on, by little or by
    /// much.
    async fn command(&mut self, model: &SimStore) -> Command {
        let mut talk = self.talks.choose(&mut self.random).expect("a session").clone();
        talk.node = self.node.clone();
        self.clock += match self.random.random_range(0..16) {
            0 => DAY / 2,
            1..8 => 0,
            _ => self.random.random_range(0..DAY / 32),
        };
        let mut command = timed(self.bare_command(&talk, model).await, self.clock);
        let is_put = matches!(command, Command::Put(_));
        if is_put || self.random.random_ratio(1, 4) {
            let writes = (0..self.random.random_range(1..4)).map(|_| self.write(&talk)).collect();
            command = with_writes(command, writes);
        }
        if self.random.random_ratio(1, 3) {
            let name = self.random.random_range(0..KEYS).to_string();
            command = keyed(command, &key(&name, &self.random.random::<u8>().to_string()), self.clock);
        }
        command
    }

    async fn bare_command(&mut self, talk: &Talk, model: &SimStore) -> Command {
        let session = model.session(&talk.tenant, &talk.session).await.expect("a read");
        let turns = model.turns(&talk.tenant, &talk.session).await.expect("a read");
        match self.random.random_range(0..40) {
            0 if self.random.random() => talk.delete(),
            0 => talk.delete_if_idle(self.clock - self.random.random_range(0..DAY)),
            1 => Command::ForgetDeleted { before: Timestamp(self.clock - self.random.random_range(0..2 * DAY)) },
            2..6 => self.put(talk, model).await,
            _ if session.is_none() && self.random.random_ratio(3, 4) => self.creation(talk, model).await,
            6..14 if turns.iter().all(|turn| turn.status.is_ended()) || self.random.random_ratio(1, 8) => {
                self.truncation(talk, session.as_ref(), &turns)
            }
            14 if self.random.random_ratio(1, 3) => self.creation(talk, model).await,
            _ => self.begins_history(|world| world.turn_command(talk, session.as_ref(), &turns)),
        }
    }

    /// A command about one of the session's turns, or a new one.
    fn turn_command(&mut self, talk: &Talk, session: Option<&SessionRecord>, turns: &[TurnRecord]) -> Command {
        if self.random.random_ratio(1, 2) {
            self.turns.push(TurnId::mint());
        }
        let any = if self.random.random_ratio(1, 8) { self.turns.choose(&mut self.random) } else { self.turns.last() };
        let new = any.expect("a turn").clone();
        let version = session.map(|session| self.near(session.version));
        let expected = version.unwrap_or(1);
        let last = session.and_then(|session| session.last_turn.as_ref());
        let current = turns.iter().find(|turn| Some(&turn.id) == last.map(|last| &last.id));
        let queued: Vec<&TurnRecord> = turns.iter().filter(|turn| turn.status == TurnStatus::Queued).collect();
        let count = *[0, 1, 1, 2, 30].choose(&mut self.random).expect("a count");

        let is_behind = self.random.random_ratio(1, if queued.len() > 2 { 40 } else { 8 });
        if session.is_some() && is_behind {
            return talk.queue(&new, expected);
        }
        if let Some(turn) = queued.choose(&mut self.random)
            && self.random.random_ratio(1, 12)
        {
            return talk.end(&turn.id, expected, segment(self.near(1), count));
        }
        match current.map(|turn| (turn, &turn.status)) {
            Some((turn, TurnStatus::Running)) => {
                let epoch = self.epochs.get(&turn.id).copied().unwrap_or(1);
                let epoch = self.near(epoch);
                let events = segment(self.near(turn.head + 1), count);
                if self.random.random_ratio(1, 3) {
                    let (status, tokens) = (self.status(), self.random.random_range(0..100));
                    append_rest(&turn.id, epoch, events, self.rest(turn, rest(status, tokens)))
                } else {
                    append(&turn.id, epoch, events)
                }
            }
            Some((turn, TurnStatus::Waiting(_))) => {
                let events = segment(self.near(turn.head + 1), count.max(1));
                match self.random.random_range(0..7) {
                    0 => talk.begin(&new, version, 1),
                    1 | 2 => talk.replace(&new, expected, &turn.id, events),
                    3 => append(&turn.id, 1, events),
                    4 => talk.end(&turn.id, expected, events),
                    _ => talk.resume(&turn.id, expected, events),
                }
            }
            Some((turn, TurnStatus::Ended(_))) if self.random.random_ratio(1, 3) => {
                match self.random.random_range(0..4) {
                    0 => append_rest(&turn.id, 1, segment(self.near(turn.head), count), rest(ended(), 1)),
                    1 => talk.end(&turn.id, expected.saturating_sub(1), segment(self.near(turn.head), 1)),
                    _ => {
                        let log = self.shortened(turn.head);
                        replace_log(&turn.id, log, self.random.random_range(0..4))
                    }
                }
            }
            Some(_) | None => match queued.as_slice() {
                [first, ..] if self.random.random_ratio(3, 4) => {
                    let turn =
                        if self.random.random_ratio(1, 4) { queued.choose(&mut self.random) } else { Some(first) };
                    talk.resume(&turn.expect("a turn").id, expected, segment(self.near(1), count.max(1)))
                }
                _ => talk.begin(&new, version, count.max(1)),
            },
        }
    }

    /// The rest, of which some keep what is there, and some say more than there is.
    fn rest(&mut self, turn: &TurnRecord, rest: Rest) -> Rest {
        let keeps = if self.random.random() { turn.messages.len() } else { self.random.random_range(0..5) };
        let count = self.random.random_range(0..4);
        let messages = (0..count).map(|_| Message::user(self.random.random::<u16>().to_string())).collect();
        Rest { keeps, messages, ..rest }
    }

    /// How a turn rests.
    fn status(&mut self) -> TurnStatus {
        match self.random.random_range(0..6) {
            0 => TurnStatus::Ended(Outcome::Cancelled { reason: CancelReason::UserStop }),
            1 | 2 => ended(),
            3 | 4 => waiting_until(Some(self.random.random_range(0..10))),
            _ => waiting_until(None),
        }
    }

    /// A log of about as many events, most of them dropped.
    fn shortened(&mut self, head: u64) -> Vec<Segment> {
        let head = self.near(head);
        let mut builder = SegmentBuilder::new(1);
        let mut segments = Vec::new();
        while builder.next_seq() <= head {
            let left = (head + 1 - builder.next_seq()) as u32;
            let count = self.random.random_range(1..=left);
            builder.push(
                Timestamp(1),
                &if count == 1 { Event::TextDelta("left".to_owned()) } else { Event::Dropped { count } },
            );
            if self.random.random() {
                segments.push(builder.take());
            }
        }
        segments.push(builder.take());
        segments
    }

    /// A change of records, which sometimes expects something.
    async fn put(&mut self, talk: &Talk, model: &SimStore) -> Command {
        if self.random.random() {
            return put(&talk.tenant, Vec::new());
        }
        let expected = self.record(talk);
        let found = model.record(&talk.tenant, expected.kind, &expected.id).await.expect("a read");
        let revision = if self.random.random_ratio(1, 6) { Some(2) } else { found.map(|row| row.revision) };
        put_if(&talk.tenant, &expected, revision, Vec::new())
    }

    fn record(&mut self, talk: &Talk) -> Record {
        let kind = match self.random.random_range(0..12) {
            0 | 1 => RecordKind::Key,
            2 | 3 => RecordKind::Notice,
            4..8 => RecordKind::Form,
            _ => RecordKind::Document,
        };
        let id = self.random.random_range(0..RECORDS).to_string();
        let session = match self.random.random_range(0..8) {
            0 => Some(self.talks.choose(&mut self.random).expect("a session").session.clone()),
            1..4 => Some(talk.session.clone()),
            _ => None,
        };
        let state = STATES.choose(&mut self.random).expect("a state");
        let says = self.random.random_range(0..4).to_string();
        Record { turn: self.turns.last().cloned(), ..record(kind, &id, session.as_ref(), state, &says) }
    }

    fn write(&mut self, talk: &Talk) -> Write {
        let new = self.record(talk);
        let Record { kind, id, state, session, .. } = new.clone();
        match self.random.random_range(0..13) {
            0 => Write::Remove { kind, id },
            1 | 2 => {
                let outcome = self.random.random::<bool>().then(Json::empty_object);
                Write::Close { kind, id, state, outcome }
            }
            3 | 4 => {
                let bytes = Bytes::from(vec![self.random.random(); 10]);
                Write::Blob { kind, id, part: self.random.random_range(0..2), bytes }
            }
            5 => {
                let title = self.random.random::<u8>().to_string();
                Write::Title { session: session.unwrap_or_else(|| talk.session.clone()), title }
            }
            6..9 => self.usage(),
            _ => Write::Record(new),
        }
    }

    /// The number itself, or, rarely, one beside it.
    fn near(&mut self, number: u64) -> u64 {
        match self.random.random_range(0..12) {
            0 => number + 1,
            1 => number.saturating_sub(1).max(1),
            _ => number,
        }
    }
}
