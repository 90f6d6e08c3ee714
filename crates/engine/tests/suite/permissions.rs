//! Standing words: what somebody allowed or denied for good.

use everturn_core::{CallId, Json, SessionId, TenantId};
use everturn_engine::{SubmissionKey, SubmitError, Verdict};

use super::{forms::WHERE, harness::*};

/// A model that calls these tools in every turn, in sessions that have all of their agent's tools.
fn calls(names: &'static [&'static str]) -> Setup {
    let model = ScriptedModel::thinking("test/one", move |request| match request.messages.last() {
        Some(everturn_core::Message::Tool { .. }) => vec![say("Done."), stop()],
        _ => {
            let input = |name: &str| if name == "request_form" { WHERE } else { "{}" };
            names.iter().map(|name| call(name, input(name))).chain([stop()]).collect()
        }
    });
    Setup::with_models([model]).builtin("request_form").agent_tools()
}

fn always(granted: bool) -> Verdict {
    Verdict { granted, always: true, reason: None }
}

fn once(granted: bool) -> Verdict {
    Verdict { granted, always: false, reason: None }
}

async fn decide(world: &World, call: &str, verdict: Verdict) -> String {
    let call = world.call_id(call);
    match world.decide(&world.tenant, &Default::default(), &world.session(), &call, verdict, None).await {
        Ok(started) => world.transcript(&started).await,
        Err(error) => world.shortened(format!("refused: {error}\n")),
    }
}

/// What the next session is told of the tool.
async fn elsewhere(world: &World) -> String {
    world.new_session();
    world.act(Act::User("go")).await
}

async fn listed(world: &World, tenant: &TenantId) -> Vec<(String, bool)> {
    let words = world.permissions(tenant, None, 100).await.unwrap();
    words.into_iter().map(|word| (word.tool, word.allowed)).collect()
}

#[tokio::test(start_paused = true)]
async fn what_was_allowed_for_good_runs_without_asking() {
    let world = World::start(calls(&["pay"])).await;
    world.act(Act::User("go")).await;
    assert!(decide(&world, "c1", always(true)).await.contains("resumed: c1 granted"));
    assert_eq!(listed(&world, &world.tenant).await, [("pay".to_owned(), true)]);
    let transcript = elsewhere(&world).await;
    assert!(transcript.contains("pay{} (inline)") && transcript.ends_with("completed\n"), "{transcript}");
    // Also after a restart, and in the session itself.
    let world = world.restart().await;
    assert!(world.act(Act::User("again")).await.contains("pay{} (inline)"));
    assert_eq!(world.setup.ledger.names(), ["pay", "pay", "pay"]);
    // Until somebody takes it back.
    assert!(world.forget_permission(&world.tenant, "pay").await.unwrap());
    assert!(!world.forget_permission(&world.tenant, "pay").await.unwrap());
    assert!(elsewhere(&world).await.contains("waiting for permission"));
    assert_eq!(listed(&world, &world.tenant).await, []);
}

#[tokio::test(start_paused = true)]
async fn what_was_denied_for_good_never_runs() {
    let world = World::start(calls(&["pay"])).await;
    world.act(Act::User("go")).await;
    let verdict = Verdict { reason: Some("too dear".to_owned()), ..always(false) };
    assert!(decide(&world, "c1", verdict).await.contains("resumed: c1 denied (too dear)"));
    let transcript = elsewhere(&world).await;
    let told = "\"Tool call denied: somebody has said that pay may never run\"";
    assert!(transcript.contains(&format!("result c2 error: {told}")), "{transcript}");
    assert!(transcript.ends_with("completed\n"), "{transcript}");
    assert_eq!(world.setup.ledger.names(), [] as [&str; 0]);
    // The last word counts: there is one for each tool.
    assert_eq!(listed(&world, &world.tenant).await, [("pay".to_owned(), false)]);
}

