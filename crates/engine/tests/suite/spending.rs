//! What turns use is counted where it is used, once.

use everturn_core::{Day, submission::OnBusy};
use everturn_engine::{Account, Submit};
use everturn_models::ModelErrorKind;
use expect_test::{Expect, expect};

use super::harness::*;

async fn check(world: &World, expected: Expect) {
    let days = (Day(i32::MIN), Day(i32::MAX));
    let rows = world.engine.usage(&world.tenant, days, None, 100).await.unwrap();
    let line = |row: everturn_store::UsageRow| {
        let key = row.slot.key.map_or_else(|| "-".to_owned(), |key| key.to_string());
        let count = row.count;
        let (input, output) = (count.tokens.input, count.tokens.output);
        let (agent, model) = (row.slot.agent, row.slot.model);
        format!("{agent} {model} {key}: {} turns, {} calls, {input}+{output}\n", count.turns, count.calls)
    };
    expected.assert_eq(&rows.into_iter().map(line).collect::<String>());
}

fn with_key(submit: Submit) -> Submit {
    let account = Account { key: Some("key_1".parse().unwrap()), ..Account::default() };
    Submit { account: account.into(), ..submit }
}

#[tokio::test(start_paused = true)]
async fn each_key_pays_for_its_turns_also_for_those_that_were_queued() {
    let gate = Gate::closed();
    let scripts = [vec![Beat::Gate(gate.clone()), say("One"), stop()], vec![say("Two"), stop()]];
    let world = World::start(Setup::new(scripts)).await;
    world.submit(with_key(world.message("one"))).await.unwrap();
    let queued = Submit { on_busy: OnBusy::Enqueue, ..world.message("two") };
    world.submit(queued).await.unwrap();
    gate.open();
    world.idle().await;
    check(
        &world,
        expect![[r#"
            tester test/one -: 1 turns, 1 calls, 100+10
            tester test/one key_1: 1 turns, 1 calls, 100+10
        "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_key_that_began_a_turn_pays_for_it_to_its_end_also_after_a_crash() {
    let scripts = [vec![call("weather", "{}"), stop()], vec![say("Well"), Beat::Silence], vec![say("Sun"), stop()]];
    let world = World::start(Setup::new(scripts)).await;
    let started = world.submit(with_key(world.message("weather?"))).await.unwrap();
    world.transcript(&started).await;
    let session = started.session.clone();
    let answered = world.answers(vec![result("c1", "sun")]);
    world.submit(answered).await.unwrap();
    until(async || world.log().await.last().is_some_and(|(_, event)| format!("{event:?}").contains("Well"))).await;
    let world = world.restart_in(session).await;
    world.idle().await;
    check(
        &world,
        expect![[r#"
        tester test/one key_1: 1 turns, 3 calls, 344+21
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn calls_that_failed_or_were_stopped_are_counted_for_their_model() {
    let one = ScriptedModel::new("test/one", [vec![say("Well"), fail(ModelErrorKind::Rejected)]]);
    let two = ScriptedModel::new("test/two", [vec![say("So"), Beat::Silence]]);
    let world = World::start(Setup::with_models([one, two])).await;
    world.submit(with_key(world.message("hi"))).await.unwrap();
    until(async || world.log().await.last().is_some_and(|(_, event)| format!("{event:?}").contains("So"))).await;
    world.stop().await.unwrap();
    world.idle().await;
    check(
        &world,
        expect![[r#"
        tester test/one key_1: 1 turns, 1 calls, 127+1
        tester test/two key_1: 0 turns, 1 calls, 127+1
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn deleting_a_session_takes_nothing_back_and_titles_cost_too() {
    let scripts = [vec![say("The sea is deep."), stop()], vec![say("Depth of the sea"), stop()]];
    let mut setup = Setup::new(scripts).agent(|agent| agent.titles = true);
    setup.update.titled = true;
    let world = World::start(setup).await;
    let started = world.submit(with_key(world.message("How deep is the sea?"))).await.unwrap();
    world.transcript(&started).await;
    let session = world.session();
    until(async || world.engine.session(&world.tenant, &session).await.unwrap().unwrap().title.is_some()).await;
    world.delete(&world.tenant, &session, None).await.unwrap();
    check(
        &world,
        expect![[r#"
        tester test/one key_1: 1 turns, 2 calls, 200+20
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_title_that_failed_was_asked_for_all_the_same() {
    for (title, expected) in [
        (
            vec![fail(ModelErrorKind::Unavailable)],
            expect![[r#"
            tester test/one -: 1 turns, 2 calls, 100+10
        "#]],
        ),
        (
            vec![say("Depth"), fail(ModelErrorKind::Unavailable)],
            expect![[r#"
            tester test/one -: 1 turns, 2 calls, 153+12
        "#]],
        ),
    ] {
        let mut setup = Setup::new([vec![say("Deep."), stop()], title]).agent(|agent| agent.titles = true);
        setup.update.titled = true;
        let world = World::start(setup).await;
        world.act(Act::User("How deep is the sea?")).await;
        let session = world.session();
        until(async || world.engine.session(&world.tenant, &session).await.unwrap().unwrap().title.is_some()).await;
        check(&world, expected).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_title_that_a_shutdown_cuts_off_is_counted() {
    let scripts = [vec![say("Deep."), stop()], vec![say("Depth"), Beat::Silence]];
    let model = ScriptedModel::new("test/one", scripts);
    let mut setup = Setup::with_models([model.clone()]).agent(|agent| agent.titles = true);
    setup.update.titled = true;
    let world = World::start(setup).await;
    world.act(Act::User("How deep is the sea?")).await;
    until(async || model.requests().len() == 2).await;
    world.engine.shutdown(std::time::Duration::from_secs(1)).await;
    check(
        &world,
        expect![[r#"
        tester test/one -: 1 turns, 2 calls, 153+12
    "#]],
    )
    .await;
}
