//! Tools of the application's: calls come back, results go on.

use everturn_core::{Block, Message};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use super::harness::{PATIENCE, Reply, Server, finish, message, result, text, tool, user};

/// A request with two tools and these messages.
fn asks(messages: &[Value]) -> Value {
    json!({ "model": "first", "messages": messages, "tools": [tool("a"), tool("b")] })
}

/// Both calls at once.
fn both() -> Reply {
    Reply::calls("", &[("a", json!({ "x": 1 })), ("b", json!({}))])
}

/// Asks, and gives the conversation with the assistant's calls at its end.
async fn called(server: &Server, said: &str) -> (Vec<Value>, Vec<Value>) {
    let completion = server.chat(asks(&[user(said)])).await.json(200);
    assert_eq!(completion["choices"][0]["finish_reason"], "tool_calls");
    let answer = message(&completion).clone();
    let calls = answer["tool_calls"].as_array().unwrap().clone();
    (vec![user(said), answer], calls)
}

#[tokio::test]
async fn results_go_on_with_the_turn_that_waits() {
    let server = Server::start([both(), Reply::calls("", &[("a", json!({}))]), Reply::says(&["done"])]).await;
    let (mut messages, calls) = called(&server, "go").await;
    assert_eq!(messages[1]["content"], json!(null));
    assert_eq!(calls[0]["function"], json!({ "name": "a", "arguments": "{\"x\":1}" }));
    assert!(calls.iter().all(|call| call["id"].as_str().unwrap().len() == 40));
    messages.extend([result(&calls[1], "2"), result(&calls[0], "1")]);
    let second = server.chat(asks(&messages)).await.json(200);
    let again = message(&second)["tool_calls"][0].clone();
    messages.extend([message(&second).clone(), result(&again, "3")]);
    let third = server.chat(asks(&messages)).await;
    let last = third.json(200);
    assert_eq!(message(&last)["content"], "done");
    assert_eq!(last["usage"]["total_tokens"], 15, "each request tells what it used");
    assert_eq!((&second["session_id"], &second["message_id"]), (&last["session_id"], &last["message_id"]));
    assert_ne!(second["id"], last["id"], "answers have ids of their own");
    assert_eq!(server.sessions().await, 1);
    let given = &server.script.asked()[2].messages;
    let results = given.iter().filter_map(|message| match message {
        Message::Tool { content, .. } => Some(content.text()),
        _ => None,
    });
    assert_eq!(results.collect::<Vec<_>>(), ["1", "2", "3"]);
}

/// Clients do not send reasoning. Of answers that made calls it goes back to the model all the same, turn after turn; of an answer
/// that the client has changed it does not.
#[tokio::test]
async fn reasoning_before_calls_goes_back_in_later_turns() {
    let thinks = |thought: &str, text: &str, x: u64| {
        Reply::calls(text, &[("a", json!({ "x": x }))]).after_thinking(thought).signed(&format!("proof {x}"))
    };
    let server = Server::start([
        thinks("Hm, one.", "First.", 1),
        Reply::says(&["done"]).after_thinking("Well."),
        thinks("Hm, two.", "", 2),
        Reply::says(&["done again"]),
        Reply::says(&["and again"]),
        Reply::says(&["and again"]),
    ])
    .await;
    let mut messages = Vec::new();
    for (said, steps) in [("go", 2), ("once more", 2), ("and then?", 1)] {
        messages.push(user(said));
        for _ in 0..steps {
            let completion = server.chat(asks(&messages)).await.json(200);
            let mut answer = message(&completion).clone();
            answer.as_object_mut().unwrap().remove("reasoning_content");
            messages.push(answer.clone());
            let calls = answer["tool_calls"].as_array().cloned().unwrap_or_default();
            messages.extend(calls.iter().map(|call| result(call, "ok")));
        }
    }
    let given = |at: usize| {
        let request = &server.script.asked()[at];
        let blocks = request.messages.iter().flat_map(|message| match message {
            Message::Assistant { content } => content.blocks().to_vec(),
            _ => Vec::new(),
        });
        let thoughts = blocks.filter_map(|block| match block {
            Block::Thinking { text, signature } => Some(format!("{text} {}", signature.unwrap_or_default())),
            _ => None,
        });
        thoughts.collect::<Vec<_>>()
    };
    assert_eq!(given(2), ["Hm, one. proof 1"]);
    assert_eq!(given(4), ["Hm, one. proof 1", "Hm, two. proof 2"]);
    // A changed answer is another one.
    messages[1]["content"] = json!("Not what it said.");
    messages.push(user("and now?"));
    server.chat(asks(&messages)).await.json(200);
    assert_eq!(given(5), ["Hm, two. proof 2"]);
}

