//! Forks: sessions that begin with a part of another's conversation.

use everturn_core::{Message, SessionId, TenantId, submission::OnBusy};
use everturn_engine::{Cut, CutError, SubmissionKey, SubmitError};
use everturn_store::Store as _;

use super::{
    cuts::{conversation, messages, obliging, talk},
    forms::submitted,
    harness::*,
};

async fn world_of(texts: &[&str]) -> World {
    let world = World::start(Setup::with_models([obliging(&Default::default())])).await;
    for text in texts {
        talk(&world, world.message(text)).await;
    }
    world
}

fn key(fingerprint: &str) -> Option<SubmissionKey> {
    Some(SubmissionKey { key: "k".to_owned(), fingerprint: fingerprint.to_owned() })
}

/// A turn that has looked something up and is saying what it found.
async fn running() -> (World, Gate, everturn_engine::Started) {
    let gate = Gate::closed();
    let scripts = [
        vec![say("Hello."), stop()],
        vec![call("look", "{}"), stop()],
        vec![say("I found"), Beat::Gate(gate.clone()), say(" it."), stop()],
        vec![say("More."), stop()],
        vec![say("Still more."), stop()],
    ];
    let world = World::start(Setup::new(scripts)).await;
    world.act(Act::User("hi")).await;
    let started = world.begin("go").await;
    gate.waiting(1).await;
    (world, gate, started)
}

#[tokio::test(start_paused = true)]
async fn a_fork_of_a_running_turn_has_what_was_said_so_far() {
    let (world, gate, started) = running().await;
    let said = conversation(&world, &world.session()).await;
    assert_eq!(said.len(), 5, "two of the first turn; of the second its input, a call and its result");
    let fork = world.fork(Cut::Nothing).await.unwrap();
    assert_eq!(messages(&conversation(&world, &fork).await), messages(&said));
    let at_call = world.fork(Cut::Before(said[4].id.clone())).await.unwrap();
    assert_eq!(messages(&conversation(&world, &at_call).await), messages(&said[..4]));
    let first = world.fork(Cut::Through(said[0].id.turn.clone())).await.unwrap();
    assert_eq!(conversation(&world, &first).await, said[..2], "whole turns are shared, with their names");
    // The fork goes on while the other still runs.
    let parent = world.session();
    *world.session_in_view() = Some(fork.clone());
    assert!(world.act(Act::User("and?")).await.ends_with("completed\n"));
    assert_eq!(conversation(&world, &fork).await.len(), 7);
    *world.session_in_view() = Some(parent);
    gate.open();
    assert!(world.end_of(&started.turn).await.contains("\"I found it.\""));
}

