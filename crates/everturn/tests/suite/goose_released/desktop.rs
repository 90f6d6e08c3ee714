//! The released desktop, from its start to a chat: its requests, one by one, with the headers and the bodies that it sends.

use serde_json::{Value, json};

use super::world::{Chat, Events, World, said, text, uuid};
use crate::suite::harness::{Answer, Client, Gate, Reply, key, script};

/// A desktop that is set to use this server: it says that every request is JSON, also those without a body.
struct Desktop {
    client: Client,
    secret: String,
}

impl Desktop {
    fn of(world: &World, who: &str) -> Self {
        Self { client: world.client(), secret: key(who) }
    }

    fn headers(&self) -> [(&str, &str); 2] {
        [("content-type", "application/json"), ("x-secret-key", &self.secret)]
    }

    #[track_caller]
    fn send(&self, method: &str, path: &str, body: &Value) -> Answer {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.client.send_with(method, &format!("/goose{path}"), &self.headers(), body)
    }

    #[track_caller]
    fn get(&self, path: &str) -> Value {
        let answer = self.send("GET", path, &Value::Null);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.json()
    }

    #[track_caller]
    fn post(&self, path: &str, body: &Value) -> Value {
        let answer = self.send("POST", path, body);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.json()
    }

    /// What a setting is.
    #[track_caller]
    fn read(&self, key: &str) -> Value {
        self.post("/config/read", &json!({ "key": key, "is_secret": false }))
    }

    #[track_caller]
    fn events(&self, session: &str) -> Events {
        let stream = self.client.open_with("GET", &format!("/goose/sessions/{session}/events"), &self.headers(), "");
        assert_eq!(stream.status(), 200);
        Events(stream)
    }
}