/// The operator trusts the tool, the tenant's people do not.
#[tokio::test(start_paused = true)]
async fn what_was_denied_for_good_never_runs_where_the_agent_trusts_it() {
    let mut world = World::start(calls(&["pay"])).await;
    world.act(Act::User("go")).await;
    decide(&world, "c1", always(false)).await;
    world.setup.agent.trusted.push("pay".to_owned());
    let world = world.restart().await;
    let transcript = elsewhere(&world).await;
    assert!(transcript.contains("pay may never run") && transcript.ends_with("completed\n"), "{transcript}");
    assert!(world.setup.ledger.names().is_empty());
    assert!(world.forget_permission(&world.tenant, "pay").await.unwrap());
    assert!(elsewhere(&world).await.contains("pay{} (inline)"));
}

#[tokio::test(start_paused = true)]
async fn what_was_said_once_counts_once() {
    let world = World::start(calls(&["pay"])).await;
    world.act(Act::User("go")).await;
    assert!(decide(&world, "c1", once(true)).await.ends_with("completed\n"));
    assert_eq!(listed(&world, &world.tenant).await, []);
    assert!(elsewhere(&world).await.contains("waiting for permission"));
}

#[tokio::test(start_paused = true)]
async fn other_tenants_are_asked() {
    let mut world = World::start(calls(&["pay"])).await;
    world.act(Act::User("go")).await;
    decide(&world, "c1", always(true)).await;
    world.tenant = TenantId::mint();
    assert!(elsewhere(&world).await.contains("waiting for permission"));
    assert_eq!(listed(&world, &world.tenant).await, []);
    assert!(!world.forget_permission(&world.tenant, "pay").await.unwrap());
    assert_eq!(listed(&world, &TenantId::local()).await.len(), 1);
}

/// Where the client says whom it trusts, nobody else does; what somebody says there counts elsewhere.
#[tokio::test(start_paused = true)]
async fn sessions_that_choose_their_tools_are_not_affected() {
    let mut world = World::start(calls(&["pay"])).await;
    world.act(Act::User("go")).await;
    decide(&world, "c1", always(true)).await;
    let tools = vec![everturn_core::ToolRef { name: "pay".to_owned(), trust: false }];
    world.setup.update = everturn_engine::SessionUpdate { tools: Some(tools), ..Default::default() };
    assert!(elsewhere(&world).await.contains("waiting for permission of c2 pay"));
    decide(&world, "c2", always(false)).await;
    world.setup = world.setup.agent_tools();
    assert!(elsewhere(&world).await.contains("may never run"));
}

#[tokio::test(start_paused = true)]
async fn a_call_is_decided_once() {
    let world = World::start(calls(&["pay"])).await;
    world.act(Act::User("go")).await;
    let (call, session) = (world.call_id("c1"), world.session());
    let nobody = Default::default();
    let say = |verdict| world.decide(&world.tenant, &nobody, &session, &call, verdict, None);
    let (yes, no) = tokio::join!(say(once(true)), say(once(false)));
    assert_eq!([&yes, &no].iter().filter(|outcome| outcome.is_ok()).count(), 1, "{yes:?} {no:?}");
    world.idle().await;
    let refused = decide(&world, "c1", always(false)).await;
    assert!(refused.starts_with("refused: the form f1 is not open"), "{refused}");
    assert_eq!(listed(&world, &world.tenant).await, [], "a word that came too late is no standing word");
}

#[tokio::test(start_paused = true)]
async fn a_decision_that_is_sent_again_counts_once() {
    let world = World::start(calls(&["pay"])).await;
    world.act(Act::User("go")).await;
    let key = Some(SubmissionKey { key: "k".to_owned(), fingerprint: "yes".to_owned() });
    let (call, session) = (world.call_id("c1"), world.session());
    let first =
        world.decide(&world.tenant, &Default::default(), &session, &call, once(true), key.clone()).await.unwrap();
    let again = world.decide(&world.tenant, &Default::default(), &session, &call, once(true), key).await.unwrap();
    assert_eq!((first.turn, first.leg_start), (again.turn, again.leg_start));
    world.idle().await;
    assert_eq!(world.setup.ledger.names(), ["pay"]);
}

