//! The messages of one tenant, on their way to its receiver: several sessions at a time, each in order.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use everturn_core::{Json, SessionId, Timestamp};
use everturn_engine::{NOTICE_DUE, Notice};
use everturn_store::{Expect, Record, RecordKind, RecordRow, Store, Write};
use serde_json::json;
use tokio::{
    sync::{Notify, mpsc},
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    Hook, Metrics, backoff, message,
    post::{Attempt, Post},
    settle::Settler,
};

/// The state of a notice that no receiver took.
pub(crate) const GIVEN_UP: &str = "given_up";
/// Deliveries at once.
const PARALLEL: usize = 8;
/// Most messages that are kept in memory; others wait in the store.
pub(crate) const MEMORY: usize = 10_000;
/// How long deliveries under way may take once everything stops.
const GRACE: Duration = Duration::from_secs(2);
/// How long to wait when the store cannot be read.
const STORE_WAIT: Duration = Duration::from_secs(5);
/// Longest sleep: the clock on the wall may be set meanwhile.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);

/// A message that waits for its delivery.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    /// The record's name.
    pub(crate) id: String,
    /// Its session.
    pub(crate) session: SessionId,
    /// When it may be tried.
    pub(crate) next_at: Timestamp,
}

/// How much a lane has in memory.
#[derive(Debug)]
pub(crate) struct Load {
    most: usize,
    messages: AtomicUsize,
    /// Whether there is more in the store that should be brought when there is room.
    pub(crate) more: AtomicBool,
}

impl Load {
    /// Nothing yet, and so many at most.
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, messages: AtomicUsize::new(0), more: AtomicBool::new(false) })
    }

    /// Whether there is room for one more.
    pub(crate) fn has_room(&self) -> bool {
        self.messages.load(Ordering::Relaxed) < self.most
    }

    /// Whether it is worth while to bring more.
    pub(crate) fn is_low(&self) -> bool {
        self.messages.load(Ordering::Relaxed) <= self.most / 2
    }

    /// One more.
    pub(crate) fn add(&self) {
        self.messages.fetch_add(1, Ordering::Relaxed);
    }

    /// One less; says so if there is room now for those that had none.
    pub(crate) fn remove(&self, refill: &Notify) {
        self.messages.fetch_sub(1, Ordering::Relaxed);
        if self.more.load(Ordering::Relaxed) && self.is_low() {
            refill.notify_one();
        }
    }
}

/// What a lane works with.
#[derive(Clone)]
pub(crate) struct Lane {
    pub(crate) hook: Arc<Hook>,
    pub(crate) post: Post,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) settler: Settler,
    pub(crate) metrics: Metrics,
    pub(crate) load: Arc<Load>,
    /// Told when there is room again.
    pub(crate) refill: Arc<Notify>,
    /// Whether the receiver failed last.
    pub(crate) failing: Arc<AtomicBool>,
}

/// What is to be done with a message after an attempt.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// Nothing; the next one of its session may go.
    Done,
    /// To try again then.
    Again(Timestamp),
}

impl Lane {
    /// Delivers what comes in until told to stop.
    pub(crate) async fn run(self, mut incoming: mpsc::UnboundedReceiver<Waiting>, stop: CancellationToken) {
        let mut queues: HashMap<SessionId, VecDeque<Waiting>> = HashMap::new();
        // The first of each session that is not under way.
        let mut ready: BTreeSet<(Timestamp, SessionId)> = BTreeSet::new();
        let mut under_way = JoinSet::new();
        let mut sessions: HashMap<tokio::task::Id, SessionId> = HashMap::new();
        while !stop.is_cancelled() {
            let now = Timestamp::now();
            while under_way.len() < PARALLEL
                && ready.first().is_some_and(|(at, _)| *at <= now)
                && let Some((_, session)) = ready.pop_first()
            {
                let Some(first) = queues.get(&session).and_then(VecDeque::front) else { continue };
                let (lane, id) = (self.clone(), first.id.clone());
                let task = under_way.spawn(async move { lane.deliver(&id).await });
                sessions.insert(task.id(), session);
            }
            let sleeping = ready.first().map(|(at, _)| until(*at, now)).unwrap_or(LONGEST_SLEEP);
            let ended = tokio::select! {
                () = stop.cancelled() => break,
                Some(waiting) = incoming.recv() => {
                    let queue = queues.entry(waiting.session.clone()).or_default();
                    if queue.is_empty() {
                        ready.insert((waiting.next_at, waiting.session.clone()));
                    }
                    queue.push_back(waiting);
                    continue;
                }
                Some(ended) = under_way.join_next_with_id() => ended,
                () = sleep(sleeping), if under_way.len() < PARALLEL => continue,
            };
            let (id, next) = match ended {
                Ok((id, next)) => (id, next),
                Err(error) => {
                    tracing::error!(%error, "the delivery of a webhook met a fault");
                    (error.id(), Next::Again(after(backoff::LONGEST)))
                }
            };
            let Some(session) = sessions.remove(&id) else { continue };
            let Some(queue) = queues.get_mut(&session) else { continue };
            match next {
                Next::Again(at) => {
                    if let Some(first) = queue.front_mut() {
                        first.next_at = at;
                    }
                }
                Next::Done => {
                    queue.pop_front();
                    self.metrics.waiting.dec();
                    self.load.remove(&self.refill);
                }
            }
            match queue.front() {
                Some(first) => drop(ready.insert((first.next_at, session))),
                None => drop(queues.remove(&session)),
            }
        }
        // Those that come through are not sent again after the next start.
        let _ = timeout(GRACE, async { while under_way.join_next().await.is_some() {} }).await;
    }

