//! Group commit: one task takes everything that is queued, from all turns, has it committed as one batch, then
//! publishes. While a batch is being committed the next one gathers.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use everturn_core::{Segment, Timestamp};
use everturn_store::{Append, Command, Receipt, Refusal, Store, StoreError};
use tokio::sync::{Notify, oneshot};

use crate::{
    metrics::Metrics,
    next_turn::AndThen,
    turn_log::{Taken, TurnLog},
};

/// How many commands one batch may have.
const MAX_BATCH: usize = 2048;
/// How many commands of a batch are looked for that meet damage. Where there are more, the rest of a part fails as a whole.
const MAX_CULPRITS: usize = 16;
/// How long to wait before trying a failed batch again: first, and at most.
const STALL_WAIT: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// Why a command was not kept.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum CommitError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store failed while it had the command, and may have kept it all the same.
    #[error("{error}")]
    Unknown { error: StoreError, command: Box<Command> },
}

/// Queues commands for the next commit. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Committer(Arc<Shared>);

struct Shared {
    store: Arc<dyn Store>,
    metrics: Metrics,
    queue: Mutex<Queue>,
    wake: Notify,
    /// Why the store does not take anything now.
    trouble: Mutex<Option<StoreError>>,
}

#[derive(Default)]
struct Queue {
    commands: Vec<(Command, Reply)>,
    logs: Vec<Arc<TurnLog>>,
}

type Reply = oneshot::Sender<Result<Receipt, CommitError>>;

enum Entry {
    Command(Reply),
    Append(Arc<TurnLog>, Segment),
    /// Belongs to the append before it.
    Then(Reply),
}

impl Committer {
    /// Starts the task. It ends with the last handle's runtime; what it has not committed then was never seen.
    pub(crate) fn start(store: Arc<dyn Store>, metrics: Metrics) -> Self {
        let queue = Mutex::default();
        let shared = Arc::new(Shared { store, metrics, queue, wake: Notify::new(), trouble: Mutex::default() });
        tokio::spawn(run(Arc::clone(&shared)));
        Self(shared)
    }

    /// Has one command committed, after all earlier commands, whether or not the caller waits for it. While the store
    /// is in trouble this fails at once, so that nobody waits in vain.
    pub(crate) fn commit(&self, command: Command) -> impl Future<Output = Result<Receipt, CommitError>> + use<> {
        let answer = match self.trouble() {
            Some(trouble) => Err(trouble),
            None => {
                let (reply, answer) = oneshot::channel();
                lock(&self.0.queue).commands.push((command, reply));
                self.0.wake.notify_one();
                Ok(answer)
            }
        };
        async move { answer?.await.unwrap_or(Err(CommitError::Store(StoreError::Closed))) }
    }

    /// Says that a log has something pending.
    pub(crate) fn enqueue(&self, log: Arc<TurnLog>) {
        lock(&self.0.queue).logs.push(log);
        self.0.wake.notify_one();
    }

