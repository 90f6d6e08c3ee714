//! Compaction on demand, and what clients are told of it.

use serde_json::json;

use super::world::{Turn, World, kinds, spawn};
use crate::suite::harness::{Answer, Client, Gate, Reply, asked, script};

fn compact(client: &Client, session: &str, key: &str) -> Answer {
    client.send_with("POST", &format!("/api/v1/sessions/{session}/compact"), &[("idempotency-key", key)], "")
}

#[test]
fn an_idle_session_is_compacted_and_its_clients_are_told() {
    let world = World::start("");
    let client = world.client();
    let name = "compact-now";
    let long = |word: &str| format!("{word} ").repeat(2000);
    let answers = [long("one"), long("two"), long("three"), "They counted.".to_owned(), "Four.".to_owned()];
    script(name, answers.iter().map(|text| Reply::says(&[text])));
    let first = spawn(&client, &json!({ "agent_id": "writer", "message": format!("first play {name}") }));
    first.complete();
    for word in ["second", "third"] {
        first.say(&format!("{word} play {name}")).complete();
    }
    let answer = compact(&client, &first.session, "c1");
    assert_eq!(answer.status, 202, "{answer:?}");
    let taken = answer.json();
    assert_eq!((&taken["session_id"], &taken["kind"]), (&json!(first.session), &json!("new_turn")));
    let turn = Turn { message: taken["message_id"].as_str().unwrap().to_owned(), ..first.clone() };
    let frames = turn.frames();
    assert_eq!(kinds(&frames), ["start", "compacted_history", "complete"]);
    let told = &frames[1].data;
    assert_eq!((&told["summarised"], &told["shortened"]), (&json!(true), &json!(0)), "{told}");
    assert!(told["messages"].as_u64().unwrap() >= 4, "{told}");
    let (before, after) = (told["tokens_before"].as_u64().unwrap(), told["tokens_after"].as_u64().unwrap());
    assert!(after * 3 < before * 2, "{told}");
    assert_eq!(frames[2].data["total_input_tokens"], 10, "the summary is counted");
    assert_eq!((turn.shown()["status"].clone(), turn.shown()["input"].clone()), (json!("completed"), json!("")));
    // The same key has no second effect.
    let again = compact(&client, &first.session, "c1");
    assert_eq!((again.status, again.json()), (202, taken));
    // The model is given the summary from now on, as a message and not as an instruction; clients read what was said.
    first.say(&format!("fourth play {name}")).complete();
    let request = asked(name).pop().unwrap();
    let messages = request["messages"].as_array().unwrap();
    let is_summary = |message: &&serde_json::Value| message.to_string().contains("They counted.");
    let summary = messages.iter().find(is_summary).unwrap_or_else(|| panic!("{messages:?}"));
    assert_eq!(summary["role"], "user", "{summary}");
    assert!(summary.to_string().contains(&format!("first play {name}")), "{summary}");
    assert!(!request.to_string().contains(&long("one")), "{messages:?}");
    let listed = client.send("GET", &format!("/api/v1/sessions/{}/messages", first.session), "").json();
    assert!(listed.to_string().contains(&long("one")));
}

#[test]
fn what_cannot_be_compacted_is_refused_in_words() {
    let world = World::start("");
    let client = world.client();
    let none = compact(&client, "sess_none", "k");
    assert_eq!((none.status, &none.json()["detail"]["code"]), (404, &json!("SESSION_NOT_FOUND")));
    let (name, gate) = ("compact-busy", Gate::default());
    script(name, [Reply::new().text("Well").hold(&gate).stops()]);
    let turn = spawn(&client, &json!({ "agent_id": "writer", "message": format!("play {name}") }));
    let busy = compact(&client, &turn.session, "k");
    assert_eq!(busy.status, 409, "{busy:?}");
    assert_eq!(
        busy.json()["detail"]["message"],
        "a turn runs, waits or is queued in this session; it can be compacted while it is idle"
    );
    gate.open();
    turn.complete();
    // There is too little to gain: nothing happens. A refused key is free again.
    let answer = compact(&client, &turn.session, "k");
    assert_eq!(answer.status, 202, "{answer:?}");
    let message = answer.json()["message_id"].as_str().unwrap().to_owned();
    assert_eq!(kinds(&Turn { message, ..turn }.frames()), ["start", "complete"]);
}
