//! One of everything that a tenant can have.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::suite::{
    harness::{Answer, Client, Gate, Reply, eventually, script},
    native::world::{Turn, spawn},
};

/// In all that they say and write, in every name that they choose.
pub(super) const MARK: &str = "zanzibar";

/// A key for requests, used for everything that takes one.
pub(super) const IDEMPOTENCY: &str = "zanzibar-request-1";

/// Names by kind.
pub(super) type Names = BTreeMap<&'static str, String>;

/// What a tenant has.
pub(super) struct Things {
    pub(super) client: Client,
    /// For every session its names, and those of all that belongs to no session.
    pub(super) sessions: Vec<Names>,
    pub(super) running: Turn,
    pub(super) waiting: Turn,
    gate: Gate,
}

#[track_caller]
fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}

#[track_caller]
fn get(client: &Client, path: &str) -> Value {
    let answer = client.send("GET", path, "");
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    answer.json()
}

#[track_caller]
fn post(client: &Client, method: &str, path: &str, body: &Value) -> Answer {
    let headers = [("content-type", "application/json")];
    let answer = client.send_with(method, path, &headers, body.to_string());
    assert!((200..300).contains(&answer.status), "{path}: {answer:?}");
    answer
}

/// A document with this content.
#[track_caller]
pub(super) fn upload(client: &Client, key: &str, content: &str) -> Answer {
    let head = "Content-Disposition: form-data; name=\"file\"; filename=\"zanzibar.txt\"\r\nContent-Type: text/plain";
    let body = format!("--b\r\n{head}\r\n\r\n{content}\r\n--b--\r\n");
    let headers = [("content-type", "multipart/form-data; boundary=b"), ("idempotency-key", key)];
    let answer = client.send_with("POST", "/api/v1/documents", &headers, body);
    assert_eq!(answer.status, 201, "{answer:?}");
    answer
}

/// A tool that the application runs.
fn lookup(schema: &str) -> Value {
    json!({ "name": "lookup", "description": "Looks it up", (schema): { "type": "object" } })
}

