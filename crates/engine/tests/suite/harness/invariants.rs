//! What must hold of every session, whatever happened to it.

use everturn_core::{Event, Finish, Message, Phase, Role, SessionId, TenantId, TurnId, TurnState, Usage, context};
use everturn_engine::Engine;
use everturn_store::{SimStore, Store as _, TurnRecord, TurnStatus};

/// All stored events of a turn; gap-free.
pub(crate) async fn stored_log(store: &SimStore, turn: &TurnId) -> Vec<(u64, Event)> {
    let segments = store.read(turn, 0, usize::MAX).await.expect("the store works");
    let events = segments.iter().flat_map(everturn_core::Segment::events);
    let log: Vec<_> = events.map(|event| event.unwrap()).map(|event| (event.seq, event.decode().unwrap())).collect();
    for (expected, (seq, _)) in (1..).zip(&log) {
        assert_eq!(*seq, expected, "the log of {turn} has a gap");
    }
    log
}

/// Checks a session whose turns all rest, or whose last one runs: the log of every turn is well-formed and folds to
/// what is stored of it, history is what the engine says and what providers take, and tokens add up.
pub(crate) async fn check_session(store: &SimStore, engine: &Engine, tenant: &TenantId, session: &SessionId) {
    let record = store.session(tenant, session).await.unwrap().expect("the session is there");
    let turns = store.turns(tenant, session).await.unwrap();
    let mut full = Vec::new();
    let mut used = Usage::default();
    let mut compaction = None;
    for (index, turn) in turns.iter().enumerate() {
        let log = stored_log(store, &turn.id).await;
        check_log(&log);
        let mut state = TurnState::default();
        log.iter().for_each(|(seq, event)| state.apply(*seq, event));
        assert_eq!(turn.head, state.head);
        check_record(turn, &state);
        assert!(index + 1 == turns.len() || turn.status == TurnStatus::Ended, "an earlier turn has not ended");
        full.extend(state.messages());
        used += turn.usage;
        compaction = state.compaction.or(compaction);
    }
    assert_eq!(record.usage, used, "the session's tokens are those of its turns");
    let history = engine.history(tenant, session).await.unwrap();
    assert_eq!(history.full, full, "the engine's history is the fold of the logs");
    let compacted = context::compact(&full, compaction.as_ref());
    let open = turns.last().is_some_and(|turn| turn.status != TurnStatus::Ended);
    let given = if open { context::normalise_waiting(&compacted) } else { context::normalise(&compacted) };
    let system = given.system.into_iter().map(|content| Message::System { content });
    let given: Vec<_> = system.chain(given.messages).collect();
    assert_eq!(history.compacted, given, "compacted history is what the model is given");
    let conversation = context::normalise(&history.full);
    assert_eq!(complaint(&conversation.messages), None, "{:#?}", conversation.messages);
    assert_eq!(unanswered(&full, open), None, "{full:#?}");
}

fn check_record(turn: &TurnRecord, state: &TurnState) {
    match (&turn.status, &state.phase) {
        (TurnStatus::Ended, Phase::Ended(ended)) => assert_eq!(ended.usage, turn.usage),
        (TurnStatus::Waiting(stored), Phase::Waiting(folded)) => assert_eq!(stored, folded),
        (TurnStatus::Running, Phase::Running) => return,
        (status, phase) => panic!("{} is stored as {status:?} but folds to {phase:?}", turn.id),
    }
    assert_eq!(turn.messages, state.messages(), "stored messages are the fold of the log");
    assert_eq!(turn.usage, state.usage, "stored tokens are the fold of the log");
    assert_eq!(turn.compaction, state.compaction);
}

/// Begins once, ends at most once and with that; steps do not overlap; every call is resolved once; the whole answer
/// of a step equals its deltas; intent comes before a tool's result.
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
            Event::TextDelta(_) | Event::ThinkingDelta(_) | Event::ToolCalled { .. } | Event::StepRestarted { .. } => {
                assert!(state.step.is_some(), "outside of a step: {at}");
            }
            Event::StepFinished(finished) => {
                let step = state.step.as_ref().unwrap_or_else(|| panic!("outside of a step: {at}"));
                assert_eq!(step.content().text(), finished.content.text(), "{at}");
                let calls: Vec<_> = step.calls.iter().map(|(call, _)| call).collect();
                let message = Message::Assistant { content: finished.content.clone() };
                assert_eq!(message.tool_uses().collect::<Vec<_>>(), calls, "{at}");
                assert!(finished.finish != Finish::ToolUse || !calls.is_empty(), "{at}");
            }
            Event::ToolIntended { call_id, effect_id, effect } => {
                let call = state.open_calls().find(|open| open.call.id == *call_id);
                let call = call.unwrap_or_else(|| panic!("not an open call: {at}"));
                if let Some((earlier, _)) = &call.intent {
                    assert_eq!(earlier, effect_id, "a repetition under another name: {at}");
                    assert!(effect.may_repeat(), "an effect is repeated: {at}");
                }
            }
            Event::ToolFinished { call_id, .. } => {
                assert!(state.open_calls().any(|open| open.call.id == *call_id), "not an open call: {at}");
            }
            Event::Waiting { .. } => assert!(state.step.is_none(), "{at}"),
            Event::TurnEnded(ended) => {
                assert_eq!(*seq, log.len() as u64, "something follows the end: {at}");
                assert!(state.step.is_none() && state.open_calls().next().is_none(), "{at}");
                assert_eq!(ended.usage, state.usage, "{at}");
            }
            Event::Resumed { .. } => assert!(matches!(state.phase, Phase::Waiting(_)), "{at}"),
            Event::ModelChanged { .. } | Event::HistoryCompacted(_) => {}
            Event::Unknown { .. } => panic!("the engine writes no unknown events: {at}"),
        }
        state.apply(*seq, event);
    }
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
    let mut expected: Vec<everturn_core::CallId> = Vec::new();
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
                if last == Some(message.role()) {
                    return Some(format!("{:?} twice in a row", message.role()));
                }
                expected = message.tool_uses().map(|call| call.id.clone()).collect();
            }
        }
        last = Some(message.role());
    }
    (!expected.is_empty()).then(|| format!("calls without a result: {expected:?}"))
}
