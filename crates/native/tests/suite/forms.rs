//! Forms: asked, listed, answered once.

use serde_json::json;

use super::harness::Server;

#[tokio::test]
async fn a_form_is_answered_by_a_spawn() {
    let server = Server::start().await;
    let body = json!({ "message": "request_form for my colour and quantity" });
    let (session, message, paused) = server.turn(body).await;
    assert_eq!((&paused["type"], &paused["wake"]), (&json!("paused"), &json!("form")));

    let open = server.get("/api/v1/forms?status=open").await.json(200);
    assert_eq!(open["forms"].as_array().unwrap().len(), 1);
    let form = &open["forms"][0];
    let id = form["form_id"].as_str().unwrap();
    assert_eq!((&form["form_kind"], &form["status"]), (&json!("clarify"), &json!("open")));
    assert_eq!((&form["session_id"], &form["message_id"]), (&json!(session), &json!(message)));
    assert_eq!(form["payload"]["schema"]["type"], "object");
    assert!(form.get("answer").is_none() && form.get("closed_at").is_none());
    assert_eq!(server.get(&format!("/api/v1/forms/{id}")).await.json(200), *form);
    assert_eq!(server.get("/api/v1/forms?status=answered").await.json(200), json!({ "forms": [] }));
    assert_eq!(server.get("/api/v1/forms?session_id=a%2Fb").await.json(200), json!({ "forms": [] }));
    assert_eq!(server.get("/api/v1/forms?status=shut").await.code(422), "VALIDATION_FAILED");

    let shown = server.get(&format!("/api/v1/sessions/{session}")).await.json(200);
    assert_eq!(shown["status"], "waiting");
    let current = &shown["current"];
    assert_eq!((&current["message_id"], &current["wake"]), (&json!(message), &json!("form")));
    assert_eq!(current["form_ids"], json!([id]));

    let wrong = json!({ "session_id": session, "form_answer": { "colour": "pink", "quantity": 0 } });
    let refused = server.spawn(wrong).await;
    assert_eq!(refused.code(422), "FORM_ANSWER_INVALID");
    assert!(refused.json(422)["detail"]["problems"].as_array().is_some_and(|problems| problems.len() == 2));

    let answer = json!({ "session_id": session, "form_id": id, "form_answer": { "colour": "red", "quantity": 2 } });
    let accepted = server.spawn(answer.clone()).await.json(202);
    assert_eq!(accepted, json!({ "session_id": session, "message_id": message, "kind": "form_answer" }));
    assert_eq!(server.rest_of(&session, &message).await["type"], "complete");
    let form = server.get(&format!("/api/v1/forms/{id}")).await.json(200);
    assert_eq!((&form["status"], &form["answer"]["colour"]), (&json!("answered"), &json!("red")));
    assert!(form["closed_at"].is_string());

    assert_eq!(server.spawn(answer).await.code(409), "FORM_CLOSED");
    let nameless = json!({ "session_id": session, "form_answer": { "colour": "red", "quantity": 2 } });
    assert_eq!(server.spawn(nameless).await.code(409), "FORM_CLOSED");
    let unknown = json!({ "session_id": session, "form_id": "form_x", "message": "yes" });
    assert_eq!(server.spawn(unknown).await.code(404), "FORM_NOT_FOUND");
    assert_eq!(server.get("/api/v1/forms/form_x").await.code(404), "FORM_NOT_FOUND");
    let turns = server.get(&format!("/api/v1/sessions/{session}/messages")).await.json(200);
    assert_eq!(turns["messages"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_plain_message_answers_what_the_session_waits_for() {
    let server = Server::start().await;
    let (session, message, paused) = server.turn(json!({ "message": "request_form for my name" })).await;
    assert_eq!(paused["type"], "paused");
    let accepted =
        server.spawn(json!({ "session_id": session, "message": "Ann", "on_busy": "reject" })).await.json(202);
    assert_eq!((&accepted["kind"], &accepted["message_id"]), (&json!("form_answer"), &json!(message)));
    assert_eq!(server.rest_of(&session, &message).await["type"], "complete");
    let forms = server.get(&format!("/api/v1/forms?session_id={session}")).await.json(200);
    assert_eq!(forms["forms"][0]["answer"], json!({ "name": "Ann" }));
}

#[tokio::test]
async fn a_tool_that_is_not_trusted_asks_first() {
    let server = Server::start().await;
    let body = json!({ "message": "calculator 6*7", "tools": [{ "name": "calculator", "trust": false }] });
    let (session, message, paused) = server.turn(body).await;
    assert_eq!((&paused["type"], &paused["wake"]), (&json!("paused"), &json!("form")));
    let forms = server.get("/api/v1/forms?status=open").await.json(200);
    assert_eq!(forms["forms"][0]["form_kind"], "approval");
    let accepted = server.spawn(json!({ "session_id": session, "message": "yes" })).await.json(202);
    assert_eq!(accepted["kind"], "form_answer");
    let complete = server.rest_of(&session, &message).await;
    assert!(complete["final_response"].as_str().unwrap().contains("42"), "{complete}");
}

#[tokio::test]
async fn a_message_that_interrupts_is_no_answer() {
    let server = Server::start().await;
    let (session, message, _) = server.turn(json!({ "message": "request_form for my name" })).await;
    let body = json!({ "session_id": session, "message": "never mind", "on_busy": "interrupt" });
    let (_, next, complete) = server.turn(body).await;
    assert_ne!(next, message);
    assert_eq!(complete["type"], "complete");
    let ended = server.get(&format!("/api/v1/sessions/{session}/messages/{message}")).await.json(200);
    assert_eq!((&ended["status"], &ended["reason"]), (&json!("cancelled"), &json!("superseded")));
    let forms = server.get("/api/v1/forms").await.json(200);
    assert_eq!(forms["forms"][0]["status"], "cancelled");
}
