//! Random commands against a store and the model give the same verdicts and the same reads.

mod usage;
mod world;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use everturn_core::{SessionId, TenantId, Timestamp};
use rand::Rng;

use self::world::{DAY, KEYS, RECORDS, STATES, World};
use super::{
    Harness,
    fixture::{node, read_all},
};
use crate::{
    Command, Receipt, RecordFilter, RecordKind, RecordRow, Refusal, SimStore, Start, Store, StoreError, TurnStatus,
};

/// Each seed gives one sequence of batches. A failure names the seed; `STORE_CONTRACT_SEED` runs that one alone.
pub async fn random_commands_agree_with_the_model<H: Harness>(fresh: impl Fn() -> H) {
    const SEEDS: u64 = 29;
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
    assert!(!is_whole || tally.is_varied(), "{tally:#?}");
}

/// What became of the commands, and how often there was anything to compare.
#[derive(Debug, Default)]
struct Tally {
    kept: HashMap<&'static str, u32>,
    refused: HashMap<&'static str, u32>,
    seen: HashMap<&'static str, u32>,
}

impl Tally {
    fn count(&mut self, command: &Command, verdict: &Result<Receipt, Refusal>) {
        let kind = match command {
            Command::CreateSession(new) if new.shares.is_some() => "fork",
            Command::CreateSession(new) if !new.turns.is_empty() => "import",
            Command::CreateSession(_) => "create",
            Command::BeginTurn(begin) if begin.supersedes.is_some() => "supersede",
            Command::BeginTurn(begin) if begin.start == Start::Queued => "queue",
            Command::BeginTurn(_) => "begin",
            Command::ResumeTurn(_) => "resume",
            Command::EndTurn(_) => "end",
            Command::TruncateSession(truncate) if truncate.turn.is_some() => "place",
            Command::TruncateSession(_) => "truncate",
            Command::Append(append) if append.rest.is_some() => "rest",
            Command::Append(_) => "append",
            Command::Put(_) => "put",
            Command::DeleteSession(_) => "delete",
            Command::ReplaceLog(_) => "replace",
            Command::ForgetDeleted { .. } => "forget",
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

    /// Both must have found the same. Counts what was not empty.
    #[track_caller]
    fn agree<T: PartialEq + std::fmt::Debug>(
        &mut self,
        what: &'static str,
        place: &str,
        found: Result<Vec<T>, StoreError>,
        expected: Result<Vec<T>, StoreError>,
    ) {
        assert_eq!(found, expected, "{place}: {what}");
        *self.seen.entry(what).or_default() += u32::from(found.is_ok_and(|found| !found.is_empty()));
    }

    fn is_varied(&self) -> bool {
        let is_often = |counts: &HashMap<&str, u32>| counts.values().all(|count| *count >= 20);
        self.kept.len() == 16 && self.refused.len() == 6 && is_often(&self.kept) && is_often(&self.seen)
    }
}

async fn run(harness: &impl Harness, seed: u64, tally: &mut Tally) {
    let mut world = World::new(seed);
    let model = SimStore::new();
    let mut owner = 0;
    let mut store = harness.open().await;
    for round in 0..75 {
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
        let sim: Arc<dyn Store> = Arc::new(model.clone());
        compare_sessions(&world, &store, &sim, tally, &place).await;
        // Verdicts tell most differences at once; these are looked for now and then, because they take long.
        if round % 5 == 4 {
            compare_logs(&world, &store, &sim, round, &place).await;
            compare_records(&world, &store, &sim, tally, &place).await;
            compare_chores(&world, &store, &sim, tally, &place).await;
            usage::compare(&world, &store, &sim, tally, &place).await;
        }
    }
}

async fn compare_sessions(world: &World, store: &Arc<dyn Store>, sim: &Arc<dyn Store>, tally: &mut Tally, place: &str) {
    let (mut names, mut shared) = (HashSet::new(), 0);
    for talk in &world.talks {
        let (tenant, session) = (&talk.tenant, &talk.session);
        assert_eq!(store.session(tenant, session).await, sim.session(tenant, session).await, "{place}");
        tally.agree("turns", place, store.turns(tenant, session).await, sim.turns(tenant, session).await);
        assert_eq!(store.message_count(tenant, session).await, sim.message_count(tenant, session).await, "{place}");
        for turn in sim.turns(tenant, session).await.expect("turns") {
            shared += u32::from(!names.insert(turn.id));
        }
    }
    *tally.seen.entry("shared turns").or_default() += shared;
}

async fn compare_logs(world: &World, store: &Arc<dyn Store>, sim: &Arc<dyn Store>, round: usize, place: &str) {
    for talk in &world.talks {
        let (tenant, session) = (&talk.tenant, &talk.session);
        for below in [None, Some(3)] {
            let found = store.turns_below(tenant, session, below, 2).await;
            assert_eq!(found, sim.turns_below(tenant, session, below, 2).await, "{place}");
        }
        for limit in [1, 9] {
            let found = store.queued(tenant, session, limit).await;
            assert_eq!(found, sim.queued(tenant, session, limit).await, "{place}");
        }
        for turn in store.turns(tenant, session).await.expect("turns") {
            assert_eq!(store.turn(tenant, session, &turn.id).await, Ok(Some(turn)), "{place}");
        }
    }
    for (turn, talk) in world.turns.iter().zip(world.talks.iter().cycle().skip(round / 5)) {
        let (tenant, session) = (&talk.tenant, &talk.session);
        let found = store.turn(tenant, session, turn).await;
        assert_eq!(found, sim.turn(tenant, session, turn).await, "{place}");
        assert_eq!(read_all(store, turn, 200).await, read_all(sim, turn, 1 << 20).await, "{place}");
    }
    for tenant in world.tenants() {
        for name in (0..KEYS).map(|key| key.to_string()) {
            let at = Timestamp(world.clock);
            assert_eq!(store.kept(tenant, &name, at).await, sim.kept(tenant, &name, at).await, "{place}");
        }
        let listed = store.sessions(tenant, None, 10).await.expect("a list");
        let expected = sim.sessions(tenant, None, 10).await.expect("a list");
        assert!(listed.iter().map(|row| &row.session).eq(expected.iter().map(|row| &row.session)), "{place}");
    }
}

/// The rows without their positions, which only need to rise.
fn placeless(rows: Result<Vec<RecordRow>, StoreError>) -> Result<Vec<RecordRow>, StoreError> {
    rows.map(|rows| rows.into_iter().map(|row| RecordRow { position: 0, ..row }).collect())
}

async fn compare_records(world: &World, store: &Arc<dyn Store>, sim: &Arc<dyn Store>, tally: &mut Tally, place: &str) {
    let states = || STATES.iter().map(|state| Some((*state).to_owned())).chain([None]);
    for kind in [RecordKind::Form, RecordKind::Document] {
        for talk in &world.talks {
            let tenant = &talk.tenant;
            for (session, state) in states().map(|state| (Some(talk.session.clone()), state)).chain([(None, None)]) {
                let filter = RecordFilter { session, state };
                let (found, expected) =
                    (pages(store, tenant, kind, &filter).await, pages(sim, tenant, kind, &filter).await);
                tally.agree("records", place, placeless(found), placeless(expected));
            }
        }
        for tenant in world.tenants() {
            for state in states() {
                let filter = RecordFilter { session: None, state };
                let (found, expected) =
                    (pages(store, tenant, kind, &filter).await, pages(sim, tenant, kind, &filter).await);
                tally.agree("records in a state", place, placeless(found), placeless(expected));
            }
            for id in (0..RECORDS).map(|id| id.to_string()) {
                let (found, expected) = (store.record(tenant, kind, &id).await, sim.record(tenant, kind, &id).await);
                assert_eq!(found.is_ok_and(|row| row.is_some()), expected.is_ok_and(|row| row.is_some()), "{place}");
                let read = async |store: &Arc<dyn Store>| {
                    store.blob(tenant, kind, &id, 0).await.map(|blob| blob.into_iter().collect())
                };
                tally.agree("a blob", place, read(store).await, read(sim).await);
            }
        }
    }
}

/// All records that a filter finds, page by page.
async fn pages(
    store: &Arc<dyn Store>,
    tenant: &TenantId,
    kind: RecordKind,
    filter: &RecordFilter,
) -> Result<Vec<RecordRow>, StoreError> {
    let mut all: Vec<RecordRow> = Vec::new();
    loop {
        let below = all.last().map(|row| row.position);
        let page = store.records(tenant, kind, filter, below, 2).await?;
        if page.is_empty() {
            return Ok(all);
        }
        all.extend(page);
    }
}

async fn compare_chores(world: &World, store: &Arc<dyn Store>, sim: &Arc<dyn Store>, tally: &mut Tally, place: &str) {
    for limit in [1, 100] {
        tally.agree("due turns", place, store.due(limit).await, sim.due(limit).await);
        tally.agree("stalled sessions", place, store.stalled(limit).await, sim.stalled(limit).await);
        for before in [Timestamp(world.clock - DAY / 2), Timestamp(world.clock + 1)] {
            let found = store.idle_sessions(before, limit).await;
            tally.agree("idle sessions", place, found, sim.idle_sessions(before, limit).await);
            for level in 0..4 {
                let found = store.old_logs(before, level, limit).await;
                tally.agree("old logs", place, found, sim.old_logs(before, level, limit).await);
            }
            for state in STATES {
                let found = placeless(store.old_records(RecordKind::Form, state, before, limit).await);
                let expected = placeless(sim.old_records(RecordKind::Form, state, before, limit).await);
                tally.agree("old records", place, found, expected);
            }
        }
    }
    // What the chores find can be told from the sessions themselves.
    for (tenant, session) in store.stalled(100).await.expect("a list") {
        let found = store.session(&tenant, &session).await.expect("a read").expect("a session");
        assert!(found.queued > 0 && found.last_turn.is_none_or(|turn| turn.status.is_ended()), "{place}");
    }
    for due in store.due(100).await.expect("a list") {
        let found = status(store, &due.tenant, &due.session).await;
        let wake_at = found.and_then(|status| match status {
            TurnStatus::Waiting(wait) => wait.wake_at,
            TurnStatus::Running | TurnStatus::Ended(_) | TurnStatus::Queued => None,
        });
        assert_eq!(wake_at, Some(due.wake_at), "{place}");
    }
}

async fn status(store: &Arc<dyn Store>, tenant: &TenantId, session: &SessionId) -> Option<TurnStatus> {
    let session = store.session(tenant, session).await.expect("a read")?;
    session.last_turn.map(|turn| turn.status)
}
