//! The engine's handle.

use std::{
    sync::{Arc, atomic::AtomicUsize},
    time::Duration,
};

use everturn_core::{
    CancelReason, Message, SessionId, TenantId, Timestamp, TurnId, TurnState,
    context::{self, LastCalls},
};
use everturn_store::{
    Command, CommandKey, DeleteSession, NodeId, SecretBox, SessionRecord, SessionRow, Store, StoreError, TurnOutline,
    TurnRecord, TurnStatus,
};
use everturn_tools::ToolSet;
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    Accounts, Agents, DeleteError, Flow, MemoryBudget, MemoryKind, Metrics, Models, Notices, OpenError, Reserved,
    Settings, Started, SubmissionKey, TenantMemory,
    account::RunningTurns,
    clock::Timelines,
    committer::{CommitError, Committer},
    documents,
    earlier_history::full_history,
    encoded_documents::EncodedDocuments,
    follower::Follower,
    gates::Gates,
    known_summaries::KnownSummaries,
    live::{Interrupt, LiveTurns},
    memory::{ALL_TURNS, ANSWER},
    projection::{Cursor, Projection, TurnView},
    questions::Questions,
    queues::Queues,
    reader::{EventReader, ReadError, TurnReader},
    session_head::BusySessions,
    session_reader::Watchers,
    slots::Waiting,
    tail::Tail,
    tenant_slots::TenantSlots,
    titles::Naming,
    turn_log::deleted,
    waker::Waker,
    warm_sessions::WarmSessions,
};

/// How long a deletion waits for the session's running turn to end.
const DELETE_PATIENCE: Duration = Duration::from_secs(5);

/// Runs turns. Cheap to clone.
#[derive(Clone)]
pub struct Engine(pub(crate) Arc<Shared>);

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("agents", &self.0.agents.names()).finish_non_exhaustive()
    }
}

/// What the engine works with.
pub struct Parts {
    /// Where everything is kept.
    pub store: Arc<dyn Store>,
    /// Seals secret options.
    pub secrets: SecretBox,
    /// The agents.
    pub agents: Agents,
    /// Finds the models of stored agents.
    pub models: Arc<dyn Models>,
    /// The tools that agents may name.
    pub tools: Arc<ToolSet>,
    /// Limits and times.
    pub settings: Settings,
    /// What keys and tenants may use.
    pub accounts: Arc<dyn Accounts>,
    /// What is told to others outside, and whose turns it is about.
    pub notices: Notices,
    /// Where to count.
    pub metrics: Metrics,
}

pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) secrets: SecretBox,
    pub(crate) agents: Agents,
    pub(crate) models: Arc<dyn Models>,
    pub(crate) tools: Arc<ToolSet>,
    pub(crate) settings: Settings,
    pub(crate) metrics: Metrics,
    pub(crate) memory: MemoryBudget,
    pub(crate) encoded: EncodedDocuments,
    pub(crate) committer: Committer,
    pub(crate) node: NodeId,
    /// When it was started. Turns that others left go on after that.
    pub(crate) started: Timestamp,
    pub(crate) live: LiveTurns,
    pub(crate) queues: Queues,
    pub(crate) warm: WarmSessions,
    pub(crate) summaries: KnownSummaries,
    /// For submissions with a key: a repetition waits for the first one.
    pub(crate) keys: Gates,
    /// For what changes a session.
    pub(crate) sessions: Gates,
    /// For submissions that join a queue of a tenant; counts them, and lets them in together.
    pub(crate) tenant_queues: Gates,
    pub(crate) waker: Waker,
    pub(crate) timelines: Timelines,
    pub(crate) naming: Naming,
    pub(crate) questions: Arc<Questions>,
    pub(crate) watchers: Watchers,
    pub(crate) busy: BusySessions,
    pub(crate) slots: Arc<Semaphore>,
    pub(crate) running: Arc<RunningTurns>,
    pub(crate) accounts: Arc<dyn Accounts>,
    pub(crate) notices: Notices,
    pub(crate) queued: AtomicUsize,
    pub(crate) waiting: Waiting,
    /// For documents that are read.
    pub(crate) readers: TenantSlots,
    pub(crate) drain: CancellationToken,
    pub(crate) tasks: TaskTracker,
}

impl Shared {
    pub(crate) fn draining(&self) -> bool {
        self.drain.is_cancelled()
    }
}

/// A session's history.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Everything, exactly.
    pub full: Vec<Message>,
    /// What the model is given.
    pub compacted: Vec<Message>,
}

