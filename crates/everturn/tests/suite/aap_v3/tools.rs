//! Tools of the application and of the server.

use serde_json::{Value, json};

use super::application::{Application, MODES};
use crate::suite::harness::{Reply, asked, script};

fn new(tools: &Value) -> Value {
    let tide = json!({ "name": "get_tide", "description": "Tells the tide", "parameters": {
        "type": "object", "properties": { "port": { "type": "string" } }, "required": ["port"]
    } });
    json!({ "agent": { "name": "scripted", "tools": tools }, "tools": [tide] })
}

fn says(name: &str) -> Value {
    json!([{ "role": "user", "content": format!("play {name}") }])
}

#[test]
fn the_applications_own() {
    for mode in MODES {
        let name = format!("v3-own-{mode}");
        script(&name, [Reply::calls(&[("get_tide", json!({ "port": "Brest" }))]), Reply::says(&["High."])]);
        let mut application = Application::start(&new(&json!([])));
        let first = application.turn(mode, &json!({}), &says(&name));
        assert_eq!((first.stop.as_str(), &first.waiting[0]["input"]), ("tool_use", &json!({ "port": "Brest" })));
        let result = json!([{ "role": "tool", "toolCallId": first.call("get_tide"), "content": "7 m" }]);
        let second = application.turn(mode, &json!({}), &result);
        assert_eq!((second.stop.as_str(), second.text().as_str()), ("end_turn", "High."));
        let told = &asked(&name)[0]["tools"][0]["function"];
        assert_eq!(told["parameters"]["required"], json!(["port"]), "the model is told what the application says");
    }
}

#[test]
fn trusted_ones_run_inline() {
    for mode in MODES {
        let name = format!("v3-trusted-{mode}");
        let calls = ["1+1", "6*7"].map(|expression| ("calculator", json!({ "expression": expression })));
        script(&name, [Reply::calls(&calls), Reply::says(&["2 and 42."])]);
        let mut application = Application::start(&new(&json!([{ "name": "calculator", "trust": true }])));
        let leg = application.turn(mode, &json!({}), &says(&name));
        assert_eq!((leg.stop.as_str(), leg.messages.len()), ("end_turn", 4), "calls, two results, a text");
        if mode == "delta" {
            assert_eq!(leg.events, ["turn_start", "tool_call", "tool_result", "text_delta", "turn_stop"]);
        }
    }
}

#[test]
fn others_ask_first() {
    for mode in MODES {
        let name = format!("v3-asks-{mode}");
        let call = || Reply::calls(&[("calculator", json!({ "expression": "6*7" }))]);
        script(&name, [call(), Reply::says(&["42."]), call(), Reply::says(&["As you like."])]);
        let mut application = Application::start(&new(&json!([{ "name": "calculator" }])));
        let first = application.turn(mode, &json!({}), &says(&name));
        let granted = json!([{ "role": "tool_permission", "toolCallId": first.call("calculator"), "granted": true }]);
        let second = application.turn(mode, &json!({}), &granted);
        assert_eq!((second.stop.as_str(), &second.messages[0]["content"]), ("end_turn", &json!("42")));
        let third = application.say(mode, "again");
        let id = third.call("calculator");
        let denied = json!([{ "role": "tool_permission", "toolCallId": id, "granted": false, "reason": "not now" }]);
        let fourth = application.turn(mode, &json!({}), &denied);
        assert_eq!(fourth.messages[0]["content"], "Tool call denied: not now", "both sides know of it");
        assert_eq!(fourth.text(), "As you like.");
    }
}

/// Two of the application, one that is trusted and one that asks, all in one step: the protocol's own example.
#[test]
fn all_kinds_at_once() {
    for mode in MODES {
        let name = format!("v3-mixed-{mode}");
        script(
            &name,
            [
                Reply::new()
                    .text("I look.")
                    .call("get_tide", r#"{"port":"Brest"}"#)
                    .call("get_tide", r#"{"port":"Oslo"}"#)
                    .call("clock", "{}")
                    .call("calculator", r#"{"expression":"6*7"}"#)
                    .finish("tool_calls"),
                Reply::says(&["Done."]),
            ],
        );
        let tools = json!([{ "name": "clock", "trust": true }, { "name": "calculator", "trust": false }]);
        let mut application = Application::start(&new(&tools));
        let first = application.turn(mode, &json!({}), &says(&name));
        assert_eq!((first.stop.as_str(), first.waiting.len()), ("tool_use", 3), "the clock has its result");
        let answer = |call: &Value| match call["name"].as_str() {
            Some("get_tide") => json!({ "role": "tool", "toolCallId": call["toolCallId"], "content": "low" }),
            _ => json!({ "role": "tool_permission", "toolCallId": call["toolCallId"], "granted": true }),
        };
        let answers: Vec<_> = first.waiting.iter().map(answer).collect();
        let second = application.turn(mode, &json!({}), &json!(answers));
        assert_eq!((second.stop.as_str(), second.text().as_str()), ("end_turn", "Done."));
        let results = application.history("full");
        let results = results.iter().filter(|message| message["role"] == "tool").count();
        assert_eq!(results, 4);
    }
}
