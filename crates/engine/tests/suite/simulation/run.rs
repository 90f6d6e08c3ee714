//! One history: the lives of a server, one after the other, and what must be true at the end.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU32,
    sync::{Arc, Mutex},
    time::Duration,
};

use everturn_core::{Day, EffectClass, Event, Finish, KeyId, Quota, TenantId, Usage};
use everturn_engine::Engine;
use everturn_store::{Fault, SessionRecord, SessionRow, SimStore, Store as _, TurnStatus, UsageCount};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use tokio::task::{JoinError, JoinSet};

use super::{
    answer::curious,
    client::{Client, stop, talk},
    coverage::Coverage,
    model::{Complaints, random_model},
    reader::{Progress, Readers, Seen, follow},
};
use crate::suite::harness::*;

/// Nobody needs longer, in simulated time, unless something hangs.
const PATIENCE: Duration = Duration::from_secs(4 * 3600);

pub(super) struct Simulation {
    rng: StdRng,
    store: SimStore,
    setup: Setup,
    clients: Vec<Arc<Mutex<Client>>>,
    readers: Readers,
    complaints: Complaints,
    coverage: Coverage,
}

/// How a life of the server ends.
#[derive(Clone, Copy, Debug)]
enum End {
    /// In the middle of a commit.
    Death(Death),
    /// By shutdown with this grace, after so long.
    Shutdown { after: Duration, grace: Duration },
    /// Not before everybody is content.
    Content,
}