impl Engine {
    /// Starts, and goes on with every turn that was left unfinished.
    pub async fn start(parts: Parts) -> Result<Self, StoreError> {
        let Parts { store, secrets, agents, models, tools, settings, accounts, notices, metrics } = parts;
        let started = Timestamp::now();
        let node = NodeId(TurnId::mint().as_str().replace("turn_", "node_"));
        let committer = Committer::start(Arc::clone(&store), metrics.clone());
        let slots = Arc::new(Semaphore::new(settings.concurrent_turns));
        let (live, queued) = (LiveTurns::default(), AtomicUsize::new(0));
        let (drain, tasks) = (CancellationToken::new(), TaskTracker::new());
        let timelines = Timelines::new(Arc::clone(&settings.clock));
        let memory = MemoryBudget::new(settings.memory_bytes, metrics.memory.clone());
        let encoded = EncodedDocuments::new(memory.of_cache(MemoryKind::Images));
        let warm = WarmSessions::new(
            settings.warm_bytes,
            metrics.warm_bytes.clone(),
            memory.of_cache(MemoryKind::WarmSessions),
        );
        let shared = Shared {
            store,
            secrets,
            agents,
            models,
            tools,
            settings,
            metrics,
            memory,
            encoded,
            committer,
            node,
            started,
            live,
            queues: Queues::default(),
            warm,
            summaries: KnownSummaries::default(),
            keys: Gates::default(),
            sessions: Gates::default(),
            tenant_queues: Gates::default(),
            waiting: Waiting::default(),
            readers: documents::reader_slots(),
            waker: Waker::default(),
            timelines,
            naming: Naming::default(),
            questions: Arc::default(),
            watchers: Watchers::default(),
            busy: BusySessions::default(),
            slots,
            running: Arc::default(),
            accounts,
            notices,
            queued,
            drain,
            tasks,
        };
        let engine = Self(Arc::new(shared));
        engine.take_over().await?;
        let (waking, clearing) = (engine.clone(), engine.clone());
        engine.0.tasks.spawn(async move { waking.keep_waking().await });
        engine.0.tasks.spawn(async move { clearing.keep_clearing().await });
        Ok(engine)
    }

    /// The agents.
    pub fn agents(&self) -> &Agents {
        &self.0.agents
    }

    /// The tools that agents may name.
    pub fn tools(&self) -> &ToolSet {
        &self.0.tools
    }

    /// The memory that requests of a tenant may hold.
    pub fn memory_of(&self, tenant: &TenantId) -> TenantMemory {
        self.0.memory.of(tenant)
    }

    /// Why nothing can be accepted now, if so.
    pub fn trouble(&self) -> Option<String> {
        if self.0.draining() {
            return Some("the server is shutting down".to_owned());
        }
        self.0.committer.trouble().map(|error| error.to_string())
    }

    /// One session.
    pub async fn session(&self, tenant: &TenantId, session: &SessionId) -> Result<Option<SessionRecord>, StoreError> {
        self.0.store.session(tenant, session).await
    }

    /// A page of sessions, newest first.
    pub async fn sessions(
        &self,
        tenant: &TenantId,
        below: Option<u64>,
        limit: usize,
    ) -> Result<Vec<SessionRow>, StoreError> {
        self.0.store.sessions(tenant, below, limit).await
    }

    /// The session's history. Of a turn that runs, or waits for time alone, it has the steps that are complete: a call
    /// without a result waits for somebody.
    pub async fn history(&self, tenant: &TenantId, session: &SessionId) -> Result<Reserved<History>, ReadError> {
        let memory = self.reserve_history(tenant, session, ALL_TURNS, ANSWER).await?;
        let mut turns = self.0.store.turns(tenant, session).await?;
        let works = |turn: &&mut TurnRecord| match &turn.status {
            TurnStatus::Running => true,
            TurnStatus::Waiting(wait) => wait.is_timed(),
            TurnStatus::Queued | TurnStatus::Ended(_) => false,
        };
        if let Some(turn) = turns.iter_mut().find(works) {
            let state = self.fold(&turn.id).await?;
            turn.messages = state.complete_messages();
            turn.compaction = state.compaction;
        }
        let is_open = |turn: &TurnRecord| matches!(turn.status, TurnStatus::Running | TurnStatus::Waiting(_));
        let open = turns.iter().any(is_open);
        let (full, compaction) = full_history(turns);
        let compacted = context::compact(&full, compaction.as_ref());
        let last_calls = if open { LastCalls::MayWait } else { LastCalls::Over };
        let given = context::normalise_for_readers(&compacted, last_calls);
        let mut compacted: Vec<_> = given.system.into_iter().map(|content| Message::System { content }).collect();
        compacted.extend(given.messages);
        Ok(Reserved { value: History { full, compacted }, memory })
    }

