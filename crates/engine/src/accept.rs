//! Does what was decided about a submission: one command to the store, then the turn runs.

use std::sync::Arc;

use everturn_core::{
    Answer, CancelReason, CommandId, Event, Message, ModelOptions, Outcome, Segment, SegmentBuilder, SessionConfig,
    SessionId, TenantId, Timestamp, TurnId, TurnStarted, TurnState, Usage,
    submission::{self, Submission},
};
use everturn_store::{BeginTurn, Command, ResumeTurn, Start, Supersede, Write};

use crate::{
    Agent, Engine, Started, SubmissionKey, Submit, SubmitError,
    account::Slot,
    earlier_history::{EarlierHistory, FinishedTurn},
    forms,
    notices::Noticed,
    ownership::Owned,
    queues::QueuedTurn,
    repetition::command_key,
    session_head::SessionHead,
    spending, turn,
};

/// The session that a submission goes to, with its settings from now on.
pub(crate) struct Place {
    pub(crate) session: SessionId,
    pub(crate) agent: Arc<Agent>,
    pub(crate) config: SessionConfig,
}

/// A turn to begin.
pub(crate) struct Begin {
    /// What happens in it first, before anybody runs it.
    pub(crate) opening: Vec<Event>,
    pub(crate) expected_version: Option<u64>,
    /// What the session's turns have used.
    pub(crate) used_before: Usage,
    pub(crate) supersedes: Option<Superseded>,
    /// What the turns that had ended before left.
    pub(crate) earlier: EarlierHistory,
    pub(crate) input: Vec<Message>,
    /// Whether it compacts history and does nothing else.
    pub(crate) compacts: bool,
}

/// A turn that another takes the place of.
pub(crate) struct Superseded {
    pub(crate) end: Supersede,
    pub(crate) writes: Vec<Write>,
    /// What it leaves.
    pub(crate) finished: FinishedTurn,
}

/// A turn to take up.
pub(crate) struct Resume {
    pub(crate) expected_version: u64,
    pub(crate) turn: TurnId,
    pub(crate) state: TurnState,
    /// What the session's turns have used.
    pub(crate) used: Usage,
    pub(crate) earlier: EarlierHistory,
    pub(crate) answers: Vec<Answer>,
    /// See [`Event::Resumed`].
    pub(crate) options: Option<Box<ModelOptions>>,
}

impl Engine {
    pub(crate) async fn begin_turn(
        &self,
        submit: &Submit,
        place: Place,
        begin: Begin,
        slot: &mut Option<Slot>,
    ) -> Result<Started, SubmitError> {
        let Place { session, agent, config } = place;
        let Begin { opening, expected_version, used_before, supersedes, mut earlier, input, compacts } = begin;
        let tenant = submit.tenant.clone();
        let at = Timestamp::now();
        let opens_session = expected_version.is_none() && opening.is_empty();
        let (supersedes, mut writes, superseded) = match supersedes {
            Some(Superseded { end, writes, finished }) => (Some(end), writes, Some(finished)),
            None => (None, Vec::new(), None),
        };
        let used = superseded.as_ref().map(|turn| turn.usage).filter(|usage| !usage.is_zero());
        let last_used = used.unwrap_or_else(|| earlier.last_used());
        writes.push(spending::turn_begun(&agent, submit.account.key.clone(), at));
        let ended = supersedes.as_ref().map(|end| (end.turn.clone(), end.segment.clone()));
        let started = Event::TurnStarted(TurnStarted {
            agent: agent.name.clone(),
            opens_session,
            input: input.clone(),
            begins_history: submit.begins_history,
            request: submit.request.clone(),
            compacts,
            used_before,
            last_used,
            by: submit.account.key.clone(),
            options: submit.options.clone(),
        });
        let events: Vec<_> = std::iter::once(started).chain(opening).collect();
        let mut state = TurnState::default();
        (1..).zip(&events).for_each(|(seq, event)| state.apply(seq, event));
        let segment = segment(1, at, &events);
        let turn = TurnId::mint();
        let command = BeginTurn {
            tenant: tenant.clone(),
            session: session.clone(),
            expected_version,
            config: config.clone(),
            supersedes,
            turn: turn.clone(),
            start: Start::Now(self.0.node.clone()),
            segment: segment.clone(),
            messages: input,
            begins_history: submit.begins_history,
            by: submit.account.key.clone(),
            options: ModelOptions::default(),
            writes,
            key: command_key(submit.key.as_ref(), &session, &turn, 1),
            at,
        };
        let receipt = self.commit_turn(Command::BeginTurn(Box::new(command))).await?;
        if let Some((turn, segment)) = ended {
            self.show_end(&turn, segment);
        }
        self.0.metrics.turns_started.inc();
        let enlisted = self.enlist(&tenant, &session, &turn, 0);
        enlisted.live.tail.publish(segment);
        self.0.watchers.tell(&tenant, &session);
        self.0.warm.forget(&tenant, &session);
        match superseded {
            _ if submit.begins_history => earlier = EarlierHistory::default().after(last_used),
            // Only now, since nobody else holds history any more: it is added to and not copied.
            Some(superseded) => earlier.push(superseded),
            None => {}
        }
        let used_elsewhere = Some(used_before);
        let (epoch, version) = (receipt.epoch, Some(receipt.version));
        let owned = Owned { tenant, session, agent, config, turn, epoch, state, used_elsewhere, version };
        Ok(self.run(owned, earlier, enlisted, slot.take()))
    }

