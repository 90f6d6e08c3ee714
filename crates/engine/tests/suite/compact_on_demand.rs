//! History that is compacted because somebody asked for it.

use std::sync::Arc;

use everturn_core::{Event, Outcome, submission::Refused};
use everturn_engine::{Account, SubmissionKey, Submit, SubmitError};
use everturn_models::ModelErrorKind;

use super::{compaction::is_summary, harness::*};

fn wish(world: &World, key: Option<&str>) -> Submit {
    let key = key.map(|key| SubmissionKey { key: key.to_owned(), fingerprint: "compact".to_owned() });
    Submit::compact(world.tenant.clone(), Arc::new(Account::default()), world.session(), key)
}

/// A session with a conversation of eight turns, and its model, whose summaries begin like this.
async fn talked(summary: Script) -> (World, Arc<ScriptedModel>) {
    let model = ScriptedModel::thinking("test/one", move |request| {
        if is_summary(request) { summary.clone() } else { vec![say(&"b".repeat(400)), stop()] }
    })
    .with_window(100_000);
    let world = World::start(Setup::with_models([model.clone()])).await;
    for turn in 0..8 {
        let started = world.begin(&format!("question {turn} {}", "a".repeat(400))).await;
        world.transcript(&started).await;
    }
    (world, model)
}

#[tokio::test(start_paused = true)]
async fn an_idle_session_is_compacted_by_a_turn_of_its_own() {
    let (world, model) = talked(vec![say("They talked."), stop()]).await;
    let before = world.history(&world.tenant, &world.session()).await.unwrap();
    let started = world.submit(wish(&world, Some("k"))).await.unwrap();
    let events = leg_of(&world.engine, &started).await;
    let [(_, Event::TurnStarted(begun)), (_, Event::HistoryCompacted(made)), (_, Event::TurnEnded(ended))] =
        events.as_slice()
    else {
        panic!("{events:#?}")
    };
    assert!(begun.compacts && begun.input.is_empty());
    assert_eq!((made.summary.as_str(), made.left_out, ended.outcome.clone()), ("They talked.", 0, Outcome::Completed));
    assert_eq!(ended.usage.total(), 110, "the summary is counted");
    let change = made.change.unwrap();
    assert_eq!(change.messages, made.covers);
    assert!(change.tokens_after * 2 < change.tokens_before, "{change:?}");
    let after = world.history(&world.tenant, &world.session()).await.unwrap();
    assert_eq!(after.full, before.full);
    assert!(after.compacted.len() < before.compacted.len());
    // The same key gives the same turn.
    let again = world.submit(wish(&world, Some("k"))).await.unwrap();
    assert_eq!(again.turn, started.turn);
    // The next turn goes on from there.
    let calls = model.requests().len();
    assert!(world.act(Act::User("go on")).await.ends_with("completed\n"));
    let request = &model.requests()[calls];
    assert!(request.messages.len() < before.compacted.len(), "{}", request.messages.len());
}

#[tokio::test(start_paused = true)]
async fn a_session_with_a_turn_under_way_is_not_compacted() {
    let gate = Gate::closed();
    let model = ScriptedModel::new("test/one", [vec![Beat::Gate(gate.clone()), say("Yes."), stop()]]);
    let world = World::start(Setup::with_models([model])).await;
    let started = world.begin("hello").await;
    gate.waiting(1).await;
    let refused = world.submit(wish(&world, None)).await.unwrap_err();
    assert!(matches!(refused, SubmitError::Refused(Refused::Busy)), "{refused}");
    gate.open();
    world.transcript(&started).await;
}

#[tokio::test(start_paused = true)]
async fn where_little_is_to_be_gained_nothing_happens() {
    let world = World::start(Setup::new([vec![say("Yes."), stop()]])).await;
    world.act(Act::User("hello")).await;
    let started = world.submit(wish(&world, None)).await.unwrap();
    let kinds: Vec<_> = leg_of(&world.engine, &started).await.into_iter().map(|(_, event)| event).collect();
    assert!(matches!(kinds.as_slice(), [Event::TurnStarted(_), Event::TurnEnded(_)]), "{kinds:#?}");
}

#[tokio::test(start_paused = true)]
async fn where_no_summary_can_be_made_nothing_changes() {
    let (world, _) = talked(vec![fail(ModelErrorKind::Rejected)]).await;
    let before = world.history(&world.tenant, &world.session()).await.unwrap();
    let started = world.submit(wish(&world, None)).await.unwrap();
    let events = leg_of(&world.engine, &started).await;
    let Some((_, Event::TurnEnded(ended))) = events.last() else { panic!("{events:#?}") };
    let Outcome::Failed { message, .. } = &ended.outcome else { panic!("{ended:?}") };
    assert_eq!(message, "no summary could be made, and nothing was changed: provider says Rejected");
    let after = world.history(&world.tenant, &world.session()).await.unwrap();
    assert_eq!(after.compacted, before.compacted);
}

#[tokio::test(start_paused = true)]
async fn a_turn_counts_the_summaries_that_could_not_be_used() {
    let (world, model) = talked(vec![say(" "), stop()]).await;
    let before = world.engine.session(&world.tenant, &world.session()).await.unwrap().unwrap().usage;
    let started = world.submit(wish(&world, None)).await.unwrap();
    let events = leg_of(&world.engine, &started).await;
    let Some((_, Event::TurnEnded(ended))) = events.last() else { panic!("{events:#?}") };
    assert!(matches!(ended.outcome, Outcome::Failed { .. }), "{ended:?}");
    let asked = model.requests().iter().filter(|request| is_summary(request)).count() as u64;
    assert_eq!((asked, ended.usage.total()), (3, 3 * 110));
    let after = world.engine.session(&world.tenant, &world.session()).await.unwrap().unwrap().usage;
    assert_eq!(after.total() - before.total(), 330, "the session counts it, too");
}

#[tokio::test(start_paused = true)]
async fn a_crash_in_between_is_made_good() {
    let gate = Gate::closed();
    let (world, model) = talked(vec![Beat::Gate(gate.clone()), say("They talked."), stop()]).await;
    let started = world.submit(wish(&world, None)).await.unwrap();
    gate.waiting(1).await;
    let world = world.restart().await;
    gate.open();
    let transcript = world.end_of(&started.turn).await;
    assert!(transcript.contains("\"They talked.\"") && transcript.ends_with("completed\n"), "{transcript}");
    assert_eq!(model.requests().iter().filter(|request| is_summary(request)).count(), 2);
}
