//! Retention: clears away what has been kept long enough, a little at a time.
//!
//! A log that has been shortened still tells how its turn went: every event that counts stays where it was, and what was
//! dropped is said to have been dropped.
//!
//! A wall clock that is wrong must not delete anything. So something goes only if it was kept long enough by the wall
//! clock, and the wall clock has gone evenly, as the steady one does: since a start for as long as that thing is kept or
//! for `clock_grace`, whichever is less; since a jump ahead for as long as that thing is kept.

use std::{collections::HashSet, sync::Arc, time::Duration};

use everturn_core::{Event, Segment, SegmentBuilder, StepFinished, Timestamp, TurnId};
use everturn_store::{Command, DeleteSession, Expect, RecordKind, ReplaceLog, StoreError, Write};

use crate::{
    Engine, Flow, ReadError, Retention, artifacts,
    clock::{Even, Evenness},
    committer::CommitError,
    documents,
    follower::Follower,
    reader::EventReader,
};

/// How much is looked for at a time.
const BATCH: usize = 50;
/// How large the segments of a shortened log may become.
const SEGMENT_BYTES: usize = 32 * 1024;
/// Rest between two batches, so that nobody is held up.
const BREATH: Duration = Duration::from_millis(20);
/// How long an upload may take before it counts as abandoned.
const ABANDONED: Duration = Duration::from_secs(60 * 60);

/// How far a log is shortened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    /// Without its deltas.
    Deltas = 1,
    /// Its beginning, its last answer and its end.
    Ends = 2,
}

impl Level {
    /// Whether an event is of no importance to what the level keeps.
    fn drops(self, event: &Event) -> bool {
        match self {
            Self::Deltas => {
                use Event::{ArtifactDelta, StepUsed, TextDelta, ThinkingDelta};
                matches!(event, TextDelta(_) | ThinkingDelta(_) | ArtifactDelta(_) | StepUsed(_))
            }
            Self::Ends => !matches!(event, Event::TurnStarted(_) | Event::StepFinished(_) | Event::TurnEnded(_)),
        }
    }
}

impl Engine {
    /// Clears away until the server shuts down.
    pub(crate) async fn keep_clearing(&self) {
        let mut evenness = Evenness::new(Arc::clone(&self.0.settings.clock));
        while !self.0.draining() {
            if let Err(error) = Box::pin(self.clear_if(evenness.look())).await {
                tracing::warn!(%error, "cannot clear away what has been kept long enough");
            }
            tokio::select! {
                () = tokio::time::sleep(self.0.settings.retention.interval) => {}
                () = self.0.drain.cancelled() => {}
            }
        }
    }

    /// Clears away what has been kept long enough at this time, which is certain.
    pub async fn clear_once(&self, now: Timestamp) -> Result<(), ReadError> {
        self.clear_if(Even { now, even_for: Duration::MAX, has_jumped: false }).await
    }

    /// Clears away what has been kept long enough, as far as the clock can be believed.
    async fn clear_if(&self, clock: Even) -> Result<(), ReadError> {
        let Even { now, even_for, has_jumped } = clock;
        let Retention { deltas, logs, artifacts, sessions, deleted, clock_grace, .. } = self.0.settings.retention;
        // What was kept for long enough is from before this time.
        let old = |kept: Option<Duration>| {
            let needed = |kept: Duration| if has_jumped { kept } else { clock_grace.min(kept) };
            kept.filter(|kept| even_for >= needed(*kept)).map(|kept| before(now, kept))
        };
        if let Some(before) = old(logs) {
            self.shorten_logs(before, Level::Ends).await?;
        }
        if let Some(before) = old(deltas) {
            self.shorten_logs(before, Level::Deltas).await?;
        }
        if let Some(before) = old(artifacts) {
            self.remove_records(RecordKind::Artifact, artifacts::KEPT, before).await?;
        }
        if let Some(before) = old(Some(ABANDONED)) {
            self.remove_records(RecordKind::Document, documents::PARTIAL, before).await?;
        }
        if let Some(before) = old(sessions) {
            self.delete_idle(before).await?;
        }
        if let Some(before) = old(deleted) {
            self.clear(Command::ForgetDeleted { before }).await?;
        }
        Ok(())
    }

    async fn shorten_logs(&self, before: Timestamp, level: Level) -> Result<(), ReadError> {
        // Logs that cannot be shortened stay as they are, and keep no other log from being shortened.
        let mut passed = HashSet::new();
        loop {
            let limit = BATCH + passed.len();
            let turns = self.0.store.old_logs(before, level as u8, limit).await?;
            let more = turns.len() == limit;
            for turn in turns {
                if passed.contains(&turn) {
                    continue;
                }
                match self.shorten_log(&turn, level).await {
                    Ok(()) => {}
                    Err(ReadError::Store(error)) if error.is_retryable() => return Err(error.into()),
                    Err(error) => {
                        tracing::error!(%turn, %error, "cannot shorten a log; it stays as it is");
                        passed.insert(turn);
                    }
                }
            }
            if !more || self.0.draining() {
                return Ok(());
            }
            tokio::time::sleep(BREATH).await;
        }
    }

    async fn shorten_log(&self, turn: &TurnId, level: Level) -> Result<(), ReadError> {
        let segments = self.shortened(turn, level).await?;
        let replace = ReplaceLog { turn: turn.clone(), segments, level: level as u8 };
        Ok(self.clear(Command::ReplaceLog(Box::new(replace))).await?)
    }