    /// Keeps a message until the turns before it have ended. It is before all that are queued after this call, also while
    /// nobody waits for the outcome.
    pub(crate) fn queue_turn(
        &self,
        submit: &Submit,
        place: Place,
        head: &SessionHead,
    ) -> Result<impl Future<Output = Result<Started, SubmitError>>, SubmitError> {
        if self.0.draining() {
            return Err(SubmitError::ShuttingDown);
        }
        let Submission::Begin(input) = &submit.submission else { return Err(submission::Refused::Busy.into()) };
        let Place { session, config, .. } = place;
        let (tenant, turn) = (submit.tenant.clone(), TurnId::mint());
        let command = BeginTurn {
            tenant: tenant.clone(),
            session: session.clone(),
            expected_version: Some(head.version),
            config,
            supersedes: None,
            turn: turn.clone(),
            start: Start::Queued,
            segment: SegmentBuilder::new(1).take(),
            messages: input.clone(),
            begins_history: submit.begins_history,
            by: submit.account.key.clone(),
            options: submit.options.clone(),
            writes: Vec::new(),
            key: command_key(submit.key.as_ref(), &session, &turn, 0),
            at: Timestamp::now(),
        };
        // Known before it is kept: the turn before it may end at any moment.
        let (by, options) = (submit.account.key.clone(), submit.options.clone());
        let queued = QueuedTurn::new(turn.clone(), input.clone(), submit.begins_history, by, options);
        self.0.queues.join(&tenant, &session, queued);
        let kept = self.commit_turn(Command::BeginTurn(Box::new(command)));
        let last = head.last_turn.as_ref().map(|last| last.id.clone());
        Ok(async move {
            if let Err(error) = kept.await {
                self.0.queues.left(&tenant, &session, &turn);
                return Err(error.into());
            }
            // The turn before it may have ended while this one was being kept. If it has not, its task looks at the queue
            // later: so the queue must be known, also if somebody found it empty meanwhile.
            self.0.queues.insert(&tenant, &session);
            let is_running = |last: &TurnId| self.0.live.get(last).is_some() || self.0.busy.contains(&tenant, &session);
            if !last.as_ref().is_some_and(is_running) {
                self.spawn_next(&tenant, &session);
            }
            Ok(Started { tenant, session, turn, leg_start: 0, tail: None })
        })
    }