/// A client that sends reasoning back has it given to the model, where the server knows none of its own.
#[tokio::test]
async fn reasoning_that_clients_send_goes_back() {
    let server = Server::start([
        Reply::calls("", &[("a", json!({}))]).after_thinking("R1").signed("proof"),
        Reply::says(&["done"]).after_thinking("R2").signed("proof"),
        Reply::says(&["fine"]),
        Reply::says(&["fine"]),
    ])
    .await;
    let mut messages = vec![user("go")];
    for _ in 0..2 {
        let completion = server.chat(asks(&messages)).await.json(200);
        let answer = message(&completion).clone();
        messages.push(answer.clone());
        let calls = answer["tool_calls"].as_array().cloned().unwrap_or_default();
        messages.extend(calls.iter().map(|call| result(call, "ok")));
    }
    let given = |at: usize| {
        let request = &server.script.asked()[at];
        let blocks = request.messages.iter().flat_map(|message| match message {
            Message::Assistant { content } => content.blocks().to_vec(),
            _ => Vec::new(),
        });
        let thoughts = blocks.filter_map(|block| match block {
            Block::Thinking { text, signature } => Some((text, signature)),
            _ => None,
        });
        thoughts.collect::<Vec<_>>()
    };
    let proven = |text: &str| (text.to_owned(), Some("proof".to_owned()));
    let sent = |text: &str| (text.to_owned(), None);
    assert_eq!(messages[3]["reasoning_content"], "R2");
    messages.push(user("and then?"));
    server.chat(asks(&messages)).await.json(200);
    assert_eq!(given(2), [proven("R1"), sent("R2")]);
    // Other servers' names for it, and what cannot be reasoning.
    let answers = [
        json!({ "role": "assistant", "content": "one", "reasoning": "R3" }),
        json!({ "role": "assistant", "content": "two", "reasoning_details": [
            { "type": "reasoning.text", "text": "R4" }, { "type": "reasoning.encrypted", "data": "x" },
            { "type": "reasoning.summary", "summary": ", R5" }] }),
        json!({ "role": "assistant", "content": "three", "reasoning_content": { "odd": 1 }, "reasoning_details": "odd" }),
        json!({ "role": "assistant", "content": "four", "reasoning_content": null }),
        json!({ "role": "assistant", "content": "", "reasoning_content": "of nothing" }),
    ];
    let messages: Vec<Value> =
        answers.into_iter().flat_map(|answer| [user("go on"), answer]).chain([user("go")]).collect();
    server.chat(asks(&messages)).await.json(200);
    assert_eq!(given(3), [sent("R3"), sent("R4, R5")]);
}

#[tokio::test]
async fn the_same_in_chunks() {
    let server = Server::start([both(), Reply::says(&["do", "ne"])]).await;
    let (mut messages, calls) = called(&server, "go").await;
    messages.extend(calls.iter().map(|call| result(call, "ok")));
    let mut body = asks(&messages);
    body["stream"] = json!(true);
    body["stream_options"] = json!({ "include_usage": true });
    let chunks = server.chat(body).await.chunks();
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    assert_eq!((text(&chunks), finish(&chunks)), ("done".to_owned(), "stop".to_owned()));
    assert_eq!(chunks.last().unwrap()["usage"]["total_tokens"], 15);
}

