//! Messages that wait their turn.

use std::time::Duration;

use everturn_core::{
    Effort, Event, Message, ModelOptions,
    submission::{OnBusy, Refused},
};
use everturn_engine::{SubmissionKey, Submit, SubmitError};
use everturn_models::ModelRequest;
use everturn_store::Fault;
use expect_test::expect;

use super::harness::*;

/// A model that answers each message with an echo of it, at this gate where it is told to.
fn echo(gate: &Gate, waits: impl Fn(&str) -> bool + Send + 'static) -> Setup {
    let gate = gate.clone();
    Setup::with_models([ScriptedModel::thinking("test/one", move |request| {
        let said = last_words(request);
        let reply = say(&format!("You said {said}."));
        if waits(&said) { vec![Beat::Gate(gate.clone()), reply, stop()] } else { vec![reply, stop()] }
    })])
}

fn last_words(request: &ModelRequest) -> String {
    request
        .messages
        .iter()
        .rev()
        .find_map(|message| match message {
            Message::User { content } => Some(content.text()),
            _ => None,
        })
        .expect("somebody spoke")
}

#[tokio::test(start_paused = true)]
async fn messages_run_one_after_the_other_in_order() {
    let gate = Gate::closed();
    let world = World::start(echo(&gate, |said| said == "one")).await;
    let first = world.begin("one").await;
    gate.waiting(1).await;
    let queued = [world.enqueue("two").await, world.enqueue("three").await, world.enqueue("four").await];
    assert!(!first.is_queued() && queued.iter().all(|started| started.is_queued() && !started.is_resumed()));
    expect![[r#"
        1 "one" running
        2 "two" queued
        3 "three" queued
        4 "four" queued
    "#]]
    .assert_eq(&world.turns().await);
    let waiting: Vec<_> = world.queued(&world.tenant, &world.session()).await.unwrap();
    assert_eq!(
        waiting.iter().map(|turn| &turn.id).collect::<Vec<_>>(),
        queued.iter().map(|s| &s.turn).collect::<Vec<_>>()
    );
    check_session(&world.store, &world.engine, &world.tenant, &world.session()).await;
    expect![[r#"
        > history
        user: "one"
    "#]]
    .assert_eq(&world.act(Act::History).await);

    gate.open();
    world.idle().await;
    expect![[r#"
        1 turn started: user: "three"
        2 step 1 with test/one
        3 text "You said three."
        4 step finished: Stop, 100+10 tokens: "You said three."
        5 ended, 100+10 tokens: completed
    "#]]
    .assert_eq(&world.end_of(&queued[1].turn).await);
    expect![[r#"
        > history
        user: "one"
        assistant: "You said one."
        user: "two"
        assistant: "You said two."
        user: "three"
        assistant: "You said three."
        user: "four"
        assistant: "You said four."
    "#]]
    .assert_eq(&world.act(Act::History).await);
    // An idle session takes such a message at once.
    let started = world.enqueue("five").await;
    assert!(!started.is_queued());
    assert!(world.transcript(&started).await.ends_with("completed\n"));
}

#[tokio::test(start_paused = true)]
async fn a_queue_survives_a_crash_while_its_first_turn_runs() {
    let gate = Gate::closed();
    let world = World::start(echo(&gate, |said| said == "one")).await;
    world.begin("one").await;
    gate.waiting(1).await;
    let two = world.enqueue("two").await;
    let three = world.enqueue("three").await;
    let world = world.restart().await;
    // The one that ran is taken up again; those behind it wait for it still.
    gate.waiting(1).await;
    assert!(world.turns().await.ends_with("2 \"two\" queued\n3 \"three\" queued\n"));
    gate.open();
    world.idle().await;
    assert!(world.end_of(&two.turn).await.ends_with("completed\n"));
    assert!(world.end_of(&three.turn).await.ends_with("completed\n"));
    expect![[r#"
        > history
        user: "one"
        assistant: "You said one."
        user: "two"
        assistant: "You said two."
        user: "three"
        assistant: "You said three."
    "#]]
    .assert_eq(&world.act(Act::History).await);
}

/// The process dies with each commit in turn, kept or not; whatever was accepted runs in the end, in order.
#[tokio::test(start_paused = true)]
async fn a_queue_survives_a_crash_at_every_point() {
    for commit in 1..16 {
        for kept in [false, true] {
            let gate = Gate::closed();
            let mut world = World::start(echo(&gate, |said| said == "one")).await;
            let dying = CrashStore::new(world.store.clone(), Some(Death { commit, kept }));
            world.engine = world.setup.start(dying.clone()).await.unwrap();
            let mut accepted = Vec::new();
            let talk = async {
                accepted.push(("one", world.begin("one").await));
                gate.waiting(1).await;
                accepted.push(("two", world.enqueue("two").await));
                accepted.push(("three", world.enqueue("three").await));
                gate.open();
                world.idle().await;
            };
            tokio::select! { () = talk => {}, () = dying.dead() => {} }
            gate.open();
            let sessions = world.sessions(&world.tenant, None, 10).await.unwrap();
            let Some(row) = sessions.first() else { continue };
            let world = world.restart_in(row.session.id.clone()).await;
            world.idle().await;
            let history = world.history(&world.tenant, &world.session()).await.unwrap().value.full;
            let said: Vec<_> = history
                .iter()
                .filter_map(|message| match message {
                    Message::User { content } => Some(content.text()),
                    _ => None,
                })
                .collect();
            assert_eq!(said, ["one", "two", "three"][..said.len()], "commit {commit}, kept: {kept}");
            for (text, started) in accepted {
                assert!(said.iter().any(|said| said == text), "{text} was accepted, and lost");
                assert!(world.end_of(&started.turn).await.ends_with("completed\n"));
            }
        }
    }
}

/// The store fails with the commit that ends a turn and begins the next, and has kept it or not: both happen once.
#[tokio::test(start_paused = true)]
async fn a_queue_goes_on_when_the_store_fails_between_two_turns() {
    for fault in [Fault::Kept, Fault::Lost] {
        let gate = Gate::closed();
        let mut world = World::start(echo(&gate, |said| said == "one")).await;
        let store = CrashStore::new(world.store.clone(), None).failing_between_turns(fault);
        world.engine = world.setup.start(store.clone()).await.unwrap();
        world.begin("one").await;
        gate.waiting(1).await;
        let queued = [world.enqueue("two").await, world.enqueue("three").await];
        gate.open();
        for started in queued {
            assert!(world.end_of(&started.turn).await.ends_with("completed\n"));
        }
        let asked = store.asked();
        assert_eq!((asked.failed_with_ends, asked.begun_with_ends), (1, 2), "{asked:?}");
        check_session(&world.store, &world.engine, &world.tenant, &world.session()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_queue_behind_a_waiting_turn_runs_once_that_was_answered() {
    let scripts = [vec![call("weather", "{}"), stop()], vec![say("Sunny."), stop()], vec![say("Two."), stop()]];
    for restarts in [false, true] {
        let world = World::start(Setup::new(scripts.clone())).await;
        world.act(Act::User("weather?")).await;
        let two = world.enqueue("two").await;
        let world = if restarts { world.restart().await } else { world };
        // Nothing of the queue begins while the turn before it waits.
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(world.turns().await, "1 \"weather?\" waiting\n2 \"two\" queued\n");
        world.submit(world.answers(vec![result("c1", "sun")])).await.unwrap();
        expect![[r#"
            1 turn started: user: "two"
            2 step 1 with test/one
            3 text "Two."
            4 step finished: Stop, 100+10 tokens: "Two."
            5 ended, 100+10 tokens: completed
        "#]]
        .assert_eq(&world.end_of(&two.turn).await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_queue_behind_a_waiting_turn_runs_once_that_was_stopped() {
    for restarts in [false, true] {
        let world = World::start(Setup::new([vec![call("weather", "{}"), stop()], vec![say("Two."), stop()]])).await;
        world.act(Act::User("weather?")).await;
        let two = world.enqueue("two").await;
        let world = if restarts { world.restart().await } else { world };
        let begun = tokio::time::Instant::now();
        world.stop().await.unwrap();
        assert!(world.end_of(&two.turn).await.ends_with("completed\n"));
        assert!(begun.elapsed() < Duration::from_secs(1), "nobody told the queue: {:?}", begun.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_says_so() {
    let gate = Gate::closed();
    let setup = echo(&gate, |said| said == "one").settings(|settings| settings.session_queue = 2);
    let world = World::start(setup).await;
    world.begin("one").await;
    gate.waiting(1).await;
    world.enqueue("two").await;
    let three = world.enqueue("three").await;
    let refused = world.send("four", OnBusy::Enqueue).await.unwrap_err();
    assert!(matches!(refused, SubmitError::QueueFull { limit: 2 }), "{refused:?}");
    assert_eq!(
        refused.to_string(),
        "2 messages are waiting in this session, which is the limit; wait until some have been answered"
    );
    world.stop_turn(&three.turn).await.unwrap();
    world.enqueue("five").await;
    gate.open();
    world.idle().await;
    expect![[r#"
        1 "one" completed
        2 "two" completed
        3 "three" cancelled: UserStop
        4 "five" completed
    "#]]
    .assert_eq(&world.turns().await);
}

/// In all sessions together, and also by a process that has not queued them.
#[tokio::test(start_paused = true)]
async fn a_tenant_has_a_bounded_number_of_queued_messages() {
    let gate = Gate::closed();
    let setup = echo(&gate, |said| said == "one").settings(|settings| settings.tenant_queue = 2);
    let mut world = World::start(setup).await;
    world.begin("one").await;
    gate.waiting(1).await;
    world.enqueue("two").await;
    let three = world.enqueue("three").await;
    for restarts in [false, true] {
        if restarts {
            world = world.restart().await;
            gate.waiting(1).await;
        }
        let refused = world.send("four", OnBusy::Enqueue).await.unwrap_err();
        assert!(matches!(refused, SubmitError::TenantQueueFull { limit: 2 }), "{refused:?}");
        assert_eq!(
            refused.to_string(),
            "2 messages are waiting in all sessions of this tenant, which is the limit (limits.tenant_queue); \
             wait until some have been answered"
        );
    }
    world.stop_turn(&three.turn).await.unwrap();
    world.enqueue("five").await;
    gate.open();
    world.idle().await;
    assert!(world.turns().await.ends_with("4 \"five\" completed\n"), "{}", world.turns().await);
}

/// Many at once: never more than the bound, and no fewer either.
#[tokio::test(start_paused = true)]
async fn messages_that_come_at_once_fill_the_bound_of_a_tenant_exactly() {
    let gate = Gate::closed();
    let world = World::start(echo(&gate, |said| said == "one").settings(|settings| settings.tenant_queue = 5)).await;
    world.begin("one").await;
    gate.waiting(1).await;
    let sent = futures_util::future::join_all((0..20).map(|_| world.send("more", OnBusy::Enqueue))).await;
    let is_full = |sent: &Result<_, _>| matches!(sent, Err(SubmitError::TenantQueueFull { limit: 5 }));
    assert_eq!(
        (sent.iter().filter(|sent| sent.is_ok()).count(), sent.iter().filter(|sent| is_full(sent)).count()),
        (5, 15)
    );
    gate.open();
    world.idle().await;
}

#[tokio::test(start_paused = true)]
async fn a_queued_turn_that_is_stopped_was_never_said() {
    let gate = Gate::closed();
    let world = World::start(echo(&gate, |said| said == "one")).await;
    world.begin("one").await;
    gate.waiting(1).await;
    let [two, three] = [world.enqueue("two").await, world.enqueue("three").await];
    world.stop_turn(&two.turn).await.unwrap();
    expect![[r#"
        1 ended, 0+0 tokens: cancelled: UserStop
    "#]]
    .assert_eq(&world.end_of(&two.turn).await);
    assert_eq!(world.turns().await, "1 \"one\" running\n2 \"two\" cancelled: UserStop\n3 \"three\" queued\n");
    gate.open();
    world.idle().await;
    assert!(world.end_of(&three.turn).await.ends_with("completed\n"));
    expect![[r#"
        > history
        user: "one"
        assistant: "You said one."
        user: "three"
        assistant: "You said three."
    "#]]
    .assert_eq(&world.act(Act::History).await);
}

#[tokio::test(start_paused = true)]
async fn an_interruption_ends_the_running_turn_and_drops_the_queue() {
    let gate = Gate::closed();
    let world = World::start(echo(&gate, |said| said == "one")).await;
    let one = world.begin("one").await;
    gate.waiting(1).await;
    world.enqueue("two").await;
    world.enqueue("three").await;
    let four = world.send("four", OnBusy::Interrupt).await.unwrap();
    assert!(!four.is_queued());
    assert!(world.transcript(&four).await.ends_with("completed\n"));
    expect![[r#"
        1 "one" cancelled: Superseded
        2 "two" cancelled: Superseded
        3 "three" cancelled: Superseded
        4 "four" completed
    "#]]
    .assert_eq(&world.turns().await);
    expect![[r#"
        1 turn started in a new session: user: "one"
        2 step 1 with test/one
        3 step finished: Aborted, 127+0 tokens: ""
        4 ended, 127+0 tokens: cancelled: Superseded
    "#]]
    .assert_eq(&world.end_of(&one.turn).await);
}

#[tokio::test(start_paused = true)]
async fn an_interruption_takes_the_place_of_a_waiting_turn_and_its_queue() {
    let scripts = [vec![call("weather", "{}"), stop()], vec![say("Never mind."), stop()]];
    let world = World::start(Setup::new(scripts)).await;
    let one = world.begin("weather?").await;
    world.transcript(&one).await;
    world.enqueue("two").await;
    let three = world.send("three", OnBusy::Interrupt).await.unwrap();
    assert!(world.transcript(&three).await.ends_with("completed\n"));
    assert_eq!(
        world.turns().await,
        "1 \"weather?\" cancelled: Superseded\n2 \"two\" cancelled: Superseded\n3 \"three\" completed\n"
    );
    assert!(world.end_of(&one.turn).await.contains("Tool call skipped: the user sent a new message"));
}

#[tokio::test(start_paused = true)]
async fn a_message_that_would_rather_be_refused_is() {
    let gate = Gate::closed();
    let world = World::start(echo(&gate, |said| said == "one")).await;
    world.begin("one").await;
    gate.waiting(1).await;
    for on_busy in [OnBusy::Reject, OnBusy::Supersede] {
        let refused = world.send("two", on_busy).await.unwrap_err();
        assert!(matches!(refused, SubmitError::Refused(Refused::Busy)), "{refused:?}");
    }
    gate.open();
    world.idle().await;
    assert!(!world.send("two", OnBusy::Reject).await.unwrap().is_queued());
}

/// Who does not say that it may interrupt does not overtake those that wait.
#[tokio::test(start_paused = true)]
async fn nobody_overtakes_the_queue() {
    let world = World::start(Setup::new([vec![call("weather", "{}"), stop()], vec![say("Two."), stop()]])).await;
    world.act(Act::User("weather?")).await;
    let two = world.enqueue("two").await;
    for on_busy in [OnBusy::Supersede, OnBusy::Reject] {
        let refused = world.send("three", on_busy).await.unwrap_err();
        assert!(matches!(refused, SubmitError::Refused(Refused::Busy)), "{refused:?}");
    }
    world.stop().await.unwrap();
    assert!(world.end_of(&two.turn).await.ends_with("completed\n"));
}

#[tokio::test(start_paused = true)]
async fn a_queued_message_that_is_sent_again_is_queued_once() {
    let gate = Gate::closed();
    let world = World::start(echo(&gate, |said| said == "one")).await;
    world.begin("one").await;
    gate.waiting(1).await;
    let key = SubmissionKey { key: "k1".to_owned(), fingerprint: "two".to_owned() };
    let mut submit = world.message("two");
    (submit.on_busy, submit.key) = (OnBusy::Enqueue, Some(key.clone()));
    let first = world.submit(submit.clone()).await.unwrap();
    let again = world.submit(submit.clone()).await.unwrap();
    assert_eq!((&again.turn, again.is_queued()), (&first.turn, true));
    let world = world.restart().await;
    assert_eq!(world.submit(submit.clone()).await.unwrap().turn, first.turn);
    let other = SubmissionKey { fingerprint: "another".to_owned(), ..key };
    let reused = world.submit(Submit { key: Some(other), ..submit.clone() }).await.unwrap_err();
    assert!(matches!(reused, SubmitError::KeyReused { .. }), "{reused:?}");
    gate.open();
    world.idle().await;
    // Once it is over the repetition can read it.
    let late = world.submit(submit).await.unwrap();
    assert_eq!(late.turn, first.turn);
    assert_eq!(world.turns().await, "1 \"one\" completed\n2 \"two\" completed\n");
    let events = leg_of(&world.engine, &late).await;
    assert!(matches!(events.last(), Some((_, Event::TurnEnded(_)))), "{events:?}");
}

/// Each turn of a queue takes its own place among those that run.
#[tokio::test(start_paused = true)]
async fn a_queue_waits_for_a_free_slot() {
    let gate = Gate::closed();
    let setup = Setup::with_models([ScriptedModel::thinking("test/one", {
        let gate = gate.clone();
        move |request| match last_words(request).as_str() {
            "ask" if request.messages.len() == 1 => vec![call("weather", "{}"), stop()],
            "hold" => vec![Beat::Gate(gate.clone()), say("Held."), stop()],
            _ => vec![say("Done."), stop()],
        }
    })])
    .agent(|agent| agent.turn_timeout = Duration::from_secs(24 * 3600))
    .settings(|settings| {
        settings.concurrent_turns = 1;
        settings.step_idle_timeout = Some(Duration::from_secs(24 * 3600));
        settings.first_byte_timeout = Some(Duration::from_secs(24 * 3600));
    });
    let world = World::start(setup).await;
    world.act(Act::User("ask")).await;
    let queued = world.enqueue("later").await;
    let session = world.session();
    world.new_session();
    world.begin("hold").await;
    gate.waiting(1).await;
    let world = world.in_session(session);
    world.stop().await.unwrap();
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    // However long it takes, nobody but those who wait for the slot wait for it.
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(world.turns().await, "1 \"ask\" cancelled: UserStop\n2 \"later\" queued\n");
    let now = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    assert!(now <= tasks + 1, "{now} tasks where there were {tasks}");
    gate.open();
    assert!(world.end_of(&queued.turn).await.ends_with("completed\n"));
}

#[tokio::test(start_paused = true)]
async fn deleting_a_session_deletes_its_queue() {
    let gate = Gate::closed();
    let model = ScriptedModel::new("test/one", [vec![Beat::Gate(gate.clone())], vec![say("Two."), stop()]]);
    let world = World::start(Setup::with_models([model.clone()])).await;
    world.begin("one").await;
    gate.waiting(1).await;
    world.enqueue("two").await;
    world.delete(&world.tenant, &world.session(), None).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.engine.session(&world.tenant, &world.session()).await, Ok(None));
    assert!(matches!(world.send("three", OnBusy::Enqueue).await, Err(SubmitError::NotFound)));
    assert_eq!(model.requests().len(), 1, "what was deleted ran");
}

#[tokio::test(start_paused = true)]
async fn a_queued_turn_asks_the_model_for_what_it_was_submitted_with() {
    let gate = Gate::closed();
    let (held, mut calls) = (gate.clone(), 0);
    let model = ScriptedModel::thinking("test/one", move |_| {
        calls += 1;
        if calls == 1 { vec![Beat::Gate(held.clone()), say("1"), stop()] } else { vec![say("more"), stop()] }
    });
    let world = World::start(Setup::with_models([model.clone()])).await;
    world.begin("one").await;
    gate.waiting(1).await;
    let options = ModelOptions { effort: Some(Effort::High), temperature: Some(300), ..ModelOptions::default() };
    let enqueue = |text: &str, options: &ModelOptions| {
        let options = options.clone();
        world.submit(Submit { on_busy: OnBusy::Enqueue, options, ..world.message(text) })
    };
    enqueue("two", &options).await.unwrap();
    let last = enqueue("three", &ModelOptions::default()).await.unwrap();
    // The options outlive the process that took them.
    let world = world.restart().await;
    gate.open();
    world.end_of(&last.turn).await;
    world.idle().await;
    let asked = model.requests().into_iter().map(|request| (last_words(&request), request.options));
    let plain = ModelOptions::default();
    let expected = [("one", &plain), ("one", &plain), ("two", &options), ("three", &plain)];
    assert_eq!(asked.collect::<Vec<_>>(), expected.map(|(text, options)| (text.to_owned(), options.clone())));
}
