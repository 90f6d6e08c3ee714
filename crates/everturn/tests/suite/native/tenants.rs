//! Two tenants on one server: neither sees, changes or even learns of anything that is the other's.

use serde_json::{Value, json};

use super::{
    documents::uploaded,
    world::{Turn, World, config, play, spawn},
};
use crate::suite::harness::{Answer, Client, Gate, Reply, key, script};

fn world() -> World {
    let keys: String = ["ann", "bob"]
        .iter()
        .map(|who| format!("[[keys]]\nkey = '{}'\ntenant = '{who}'\nscopes = ['admin']\n", key(who)))
        .collect();
    World::with(&(config("") + &keys))
}

/// One of everything.
struct Things {
    running: Turn,
    waiting: Turn,
    form: String,
    artifact: String,
    document: String,
    agent: String,
}

impl Things {
    fn new(client: &Client, name: &str, gate: &Gate) -> Self {
        let schema = json!({ "type": "object", "properties": { "word": { "type": "string" } }, "required": ["word"] });
        let form = json!({ "kind": "clarify", "title": "Which?", "schema": schema });
        let artifact = json!({ "title": "Mine", "type": "text", "content": "mine" });
        script(
            &format!("{name}-waiting"),
            [
                Reply::calls(&[("create_artifact", artifact)]),
                Reply::calls(&[("request_form", form)]),
                Reply::says(&["Thanks."]),
            ],
        );
        script(&format!("{name}-running"), [Reply::new().text("Once").hold(gate).stops()]);
        let waiting = play(client, &format!("{name}-waiting"));
        waiting.paused();
        let running = play(client, &format!("{name}-running"));
        running.open().until("Once");
        let first = |list: &str, id: &str| {
            let listed = client.send("GET", &format!("/api/v1/{list}"), "").json();
            listed[list][0][id].as_str().unwrap().to_owned()
        };
        let agent = format!("{name}-agent");
        let body = json!({ "agent_id": agent, "name": "Mine", "model": "demo/load" }).to_string();
        assert_eq!(client.send("POST", "/api/v1/agents", &body).status, 201);
        Self {
            running,
            waiting,
            form: first("forms", "form_id"),
            artifact: first("artifacts", "artifact_id"),
            document: uploaded(client, "mine.txt", b"mine"),
            agent,
        }
    }

    /// Everything that can be asked about them, or done to them.
    fn requests(&self) -> Vec<(&'static str, String, String)> {
        let mut requests = vec![];
        let mut add = |method, path: String, body: Value| {
            let body = if body.is_null() { String::new() } else { body.to_string() };
            requests.push((method, format!("/api/v1{path}"), body));
        };
        for turn in [&self.running, &self.waiting] {
            let session = format!("/sessions/{}", turn.session);
            let message = format!("{session}/messages/{}", turn.message);
            add("GET", session.clone(), Value::Null);
            add("PATCH", session.clone(), json!({ "title": "Yours" }));
            add("GET", format!("{session}/messages"), Value::Null);
            add("GET", message.clone(), Value::Null);
            add("GET", format!("{message}/stream"), Value::Null);
            add("GET", format!("{message}/stream?as=aap-delta&since=1"), Value::Null);
            add("POST", format!("{message}/token"), json!({}));
            add("POST", format!("{session}/stop"), Value::Null);
            add("POST", format!("{message}/stop"), Value::Null);
            for on_busy in ["enqueue", "reject", "interrupt"] {
                let body = json!({ "session_id": turn.session, "message": "blue", "on_busy": on_busy });
                add("POST", "/sessions/stream".to_owned(), body);
            }
            add("DELETE", session, Value::Null);
        }
        let answer =
            json!({ "session_id": self.waiting.session, "form_id": self.form, "form_answer": { "word": "blue" } });
        add("POST", "/sessions/stream".to_owned(), answer);
        add("POST", "/sessions/stream".to_owned(), json!({ "agent_id": self.agent, "message": "hi" }));
        add("POST", "/sessions/stream".to_owned(), json!({ "message": "hi", "document_ids": [self.document] }));
        add("GET", format!("/forms/{}", self.form), Value::Null);
        add("GET", format!("/artifacts/{}", self.artifact), Value::Null);
        add("GET", format!("/artifacts/{}?version=1", self.artifact), Value::Null);
        add("GET", format!("/artifacts/{}/versions", self.artifact), Value::Null);
        add("GET", format!("/documents/{}", self.document), Value::Null);
        add("GET", format!("/documents/{}/content", self.document), Value::Null);
        add("DELETE", format!("/documents/{}", self.document), Value::Null);
        add("GET", format!("/agents/{}", self.agent), Value::Null);
        add("PATCH", format!("/agents/{}", self.agent), json!({ "name": "Yours" }));
        add("DELETE", format!("/agents/{}", self.agent), Value::Null);
        requests
    }

