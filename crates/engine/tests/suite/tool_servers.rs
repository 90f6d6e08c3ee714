//! Tools of servers: named by patterns, and they come and go while turns run.

use std::sync::Arc;

use everturn_core::Event;
use everturn_engine::SubmitError;
use everturn_models::ModelRequest;
use everturn_tools::Tool;
use expect_test::expect;

use super::{
    forms::{check_forms, submitted},
    harness::*,
};

/// Tools of the server `files`.
fn files(names: &[&str], ledger: &Ledger) -> Vec<Arc<dyn Tool>> {
    names.iter().map(|name| server_tool("files", name, Behaviour::Echo, ledger)).collect()
}

/// An agent with these patterns of tools, all of which its sessions have.
fn with_server(scripts: Vec<Script>, tools: &[&str], trusted: &[&str]) -> Setup {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let setup = Setup::new(scripts).agent_tools().agent(|agent| {
        agent.tools = owned(tools);
        agent.trusted = owned(trusted);
    });
    let list = files(&["read", "write", "list"], &setup.ledger);
    setup.server("files", Ok(list))
}

fn names(request: &ModelRequest) -> Vec<String> {
    request.tools.iter().map(|tool| tool.name.clone()).collect()
}

async fn offered(tools: &[&str]) -> Vec<String> {
    let model = ScriptedModel::new("test/one", [vec![say("Hello."), stop()]]);
    let mut setup = with_server(Vec::new(), tools, &[]);
    setup.agent.models = vec![Arc::clone(&model) as _];
    let world = World::start(setup).await;
    world.act(Act::User("hi")).await;
    names(&model.requests()[0])
}

#[tokio::test(start_paused = true)]
async fn patterns_name_the_tools_of_a_server() {
    assert_eq!(offered(&["files/*"]).await, ["files__list", "files__read", "files__write"]);
    assert_eq!(offered(&["look", "files/read"]).await, ["look", "files__read"]);
    assert_eq!(offered(&["files/read", "files/*"]).await, ["files__read", "files__list", "files__write"]);
    // As everybody else knows them.
    assert_eq!(offered(&["files__write"]).await, ["files__write"]);
    assert_eq!(offered(&["files/nosuch", "mail/*", "file/*"]).await, [] as [&str; 0]);
}

