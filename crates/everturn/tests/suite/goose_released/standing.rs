//! `always_allow` and `always_deny`: words that go for all later calls of a tool, in all sessions of a tenant.

use expect_test::expect;
use serde_json::{Value, json};

use super::{
    shown::{check_requests, timeless, told},
    world::{Chat, World, kinds, text},
};
use crate::suite::harness::{Client, Reply, script};

fn calls(name: &str, tool: &str, line: &str) {
    script(name, [Reply::calls(&[(tool, json!({ "line": line }))]), Reply::says(&["Done."])]);
}

/// Whether a turn that calls the tool asks first, which is then allowed for once.
#[track_caller]
fn asks(client: &Client, name: &str) -> bool {
    let chat = Chat::start(client);
    let mut events = chat.events();
    chat.say(1, &format!("play {name}"));
    let seen = events.until_one("a question or the end", |frame| frame.kind() == "Finish" || frame.action().is_some());
    let Some(action) = seen.last().unwrap().action() else { return false };
    chat.decided(action["id"].as_str().unwrap(), "allow_once");
    assert_eq!(text(&events.until("Finish")), "Done.");
    true
}

#[track_caller]
fn permissions(client: &Client) -> Value {
    let answer = client.send("GET", "/api/v1/permissions", "");
    assert_eq!(answer.status, 200, "{answer:?}");
    timeless(answer.json())["permissions"].clone()
}

#[track_caller]
fn decide(client: &Client, name: &str, action: &str) {
    let chat = Chat::start(client);
    let mut events = chat.events();
    chat.say(1, &format!("play {name}"));
    let (_, call) = events.until_asked();
    chat.decided(&call, action);
    // Once more is fine.
    chat.decided(&call, action);
    events.until("Finish");
}

#[test]
fn allowed_for_good() {
    for name in ["first", "second", "other-tool", "restarted", "bobs", "again"] {
        let tool = if name == "other-tool" { "box__write" } else { "box__append" };
        calls(&format!("good-{name}"), tool, name);
    }
    let mut world = World::with_keys();
    let (acme, bob) = (world.client_of("acme"), world.client_of("bob"));
    decide(&acme, "good-first", "always_allow");
    assert!(!asks(&acme, "good-second"), "it was allowed for good");
    assert!(asks(&acme, "good-other-tool"), "that is another tool");
    assert!(asks(&bob, "good-bobs"), "that is another tenant");
    expect![[r#"[{"allowed":true,"decided_at":"<time>","tool":"box__append"}]"#]]
        .assert_eq(&permissions(&acme).to_string());
    assert_eq!(permissions(&bob), json!([]));
    world.crash();
    world.ready();
    let acme = world.client_of("acme");
    assert!(!asks(&acme, "good-restarted"), "and stays so");
    let tools = acme.send("GET", &format!("/goose/agent/tools?session_id={}", Chat::start(&acme).id), "").json();
    assert!(tools.as_array().unwrap().iter().any(|tool| tool["name"] == "box__append"), "{tools}");
    // Not for others to take back.
    assert_eq!(world.client_of("bob").send("DELETE", "/api/v1/permissions/box__append", "").status, 404);
    assert_eq!(world.client_of("acme-reader").send("DELETE", "/api/v1/permissions/box__append", "").status, 403);
    assert_eq!(acme.send("DELETE", "/api/v1/permissions/box__append", "").status, 204);
    assert_eq!(acme.send("DELETE", "/api/v1/permissions/box__append", "").status, 404);
    assert_eq!(permissions(&acme), json!([]));
    assert!(asks(&acme, "good-again"), "it asks again");
    let expected =
        ["append first", "append second", "write other-tool", "append bobs", "append restarted", "append again"];
    assert_eq!(world.effects(), expected);
}

#[test]
fn denied_for_good() {
    for name in ["first", "second", "allowed"] {
        calls(&format!("bad-{name}"), "box__append", name);
    }
    let world = World::start();
    let client = world.client();
    decide(&client, "bad-first", "always_deny");
    let chat = Chat::start(&client);
    let seen = chat.run(1, "play bad-second");
    assert!(seen.iter().all(|frame| frame.action().is_none()), "nobody is asked: {seen:#?}");
    assert_eq!(kinds(&seen), ["Message", "Message", "Message", "Finish"]);
    let result = &seen[1].data["message"]["content"][0]["toolResult"]["value"];
    assert_eq!(result["isError"], true, "{result}");
    assert!(told("bad-second").contains("denied"), "{}", told("bad-second"));
    check_requests("bad-second");
    assert_eq!(permissions(&client)[0]["allowed"], false);
    assert!(world.effects().is_empty());
    assert_eq!(client.send("DELETE", "/api/v1/permissions/box__append", "").status, 204);
    decide(&client, "bad-allowed", "always_allow");
    assert_eq!(world.effects(), ["append allowed"]);
    assert_eq!(permissions(&client)[0]["allowed"], true);
}

/// A word that comes too late is not remembered.
#[test]
fn a_late_word_does_not_stand() {
    calls("late-word", "box__append", "late");
    let world = World::start();
    let chat = Chat::start(&world.client());
    let mut events = chat.events();
    chat.say(1, "play late-word");
    let (_, call) = events.until_asked();
    chat.decided(&call, "deny_once");
    events.until("Finish");
    assert_eq!(chat.decide(&call, "always_allow").status, 409);
    assert_eq!(permissions(&world.client()), json!([]));
}

/// Two who disagree for good, at once: what stands is what happened.
#[test]
fn two_words_for_good_at_once() {
    let world = World::start();
    let client = world.client();
    for round in 0..6 {
        let name = format!("good-race-{round}");
        calls(&name, "box__append", &name);
        let chat = Chat::start(&client);
        let mut events = chat.events();
        chat.say(1, &format!("play {name}"));
        let (_, call) = events.until_asked();
        let (chat, call) = (&chat, call.as_str());
        let taken: Vec<_> = std::thread::scope(|scope| {
            let ways = ["always_allow", "always_deny"];
            let sends = ways.map(|way| scope.spawn(move || chat.decide(call, way).status == 200));
            sends.into_iter().map(|send| send.join().unwrap()).collect()
        });
        events.until("Finish");
        assert_eq!(taken.iter().filter(|taken| **taken).count(), 1, "one word counts: {taken:?}");
        let ran = world.effects().contains(&format!("append {name}"));
        assert_eq!(ran, taken[0]);
        assert_eq!(permissions(&client)[0]["allowed"], ran, "what stands is what was taken");
        assert_eq!(client.send("DELETE", "/api/v1/permissions/box__append", "").status, 204);
    }
}
