//! Recipes: what a session has of them.

use serde_json::{Value, json};

use super::harness::Server;

fn says(session: &str, recipe: &str, values: Value) -> Value {
    let message = json!({ "role": "user", "content": "hello" });
    json!({ "session_id": session, "user_message": message, "recipe_name": recipe, "recipe_parameters": values })
}

#[tokio::test]
async fn a_recipe_dresses_its_session() {
    let server = Server::start().await;
    server.post("/reply", says("s", "code-helper", json!({ "lang": "Rust" }))).await.said();
    let session = server.get("/goose/sessions/s").await.json(200);
    assert_eq!(session["recipe"]["title"], "Code helper");
    assert_eq!(session["user_recipe_values"], json!({ "lang": "Rust" }));
    assert_eq!(session["model_config"]["model_name"], "other");
    assert_eq!(session["model_config"]["temperature"], 0.25);
    let record = server.engine.session(&"acme".parse().unwrap(), &"s".parse().unwrap()).await.unwrap().unwrap();
    let overlay = record.config.overlay.unwrap();
    assert_eq!(overlay.instructions.as_deref(), Some("You help with Rust."));
    assert_eq!((overlay.max_steps, overlay.temperature, overlay.tools), (Some(5), Some(250), None));
    // The same again is fine, another one is not.
    server.post("/reply", says("s", "code-helper", json!({}))).await.said();
    assert!(server.post("/reply", says("s", "plain", json!({}))).await.message(409).contains("code-helper"));
}

#[tokio::test]
async fn a_recipe_brings_its_tools_and_no_others() {
    let server = Server::start().await;
    server.post("/reply", says("s", "plain", json!({}))).await.said();
    let tools = server.get("/goose/agent/tools?session_id=s").await.json(200);
    assert_eq!(tools.as_array().unwrap().len(), 1);
    assert_eq!((&tools[0]["name"], &tools[0]["permission"]), (&json!("clock"), &json!("always_allow")));
}

#[tokio::test]
async fn refusals_say_what_is_missing() {
    let server = Server::start().await;
    let refused = async |body, status| server.post("/reply", body).await.message(status);
    assert!(refused(says("a", "nope", json!({})), 404).await.contains("code-helper, developer"));
    let mut version = says("a", "plain", json!({}));
    version["recipe_version"] = json!("2.0.0");
    assert!(refused(version, 404).await.contains("1.0.0"));
    assert!(refused(says("a", "code-helper", json!({})), 422).await.contains("lang"));
    assert!(refused(says("a", "code-helper", json!({ "lang": "x", "other": "y" })), 422).await.contains("other"));
    let developer = refused(says("a", "developer", json!({})), 422).await;
    assert!(developer.contains("[mcp.developer]"), "{developer}");
    assert!(refused(says("a", "elsewhere", json!({})), 422).await.contains("demo"));
    // Nothing was made.
    server.get("/goose/sessions/a").await.message(404);
    server.post("/reply", json!({ "session_id": "a", "user_message": { "content": "hello" } })).await.said();
    assert!(refused(says("a", "plain", json!({})), 409).await.contains("without a recipe"));
}

#[tokio::test]
async fn values_may_come_after_the_recipe() {
    let server = Server::start().await;
    let listed = server.get("/goose/recipes/list").await.json(200);
    let ids: Vec<_> = listed["manifests"].as_array().unwrap().iter().map(|manifest| &manifest["id"]).collect();
    assert!(ids.contains(&&json!("code-helper@1.0.0")), "{ids:?}");
    let start = json!({ "working_dir": "/srv/ann", "recipe_id": "code-helper@1.0.0" });
    let session = server.post("/goose/agent/start", start).await.json(200);
    assert_eq!((&session["working_dir"], &session["conversation"]), (&json!("/srv/ann"), &Value::Null));
    assert_eq!(session["recipe"]["parameters"][0]["key"], "lang");
    let id = session["id"].as_str().unwrap();
    let hello = json!({ "session_id": id, "user_message": { "content": "hello" } });
    assert!(server.post("/goose/reply", hello.clone()).await.message(422).contains("lang"));
    let path = format!("/goose/sessions/{id}/user_recipe_values");
    assert!(
        server.call("PUT", &path, json!({ "userRecipeValues": {} })).await.message(400).contains("Missing required")
    );
    let rendered = server.call("PUT", &path, json!({ "userRecipeValues": { "lang": "Go" } })).await.json(200);
    assert_eq!(rendered["recipe"]["instructions"], "You help with Go.");
    server.post("/goose/reply", hello).await.said();
    let session = server.get(&format!("/goose/sessions/{id}")).await.json(200);
    assert_eq!(session["user_recipe_values"], json!({ "lang": "Go" }));
    server.call("PUT", &path, json!({ "userRecipeValues": { "lang": "C" } })).await.message(409);
}

