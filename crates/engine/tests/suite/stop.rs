//! Stop: a turn ends wherever it stands, on somebody's word, and the session is free again.

use std::time::Duration;

use everturn_core::{EffectClass, TenantId, submission::OnBusy};
use everturn_engine::SubmissionKey;
use everturn_models::ModelErrorKind;
use everturn_store::TurnStatus;
use expect_test::{Expect, expect};
use tokio::time::Instant;

use super::harness::*;

/// Stops what runs or waits, at once, and checks the stored transcript. Afterwards the session takes a message.
async fn check_stop(world: World, expect: Expect) {
    let begun = Instant::now();
    world.stop().await.unwrap();
    assert!(begun.elapsed() < Duration::from_millis(50), "{:?}", begun.elapsed());
    // Not a moment later: the end is durable, and nothing is in the way of the next message.
    let next = world.send("go on", OnBusy::Reject).await.unwrap();
    expect.assert_eq(&world.log_before(&next).await);
    assert!(world.transcript(&next).await.ends_with("completed\n"));
    assert_eq!(world.setup.ledger.running(), 0, "a tool goes on");
}

impl World {
    /// The stored log of the turn before this one.
    async fn log_before(&self, next: &everturn_engine::Started) -> String {
        let turns = self.engine.turns_below(&self.tenant, &self.session(), None, 10).await.unwrap();
        let before = turns.iter().find(|turn| turn.id != next.turn).expect("a turn before");
        let log = self.log_of(&before.id).await;
        self.lines(&log)
    }
}

/// What the model says after a stop.
fn then() -> Script {
    vec![say("Here I am."), stop()]
}