#[test]
fn from_its_start_to_an_answer() {
    let gate = Gate::default();
    script("desktop-one", [Reply::new().text("Hel").hold(&gate).text("lo!").finish("stop")]);
    let world = World::with_keys();
    let desktop = Desktop::of(&world, "acme");
    // Before a window is shown.
    assert_eq!(desktop.send("GET", "/status", &Value::Null).body, "ok");
    assert_eq!(desktop.read("GOOSE_TELEMETRY_ENABLED"), false);
    // The window: all settings, providers and extensions.
    let config = desktop.get("/config");
    assert_eq!(config["config"]["GOOSE_PROVIDER"], "script", "{config}");
    let providers = desktop.get("/config/providers");
    let provider = providers.as_array().unwrap().iter().find(|provider| provider["name"] == "script").unwrap();
    assert_eq!((&provider["is_configured"], &provider["provider_type"]), (&json!(true), &json!("Builtin")));
    let metadata = &provider["metadata"];
    assert_eq!((&metadata["display_name"], &metadata["config_keys"]), (&json!("script"), &json!([])));
    let known = metadata["known_models"].as_array().unwrap().iter().find(|model| model["name"] == "model").unwrap();
    assert!(known["context_limit"].as_u64().unwrap() > 0, "{known}");
    let before = desktop.get("/config/extensions");
    // It wants its own extensions to be there, and goes on without.
    let bundled =
        json!({ "type": "builtin", "name": "developer", "description": "Tools", "timeout": 300, "bundled": true });
    let sync = json!({ "name": "developer", "config": bundled, "enabled": true });
    let refused = desktop.send("POST", "/config/extensions", &sync);
    assert_eq!(refused.status, 405, "{refused:?}");
    assert!(refused.json()["message"].as_str().unwrap().contains("[mcp.NAME]"), "{refused:?}");
    let extensions = desktop.get("/config/extensions");
    assert_eq!(extensions, before);
    assert_eq!(
        (&extensions["extensions"][0]["name"], &extensions["extensions"][0]["enabled"]),
        (&json!("box"), &json!(true))
    );
    assert_eq!(desktop.send("GET", "/features", &Value::Null).status, 404);
    // Is there a provider? Else it would ask for one, and never show a chat.
    assert_eq!((desktop.read("GOOSE_PROVIDER"), desktop.read("GOOSE_MODEL")), (json!("script"), json!("model")));
    assert_eq!(desktop.read("GOOSE_AUTO_COMPACT_THRESHOLD"), Value::Null);
    assert_eq!(desktop.get("/sessions/insights"), json!({ "totalSessions": 0, "totalTokens": 0 }));
    assert_eq!(desktop.get("/sessions"), json!({ "sessions": [] }));
    assert_eq!(desktop.get("/config/slash_commands?working_dir=%2Fsrv%2Fann"), json!({ "commands": [] }));
    // A chat is begun with the extensions that were listed as enabled.
    let mut enabled = extensions["extensions"].clone();
    enabled[0].as_object_mut().unwrap().remove("enabled");
    let session = desktop.post("/agent/start", &json!({ "working_dir": "/srv/ann", "extension_overrides": enabled }));
    let id = session["id"].as_str().unwrap();
    for field in ["working_dir", "name", "created_at", "updated_at", "extension_data", "message_count"] {
        assert!(!session[field].is_null(), "{field}: {session}");
    }
    let mut events = desktop.events(id);
    let resumed = desktop.post("/agent/resume", &json!({ "session_id": id, "load_model_and_extensions": true }));
    assert_eq!(resumed["extension_results"], json!([{ "name": "box", "success": true, "error": null }]));
    assert_eq!(
        (&resumed["session"]["provider_name"], &resumed["session"]["conversation"]),
        (&json!("script"), &json!([]))
    );
    let apps = desktop.get(&format!("/agent/list_apps?session_id={id}"));
    assert_eq!(
        (apps["apps"].as_array().unwrap().len(), &apps["apps"][0]["uri"]),
        (1, &json!("ui://box/page")),
        "{apps}"
    );
    let tools = desktop.get(&format!("/agent/tools?session_id={id}"));
    assert_eq!(tools.as_array().unwrap().len(), 11, "{tools}");
    assert_eq!(desktop.get(&format!("/sessions/{id}/extensions"))["extensions"], enabled);
    // Something is said, and the answer comes while it is written.
    let request = json!({ "request_id": uuid(1), "user_message": said("play desktop-one") });
    assert_eq!(desktop.post(&format!("/sessions/{id}/reply"), &request), json!({ "request_id": uuid(1) }));
    let mut seen = events.until_one("the first words", |frame| text(std::slice::from_ref(frame)) == "Hel");
    gate.open();
    seen.extend(events.until_finish_of(1));
    assert_eq!((text(&seen).as_str(), &seen.last().unwrap().data["reason"]), ("Hello!", &json!("stop")));
    let shown = desktop.get(&format!("/sessions/{id}"));
    assert_eq!((&shown["message_count"], &shown["total_tokens"]), (&json!(2), &json!(15)), "{shown}");
    assert_eq!(desktop.get("/sessions/insights"), json!({ "totalSessions": 1, "totalTokens": 15 }));
}

/// The gauge of a chat shows what was used last: it does not fall to nothing while the next answer is written.
#[test]
fn its_gauge_keeps_what_it_knows() {
    let gate = Gate::default();
    let usage = json!({ "prompt_tokens": 70, "completion_tokens": 8 });
    script(
        "desktop-gauge",
        [
            Reply::new().text("One.").finish_with("stop", &usage),
            Reply::new().text("Two").hold(&gate).text(".").finish("stop"),
        ],
    );
    let world = World::with_keys();
    let chat = Chat::start(&world.client_of("acme"));
    chat.run(1, "play desktop-gauge");
    let mut events = chat.events();
    chat.say(2, "play desktop-gauge");
    let seen = events.until_one("the second answer", |frame| text(std::slice::from_ref(frame)) == "Two");
    let known = json!({
        "inputTokens": 70, "outputTokens": 8, "totalTokens": 78, "accumulatedInputTokens": 70,
        "accumulatedOutputTokens": 8, "accumulatedTotalTokens": 78, "accumulatedCost": null,
    });
    assert_eq!(seen.last().unwrap().data["token_state"], known);
    // A window that is opened now begins with the same.
    assert_eq!((&chat.show()["total_tokens"], &chat.show()["accumulated_total_tokens"]), (&json!(78), &json!(78)));
    gate.open();
    let end = events.until_finish_of(2).pop().unwrap().data["token_state"].clone();
    assert_eq!((&end["totalTokens"], &end["accumulatedTotalTokens"]), (&json!(15), &json!(93)));
}

