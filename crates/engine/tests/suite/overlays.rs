//! Overlays: what one session has instead of what its agent says.

use std::sync::Arc;

use everturn_core::{OptionSpec, Overlay};
use everturn_engine::{NewConversation, SessionUpdate, Submit, SubmitError};

use super::harness::*;

fn overlay(change: impl FnOnce(&mut Overlay)) -> SessionUpdate {
    let mut overlay = Overlay::default();
    change(&mut overlay);
    SessionUpdate { agent_tools: true, overlay: Some(overlay), ..SessionUpdate::default() }
}

/// Two models that answer anything with one call of `look`, then say that they are done.
fn models() -> [Arc<ScriptedModel>; 2] {
    ["test/one", "test/two"].map(|name| {
        ScriptedModel::thinking(name, |request| match request.messages.last() {
            Some(everturn_core::Message::Tool { .. }) => vec![say("Done."), stop()],
            _ => vec![call("look", "{}"), stop()],
        })
    })
}

fn setup(models: &[Arc<ScriptedModel>; 2]) -> Setup {
    Setup::with_models(models.clone()).agent_tools().agent(|agent| {
        agent.trusted = vec!["look".to_owned()];
        agent.instructions = "Be {{tone}}.".to_owned();
        let (title, description) = (None, None);
        let default = "kind".to_owned();
        agent.options = vec![OptionSpec::Text { name: "tone".to_owned(), title, description, default }];
    })
}

async fn refused(change: impl FnOnce(&mut Overlay)) -> String {
    let world = World::start(setup(&models())).await;
    let submit = Submit { update: overlay(change), ..world.message("hi") };
    let error = world.submit(submit.clone()).await.unwrap_err();
    assert!(matches!(error, SubmitError::Overlay { .. }), "{error:?}");
    // By the other door, too.
    let new = NewConversation { agent: "tester".to_owned(), update: submit.update, ..Default::default() };
    let created = world.create_session(&world.tenant, new, None).await.unwrap_err();
    assert_eq!(created.to_string(), error.to_string());
    assert!(world.sessions(&world.tenant, None, 10).await.unwrap().is_empty());
    error.to_string()
}