/// A call of another session, of another tenant, or none at all: nothing is decided, and nothing remembered.
#[tokio::test(start_paused = true)]
async fn calls_of_others_cannot_be_decided() {
    let world = World::start(calls(&["pay"])).await;
    world.act(Act::User("go")).await;
    let (call, session) = (world.call_id("c1"), world.session());
    elsewhere(&world).await;
    let other = world.session();
    let decide = async |tenant: &TenantId, session: &SessionId, call: &CallId| {
        let error = world.decide(tenant, &Default::default(), session, call, always(true), None).await.unwrap_err();
        assert!(matches!(error, SubmitError::FormClosed { .. } | SubmitError::NotFound), "{error:?}");
    };
    decide(&world.tenant, &other, &call).await;
    decide(&TenantId::mint(), &session, &call).await;
    decide(&world.tenant, &session, &CallId::new("call_nosuch")).await;
    decide(&world.tenant, &SessionId::mint(), &call).await;
    assert_eq!(listed(&world, &world.tenant).await, []);
    assert_eq!(world.setup.ledger.names(), [] as [&str; 0]);
}

/// A form of another kind is no permission, whatever its schema takes.
#[tokio::test(start_paused = true)]
async fn only_permissions_are_decided() {
    let model = ScriptedModel::new(
        "test/one",
        [vec![call("request_form", r#"{"kind":"clarify","title":"Anything?","schema":{"type":"object"}}"#), stop()]],
    );
    let world = World::start(Setup::with_models([model]).builtin("request_form").agent_tools()).await;
    world.act(Act::User("go")).await;
    let refused = decide(&world, "c1", always(true)).await;
    assert!(refused.starts_with("refused: the form f1 is not open"), "{refused}");
    assert_eq!(world.forms_shown().await, "f1 open: \"Anything?\"\n");
}

/// Two calls wait; a word for good is of the tool, but each of them was asked about.
#[tokio::test(start_paused = true)]
async fn calls_that_wait_already_are_decided_one_by_one() {
    let world = World::start(calls(&["pay", "request_form"])).await;
    world.act(Act::User("go")).await;
    assert!(decide(&world, "c1", always(true)).await.contains("waiting for form of c2"));
    let value = Json::parse(r#"{"city":"Oslo"}"#).unwrap();
    assert!(
        world
            .transcript(&world.submit(world.form_reply(Some("f2"), value.as_str())).await.unwrap())
            .await
            .ends_with("completed\n")
    );
}

/// There may be a thousand words; the next one is refused, and the call still waits.
#[tokio::test(start_paused = true)]
async fn standing_words_are_bounded() {
    use everturn_store::{Command, Put, Record, RecordKind, Store as _, Write};
    let world = World::start(calls(&["pay"])).await;
    world.act(Act::User("go")).await;
    let word = |number: usize| {
        Write::Record(Record {
            kind: RecordKind::Permission,
            id: format!("tool{number}"),
            session: None,
            turn: None,
            state: "allowed".to_owned(),
            body: Json::empty_object(),
            outcome: None,
        })
    };
    let (tenant, expects, writes) = (world.tenant.clone(), Vec::new(), (0..1000).map(word).collect());
    let put = Put { tenant, expects, writes, key: None, at: everturn_core::Timestamp::now() };
    world.store.commit(std::sync::Arc::new(vec![Command::Put(Box::new(put))])).await.unwrap();
    let refused = decide(&world, "c1", always(true)).await;
    let limit = "refused: 1000 tools are allowed or denied for good, which is the limit; take some back first\n";
    assert_eq!(refused, limit);
    assert!(world.forget_permission(&world.tenant, "tool7").await.unwrap());
    assert!(decide(&world, "c1", always(true)).await.ends_with("completed\n"));
}