#[tokio::test(start_paused = true)]
async fn a_fork_of_a_turn_that_waits_does_not_wait() {
    let setup = Setup::with_models([ScriptedModel::thinking("test/one", |request| match request.messages.last() {
        Some(Message::User { content }) if content.text() == "pay" => vec![call("pay", "{}"), stop()],
        _ => vec![say("Done."), stop()],
    })]);
    let world = World::start(setup).await;
    world.act(Act::User("pay")).await;
    let parent = world.session();
    let fork = world.fork(Cut::Nothing).await.unwrap();
    *world.session_in_view() = Some(fork.clone());
    // The call belongs to the other session, and so does the form.
    let refused = submitted(&world, world.answers(vec![grant("c1")])).await;
    assert_eq!(refused, "refused: no tool call c1 waits for an answer in this session\n");
    let refused = world.submit(world.form_reply(Some("f1"), r#"{"approved":true}"#)).await.unwrap_err();
    assert!(matches!(refused, SubmitError::FormClosed { .. }), "{refused:?}");
    assert!(world.act(Act::User("never mind")).await.ends_with("completed\n"));
    let given = world.engine.history(&world.tenant, &fork).await.unwrap().value.compacted;
    assert_eq!(
        world.shown(&given[..3]),
        "user: \"pay\"\nassistant: [c1 pay{}]\nresult c1 error: \"Tool call interrupted: it gave no result\"\n"
    );
    *world.session_in_view() = Some(parent);
    assert!(submitted(&world, world.answers(vec![grant("c1")])).await.ends_with("completed\n"));
    assert_eq!(world.setup.ledger.names(), ["pay"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_queued_is_not_in_a_fork() {
    let (world, gate, _) = running().await;
    let waits = world.enqueue("later").await;
    let cancelled = world.enqueue("never").await;
    world.stop_turn(&cancelled.turn).await.unwrap();
    let fork = world.fork(Cut::Nothing).await.unwrap();
    assert_eq!(conversation(&world, &fork).await.len(), 5);
    assert_eq!(world.engine.session(&world.tenant, &fork).await.unwrap().unwrap().queued, 0);
    let error = world.fork(Cut::Through(waits.turn.clone())).await.unwrap_err();
    assert!(matches!(error, CutError::NoMessage { .. }), "{error:?}");
    gate.open();
    world.end_of(&waits.turn).await;
    // One that was ended before it began is no message; what comes after it is.
    let fork = world.fork(Cut::Nothing).await.unwrap();
    let said = conversation(&world, &world.session()).await;
    assert_eq!(messages(&conversation(&world, &fork).await), messages(&said));
    *world.session_in_view() = Some(fork.clone());
    assert!(world.act(Act::User("on")).await.ends_with("completed\n"));
}

#[tokio::test(start_paused = true)]
async fn a_fork_outlives_its_parent() {
    let world = world_of(&["hello", "please look", "thanks"]).await;
    let parent = world.session();
    let said = conversation(&world, &parent).await;
    let fork = world.fork(Cut::Before(said[5].id.clone())).await.unwrap();
    let second = world.engine.fork(&world.tenant, &fork, Cut::Nothing, None).await.unwrap();
    world.delete(&world.tenant, &parent, None).await.unwrap();
    assert_eq!(messages(&conversation(&world, &fork).await), messages(&said[..5]));
    let world = world.restart_in(fork.clone()).await;
    assert!(world.act(Act::User("go on")).await.ends_with("completed\n"));
    // The first turn is read through whichever session has it, and is gone with the last.
    let first = &said[0].id.turn;
    for session in [&fork, &second] {
        assert!(world.engine.turn(&world.tenant, session, first).await.unwrap().is_some());
        assert!(!world.store.read(first, 0, usize::MAX).await.unwrap().is_empty());
        world.delete(&world.tenant, session, None).await.unwrap();
    }
    assert!(world.store.read(first, 0, usize::MAX).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_fork_has_the_settings_of_its_parent_and_its_own_count() {
    let world = world_of(&["hello"]).await;
    let parent = world.session();
    world.rename(&world.tenant, &parent, "Greetings".to_owned()).await.unwrap();
    let fork = world.fork(Cut::Nothing).await.unwrap();
    let (of_parent, of_fork) =
        (world.engine.session(&world.tenant, &parent), world.engine.session(&world.tenant, &fork));
    let (of_parent, of_fork) = (of_parent.await.unwrap().unwrap(), of_fork.await.unwrap().unwrap());
    assert_eq!(of_fork.config, of_parent.config);
    assert_eq!(of_fork.title.as_deref(), Some("Greetings (copy)"));
    assert_eq!((of_fork.usage.total(), of_parent.usage.total()), (0, 110), "tokens are counted where they were used");
    assert_eq!(world.message_count(&world.tenant, &fork).await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_fork_that_is_asked_for_again_is_the_same() {
    let world = world_of(&["hello"]).await;
    let session = world.session();
    let again = async |fingerprint| world.engine.fork(&world.tenant, &session, Cut::Nothing, key(fingerprint)).await;
    let (one, two) = tokio::join!(again("f"), again("f"));
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_eq!(one, two);
    world.act(Act::User("more")).await;
    assert_eq!(again("f").await.unwrap(), one);
    assert_eq!(conversation(&world, &one).await.len(), 2);
    let reused = again("g").await.unwrap_err();
    assert!(matches!(reused, CutError::KeyReused { .. }), "{reused:?}");
    assert_eq!(world.sessions(&world.tenant, None, 10).await.unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_there_cannot_be_forked() {
    let world = world_of(&["hello"]).await;
    let said = conversation(&world, &world.session()).await;
    let session = world.session();
    let fork = async |tenant: &TenantId, session: &SessionId, cut| world.engine.fork(tenant, session, cut, None).await;
    let not_found = fork(&TenantId::mint(), &session, Cut::Nothing).await.unwrap_err();
    assert!(matches!(not_found, CutError::NotFound), "{not_found:?}");
    let not_found = fork(&world.tenant, &SessionId::mint(), Cut::Nothing).await.unwrap_err();
    assert!(matches!(not_found, CutError::NotFound), "{not_found:?}");
    for text in ["turn_1.u1", "turn_1.a1", "turn_1.call_1"] {
        let error = fork(&world.tenant, &session, Cut::Before(text.parse().unwrap())).await.unwrap_err();
        assert!(matches!(&error, CutError::NoMessage { id } if id == text), "{error:?}");
    }
    let mut beyond = said[1].id.clone();
    beyond.place = everturn_core::MessagePlace::Answer(2);
    let error = fork(&world.tenant, &session, Cut::Before(beyond)).await.unwrap_err();
    assert!(matches!(error, CutError::NoMessage { .. }), "{error:?}");
    let other = world.begin("next").await;
    world.transcript(&other).await;
    world.new_session();
    world.act(Act::User("elsewhere")).await;
    let error = world.fork(Cut::Through(other.turn)).await.unwrap_err();
    assert!(matches!(error, CutError::NoMessage { .. }), "a turn of another session: {error:?}");
    assert_eq!(world.sessions(&world.tenant, None, 10).await.unwrap().len(), 2);
}

/// A fork is a session like any other: it can be busy while the parent is not, and the other way round.
#[tokio::test(start_paused = true)]
async fn turns_of_a_fork_run_beside_those_of_its_parent() {
    let gate = Gate::closed();
    let held = gate.clone();
    let setup =
        Setup::with_models([ScriptedModel::thinking("test/one", move |request| match request.messages.last() {
            Some(Message::User { content }) if content.text() == "wait" => {
                vec![Beat::Gate(held.clone()), say("x"), stop()]
            }
            _ => vec![say("y"), stop()],
        })]);
    let world = World::start(setup).await;
    world.act(Act::User("hi")).await;
    let parent = world.session();
    let fork = world.fork(Cut::Nothing).await.unwrap();
    let slow = world.begin("wait").await;
    gate.waiting(1).await;
    *world.session_in_view() = Some(fork);
    assert!(world.act(Act::User("quick")).await.ends_with("completed\n"));
    assert!(world.send("wait", OnBusy::Reject).await.is_ok());
    *world.session_in_view() = Some(parent);
    assert!(matches!(world.send("no", OnBusy::Reject).await, Err(SubmitError::Refused(_))));
    gate.open();
    assert!(world.end_of(&slow.turn).await.ends_with("completed\n"));
}