impl Simulation {
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let complaints = Complaints::default();
        let names = ["test/one", "test/two"];
        let models = names[..rng.random_range(1..=2)].iter();
        let models: Vec<_> = models.map(|name| random_model(name, rng.random(), Arc::clone(&complaints))).collect();
        let slow = Behaviour::Slow(Duration::from_millis(rng.random_range(0..500)));
        let setup = Setup::with_models(models)
            .trusted("send", EffectClass::Effectful, Behaviour::Slow(Duration::from_millis(20)))
            .trusted("slow", EffectClass::Effectful, slow)
            .trusted("panicky", EffectClass::Effectful, Behaviour::Panics)
            .trusted("plans", EffectClass::ReadOnly, curious(rng.random()))
            .trusted("orders", EffectClass::Effectful, curious(rng.random()))
            .builtin("request_form")
            .builtin("wait")
            .builtin("create_artifact")
            .builtin("update_artifact")
            .agent(|agent| {
                agent.turn_timeout = Duration::from_secs(if rng.random_ratio(1, 3) { 1 } else { 600 });
                agent.context_window = rng.random_ratio(1, 3).then(|| rng.random_range(2100..2350));
                agent.max_steps = rng.random_range(2..10);
            })
            .settings(|settings| {
                // No jitter, so that a seed gives the same history again.
                settings.retry_base = Duration::ZERO;
                // What takes longer is waited for at rest, by the clock on the wall.
                settings.retry_max = Duration::from_millis(1);
                settings.form_expiry = rng.random_ratio(1, 4).then(|| Duration::from_millis(1));
                settings.approval_expiry = rng.random_ratio(1, 4).then(|| Duration::from_millis(1));
                settings.question_patience = Duration::from_millis(rng.random_range(20..2000));
                settings.session_queue = rng.random_range(1..4);
                settings.concurrent_turns = if rng.random_ratio(1, 4) { 2 } else { 100 };
                settings.ring_bytes = if rng.random() { 200 } else { 256 * 1024 };
            });
        let (cuts, count) = (rng.random_ratio(1, 3), rng.random_range(1..=3));
        let concurrent_turns = if rng.random_ratio(1, 4) { NonZeroU32::new(rng.random_range(1..3)) } else { None };
        let quota = Quota { concurrent_turns, ..Quota::default() };
        let client = |name| Client::new(name, rng.random_range(1..8), setup.update.clone(), cuts, rng.random(), quota);
        let clients = (0..count).map(client).collect();
        Self {
            rng,
            store: SimStore::new(),
            setup,
            clients,
            readers: Arc::default(),
            complaints,
            coverage: Coverage::default(),
        }
    }

    pub(super) fn run(self) {
        self.run_covered();
    }

    pub(super) fn run_covered(mut self) -> Coverage {
        for _ in 0..self.rng.random_range(0..4) {
            let end = if self.rng.random_ratio(1, 4) {
                let (after, grace) = (self.rng.random_range(10..3000), self.rng.random_range(0..300));
                End::Shutdown { after: Duration::from_millis(after), grace: Duration::from_millis(grace) }
            } else {
                End::Death(Death { commit: self.rng.random_range(1..60), kept: self.rng.random() })
            };
            self.live(end);
            self.store = self.store.crash();
        }
        self.live(End::Content);
        self.store = self.store.crash();
        self.check()
    }

    /// One life: an engine and everybody who talks to it, in a runtime of their own. Dropping it is the end of all.
    fn live(&mut self, end: End) {
        if self.rng.random() {
            self.store.faults().fail_randomly(self.rng.random(), self.rng.random_range(3..30));
        }
        let outage =
            self.rng.random_ratio(1, 3).then(|| (self.rng.random_range(0..2000), self.rng.random_range(0..3000)));
        let death = if let End::Death(death) = end { Some(death) } else { None };
        let mut store = CrashStore::new(self.store.clone(), death);
        if let Some(Death { kept, .. }) = death.filter(|_| self.rng.random()) {
            store = store.dying_between_turns(kept);
        } else if self.rng.random() {
            store = store.failing_between_turns(if self.rng.random() { Fault::Kept } else { Fault::Lost });
        }
        runtime().block_on(async {
            let engine = self.setup.start(store.clone()).await.expect("nothing fails before the first commit");
            let everybody = self.everybody(&engine, matches!(end, End::Content));
            let weather = weather(self.store.clone(), outage);
            let (readers, watched) = (Arc::clone(&self.readers), engine.clone());
            let patience = async {
                tokio::time::sleep(PATIENCE).await;
                panic!("somebody waits in vain: {}", who_waits(&watched, &readers).await);
            };
            let content = async {
                tokio::select! {
                    biased;
                    () = everybody => {}
                    () = weather => {}
                    () = patience => {}
                }
            };
            match end {
                End::Content => content.await,
                End::Death(_) => tokio::select! { biased; () = store.dead() => {}, () = content => {} },
                End::Shutdown { after, grace } => {
                    tokio::select! { biased; () = tokio::time::sleep(after) => {}, () = content => {} }
                    let begun = tokio::time::Instant::now();
                    engine.shutdown(grace).await;
                    assert!(begun.elapsed() <= grace + Duration::from_secs(2), "the shutdown took too long");
                }
            }
        });
        self.coverage.see_store(&store.asked());
    }

    /// All clients and readers, until they have nothing more to do. If it is for good, whatever waits is stopped once
    /// they have left; then everything ends, what is queued behind it included, and all readers are told.
    fn everybody(&mut self, engine: &Engine, for_good: bool) -> impl Future<Output = ()> + use<> {
        let (mut talking, mut reading) = (JoinSet::new(), JoinSet::new());
        for client in &self.clients {
            talking.spawn(talk(engine.clone(), Arc::clone(client), self.rng.random()));
        }
        let (clients, readers, engine) = (self.clients.clone(), Arc::clone(&self.readers), engine.clone());
        let mut rng = StdRng::seed_from_u64(self.rng.random());
        let mut followed = BTreeSet::new();
        async move {
            loop {
                let known: Vec<_> = clients.iter().flat_map(|client| client.lock().unwrap().known.clone()).collect();
                for (session, turn) in known {
                    if followed.insert(turn.clone()) {
                        let mut readers = readers.lock().unwrap();
                        let seen = readers.entry(turn.clone()).or_insert_with(|| {
                            (0..rng.random_range(1..3)).map(|_| Seen::new(session.clone(), turn.clone())).collect()
                        });
                        for seen in seen.iter().filter(|seen| seen.lock().unwrap().state == Progress::Reading) {
                            reading.spawn(follow(engine.clone(), TenantId::local(), Arc::clone(seen), rng.random()));
                        }
                    }
                }
                tokio::select! {
                    biased;
                    Some(done) = talking.join_next() => done.unwrap_or_else(fail_too),
                    Some(done) = reading.join_next() => done.unwrap_or_else(fail_too),
                    () = tokio::time::sleep(Duration::from_millis(50)) => {}
                }
                if !talking.is_empty() {
                    continue;
                }
                let over = if for_good {
                    all_over(&engine).await && reading.is_empty()
                } else {
                    // Turns that wait for good have readers that wait as well.
                    all_rest(&engine).await && idle(&readers, &engine).await
                };
                if over {
                    return;
                }
            }
        }
    }

    fn check(self) -> Coverage {
        runtime().block_on(async {
            assert_eq!(*self.complaints.lock().unwrap(), [] as [String; 0], "the model was asked nonsense");
            let engine = self.setup.start(self.store.clone()).await.unwrap();
            let tenant = TenantId::local();
            let cuts = self.clients.iter().any(|client| client.lock().unwrap().cuts);
            let history = if cuts { History::Cut } else { History::Whole };
            let mut coverage = Coverage::default();
            coverage.add(&self.coverage);
            let mut intents = BTreeMap::new();
            let rows = engine.sessions(&tenant, None, usize::MAX).await.unwrap();
            for row in &rows {
                let session = &row.session.id;
                check_history(&self.store, &engine, &tenant, session, history).await;
                for turn in self.store.turns(&tenant, session).await.unwrap() {
                    assert!(turn.status.is_ended(), "{} was left behind: {:?}", turn.id, turn.status);
                    let log = stored_log(&self.store, &turn.id).await;
                    coverage.see(&log);
                    intents.extend(log.iter().filter_map(|(_, event)| match event {
                        Event::ToolIntended { effect_id, effect, .. } => Some((effect_id.clone(), *effect)),
                        _ => None,
                    }));
                }
            }
            self.check_clients(&engine).await;
            self.check_readers().await;
            self.check_usage(&engine, &rows).await;
            let deleted = self.clients.iter().any(|client| {
                let client = client.lock().unwrap();
                !client.deleted.is_empty() || !client.truncated.is_empty()
            });
            for ((tool, effect_id), runs) in self.setup.ledger.runs_by_effect() {
                match intents.get(&effect_id) {
                    Some(EffectClass::Effectful) => assert_eq!(runs, 1, "{tool} had its effect {runs} times"),
                    Some(EffectClass::ReadOnly | EffectClass::Idempotent) => coverage.repeated += usize::from(runs > 1),
                    None => assert!(deleted, "{tool} ran without durable intent"),
                }
            }
            coverage
        })
    }

    /// What was accepted is there, what was deleted is not.
    async fn check_clients(&self, engine: &Engine) {
        for client in &self.clients {
            let client = client.lock().unwrap().clone();
            for session in &client.deleted {
                assert_eq!(engine.session(&client.tenant, session).await.unwrap(), None, "a deleted session came back");
            }
            for (session, turn, text) in &client.accepted {
                if client.deleted.contains(session) {
                    continue;
                }
                let record = engine.turn(&client.tenant, session, turn).await.unwrap();
                if record.is_none() && client.truncated.contains(session) {
                    continue;
                }
                let log = stored_log(&self.store, turn).await;
                let said = [everturn_core::Message::user(text.as_str())];
                match log.first() {
                    Some((1, Event::TurnStarted(started))) => assert_eq!(started.input, said),
                    // Ended before it began: it is known what would have been said.
                    Some((1, Event::TurnEnded(_))) => {
                        assert_eq!(record.expect("it is there").messages, said);
                    }
                    other => panic!("an accepted message is lost: {other:?}"),
                }
            }
        }
    }

    /// What was used is what the logs say, for each key: nothing is forgotten in a crash, nothing counted twice.
    async fn check_usage(&self, engine: &Engine, sessions: &[SessionRow]) {
        let tenant = TenantId::local();
        let mut told: BTreeMap<Option<KeyId>, UsageCount> = BTreeMap::new();
        let mut turns = BTreeSet::new();
        for row in sessions {
            turns.extend(self.store.turns(&tenant, &row.session.id).await.unwrap().into_iter().map(|turn| turn.id));
        }
        let mut has_unlogged = false;
        for turn in turns {
            let (mut by, mut logged) = (None, Usage::default());
            for (_, event) in stored_log(&self.store, &turn).await {
                let count = match event {
                    // Those without a key were cut out of others.
                    Event::TurnStarted(started) => {
                        by = started.by;
                        UsageCount { turns: u64::from(by.is_some()), ..UsageCount::default() }
                    }
                    Event::StepFinished(finished) if finished.finish == Finish::Aborted && finished.usage.is_zero() => {
                        continue;
                    }
                    Event::StepFinished(finished) => called(finished.usage),
                    Event::StepRestarted { usage, .. } => called(usage),
                    Event::HistoryCompacted(compaction) if compaction.usage.is_zero() => continue,
                    Event::HistoryCompacted(compaction) => called(compaction.usage),
                    // A summary that failed, of a conversation that was refused as too long: its end alone tells of it.
                    Event::TurnEnded(ended) => {
                        has_unlogged |= ended.usage.total() > logged.total();
                        continue;
                    }
                    _ => continue,
                };
                logged += count.tokens;
                add(told.entry(by.clone()).or_default(), count);
            }
        }
        let mut counted: BTreeMap<Option<KeyId>, UsageCount> = BTreeMap::new();
        for row in engine.usage(&tenant, (Day(i32::MIN), Day(i32::MAX)), None, usize::MAX).await.unwrap() {
            add(counted.entry(row.slot.key).or_default(), row.count);
        }
        told.retain(|_, count| *count != UsageCount::default());
        let gone = self.clients.iter().any(|client| {
            let client = client.lock().unwrap();
            !client.deleted.is_empty() || !client.truncated.is_empty()
        });
        // Summaries that failed are in no log.
        if gone || has_unlogged || self.setup.agent.context_window.is_some() {
            for (key, told) in told {
                let counted = counted.get(&key).copied().unwrap_or_default();
                let (tokens, more) = (told.tokens, counted.tokens);
                assert!(told.turns <= counted.turns && tokens.input <= more.input && tokens.output <= more.output);
            }
        } else {
            assert_eq!(counted, told, "what was counted is not what was used");
        }
    }

    /// Every reader saw a prefix of the one sequence, and all of it if it was there to the end.
    async fn check_readers(&self) {
        let readers: Vec<_> = self.readers.lock().unwrap().values().flatten().cloned().collect();
        for seen in readers {
            let seen = seen.lock().unwrap().clone();
            if seen.state == Progress::Gone {
                continue;
            }
            assert_eq!(seen.state, Progress::Done, "a reader of {} was not told of its end", seen.turn);
            let all = all_frames(&self.store, &seen.session, &seen.turn).await;
            if all.is_empty() {
                // Deleted after it was read.
                continue;
            }
            assert!(all.starts_with(&seen.frames), "a reader of {} saw something else", seen.turn);
            assert_eq!(all.len(), seen.frames.len(), "a reader of {} missed the end", seen.turn);
        }
    }
}

