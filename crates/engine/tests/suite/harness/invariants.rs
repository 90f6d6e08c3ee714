//! What must hold of every session, whatever happened to it.

use std::collections::HashSet;

use everturn_core::{
    CallId, CallState, Event, Finish, Message, Outcome, Phase, RawEvent, Role, SessionId, StepState, TenantId,
    TurnEnded, TurnId, TurnState, Usage,
    context::{self, LastCalls},
};
use everturn_engine::Engine;
use everturn_store::{SimStore, Store as _, TurnRecord, TurnStatus};

use super::records::check_records;

/// All stored events of a turn; gap-free.
pub(crate) async fn stored_log(store: &SimStore, turn: &TurnId) -> Vec<(u64, Event)> {
    let segments = store.read(turn, 0, usize::MAX).await.expect("the store works");
    let mut next = 1;
    let mut take = |event: RawEvent<'_>| {
        assert_eq!(event.seq, next, "the log of {turn} has a gap");
        next = event.last_seq + 1;
        (event.seq, event.decode().expect("the log is sound"))
    };
    segments.iter().flat_map(everturn_core::Segment::events).map(|event| take(event.expect("sound"))).collect()
}

/// What became of a session's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum History {
    /// It is all there, and all its own.
    Whole,
    /// Some of it may be shared with other sessions, or was taken away: tokens and records are counted elsewhere, and calls
    /// may have lost their results.
    Cut,
}

/// Checks a session that was neither forked nor truncated; see [`check_history`].
pub(crate) async fn check_session(store: &SimStore, engine: &Engine, tenant: &TenantId, session: &SessionId) {
    check_history(store, engine, tenant, session, History::Whole).await;
}

/// Checks a session whose turns all rest, or one of which runs: the log of every turn is well-formed and folds to what
/// is stored of it, history is what the engine says and what providers take, tokens add up, and what lies beside the
/// turns agrees with them.
pub(crate) async fn check_history(
    store: &SimStore,
    engine: &Engine,
    tenant: &TenantId,
    session: &SessionId,
    history: History,
) {
    let whole = history == History::Whole;
    let record = store.session(tenant, session).await.unwrap().expect("the session is there");
    let turns = store.turns(tenant, session).await.unwrap();
    check_order(&turns);
    let (mut full, mut shown) = (Vec::new(), Vec::new());
    let mut used = Usage::default();
    let mut compaction = None;
    let mut logs = Vec::new();
    for turn in &turns {
        let log = stored_log(store, &turn.id).await;
        check_log(&log);
        let mut state = TurnState::default();
        log.iter().for_each(|(seq, event)| state.apply(*seq, event));
        assert_eq!(turn.head, state.head);
        check_record(turn, &state);
        if let Some((_, Event::TurnStarted(started))) = log.first() {
            assert_eq!(started.begins_history, turn.begins_history);
            if turn.begins_history {
                full.clear();
                shown.clear();
                compaction = None;
            }
        }
        full.extend(state.messages());
        shown.extend(state.complete_messages());
        used += turn.usage;
        compaction = state.compaction.clone().or(compaction);
        logs.push((turn.id.clone(), log, state));
    }
    assert_eq!(record.queued, turns.iter().filter(|turn| turn.status == TurnStatus::Queued).count() as u64);
    assert!(!whole || record.usage == used, "the session's tokens are those of its turns");
    let history = engine.history(tenant, session).await.unwrap();
    assert_eq!(history.full, shown, "the engine's history is the fold of the logs, without steps under way");
    let compacted = context::compact(&shown, compaction.as_ref());
    let open = turns.iter().any(is_open);
    let last_calls = if open { LastCalls::MayWait } else { LastCalls::Over };
    let given = context::normalise_for_readers(&compacted, last_calls);
    let system = given.system.into_iter().map(|content| Message::System { content });
    let given: Vec<_> = system.chain(given.messages).collect();
    assert_eq!(history.compacted, given, "compacted history is what the model is given");
    for history in [&history.full, &history.compacted] {
        let conversation = context::normalise(history);
        assert_eq!(complaint(&conversation.messages), None, "{:#?}", conversation.messages);
    }
    assert!(!whole || unanswered(&full, open).is_none(), "{:?}: {full:#?}", unanswered(&full, open));
    check_conversation(engine, tenant, session, &full).await;
    check_records(store, tenant, session, &logs, whole).await;
}

/// The conversation is full history, each message under a name of its own.
async fn check_conversation(engine: &Engine, tenant: &TenantId, session: &SessionId, full: &[Message]) {
    let said = engine.conversation(tenant, session).await.unwrap();
    let messages: Vec<_> = said.iter().map(|said| said.message.clone()).collect();
    assert_eq!(messages, full, "the conversation is full history");
    let names: HashSet<_> = said.iter().map(|said| &said.id).collect();
    assert_eq!(names.len(), said.len(), "two messages of one name: {said:#?}");
}

fn is_open(turn: &TurnRecord) -> bool {
    matches!(turn.status, TurnStatus::Running | TurnStatus::Waiting(_))
}