    /// Why the store does not take anything now, if so.
    pub(crate) fn trouble(&self) -> Option<StoreError> {
        lock(&self.0.trouble).clone().or_else(|| self.0.store.health().err())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn run(shared: Arc<Shared>) {
    loop {
        let (batch, entries) = gather(&shared);
        if batch.is_empty() {
            shared.wake.notified().await;
        } else {
            commit(&shared, batch, entries).await;
        }
    }
}

fn gather(shared: &Shared) -> (Vec<Command>, Vec<Entry>) {
    let mut queue = lock(&shared.queue);
    let commands = queue.commands.len().min(MAX_BATCH);
    let mut batch = Vec::with_capacity(commands);
    let mut entries = Vec::with_capacity(commands);
    for (command, reply) in queue.commands.drain(..commands) {
        batch.push(command);
        entries.push(Entry::Command(reply));
    }
    let count = queue.logs.len().min(MAX_BATCH - batch.len());
    let logs: Vec<_> = queue.logs.drain(..count).collect();
    drop(queue);
    let at = Timestamp::now();
    for log in logs {
        if let Some(Taken { segment, rest, then, writes }) = log.take() {
            let (turn, epoch) = (log.turn().clone(), log.epoch());
            batch.push(Command::Append(Append { turn, epoch, segment: segment.clone(), rest, writes, at }));
            entries.push(Entry::Append(log, segment));
            if let Some(AndThen { command, reply }) = then {
                batch.push(Command::ResumeTurn(command));
                entries.push(Entry::Then(reply));
            }
        }
    }
    (batch, entries)
}

/// A part of a batch that the store cannot keep, because it meets damage.
struct Damaged {
    batch: Vec<Command>,
    entries: Vec<Entry>,
    error: StoreError,
}

/// Commits a batch. Where it meets damage, it is halved until the commands at fault stand alone; only those fail.
async fn commit(shared: &Shared, batch: Vec<Command>, entries: Vec<Entry>) {
    // In their order: a command may need what an earlier one leaves.
    let mut parts = VecDeque::from([(batch, entries)]);
    let mut culprits = 0;
    while let Some((batch, entries)) = parts.pop_front() {
        let Err(Damaged { mut batch, mut entries, error }) = commit_part(shared, batch, entries).await else {
            continue;
        };
        if batch.len() > 1 && culprits < MAX_CULPRITS {
            let half = batch.len() / 2;
            parts.push_front((batch.split_off(half), entries.split_off(half)));
            parts.push_front((batch, entries));
        } else {
            culprits += 1;
            tracing::error!(%error, commands = batch.len(), "cannot commit, because the store is damaged");
            refuse(entries, &error);
        }
    }
}

/// Commits a part of a batch, again and again while the store is unavailable.
async fn commit_part(shared: &Shared, batch: Vec<Command>, entries: Vec<Entry>) -> Result<(), Damaged> {
    let mut batch = Arc::new(batch);
    let mut entries = entries;
    let mut wait = STALL_WAIT.0;
    loop {
        let begun = Instant::now();
        match shared.store.commit(Arc::clone(&batch)).await {
            Ok(outcomes) => {
                shared.metrics.commit_seconds.observe(begun.elapsed().as_secs_f64());
                shared.metrics.commit_commands.observe(batch.len() as f64);
                end_trouble(shared);
                drop(batch);
                publish(shared, entries, outcomes);
                return Ok(());
            }
            Err(error @ StoreError::Corrupt(_)) => {
                shared.metrics.commit_failures.inc();
                end_trouble(shared);
                return Err(Damaged { batch: Arc::unwrap_or_clone(batch), entries, error });
            }
            Err(error) => {
                shared.metrics.commit_failures.inc();
                let is_first = lock(&shared.trouble).replace(error.clone()).is_none();
                // A store that knows what is wrong with it has logged it.
                if is_first && shared.store.health().is_ok() {
                    tracing::error!(%error, "cannot commit; running turns wait, new ones are refused");
                }
                (batch, entries) = keep_appends(batch, entries, &error);
                refuse_queued(shared, &error);
                if !error.is_retryable() {
                    fail(shared, entries, &error);
                    return Ok(());
                }
            }
        }
        if batch.is_empty() {
            // Nothing to try again with; the next command will tell how the store is.
            lock(&shared.trouble).take();
            return Ok(());
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(STALL_WAIT.1);
    }
}

/// The store answers.
fn end_trouble(shared: &Shared) {
    if lock(&shared.trouble).take().is_some() {
        tracing::info!("the store works again");
    }
}

/// Refuses commands and appends of which nothing was kept.
fn refuse(entries: Vec<Entry>, error: &StoreError) {
    for entry in entries {
        match entry {
            Entry::Command(reply) | Entry::Then(reply) => drop(reply.send(Err(error.clone().into()))),
            Entry::Append(log, _) => log.fail(error.clone().into()),
        }
    }
}

/// Answers the commands of a failed batch and keeps its appends, with what comes after them: those belong to turns, which
/// wait.
fn keep_appends(batch: Arc<Vec<Command>>, entries: Vec<Entry>, error: &StoreError) -> (Arc<Vec<Command>>, Vec<Entry>) {
    let commands = Arc::unwrap_or_clone(batch);
    let (mut kept, mut kept_entries) = (Vec::new(), Vec::new());
    for (command, entry) in commands.into_iter().zip(entries) {
        match entry {
            Entry::Command(reply) => {
                let (error, command) = (error.clone(), Box::new(command));
                drop(reply.send(Err(CommitError::Unknown { error, command })));
            }
            Entry::Append(..) | Entry::Then(_) => {
                kept.push(command);
                kept_entries.push(entry);
            }
        }
    }
    (Arc::new(kept), kept_entries)
}

fn refuse_queued(shared: &Shared, error: &StoreError) {
    for (_, reply) in lock(&shared.queue).commands.drain(..) {
        drop(reply.send(Err(error.clone().into())));
    }
}

fn fail(shared: &Shared, entries: Vec<Entry>, error: &StoreError) {
    let queued = std::mem::take(&mut lock(&shared.queue).logs);
    let failed = entries.into_iter().filter_map(|entry| match entry {
        Entry::Append(log, _) => Some(log),
        Entry::Command(_) | Entry::Then(_) => None,
    });
    for log in failed.chain(queued) {
        log.fail(error.clone().into());
    }
}

fn publish(shared: &Shared, entries: Vec<Entry>, outcomes: Vec<Result<Receipt, Refusal>>) {
    for (entry, outcome) in entries.into_iter().zip(outcomes) {
        match (entry, outcome) {
            (Entry::Command(reply) | Entry::Then(reply), outcome) => {
                drop(reply.send(outcome.map_err(CommitError::Refused)));
            }
            (Entry::Append(log, segment), Ok(receipt)) => {
                shared.metrics.commit_events.inc_by(u64::from(segment.count()));
                log.publish(segment, receipt);
            }
            (Entry::Append(log, _), Err(refusal)) => log.fail(refusal.into()),
        }
    }
}