#[test]
fn what_is_not_there_says_so() {
    let world = World::with_keys();
    let desktop = Desktop::of(&world, "acme");
    for (method, path, hint) in [
        ("GET", "/schedule/list", "cron"),
        ("POST", "/schedule/create", "cron"),
        ("GET", "/dictation/config", "speech"),
        ("GET", "/local-inference/models", "[providers]"),
        ("GET", "/tunnel/status", "reverse proxy"),
        ("POST", "/telemetry/event", "telemetry"),
        ("POST", "/config/set_provider", "[providers]"),
        ("POST", "/config/custom-providers", "[providers]"),
        ("GET", "/config/prompts", "instructions"),
        ("POST", "/config/backup", "configuration file"),
        ("POST", "/recipes/save", "[recipes] dir"),
        ("GET", "/agent/export_app/page", "list_apps"),
        ("GET", "/nothing", "docs/goose.md"),
    ] {
        let answer = desktop.send(method, path, &Value::Null);
        assert_eq!(answer.status, 404, "{path}: {answer:?}");
        let message = answer.json()["message"].as_str().unwrap().to_owned();
        assert!(message.contains(hint), "{path}: {message}");
    }
}

#[test]
fn sessions_are_found_by_what_was_said() {
    script("find-milk", [Reply::says(&["Buy MILK and bread."])]);
    script("find-tea", [Reply::says(&["Buy tea."])]);
    let world = World::with_keys();
    let desktop = Desktop::of(&world, "acme");
    let [milk, tea] = ["find-milk", "find-tea"].map(|name| {
        let chat = Chat::start(&world.client_of("acme"));
        chat.run(1, &format!("play {name}"));
        chat.id
    });
    let found = |query: &str| -> Vec<String> {
        let found = desktop.get(&format!("/sessions/search?{query}"));
        found.as_array().unwrap().iter().map(|session| session["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(found("query=milk"), std::slice::from_ref(&milk));
    assert_eq!(found("query=Bread%20buy"), std::slice::from_ref(&milk), "all words, in any order");
    assert_eq!(found("query=buy"), [tea.clone(), milk], "newest first");
    assert_eq!(found("query=buy&limit=1"), [tea]);
    assert_eq!(found("query=milk%20tea"), [] as [&str; 0]);
    assert_eq!(found("query=buy&after_date=2999-01-01T00:00:00Z"), [] as [&str; 0]);
    assert_eq!(found("query=buy&before_date=2999-01-01T00:00:00Z&limit=50").len(), 2);
    let bob = Desktop::of(&world, "bob");
    assert_eq!(bob.get("/sessions/search?query=milk"), json!([]), "it is nobody else's");
    assert_eq!(bob.get("/sessions/insights"), json!({ "totalSessions": 0, "totalTokens": 0 }));
    for (query, status) in [
        ("", 400),
        ("query=", 400),
        ("query=x&limit=0", 422),
        ("query=x&limit=51", 422),
        ("query=x&after_date=now", 422),
    ] {
        let answer = desktop.send("GET", &format!("/sessions/search?{query}"), &Value::Null);
        assert_eq!(answer.status, status, "{query}: {answer:?}");
    }
}

#[test]
fn a_link_is_read_and_begins_a_chat() {
    let world = World::with_keys();
    let desktop = Desktop::of(&world, "acme");
    let link = format!("goose://recipe?config={}", super::doors::RECIPE);
    let recipe = desktop.post("/recipes/decode", &json!({ "deeplink": link }))["recipe"].clone();
    assert_eq!((&recipe["title"], &recipe["prompt"]), (&json!("Mine"), &json!("Say hello.")), "{recipe}");
    let session = desktop.post("/agent/start", &json!({ "working_dir": "/srv/ann", "recipe": recipe }));
    assert_eq!(session["recipe"]["title"], "Mine");
    for wrong in ["", "no base64!", "e30"] {
        let answer = desktop.send("POST", "/recipes/decode", &json!({ "deeplink": wrong }));
        assert_eq!(answer.status, 400, "{wrong:?}: {answer:?}");
    }
}
