//! What the API document says of the dialect. That the answers of the other tests fit it is checked with each of them.

use serde_json::{Value, json};

use super::harness::Server;

/// All operations, each with its path.
fn operations(document: &Value) -> Vec<(String, Value)> {
    let paths = document["paths"].as_object().unwrap();
    let of = |(path, item): (&String, &Value)| {
        let operations = item.as_object().unwrap().values();
        operations.map(|operation| (path.clone(), operation.clone())).collect::<Vec<_>>()
    };
    paths.iter().flat_map(of).collect()
}

#[tokio::test]
async fn every_door_is_described_and_every_example_fits() {
    let server = Server::start().await;
    let document = server.contract.document();
    let operations = operations(document);
    assert_eq!(operations.len(), 42, "{operations:#?}");
    for (path, operation) in &operations {
        let id = operation["operationId"].as_str().unwrap();
        assert!(id.starts_with(if path.starts_with("/goose/") { "goose_released_" } else { "goose_" }), "{path}: {id}");
        assert!(operation["summary"].as_str().is_some_and(|summary| !summary.ends_with('.')), "{id}");
        assert_eq!(operation["tags"].as_array().map(Vec::len), Some(1), "{id}");
        let answers = operation["responses"].as_object().unwrap();
        let limited = &answers.get("429").unwrap_or(&Value::Null)["headers"]["Retry-After"];
        assert_eq!(
            limited.is_object(),
            id != "goose_released_status",
            "{id}: who calls too often is told when to come"
        );
        let contents = answers.values().chain([&operation["requestBody"]]).filter_map(|it| it["content"].as_object());
        for media in contents.flat_map(|content| content.values()) {
            let examples = media["examples"].as_object().into_iter().flatten().map(|(_, example)| &example["value"]);
            let examples: Vec<_> = examples.chain(media.get("example")).collect();
            assert!(!examples.is_empty(), "{id} has no example: {media}");
            for example in examples {
                assert_eq!(server.contract.faults(id, &media["schema"], example), None, "{id}: {example}");
                let frames =
                    example.as_str().unwrap_or_default().lines().filter_map(|line| line.strip_prefix("data: "));
                for frame in frames.map(|frame| serde_json::from_str(frame).unwrap()) {
                    assert_eq!(server.contract.faults(id, &media["schema"]["contentSchema"], &frame), None, "{id}");
                }
            }
        }
    }
}

/// Requests are told apart by the schema as they are by the server.
#[tokio::test]
async fn what_is_refused_is_not_in_the_document() {
    let server = Server::start().await;
    let contract = &server.contract;
    let schema = json!({ "$ref": "#/components/schemas/goose.ReplyRequest" });
    let text = json!([{ "type": "text", "text": "hello" }]);
    let image = |image: Value| json!({ "user_message": { "content": [image] } });
    let taken = [
        json!({ "user_message": { "content": "hello" } }),
        json!({ "user_message": { "role": "user", "content": text, "created": 1 }, "session_id": "doc-1" }),
        json!({ "user_message": { "role": null, "content": text, "created_at": "2026-03-04T10:00:00Z" }, "agent": null }),
        json!({ "user_message": { "content": [{ "type": "systemNotification" }, { "type": "text", "text": "x" }] } }),
        image(json!({ "type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png" })),
        image(json!({ "type": "image", "data": "iVBORw0KGgo=", "media_type": "image/png" })),
        image(json!({ "type": "image", "source": { "media_type": "image/png", "data": "iVBORw0KGgo=" } })),
        json!({ "user_message": { "content": "hello" }, "recipe_name": "code-helper", "recipe_parameters": { "lang": 7 } }),
    ];
    for body in taken {
        assert_eq!(contract.faults("taken", &schema, &body), None);
        assert_eq!(server.post("/reply", body.clone()).await.status, 200, "{body}");
    }
    let refused = [
        json!({}),
        json!([]),
        json!({ "user_message": null }),
        json!({ "user_message": {} }),
        json!({ "user_message": { "content": "" } }),
        json!({ "user_message": { "content": [] } }),
        json!({ "user_message": { "content": [{ "type": "text", "text": "" }] } }),
        json!({ "user_message": { "content": [{ "type": "text" }] } }),
        json!({ "user_message": { "content": [{ "type": "video", "text": "x" }] } }),
        json!({ "user_message": { "content": "x", "role": "assistant" } }),
        json!({ "user_message": { "content": "x", "id": "" } }),
        json!({ "user_message": { "content": "x", "metadata": [true, true] } }),
        json!({ "user_message": { "content": "x", "metadata": { "userVisible": null } } }),
        json!({ "user_message": { "content": "x" }, "session_id": "a b" }),
        json!({ "user_message": { "content": "x" }, "session_id": "import" }),
        json!({ "user_message": { "content": "x" }, "recipe_parameters": { "a": [] } }),
        json!({ "user_message": { "content": "x" }, "recipe_version": "1.0.0" }),
        json!({ "user_message": { "content": [{ "type": "toolRequest", "id": "c", "toolCall": { "name": "x" } }] } }),
        json!({ "user_message": { "content": [{ "type": "actionRequired", "data": { "actionType": "other" } }] } }),
        image(json!({ "type": "image", "data": "iVBORw0KGgo=", "mimeType": "text/plain" })),
        image(json!({ "type": "image", "data": "no base64!", "mimeType": "image/png" })),
        image(json!({ "type": "image", "data": "eA==", "mimeType": "image/png", "mime_type": "image/png" })),
        image(json!({ "type": "image", "source": { "url": "http://example.org/x.png" } })),
    ];
    for body in refused {
        assert!(contract.faults("refused", &schema, &body).is_some(), "{body}");
        let status = server.post("/reply", body.clone()).await.status;
        assert!(status == 400 || status == 422, "{status}: {body}");
    }
}