#[tokio::test]
async fn a_client_may_bring_a_recipe() {
    let server = Server::start().await;
    let recipe = json!({ "title": "Mine", "description": "Mine", "instructions": "Be kind." });
    let session = server.post("/goose/agent/start", json!({ "recipe": recipe })).await.json(200);
    assert_eq!(session["recipe"]["title"], "Mine");
    let wrong = json!({ "recipe": { "title": "Mine" } });
    assert!(server.post("/goose/agent/start", wrong).await.message(400).starts_with("recipe: "));
    server.post("/goose/agent/start", json!({ "recipe_deeplink": "goose://recipe" })).await.message(422);
}

/// A recipe that names some of the agent's tools and models, or others.
fn recipe(extensions: &Value, settings: &Value) -> Value {
    json!({ "title": "R", "description": "R", "instructions": "Be kind.", "extensions": extensions, "settings": settings })
}

#[tokio::test]
async fn a_recipe_of_a_client_narrows_and_never_widens() {
    let server = Server::start().await;
    let extension = |name: &str| json!([{ "type": "builtin", "name": name }]);
    let start =
        async |server: &Server, recipe: &Value| server.post("/goose/agent/start", json!({ "recipe": recipe })).await;
    let overlay = async |answer: super::harness::Answer| {
        let id = answer.json(200)["id"].as_str().unwrap().parse().unwrap();
        let record = server.engine.session(&"acme".parse().unwrap(), &id).await.unwrap().unwrap();
        record.config.overlay.unwrap()
    };
    let own = recipe(&extension("clock"), &json!({ "goose_provider": "demo", "goose_model": "demo", "max_turns": 3 }));
    let has = overlay(start(&server, &own).await).await;
    assert_eq!((has.model.as_deref(), has.max_steps), (Some("demo/demo"), Some(3)));
    assert_eq!(has.tools, Some(vec!["clock".to_owned()]));
    // The server has this tool, the agent does not.
    let tool = recipe(&extension("create_artifact"), &json!({}));
    let refused = start(&server, &tool).await.message(403);
    assert!(
        refused.contains("create_artifact") && refused.contains("calculator") && refused.contains("admin"),
        "{refused}"
    );
    let model = recipe(&json!(null), &json!({ "goose_provider": "demo", "goose_model": "other" }));
    let refused = start(&server, &model).await.message(403);
    assert!(refused.contains("demo/other") && refused.contains("demo/demo"), "{refused}");
    // Also where the model comes with the values.
    let mut templated = recipe(&json!(null), &json!({ "goose_provider": "demo", "goose_model": "{{ model }}" }));
    templated["parameters"] =
        json!([{ "key": "model", "input_type": "string", "requirement": "required", "description": "m" }]);
    let session = start(&server, &templated).await.json(200)["id"].as_str().unwrap().to_owned();
    let values = |model: &str| json!({ "userRecipeValues": { "model": model } });
    let path = format!("/goose/sessions/{session}/user_recipe_values");
    assert!(server.call("PUT", &path, values("other")).await.message(403).contains("demo/other"));
    let says = json!({ "session_id": session, "user_message": { "content": "hello" }, "recipe_parameters": { "model": "other" } });
    assert!(server.post("/goose/reply", says).await.message(403).contains("demo/other"));
    assert_eq!(server.call("PUT", &path, values("demo")).await.status, 200);
    // A turn has no more steps than the agent's.
    let long = recipe(&json!(null), &json!({ "max_turns": 500 }));
    assert_eq!(overlay(start(&server, &long).await).await.max_steps, Some(10));
    let admin = server.by("admin");
    for beyond in [&tool, &model] {
        start(&admin, beyond).await.json(200);
    }
    assert_eq!(overlay(start(&admin, &long).await).await.max_steps, Some(500));
}

#[tokio::test]
async fn an_imported_recipe_narrows_too() {
    let server = Server::start().await;
    let import = |recipe: Value| json!({ "conversation": [], "recipe": recipe });
    let other = recipe(&json!(null), &json!({ "goose_provider": "demo", "goose_model": "other" }));
    let refused = server.post("/goose/sessions/import", import(other.clone())).await.message(403);
    assert!(refused.contains("demo/other") && refused.contains("admin"), "{refused}");
    let imported = server.by("admin").post("/goose/sessions/import", import(other)).await.json(200);
    assert_eq!(imported["model_config"]["model_name"], "other");
    let own = recipe(&json!([{ "type": "builtin", "name": "clock" }]), &json!({}));
    let imported = server.post("/goose/sessions/import", import(own)).await.json(200);
    assert_eq!(imported["recipe"]["title"], "R");
    // What the server lacks is left out, as before: there is nothing to widen to.
    let lacking = recipe(&json!([{ "type": "builtin", "name": "developer" }]), &json!({}));
    assert_eq!(server.post("/goose/sessions/import", import(lacking)).await.json(200)["recipe"], Value::Null);
}