fn called(tokens: Usage) -> UsageCount {
    UsageCount { turns: 0, calls: 1, tokens }
}

fn add(sum: &mut UsageCount, more: UsageCount) {
    sum.turns += more.turns;
    sum.calls += more.calls;
    sum.tokens += more.tokens;
}

/// A client or reader that failed fails the simulation.
fn fail_too(error: JoinError) {
    std::panic::resume_unwind(error.into_panic());
}

async fn sessions(engine: &Engine) -> Option<Vec<SessionRecord>> {
    let rows = engine.sessions(&TenantId::local(), None, usize::MAX).await.ok()?;
    Some(rows.into_iter().map(|row| row.session).collect())
}

/// Whether no turn runs or is about to.
async fn all_rest(engine: &Engine) -> bool {
    let rests = |session: &SessionRecord| match session.last_turn.as_ref().map(|turn| &turn.status) {
        Some(TurnStatus::Running) => false,
        Some(TurnStatus::Waiting(_)) => true,
        Some(TurnStatus::Ended(_) | TurnStatus::Queued) | None => session.queued == 0,
    };
    sessions(engine).await.is_some_and(|sessions| sessions.iter().all(rests))
}

/// Stops whatever waits. Whether nothing runs, waits or is queued any more.
async fn all_over(engine: &Engine) -> bool {
    let Some(sessions) = sessions(engine).await else { return false };
    let mut over = true;
    for session in sessions {
        let status = session.last_turn.as_ref().map(|turn| &turn.status);
        over &= session.queued == 0 && status.is_none_or(TurnStatus::is_ended);
        if matches!(status, Some(TurnStatus::Waiting(_))) {
            stop(engine, &session.tenant, &session.id, None).await;
        }
    }
    over
}

