//! Random commands against a store and the model give the same verdicts and the same reads.

use std::{collections::HashMap, sync::Arc};

use everturn_core::{SessionId, Timestamp, TurnId};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};

use super::{
    Harness,
    fixture::{Talk, append, append_rest, key, keyed, node, read_all, rest, segment, waiting},
};
use crate::{Command, CommandKey, NodeId, Receipt, Refusal, SimStore, Store, TurnStatus};

/// Each seed gives one sequence of batches. A failure names the seed; `STORE_CONTRACT_SEED` runs that one alone.
pub async fn random_commands_agree_with_the_model<H: Harness>(fresh: impl Fn() -> H) {
    const SEEDS: u64 = 20;
    let seeds = match std::env::var("STORE_CONTRACT_SEED") {
        Ok(seed) => {
            let seed = seed.parse().expect("STORE_CONTRACT_SEED is a number");
            seed..seed + 1
        }
        Err(_) => 0..SEEDS,
    };
    let mut tally = Tally::default();
    let is_whole = seeds.clone() == (0..SEEDS);
    for seed in seeds {
        run(&fresh(), seed, &mut tally).await;
    }
    // Sequences that do not get anywhere would agree as well.
    assert!(!is_whole || tally.is_varied(), "{tally:?}");
}

/// What became of the commands.
#[derive(Debug, Default)]
struct Tally {
    kept: HashMap<&'static str, u32>,
    refused: HashMap<&'static str, u32>,
}

impl Tally {
    fn count(&mut self, command: &Command, verdict: &Result<Receipt, Refusal>) {
        let kind = match command {
            Command::CreateSession(_) => "create",
            Command::BeginTurn(begin) if begin.supersedes.is_some() => "supersede",
            Command::BeginTurn(_) => "begin",
            Command::ResumeTurn(_) => "resume",
            Command::Append(append) if append.rest.is_some() => "rest",
            Command::Append(_) => "append",
            Command::DeleteSession { .. } => "delete",
        };
        let refusal = match verdict {
            Ok(_) => return *self.kept.entry(kind).or_default() += 1,
            Err(Refusal::NotFound) => "not found",
            Err(Refusal::Exists) => "exists",
            Err(Refusal::Changed) => "changed",
            Err(Refusal::Repeated { .. }) => "repeated",
            Err(Refusal::Fenced) => "fenced",
            Err(Refusal::Gap { .. }) => "gap",
        };
        *self.refused.entry(refusal).or_default() += 1;
    }

    fn is_varied(&self) -> bool {
        self.kept.len() == 7 && self.refused.len() == 6 && self.kept.values().all(|count| *count >= 20)
    }
}

async fn run(harness: &impl Harness, seed: u64, tally: &mut Tally) {
    let mut world = World::new(seed);
    let model = SimStore::new();
    let mut owner = 0;
    let mut store = harness.open().await;
    for round in 0..60 {
        let place = format!("seed {seed}, round {round}");
        match world.random.random_range(0..20) {
            0 => {
                drop(store);
                store = harness.open().await;
            }
            1 => {
                owner += 1;
                let (node, limit) = (node(&format!("owner {owner}")), world.random.random_range(0..4));
                let claimed = store.claim(&node, limit).await;
                assert_eq!(claimed, model.claim(&node, limit).await, "{place}");
                let claimed = claimed.expect("claims");
                world.epochs.extend(claimed.into_iter().map(|claim| (claim.turn, claim.epoch)));
                world.node = node;
            }
            _ => {
                let batch = Arc::new(world.batch(&model).await);
                let verdicts = store.commit(Arc::clone(&batch)).await;
                let expected = model.commit(Arc::clone(&batch)).await;
                assert_eq!(verdicts, expected, "{place}: {batch:#?}");
                let verdicts = verdicts.expect("the batch is kept");
                for (command, verdict) in batch.iter().zip(&verdicts) {
                    tally.count(command, verdict);
                    world.learn(command, verdict);
                }
            }
        }
        world.compare(&store, &model, &place).await;
    }
}

/// A few names, so that commands meet each other.
struct World {
    random: StdRng,
    talks: Vec<Talk>,
    turns: Vec<TurnId>,
    /// The epochs that were given.
    epochs: HashMap<TurnId, u64>,
    node: NodeId,
    /// What the commands that have a key take for now.
    clock: i64,
}

/// How many keys there are.
const KEYS: u32 = 8;

