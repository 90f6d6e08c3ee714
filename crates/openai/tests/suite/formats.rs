//! Answers with a format, and calls that are forced.

use everturn_core::{Message, ToolChoice};
use serde_json::{Value, json};

use super::harness::{Reply, Server, finish, message, result, text, tool, user};

fn typed() -> Value {
    let schema = json!({
        "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"], "additionalProperties": false,
    });
    json!({ "type": "json_schema", "json_schema": { "name": "number", "schema": schema, "strict": true } })
}

/// A model that is not held to the format by its provider is told what is wrong; clients see what fits only.
#[tokio::test]
async fn an_answer_that_does_not_fit_is_mended() {
    for stream in [false, true] {
        let replies = [
            Reply::says(&["Sure, ", "one!"]),
            Reply::says(&["{\"n\":\"one\"}"]),
            Reply::says(&["```json\n{\"n\":1}\n```"]),
        ];
        let server = Server::start(replies).await;
        let body = json!({ "messages": [user("count")], "response_format": typed(), "stream": stream });
        let answer = server.chat(body).await;
        let said = match stream {
            true => text(&answer.chunks()),
            false => message(&answer.json(200))["content"].as_str().unwrap().to_owned(),
        };
        assert_eq!(said, "{\"n\":1}");
        let asked = server.script.asked();
        let told = |at: usize| match asked[at].messages.last() {
            Some(Message::User { content }) => content.text(),
            other => panic!("not the user's: {other:?}"),
        };
        assert_eq!(told(0), "count");
        assert!(told(1).contains("it is not JSON"), "{}", told(1));
        assert!(told(2).contains("at /n"), "{}", told(2));
        assert!(asked.iter().all(|asked| asked.options.output.is_some()));
    }
}

#[tokio::test]
async fn an_answer_that_never_fits_is_an_error() {
    let server = Server::start(vec![Reply::says(&["no"]); 4]).await;
    let refused =
        server.chat(json!({ "messages": [user("count")], "response_format": { "type": "json_object" } })).await;
    assert_eq!(refused.refusal(502).0, "LLM_PROVIDER_ERROR");
    assert!(refused.message().contains("it is not JSON"), "{}", refused.message());
    assert_eq!(server.script.asked().len(), 3, "two repairs");
    // SDKs parse what they are shown: a stream has the error alone.
    let server = Server::start(vec![Reply::says(&["no"]); 4]).await;
    let shown = server.chat(json!({ "messages": [user("count")], "response_format": typed(), "stream": true })).await;
    let shown = String::from_utf8_lossy(&shown.body).into_owned();
    assert!(!shown.contains("\"no\"") && shown.contains("\"error\""), "{shown}");
}

/// JSON that a stop text has cut is what the client asked for; text that never was JSON is not.
#[tokio::test]
async fn an_answer_that_a_stop_text_cuts_is_not_mended() {
    let body = json!({ "messages": [user("count")], "response_format": typed(), "stop": ["}"] });
    let server = Server::start([Reply::says(&["{\"n\":1"]), Reply::says(&["Sure"]), Reply::says(&["{\"n\":2"])]).await;
    assert_eq!(message(&server.chat(body.clone()).await.json(200))["content"], "{\"n\":1");
    assert_eq!(message(&server.chat(body).await.json(200))["content"], "{\"n\":2");
    assert_eq!(server.script.asked().len(), 3);
}

/// A stop text within the words before a forced call would keep the model from ever making it.
#[tokio::test]
async fn a_forced_call_has_no_stop_texts() {
    let body = json!({ "messages": [user("go")], "tools": [tool("a")], "tool_choice": "required", "stop": "END" });
    let replies = [Reply::calls("", &[("a", json!({}))]), Reply::says(&["done"])];
    let server = Server::start(replies).await;
    let completion = server.chat(body).await.json(200);
    let follow_up = json!({ "messages": [user("go"), message(&completion), result(&message(&completion)["tool_calls"][0], "7")], "stop": "END" });
    assert_eq!(message(&server.chat(follow_up).await.json(200))["content"], "done");
    let stops: Vec<_> = server.script.asked().into_iter().map(|asked| asked.options.stop).collect();
    assert_eq!(stops, [vec![], vec!["END".to_owned()]]);
}