    /// The end of a waiting turn whose place a new message takes.
    pub(crate) fn supersede(
        &self,
        place: &Place,
        tenant: &TenantId,
        turn: &TurnId,
        mut state: TurnState,
    ) -> Superseded {
        let mut writes = forms::cancelled(&state);
        let now = Timestamp::now();
        let events = submission::supersede(&state, now);
        let segment = segment(state.head + 1, now, &events);
        for (seq, event) in (state.head + 1..).zip(&events) {
            state.apply(seq, event);
        }
        let noticed = Noticed { tenant, session: &place.session, turn };
        writes.extend(self.0.notices.of_rest(noticed, &state));
        let rest = turn::rest(&state);
        let (messages, compaction, usage) = (state.messages(), state.compaction, state.usage);
        let outcome = Outcome::Cancelled { reason: CancelReason::Superseded };
        let finished = FinishedTurn { messages, compaction, outcome, usage, lengths: None };
        Superseded { end: Supersede { turn: turn.clone(), segment, rest }, writes, finished }
    }

    /// Shows the end of a turn that rested to those who read it.
    pub(crate) fn show_end(&self, turn: &TurnId, segment: Segment) {
        self.0.notices.tell();
        if let Some(tail) = self.0.live.unpark(turn) {
            tail.publish(segment);
            tail.close();
        }
    }

    pub(crate) async fn resume_turn(
        &self,
        tenant: &TenantId,
        place: Place,
        resume: Resume,
        key: Option<&SubmissionKey>,
        slot: &mut Option<Slot>,
    ) -> Result<Started, SubmitError> {
        let Resume { expected_version, turn, state, used, earlier, answers, options } = resume;
        let answers = self.settle_answers(tenant, &state, answers).await?;
        let writes = forms::closed(&state, &answers);
        let event = Event::Resumed { answers, options };
        let used_elsewhere = used.saturating_sub(state.usage);
        let taken = Taken { expected_version, turn, earlier, state, used_elsewhere, event, writes };
        let started = self.take_up(tenant, place, taken, key, slot).await?;
        self.0.metrics.turns_resumed.inc();
        Ok(started)
    }

    /// Takes up a turn that waits or is queued.
    pub(crate) async fn take_up(
        &self,
        tenant: &TenantId,
        place: Place,
        taken: Taken,
        key: Option<&SubmissionKey>,
        slot: &mut Option<Slot>,
    ) -> Result<Started, SubmitError> {
        let Place { session, agent, config } = place;
        let Taken { expected_version, turn, earlier, mut state, used_elsewhere, event, writes } = taken;
        let (tenant, at, head) = (tenant.clone(), Timestamp::now(), state.head);
        state.apply(head + 1, &event);
        let segment = segment(head + 1, at, &[event]);
        let command = ResumeTurn {
            id: CommandId::mint(),
            tenant: tenant.clone(),
            session: session.clone(),
            expected_version,
            config: config.clone(),
            turn: turn.clone(),
            node: self.0.node.clone(),
            segment: segment.clone(),
            writes,
            key: command_key(key, &session, &turn, head + 1),
            at,
        };
        let receipt = self.commit_turn(Command::ResumeTurn(Box::new(command))).await?;
        let enlisted = self.enlist(&tenant, &session, &turn, head);
        enlisted.live.tail.publish(segment);
        self.0.watchers.tell(&tenant, &session);
        let used_elsewhere = Some(used_elsewhere);
        let (epoch, version) = (receipt.epoch, Some(receipt.version));
        let owned = Owned { tenant, session, agent, config, turn, epoch, state, used_elsewhere, version };
        self.0.warm.forget(&owned.tenant, &owned.session);
        Ok(self.run(owned, earlier, enlisted, slot.take()))
    }
}

/// A turn to go on with, and the event that takes it up.
pub(crate) struct Taken {
    pub(crate) expected_version: u64,
    pub(crate) turn: TurnId,
    pub(crate) earlier: EarlierHistory,
    pub(crate) state: TurnState,
    /// What the session's other turns have used.
    pub(crate) used_elsewhere: Usage,
    pub(crate) event: Event,
    pub(crate) writes: Vec<Write>,
}

/// A segment of events that are made at once.
pub(crate) fn segment(first_seq: u64, at: Timestamp, events: &[Event]) -> Segment {
    let mut builder = SegmentBuilder::new(first_seq);
    events.iter().for_each(|event| builder.push(at, event));
    builder.take()
}
