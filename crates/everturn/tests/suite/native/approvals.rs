//! Tools that a session does not trust: a person is asked before they run.

use serde_json::{Value, json};

use super::world::{Turn, World, kinds, spawn};
use crate::suite::harness::{Answer, Reply, script};

fn answer(turn: &Turn, body: &Value) -> Answer {
    let mut body = body.clone();
    body["session_id"] = turn.session.as_str().into();
    turn.client.send("POST", "/api/v1/sessions/stream", &body.to_string())
}

#[test]
fn granted_or_denied() {
    let world = World::start("");
    let client = world.client();
    let table = [
        ("approve-words", json!({ "message": "ok" }), None),
        ("approve-fields", json!({ "form_answer": { "approved": true, "reason": "Go on." } }), None),
        ("approve-deny-words", json!({ "message": "No." }), Some("Tool call denied")),
        (
            "approve-deny-reason",
            json!({ "form_answer": { "approved": false, "reason": "Not now." } }),
            Some("Tool call denied: Not now."),
        ),
    ];
    for (name, said, denial) in table {
        script(
            name,
            [
                Reply::calls(&[("clock", json!({})), ("calculator", json!({ "expression": "1+1" }))]),
                Reply::says(&["So be it."]),
            ],
        );
        let tools = json!([{ "name": "clock", "trust": false }]);
        let turn = spawn(&client, &json!({ "agent_id": "writer", "message": format!("play {name}"), "tools": tools }));
        let asked = turn.frames();
        // The other tool has run meanwhile.
        assert_eq!(kinds(&asked), ["start", "tool_started", "tool_completed", "form_request", "paused"]);
        let request = &asked[3].data;
        assert_eq!((&request["form_kind"], &request["payload"]["title"]), (&json!("approval"), &json!("Allow clock?")));
        assert_eq!(request["payload"]["description"], "Input: {}");
        let unclear = answer(&turn, &json!({ "message": "What for?" }));
        assert_eq!((unclear.status, &unclear.json()["detail"]["code"]), (422, &json!("FORM_ANSWER_INVALID")));
        assert_eq!(answer(&turn, &said).status, 202, "{name}");
        let rest = turn.frames_after(&asked[4].id);
        let call = &rest.iter().find(|frame| frame.kind() == "tool_completed").unwrap().data;
        assert_eq!((&call["tool_name"], call["success"] == true), (&json!("clock"), denial.is_none()), "{call}");
        if let Some(denial) = denial {
            assert_eq!((&call["message"], &call["duration_ms"]), (&json!(denial), &json!(0)), "it did not run");
        }
        assert_eq!(kinds(&rest), ["tool_started", "tool_completed", "delta", "complete"]);
    }
}

#[test]
fn two_one_after_the_other() {
    let calls = [("clock", json!({})), ("calculator", json!({ "expression": "6*7" }))];
    script("approve-two", [Reply::calls(&calls), Reply::says(&["Both."])]);
    let world = World::start("");
    let tools = json!([{ "name": "clock", "trust": false }, { "name": "calculator", "trust": false }]);
    let body = json!({ "agent_id": "writer", "message": "play approve-two", "tools": tools });
    let turn = spawn(&world.client(), &body);
    let first = turn.frames();
    assert_eq!(kinds(&first), ["start", "form_request", "form_request", "paused"]);
    let forms = [&first[1].data["form_id"], &first[2].data["form_id"]];
    let session = turn.client.send("GET", &format!("/api/v1/sessions/{}", turn.session), "").json();
    assert_eq!(session["current"]["form_ids"], json!(forms), "{session}");
    // The second one first: each has its own name.
    let second = answer(&turn, &json!({ "form_id": forms[1], "form_answer": { "approved": true } }));
    assert_eq!(second.status, 202, "{second:?}");
    let meanwhile = turn.frames_after(&first[3].id);
    assert_eq!(kinds(&meanwhile), ["tool_started", "tool_completed", "paused"], "nobody is asked again");
    assert_eq!(meanwhile[1].data["message"], "42");
    let again = answer(&turn, &json!({ "form_id": forms[1], "form_answer": { "approved": false } }));
    assert_eq!((again.status, &again.json()["detail"]["code"]), (409, &json!("FORM_CLOSED")));
    // Plain words answer the one that is left.
    assert_eq!(answer(&turn, &json!({ "message": "deny" })).status, 202);
    let rest = turn.frames_after(&meanwhile[2].id);
    assert_eq!(kinds(&rest), ["tool_started", "tool_completed", "delta", "complete"]);
    assert_eq!((&rest[1].data["tool_name"], &rest[1].data["success"]), (&json!("clock"), &json!(false)));
}
