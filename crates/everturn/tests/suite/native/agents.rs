//! Agents: those of the configuration, and those that a tenant stores beside them.

use expect_test::expect;
use serde_json::{Value, json};

use super::world::{World, config, spawn};
use crate::suite::harness::{Answer, Client, Reply, Talk, asked, key, script};

const PATH: &str = "/api/v1/agents";

fn create(client: &Client, agent: &Value) -> Answer {
    client.send("POST", PATH, &agent.to_string())
}

/// An agent with everything that one can say.
fn ann() -> Value {
    json!({
        "agent_id": "ann",
        "name": "Ann",
        "description": "Does sums",
        "instructions": "Be exact.",
        "model": "script/model",
        "fallback": ["demo/load"],
        "tools": ["calculator", "clock"],
        "trusted": ["calculator"],
        "max_steps": 3,
        "effort": "high",
        "thinking": "summary",
        "temperature": 0.5,
    })
}

#[track_caller]
fn refused(answer: &Answer, status: u16, code: &str) -> String {
    assert_eq!((answer.status, &answer.json()["detail"]["code"]), (status, &json!(code)), "{answer:?}");
    answer.json()["detail"]["message"].as_str().unwrap().to_owned()
}

#[test]
fn they_are_made_changed_and_taken_out_of_use() {
    let world = World::start("");
    let mut talk = Talk::new(world.client());
    talk.send(r#"POST /api/v1/agents {"name":"Bo","model":"demo/load"}"#);
    talk.send(&format!("POST /api/v1/agents {}", ann()));
    talk.send(r#"PATCH /api/v1/agents/ann {"name":"Anna","description":null,"tools":["calculator"],"max_steps":5}"#);
    talk.send("GET /api/v1/agents/agent#1");
    talk.send("DELETE /api/v1/agents/agent#1");
    talk.send("GET /api/v1/agents/agent#1");
    talk.send("GET /api/v1/agents/scripted");
    talk.check(expect![[r#"
        > POST /api/v1/agents {"name":"Bo","model":"demo/load"}
        201
        content-type: application/json
        {
          "agent_id": "agent#1",
          "created_at": "<time>",
          "description": null,
          "fallback": [],
          "instructions": "",
          "max_steps": 25,
          "model": "demo/load",
          "name": "Bo",
          "source": "stored",
          "tools": [],
          "trusted": [],
          "updated_at": "<time>"
        }

        > POST /api/v1/agents {"agent_id":"ann","description":"Does sums","effort":"high","fallback":["demo/load"],"instructions":"Be exact.","max_steps":3,"model":"script/model","name":"Ann","temperature":0.5,"thinking":"summary","tools":["calculator","clock"],"trusted":["calculator"]}
        201
        content-type: application/json
        {
          "agent_id": "ann",
          "created_at": "<time>",
          "description": "Does sums",
          "effort": "high",
          "fallback": ["demo/load"],
          "instructions": "Be exact.",
          "max_steps": 3,
          "model": "script/model",
          "name": "Ann",
          "source": "stored",
          "temperature": 0.5,
          "thinking": "summary",
          "tools": ["calculator","clock"],
          "trusted": ["calculator"],
          "updated_at": "<time>"
        }

        > PATCH /api/v1/agents/ann {"name":"Anna","description":null,"tools":["calculator"],"max_steps":5}
        200
        content-type: application/json
        {
          "agent_id": "ann",
          "created_at": "<time>",
          "description": null,
          "effort": "high",
          "fallback": ["demo/load"],
          "instructions": "Be exact.",
          "max_steps": 5,
          "model": "script/model",
          "name": "Anna",
          "source": "stored",
          "temperature": 0.5,
          "thinking": "summary",
          "tools": ["calculator"],
          "trusted": ["calculator"],
          "updated_at": "<time>"
        }

        > GET /api/v1/agents/agent#1
        200
        content-type: application/json
        {
          "agent_id": "agent#1",
          "created_at": "<time>",
          "description": null,
          "fallback": [],
          "instructions": "",
          "max_steps": 25,
          "model": "demo/load",
          "name": "Bo",
          "source": "stored",
          "tools": [],
          "trusted": [],
          "updated_at": "<time>"
        }

        > DELETE /api/v1/agents/agent#1
        204

        > GET /api/v1/agents/agent#1
        404
        content-type: application/json
        {
          "detail": {"code":"AGENT_NOT_FOUND","hint":"GET /api/v1/agents lists them","message":"there is no agent \"agent#1\""}
        }

        > GET /api/v1/agents/scripted
        200
        content-type: application/json
        {
          "agent_id": "scripted",
          "description": null,
          "fallback": [],
          "max_steps": 25,
          "model": "script/model",
          "name": "scripted",
          "source": "configured",
          "tools": ["clock","calculator"],
          "trusted": []
        }

    "#]]);
    let listed = world.client().send("GET", PATH, "").json();
    let ids: Vec<_> = listed["agents"].as_array().unwrap().iter().map(|a| (&a["agent_id"], &a["source"])).collect();
    assert_eq!(ids.first(), Some(&(&json!("demo"), &json!("configured"))));
    assert_eq!(ids.last(), Some(&(&json!("ann"), &json!("stored"))));
    assert_eq!(ids.iter().filter(|(_, source)| **source == "stored").count(), 1, "the other one is deleted");
}

#[test]
fn those_of_the_configuration_are_read_only() {
    let world = World::start("");
    let client = world.client();
    let before = client.send("GET", "/api/v1/agents/demo", "").json();
    for (method, body) in [("PATCH", r#"{"name":"Mine"}"#), ("DELETE", "")] {
        let message = refused(&client.send(method, "/api/v1/agents/demo", body), 400, "AGENT_READ_ONLY");
        assert!(message.contains("configured"), "{message}");
    }
    refused(
        &create(&client, &json!({ "agent_id": "demo", "name": "Mine", "model": "demo/load" })),
        409,
        "AGENT_EXISTS",
    );
    assert_eq!(client.send("GET", "/api/v1/agents/demo", "").json(), before);
    assert_eq!(before.get("instructions"), None, "these are the operator's");
}

#[test]
fn what_cannot_be() {
    let world = World::start("");
    let client = world.client();
    assert_eq!(create(&client, &ann()).status, 201);
    let mut shown = String::new();
    for (field, value) in [
        ("agent_id", json!("")),
        ("agent_id", json!("a b")),
        ("agent_id", json!("x".repeat(65))),
        ("agent_id", json!(7)),
        ("name", json!(" ")),
        ("name", json!("x".repeat(201))),
        ("name", json!(null)),
        ("description", json!("x".repeat(2001))),
        ("instructions", json!("x".repeat(256 * 1024 + 1))),
        ("model", json!("script")),
        ("model", json!("nobody/model")),
        ("model", json!("script/ ")),
        ("fallback", json!(["demo/load", "nobody/model"])),
        ("fallback", json!(vec!["demo/load"; 9])),
        ("tools", json!(["hammer"])),
        ("tools", json!(["clock", "calculator", "clock"])),
        ("trusted", json!(["wait"])),
        ("effort", json!("none")),
        ("thinking", json!("auto")),
        ("temperature", json!(2.5)),
        ("temperature", json!("hot")),
        ("max_steps", json!(0)),
        ("max_steps", json!(1001)),
        ("max_steps", json!(-1)),
    ] {
        let mut agent = ann();
        agent["agent_id"] = json!("new");
        agent[field] = value.clone();
        let message = refused(&create(&client, &agent), 422, "VALIDATION_FAILED");
        shown += &format!("{message}\n");
        // A change that cannot be changes nothing.
        let changed = client.send("PATCH", "/api/v1/agents/ann", &json!({ (field): value }).to_string());
        assert!(changed.status == 422 || value.is_null(), "{field} {value}: {changed:?}");
    }
    expect![[r#"
        agent_id: it must have 1 to 64 characters of A-Z a-z 0-9 . _ -
        agent_id: it must have 1 to 64 characters of A-Z a-z 0-9 . _ -
        agent_id: it must have 1 to 64 characters of A-Z a-z 0-9 . _ -
        the body is not valid at agent_id: invalid type: integer `7`, expected a string at line 1 column 13
        name: it must have 1 to 200 characters
        name: it must have 1 to 200 characters
        name is missing
        description: it may have 2000 characters at most
        instructions: they may have 262144 bytes at most
        model: "script" names no model; write provider/model, with one of: demo, lines, script
        model: "nobody/model" names no model; write provider/model, with one of: demo, lines, script
        model: "script/ " names no model; write provider/model, with one of: demo, lines, script
        fallback: "nobody/model" names no model; write provider/model, with one of: demo, lines, script
        fallback: there may be 8 models at most
        tools: there is no tool "hammer"; there are: calculator, clock, create_artifact, read_result, request_form, update_artifact, wait
        tools: "clock" is named twice
        trusted: "wait" is not one of the agent's tools
        effort: it cannot be "none"; use one of "minimal", "low", "medium", "high", "xhigh", "max"
        thinking: it cannot be "auto"; use one of "off", "on", "summary"
        temperature: it must be between 0 and 2, not 2.5
        the body is not valid at temperature: invalid type: string "hot", expected f64 at line 1 column 181
        max_steps: it must be between 1 and 1000
        max_steps: it must be between 1 and 1000
        the body is not valid at max_steps: invalid value: integer `-1`, expected u32 at line 1 column 126
    "#]].assert_eq(&shown);
    refused(&client.send("GET", "/api/v1/agents/new", ""), 404, "AGENT_NOT_FOUND");
    let kept = client.send("GET", "/api/v1/agents/ann", "").json();
    for (field, value) in ann().as_object().unwrap() {
        assert_eq!(kept[field], *value);
    }
    // Its largest sizes are taken.
    let large = json!({
        "agent_id": "x".repeat(64),
        "name": "é".repeat(200),
        "description": "é".repeat(2000),
        "instructions": "x".repeat(256 * 1024),
        "model": "demo/load",
        "max_steps": 1000,
    });
    assert_eq!(create(&client, &large).status, 201);
}

#[test]
fn conflicts() {
    let world = World::start("");
    let client = world.client();
    assert_eq!(create(&client, &ann()).status, 201);
    refused(&create(&client, &ann()), 409, "AGENT_EXISTS");
    // Sent again with its key, it is the same one.
    let send = |key: &str, body: &Value| {
        let headers = [("idempotency-key", key), ("content-type", "application/json")];
        client.send_with("POST", PATH, &headers, body.to_string())
    };
    let bob = json!({ "name": "Bob", "model": "demo/load" });
    let (first, again) = (send("bob", &bob), send("bob", &bob));
    assert_eq!((first.status, again.status, first.json()), (201, 201, again.json()));
    refused(&send("bob", &ann()), 409, "IDEMPOTENCY_KEY_REUSED");
    // An id is not given twice: sessions of the first one would find themselves with another agent.
    assert_eq!(client.send("DELETE", "/api/v1/agents/ann", "").status, 204);
    refused(&create(&client, &ann()), 409, "AGENT_EXISTS");
    for (method, body) in [("GET", ""), ("DELETE", ""), ("PATCH", "{}")] {
        refused(&client.send(method, "/api/v1/agents/ann", body), 404, "AGENT_NOT_FOUND");
    }
    refused(
        &client.send("PATCH", &format!("{PATH}/{}", first.json()["agent_id"].as_str().unwrap()), r#"{"agent_id":"b"}"#),
        422,
        "VALIDATION_FAILED",
    );
    // Of many changes at once each is taken whole, or refused as a conflict.
    let path = format!("{PATH}/{}", first.json()["agent_id"].as_str().unwrap());
    let threads: Vec<_> = (0..8)
        .map(|number| {
            let (client, path) = (client.clone(), path.clone());
            let body = json!({ "name": format!("Bob {number}"), "description": format!("Number {number}") });
            std::thread::spawn(move || client.send("PATCH", &path, &body.to_string()))
        })
        .collect();
    let answers: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert!(answers.iter().any(|answer| answer.status == 200));
    for answer in answers.iter().filter(|answer| answer.status != 200) {
        refused(answer, 409, "CONFLICT");
    }
    let shown = client.send("GET", &path, "").json();
    let number = shown["name"].as_str().unwrap().strip_prefix("Bob ").unwrap();
    assert_eq!(shown["description"], format!("Number {number}").as_str());
}

#[test]
fn turns_run_under_them() {
    let mut world = World::start("");
    let client = world.client();
    assert_eq!(create(&client, &ann()).status, 201);
    // The model is asked for a title as well, once the first exchange is over.
    let calls = Reply::calls(&[("calculator", json!({ "expression": "6*7" }))]);
    script("agents-run", [calls, Reply::says(&["42."]), Reply::says(&["Sums"])]);
    let turn = spawn(&client, &json!({ "agent_id": "ann", "message": "play agents-run" }));
    let frames = turn.frames();
    assert_eq!(frames[0].data["agent_id"], "ann");
    assert_eq!(turn.complete()["final_response"], "42.");
    let request = asked("agents-run")[0].clone();
    assert!(request["messages"][0]["content"].as_str().unwrap().contains("Be exact."), "{request}");
    let tools: Vec<_> = request["tools"].as_array().unwrap().iter().map(|tool| &tool["function"]["name"]).collect();
    assert_eq!(tools, ["calculator", "clock"]);

    // The other protocol can use it too, with the tools that the client enables.
    script("agents-aap", [Reply::says(&["Hello."])]);
    let body = r#"{"agent":{"name":"ann","tools":[{"name":"clock"}]},"messages":[{"role":"user","content":"play agents-aap"}]}"#;
    let answer = client.send("PUT", "/session", body);
    assert_eq!((answer.status, &answer.json()["messages"][0]["content"]), (201, &json!("Hello.")), "{answer:?}");

    // A change counts from the next turn on.
    let change = json!({ "instructions": "Be quick.", "tools": [], "trusted": [] }).to_string();
    assert_eq!(client.send("PATCH", "/api/v1/agents/ann", &change).status, 200);
    script("agents-changed", [Reply::says(&["Quick."])]);
    turn.say("play agents-changed").complete();
    let request = asked("agents-changed")[0].clone();
    assert!(request["messages"][0]["content"].as_str().unwrap().contains("Be quick."), "{request}");
    assert!(request.get("tools").is_none_or(|tools| *tools == json!([])), "{request}");

    // Deleted, it takes no new sessions; those that it has go on, also after a crash.
    assert_eq!(client.send("DELETE", "/api/v1/agents/ann", "").status, 204);
    world.crash();
    let (client, turn) = (world.client(), turn.on(&world));
    let body = json!({ "agent_id": "ann", "message": "hello" }).to_string();
    refused(&client.send("POST", "/api/v1/sessions/stream", &body), 404, "AGENT_NOT_FOUND");
    let body = r#"{"agent":{"name":"ann"},"messages":[{"role":"user","content":"hello"}]}"#;
    assert!(matches!(client.send("PUT", "/session", body).status, 400 | 404));
    script("agents-deleted", [Reply::says(&["Still here."])]);
    assert_eq!(turn.say("play agents-deleted").complete()["final_response"], "Still here.");
    assert!(asked("agents-deleted")[0].to_string().contains("Be quick."));
}

#[test]
fn unknown_agents() {
    let world = World::start("");
    let client = world.client();
    let spawn = |body: Value| client.send("POST", "/api/v1/sessions/stream", &body.to_string());
    let message = refused(&spawn(json!({ "agent_id": "nobody", "message": "hi" })), 404, "AGENT_NOT_FOUND");
    assert!(message.contains("nobody"), "{message}");
    refused(&spawn(json!({ "agent_id": "x".repeat(10_000), "message": "hi" })), 404, "AGENT_NOT_FOUND");
    // A session keeps its agent.
    let made = spawn(json!({ "agent_id": "demo", "message": "stream 1" })).json();
    let answer = spawn(json!({ "session_id": made["session_id"], "agent_id": "writer", "message": "hi" }));
    refused(&answer, 422, "VALIDATION_FAILED");
    for (method, body) in [("GET", ""), ("DELETE", ""), ("PATCH", "{}")] {
        refused(&client.send(method, "/api/v1/agents/nobody", body), 404, "AGENT_NOT_FOUND");
    }
}

/// Everybody may use agents; only who administers a tenant may make them.
#[test]
fn only_admins_make_them() {
    let keys: String = [("ann", "'chat'"), ("boss", "'admin'"), ("reader", "'read'")]
        .iter()
        .map(|(who, scopes)| format!("[[keys]]\nkey = '{}'\ntenant = 'acme'\nscopes = [{scopes}]\n", key(who)))
        .collect();
    let world = World::with(&(config("") + &keys));
    let [ann, boss, reader] = ["ann", "boss", "reader"].map(|who| world.client().with_key(&key(who)));
    let agent = json!({ "agent_id": "sums", "name": "Sums", "model": "demo/load" });
    assert_eq!(create(&boss, &agent).status, 201);
    for client in [&ann, &reader] {
        refused(&create(client, &agent), 403, "AUTH_PERMISSION_DENIED");
        for (method, body) in [("PATCH", r#"{"name":"Mine"}"#), ("DELETE", "")] {
            refused(&client.send(method, "/api/v1/agents/sums", body), 403, "AUTH_PERMISSION_DENIED");
        }
        assert_eq!(client.send("GET", "/api/v1/agents/sums", "").json()["name"], "Sums");
    }
    spawn(&ann, &json!({ "agent_id": "sums", "message": "stream 1" })).complete();
}