impl Things {
    /// Makes them. `who` keeps the scripts of two apart.
    #[track_caller]
    pub(super) fn new(client: &Client, who: &str) -> Self {
        let gate = Gate::default();
        let play = |what: &str| format!("{MARK}: play walk-{who}-{what}");
        let plays = |what: &str, replies: Vec<Reply>| script(&format!("walk-{who}-{what}"), replies);
        let ask = |what: &str| json!({ "agent_id": "writer", "message": play(what) });
        let mut sessions = Vec::new();

        // One that has ended, with an artifact of two versions, a title, and a part of it as another session.
        let artifact = json!({ "title": "Map of zanzibar", "type": "text", "content": "zanzibar, first" });
        plays("ended", vec![Reply::calls(&[("create_artifact", artifact)]), Reply::says(&["That is zanzibar."])]);
        let ended = spawn(client, &ask("ended"));
        ended.complete();
        let artifact = text(&get(client, "/api/v1/artifacts")["artifacts"][0]["artifact_id"]);
        let change = json!({ "artifact_id": artifact, "content": "zanzibar, second" });
        plays("changed", vec![Reply::calls(&[("update_artifact", change)]), Reply::says(&["Changed zanzibar."])]);
        ended.say(&play("changed")).complete();
        post(client, "PATCH", &format!("/api/v1/sessions/{}", ended.session), &json!({ "title": "About zanzibar" }));
        let part = json!({ "at_message_id": ended.message });
        let fork = post(client, "POST", &format!("/api/v1/sessions/{}/fork", ended.session), &part).json();
        sessions.extend([ended.session.clone(), text(&fork["session_id"])]);

        // One that waits for a person, one that runs, with another behind it.
        let schema = json!({ "type": "object", "properties": { "word": { "type": "string" } }, "required": ["word"] });
        let form = json!({ "kind": "clarify", "title": "Which zanzibar?", "schema": schema });
        plays("waiting", vec![Reply::calls(&[("request_form", form)]), Reply::says(&["Thanks."])]);
        let waiting = spawn(client, &ask("waiting"));
        waiting.paused();
        let form = text(&get(client, "/api/v1/forms")["forms"][0]["form_id"]);
        plays("running", vec![Reply::new().text("Once in zanzibar").hold(&gate).stops(), Reply::says(&["Next."])]);
        let running = spawn(client, &ask("running"));
        running.open().until("Once");
        let queued = json!({ "session_id": running.session, "message": play("running"), "on_busy": "enqueue" });
        post(client, "POST", "/api/v1/sessions/stream", &queued);
        sessions.extend([waiting.session.clone(), running.session.clone()]);

        // Both versions of the agents' protocol, each with a call that waits for the application.
        let calls = || vec![Reply::calls(&[("lookup", json!({ "what": MARK }))])];
        plays("aap1", calls());
        let message = |what: &str| json!([{ "role": "user", "content": play(what) }]);
        let agent = json!({ "name": "scripted" });
        let body = json!({ "agent": agent, "messages": message("aap1"), "tools": [lookup("inputSchema")] });
        let waits = post(client, "PUT", "/session", &body).json();
        plays("aap3", calls());
        let body = json!({ "agent": agent, "tools": [lookup("parameters")] });
        let third = text(&post(client, "POST", "/aap/v3/sessions", &body).json()["sessionId"]);
        let body = json!({ "messages": message("aap3") });
        post(client, "POST", &format!("/aap/v3/sessions/{third}/turns"), &body);
        let call = text(&waits["messages"].as_array().unwrap().last().unwrap()["content"][0]["toolCallId"]);
        sessions.extend([text(&waits["sessionId"]), third]);

        // Goose: a session that its client has named; one with a recipe and a tool that asks first; a lasting word on a tool.
        let said =
            |what: &str| json!({ "role": "user", "created": 1, "content": [{ "type": "text", "text": play(what) }] });
        plays("goose", vec![Reply::says(&["Said in zanzibar."])]);
        let named = format!("{MARK}-notes-of-{who}");
        let message_name = format!("{MARK}-message-of-{who}");
        let mut first = said("goose");
        first["id"] = message_name.as_str().into();
        let body = json!({ "session_id": named, "agent": "scripted", "user_message": first });
        post(client, "POST", "/reply", &body);
        plays("asks", vec![Reply::calls(&[("clock", json!({}))])]);
        plays("always", vec![Reply::calls(&[("calculator", json!({ "expression": "1+1" }))]), Reply::says(&["Two."])]);
        let recipe = json!({ "version": "1.0.0", "title": "Of zanzibar", "description": "zanzibar",
            "instructions": "Speak of zanzibar in {{ place }}.",
            "parameters": [{ "key": "place", "input_type": "string", "requirement": "optional", "default": MARK,
                "description": "Where" }] });
        let mut asking = |what: &str, tool: &str| {
            let tools = json!([{ "name": tool, "trust": false }]);
            let turn = spawn(client, &json!({ "agent_id": "writer", "message": play(what), "tools": tools }));
            turn.paused();
            let forms = get(client, &format!("/api/v1/forms?status=open&session_id={}", turn.session));
            sessions.push(turn.session);
            text(&forms["forms"][0]["payload"]["tool_call_id"])
        };
        let word = asking("always", "calculator");
        let decided = json!({ "id": word, "action": "always_allow" });
        post(client, "POST", "/goose/action-required/tool-confirmation", &decided);
        let waiting_call = asking("asks", "clock");
        let start = json!({ "agent": "scripted", "working_dir": "/srv/zanzibar", "recipe": recipe });
        let dressed = text(&post(client, "POST", "/goose/agent/start", &start).json()["id"]);
        let request = format!("0197f2ab-0000-7abc-8def-{:012x}", who.len());
        plays("split", vec![Reply::says(&["Said of zanzibar."])]);
        let body = json!({ "request_id": request, "user_message": said("split") });
        post(client, "POST", &format!("/goose/sessions/{dressed}/reply"), &body);
        eventually("it is said", || {
            let turns = get(client, &format!("/api/v1/sessions/{dressed}/messages"));
            (turns["messages"][0]["status"] == "completed").then_some(())
        });
        sessions.push(dressed);
        let unbegun =
            post(client, "POST", "/goose/agent/start", &json!({ "agent": "scripted", "recipe": recipe })).json();

        // OpenAI: a call that waits.
        plays("openai", calls());
        let tool = json!({ "type": "function", "function": lookup("parameters") });
        let body = json!({ "model": "scripted", "messages": message("openai"), "tools": [tool] });
        let completion = post(client, "POST", "/v1/chat/completions", &body).json();
        let shown_call = text(&completion["choices"][0]["message"]["tool_calls"][0]["id"]);
        sessions.extend([named, text(&completion["session_id"]), text(&unbegun["id"])]);

        // What belongs to no session.
        let document = upload(client, IDEMPOTENCY, "zanzibar, uploaded").json();
        let document = text(&document["document_id"]);
        upload(client, "zanzibar-request-2", "zanzibar, uploaded too");
        let agent = format!("{MARK}-guide-of-{who}");
        for agent in [agent.clone(), format!("{MARK}-cook-of-{who}")] {
            let body = json!({ "agent_id": agent, "name": "Guide to zanzibar", "model": "demo/load" });
            post(client, "POST", "/api/v1/agents", &body);
        }
        let [key, _] = ["first", "second"].map(|name| {
            let body = json!({ "name": format!("{name} of zanzibar"), "scopes": ["read"] });
            text(&post(client, "POST", "/api/v1/keys", &body).json()["key_id"])
        });
        let shared = Self::shared(client, &document, &artifact);
        let shared = shared.into_iter().chain([
            ("form", form),
            ("artifact", artifact),
            ("document", document),
            ("agent", agent),
            ("tool", "calculator".to_owned()),
            ("key", key),
            ("call", call),
            ("waiting_call", waiting_call),
            ("shown_call", shown_call),
            ("request", request),
            ("message_name", message_name),
            ("idempotency", IDEMPOTENCY.to_owned()),
        ]);
        let shared: Names = shared.collect();
        let sessions = sessions.into_iter().map(|session| {
            let turns = get(client, &format!("/api/v1/sessions/{session}/messages"));
            let turn = turns["messages"][0]["message_id"].as_str().unwrap_or(&ended.message).to_owned();
            let mut names = shared.clone();
            names.extend([("said", format!("{turn}.u1")), ("event", format!("{turn}:1")), ("turn", turn)]);
            names.insert("session", session);
            names
        });
        Self { client: client.clone(), sessions: sessions.collect(), running, waiting, gate }
    }