#[tokio::test(start_paused = true)]
async fn a_session_has_what_its_overlay_says() {
    let models = models();
    let mut setup = setup(&models);
    setup.update = overlay(|overlay| {
        overlay.instructions = Some("Be brief, {{tone}}.".to_owned());
        overlay.model = Some("test/two".to_owned());
        overlay.tools = Some(vec!["look".to_owned()]);
        overlay.max_steps = Some(1);
        overlay.temperature = Some(700);
    });
    let world = World::start(setup).await;
    let transcript = world.act(Act::User("go")).await;
    assert!(transcript.contains("step 1 with test/two"), "{transcript}");
    assert!(transcript.contains("the turn made 1 model calls, which is its limit"), "{transcript}");
    let world = world.restart().await;
    world.act(Act::User("again")).await;
    assert_eq!(models[0].requests().len(), 0);
    for request in models[1].requests() {
        assert_eq!(request.system, "Be brief, {{tone}}.", "nothing in it stands for an option");
        let tools: Vec<_> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!((tools, request.options.temperature), (vec!["look"], Some(700)));
    }
    assert_eq!(models[1].requests().len(), 2);
    // The next session is as the agent says.
    world.new_session();
    let mut world = world;
    world.setup = world.setup.agent_tools();
    assert!(world.act(Act::User("go")).await.ends_with("completed\n"));
    let request = models[0].requests().remove(0);
    assert_eq!((request.system.as_str(), request.options.temperature, request.tools.len()), ("Be kind.", None, 3));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_is_refused_at_creation() {
    let model = refused(|overlay| overlay.model = Some("test/nosuch".to_owned())).await;
    assert_eq!(model, "model: \"test/nosuch\" names no model; write provider/model, with one of: test");
    let tool = refused(|overlay| overlay.tools = Some(vec!["look".to_owned(), "nosuch".to_owned()])).await;
    assert_eq!(tool, "tools: there is no \"nosuch\"; there are: book, look, pay, read_result");
    let server = refused(|overlay| overlay.tools = Some(vec!["mail/*".to_owned()])).await;
    assert_eq!(server, "tools: there is no \"mail/*\"; there are: book, look, pay, read_result");
    let many = refused(|overlay| overlay.tools = Some(vec!["look".to_owned(); 257])).await;
    assert_eq!(many, "tools: 257 are too many, the limit is 256");
    for steps in [0, 1001] {
        let refused = refused(|overlay| overlay.max_steps = Some(steps)).await;
        assert_eq!(refused, format!("max_steps: it must be between 1 and 1000, not {steps}"));
    }
    let temperature = refused(|overlay| overlay.temperature = Some(2001)).await;
    assert_eq!(temperature, "temperature: it must be between 0 and 2");
    let long = refused(|overlay| overlay.instructions = Some("x".repeat(256 * 1024 + 1))).await;
    assert_eq!(long, "instructions: they may have 262144 bytes at most");
}

/// The model goes out of configuration: the session goes on with the agent's, and keeps the rest of what it has.
#[tokio::test(start_paused = true)]
async fn an_overlay_whose_model_is_gone_falls_back() {
    let both = models();
    let mut before = setup(&both);
    before.update = overlay(|overlay| {
        overlay.model = Some("test/two".to_owned());
        overlay.instructions = Some("Be brief.".to_owned());
        overlay.tools = Some(vec!["look".to_owned()]);
    });
    let world = World::start(before).await;
    world.act(Act::User("go")).await;
    let session = world.session();
    let mut world = world;
    world.setup.agent.models.truncate(1);
    let world = world.restart_in(session).await;
    assert!(world.act(Act::User("again")).await.contains("step 1 with test/one"));
    let request = both[0].requests().remove(0);
    assert_eq!(request.system, "Be brief.");
    let tools: Vec<_> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(tools, ["look"], "a session has no more than its overlay allows, whatever else is gone");
}

/// A new overlay takes the place of the whole of the old one, from the turn that brings it.
#[tokio::test(start_paused = true)]
async fn an_overlay_is_replaced_whole() {
    let models = models();
    let mut setup = setup(&models);
    setup.update = overlay(|overlay| {
        overlay.instructions = Some("Be brief.".to_owned());
        overlay.temperature = Some(100);
    });
    let world = World::start(setup).await;
    world.act(Act::User("go")).await;
    let update = overlay(|overlay| overlay.model = Some("test/two".to_owned()));
    let started = world.submit(Submit { update, ..world.message("again") }).await.unwrap();
    world.transcript(&started).await;
    let seen = models[1].requests().remove(0);
    assert_eq!((seen.system.as_str(), seen.options.temperature), ("Be kind.", None));
    // One that cannot be is refused, and changes nothing.
    let update = overlay(|overlay| overlay.model = Some("test/nosuch".to_owned()));
    let error = world.submit(Submit { update, ..world.message("and again") }).await.unwrap_err();
    assert!(matches!(error, SubmitError::Overlay { field: "model", .. }), "{error:?}");
    world.act(Act::User("and again")).await;
    assert_eq!(models[1].requests().len(), 4);
}

/// The overlay's model fails: the agent's are fallen back on.
#[tokio::test(start_paused = true)]
async fn the_agents_models_stand_behind_the_overlays() {
    let failing = ScriptedModel::thinking("test/two", |_| vec![fail(everturn_models::ModelErrorKind::Rejected)]);
    let [one, _] = models();
    let mut setup = setup(&[Arc::clone(&one), failing]);
    setup.update = overlay(|overlay| overlay.model = Some("test/two".to_owned()));
    let world = World::start(setup).await;
    let transcript = world.act(Act::User("go")).await;
    assert!(transcript.contains("model changed to test/one") && transcript.ends_with("completed\n"), "{transcript}");
}
