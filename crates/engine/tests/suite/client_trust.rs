//! Whether an application's word that it trusts a tool counts.

use everturn_engine::ClientTrust;

use super::harness::*;

/// How the calls of `look`, `pay` and `clock` go in a session that trusts all of them, if the agent trusts `look`.
async fn routes(client_trust: ClientTrust, trusts_all: bool) -> [&'static str; 3] {
    let names = ["look", "pay", "clock"];
    let model = ScriptedModel::thinking("test/one", move |request| match request.messages.last() {
        Some(everturn_core::Message::Tool { .. }) => vec![say("Done."), stop()],
        _ => names.iter().map(|name| call(name, "{}")).chain([stop()]).collect(),
    });
    let mut setup = Setup::with_models([model]).builtin("clock").agent(|agent| {
        agent.client_trust = client_trust;
        agent.trusted = vec!["look".to_owned()];
    });
    setup.update.tools.as_mut().unwrap().iter_mut().for_each(|tool| tool.trust = trusts_all);
    let transcript = World::start(setup).await.act(Act::User("go")).await;
    names.map(|name| {
        let line = transcript.lines().find(|line| line.contains(&format!("{name}{{}}"))).expect("the call is shown");
        if line.contains("(inline)") { "runs" } else { "asks" }
    })
}

#[tokio::test(start_paused = true)]
async fn an_operator_decides_whose_trust_counts() {
    assert_eq!(routes(ClientTrust::Any, true).await, ["runs", "runs", "runs"]);
    // Also built-in tools count as trusted by the agent.
    assert_eq!(routes(ClientTrust::Configured, true).await, ["runs", "asks", "runs"]);
    assert_eq!(routes(ClientTrust::Never, true).await, ["asks", "asks", "asks"]);
    // An application that wants to be asked is asked.
    for client_trust in [ClientTrust::Any, ClientTrust::Configured, ClientTrust::Never] {
        assert_eq!(routes(client_trust, false).await, ["asks", "asks", "asks"]);
    }
}

#[tokio::test(start_paused = true)]
async fn sessions_that_say_nothing_have_what_the_agent_trusts() {
    let model = ScriptedModel::thinking("test/one", |request| match request.messages.last() {
        Some(everturn_core::Message::Tool { .. }) => vec![say("Done."), stop()],
        _ => vec![call("look", "{}"), stop()],
    });
    let setup = Setup::with_models([model]).agent_tools().agent(|agent| {
        agent.client_trust = ClientTrust::Never;
        agent.trusted = vec!["look".to_owned()];
    });
    assert!(World::start(setup).await.act(Act::User("go")).await.contains("look{} (inline)"));
}
