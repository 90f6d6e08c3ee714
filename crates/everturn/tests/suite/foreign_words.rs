//! What tenants are shown of a provider that answers with something else than an answer: no address, no redirect target, no body.

use serde_json::json;

use super::{
    harness::{Reply, eventually, script, shared_config},
    native::world::{World, spawn},
};

const VIEWS: [&str; 6] = ["native", "aap-delta", "aap-message", "goose", "goose-seed", "openai"];
const PAGE: &str = "<html><title>Gateway of rack-17.intern.example</title></html>";
const TARGET: &str = "http://login.intern.example:4711/?ticket=tick";
const UNREACHABLE: &str = "127.0.0.1:9";

#[test]
fn bodies_and_addresses_stand_in_the_log_alone() {
    let html: &[(&str, &str)] = &[("content-type", "text/html; charset=utf-8")];
    let replies = [
        ("words-gateway", Reply::status(502, html, PAGE)),
        ("words-page", Reply::status(200, html, PAGE)),
        ("words-redirect", Reply::status(302, &[("location", TARGET)], "")),
        ("words-json", Reply::status(403, &[], r#"{"node":"rack-17.intern.example"}"#)),
        ("words-stream", Reply::status(200, &[("content-type", "text/event-stream")], &format!("data: {PAGE}\n\n"))),
    ];
    let config = shared_config("retries = 0")
        + &format!(
            "[providers.gone]\nkind = 'openai'\nbase_url = 'http://{UNREACHABLE}/v1'\n\
             [[agents]]\nname = 'lost'\nmodel = 'gone/model'\ntitles = false\n"
        );
    let provider = config.lines().find_map(|line| line.strip_prefix("base_url = 'http://")).unwrap();
    let provider = provider.split('/').next().unwrap().to_owned();
    let world = World::with(&config);
    let client = world.client();
    let mut turns = vec![("lost", "words-nobody")];
    for (name, reply) in replies {
        // For the stream, and for the answer in one piece.
        script(name, [reply.clone(), reply]);
        turns.push(("scripted", name));
    }
    let foreign = ["intern.example", "4711", "tick", "rack-17", "<html", UNREACHABLE, provider.as_str()];
    for (agent, name) in turns {
        let message = format!("play {name}");
        let turn = spawn(&client, &json!({ "agent_id": agent, "message": message }));
        let mut shown = Vec::new();
        for view in VIEWS {
            let path = format!("/api/v1/sessions/{}/messages/{}/stream?as={view}", turn.session, turn.message);
            shown.push(client.send("GET", &path, "").body);
        }
        let path = format!("/api/v1/sessions/{}/messages/{}", turn.session, turn.message);
        shown.push(client.send("GET", &path, "").body);
        let body = json!({ "model": agent, "messages": [{ "role": "user", "content": message }] });
        shown.push(client.send("POST", "/v1/chat/completions", &body.to_string()).body);
        for shown in shown {
            assert!(!shown.is_empty(), "{name}");
            for foreign in foreign {
                assert!(!shown.contains(foreign), "{name} shows {foreign}:\n{shown}");
            }
        }
    }
    for foreign in ["login.intern.example:4711", "Gateway of rack-17", "\\\"node\\\"", UNREACHABLE] {
        eventually("the operator is told", || world.home.log().contains(foreign).then_some(()));
    }
}

#[test]
fn the_words_of_an_error_message_help_and_are_shown() {
    script("words-error", [Reply::status(401, &[], r#"{"error":{"message":"tea is not a model"}}"#)]);
    let world = World::start("retries = 0");
    let turn = spawn(&world.client(), &json!({ "agent_id": "scripted", "message": "play words-error" }));
    let frames = turn.frames();
    assert!(frames.last().unwrap().data["message"].as_str().unwrap().contains("tea is not a model"), "{frames:?}");
}
