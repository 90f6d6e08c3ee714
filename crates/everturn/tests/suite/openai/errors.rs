//! Errors, as the SDKs raise them.

use serde_json::{Value, json};

use super::sdk::{Sdk, World, user};
use crate::suite::harness::{Gate, Reply, asked, script};

#[test]
fn python_raises() {
    walk(Sdk::python());
}

#[test]
fn node_raises() {
    walk(Sdk::node());
}

fn walk(mut sdk: Sdk) {
    let world = World::start();
    requests(&world, &mut sdk);
    limits(&world, &mut sdk);
    turns(&world, &mut sdk);
}

#[track_caller]
fn check(told: &Value, class: &str, status: u16, code: &str, param: &Value) {
    let (class, status, code) = (json!(class), json!(status), json!(code));
    let found = (&told["error"], &told["status"], &told["code"], &told["param"]);
    assert_eq!(found, (&class, &status, &code, param), "{told}");
}

fn requests(world: &World, sdk: &mut Sdk) {
    let plain = json!({ "model": "demo", "messages": [user("hi")] });
    let none = Value::Null;
    check(&sdk.create(world, "nobody", plain.clone()), "AuthenticationError", 401, "invalid_api_key", &none);
    check(&sdk.create(world, "acme-reader", plain.clone()), "PermissionDeniedError", 403, "permission_denied", &none);
    let with = |name: &str, value: Value| {
        let mut params = plain.clone();
        params[name] = value;
        params
    };
    for (name, value) in [
        ("n", json!(2)),
        ("logprobs", json!(true)),
        ("logit_bias", json!({ "1": 2 })),
        ("web_search_options", json!({})),
    ] {
        let told = sdk.create(world, "acme", with(name, value));
        check(&told, "BadRequestError", 400, "unsupported_parameter", &json!(name));
    }
    let told = sdk.create(world, "acme", with("max_iterations", json!(51)));
    check(&told, "BadRequestError", 400, "invalid_value", &json!("max_iterations"));
    let told = sdk.create(world, "acme", with("messages", json!([])));
    check(&told, "BadRequestError", 400, "invalid_value", &json!("messages"));
    assert_eq!(world.sessions("acme"), 0, "nothing was begun");
}

/// One turn at a time: the next one is refused, and a patient SDK comes again.
fn limits(world: &World, sdk: &mut Sdk) {
    let (name, gate) = (format!("openai-limit-{}", sdk.name), Gate::default());
    script(&name, [Reply::new().text("slow").hold(&gate).stops(), Reply::says(&["at last"])]);
    let ask = json!({ "model": "scripted", "messages": [user(&format!("play {name}"))] });
    let mut holding = ask.clone();
    holding["stream"] = json!(true);
    let mut stream = world.client("busy").open("POST", "/v1/chat/completions", &holding.to_string());
    stream.until("slow");
    let told = sdk.create(world, "busy", ask.clone());
    check(&told, "RateLimitError", 429, "rate_limit_exceeded", &Value::Null);
    assert!(told["message"].as_str().unwrap().contains("1 turn running at once"), "{told}");
    sdk.begin(world, "busy", &json!({ "do": "create", "params": ask, "retries": 5 }));
    gate.open();
    let told = sdk.end();
    assert_eq!(told["completion"]["choices"][0]["message"]["content"], "at last", "{told}");
    stream.until("[DONE]");
}

/// Turns that fail after they were begun. The server has made its own attempts, so the SDK makes none.
fn turns(world: &World, sdk: &mut Sdk) {
    let name = format!("openai-failed-{}", sdk.name);
    script(&name, [Reply::status(404, &[], "no such thing"), Reply::new().text("well").finish("length")]);
    let ask = json!({ "model": "scripted", "messages": [user(&format!("play {name}"))] });
    let told = sdk.told(world, "acme", &json!({ "do": "create", "params": ask, "retries": 3 }));
    check(&told, "InternalServerError", 502, "LLM_PROVIDER_ERROR", &Value::Null);
    assert_eq!(asked(&name).len(), 1);
    let completion = sdk.completion(world, ask.clone());
    assert_eq!(completion["choices"][0]["finish_reason"], "length");

    let mut streamed = ask;
    streamed["stream"] = json!(true);
    let told = sdk.create(world, "acme", streamed);
    assert_eq!((&told["error"], &told["code"]), (&json!("APIError"), &json!("LLM_PROVIDER_ERROR")), "{told}");
    // They are kept, as all turns are.
    let sessions = world.client("acme").send("GET", "/api/v1/sessions", "").json();
    let status = |session: &Value| {
        let path = format!("/api/v1/sessions/{}/messages", session["session_id"].as_str().unwrap());
        world.client("acme").send("GET", &path, "").json()["messages"][0]["status"].clone()
    };
    let statuses: Vec<_> = sessions["sessions"].as_array().unwrap().iter().map(status).collect();
    assert_eq!(statuses.iter().filter(|status| *status == "failed").count(), 3, "{statuses:?}");
}