    /// A page of a session's turns, newest first.
    pub async fn turns_below(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        below: Option<u64>,
        limit: usize,
    ) -> Result<Reserved<Vec<TurnRecord>>, ReadError> {
        let memory = self.reserve_history(tenant, session, (below, limit), ANSWER).await?;
        Ok(Reserved { value: self.0.store.turns_below(tenant, session, below, limit).await?, memory })
    }

    /// The same page without what was said.
    pub async fn outlines_below(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        below: Option<u64>,
        limit: usize,
    ) -> Result<Vec<TurnOutline>, StoreError> {
        self.0.store.outlines_below(tenant, session, below, limit).await
    }

    /// One turn of a session.
    pub async fn turn(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        turn: &TurnId,
    ) -> Result<Option<TurnRecord>, StoreError> {
        self.0.store.turn(tenant, session, turn).await
    }

    /// Deletes a session with all that belongs to it; a running turn is cancelled first.
    pub async fn delete(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        key: Option<SubmissionKey>,
    ) -> Result<(), DeleteError> {
        if let Some(key) = &key
            && let Some(kept) = self.0.store.kept(tenant, &key.key, Timestamp::now()).await?
        {
            let same = kept.fingerprint == key.fingerprint;
            return if same { Ok(()) } else { Err(DeleteError::KeyReused { key: key.key.clone() }) };
        }
        self.0.store.session(tenant, session).await?.ok_or(DeleteError::NotFound)?;
        if let Some((_, live)) = self.0.live.of_session(tenant, session) {
            live.interrupt(Interrupt::Cancel(CancelReason::SessionDeleted));
            // A turn that does not end in time finds its log gone.
            live.stopped(DELETE_PATIENCE).await;
        }
        let key = key.map(|SubmissionKey { key, fingerprint }| CommandKey { key, fingerprint, outcome: String::new() });
        let (owner, at) = (tenant.clone(), Timestamp::now());
        let command = DeleteSession { tenant: owner, session: session.clone(), idle_before: None, key, at };
        match self.commit_turn(Command::DeleteSession(command)).await {
            Ok(_) => {
                self.show_deleted(tenant, session);
                Ok(())
            }
            Err(CommitError::Refused(_)) => Err(DeleteError::NotFound),
            Err(CommitError::Store(error) | CommitError::Unknown { error, .. }) => Err(error.into()),
        }
    }

    /// Ends what is left of a session that is not there any more.
    pub(crate) fn show_deleted(&self, tenant: &TenantId, session: &SessionId) {
        self.0.watchers.tell(tenant, session);
        self.0.warm.forget(tenant, session);
        self.0.queues.forget(tenant, session);
        self.0.busy.forget(tenant, session);
        // One that began in between.
        if let Some((_, live)) = self.0.live.of_session(tenant, session) {
            live.interrupt(Interrupt::Cancel(CancelReason::SessionDeleted));
        }
        for tail in self.0.live.unpark_session(tenant, session) {
            // Nothing is kept of it any more, this end neither, but those who read it must learn that it is over.
            tail.publish(deleted(tail.head().seq + 1));
            tail.close();
        }
    }

    /// Folds the whole durable log of a turn.
    pub(crate) async fn fold(&self, turn: &TurnId) -> Result<TurnState, ReadError> {
        self.fold_on(turn, TurnState::default()).await
    }

    /// Folds what is durable of a turn's log beyond a state.
    pub(crate) async fn fold_on(&self, turn: &TurnId, mut state: TurnState) -> Result<TurnState, ReadError> {
        let follower = Follower::new(Arc::clone(&self.0.store), turn.clone(), None);
        EventReader::new(follower, state.head)
            .each(|seq, event| {
                state.apply(seq, &event);
                Flow::Continue
            })
            .await?;
        Ok(state)
    }

