//! `everturn models try`.

use expect_test::expect;
use serde_json::json;

use super::{Upstream, config, run, shown};

#[test]
fn it_says_what_works_and_what_does_not() {
    let upstream = Upstream::start();
    let output = run(&config(&upstream), &["models", "try"]);
    expect![[r#"
        exit: 0
        ----- stdout
        open/new-model

        answer       works: the model answers
                     first token after N.N s; 10 tokens read, 5 written
        tool         works: the model calls the tool
                     first token after N.N s; 10 tokens read, 5 written
        forced tool  fails: a call of the tool add was asked for, which open/new-model cannot be given: its provider refuses the declaration
                     10 tokens read, 5 written
        thinking     works: the model thinks before it answers
                     first token after N.N s; 10 tokens read, 5 written
        image        fails: the model was shown a red square and said "Green."
                     first token after N.N s; 10 tokens read, 5 written
        JSON         works: the answer fits the schema
                     first token after N.N s; 10 tokens read, 5 written

        In all 60 tokens read, 30 written
        ----- stderr
    "#]]
    .assert_eq(&shown(&upstream, &output));
    let calls: Vec<_> = upstream.got().into_iter().filter(|got| got.path.contains("/chat/completions")).collect();
    assert!(calls.len() >= 6, "{calls:?}");
    for call in calls {
        assert_eq!(
            (call.path.as_str(), call.team.as_str()),
            ("/v1/chat/completions?api-version=2026-01-01", "team-secret")
        );
        // The provider's fields, then the agent's over them.
        assert_eq!((&call.body["seed"], &call.body["model"]), (&json!(7), &json!("new-model")));
        assert_eq!(call.body["metadata"], json!({ "by": "agent", "team": "blue" }));
    }
}

#[test]
fn a_model_can_be_named_by_its_provider() {
    let upstream = Upstream::start();
    let output = run(&config(&upstream), &["models", "try", "open/other"]);
    assert!(output.status.success(), "{output:?}");
    let got = upstream.got();
    assert!(got.iter().filter(|got| got.path.contains("chat")).all(|got| got.body["model"] == "other"), "{got:?}");
    // No agent adds to its calls.
    assert!(got.iter().all(|got| got.body["metadata"]["by"] != "agent"), "{got:?}");
}

#[test]
fn a_provider_that_refuses_is_asked_once() {
    let upstream = Upstream::start();
    let output = run(&config(&upstream), &["models", "try", "second"]);
    expect![[r#"
        exit: 1
        ----- stdout
        closed/any

        answer       fails: closed answered 401: Incorrect API key provided: Bearer [key]

        The other calls are not made: they would fail in the same way
        ----- stderr
    "#]]
    .assert_eq(&shown(&upstream, &output));
    assert_eq!(upstream.got().iter().filter(|got| got.path.contains("chat")).count(), 1);
}

#[test]
fn what_there_is_not() {
    let upstream = Upstream::start();
    expect![[r#"
        exit: 1
        ----- stdout
        ----- stderr
        error: there is no agent `fourth`, nor such a model

        hint: the agents are `first`, `second`, `third`; a model is written `closed/…` or `open/…`
    "#]]
    .assert_eq(&shown(&upstream, &run(&config(&upstream), &["models", "try", "fourth"])));
}

#[test]
fn the_demo_can_be_tried_offline() {
    let demo = "[providers.demo]\nkind = 'demo'\n[[agents]]\nname = 'a'\nmodel = 'demo/load'";
    let output = run(demo, &["models", "try"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("answer       works: the model answers\n"), "{text}");
}
