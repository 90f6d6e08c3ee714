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