    /// Reads a turn as a projection shows it, from any point, whether it runs, waits or is over. `None` if the turn is over
    /// and the cursor at its end: nothing will ever come.
    pub async fn read_turn(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        turn: &TurnId,
        projection: &'static dyn Projection,
        cursor: Cursor,
    ) -> Result<Option<TurnReader>, OpenError> {
        if cursor == Cursor::default()
            && let Some(tail) = self.tail_of_queued(tenant, session, turn)
        {
            let follower = Follower::new(Arc::clone(&self.0.store), turn.clone(), Some(tail));
            let view = TurnView::new(session.clone(), turn.clone());
            let counted = self.0.metrics.reader();
            return Ok(Some(TurnReader::new(follower, tenant.clone(), view, projection, cursor, counted)));
        }
        let (tail, record) = self.tail_and_record(tenant, session, turn).await?;
        let head = tail.as_ref().map_or(record.head, |tail| record.head.max(tail.head().seq));
        if cursor.seq > head || (cursor.seq == 0 && cursor.part > 0) {
            return Err(OpenError::Cursor { head });
        }
        if record.status.is_ended() && cursor == Cursor::after(head) {
            return Ok(None);
        }
        let view = TurnView::new(session.clone(), turn.clone());
        let follower = Follower::new(Arc::clone(&self.0.store), turn.clone(), tail);
        if cursor.part > 0 && !follower.has_part(projection, cursor).await? {
            return Err(OpenError::Part { cursor });
        }
        Ok(Some(TurnReader::new(follower, tenant.clone(), view, projection, cursor, self.0.metrics.reader())))
    }

    /// Where the events of a queued turn will be seen, if it is known to be queued.
    fn tail_of_queued(&self, tenant: &TenantId, session: &SessionId, turn: &TurnId) -> Option<Arc<Tail>> {
        let is_queued = || !self.0.draining() && self.0.queues.has(tenant, session, turn);
        if !is_queued() {
            return None;
        }
        let tail = self.0.live.tail_to_come(turn, tenant, session, || Tail::new(0, self.0.settings.ring_bytes));
        // Once more: a turn leaves the queue before it begins or its end is shown, and finds the tail if it is there by then.
        is_queued().then_some(tail)
    }

    /// A turn, and where its coming events will be seen, if it has not ended.
    pub(crate) async fn tail_and_record(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        turn: &TurnId,
    ) -> Result<(Option<Arc<Tail>>, TurnRecord), OpenError> {
        let read = || self.0.store.turn(tenant, session, turn);
        // The tail first: a turn that ends between the two looks is then read from the store, to its end.
        if let Some(tail) = self.0.live.tail(turn) {
            let record = read().await?.ok_or(OpenError::NotFound)?;
            return Ok((Some(tail), record));
        }
        let record = read().await?.ok_or(OpenError::NotFound)?;
        if record.status.is_ended() || self.0.draining() {
            return Ok((None, record));
        }
        let tail = self.0.live.tail_to_come(turn, tenant, session, || Tail::new(0, self.0.settings.ring_bytes));
        // Once more: whatever happened before the tail was there is stored by now, whatever comes will be seen in it.
        let record = read().await?.ok_or(OpenError::NotFound)?;
        tail.reach(record.head);
        if record.status.is_ended() {
            self.0.live.unpark(turn);
            return Ok((None, record));
        }
        Ok((Some(tail), record))
    }

    /// Reads a leg as a projection shows it, from its first event.
    pub fn read_leg(&self, started: &Started, projection: &'static dyn Projection) -> TurnReader {
        let view = TurnView::new(started.session.clone(), started.turn.clone());
        let cursor = Cursor::after(started.leg_start.saturating_sub(1));
        TurnReader::new(self.follow(started), started.tenant.clone(), view, projection, cursor, self.0.metrics.reader())
    }

    /// Reads the events of a leg, from its first.
    pub fn leg_events(&self, started: &Started) -> EventReader {
        EventReader::new(self.follow(started), started.leg_start.saturating_sub(1))
    }

    fn follow(&self, started: &Started) -> Follower {
        Follower::new(Arc::clone(&self.0.store), started.turn.clone(), started.tail.clone())
    }

    /// Stops: takes no more work, lets steps finish for a while, then leaves the rest to the next start.
    pub async fn shutdown(&self, grace: Duration) {
        self.0.drain.cancel();
        self.0.tasks.close();
        if tokio::time::timeout(grace, self.0.tasks.wait()).await.is_err() {
            self.0.live.all().iter().for_each(|live| live.interrupt(Interrupt::Halt));
            // Dropping work takes no time; this is for the tasks to notice.
            let _ = tokio::time::timeout(Duration::from_secs(1), self.0.tasks.wait()).await;
        }
        self.0.live.close();
    }
}