/// A model that does not make the call that it must is asked again, and fails after that.
#[tokio::test]
async fn forced_calls_that_are_not_made() {
    let choice = json!({ "type": "function", "function": { "name": "a" } });
    let body = json!({ "messages": [user("go")], "tools": [tool("a"), tool("b")], "tool_choice": choice });
    let other = Reply::calls("", &[("b", json!({}))]);
    let server = Server::start([Reply::says(&["no"]), other, Reply::calls("", &[("a", json!({}))])]).await;
    let completion = server.chat(body.clone()).await.json(200);
    assert_eq!(message(&completion)["tool_calls"][0]["function"]["name"], "a");
    let asked = server.script.asked();
    let told = format!("{:?}", asked[2].messages.last());
    assert!(told.contains("You were to call the tool a, and did not"), "{told}");
    let server = Server::start(vec![Reply::says(&["no"]); 4]).await;
    let refused = server.chat(body).await;
    assert_eq!(refused.refusal(502).0, "LLM_PROVIDER_ERROR");
    assert!(refused.message().contains("the model was to call the tool a, and did not"), "{}", refused.message());
    let required = json!({ "messages": [user("go")], "tools": [tool("a")], "tool_choice": "required" });
    // Calls of the agent's own tools run, and are none that the application waits for.
    let sum = || Reply::calls("", &[("calculator", json!({ "expression": "6*7" }))]);
    let replies = [sum(), Reply::says(&["no"]), sum(), sum(), Reply::calls("", &[("a", json!({}))])];
    let server = Server::start(replies).await;
    let completion = server.chat(required).await.json(200);
    assert_eq!(completion["choices"][0]["finish_reason"], "tool_calls");
    let asked = server.script.asked();
    assert!(asked.iter().all(|request| request.options.tool_choice == Some(ToolChoice::Required)), "{asked:?}");
    let results = asked[4].messages.iter().filter(|message| matches!(message, Message::Tool { .. })).count();
    assert_eq!(results, 3);
}

/// The arguments of a strict tool fit its schema when the application sees them. Those of others come as they are.
#[tokio::test]
async fn strict_tools() {
    let schema = json!({
        "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"], "additionalProperties": false,
    });
    for is_strict in [true, false] {
        let function = json!({ "name": "a", "parameters": schema, "strict": is_strict });
        let body = json!({ "messages": [user("go")], "tools": [{ "type": "function", "function": function }] });
        let replies =
            [Reply::calls("", &[("a", json!({ "n": "one" }))]), Reply::calls("", &[("a", json!({ "n": 1 }))])];
        let server = Server::start(replies).await;
        let completion = server.chat(body).await.json(200);
        let calls = message(&completion)["tool_calls"].as_array().unwrap().clone();
        let expected = if is_strict { "{\"n\":1}" } else { "{\"n\":\"one\"}" };
        assert_eq!((calls.len(), &calls[0]["function"]["arguments"]), (1, &json!(expected)));
        assert_eq!(server.script.asked().len(), if is_strict { 2 } else { 1 });
    }
}

/// What is said beside calls of the agent's own tools is not the answer.
#[tokio::test]
async fn only_the_last_step_is_the_answer() {
    for stream in [false, true] {
        let clock = Reply::calls("Let me look.", &[("clock", json!({}))]);
        let server = Server::start([clock, Reply::says(&["{\"n\":", "1}"])]).await;
        let body = json!({ "messages": [user("count")], "response_format": typed(), "stream": stream });
        let answer = server.chat(body).await;
        let said = match stream {
            true => text(&answer.chunks()),
            false => message(&answer.json(200))["content"].as_str().unwrap().to_owned(),
        };
        assert_eq!(said, "{\"n\":1}");
    }
}

/// A call is forced once, and every request says anew what it wants.
#[tokio::test]
async fn forced_calls() {
    let server =
        Server::start([Reply::calls("", &[("a", json!({ "x": "y".repeat(2000) }))]), Reply::says(&["done"])]).await;
    let choice = json!({ "type": "function", "function": { "name": "a" } });
    let body =
        json!({ "messages": [user("go")], "tools": [tool("a")], "tool_choice": choice, "seed": 7, "stream": true });
    let chunks = server.chat(body).await.chunks();
    assert_eq!(finish(&chunks), "tool_calls");
    let pieces: Vec<&Value> = chunks
        .iter()
        .map(|chunk| &chunk["choices"][0]["delta"]["tool_calls"][0])
        .filter(|call| !call.is_null())
        .collect();
    assert_eq!((&pieces[0]["function"]["name"], &pieces[0]["function"]["arguments"]), (&json!("a"), &json!("")));
    assert!(pieces.len() > 3 && pieces[1..].iter().all(|piece| piece.get("id").is_none()), "{pieces:?}");
    let arguments: String = pieces.iter().map(|piece| piece["function"]["arguments"].as_str().unwrap()).collect();
    let call =
        json!({ "id": pieces[0]["id"], "type": "function", "function": { "name": "a", "arguments": arguments } });
    let assistant = json!({ "role": "assistant", "content": null, "tool_calls": [call] });
    let messages = json!([user("go"), assistant, result(&call, "ok")]);
    let completion = server.chat(json!({ "messages": messages, "tools": [tool("a")] })).await.json(200);
    assert_eq!(message(&completion)["content"], "done");
    let asked = server.script.asked();
    assert_eq!(asked[0].options.tool_choice, Some(ToolChoice::Named("a".into())));
    assert_eq!((&asked[1].options.tool_choice, asked[1].options.seed), (&None, None));
}
