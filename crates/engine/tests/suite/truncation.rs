//! Truncation: sessions that lose the end of their conversation.

use everturn_core::{SessionId, TenantId};
use everturn_engine::{Cut, CutError, SubmissionKey};
use everturn_store::Fault;

use super::{
    cuts::{conversation, messages, obliging, talk},
    harness::*,
};

async fn world_of(texts: &[&str]) -> World {
    let world = World::start(Setup::with_models([obliging(&Default::default())])).await;
    for text in texts {
        talk(&world, world.message(text)).await;
    }
    world
}

#[tokio::test(start_paused = true)]
async fn nothing_is_cut_while_a_turn_runs() {
    let gate = Gate::closed();
    let scripts = [vec![say("Hello."), stop()], vec![say("I"), Beat::Gate(gate.clone()), stop()]];
    let world = World::start(Setup::new(scripts)).await;
    world.act(Act::User("hi")).await;
    let said = conversation(&world, &world.session()).await;
    let started = world.begin("go").await;
    gate.waiting(1).await;
    for cut in [Cut::Nothing, Cut::Before(said[0].id.clone()), Cut::Through(said[0].id.turn.clone())] {
        let error = world.truncate(cut).await.unwrap_err();
        assert!(matches!(error, CutError::Busy), "{error:?}");
    }
    gate.open();
    assert!(world.end_of(&started.turn).await.ends_with("completed\n"));
    world.truncate(Cut::Through(said[0].id.turn.clone())).await.unwrap();
    assert_eq!(conversation(&world, &world.session()).await, said);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_waits_is_ended() {
    let scripts = || {
        [
            vec![say("Hello."), stop()],
            vec![call("pay", "{}"), stop()],
            vec![say("Well."), stop()],
            vec![say("Well."), stop()],
        ]
    };
    for keeps in [true, false] {
        let world = World::start(Setup::new(scripts())).await;
        world.act(Act::User("hi")).await;
        let said = conversation(&world, &world.session()).await;
        let waits = world.begin("pay").await;
        world.transcript(&waits).await;
        let reader = world.read_leg(&waits, &PATIENT);
        let queued = world.enqueue("later").await;
        let cut = if keeps { Cut::Nothing } else { Cut::Through(said[0].id.turn.clone()) };
        world.truncate(cut).await.unwrap();
        assert_eq!(world.all_forms().await[0].state, "cancelled");
        let turns = if keeps {
            "1 \"hi\" completed\n2 \"pay\" cancelled: Superseded\n3 \"later\" cancelled: Superseded\n"
        } else {
            "1 \"hi\" completed\n"
        };
        assert_eq!(world.turns().await, turns);
        // Whoever reads it learns of its end.
        let mut reader = reader;
        assert!(read_all(&mut reader).await.last().is_some_and(Frame::ends_turn));
        assert_eq!(world.turn(&world.tenant, &world.session(), &queued.turn).await.unwrap().is_some(), keeps);
        assert!(world.act(Act::User("on")).await.ends_with("completed\n"));
        let ordinal = if keeps { "4 \"on\"" } else { "2 \"on\"" };
        assert!(world.turns().await.contains(ordinal), "{}", world.turns().await);
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_taken_away_is_gone() {
    let world = world_of(&["hello", "please look", "thanks"]).await;
    let session = world.session();
    let said = conversation(&world, &session).await;
    let used = world.engine.session(&world.tenant, &session).await.unwrap().unwrap().usage;
    world.truncate(Cut::Before(said[4].id.clone())).await.unwrap();
    let left = conversation(&world, &session).await;
    assert_eq!(messages(&left), messages(&said[..4]));
    assert_eq!(left[..2], said[..2], "whole turns keep their names");
    assert_ne!(left[2].id, said[2].id, "what is left of a turn is another");
    let gone = world.truncate(Cut::Before(said[2].id.clone())).await.unwrap_err();
    assert!(matches!(gone, CutError::NoMessage { .. }), "{gone:?}");
    for turn in [&said[2].id.turn, &said[7].id.turn] {
        assert_eq!(world.turn(&world.tenant, &session, turn).await.unwrap(), None);
        assert!(everturn_store::Store::read(&world.store, turn, 0, 1).await.unwrap().is_empty(), "its log as well");
    }
    let record = world.engine.session(&world.tenant, &session).await.unwrap().unwrap();
    assert_eq!(record.usage, used, "what was used was used");
    assert_eq!(world.message_count(&world.tenant, &session).await.unwrap(), 4);
}

/// The call has lost its result; the model is told so, and the session goes on.
#[tokio::test(start_paused = true)]
async fn a_call_without_its_result_is_answered_for() {
    let world = world_of(&["please look"]).await;
    let said = conversation(&world, &world.session()).await;
    world.truncate(Cut::Before(said[3].id.clone())).await.unwrap();
    assert!(world.act(Act::User("well?")).await.ends_with("completed\n"));
    let given = world.engine.history(&world.tenant, &world.session()).await.unwrap().value.compacted;
    let shown = world.shown(&given);
    assert!(
        shown.contains("look ran with {}\"\nresult c2 error: \"Tool call interrupted: it gave no result\"\n"),
        "{shown}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_truncation_that_is_sent_again_has_one_effect() {
    let world = world_of(&["hello", "thanks"]).await;
    let session = world.session();
    let said = conversation(&world, &session).await;
    let cut = Cut::Through(said[0].id.turn.clone());
    world.truncate(Cut::Nothing).await.unwrap();
    let key = |fingerprint: &str| Some(SubmissionKey { key: "k".to_owned(), fingerprint: fingerprint.to_owned() });
    let again = async |fingerprint| world.engine.truncate(&world.tenant, &session, cut.clone(), key(fingerprint)).await;
    again("f").await.unwrap();
    talk(&world, world.message("more")).await;
    again("f").await.unwrap();
    assert_eq!(conversation(&world, &session).await.len(), 4, "what came afterwards stays");
    let reused = again("g").await.unwrap_err();
    assert!(matches!(reused, CutError::KeyReused { .. }), "{reused:?}");
    // One that has nothing to do counts as well.
    let key = Some(SubmissionKey { key: "other".to_owned(), fingerprint: "f".to_owned() });
    world.engine.truncate(&world.tenant, &session, Cut::Nothing, key.clone()).await.unwrap();
    talk(&world, world.message("more")).await;
    world.engine.truncate(&world.tenant, &session, Cut::Nothing, key).await.unwrap();
    assert_eq!(conversation(&world, &session).await.len(), 6);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_there_cannot_be_truncated() {
    let world = world_of(&["hello"]).await;
    let session = world.session();
    let error = world.engine.truncate(&TenantId::mint(), &session, Cut::Nothing, None).await.unwrap_err();
    assert!(matches!(error, CutError::NotFound), "{error:?}");
    let error = world.engine.truncate(&world.tenant, &SessionId::mint(), Cut::Nothing, None).await.unwrap_err();
    assert!(matches!(error, CutError::NotFound), "{error:?}");
    let error = world.truncate(Cut::Before("turn_1.u1".parse().unwrap())).await.unwrap_err();
    assert_eq!(error.to_string(), "there is no message \"turn_1.u1\" in this conversation");
    assert_eq!(conversation(&world, &session).await.len(), 2);
}

/// Truncations and messages at once: each message that was taken is either there whole or was cut off.
#[tokio::test(start_paused = true)]
async fn cuts_race_with_messages() {
    for round in 0..20 {
        let world = world_of(&["hello", "thanks"]).await;
        let said = conversation(&world, &world.session()).await;
        let cut = Cut::Through(said[0].id.turn.clone());
        let (cuts, message) = tokio::join!(
            async {
                tokio::time::sleep(std::time::Duration::from_millis(round % 5)).await;
                world.truncate(cut).await
            },
            world.submit(world.message("meanwhile")),
        );
        let started = message.unwrap();
        world.idle().await;
        let left = conversation(&world, &world.session()).await;
        match cuts {
            Ok(()) => {
                let there = world.turn(&world.tenant, &world.session(), &started.turn).await.unwrap().is_some();
                assert_eq!(left.len(), if there { 4 } else { 2 });
            }
            Err(CutError::Busy) => assert_eq!(left.len(), 6),
            Err(error) => panic!("{error}"),
        }
    }
}

/// The store fails, and has kept it or not: a second attempt leaves the session as it shall be.
#[tokio::test(start_paused = true)]
async fn a_cut_whose_commit_failed_can_be_sent_again() {
    for fault in [Fault::Kept, Fault::Lost] {
        let world = world_of(&["hello", "thanks"]).await;
        let session = world.session();
        let said = conversation(&world, &session).await;
        let key = |name: &str| Some(SubmissionKey { key: name.to_owned(), fingerprint: "f".to_owned() });
        let cut = || Cut::Through(said[0].id.turn.clone());
        world.store.faults().fail_next(1, fault);
        let error = world.engine.truncate(&world.tenant, &session, cut(), key("t")).await.unwrap_err();
        assert!(matches!(error, CutError::Store(_)), "{error:?}");
        world.engine.truncate(&world.tenant, &session, cut(), key("t")).await.unwrap();
        assert_eq!(conversation(&world, &session).await, said[..2]);
        world.store.faults().fail_next(1, fault);
        let error = world.engine.fork(&world.tenant, &session, cut(), key("f")).await.unwrap_err();
        assert!(matches!(error, CutError::Store(_)), "{error:?}");
        let fork = world.engine.fork(&world.tenant, &session, cut(), key("f")).await.unwrap();
        assert_eq!(conversation(&world, &fork).await, said[..2]);
        assert_eq!(world.sessions(&world.tenant, None, 10).await.unwrap().len(), 2);
    }
}
