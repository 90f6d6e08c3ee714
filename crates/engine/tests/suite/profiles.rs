//! Stored agents: made, changed and taken out of use while the server runs.

use everturn_core::{EffectClass, TenantId};
use everturn_engine::{Profile, ProfileError, StoredProfile, SubmissionKey, SubmitError, Target};
use expect_test::expect;

use super::harness::*;

fn profile() -> Profile {
    Profile {
        name: "Helper".to_owned(),
        description: Some("Helps.".to_owned()),
        instructions: "Be kind.".to_owned(),
        model: "test/two".to_owned(),
        fallback: vec!["test/one".to_owned()],
        tools: vec!["look".to_owned(), "pay".to_owned()],
        trusted: vec!["pay".to_owned()],
        max_steps: 3,
        effort: None,
        thinking: None,
        temperature: None,
    }
}

fn key(key: &str, fingerprint: &str) -> Option<SubmissionKey> {
    Some(SubmissionKey { key: key.to_owned(), fingerprint: fingerprint.to_owned() })
}

/// Two models, each of which says who it is.
async fn world() -> World {
    let model = |name: &'static str| ScriptedModel::thinking(name, move |_| vec![say(name), stop()]);
    let mut setup = Setup::with_models([model("test/one"), model("test/two")]);
    setup = setup.trusted("send", EffectClass::Effectful, Behaviour::Echo);
    World::start(setup).await
}

impl World {
    async fn create(&self, id: &str, profile: Profile) -> Result<StoredProfile, ProfileError> {
        self.create_profile(&self.tenant, Some(id.to_owned()), profile, None).await
    }

    /// What comes of a message to a new session with this agent.
    async fn ask(&self, tenant: &TenantId, agent: &str) -> Result<String, SubmitError> {
        self.new_session();
        let mut submit = self.message("hi");
        submit.tenant = tenant.clone();
        submit.target = Target::New { agent: agent.to_owned() };
        submit.update = Default::default();
        submit.update.agent_tools = true;
        let started = self.submit(submit).await?;
        let events = leg_of(&self.engine, &started).await;
        Ok(self.lines(&events))
    }