#[tokio::test(start_paused = true)]
async fn while_the_model_is_silent() {
    let model =
        ScriptedModel::new("test/one", [vec![think("Hm"), say("Half an "), call("look", "{}"), Beat::Silence], then()]);
    let world = World::start(Setup::with_models([model.clone()])).await;
    world.begin("hi").await;
    until(async || world.log().await.len() == 5).await;
    check_stop(
        world,
        expect![[r#"
            1 turn started in a new session: user: "hi"
            2 step 1 with test/one
            3 thinking "Hm"
            4 text "Half an "
            5 call c1 look{} (inline)
            6 step finished: Aborted, 127+4 tokens: [thinking "Hm", "Half an ", c1 look{}]
            7 result c1 error: "Tool call cancelled: the user stopped the turn"
            8 ended, 127+4 tokens: cancelled: UserStop
        "#]],
    )
    .await;
    assert_eq!(model.under_way(), 0, "the call goes on");
}

#[tokio::test(start_paused = true)]
async fn before_the_model_has_said_anything() {
    let world = World::start(Setup::new([vec![Beat::Silence], then()])).await;
    world.begin("hi").await;
    until(async || world.log().await.len() == 2).await;
    check_stop(
        world,
        expect![[r#"
            1 turn started in a new session: user: "hi"
            2 step 1 with test/one
            3 step finished: Aborted, 127+0 tokens: ""
            4 ended, 127+0 tokens: cancelled: UserStop
        "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn while_tools_are_silent() {
    let gate = Gate::closed();
    let calls =
        vec![say("On it."), call("slow", "{}"), call("read", "{}"), call("look", "{}"), call("weather", "{}"), stop()];
    let setup = Setup::new([calls, then()])
        .trusted("slow", EffectClass::Effectful, Behaviour::Gated(gate.clone()))
        .trusted("read", EffectClass::ReadOnly, Behaviour::Gated(gate.clone()));
    let world = World::start(setup).await;
    world.begin("hi").await;
    gate.waiting(2).await;
    until(async || world.log().await.len() == 12).await;
    check_stop(world, expect![[r#"
        1 turn started in a new session: user: "hi"
        2 step 1 with test/one
        3 text "On it."
        4 call c1 slow{} (inline)
        5 call c2 read{} (inline)
        6 call c3 look{} (inline)
        7 call c4 weather{} (client)
        8 step finished: ToolUse, 100+10 tokens: ["On it.", c1 slow{}, c2 read{}, c3 look{}, c4 weather{}]
        9 intent c1 as e1 (Effectful)
        10 intent c2 as e2 (ReadOnly)
        11 intent c3 as e3 (ReadOnly)
        12 result c3: "look ran with {}"
        13 result c1 error: "Tool call interrupted: the turn was ended while it ran. Whether it had its effect is unknown; check before you call it again"
        14 result c2 error: "Tool call cancelled: the user stopped the turn"
        15 result c4 error: "Tool call cancelled: the user stopped the turn"
        16 ended, 100+10 tokens: cancelled: UserStop
    "#]])
    .await;
}

#[tokio::test(start_paused = true)]
async fn while_a_retry_waits() {
    let wait = Duration::from_secs(20);
    let world =
        World::start(Setup::new([vec![say("Half"), fail_after(ModelErrorKind::Unavailable, wait)], then()])).await;
    world.begin("hi").await;
    until(async || world.log().await.len() == 4).await;
    check_stop(
        world,
        expect![[r#"
            1 turn started in a new session: user: "hi"
            2 step 1 with test/one
            3 text "Half"
            4 step restarted after 1, 127+1 tokens: provider says Unavailable
            5 step finished: Aborted, 0+0 tokens: ""
            6 ended, 127+1 tokens: cancelled: UserStop
        "#]],
    )
    .await;
}

const ASK: &str = r#"{"kind": "clarify", "title": "Where?", "schema": {"type": "object"}}"#;

#[tokio::test(start_paused = true)]
async fn while_it_waits_for_a_form() {
    let setup =
        Setup::new([vec![call("request_form", ASK), call("pay", "{}"), stop()], then()]).builtin("request_form");
    let world = World::start(setup).await;
    world.act(Act::User("hi")).await;
    check_stop(
        world,
        expect![[r#"
            1 turn started in a new session: user: "hi"
            2 step 1 with test/one
            3 call c1 request_form{"kind": "clarify", "title": "Where?", "schema": {"type": "object"}} (form)
            4 call c2 pay{} (asks)
            5 step finished: ToolUse, 100+10 tokens: [c1 request_form{"kind": "clarify", "title": "Where?", "schema": {"type": "object"}}, c2 pay{}]
            6 form f1 for c1, clarify: "Where?"
            7 form f2 for c2, approval: "Allow pay?"
            8 waiting for form of c1 request_form, permission of c2 pay
            9 result c1 error: "Tool call cancelled: the user stopped the turn"
            10 result c2 error: "Tool call cancelled: the user stopped the turn"
            11 ended, 100+10 tokens: cancelled: UserStop
        "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn while_it_waits_for_a_timer() {
    let setup = Setup::new([vec![call("wait", r#"{"seconds": 86400}"#), stop()], then()]).builtin("wait");
    let world = World::start(setup).await;
    world.act(Act::User("hi")).await;
    check_stop(
        world,
        expect![[r#"
            1 turn started in a new session: user: "hi"
            2 step 1 with test/one
            3 call c1 wait{"seconds": 86400} (inline)
            4 step finished: ToolUse, 100+10 tokens: [c1 wait{"seconds": 86400}]
            5 intent c1 as e1 (ReadOnly)
            6 timer c1 set
            7 waiting for timer of c1 wait
            8 result c1 error: "Tool call cancelled: the user stopped the turn"
            9 ended, 100+10 tokens: cancelled: UserStop
        "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn while_it_waits_for_the_application() {
    let world = World::start(Setup::new([vec![call("weather", "{}"), stop()], then()])).await;
    world.act(Act::User("hi")).await;
    check_stop(
        world,
        expect![[r#"
            1 turn started in a new session: user: "hi"
            2 step 1 with test/one
            3 call c1 weather{} (client)
            4 step finished: ToolUse, 100+10 tokens: [c1 weather{}]
            5 waiting for result of c1 weather
            6 result c1 error: "Tool call cancelled: the user stopped the turn"
            7 ended, 100+10 tokens: cancelled: UserStop
        "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn while_it_pauses_for_the_provider() {
    let hour = Duration::from_secs(3600);
    let world = World::start(Setup::new([vec![fail_after(ModelErrorKind::RateLimited, hour)], then()])).await;
    world.act(Act::User("hi")).await;
    check_stop(
        world,
        expect![[r#"
            1 turn started in a new session: user: "hi"
            2 step 1 with test/one
            3 step restarted after 1, 0+0 tokens: provider says RateLimited
            4 waiting for the provider
            5 ended, 0+0 tokens: cancelled: UserStop
        "#]],
    )
    .await;
}

/// Stop ends one turn; what is queued behind it runs.
#[tokio::test(start_paused = true)]
async fn those_behind_it_come_next() {
    let world = World::start(Setup::new([vec![Beat::Silence], then(), then()])).await;
    world.begin("one").await;
    until(async || world.log().await.len() == 2).await;
    world.enqueue("two").await;
    let three = world.enqueue("three").await;
    world.stop().await.unwrap();
    world.idle().await;
    assert_eq!(world.turns().await, "1 \"one\" cancelled: UserStop\n2 \"two\" completed\n3 \"three\" completed\n");
    // What is over is not ended again.
    world.stop_turn(&three.turn).await.unwrap();
    assert!(world.turns().await.ends_with("3 \"three\" completed\n"));
}

/// After a crash the turn is taken up again; a stop finds it all the same.
#[tokio::test(start_paused = true)]
async fn while_it_is_recovered() {
    let world = World::start(Setup::new([vec![say("Half"), Beat::Silence], vec![Beat::Silence], then()])).await;
    world.begin("hi").await;
    until(async || world.log().await.len() == 3).await;
    let world = world.restart().await;
    until(async || world.log().await.len() == 4).await;
    check_stop(
        world,
        expect![[r#"
            1 turn started in a new session: user: "hi"
            2 step 1 with test/one
            3 text "Half"
            4 step restarted after 0, 127+1 tokens: the server stopped while the model was answering
            5 step finished: Aborted, 127+0 tokens: ""
            6 ended, 254+1 tokens: cancelled: UserStop
        "#]],
    )
    .await;
}

/// A turn that waits for a free slot in order to be recovered is ended without one.
#[tokio::test(start_paused = true)]
async fn a_recovered_turn_needs_no_slot_to_be_stopped() {
    let scripts = [vec![say("One"), Beat::Silence], vec![say("Two"), Beat::Silence], vec![Beat::Silence], then()];
    let world = World::start(Setup::new(scripts)).await;
    let one = world.begin("one").await;
    until(async || world.log().await.len() == 3).await;
    world.new_session();
    let two = world.begin("two").await;
    until(async || world.log().await.len() == 3).await;
    let mut world = world;
    world.setup.settings.concurrent_turns = 1;
    let world = world.restart().await;
    // The older one has the slot.
    let world = world.in_session(one.session.clone());
    until(async || world.log().await.len() == 4).await;
    let world = world.in_session(two.session.clone());
    world.stop().await.unwrap();
    expect![[r#"
        1 turn started in a new session: user: "two"
        2 step 1 with test/one
        3 text "Two"
        4 step finished: Aborted, 127+1 tokens: "Two"
        5 ended, 127+1 tokens: cancelled: UserStop
    "#]]
    .assert_eq(&world.end_of(&two.turn).await);
    let world = world.in_session(one.session.clone());
    assert_eq!(world.turn_record(&one.turn).await.status, TurnStatus::Running);
    world.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_stop_that_is_sent_again_stops_nothing_else() {
    let world = World::start(Setup::new([vec![Beat::Silence], vec![Beat::Silence], then()])).await;
    let (tenant, key) = (&world.tenant, SubmissionKey { key: "s1".to_owned(), fingerprint: "stop".to_owned() });
    let one = world.begin("one").await;
    let session = world.session();
    world.engine.stop(tenant, &session, None, Some(key.clone())).await.unwrap();
    assert!(world.end_of(&one.turn).await.ends_with("cancelled: UserStop\n"));
    let two = world.begin("two").await;
    world.engine.stop(tenant, &session, None, Some(key.clone())).await.unwrap();
    assert_eq!(world.turn_record(&two.turn).await.status, TurnStatus::Running, "the wrong turn was stopped");
    let other = SubmissionKey { fingerprint: "another".to_owned(), ..key };
    // A key that was used for something else is no reason not to stop.
    world.engine.stop(tenant, &session, None, Some(other)).await.unwrap();
    assert!(world.end_of(&two.turn).await.ends_with("cancelled: UserStop\n"));
}

#[tokio::test(start_paused = true)]
async fn what_there_is_not_need_not_be_stopped() {
    let world = World::start(Setup::new([then()])).await;
    let nobody = "sess_nobody".parse().unwrap();
    world.engine.stop(&world.tenant, &nobody, None, None).await.unwrap();
    let key = SubmissionKey { key: "s1".to_owned(), fingerprint: "stop".to_owned() };
    world.engine.stop(&world.tenant, &nobody, None, Some(key.clone())).await.unwrap();
    world.engine.stop(&world.tenant, &nobody, Some(&"turn_none".parse().unwrap()), None).await.unwrap();
    world.act(Act::User("hi")).await;
    world.stop().await.unwrap();
    assert_eq!(world.turns().await, "1 \"hi\" completed\n");
}

#[tokio::test(start_paused = true)]
async fn nobody_stops_what_belongs_to_others() {
    let world = World::start(Setup::new([vec![Beat::Silence], vec![say("Mine."), stop()]])).await;
    let theirs = world.begin("one").await;
    until(async || world.log().await.len() == 2).await;
    let other = TenantId::mint();
    world.engine.stop(&other, &theirs.session, None, None).await.unwrap();
    world.engine.stop(&other, &theirs.session, Some(&theirs.turn), None).await.unwrap();
    assert_eq!(world.turn_record(&theirs.turn).await.status, TurnStatus::Running, "a turn of another tenant's ended");
    // Nor by way of a session of one's own.
    world.new_session();
    world.act(Act::User("two")).await;
    world.stop_turn(&theirs.turn).await.unwrap();
    let world = world.in_session(theirs.session.clone());
    assert_eq!(world.turn_record(&theirs.turn).await.status, TurnStatus::Running, "a turn of another session's ended");
    world.stop().await.unwrap();
}

/// Several say stop at once, and somebody answers meanwhile: one end, and nobody is told of a failure.
#[tokio::test(start_paused = true)]
async fn several_stops_at_once_are_one() {
    for scripts in [vec![vec![Beat::Silence], then()], vec![vec![call("weather", "{}"), stop()], then()]] {
        let world = World::start(Setup::new(scripts)).await;
        let started = world.begin("hi").await;
        until(async || matches!(world.log().await.len(), 2 | 5)).await;
        let stops = futures_util::future::join_all((0..5).map(|_| world.stop())).await;
        stops.into_iter().for_each(|stopped| stopped.unwrap());
        assert!(world.end_of(&started.turn).await.ends_with("cancelled: UserStop\n"));
    }
}
