//! Agents: configured ones are shown, stored ones made, changed and taken out of use.

use everturn_core::{Effort, Thinking};
use serde_json::json;

use super::harness::Server;

#[tokio::test]
async fn a_profile_is_made_used_changed_and_deleted() {
    let server = Server::start().await;
    let list = server.get("/api/v1/agents").await.json(200);
    assert_eq!((&list["agents"][0]["agent_id"], &list["agents"][1]["agent_id"]), (&json!("demo"), &json!("other")));
    let demo = server.get("/api/v1/agents/demo").await.json(200);
    assert_eq!(demo, list["agents"][0]);
    assert_eq!(
        (&demo["source"], &demo["model"], &demo["name"]),
        (&json!("configured"), &json!("demo/load"), &json!("The demo"))
    );
    assert!(demo.get("instructions").is_none() && demo.get("created_at").is_none());

    let body =
        json!({ "agent_id": "ann", "name": "Ann", "description": "Sums", "model": "demo/x", "tools": ["calculator"] });
    let made = server.json("POST", "/api/v1/agents", body.clone()).await.json(201);
    assert_eq!((&made["source"], &made["max_steps"], &made["trusted"]), (&json!("stored"), &json!(25), &json!([])));
    assert_eq!(server.json("POST", "/api/v1/agents", body).await.code(409), "AGENT_EXISTS");
    let list = server.get("/api/v1/agents").await.json(200);
    assert_eq!(list["agents"][2], made);

    let (session, _, complete) = server.turn(json!({ "message": "hello", "agent_id": "ann" })).await;
    assert_eq!(complete["type"], "complete");
    let other = server.spawn(json!({ "message": "hello", "session_id": session, "agent_id": "demo" })).await;
    assert_eq!(other.code(422), "VALIDATION_FAILED");

    let path = "/api/v1/agents/ann";
    let changed = server.json("PATCH", path, json!({ "name": "Anna", "description": null })).await.json(200);
    assert_eq!((&changed["name"], &changed["description"]), (&json!("Anna"), &json!(null)));
    assert_eq!(changed["tools"], json!(["calculator"]));
    for wrong in [
        json!({ "model": "none/x" }),
        json!({ "tools": ["rm"] }),
        json!({ "max_steps": 0 }),
        json!({ "agent_id": "x" }),
    ] {
        assert_eq!(server.json("PATCH", path, wrong).await.code(422), "VALIDATION_FAILED");
    }
    server.bare("DELETE", path).await.is_empty(204);
    assert_eq!(server.get(path).await.code(404), "AGENT_NOT_FOUND");
    assert_eq!(server.bare("DELETE", path).await.code(404), "AGENT_NOT_FOUND");
    assert_eq!(server.spawn(json!({ "message": "hello", "agent_id": "ann" })).await.code(404), "AGENT_NOT_FOUND");
    let (_, _, complete) = server.turn(json!({ "message": "hello", "session_id": session })).await;
    assert_eq!(complete["type"], "complete");
}

#[tokio::test]
async fn configured_agents_are_read_only() {
    let server = Server::start().await;
    let change = server.json("PATCH", "/api/v1/agents/demo", json!({ "name": "x" })).await;
    assert_eq!(change.code(400), "AGENT_READ_ONLY");
    assert_eq!(server.bare("DELETE", "/api/v1/agents/demo").await.code(400), "AGENT_READ_ONLY");
    let body = json!({ "agent_id": "demo", "name": "x", "model": "demo/x" });
    assert_eq!(server.json("POST", "/api/v1/agents", body).await.code(409), "AGENT_EXISTS");
}

#[tokio::test]
async fn stored_agents_are_paged_after_the_configured_ones() {
    let server = Server::start().await;
    for name in ["a", "b"] {
        let body = json!({ "agent_id": name, "name": name, "model": "demo/x" });
        server.json("POST", "/api/v1/agents", body).await.json(201);
    }
    let ids = |page: &serde_json::Value| {
        let agents = page["agents"].as_array().unwrap().iter();
        agents.map(|agent| agent["agent_id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let first = server.get("/api/v1/agents?limit=1").await.json(200);
    assert_eq!(ids(&first), ["demo", "other", "b"]);
    let cursor = first["next_cursor"].as_str().unwrap();
    let last = server.get(&format!("/api/v1/agents?limit=1&cursor={cursor}")).await.json(200);
    assert_eq!(ids(&last), ["a"]);
}

#[tokio::test]
async fn how_a_model_thinks_is_the_agents_and_the_turns_to_say() {
    let server = Server::start().await;
    let agent = json!({
        "agent_id": "ann", "name": "Ann", "model": "demo/x", "effort": "low", "thinking": "on", "temperature": 0.25,
    });
    let made = server.json("POST", "/api/v1/agents", agent).await.json(201);
    assert_eq!((&made["effort"], &made["thinking"], &made["temperature"]), (&json!("low"), &json!("on"), &json!(0.25)));
    let (session, ..) = server.turn(json!({ "message": "one", "agent_id": "ann" })).await;
    server.turn(json!({ "message": "two", "session_id": session, "effort": "max" })).await;
    server.turn(json!({ "message": "three", "session_id": session, "thinking": "off" })).await;
    let change = json!({ "effort": null, "temperature": null });
    let changed = server.json("PATCH", "/api/v1/agents/ann", change).await.json(200);
    assert!(changed.get("effort").is_none() && changed.get("temperature").is_none(), "{changed}");
    server.turn(json!({ "message": "four", "session_id": session })).await;
    let asked = server.asked.lock().unwrap().clone();
    // Titles are asked for with as little effort as there is.
    let turns = asked.iter().filter(|options| options.effort != Some(Effort::Minimal));
    let turns: Vec<_> = turns.map(|options| (options.effort, options.thinking, options.temperature)).collect();
    assert_eq!(
        turns,
        [
            (Some(Effort::Low), Some(Thinking::On), Some(250)),
            (Some(Effort::Max), Some(Thinking::On), Some(250)),
            (Some(Effort::Low), Some(Thinking::Off), Some(250)),
            (None, Some(Thinking::On), None),
        ]
    );
    for (field, value) in [("effort", "none"), ("thinking", "yes")] {
        let refused = server.spawn(json!({ "message": "five", "session_id": session, (field): value })).await;
        assert_eq!(refused.code(422), "VALIDATION_FAILED");
    }
}
