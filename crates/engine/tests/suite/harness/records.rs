//! What must hold of the records that lie beside a session's turns.

use std::collections::BTreeMap;

use everturn_core::{
    Answer, ArtifactId, ArtifactRef, CallId, Event, FormId, FormOpened, SessionId, TenantId, TurnId, TurnState,
};
use everturn_store::{Record, RecordFilter, RecordKind, SimStore, Store as _};
use everturn_tools::ArtifactInput;

/// A turn with its log and what that folds to.
pub(super) type Logged = (TurnId, Vec<(u64, Event)>, TurnState);

/// Checks that forms and artifacts are what the logs say, no more and no less.
pub(super) async fn check_records(
    store: &SimStore,
    tenant: &TenantId,
    session: &SessionId,
    logs: &[Logged],
    whole: bool,
) {
    check_forms(store, tenant, session, logs, whole).await;
    // What was made of an artifact before or after a cut is not all in one place.
    if whole {
        check_artifacts(store, tenant, session, logs).await;
    }
}

async fn records(store: &SimStore, tenant: &TenantId, session: &SessionId, kind: RecordKind) -> Vec<Record> {
    let filter = RecordFilter { session: Some(session.clone()), state: None };
    let rows = store.records(tenant, kind, &filter, None, usize::MAX).await.unwrap();
    rows.into_iter().map(|row| row.record).collect()
}

/// Every form that a log opened has a record, which is open exactly as long as somebody may answer it. Of a session that
/// was cut this is checked of those that are there.
async fn check_forms(store: &SimStore, tenant: &TenantId, session: &SessionId, logs: &[Logged], whole: bool) {
    let mut expected = BTreeMap::new();
    for (turn, log, state) in logs {
        for (_, event) in log {
            if let Event::FormOpened(form) = event {
                let is_question = form.form_id != FormId::of_call(&form.call_id);
                let stands = if is_question { question_states(log, state, form) } else { form_state(log, state, form) };
                expected.insert(form.form_id.as_str().to_owned(), (turn.clone(), stands));
            }
        }
    }
    let found = records(store, tenant, session, RecordKind::Form).await;
    for form in &found {
        match expected.remove(&form.id) {
            Some((turn, states)) => {
                assert_eq!(form.turn.as_ref(), Some(&turn));
                let state = form.state.as_str();
                assert!(states.contains(&state), "{} is {state}, but the log says {states:?}", form.id);
            }
            None => assert!(!whole, "{} is in no log", form.id),
        }
    }
    assert!(!whole || expected.is_empty(), "forms without a record: {expected:?}");
}

fn form_state(log: &[(u64, Event)], state: &TurnState, form: &FormOpened) -> Vec<&'static str> {
    let answers = log.iter().filter_map(|(_, event)| match event {
        Event::Resumed { answers, .. } => Some(answers),
        _ => None,
    });
    let answer = answers.flatten().find(|answer| *answer.call_id() == form.call_id);
    match answer {
        Some(Answer::Expired { .. }) => vec!["expired"],
        // A word on whether it may be asked is no answer to what it asks.
        Some(Answer::Permission { .. }) if form.asks_for.is_none() => vec!["cancelled"],
        Some(_) => vec!["answered"],
        None if is_open(state, form) => vec!["open"],
        None => vec!["cancelled"],
    }
}

/// As [`form_state`], of what a tool asked while it ran.
fn question_states(log: &[(u64, Event)], state: &TurnState, form: &FormOpened) -> Vec<&'static str> {
    let last = log.iter().rev().find_map(|(_, event)| match event {
        Event::FormClosed { form_id, answer, .. } if *form_id == form.form_id => Some(Some(answer)),
        Event::FormOpened(opened) if opened.form_id == form.form_id => Some(None),
        _ => None,
    });
    match last.flatten() {
        Some(Some(_)) => vec!["answered"],
        // Out of time, or nobody asks any more.
        Some(None) => vec!["expired", "cancelled"],
        // The turn learns of an answer that is kept already.
        None if is_open(state, form) => vec!["open", "answered"],
        None => vec!["cancelled"],
    }
}

fn is_open(state: &TurnState, form: &FormOpened) -> bool {
    state.open_calls().any(|open| open.call.id == form.call_id)
}

/// Every version that a log tells of is kept once, with the content that the model wrote.
async fn check_artifacts(store: &SimStore, tenant: &TenantId, session: &SessionId, logs: &[Logged]) {
    let mut expected: BTreeMap<ArtifactId, Vec<(TurnId, ArtifactRef, String)>> = BTreeMap::new();
    for (turn, log, _) in logs {
        for pair in log.windows(2) {
            let [(_, Event::ArtifactFinished(kept)), (_, Event::ToolFinished { call_id, .. })] = pair else { continue };
            expected.entry(kept.id.clone()).or_default().push((turn.clone(), kept.clone(), written(log, call_id)));
        }
    }
    let found = records(store, tenant, session, RecordKind::Artifact).await;
    let names: Vec<_> = expected.keys().map(ArtifactId::as_str).collect();
    let mut kept: Vec<_> = found.iter().map(|record| record.id.as_str()).collect();
    kept.sort_unstable();
    assert_eq!(kept, names, "the records of artifacts agree with the logs");
    for record in &found {
        let told = &expected[&record.id.parse().expect("an id")];
        let body: serde_json::Value = record.body.to_value();
        let versions = body["versions"].as_array().expect("versions");
        assert_eq!(versions.len(), told.len(), "{body}");
        for ((number, version), (turn, artifact, content)) in (1_u32..).zip(versions).zip(told) {
            assert_eq!(artifact.version, number, "{body}");
            let expected = serde_json::json!([number, artifact.title, content.len(), turn]);
            let found = serde_json::json!([version["version"], version["title"], version["bytes"], version["turn"]]);
            assert_eq!(found, expected);
            let blob = store.blob(tenant, RecordKind::Artifact, &record.id, number).await.unwrap();
            assert_eq!(blob.as_deref(), Some(content.as_bytes()), "version {number} of {}", record.id);
        }
    }
}

/// What the call wrote.
fn written(log: &[(u64, Event)], id: &CallId) -> String {
    let call = log.iter().find_map(|(_, event)| match event {
        Event::ToolCalled { call, .. } if call.id == *id => Some(call),
        _ => None,
    });
    let call = call.expect("an artifact is written by a call");
    ArtifactInput::parse(&call.name, &call.input).expect("the call was run").content
}