impl World {
    fn new(seed: u64) -> Self {
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

    fn learn(&mut self, command: &Command, verdict: &Result<Receipt, Refusal>) {
        let turn = match command {
            Command::BeginTurn(begin) => &begin.turn,
            Command::ResumeTurn(resume) => &resume.turn,
            Command::DeleteSession { session, .. } => {
                // The name is spent. Sometimes it is tried again, mostly another takes its place.
                for talk in self.talks.iter_mut().filter(|talk| talk.session == *session) {
                    if verdict.is_ok() && self.random.random_ratio(3, 4) {
                        talk.session = SessionId::mint();
                    }
                }
                return;
            }
            Command::CreateSession(_) | Command::Append(_) => return,
        };
        if let Ok(receipt) = verdict {
            self.epochs.insert(turn.clone(), receipt.epoch);
        }
    }

    async fn batch(&mut self, model: &SimStore) -> Vec<Command> {
        let mut batch: Vec<Command> = Vec::new();
        for _ in 0..self.random.random_range(0..5) {
            let command = match batch.choose(&mut self.random) {
                Some(again) if self.random.random_ratio(1, 6) => again.clone(),
                Some(_) | None => {
                    let command = self.command(model).await;
                    self.with_key(command)
                }
            };
            batch.push(command);
        }
        batch
    }

    /// The command, sometimes with a key. Time goes on, by little or by much.
    fn with_key(&mut self, command: Command) -> Command {
        if self.random.random_ratio(2, 3) {
            return command;
        }
        self.clock += match self.random.random_range(0..4) {
            0 => CommandKey::KEPT / 2,
            1 => 0,
            _ => self.random.random_range(0..CommandKey::KEPT / 8),
        };
        let name = self.random.random_range(0..KEYS).to_string();
        keyed(command, &key(&name, &self.random.random::<u8>().to_string()), self.clock)
    }

    /// A command that is likely to be kept if it is the first of its batch, and sometimes is not.
    async fn command(&mut self, model: &SimStore) -> Command {
        let mut talk = self.talks.choose(&mut self.random).expect("a session").clone();
        talk.node = self.node.clone();
        let session = model.session(&talk.tenant, &talk.session).await.expect("a read");
        let turns = model.turns(&talk.tenant, &talk.session).await.expect("a read");
        let known = turns.last().map(|turn| (turn.id.clone(), turn.head, turn.status.clone()));
        if self.random.random_ratio(1, 2) {
            self.turns.push(TurnId::mint());
        }
        let any = if self.random.random_ratio(1, 8) { self.turns.choose(&mut self.random) } else { self.turns.last() };
        let any = any.expect("a turn").clone();
        let version = session.as_ref().map(|session| self.near(session.version));
        let status = if self.random.random() { waiting() } else { TurnStatus::Ended };
        let tokens = self.random.random_range(0..100);
        let count = *[0, 1, 1, 2, 30].choose(&mut self.random).expect("a count");
        if self.random.random_ratio(1, 40) {
            return talk.delete();
        }
        match known {
            _ if session.is_none() && self.random.random_ratio(1, 2) => talk.create(),
            Some((turn, head, TurnStatus::Running)) => {
                let epoch = self.epochs.get(&turn).copied().unwrap_or(1);
                let epoch = self.near(epoch);
                let events = segment(self.near(head + 1), count);
                if self.random.random_ratio(1, 3) {
                    append_rest(&turn, epoch, events, rest(status, tokens))
                } else {
                    append(&turn, epoch, events)
                }
            }
            Some((turn, head, TurnStatus::Waiting(_))) => {
                let events = segment(self.near(head + 1), count.max(1));
                match self.random.random_range(0..4) {
                    0 => talk.begin(&any, version, 1),
                    1 => talk.replace(&any, version.unwrap_or(1), &turn, events),
                    2 => append(&turn, 1, events),
                    _ => talk.resume(&turn, version.unwrap_or(1), events),
                }
            }
            Some((turn, head, TurnStatus::Ended)) if self.random.random_ratio(1, 5) => {
                append_rest(&turn, 1, segment(self.near(head), count), rest(status, tokens))
            }
            Some(_) | None => talk.begin(&any, version, count.max(1)),
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

    async fn compare(&self, store: &Arc<dyn Store>, model: &SimStore, place: &str) {
        let sim: Arc<dyn Store> = Arc::new(model.clone());
        for talk in &self.talks {
            let (tenant, session) = (&talk.tenant, &talk.session);
            assert_eq!(store.session(tenant, session).await, sim.session(tenant, session).await, "{place}");
            assert_eq!(store.turns(tenant, session).await, sim.turns(tenant, session).await, "{place}");
            for name in (0..KEYS).map(|key| key.to_string()) {
                let at = Timestamp(self.clock);
                assert_eq!(store.kept(tenant, &name, at).await, sim.kept(tenant, &name, at).await, "{place}");
            }
            let listed = store.sessions(tenant, None, 10).await.expect("a list");
            let expected = sim.sessions(tenant, None, 10).await.expect("a list");
            assert!(listed.iter().map(|row| &row.session).eq(expected.iter().map(|row| &row.session)), "{place}");
        }
        for (turn, talk) in self.turns.iter().zip(self.talks.iter().cycle()) {
            let (tenant, session) = (&talk.tenant, &talk.session);
            let found = store.turn(tenant, session, turn).await;
            assert_eq!(found, sim.turn(tenant, session, turn).await, "{place}");
            assert_eq!(read_all(store, turn, 200).await, read_all(&sim, turn, 1 << 20).await, "{place}");
        }
    }
}