    /// The same names, made up.
    fn invented(&self) -> Self {
        let made_up = |id: &str| {
            let (kind, digits) = id.split_once('_').unwrap_or(("", id));
            let digits: String = digits.chars().rev().collect();
            if kind.is_empty() { digits } else { format!("{kind}_{digits}") }
        };
        let turn =
            |turn: &Turn| Turn { session: made_up(&turn.session), message: made_up(&turn.message), ..turn.clone() };
        Self {
            running: turn(&self.running),
            waiting: turn(&self.waiting),
            form: made_up(&self.form),
            artifact: made_up(&self.artifact),
            document: made_up(&self.document),
            agent: made_up(&self.agent),
        }
    }

    /// All that their owner sees of them.
    fn seen(&self, client: &Client) -> Vec<String> {
        let lists = ["sessions", "forms", "artifacts", "documents", "agents"].map(|list| format!("/api/v1/{list}"));
        let shown = [&self.running, &self.waiting].map(Turn::path);
        let content =
            [format!("/api/v1/artifacts/{}", self.artifact), format!("/api/v1/documents/{}/content", self.document)];
        lists.into_iter().chain(shown).chain(content).map(|path| client.send("GET", &path, "").body).collect()
    }
}

/// What an answer says, without the names in it.
fn told(answer: &Answer) -> (u16, Value) {
    let code = if answer.body.is_empty() { Value::Null } else { answer.json()["detail"]["code"].clone() };
    (answer.status, code)
}

#[test]
fn whatever_is_asked_it_is_not_there() {
    let world = world();
    let [ann, bob] = ["ann", "bob"].map(|who| world.client().with_key(&key(who)));
    let gate = Gate::default();
    let things = Things::new(&ann, "tenants", &gate);
    let before = things.seen(&ann);
    let mut stream = things.running.open();
    stream.until("Once");
    let invented = things.invented();
    for ((method, path, body), (_, unknown, unknown_body)) in things.requests().into_iter().zip(invented.requests()) {
        let answer = bob.send(method, &path, &body);
        if method == "POST" && path.ends_with("/stop") {
            assert_eq!(answer.status, 204, "{path}");
        } else {
            assert_eq!(answer.status, 404, "{method} {path} {body}: {answer:?}");
        }
        // It cannot even be told from what never was.
        assert_eq!(told(&answer), told(&bob.send(method, &unknown, &unknown_body)), "{method} {path}");
    }
    for list in ["sessions", "forms", "artifacts", "documents"] {
        for query in ["", "?session_id=ANN"] {
            let query = query.replace("ANN", &things.waiting.session);
            let answer = bob.send("GET", &format!("/api/v1/{list}{query}"), "");
            assert_eq!(answer.json(), json!({ (list): [] }));
        }
    }
    assert!(!bob.send("GET", "/api/v1/agents", "").body.contains(&things.agent));
    // Nothing has changed for her.
    assert_eq!(things.seen(&ann), before);
    gate.open();
    assert!(stream.until("\"complete\"").contains("Once"));
    assert_eq!(things.waiting.say("blue").kind, "form_answer");
    assert_eq!(things.waiting.complete()["final_response"], "Thanks.");
}

/// Another's form is none in one's own session, and names that tenants choose are each tenant's own.
#[test]
fn names_are_each_tenants_own() {
    let world = world();
    let [ann, bob] = ["ann", "bob"].map(|who| world.client().with_key(&key(who)));
    let gate = Gate::default();
    let things = Things::new(&ann, "tenants-names", &gate);
    let own = spawn(&bob, &json!({ "agent_id": "demo", "message": "stream 1" }));
    own.complete();
    let answer = json!({ "session_id": own.session, "form_id": things.form, "form_answer": { "word": "blue" } });
    let refused = bob.send("POST", "/api/v1/sessions/stream", &answer.to_string());
    assert_eq!(told(&refused), (404, json!("FORM_NOT_FOUND")));
    // An agent of the same id is another agent.
    let body = json!({ "agent_id": things.agent, "name": "His", "model": "demo/load" }).to_string();
    assert_eq!(bob.send("POST", "/api/v1/agents", &body).status, 201);
    let name =
        |client: &Client| client.send("GET", &format!("/api/v1/agents/{}", things.agent), "").json()["name"].clone();
    assert_eq!((name(&ann), name(&bob)), (json!("Mine"), json!("His")));
    assert_eq!(bob.send("DELETE", &format!("/api/v1/agents/{}", things.agent), "").status, 204);
    assert_eq!(name(&ann), "Mine");
    // So is a request of the same key.
    let send = |client: &Client| {
        let headers = [("idempotency-key", "the-same"), ("content-type", "application/json")];
        let body = r#"{"agent_id":"demo","message":"stream 1"}"#;
        client.send_with("POST", "/api/v1/sessions/stream", &headers, body).json()["session_id"].clone()
    };
    assert_ne!(send(&ann), send(&bob));
    assert_eq!(send(&ann), send(&ann));
    gate.open();
}
