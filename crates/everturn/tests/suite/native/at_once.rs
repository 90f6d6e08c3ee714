//! Two who decide about a call at the same moment: one of them does.

use serde_json::{Value, json};

use super::world::{Turn, World, kinds, spawn};
use crate::suite::harness::{Answer, Client, Reply, script};

const SPAWN: &str = "/api/v1/sessions/stream";

/// A new session that waits for leave to compute, by either door.
fn waiting(client: &Client, name: &str, natively: bool) -> (Turn, String) {
    script(name, [Reply::calls(&[("calculator", json!({ "expression": "6*7" }))]), Reply::says(&["So."])]);
    let message = format!("play {name}");
    let turn = if natively {
        let tools = json!([{ "name": "calculator", "trust": false }]);
        spawn(client, &json!({ "agent_id": "writer", "message": message, "tools": tools }))
    } else {
        let agent = json!({ "name": "writer", "tools": [{ "name": "calculator" }] });
        let body = json!({ "agent": agent, "messages": [{ "role": "user", "content": message }] });
        let made = client.send("PUT", "/session", &body.to_string());
        let header = |name: &str| made.header(name).to_owned();
        Turn {
            client: client.clone(),
            session: header("x-session-id"),
            message: header("x-message-id"),
            kind: String::new(),
        }
    };
    let asked = turn.frames().into_iter().find(|frame| frame.kind() == "form_request").unwrap();
    (turn, asked.data["payload"]["tool_call_id"].as_str().unwrap().to_owned())
}

/// Yes by one door and no by the other at the same moment: one of them counts, and everybody is told which.
#[test]
fn two_decisions_at_once() {
    let world = World::start("");
    let client = world.client();
    let mut wins = [0, 0];
    for round in 0..20 {
        let (turn, call) = waiting(&client, &format!("door-race-{round}"), round % 2 == 0);
        let yes = json!({ "messages": [{ "role": "tool_permission", "toolCallId": call, "granted": true }] });
        let no = json!({ "session_id": turn.session, "form_answer": { "approved": false } });
        let permit = || client.send("POST", &format!("/session/{}", turn.session), &yes.to_string());
        let deny = || client.send("POST", SPAWN, &no.to_string());
        let (permitted, denied): (Answer, Answer) = std::thread::scope(|scope| {
            let (permit, deny) = (scope.spawn(permit), scope.spawn(deny));
            (permit.join().unwrap(), deny.join().unwrap())
        });
        let granted = match (permitted.status, denied.status) {
            (200, 409) => true,
            (400 | 409, 202) => false,
            other => panic!("{other:?}: {permitted:?} {denied:?}"),
        };
        wins[usize::from(granted)] += 1;
        let end = turn.complete();
        assert_eq!(end["final_response"], "So.");
        let frames = turn.frames();
        let called: Vec<_> = frames.iter().filter(|frame| frame.kind().starts_with("tool_")).collect();
        let kinds: Vec<_> = called.iter().map(|frame| frame.kind()).collect();
        assert_eq!(kinds, ["tool_started", "tool_completed"], "{frames:#?}");
        assert_eq!(called.last().unwrap().data["success"], Value::from(granted));
        let forms = client.send("GET", &format!("/api/v1/forms?session_id={}", turn.session), "").json();
        let form = &forms["forms"][0];
        assert_eq!((&form["status"], &form["answer"]["approved"]), (&json!("answered"), &json!(granted)), "{forms}");
    }
    println!("denied {}, granted {}", wins[0], wins[1]);
}

/// An answer and a stop at the same moment: the turn goes on, or it is over. It never does both.
#[test]
fn an_answer_and_a_stop_at_once() {
    let world = World::start("");
    let client = world.client();
    for round in 0..10 {
        let (turn, _) = waiting(&client, &format!("door-stop-{round}"), true);
        let yes = json!({ "session_id": turn.session, "form_answer": { "approved": true } });
        let stop = format!("/api/v1/sessions/{}/stop", turn.session);
        let (answered, stopped) = std::thread::scope(|scope| {
            let answer = scope.spawn(|| client.send("POST", SPAWN, &yes.to_string()));
            let stop = scope.spawn(|| client.send("POST", &stop, ""));
            (answer.join().unwrap().status, stop.join().unwrap().status)
        });
        assert!(matches!(answered, 202 | 409), "{answered}");
        assert_eq!(stopped, 204);
        let frames = turn.frames();
        let ends = kinds(&frames).into_iter().filter(|kind| matches!(*kind, "complete" | "cancelled")).count();
        assert_eq!(ends, 1, "{frames:#?}");
        let forms = client.send("GET", &format!("/api/v1/forms?session_id={}", turn.session), "").json();
        let expected = if answered == 202 { "answered" } else { "cancelled" };
        assert_eq!(forms["forms"][0]["status"], expected, "{forms} {frames:#?}");
    }
}
