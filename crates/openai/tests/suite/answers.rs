//! Answers in one piece, and what the model is given.

use everturn_core::{Block, Content, Effort, Message, Thinking};
use everturn_models::ModelFinish;
use serde_json::json;

use super::harness::{Reply, Server, message, user};

#[tokio::test]
async fn an_answer_in_one_piece() {
    let server = Server::start([Reply::says(&["Hello ", "there"]).after_thinking("hm")]).await;
    let answer = server.chat(json!({ "model": "first", "messages": [user("hi")] })).await;
    let completion = answer.json(200);
    let shown = json!({ "role": "assistant", "content": "Hello there", "refusal": null, "reasoning_content": "hm" });
    assert_eq!(message(&completion), &shown);
    assert_eq!(completion["choices"][0]["finish_reason"], "stop");
    assert_eq!(completion["choices"].as_array().unwrap().len(), 1);
    assert_eq!((&completion["object"], &completion["model"]), (&json!("chat.completion"), &json!("first")));
    let usage = json!({ "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15 });
    assert_eq!(completion["usage"], usage);
    assert!(completion["id"].as_str().unwrap().starts_with("chatcmpl-"));
    assert!(completion["created"].as_u64().unwrap() > 1_700_000_000);
    assert_eq!(answer.header("x-session-id"), completion["session_id"]);
    assert_eq!(answer.header("x-message-id"), completion["message_id"]);
    assert!(completion.get("waiting").is_none());
}

#[tokio::test]
async fn all_that_was_said_is_history() {
    let server = Server::start([Reply::says(&["ok"])]).await;
    let call = json!({ "id": "call_abc", "type": "function", "function": { "name": "f", "arguments": "{\"x\":1}" } });
    let image = "data:image/png;base64,iVBORw0KGgo=";
    let messages = json!([
        { "role": "system", "content": "Speak Latin." },
        user("one"),
        { "role": "assistant", "content": "let me see", "tool_calls": [call] },
        { "role": "tool", "tool_call_id": "call_abc", "content": "1" },
        { "role": "assistant", "content": "two" },
        { "role": "user", "content": [{ "type": "text", "text": "three" }, { "type": "image_url", "image_url": { "url": image } }] },
        { "role": "developer", "content": "And briefly." },
    ]);
    server.chat(json!({ "model": "first", "messages": messages })).await.json(200);
    let asked = &server.script.asked()[0];
    assert_eq!(asked.system, "Be brief.\n\nSpeak Latin.");
    let given = asked.messages.to_vec();
    let [one, call, result, two, three, briefly] = &given[..] else { panic!("{:#?}", asked.messages) };
    assert_eq!(briefly, &Message::System { content: "And briefly.".to_owned() });
    assert_eq!(one, &Message::user("one"));
    assert_eq!(call.tool_uses().map(|call| call.input.as_str()).collect::<Vec<_>>(), [r#"{"x":1}"#]);
    assert!(matches!(result, Message::Tool { call_id, .. } if call_id.as_str() == "call_abc"));
    assert_eq!(two, &Message::assistant("two"));
    let blocks = vec![Block::Text("three".into()), Block::Image { url: image.into() }];
    assert_eq!(three, &Message::User { content: Content::Blocks(blocks) });
}

#[tokio::test]
async fn results_of_strangers_calls_drive_a_turn() {
    let server = Server::start([Reply::says(&["It is 1"])]).await;
    let call = json!({ "id": "call_abc", "type": "function", "function": { "name": "f", "arguments": "" } });
    let mut messages = vec![
        user("one"),
        json!({ "role": "assistant", "tool_calls": [call] }),
        json!({ "role": "tool", "tool_call_id": "call_abc", "content": "1" }),
    ];
    let completion = server.chat(json!({ "messages": messages })).await.json(200);
    assert_eq!(message(&completion)["content"], "It is 1");
    assert!(matches!(server.script.asked()[0].messages.last(), Some(Message::Tool { .. })));
    messages.remove(1);
    let refused = server.chat(json!({ "messages": messages })).await;
    assert_eq!(refused.refusal(400), ("invalid_value".into(), "messages[1].tool_call_id".into()));
}

#[tokio::test]
async fn model_names_an_agent_or_means_the_first() {
    let server = Server::start(vec![Reply::says(&["ok"]); 4]).await;
    let named =
        [("second", "second"), ("", "first"), ("mapped/name:8b", "second")].map(|(name, agent)| (json!(name), agent));
    for (model, agent) in named.into_iter().chain([(json!(null), "first")]) {
        let completion = server.chat(json!({ "model": model, "messages": [user("hi")] })).await.json(200);
        assert_eq!(completion["model"], agent);
    }
    for unknown in ["gpt-4o", &"x".repeat(5000)] {
        let refused = server.chat(json!({ "model": unknown, "messages": [user("hi")] })).await;
        assert_eq!(refused.refusal(404), ("model_not_found".into(), "model".into()));
        assert!(refused.message().contains("first, second"), "{}", refused.message());
    }
    let list = server.get("/v1/models").await.json(200);
    let ids: Vec<_> = list["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap()).collect();
    assert_eq!((&list["object"], ids), (&json!("list"), vec!["first", "second"]));
    let one = server.get("/v1/models/second").await.json(200);
    assert_eq!(one, list["data"][1]);
    assert_eq!((&one["object"], &one["owned_by"]), (&json!("model"), &json!("everturn")));
    let mapped = server.get("/v1/models/mapped%2Fname:8b").await.json(200);
    assert_eq!((&mapped["id"], &mapped["object"]), (&json!("mapped/name:8b"), &json!("model")));
    assert_eq!(server.get("/v1/models/third").await.refusal(404), ("model_not_found".into(), "model".into()));
}

#[tokio::test]
async fn bounds_reach_the_model() {
    let server = Server::start([Reply::says(&["cut"]).finish(ModelFinish::MaxTokens), Reply::says(&["ok"])]).await;
    let body = json!({ "messages": [user("hi")], "max_tokens": 3, "temperature": 0.25 });
    let completion = server.chat(body).await.json(200);
    assert_eq!(completion["choices"][0]["finish_reason"], "length");
    assert_eq!(message(&completion)["content"], "cut");
    // What one request says is not what the next one says.
    let session = &completion["session_id"];
    server.chat(json!({ "messages": [user("hi")], "session_id": session })).await.json(200);
    let asked = server.script.asked();
    assert_eq!((asked[0].options.max_output_tokens, asked[0].options.temperature), (Some(3), Some(250)));
    assert_eq!((asked[1].options.max_output_tokens, asked[1].options.temperature), (None, None));
}

#[tokio::test]
async fn tools_of_the_server_run_inside() {
    let calls = |expression: &str| Reply::calls("Let me see.", &[("calculator", json!({ "expression": expression }))]);
    let server = Server::start([calls("6*7"), Reply::says(&["42"]), calls("1+1"), calls("2+2")]).await;
    let completion = server.chat(json!({ "messages": [user("6*7?")] })).await.json(200);
    assert_eq!(message(&completion)["content"], "Let me see.\n\n42");
    assert!(message(&completion).get("tool_calls").is_none());
    assert_eq!(completion["usage"]["total_tokens"], 30);
    let completion = server.chat(json!({ "messages": [user("go on")], "max_iterations": 2 })).await.json(200);
    assert_eq!(completion["choices"][0]["finish_reason"], "length", "no more steps than allowed");
    assert_eq!(server.script.asked().len(), 4);
}

#[tokio::test]
async fn what_the_model_declines() {
    let server = Server::start([Reply::says(&[]).finish(ModelFinish::Refusal)]).await;
    let completion = server.chat(json!({ "messages": [user("hi")] })).await.json(200);
    assert_eq!(completion["choices"][0]["finish_reason"], "content_filter");
    assert_eq!(message(&completion)["content"], "");
}

#[tokio::test]
async fn a_request_says_how_hard_the_model_thinks() {
    let server = Server::start([Reply::says(&["one"]), Reply::says(&["two"]), Reply::says(&["three"])]).await;
    for effort in [json!("xhigh"), json!("none"), json!(null)] {
        let request = json!({ "model": "first", "messages": [user("hi")], "reasoning_effort": effort });
        server.chat(request).await.json(200);
    }
    let requests = server.script.asked();
    let options: Vec<_> = requests.iter().map(|request| (request.options.effort, request.options.thinking)).collect();
    assert_eq!(options, [(Some(Effort::Xhigh), None), (None, Some(Thinking::Off)), (None, None)]);
}