    /// Cursors, tags, and a key.
    fn shared(client: &Client, document: &str, artifact: &str) -> Vec<(&'static str, String)> {
        let next = |path: &str, name: &str| text(&get(client, path)[name]);
        let cursors = [
            ("sessions_cursor", "/api/v1/sessions?limit=1"),
            ("forms_cursor", "/api/v1/forms?limit=1"),
            ("documents_cursor", "/api/v1/documents?limit=1"),
            ("agents_cursor", "/api/v1/agents?limit=1"),
            ("keys_cursor", "/api/v1/keys?limit=1"),
            ("usage_cursor", "/api/v1/usage?limit=1"),
        ];
        let tag = |path: String| client.send("GET", &path, "").header("etag").to_owned();
        let more = [
            ("after", next("/goose/sessions?limit=1", "next")),
            ("document_tag", tag(format!("/api/v1/documents/{document}/content"))),
            ("artifact_tag", tag(format!("/api/v1/artifacts/{artifact}"))),
            // Lists that are too short to have a second page.
            ("messages_cursor", "mffffff".to_owned()),
            ("artifacts_cursor", "affffff".to_owned()),
            ("permissions_cursor", "pffffff".to_owned()),
        ];
        cursors.into_iter().map(|(kind, path)| (kind, next(path, "next_cursor"))).chain(more).collect()
    }

    /// Lets the turn that runs come to its end.
    pub(super) fn let_go(&self) {
        self.gate.open();
    }
}

/// The same names, made up: as long, and of the same characters.
pub(super) fn made_up(names: &Names) -> Names {
    let made_up = |(kind, name): (&&'static str, &String)| {
        // What it says is checked, and what it says is a place in a list.
        if *kind == "usage_cursor" {
            return (*kind, name.clone());
        }
        let keep = match *kind {
            // What it begins with says which list it is of.
            kind if kind.ends_with("cursor") || kind == "after" => 1,
            _ => 0,
        };
        let fixed = match *kind {
            "said" | "event" => name.find(['.', ':']).unwrap_or(name.len()),
            _ => name.len(),
        };
        let first = keep.max(fixed.saturating_sub(6));
        let other =
            name.chars().enumerate().map(|(at, char)| if at < first || at >= fixed { char } else { turned(char) });
        (*kind, other.collect())
    };
    names.iter().map(made_up).collect()
}

fn turned(char: char) -> char {
    let next = |from: char, to: char| if char == to { from } else { char::from(char as u8 + 1) };
    match char {
        '0'..='9' => next('0', '9'),
        'a'..='f' => next('a', 'f'),
        'g'..='z' => next('g', 'z'),
        'A'..='Z' => next('A', 'Z'),
        other => other,
    }
}