#[tokio::test(start_paused = true)]
async fn trust_is_given_by_patterns() {
    let script = vec![call("files__read", "{}"), call("files__list", "{}"), call("files__write", "{}"), stop()];
    let scripts = vec![script, vec![say("Done."), stop()]];
    let world = World::start(with_server(scripts, &["files/*"], &["files/read", "files__list"])).await;
    expect![[r#"
        > go
        1 turn started in a new session: user: "go"
        2 step 1 with test/one
        3 call c1 files__read{} (inline)
        4 call c2 files__list{} (inline)
        5 call c3 files__write{} (asks)
        6 step finished: ToolUse, 100+10 tokens: [c1 files__read{}, c2 files__list{}, c3 files__write{}]
        7 intent c1 as e1 (ReadOnly)
        8 intent c2 as e2 (ReadOnly)
        9 result c1: "files__read ran with {}"
        10 result c2: "files__list ran with {}"
        11 form f3 for c3, approval: "Allow files__write?"
        12 waiting for permission of c3 files__write
    "#]]
    .assert_eq(&world.act(Act::User("go")).await);
    assert_eq!(world.setup.ledger.names(), ["files__read", "files__list"]);
    let scripts = vec![vec![call("files__write", "{}"), stop()], vec![say("Done."), stop()]];
    let world = World::start(with_server(scripts, &["files/*"], &["files/*"])).await;
    assert!(world.act(Act::User("go")).await.ends_with("completed\n"));
}

#[tokio::test(start_paused = true)]
async fn a_list_that_changes_is_seen_in_the_next_step() {
    let gate = Gate::closed();
    let model = ScriptedModel::new(
        "test/one",
        [
            vec![call("look", "{}"), Beat::Gate(gate.clone()), stop()],
            vec![call("look", "{}"), stop()],
            vec![call("files__grep", "{}"), call("files__read", "{}"), stop()],
            vec![say("Done."), stop()],
        ],
    );
    let mut setup = with_server(Vec::new(), &["look", "files/*"], &["look", "files/grep"]);
    setup.agent.models = vec![Arc::clone(&model) as _];
    let world = World::start(setup).await;
    let started = world.begin("go").await;
    gate.waiting(1).await;
    let ledger = &world.setup.ledger;
    let refused = world.tools().set_server("files", Ok(files(&["grep", "list"], ledger)));
    assert_eq!(refused, []);
    gate.open();
    let transcript = world.transcript(&started).await;
    expect![[r#"
        1 turn started in a new session: user: "go"
        2 step 1 with test/one
        3 call c1 look{} (inline)
        4 step finished: ToolUse, 100+10 tokens: [c1 look{}]
        5 intent c1 as e1 (ReadOnly)
        6 result c1: "look ran with {}"
        7 news: notifications/tools/list_changed {"server":"files"}
        8 step 2 with test/one
        9 call c2 look{} (inline)
        10 step finished: ToolUse, 100+10 tokens: [c2 look{}]
        11 intent c2 as e2 (ReadOnly)
        12 result c2: "look ran with {}"
        13 step 3 with test/one
        14 call c3 files__grep{} (inline)
        15 call c4 files__read{} (refused: "There is no tool \"files__read\" in this session")
        16 step finished: ToolUse, 100+10 tokens: [c3 files__grep{}, c4 files__read{}]
        17 result c4 error: "There is no tool \"files__read\" in this session"
        18 intent c3 as e3 (ReadOnly)
        19 result c3: "files__grep ran with {}"
        20 step 4 with test/one
        21 text "Done."
        22 step finished: Stop, 100+10 tokens: "Done."
        23 ended, 400+40 tokens: completed
    "#]]
    .assert_eq(&transcript);
    let seen: Vec<_> = model.requests().iter().map(names).collect();
    assert_eq!(seen[0], ["look", "files__list", "files__read", "files__write"]);
    assert_eq!(seen[1], ["look", "files__grep", "files__list"]);
}

/// News of servers that the agent has nothing to do with is no news.
#[tokio::test(start_paused = true)]
async fn lists_of_other_servers_are_not_told_of() {
    let gate = Gate::closed();
    let scripts = vec![vec![call("look", "{}"), Beat::Gate(gate.clone()), stop()], vec![say("Done."), stop()]];
    let world = World::start(with_server(scripts, &["look", "files/*"], &["look"])).await;
    world.tools().set_server("mail", Ok(Vec::new()));
    let started = world.begin("go").await;
    gate.waiting(1).await;
    world.tools().set_server("mail", Ok(vec![server_tool("mail", "send", Behaviour::Echo, &world.setup.ledger)]));
    // A server that cannot be reached has the tools that it had.
    world.tools().set_server("files", Err("it does not answer".to_owned()));
    gate.open();
    let transcript = world.transcript(&started).await;
    assert!(!transcript.contains("news"), "{transcript}");
}

#[tokio::test(start_paused = true)]
async fn servers_in_trouble_change_nothing_that_the_model_was_given() {
    let model = ScriptedModel::new("test/one", [vec![say("Hello."), stop()], vec![say("Hello."), stop()]]);
    let mut setup = with_server(Vec::new(), &["files/*", "mail/send", "look"], &[]);
    setup.agent.models = vec![Arc::clone(&model) as _];
    let world = World::start(setup).await;
    world.tools().set_server("files", Err("it does not answer".to_owned()));
    world.tools().set_server("other", Err("nobody asks".to_owned()));
    world.act(Act::User("hi")).await;
    let ledger = world.setup.ledger.clone();
    world.tools().set_server("files", Ok(files(&["read"], &ledger)));
    world.tools().set_server("mail", Ok(Vec::new()));
    world.act(Act::User("hi")).await;
    let systems: Vec<_> = model.requests().into_iter().map(|request| request.system).collect();
    // A model learns of it when it calls such a tool: instructions that change would cost it its cache and its reasoning.
    assert_eq!(systems, ["You are tested.", "You are tested."]);
}

/// Somebody allows a tool that is not there any more.
#[tokio::test(start_paused = true)]
async fn a_tool_that_went_away_before_it_was_allowed_does_not_run() {
    let scripts = || vec![vec![call("files__read", "{}"), stop()], vec![say("Done."), stop()]];
    let world = World::start(with_server(scripts(), &["files/*"], &[])).await;
    world.act(Act::User("go")).await;
    world.tools().set_server("files", Ok(Vec::new()));
    let transcript = submitted(&world, world.form_reply(None, "yes")).await;
    let told = "result c1 error: \"Tool call not run: files__read is not enabled in this session any more\"";
    assert!(transcript.contains(told), "{transcript}");
    check_forms(
        &world,
        expect![[r#"
        f1 answered {"approved":true}: "Allow files__read?"
    "#]],
    )
    .await;
    assert_eq!(world.setup.ledger.names(), [] as [&str; 0]);
    // Its server is in trouble only: then the tool says what is the matter.
    let world = World::start(with_server(scripts(), &["files/*"], &[])).await;
    world.act(Act::User("go")).await;
    world.tools().set_server("files", Err("it does not answer".to_owned()));
    submitted(&world, world.form_reply(None, "yes")).await;
    assert_eq!(world.setup.ledger.names(), ["files__read"]);
}

/// It was to run inline, and goes away between the model's call and the run: the process died in between.
#[tokio::test(start_paused = true)]
async fn a_tool_that_went_away_before_it_ran_is_told_of() {
    let gate = Gate::closed();
    let scripts = vec![vec![call("files__read", "{}"), Beat::Gate(gate.clone()), stop()], vec![say("Done."), stop()]];
    let world = World::start(with_server(scripts, &["files/*"], &["files/*"])).await;
    let started = world.begin("go").await;
    gate.waiting(1).await;
    world.tools().set_server("files", Ok(Vec::new()));
    gate.open();
    let transcript = world.transcript(&started).await;
    let told = "result c1 error: \"Tool call not run: this server has no tool \\\"files__read\\\" any more\"";
    assert!(transcript.contains(told), "{transcript}");
    assert!(!world.log().await.iter().any(|(_, event)| matches!(event, Event::ToolIntended { .. })));
}

/// Sessions of the other dialects enable tools one by one, those of servers too.
#[tokio::test(start_paused = true)]
async fn sessions_enable_tools_of_servers_by_name() {
    let setup = || {
        let mut setup =
            with_server(vec![vec![call("files__read", "{}"), stop()], vec![say("Done."), stop()]], &["files/*"], &[]);
        setup.update = Default::default();
        setup
    };
    let enable = |mut setup: Setup, name: &str| {
        setup.update.tools = Some(vec![everturn_core::ToolRef { name: name.to_owned(), trust: true }]);
        setup
    };
    let world = World::start(enable(setup(), "files__read")).await;
    assert!(world.act(Act::User("go")).await.contains("call c1 files__read{} (inline)"));
    let world = World::start(enable(setup(), "files__nosuch")).await;
    let refused = world.submit(world.message("go")).await.unwrap_err();
    assert!(matches!(refused, SubmitError::Update(_)), "{refused}");
    assert!(refused.to_string().ends_with("it has: files__list, files__read, files__write"), "{refused}");
}

/// After a restart the server of a tool has not told its tools yet: the call waits for it, within bounds.
#[tokio::test(start_paused = true)]
async fn a_call_waits_for_the_server_of_its_tool() {
    for comes in [true, false] {
        let scripts = vec![vec![call("files__read", "{}"), stop()], vec![say("Done."), stop()]];
        let mut world = World::start(with_server(scripts, &["files/*"], &[])).await;
        world.act(Act::User("go")).await;
        world.setup.servers.clear();
        let world = world.restart().await;
        world.tools().start_server("files");
        let begun = tokio::time::Instant::now();
        let leg = world.submit(world.answers(vec![grant("c1")])).await.unwrap();
        if comes {
            tokio::time::sleep(std::time::Duration::from_secs(20)).await;
            assert_eq!(world.setup.ledger.names(), [] as [&str; 0]);
            world.tools().set_server("files", Ok(files(&["read"], &world.setup.ledger)));
        }
        let transcript = world.transcript(&leg).await;
        assert!(transcript.ends_with("completed\n"), "{transcript}");
        // The call waits, and then the model, which would have the tool; neither for ever.
        assert!(begun.elapsed() <= std::time::Duration::from_secs(65), "{:?}", begun.elapsed());
        let told =
            "result c1 error: \"Tool call not run: files__read cannot be used at the moment: it is being started\"";
        assert_eq!(transcript.contains(told), !comes, "{transcript}");
        assert_eq!(world.setup.ledger.names().len(), usize::from(comes));
    }
}
