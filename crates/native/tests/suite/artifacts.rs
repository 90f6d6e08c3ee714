//! Artifacts: listed with their versions, and downloaded as files that no browser runs.

use serde_json::json;

use super::harness::Server;

#[tokio::test]
async fn what_an_agent_writes_can_be_had() {
    let server = Server::start().await;
    let (session, message, complete) = server.turn(json!({ "message": "write a report about tea" })).await;
    let made = &complete["artifacts"][0];
    let id = made["artifact_id"].as_str().unwrap();
    let (_, _, changed) = server.turn(json!({ "session_id": session, "message": "update it: more milk" })).await;
    assert_eq!(changed["artifacts"][0]["version"], 2);

    let list = server.get(&format!("/api/v1/artifacts?session_id={session}")).await.json(200);
    let artifact = &list["artifacts"][0];
    assert_eq!((&artifact["artifact_id"], &artifact["version"]), (&json!(id), &json!(2)));
    assert_eq!((&artifact["session_id"], &artifact["artifact_type"]), (&json!(session), &json!("markdown")));
    assert_eq!(artifact["versions"][0]["message_id"], json!(message));
    assert_eq!(server.get(&format!("/api/v1/artifacts/{id}/versions")).await.json(200), *artifact);
    assert_eq!(server.get("/api/v1/artifacts?session_id=sess_x").await.json(200), json!({ "artifacts": [] }));

    let first = server.get(made["download_url"].as_str().unwrap()).await;
    let last = server.get(&format!("/api/v1/artifacts/{id}")).await;
    assert_eq!((first.status.as_u16(), last.status.as_u16()), (200, 200));
    assert_ne!(first.body, last.body);
    assert_eq!(json!(first.body.len()), artifact["versions"][0]["bytes"]);
    assert_eq!(last.header("content-type"), "text/markdown; charset=utf-8");
    assert_eq!(last.header("x-content-type-options"), "nosniff");
    assert_eq!(last.header("content-security-policy"), "sandbox");
    let disposition = last.header("content-disposition");
    assert!(disposition.starts_with("attachment; filename=\"") && disposition.contains(".md\""), "{disposition}");
    let known = [("if-none-match", last.header("etag"))];
    server.send("GET", &format!("/api/v1/artifacts/{id}"), &known, "").await.is_empty(304);
    assert_eq!(server.send("GET", &format!("/api/v1/artifacts/{id}?version=1"), &known, "").await.body, first.body);

    for version in ["3", "0", "-1", "x", "01", ""] {
        let answer = server.get(&format!("/api/v1/artifacts/{id}?version={version}")).await;
        assert_eq!(answer.code(404), "ARTIFACT_NOT_FOUND", "{version}");
    }
    assert_eq!(server.get("/api/v1/artifacts/a%20b").await.code(404), "ARTIFACT_NOT_FOUND");
}