/// One turn at a time: those before it have ended, those after it are queued, or were ended while they were.
fn check_order(turns: &[TurnRecord]) {
    let begun = turns.iter().rposition(|turn| is_open(turn) || (turn.status.is_ended() && turn.head > 1));
    for (index, turn) in turns.iter().enumerate() {
        match begun {
            Some(last) if index < last => assert!(turn.status.is_ended(), "{} has not ended", turn.id),
            Some(last) if index == last => {}
            Some(_) | None => {
                let never_begun = turn.status.is_ended() && turn.head == 1;
                assert!(turn.status == TurnStatus::Queued || never_begun, "{} is out of order", turn.id);
            }
        }
    }
}

fn check_record(turn: &TurnRecord, state: &TurnState) {
    match (&turn.status, &state.phase) {
        (TurnStatus::Ended(outcome), Phase::Ended(ended)) => {
            assert_eq!((outcome, ended.usage), (&ended.outcome, turn.usage));
        }
        (TurnStatus::Waiting(stored), Phase::Waiting(folded)) => assert_eq!(stored, folded),
        (TurnStatus::Running, Phase::Running) | (TurnStatus::Queued, Phase::New) => return,
        (status, phase) => panic!("{} is stored as {status:?} but folds to {phase:?}", turn.id),
    }
    if turn.head > 1 {
        assert_eq!(turn.messages, state.messages(), "stored messages are the fold of the log");
    } else {
        assert!(!turn.messages.is_empty(), "what a turn would have said that never began is kept");
    }
    assert_eq!(turn.usage, state.usage, "stored tokens are the fold of the log");
    assert_eq!(turn.compaction, state.compaction);
}

/// Begins once, unless it was ended before; ends at most once and with that; steps do not overlap; every call is
/// resolved once; the whole answer of a step equals its deltas; intent comes before a tool's result; whoever is waited
/// for was asked.
fn check_log(log: &[(u64, Event)]) {
    let mut state = TurnState::default();
    for (seq, event) in log {
        let at = format!("event {seq}: {event:?}");
        match event {
            Event::TurnStarted(_) => assert_eq!(*seq, 1, "{at}"),
            Event::StepStarted { step, .. } => {
                assert!(state.step.is_none() && state.open_calls().next().is_none(), "{at}");
                assert_eq!(*step, state.steps + 1, "{at}");
            }
            Event::TextDelta(_)
            | Event::ThinkingDelta(_)
            | Event::ToolCalled { .. }
            | Event::StepUsed(_)
            | Event::ArtifactStarted(_)
            | Event::ArtifactDelta(_) => assert!(state.step.is_some(), "outside of a step: {at}"),
            Event::StepRestarted { usage, .. } => {
                let step = state.step.as_ref().unwrap_or_else(|| panic!("outside of a step: {at}"));
                assert!(counts_what_was_told(step, *usage), "{at}: {step:?}");
            }
            Event::StepFinished(finished) => {
                let step = state.step.as_ref().unwrap_or_else(|| panic!("outside of a step: {at}"));
                let aborted = finished.finish == Finish::Aborted;
                assert!(!aborted || counts_what_was_told(step, finished.usage), "{at}: {step:?}");
                assert!(finished.deltas_dropped || step.content().text() == finished.content.text(), "{at}");
                let calls: Vec<_> = step.calls.iter().map(|(call, _)| call).collect();
                let message = Message::Assistant { content: finished.content.clone() };
                assert_eq!(message.tool_uses().collect::<Vec<_>>(), calls, "{at}");
                assert!(finished.finish != Finish::ToolUse || !calls.is_empty(), "{at}");
            }
            Event::ToolIntended { call_id, effect_id, effect, tool, step, .. } => {
                let call = open_call(&state, call_id, &at);
                assert_eq!((tool, *step), (&call.call.name, state.steps), "{at}");
                if let Some((earlier, _)) = &call.intent {
                    assert_eq!(earlier, effect_id, "a repetition under another name: {at}");
                    assert!(effect.may_repeat(), "an effect is repeated: {at}");
                }
            }
            Event::ToolFinished { call_id, tool, .. } => {
                assert_eq!(*tool, open_call(&state, call_id, &at).call.name, "{at}");
            }
            Event::TimerSet { call_id, from, wake_at } => {
                let call = open_call(&state, call_id, &at);
                assert!(call.intent.is_some() && call.timer.is_none() && from <= wake_at, "{at}");
            }
            Event::FormOpened(form) => {
                let call = open_call(&state, &form.call_id, &at);
                if call.intent.is_none() {
                    assert_eq!(call.form, None, "asked twice: {at}");
                } else {
                    assert_eq!(call.question, None, "two questions at once: {at}");
                }
            }
            Event::FormClosed { form_id, call_id, .. } => {
                let asked = open_call(&state, call_id, &at).question.as_ref();
                assert_eq!(asked.map(|form| &form.form_id), Some(form_id), "nobody asked: {at}");
            }
            Event::Notified { call_id, .. } => {
                let call = call_id.as_ref().map(|id| open_call(&state, id, &at));
                assert!(call.is_none_or(|call| call.intent.is_some()), "news of a call that does not run: {at}");
            }
            Event::ArtifactFinished(_) => assert!(state.step.is_none(), "{at}"),
            Event::Waiting(wait) => {
                let paused = state.step.as_ref().is_some_and(|step| step.content().is_empty());
                assert_eq!(state.step.is_some(), wait.calls.is_empty() && paused, "{at}");
                let open: Vec<_> = state.open_calls().map(|call| &call.call.id).collect();
                assert_eq!(wait.calls.iter().map(|call| &call.id).collect::<Vec<_>>(), open, "{at}");
            }
            Event::TurnEnded(ended) => {
                assert_eq!(*seq, log.last().map_or(0, |(last, _)| *last), "something follows the end: {at}");
                // Only a turn that paused before a step may end within it.
                assert!(state.step.is_none() || matches!(state.phase, Phase::Waiting(_)), "{at}");
                assert!(state.open_calls().next().is_none(), "{at}");
                if !is_told(log) {
                    let folded = state.ended(ended.outcome.clone());
                    // Calls that no event tells of, such as summaries that were given up, count with the end.
                    assert_eq!(ended.usage, ended.usage.max(folded.usage), "{at}");
                    assert_eq!(*ended, TurnEnded { usage: ended.usage, ..folded }, "{at}");
                }
            }
            Event::Resumed { .. } => assert!(matches!(state.phase, Phase::Waiting(_)), "{at}"),
            Event::ModelChanged { .. } | Event::HistoryCompacted(_) | Event::Dropped { .. } => {}
            Event::Unknown { .. } => panic!("the engine writes no unknown events: {at}"),
        }
        let begun = matches!(event, Event::TurnStarted(_) | Event::TurnEnded(_));
        assert!(*seq > 1 || begun, "{at}");
        state.apply(*seq, event);
    }
}

