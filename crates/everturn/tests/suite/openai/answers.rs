//! Answers: plain, in chunks, with tokens, of sessions, about images.

use serde_json::{Value, json};

use super::sdk::{Sdk, World, user};
use crate::suite::harness::{Reply, asked, script};

#[test]
fn python_is_answered() {
    walk(Sdk::python());
}

#[test]
fn node_is_answered() {
    walk(Sdk::node());
}

/// One process for everything: starting it takes longer than all that it does here.
fn walk(mut sdk: Sdk) {
    let world = World::start();
    models(&world, &mut sdk);
    plain(&world, &mut sdk);
    chunks(&world, &mut sdk);
    sessions(&world, &mut sdk);
    images(&world, &mut sdk);
    tools_of_the_server(&world, &mut sdk);
}

fn models(world: &World, sdk: &mut Sdk) {
    let told = sdk.told(world, "acme-reader", &json!({ "do": "models" }));
    let models: Vec<_> = told["models"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
    assert_eq!(models[..2], ["demo", "scripted"]);
    let told = sdk.told(world, "acme-reader", &json!({ "do": "model", "id": "demo" }));
    assert_eq!((&told["model"]["id"], &told["model"]["object"]), (&json!("demo"), &json!("model")));
    let told = sdk.told(world, "acme-reader", &json!({ "do": "model", "id": "gpt-4o" }));
    assert_eq!((&told["error"], &told["code"]), (&json!("NotFoundError"), &json!("model_not_found")));
}

fn plain(world: &World, sdk: &mut Sdk) {
    let name = format!("openai-plain-{}", sdk.name);
    script(&name, [Reply::new().thinking("hm").text("Salve").stops()]);
    let messages = json!([
        { "role": "system", "content": "Speak Latin." },
        user("hello"), { "role": "assistant", "content": "ave" },
        user(&format!("play {name}")),
    ]);
    let params = json!({ "model": "scripted", "messages": messages, "temperature": 0.5, "max_tokens": 77 });
    let completion = sdk.completion(world, params);
    let choice = &completion["choices"][0];
    assert_eq!((&choice["message"]["content"], &choice["finish_reason"]), (&json!("Salve"), &json!("stop")));
    assert_eq!(choice["message"]["reasoning_content"], "hm");
    assert_eq!(completion["usage"], json!({ "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15 }));
    assert_eq!((&completion["object"], &completion["model"]), (&json!("chat.completion"), &json!("scripted")));
    let asked = &asked(&name)[0];
    let roles: Vec<_> = asked["messages"].as_array().unwrap().iter().map(|message| &message["role"]).collect();
    assert_eq!(roles, ["system", "user", "assistant", "user"]);
    assert!(asked["messages"][0]["content"].as_str().unwrap().ends_with("Speak Latin."));
    assert_eq!(asked["temperature"], 0.5);
    assert!(asked.to_string().contains("77"), "the cap is passed on: {asked}");
    // The turn is one like any other.
    let (session, turn) = (completion["session_id"].as_str().unwrap(), completion["message_id"].as_str().unwrap());
    assert_eq!(world.turn("acme", session, turn)["response"], "Salve");
}

fn chunks(world: &World, sdk: &mut Sdk) {
    let name = format!("openai-chunks-{}", sdk.name);
    script(&name, vec![Reply::says(&["one ", "two ", "\u{1f980}"]); 3]);
    let params = json!({ "model": "scripted", "messages": [user(&format!("play {name}"))] });
    let (chunks, text) = sdk.chunks(world, params.clone());
    assert_eq!(text, "one two \u{1f980}");
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    assert!(chunks[0]["session_id"].as_str().unwrap().starts_with("sess_"));
    assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "stop");
    assert!(chunks.iter().all(|chunk| chunk["usage"].is_null() && chunk["id"] == chunks[0]["id"]));

    let mut with_usage = params.clone();
    with_usage["stream_options"] = json!({ "include_usage": true });
    let (chunks, _) = sdk.chunks(world, with_usage);
    let last = chunks.last().unwrap();
    assert_eq!((last["choices"].as_array().unwrap().len(), &last["usage"]["total_tokens"]), (0, &json!(15)));
    assert_eq!(chunks.iter().filter(|chunk| !chunk["usage"].is_null()).count(), 1);

    let told = sdk.told(world, "acme", &json!({ "do": "help", "params": params }));
    assert_eq!(told["completion"]["choices"][0]["message"]["content"], "one two \u{1f980}", "{told}");
}

fn sessions(world: &World, sdk: &mut Sdk) {
    let name = format!("openai-session-{}", sdk.name);
    script(&name, [Reply::says(&["first"]), Reply::says(&["second"])]);
    let ask = user(&format!("play {name}"));
    let first = sdk.completion(world, json!({ "model": "scripted", "messages": [ask] }));
    let session = first["session_id"].clone();
    let mut params = json!({ "model": "scripted", "messages": [ask], "session_id": session });
    let (chunks, text) = sdk.chunks(world, params.clone());
    assert_eq!((text.as_str(), &chunks[0]["session_id"]), ("second", &session));
    let roles: Vec<_> = asked(&name)[1]["messages"].as_array().unwrap().iter().map(|m| m["role"].clone()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "user"]);
    params["session_id"] = json!("sess_none");
    let told = sdk.create(world, "acme", params);
    assert_eq!((&told["error"], &told["code"]), (&json!("NotFoundError"), &json!("session_not_found")));
}

fn images(world: &World, sdk: &mut Sdk) {
    let name = format!("openai-image-{}", sdk.name);
    script(&name, [Reply::says(&["a dot"])]);
    let url = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let parts = |url: &str| json!([{ "type": "text", "text": format!("play {name}") }, { "type": "image_url", "image_url": { "url": url } }]);
    let params = |url: &str| json!({ "model": "scripted", "messages": [{ "role": "user", "content": parts(url) }] });
    let completion = sdk.completion(world, params(url));
    assert_eq!(completion["choices"][0]["message"]["content"], "a dot");
    assert!(asked(&name)[0].to_string().contains(url), "the model sees the image");
    let told = sdk.create(world, "acme", params("ftp://x/y.png"));
    let expected = json!("messages[0].content[1].image_url.url");
    assert_eq!((&told["error"], &told["param"]), (&json!("BadRequestError"), &expected));
}

fn tools_of_the_server(world: &World, sdk: &mut Sdk) {
    let name = format!("openai-inside-{}", sdk.name);
    let calls = Reply::new().text("Let me see.").call("calculator", r#"{"expression":"6*7"}"#).finish("tool_calls");
    script(&name, [calls, Reply::says(&["42"])]);
    let params = json!({
        "model": "scripted", "messages": [user(&format!("play {name}"))], "include_tool_progress": true,
    });
    let (chunks, text) = sdk.chunks(world, params);
    assert_eq!(text, "Let me see.\n\n42");
    let progress: Vec<&Value> = chunks.iter().filter_map(|chunk| chunk.get("tool_progress")).collect();
    let states: Vec<_> = progress.iter().map(|progress| (&progress["tool"], &progress["status"])).collect();
    assert_eq!(states, [(&json!("calculator"), &json!("running")), (&json!("calculator"), &json!("completed"))]);
}
