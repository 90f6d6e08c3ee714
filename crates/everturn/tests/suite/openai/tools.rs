//! Tools of the application's, called and answered by the SDKs.

use serde_json::{Value, json};

use super::sdk::{Sdk, World, user, weather};
use crate::suite::harness::{Reply, asked, script};

#[test]
fn python_runs_tools() {
    walk(Sdk::python());
}

#[test]
fn node_runs_tools() {
    walk(Sdk::node());
}

fn walk(mut sdk: Sdk) {
    let mut world = World::start();
    loops(&world, &mut sdk);
    streamed(&world, &mut sdk);
    another_tenant(&world, &mut sdk);
    failed_in_between(&world, &mut sdk);
    killed_in_between(&mut world, &mut sdk);
}

fn call(city: &str) -> (&'static str, Value) {
    ("weather", json!({ "city": city }))
}

/// A request of a script with the weather at hand.
fn asks(messages: &[Value]) -> Value {
    json!({ "model": "scripted", "messages": messages, "tools": [weather()], "parallel_tool_calls": true })
}

/// The results that the model was given by its last request, in order.
fn results(name: &str) -> Vec<String> {
    let asked = asked(name);
    let messages = asked.last().unwrap()["messages"].as_array().unwrap();
    let results = messages.iter().filter(|message| message["role"] == "tool");
    results.map(|message| message["content"].as_str().unwrap().to_owned()).collect()
}

/// Two calls at once, then another, all in one turn.
fn loops(world: &World, sdk: &mut Sdk) {
    let name = format!("openai-loop-{}", sdk.name);
    script(&name, [Reply::calls(&[call("Oslo"), call("Rome")]), Reply::calls(&[call("Lima")]), Reply::says(&["Sun"])]);
    let before = world.sessions("acme");
    let command = json!({ "do": "loop", "params": asks(&[user(&format!("play {name}"))]) });
    let told = sdk.told(world, "acme", &command);
    assert_eq!((&told["content"], &told["rounds"]), (&json!("Sun"), &json!(3)), "{told}");
    assert_eq!(results(&name), ["weather of Oslo", "weather of Rome", "weather of Lima"]);
    assert_eq!(world.sessions("acme"), before + 1, "one turn in one session");
}

/// The same in chunks; the results are sent twice, as after a lost connection.
fn streamed(world: &World, sdk: &mut Sdk) {
    let name = format!("openai-parallel-{}", sdk.name);
    script(&name, [Reply::calls(&[call("Oslo"), call("Rome")]), Reply::says(&["Rain ", "and sun"])]);
    let ask = user(&format!("play {name}"));
    let told = sdk.told(world, "acme", &json!({ "do": "help", "params": asks(std::slice::from_ref(&ask)) }));
    let choice = &told["completion"]["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls", "{told}");
    let calls = choice["message"]["tool_calls"].as_array().unwrap();
    let made: Vec<_> = calls.iter().map(|call| call["function"]["arguments"].as_str().unwrap()).collect();
    assert_eq!(made, [r#"{"city":"Oslo"}"#, r#"{"city":"Rome"}"#]);
    let plain = |call: &Value| {
        let function = json!({ "name": call["function"]["name"], "arguments": call["function"]["arguments"] });
        json!({ "id": call["id"], "type": "function", "function": function })
    };
    let own: Vec<_> = calls.iter().map(plain).collect();
    let mut messages = vec![ask, json!({ "role": "assistant", "content": null, "tool_calls": own })];
    messages.push(json!({ "role": "tool", "tool_call_id": calls[0]["id"], "content": "rain" }));
    let told = sdk.create(world, "acme", asks(&messages));
    assert_eq!((&told["error"], &told["code"]), (&json!("BadRequestError"), &json!("tool_results_missing")), "{told}");
    messages.push(json!({ "role": "tool", "tool_call_id": calls[1]["id"], "content": "sun" }));
    for _ in 0..2 {
        let (_, text) = sdk.chunks(world, asks(&messages));
        assert_eq!(text, "Rain and sun");
    }
    assert_eq!(asked(&name).len(), 2, "nothing ran twice");
    messages[2]["content"] = json!("snow");
    let told = sdk.create(world, "acme", asks(&messages));
    assert_eq!((&told["error"], &told["code"]), (&json!("ConflictError"), &json!("tool_call_answered")), "{told}");
}

/// Asks for the weather of a city, and gives the conversation with the result at its end, and the turn.
#[track_caller]
fn answered(world: &World, sdk: &mut Sdk, name: &str) -> (Vec<Value>, Value) {
    let ask = user(&format!("play {name}"));
    let completion = sdk.completion(world, asks(std::slice::from_ref(&ask)));
    let message = completion["choices"][0]["message"].clone();
    let result = json!({ "role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "wind" });
    (vec![ask, message, result], completion["message_id"].clone())
}

fn another_tenant(world: &World, sdk: &mut Sdk) {
    let name = format!("openai-stranger-{}", sdk.name);
    script(&name, [Reply::calls(&[call("Oslo")]), Reply::says(&["for bob"]), Reply::says(&["for acme"])]);
    let (messages, turn) = answered(world, sdk, &name);
    let told = sdk.create(world, "bob", asks(&messages));
    let completion = &told["completion"];
    assert_eq!(completion["choices"][0]["message"]["content"], "for bob", "{told}");
    assert_ne!(completion["message_id"], turn, "what is another's is not there");
    let completion = sdk.completion(world, asks(&messages));
    assert_eq!(completion["choices"][0]["message"]["content"], "for acme");
    assert_eq!(completion["message_id"], turn);
}

/// Whoever sends the same again after a failure is answered, as with OpenAI.
fn failed_in_between(world: &World, sdk: &mut Sdk) {
    let name = format!("openai-unlucky-{}", sdk.name);
    let failure = || Reply::status(404, &[], "no such thing");
    script(&name, [Reply::calls(&[call("Oslo")]), failure(), failure(), Reply::says(&["windy"])]);
    let before = world.sessions("acme");
    let (messages, _) = answered(world, sdk, &name);
    for _ in 0..2 {
        let told = sdk.create(world, "acme", asks(&messages));
        assert_eq!((&told["status"], &told["code"]), (&json!(502), &json!("LLM_PROVIDER_ERROR")), "{told}");
    }
    let completion = sdk.completion(world, asks(&messages));
    assert_eq!(completion["choices"][0]["message"]["content"], "windy");
    assert_eq!(sdk.completion(world, asks(&messages)), completion);
    assert_eq!((asked(&name).len(), results(&name)), (4, vec!["wind".to_owned()]));
    assert_eq!(world.sessions("acme"), before + 1, "all in one session");
}

fn killed_in_between(world: &mut World, sdk: &mut Sdk) {
    let name = format!("openai-killed-{}", sdk.name);
    script(&name, [Reply::calls(&[call("Oslo")]), Reply::says(&["windy"])]);
    let (messages, turn) = answered(world, sdk, &name);
    world.crash();
    let completion = sdk.completion(world, asks(&messages));
    assert_eq!((&completion["choices"][0]["message"]["content"], &completion["message_id"]), (&json!("windy"), &turn));
    world.crash();
    assert_eq!(sdk.completion(world, asks(&messages)), completion, "the same again, also after that");
    assert_eq!(asked(&name).len(), 2);
}