    async fn names(&self) -> Vec<String> {
        let all = self.profiles(&self.tenant, None, 100).await.unwrap();
        all.into_iter().map(|stored| stored.id).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_stored_agent_runs_turns_as_its_profile_says() {
    let model = ScriptedModel::new("test/two", [vec![call("pay", "{}"), stop()], vec![say("Paid."), stop()]]);
    let setup = Setup::with_models([ScriptedModel::new("test/one", []), model.clone()]);
    let world = World::start(setup).await;
    let stored = world.create("helper", profile()).await.unwrap();
    assert_eq!((stored.id.as_str(), &stored.profile), ("helper", &profile()));
    expect![[r#"
        1 turn started in a new session: user: "hi"
        2 step 1 with test/two
        3 call c1 pay{} (inline)
        4 step finished: ToolUse, 100+10 tokens: [c1 pay{}]
        5 intent c1 as e1 (Effectful)
        6 result c1: "pay ran with {}"
        7 step 2 with test/two
        8 text "Paid."
        9 step finished: Stop, 100+10 tokens: "Paid."
        10 ended, 200+20 tokens: completed
    "#]]
    .assert_eq(&world.ask(&world.tenant, "helper").await.unwrap());
    let request = model.requests().remove(0);
    assert_eq!(request.system, "Be kind.");
    assert_eq!(request.tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["look", "pay"]);
}

#[tokio::test(start_paused = true)]
async fn a_change_counts_from_the_next_turn_on() {
    let world = world().await;
    world.create("helper", profile()).await.unwrap();
    assert!(world.ask(&world.tenant, "helper").await.unwrap().contains("text \"test/two\""));
    let change = |profile: Profile| Ok(Profile { model: "test/one".to_owned(), ..profile });
    let changed = world.change_profile(&world.tenant, "helper", change, None).await.unwrap();
    assert_eq!(changed.profile, Profile { model: "test/one".to_owned(), ..profile() });
    assert!(world.act(Act::User("again")).await.contains("text \"test/one\""));
    let world = world.restart().await;
    assert!(world.act(Act::User("again")).await.contains("text \"test/one\""), "it survives a restart");
    let refused =
        world.change_profile(&world.tenant, "helper", |_| Err(ProfileError::Conflict { id: "x".into() }), None);
    assert!(matches!(refused.await, Err(ProfileError::Conflict { .. })), "whoever changes may refuse to");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_agent_takes_no_new_sessions_but_keeps_those_it_has() {
    let world = world().await;
    world.create("helper", profile()).await.unwrap();
    world.ask(&world.tenant, "helper").await.unwrap();
    let session = world.session();
    world.delete_profile(&world.tenant, "helper", None).await.unwrap();
    assert_eq!(world.names().await, [] as [String; 0]);
    assert!(world.profile(&world.tenant, "helper").await.unwrap().is_none());
    let refused = world.ask(&world.tenant, "helper").await.unwrap_err();
    assert_eq!(refused.to_string(), r#"there is no agent "helper"; there are: tester"#);
    let world = world.in_session(session);
    assert!(world.act(Act::User("still there?")).await.ends_with("completed\n"));
    // Its name is not given again, and there is nothing left to change.
    assert!(matches!(world.create("helper", profile()).await, Err(ProfileError::Exists { .. })));
    let gone = world.change_profile(&world.tenant, "helper", Ok, None).await;
    assert!(matches!(gone, Err(ProfileError::NotFound { .. })), "{gone:?}");
    assert!(matches!(world.delete_profile(&world.tenant, "helper", None).await, Err(ProfileError::NotFound { .. })));
}

/// A turn that a crash left behind is ended visibly when its agent cannot run any more.
#[tokio::test(start_paused = true)]
async fn a_stored_agent_whose_model_is_gone_says_so() {
    let silent = ScriptedModel::new("test/two", [vec![say("Half"), Beat::Silence]]);
    let mut world = World::start(Setup::with_models([ScriptedModel::new("test/one", []), silent])).await;
    world.create("helper", Profile { fallback: Vec::new(), ..profile() }).await.unwrap();
    let mut submit = world.message("hi");
    submit.target = Target::New { agent: "helper".to_owned() };
    submit.update = Default::default();
    world.submit(submit).await.unwrap();
    until(async || world.log().await.len() == 3).await;
    world.setup.agent.models.truncate(1);
    let world = world.restart().await;
    assert!(world.rested().await.contains(r#"failed LLM_PROVIDER_ERROR (for good): agent "helper" is not configured"#));
    let refused = world.submit(world.message("hello?")).await.unwrap_err();
    assert!(matches!(refused, SubmitError::UnknownAgent { .. }), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn configured_agents_are_not_for_changing() {
    let world = world().await;
    assert!(matches!(world.create("tester", profile()).await, Err(ProfileError::Exists { .. })));
    let changed = world.change_profile(&world.tenant, "tester", Ok, None).await;
    assert!(matches!(changed, Err(ProfileError::Configured { .. })), "{changed:?}");
    let deleted = world.delete_profile(&world.tenant, "tester", None).await;
    assert!(matches!(deleted, Err(ProfileError::Configured { .. })), "{deleted:?}");
}

#[tokio::test(start_paused = true)]
async fn a_profile_that_cannot_be_is_refused_by_field() {
    let world = world().await;
    let mut told = String::new();
    let mut refuse = async |id: &str, change: fn(&mut Profile)| {
        let mut wrong = profile();
        change(&mut wrong);
        match world.create(id, wrong).await {
            Err(error @ ProfileError::Invalid { .. }) => told += &format!("{error}\n"),
            other => panic!("{other:?}"),
        }
    };
    refuse("no slash/please", |_| {}).await;
    refuse("", |_| {}).await;
    refuse("a", |profile| profile.name = " ".to_owned()).await;
    refuse("a", |profile| profile.name = "x".repeat(201)).await;
    refuse("a", |profile| profile.description = Some("x".repeat(2001))).await;
    refuse("a", |profile| profile.instructions = "x".repeat(256 * 1024 + 1)).await;
    refuse("a", |profile| profile.model = "nobody/knows".to_owned()).await;
    refuse("a", |profile| profile.fallback = vec!["nobody/knows".to_owned()]).await;
    refuse("a", |profile| profile.fallback = vec!["test/one".to_owned(); 9]).await;
    refuse("a", |profile| profile.tools.push("nosuch".to_owned())).await;
    refuse("a", |profile| profile.tools.push("look".to_owned())).await;
    refuse("a", |profile| profile.trusted.push("send".to_owned())).await;
    refuse("a", |profile| profile.max_steps = 0).await;
    refuse("a", |profile| profile.max_steps = 1001).await;
    expect![[r#"
        agent_id: it must have 1 to 64 characters of A-Z a-z 0-9 . _ -
        agent_id: it must have 1 to 64 characters of A-Z a-z 0-9 . _ -
        name: it must have 1 to 200 characters
        name: it must have 1 to 200 characters
        description: it may have 2000 characters at most
        instructions: they may have 262144 bytes at most
        model: "nobody/knows" names no model; write provider/model, with one of: test
        fallback: "nobody/knows" names no model; write provider/model, with one of: test
        fallback: there may be 8 models at most
        tools: there is no tool "nosuch"; there are: book, look, pay, read_result, send
        tools: "look" is named twice
        trusted: "send" is not one of the agent's tools
        max_steps: it must be between 1 and 1000
        max_steps: it must be between 1 and 1000
    "#]]
    .assert_eq(&told);
    assert_eq!(world.names().await, [] as [String; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_sent_again_has_one_effect() {
    let world = world().await;
    let tenant = &world.tenant;
    let create = || world.create_profile(tenant, None, profile(), key("c", "create"));
    let first = create().await.unwrap();
    assert!(first.id.starts_with("agent_"), "{}", first.id);
    assert_eq!(create().await.unwrap().id, first.id);
    let reused = world.create_profile(tenant, None, profile(), key("c", "other")).await;
    assert!(matches!(reused, Err(ProfileError::KeyReused { .. })), "{reused:?}");
    let rename = |profile: Profile| Ok(Profile { name: format!("{}!", profile.name), ..profile });
    for _ in 0..2 {
        let changed = world.change_profile(tenant, &first.id, rename, key("u", "update")).await.unwrap();
        assert_eq!(changed.profile.name, "Helper!");
    }
    for _ in 0..2 {
        world.delete_profile(tenant, &first.id, key("d", "delete")).await.unwrap();
    }
    assert_eq!(world.names().await, [] as [String; 0]);
}

#[tokio::test(start_paused = true)]
async fn of_two_changes_at_once_neither_is_lost() {
    let world = world().await;
    world.create("helper", profile()).await.unwrap();
    let (tenant, rename) =
        (&world.tenant, |profile: Profile| Ok(Profile { name: format!("{}!", profile.name), ..profile }));
    let changes = tokio::join!(
        world.change_profile(tenant, "helper", rename, None),
        world.change_profile(tenant, "helper", rename, None)
    );
    let done = [changes.0, changes.1].into_iter().filter(|change| match change {
        Ok(_) => true,
        Err(ProfileError::Conflict { .. }) => false,
        Err(error) => panic!("{error}"),
    });
    let expected = format!("Helper{}", "!".repeat(done.count()));
    assert_eq!(world.profile(tenant, "helper").await.unwrap().unwrap().profile.name, expected);
    let (one, two) = tokio::join!(world.create("other", profile()), world.create("other", profile()));
    assert!(one.is_ok() != two.is_ok(), "one of two is made");
}

#[tokio::test(start_paused = true)]
async fn agents_belong_to_their_tenant() {
    let world = world().await;
    world.create("helper", profile()).await.unwrap();
    let other = TenantId::mint();
    let refused = world.ask(&other, "helper").await.unwrap_err();
    assert!(matches!(refused, SubmitError::UnknownAgent { .. }), "{refused:?}");
    assert!(world.profile(&other, "helper").await.unwrap().is_none());
    assert_eq!(world.profiles(&other, None, 10).await.unwrap().len(), 0);
    let deleted = world.delete_profile(&other, "helper", None).await;
    assert!(matches!(deleted, Err(ProfileError::NotFound { .. })), "{deleted:?}");
    // Each may have one of the same name.
    world.create_profile(&other, Some("helper".to_owned()), profile(), None).await.unwrap();
    for name in ["b", "c"] {
        world.create(name, profile()).await.unwrap();
    }
    assert_eq!(world.names().await, ["c", "b", "helper"], "newest first");
    let page = world.profiles(&world.tenant, None, 1).await.unwrap();
    let next = world.profiles(&world.tenant, Some(page[0].position), 1).await.unwrap();
    assert_eq!(next[0].id, "b");
}
