//! Names of sessions, made from their first exchange.

use std::time::Duration;

use everturn_core::{Json, SessionId};
use everturn_models::ModelErrorKind;
use expect_test::expect;

use super::harness::*;

/// Sessions that want a name, from a model that is asked for it or not.
fn titled(scripts: impl IntoIterator<Item = Script>, by_model: bool) -> Setup {
    let mut setup = Setup::new(scripts).agent(|agent| agent.titles = by_model);
    setup.update.titled = true;
    setup
}

impl World {
    async fn title_of(&self, session: &SessionId) -> Option<String> {
        self.engine.session(&self.tenant, session).await.unwrap().expect("the session is there").title
    }

    /// Waits until the session has a name.
    async fn title(&self) -> String {
        let session = self.session();
        until(async || self.title_of(&session).await.is_some()).await;
        self.title_of(&session).await.expect("it was there just now")
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_is_called_by_its_first_words() {
    let scripts = [vec![say("Sure."), stop()], vec![say("Yes."), stop()]];
    let world = World::start(titled(scripts, false)).await;
    world.act(Act::User("  Please find me a very\ncheap flight to the moon")).await;
    assert_eq!(world.title().await, "Please find me a very cheap flight to…");
    world.act(Act::User("Or to Mars")).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.title().await, "Please find me a very cheap flight to…", "a name stays");
}

#[tokio::test(start_paused = true)]
async fn a_model_names_the_session_from_the_first_exchange() {
    let scripts = [vec![say("The sea is deep."), stop()], vec![say("\n\"Depth of "), say("the sea.\"\n\nok"), stop()]];
    let model = ScriptedModel::new("test/one", scripts);
    let mut setup = Setup::with_models([model.clone()]).agent(|agent| {
        agent.titles = true;
        agent.body = Some(Json::parse(r#"{"max_tokens":5000,"provider":{"data_collection":"deny"}}"#).unwrap());
    });
    setup.update.titled = true;
    let world = World::start(setup).await;
    let before = world.act(Act::User("How deep is the sea?")).await;
    assert_eq!(world.title().await, "Depth of the sea");
    let request = model.requests().pop().unwrap();
    // Who may see the words of the conversation counts for its title too; the cap on answers does not.
    assert_eq!(request.body.as_ref().unwrap().as_str(), r#"{"provider":{"data_collection":"deny"}}"#);
    assert!(request.system.starts_with("Write a title") && request.tools.is_empty(), "{request:?}");
    expect![[r#"
        user: "How deep is the sea?"
        assistant: "The sea is deep."
        user: "Now write the title."
    "#]]
    .assert_eq(&world.shown(&request.messages.to_vec()));
    // It is no part of the conversation.
    assert!(before.ends_with("completed\n"));
    assert_eq!(world.act(Act::History).await.lines().count(), 3);
    let record = world.engine.session(&world.tenant, &world.session()).await.unwrap().unwrap();
    assert_eq!((record.usage.input, record.usage.output), (100, 10));
}

#[tokio::test(start_paused = true)]
async fn a_model_that_gives_no_name_is_done_without() {
    for script in
        [vec![fail(ModelErrorKind::Unavailable)], vec![say(" \n "), stop()], vec![say("Half")], vec![Beat::Silence]]
    {
        let world = World::start(titled([vec![say("Sure."), stop()], script], true)).await;
        world.act(Act::User("One two three")).await;
        assert_eq!(world.title().await, "One two three");
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_that_somebody_gave_stays() {
    let gate = Gate::closed();
    let scripts = [vec![say("Sure."), stop()], vec![Beat::Gate(gate.clone()), say("By the model"), stop()]];
    let world = World::start(titled(scripts, true)).await;
    world.act(Act::User("hi")).await;
    gate.waiting(1).await;
    assert!(world.rename(&world.tenant, &world.session(), "By me".to_owned()).await.unwrap());
    gate.open();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.title().await, "By me");
    assert!(!world.rename(&everturn_core::TenantId::mint(), &world.session(), "Theirs".to_owned()).await.unwrap());
    assert_eq!(world.title().await, "By me");
}

#[tokio::test(start_paused = true)]
async fn a_session_that_wants_no_name_gets_none() {
    let model = ScriptedModel::new("test/one", [vec![say("Sure."), stop()], vec![say("Title"), stop()]]);
    let world = World::start(Setup::with_models([model.clone()]).agent(|agent| agent.titles = true)).await;
    world.act(Act::User("hi")).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.title_of(&world.session()).await, None);
    assert_eq!(model.requests().len(), 1);
}

/// A crash only delays the name.
#[tokio::test(start_paused = true)]
async fn the_next_turn_names_a_session_that_has_no_name_yet() {
    let scripts =
        [vec![say("Sure."), stop()], vec![Beat::Silence], vec![say("Yes."), stop()], vec![say("Moon"), stop()]];
    let model = ScriptedModel::new("test/one", scripts);
    let mut setup = Setup::with_models([model.clone()]).agent(|agent| agent.titles = true);
    setup.update.titled = true;
    let world = World::start(setup).await;
    world.act(Act::User("To the moon")).await;
    model.called(2).await;
    let world = world.restart().await;
    assert_eq!(world.title_of(&world.session()).await, None);
    world.act(Act::User("And Mars")).await;
    assert_eq!(world.title().await, "Moon");
}