    /// A turn's log as this level keeps it.
    async fn shortened(&self, turn: &TurnId, level: Level) -> Result<Vec<Segment>, ReadError> {
        let mut log = Shortened::new(level);
        let follower = Follower::new(Arc::clone(&self.0.store), turn.clone(), None);
        EventReader::new(follower, 0)
            .each_raw(|raw, event| {
                log.add(raw.at, event);
                Flow::Continue
            })
            .await?;
        Ok(log.finish())
    }

    async fn remove_records(&self, kind: RecordKind, state: &str, before: Timestamp) -> Result<(), StoreError> {
        loop {
            let rows = self.0.store.old_records(kind, state, before, BATCH).await?;
            let more = rows.len() == BATCH;
            for row in rows {
                let id = row.record.id;
                // One that has changed since it was found is in use again.
                let unchanged = Expect { kind, id: id.clone(), revision: Some(row.revision) };
                match self.put_if(&row.tenant, vec![unchanged], vec![Write::Remove { kind, id }], None).await {
                    Ok(()) | Err(CommitError::Refused(_)) => {}
                    Err(CommitError::Store(error) | CommitError::Unknown { error, .. }) => return Err(error),
                }
            }
            if !more || self.0.draining() {
                return Ok(());
            }
            tokio::time::sleep(BREATH).await;
        }
    }

    async fn delete_idle(&self, before: Timestamp) -> Result<(), StoreError> {
        loop {
            let idle = self.0.store.idle_sessions(before, BATCH).await?;
            let more = idle.len() == BATCH;
            for (tenant, session) in idle {
                let (owner, name, at) = (tenant.clone(), session.clone(), Timestamp::now());
                let delete = DeleteSession { tenant: owner, session: name, idle_before: Some(before), key: None, at };
                self.clear(Command::DeleteSession(delete)).await?;
                if self.0.store.session(&tenant, &session).await?.is_none() {
                    self.show_deleted(&tenant, &session);
                }
            }
            if !more || self.0.draining() {
                return Ok(());
            }
            tokio::time::sleep(BREATH).await;
        }
    }

    /// Commits a command whose refusal means that there is nothing to do any more.
    async fn clear(&self, command: Command) -> Result<(), StoreError> {
        match self.0.committer.commit(command).await {
            Ok(_) | Err(CommitError::Refused(_)) => Ok(()),
            Err(CommitError::Store(error) | CommitError::Unknown { error, .. }) => Err(error),
        }
    }
}

fn before(now: Timestamp, kept: Duration) -> Timestamp {
    Timestamp(now.millis().saturating_sub(i64::try_from(kept.as_millis()).unwrap_or(i64::MAX)))
}

/// A log that is being shortened.
struct Shortened {
    level: Level,
    builder: SegmentBuilder,
    segments: Vec<Segment>,
    /// Events dropped since the last one that was kept, and the time of the last of them.
    dropped: u32,
    at: Timestamp,
    /// The last answer so far, where only that is kept: it goes if another comes. With it, what was dropped before it.
    answer: Option<(Timestamp, Event, u32)>,
    /// The last step whose beginning was dropped.
    step: u32,
}

impl Shortened {
    fn new(level: Level) -> Self {
        let (builder, segments) = (SegmentBuilder::new(1), Vec::new());
        Self { level, builder, segments, dropped: 0, at: Timestamp::default(), answer: None, step: 0 }
    }

    fn add(&mut self, at: Timestamp, event: Event) {
        match event {
            Event::Dropped { count } => self.drop_events(count, at),
            event if self.level.drops(&event) => {
                if let Event::StepStarted { step, .. } = event {
                    self.step = step;
                }
                self.drop_events(1, at);
            }
            Event::StepFinished(finished) => {
                let step = finished.step.max(self.step);
                let event = Event::StepFinished(StepFinished { deltas_dropped: true, step, ..finished });
                match self.level {
                    Level::Deltas => self.keep(at, &event),
                    Level::Ends => {
                        if let Some((_, _, before)) = self.answer.take() {
                            self.dropped = self.dropped.saturating_add(before).saturating_add(1);
                        }
                        self.answer = Some((at, event, std::mem::take(&mut self.dropped)));
                    }
                }
            }
            event => {
                if let Some((at, answer, before)) = self.answer.take() {
                    let after = std::mem::replace(&mut self.dropped, before);
                    self.keep(at, &answer);
                    self.dropped = after;
                }
                self.keep(at, &event);
            }
        }
    }

    fn keep(&mut self, at: Timestamp, event: &Event) {
        self.flush_dropped();
        self.builder.push(at, event);
        if self.builder.len() >= SEGMENT_BYTES {
            self.segments.push(self.builder.take());
        }
    }

    fn drop_events(&mut self, count: u32, at: Timestamp) {
        self.dropped = self.dropped.saturating_add(count);
        self.at = at;
    }

    fn flush_dropped(&mut self) {
        if self.dropped > 0 {
            self.builder.push(self.at, &Event::Dropped { count: self.dropped });
            self.dropped = 0;
        }
    }

    fn finish(mut self) -> Vec<Segment> {
        self.flush_dropped();
        if !self.builder.is_empty() {
            self.segments.push(self.builder.take());
        }
        self.segments
    }
}