/// Whether what a call is said to have used, which was not brought to its end, is no less than what its provider told.
fn counts_what_was_told(step: &StepState, usage: Usage) -> bool {
    step.told.is_none_or(|told| usage.max(told) == usage)
}

/// Whether a turn took place elsewhere: all that is known of it is what was said.
fn is_told(log: &[(u64, Event)]) -> bool {
    matches!(log, [(_, Event::TurnStarted(_)), (_, Event::TurnEnded(ended))] if ended.outcome == Outcome::Completed)
}

#[track_caller]
fn open_call<'a>(state: &'a TurnState, id: &CallId, at: &str) -> &'a CallState {
    state.open_calls().find(|open| open.call.id == *id).unwrap_or_else(|| panic!("not an open call: {at}"))
}

/// Says which call of full history has no result right after it, or two. Calls of the last step may be open.
fn unanswered(history: &[Message], last_may_be_open: bool) -> Option<String> {
    for (at, message) in history.iter().enumerate() {
        let results = history[at + 1..].iter().take_while(|message| message.role() == Role::Tool);
        let results: Vec<_> = results
            .filter_map(|message| match message {
                Message::Tool { call_id, .. } => Some(call_id),
                Message::System { .. } | Message::User { .. } | Message::Assistant { .. } => None,
            })
            .collect();
        let is_last = !history[at + 1..].iter().any(|message| message.role() != Role::Tool);
        for call in message.tool_uses() {
            let count = results.iter().filter(|id| ***id == call.id).count();
            if count > 1 || (count == 0 && !(is_last && last_may_be_open)) {
                return Some(format!("call {} has {count} results", call.id));
            }
        }
    }
    None
}

/// Says what a strict provider would not take about a conversation.
pub(crate) fn complaint(messages: &[Message]) -> Option<String> {
    if messages.first().is_some_and(|message| message.role() != Role::User) {
        return Some("the first message is not the user's".to_owned());
    }
    let mut expected: Vec<CallId> = Vec::new();
    let mut last = None;
    for message in messages {
        match message {
            Message::System { .. } => return Some("a system message in between".to_owned()),
            Message::Tool { call_id, .. } if expected.first() == Some(call_id) => drop(expected.remove(0)),
            Message::Tool { call_id, .. } => return Some(format!("a result out of place: {call_id}")),
            Message::User { content } | Message::Assistant { content } => {
                if content.is_empty() {
                    return Some(format!("an empty message of the {:?}", message.role()));
                }
                if !expected.is_empty() {
                    return Some(format!("calls without a result: {expected:?}"));
                }
                // What users say in one turn after the other is joined when it is written for a provider.
                if last == Some(message.role()) && last != Some(Role::User) {
                    return Some(format!("{:?} twice in a row", message.role()));
                }
                expected = message.tool_uses().map(|call| call.id.clone()).collect();
            }
        }
        last = Some(message.role());
    }
    (!expected.is_empty()).then(|| format!("calls without a result: {expected:?}"))
}