/// Whether the readers that still read do so only because their turn waits, or waits to begin.
async fn idle(readers: &Readers, engine: &Engine) -> bool {
    let reading: Vec<_> = {
        let readers = readers.lock().unwrap();
        let seen = readers.values().flatten().map(|seen| seen.lock().unwrap());
        let reading = seen.filter(|seen| seen.state == Progress::Reading);
        reading.map(|seen| (seen.session.clone(), seen.turn.clone())).collect()
    };
    for (session, turn) in reading {
        let Ok(Some(record)) = engine.turn(&TenantId::local(), &session, &turn).await else { return false };
        if !matches!(record.status, TurnStatus::Waiting(_) | TurnStatus::Queued) {
            return false;
        }
    }
    true
}

/// Who waits, for the person who must find out why.
async fn who_waits(engine: &Engine, readers: &Readers) -> String {
    let mut text = String::new();
    for session in sessions(engine).await.unwrap_or_default() {
        text += &format!("\n{} has {:?} and {} queued", session.id, session.last_turn, session.queued);
    }
    let seen: Vec<_> = readers.lock().unwrap().values().flatten().cloned().collect();
    for seen in seen {
        let seen = seen.lock().unwrap().clone();
        if seen.state == Progress::Reading {
            let record = engine.turn(&TenantId::local(), &seen.session, &seen.turn).await;
            let status = record.map(|record| record.map(|record| (record.status, record.head)));
            text += &format!("\na reader at {:?} of {}, which is {status:?}", seen.cursor(), seen.turn);
        }
    }
    text
}

/// Lets the store be out of order for a while, at some time.
async fn weather(store: SimStore, outage: Option<(u64, u64)>) {
    if let Some((at, length)) = outage {
        tokio::time::sleep(Duration::from_millis(at)).await;
        store.faults().outage();
        tokio::time::sleep(Duration::from_millis(length)).await;
        store.faults().stop();
    }
    std::future::pending::<()>().await;
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime")
}