#[tokio::test]
async fn results_sent_again_show_the_same_leg() {
    let server = Server::start([both(), Reply::says(&["done"])]).await;
    let (mut messages, calls) = called(&server, "go").await;
    messages.extend(calls.iter().map(|call| result(call, "ok")));
    let first = server.chat(asks(&messages)).await.json(200);
    assert_eq!(server.chat(asks(&messages)).await.json(200), first);
    let mut body = asks(&messages);
    body["stream"] = json!(true);
    assert_eq!(text(&server.chat(body).await.chunks()), "done");
    // A text may come as a part.
    let mut parts = messages.clone();
    parts.last_mut().unwrap()["content"] = json!([{ "type": "text", "text": "ok" }]);
    assert_eq!(server.chat(asks(&parts)).await.json(200), first);
    assert_eq!(server.script.asked().len(), 2, "nothing ran again");
    // Others than before are refused: the turn has gone on with the first ones.
    *messages.last_mut().unwrap() = result(&calls[1], "other");
    let refused = server.chat(asks(&messages)).await;
    assert_eq!(refused.refusal(409), ("tool_call_answered".into(), "messages".into()));
    assert_eq!(refused.header("x-should-retry"), "false");
}

#[tokio::test]
async fn results_may_come_before_the_servers_own_tools_are_done() {
    let replies = [Reply::calls("", &[("a", json!({})), ("slow", json!({}))]), Reply::says(&["done"])];
    let server = Server::start(replies).await;
    let mut body = asks(&[user("go")]);
    body["stream"] = json!(true);
    let headers = [("content-type", "application/json")];
    let mut stream = server.open("POST", "/v1/chat/completions", &headers, body.to_string()).await.into_body();
    // The call is shown before the other one has its result.
    let mut shown = String::new();
    let id = loop {
        let frame = tokio::time::timeout(PATIENCE, stream.frame()).await.unwrap().unwrap().unwrap();
        shown.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
        if let Some((_, rest)) = shown.split_once(r#""tool_calls":[{"index":0,"id":""#)
            && let Some((id, _)) = rest.split_once('"')
        {
            break id.to_owned();
        }
    };
    server.slow.begun.acquire().await.unwrap().forget();
    let call = json!({ "id": id, "type": "function", "function": { "name": "a", "arguments": "{}" } });
    let messages = [user("go"), json!({ "role": "assistant", "tool_calls": [call] }), result(&call, "1")];
    let refused = server.chat(asks(&messages)).await;
    assert_eq!(refused.refusal(409).0, "session_busy", "it does not wait for ever");
    assert_eq!(refused.header("x-should-retry"), "", "but may come again");
    let (asking, body) = (server.clone(), asks(&messages));
    let asking = tokio::spawn(async move { asking.chat(body).await });
    server.slow.gate.add_permits(1);
    let mut answer = asking.await.unwrap();
    // Slow machines take longer than it waits.
    while answer.status == 409 {
        assert_eq!(answer.refusal(409).0, "session_busy");
        answer = server.chat(asks(&messages)).await;
    }
    assert_eq!(message(&answer.json(200))["content"], "done");
    assert_eq!(server.script.asked().len(), 2);
}

#[tokio::test]
async fn all_results_must_be_there() {
    let server = Server::start([both(), Reply::says(&["done"])]).await;
    let (mut messages, calls) = called(&server, "go").await;
    messages.push(result(&calls[0], "1"));
    let refused = server.chat(asks(&messages)).await;
    assert_eq!(refused.refusal(400), ("tool_results_missing".into(), "messages".into()));
    assert!(refused.message().contains(calls[1]["id"].as_str().unwrap()), "{refused:?}");
    messages.push(result(&calls[0], "1"));
    assert_eq!(server.chat(asks(&messages)).await.refusal(400).1, "messages[3].tool_call_id");
    *messages.last_mut().unwrap() = json!({ "role": "tool", "tool_call_id": "call_other", "content": "2" });
    assert_eq!(server.chat(asks(&messages)).await.refusal(400).1, "messages[3].tool_call_id");
    *messages.last_mut().unwrap() = result(&calls[1], "2");
    assert_eq!(message(&server.chat(asks(&messages)).await.json(200))["content"], "done");
}

#[tokio::test]
async fn a_turn_that_is_gone_is_history() {
    let server =
        Server::start([both(), Reply::says(&["anew"]), both(), Reply::says(&["next"]), Reply::says(&["told"])]).await;
    let (mut messages, calls) = called(&server, "go").await;
    messages.extend(calls.iter().map(|call| result(call, "ok")));
    let sessions = server.engine.sessions(&everturn_core::TenantId::local(), None, 9).await.unwrap();
    server.engine.delete(&everturn_core::TenantId::local(), &sessions[0].session.id, None).await.unwrap();
    let answer = server.chat(asks(&messages)).await.json(200);
    assert_eq!(message(&answer)["content"], "anew");
    assert!(
        server.script.asked()[1].messages.iter().flat_map(Message::tool_uses).all(|call| call.id.as_str().len() <= 40)
    );

    // A message took the place of the turn.
    let completion = server.chat(asks(&[user("go")])).await.json(200);
    let answer = message(&completion).clone();
    let calls = answer["tool_calls"].as_array().unwrap().clone();
    let session = &completion["session_id"];
    let next = server.chat(json!({ "messages": [user("never mind")], "session_id": session })).await.json(200);
    assert_eq!(message(&next)["content"], "next");
    let mut messages = vec![user("go"), answer];
    messages.extend(calls.iter().map(|call| result(call, "ok")));
    let told = server.chat(asks(&messages)).await.json(200);
    assert_eq!(message(&told)["content"], "told");
    assert_ne!(&told["session_id"], session);
    // Who names the session means the turn in it.
    let mut body = asks(&messages);
    body["session_id"] = session.clone();
    assert_eq!(server.chat(body).await.refusal(409).0, "turn_superseded");
}

#[tokio::test]
async fn another_tenants_turn_is_not_there() {
    let server = Server::locked([both(), Reply::says(&["as history"]), Reply::says(&["mine"])]).await;
    let (acme, stranger) = (server.by("chatter"), server.by("stranger"));
    let (mut messages, calls) = called(&acme, "go").await;
    messages.extend(calls.iter().map(|call| result(call, "stolen")));
    let theirs = stranger.chat(asks(&messages)).await.json(200);
    assert_eq!(message(&theirs)["content"], "as history");
    assert_eq!((stranger.sessions().await, acme.sessions().await), (1, 1));
    let mine = acme.chat(asks(&messages)).await.json(200);
    assert_eq!(message(&mine)["content"], "mine");
    assert_eq!(acme.sessions().await, 1, "the turn still waited");
}

#[tokio::test]
async fn results_with_a_message_after_them() {
    let server = Server::start([both(), Reply::says(&["anew"]), Reply::says(&["went on"])]).await;
    let completion = server.chat(asks(&[user("go")])).await.json(200);
    let session = completion["session_id"].clone();
    let calls = message(&completion)["tool_calls"].as_array().unwrap().clone();
    let mut messages = vec![user("go"), message(&completion).clone()];
    messages.extend(calls.iter().map(|call| result(call, "ok")));
    let results = messages.clone();
    messages.push(user("and hurry"));
    // Whole in itself: everything is there.
    let anew = server.chat(asks(&messages)).await.json(200);
    assert_eq!(message(&anew)["content"], "anew");
    assert_ne!(anew["session_id"], session);
    // In the session the message would end the turn that waits for the results.
    let mut body = asks(&messages);
    body["session_id"] = session.clone();
    assert_eq!(server.chat(body).await.refusal(400).1, "messages[2]");
    let mut body = asks(&results);
    body["session_id"] = session;
    assert_eq!(message(&server.chat(body).await.json(200))["content"], "went on");
}

#[tokio::test]
async fn a_long_loop_is_many_requests() {
    let mut replies = vec![Reply::calls("", &[("a", json!({}))]); 60];
    replies.push(Reply::says(&["done"]));
    let server = Server::start(replies).await;
    let mut messages = vec![user("go")];
    for round in 0.. {
        let mut body = asks(&messages);
        body["max_iterations"] = json!(1);
        let completion = server.chat(body).await.json(200);
        let answer = message(&completion).clone();
        if completion["choices"][0]["finish_reason"] == "stop" {
            assert_eq!(round, 60);
            break;
        }
        let call = answer["tool_calls"][0].clone();
        messages.extend([answer, result(&call, "ok")]);
    }
    assert_eq!(server.sessions().await, 1);
}

#[tokio::test]
async fn who_brings_no_tools_gets_no_calls() {
    let server = Server::start([both(), Reply::says(&["done"]), Reply::says(&["none"])]).await;
    let (mut messages, calls) = called(&server, "go").await;
    messages.extend(calls.iter().map(|call| result(call, "ok")));
    server.chat(json!({ "messages": messages })).await.json(200);
    let mut body = asks(&[user("go")]);
    body["tool_choice"] = json!("none");
    server.chat(body).await.json(200);
    let own =
        |at: usize| server.script.asked()[at].tools.iter().filter(|tool| ["a", "b"].contains(&&*tool.name)).count();
    assert_eq!((own(0), own(1), own(2)), (2, 0, 0));
    let clash = json!({ "messages": [user("go")], "tools": [tool("calculator")] });
    assert_eq!(server.chat(clash).await.refusal(400).1, "tools");
}

/// Frameworks change the system messages between steps: agents hand over, instructions tell how things stand.
#[tokio::test]
async fn the_system_messages_of_a_follow_up_count() {
    let calls = || Reply::calls("", &[("a", json!({}))]);
    let server = Server::start([calls(), calls(), calls(), Reply::says(&["done"])]).await;
    let system = |text: &str| json!({ "role": "system", "content": text });
    let mut said = vec![user("go")];
    for text in [Some("one"), Some("one"), Some("two"), None] {
        let messages: Vec<_> = text.map(system).into_iter().chain(said.clone()).collect();
        let completion = server.chat(json!({ "messages": messages, "tools": [tool("a")] })).await.json(200);
        said.push(message(&completion).clone());
        let calls = message(&completion)["tool_calls"].as_array().cloned().unwrap_or_default();
        said.extend(calls.iter().map(|call| result(call, "ok")));
    }
    let asked = server.script.asked();
    let systems: Vec<_> = asked.iter().map(|asked| asked.system.rsplit("\n\n").next().unwrap_or_default()).collect();
    let own = systems[3];
    assert_eq!(systems[..3], ["one", "one", "two"]);
    assert!(!own.contains("one") && !own.contains("two"), "{own}");
    assert_eq!(asked[0].system, asked[1].system, "to the letter, for the sake of caches");
    assert!(asked[3].messages.len() > asked[2].messages.len(), "the turn has gone on");
    let sessions = server.engine.sessions(&everturn_core::TenantId::local(), None, 10).await.unwrap();
    assert_eq!(sessions.len(), 1);
}

/// A handoff to another agent goes on with the conversation as its client has it.
#[tokio::test]
async fn results_for_another_agent_begin_a_session_of_its_own() {
    let server = Server::start([Reply::calls("", &[("a", json!({}))]), Reply::says(&["hola"])]).await;
    let first = json!({ "messages": [user("go")], "tools": [tool("a")] });
    let completion = server.chat(first).await.json(200);
    let said = json!([user("go"), message(&completion), result(&message(&completion)["tool_calls"][0], "handed over")]);
    let other = server.chat(json!({ "model": "second", "messages": said.clone() })).await.json(200);
    assert_eq!(message(&other)["content"], "hola");
    assert_ne!(other["session_id"], completion["session_id"]);
    let asked = server.script.asked();
    assert!(format!("{:?}", asked[1].messages).contains("handed over"));
    let unknown = server.chat(json!({ "model": "secnd", "messages": said.clone() })).await;
    assert_eq!(unknown.refusal(404).0, "model_not_found");
    for model in ["second", "mapped/name:8b"] {
        let body = json!({ "model": model, "messages": said.clone(), "session_id": completion["session_id"] });
        let refused = server.chat(body).await;
        assert!(refused.message().contains("cannot be changed"), "{model}: {}", refused.message());
    }
}