    /// Tries once to deliver a message, and keeps what came of it.
    async fn deliver(&self, id: &str) -> Next {
        let row = match self.store.record(&self.hook.tenant, RecordKind::Notice, id).await {
            Ok(Some(row)) if row.record.state == NOTICE_DUE => row,
            // Its session was deleted.
            Ok(_) => return Next::Done,
            Err(error) => {
                tracing::warn!(%error, "cannot read a notice; trying again");
                return Next::Again(after(STORE_WAIT));
            }
        };
        let read = serde_json::from_str::<Notice>(row.record.body.as_str());
        let (Ok(notice), Some(session), Some(turn)) = (read, &row.record.session, &row.record.turn) else {
            tracing::error!(notice = id, "a notice cannot be read, and is not delivered");
            return self.give_up(&row, "the notice cannot be read").await;
        };
        let body = match message::body(session, turn, &notice) {
            Ok(body) => body,
            Err(error) => return self.give_up(&row, &error.to_string()).await,
        };
        match self.post.send(&message::id(&self.hook.tenant, id), body).await {
            Attempt::Delivered => self.delivered(id).await,
            Attempt::Gone => {
                self.metrics.failed_attempts.inc();
                self.give_up(&row, "the receiver answered 410: it wants no more of them").await
            }
            Attempt::Failed { reason, retry_after } => self.failed(row, notice, &reason, retry_after).await,
        }
    }

    async fn delivered(&self, id: &str) -> Next {
        let remove = Write::Remove { kind: RecordKind::Notice, id: id.to_owned() };
        self.settler.put(&self.hook.tenant, Vec::new(), vec![remove]).await;
        self.metrics.delivered.inc();
        if self.failing.swap(false, Ordering::Relaxed) {
            let Hook { tenant, receiver, .. } = self.hook.as_ref();
            tracing::info!(%tenant, receiver = receiver.host(), "the receiver of webhooks takes them again");
        }
        Next::Done
    }

    async fn failed(&self, row: RecordRow, mut notice: Notice, reason: &str, asked: Option<Duration>) -> Next {
        let Hook { tenant, receiver, retry_for, .. } = self.hook.as_ref();
        let receiver = receiver.host();
        notice.attempts = notice.attempts.saturating_add(1);
        let attempts = notice.attempts;
        if self.failing.swap(true, Ordering::Relaxed) {
            tracing::debug!(%tenant, receiver, attempts, reason, "a webhook was not delivered; trying again later");
        } else {
            tracing::warn!(%tenant, receiver, attempts, reason, "a webhook was not delivered; trying again later");
        }
        let next_at = after(backoff::wait(attempts, asked));
        let deadline = notice.at.millis().saturating_add(millis(*retry_for));
        if next_at.millis() > deadline {
            self.metrics.failed_attempts.inc();
            return self.give_up(&row, reason).await;
        }
        notice.next_at = next_at;
        let Ok(body) = Json::of(&notice) else { return Next::Again(next_at) };
        let RecordRow { revision, record, .. } = row;
        let expect = Expect { kind: RecordKind::Notice, id: record.id.clone(), revision: Some(revision) };
        let write = Write::Record(Record { body, ..record });
        // If it has changed, its session was deleted, which the next attempt will find out.
        self.settler.put(tenant, vec![expect], vec![write]).await;
        // What is counted is kept.
        self.metrics.failed_attempts.inc();
        Next::Again(next_at)
    }

    async fn give_up(&self, row: &RecordRow, reason: &str) -> Next {
        let Hook { tenant, receiver, .. } = self.hook.as_ref();
        let id = row.record.id.clone();
        let outcome = Json::of(&json!({ "reason": reason })).ok();
        let close = Write::Close { kind: RecordKind::Notice, id: id.clone(), state: GIVEN_UP.to_owned(), outcome };
        self.settler.put(tenant, Vec::new(), vec![close]).await;
        self.metrics.given_up.inc();
        let session = row.record.session.as_ref().map(tracing::field::display);
        let (receiver, turn) = (receiver.host(), row.record.turn.as_ref().map(tracing::field::display));
        // Of every one: this line is all that is left of it.
        tracing::warn!(%tenant, receiver, session, turn, reason, "a webhook was given up");
        Next::Done
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

fn after(wait: Duration) -> Timestamp {
    Timestamp(Timestamp::now().millis().saturating_add(millis(wait)))
}

fn until(at: Timestamp, now: Timestamp) -> Duration {
    let left = u64::try_from(at.millis().saturating_sub(now.millis())).unwrap_or_default();
    Duration::from_millis(left).min(LONGEST_SLEEP)
}
