//! Tenants who want all of the memory: they are refused, and the others are served.

use std::{io::Write as _, net::TcpStream};

use serde_json::{Value, json};

use crate::suite::harness::{
    Answer, Client, Gate, Home, Reply, Server, Streaming, eventually, key, script, shared_config,
};

/// The least that may be configured. A tenant may hold half of it.
const MEMORY: usize = 256 * 1024 * 1024;
const STALLED: usize = 20;
/// So much of each stalled body arrives that all of them take what a tenant may hold.
const ARRIVED: usize = MEMORY / 2 / STALLED;

fn home() -> Home {
    let mut config = shared_config(&format!("memory = {MEMORY}"));
    for who in ["acme", "bob"] {
        config += &format!("[[keys]]\nkey = '{}'\ntenant = '{who}'\nscopes = ['chat']\n", key(who));
    }
    Home::new(&config)
}

/// Bodies that begin and never end.
fn stall(server: &Server, who: &str) -> Vec<TcpStream> {
    let head = format!(
        "PUT /session HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n",
        key(who),
        ARRIVED + 1000
    );
    let body = vec![b' '; ARRIVED];
    let stall = |_| {
        let mut socket = TcpStream::connect(server.address).unwrap();
        socket.write_all(head.as_bytes()).unwrap();
        socket.write_all(&body).unwrap();
        socket
    };
    let stalled = (0..STALLED).map(stall).collect();
    eventually("all of it has arrived", || (held(server, "bodies") == ARRIVED * STALLED).then_some(()));
    stalled
}

/// The bytes that are held for something.
fn held(server: &Server, kind: &str) -> usize {
    metric(server, &format!("everturn_memory_bytes{{kind=\"{kind}\"}} "))
}

fn metric(server: &Server, name: &str) -> usize {
    let metrics = server.client().send("GET", "/metrics", "").body;
    let line = metrics.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_else(|| panic!("no {name} in {metrics}")).parse().unwrap()
}

fn message(text: &str) -> String {
    json!({ "agent": { "name": "demo" }, "messages": [{ "role": "user", "content": text }] }).to_string()
}

/// A session with so many bytes of text.
fn import(client: &Client, bytes: usize) -> String {
    let text = "x".repeat(bytes / 2);
    let say =
        |role: &str| json!({ "role": role, "created": 1_772_618_400, "content": [{ "type": "text", "text": text }] });
    let body = json!({ "name": "Long", "conversation": [say("user"), say("assistant")] }).to_string();
    let made = client.send("POST", "/goose/sessions/import", &body);
    assert_eq!(made.status, 200, "{made:?}");
    made.json()["id"].as_str().unwrap().to_owned()
}

#[track_caller]
fn refused(answer: &Answer) -> Value {
    assert_eq!(answer.status, 503, "{answer:?}");
    assert_eq!(answer.header("retry-after"), "2", "{answer:?}");
    assert!(answer.body.contains("all tenants share 269 MB (limits.memory); try again"), "{answer:?}");
    answer.json()
}

#[test]
fn a_tenant_with_stalled_bodies_is_refused_more_and_others_are_served() {
    let home = home();
    let server = home.start();
    let [acme, bob] = ["acme", "bob"].map(|who| server.client().with_key(&key(who)));
    let long = import(&acme, 100_000);
    let stalled = stall(&server, "acme");

    // In the words of every dialect.
    let text = "x".repeat(100_000);
    assert!(refused(&acme.send("PUT", "/session", &message(&text)))["error"].is_string());
    let v3 = json!({ "agent": { "name": "demo" }, "messages": [{ "role": "user", "content": text }] }).to_string();
    assert!(refused(&acme.send("POST", "/aap/v3/sessions", &v3))["error"].is_string());
    let native = json!({ "message": text, "agent_id": "demo" }).to_string();
    assert_eq!(refused(&acme.send("POST", "/api/v1/sessions/stream", &native))["detail"]["code"], "OVERLOADED");
    let chat = json!({ "model": "demo", "messages": [{ "role": "user", "content": text }] }).to_string();
    assert_eq!(refused(&acme.send("POST", "/v1/chat/completions", &chat))["error"]["type"], "server_error");
    let goose =
        json!({ "conversation": [{ "role": "user", "created": 1, "content": [{ "type": "text", "text": text }] }] });
    assert!(refused(&acme.send("POST", "/goose/sessions/import", &goose.to_string()))["message"].is_string());

    // Whatever it is that takes memory.
    let form =
        format!("--b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\n{text}\r\n--b--\r\n");
    let upload = |client: &Client| {
        client.send_with(
            "POST",
            "/api/v1/documents",
            &[("content-type", "multipart/form-data; boundary=b")],
            form.clone(),
        )
    };
    assert_eq!(refused(&upload(&acme))["detail"]["code"], "OVERLOADED");
    assert!(refused(&acme.send("GET", &format!("/session/{long}"), ""))["error"].is_string());
    assert!(refused(&acme.send("GET", &format!("/goose/sessions/{long}"), ""))["message"].is_string());
    let messages = format!("/api/v1/sessions/{long}/messages");
    assert_eq!(refused(&acme.send("GET", &messages, ""))["detail"]["code"], "OVERLOADED");
    let fork = format!("/api/v1/sessions/{long}/fork");
    assert_eq!(refused(&acme.send("POST", &fork, ""))["detail"]["code"], "OVERLOADED");
    assert!(metric(&server, "everturn_memory_refused_total{kind=\"bodies\"} ") >= 5);

    // Nobody else notices.
    assert_eq!(bob.send("PUT", "/session", &message("stream 1")).status, 201);
    assert_eq!(upload(&bob).status, 201);
    let own = import(&bob, 1_000_000);
    assert_eq!(bob.send("GET", &format!("/session/{own}"), "").status, 200);

    drop(stalled);
    eventually("it is given back", || (held(&server, "bodies") == 0).then_some(()));
    assert_eq!(acme.send("PUT", "/session", &message("stream 1")).status, 201);
    assert_eq!(upload(&acme).status, 201);
    assert_eq!(acme.send("POST", &fork, "").status, 201);
    for kind in ["bodies", "uploads", "answers", "cuts", "model_requests"] {
        eventually(kind, || (held(&server, kind) == 0).then_some(()));
    }
}

#[test]
fn answers_that_nobody_reads_hold_what_a_tenant_may_and_no_more() {
    const SESSION: usize = 12_000_000;
    let home = home();
    let server = home.start();
    let [acme, bob] = ["acme", "bob"].map(|who| server.client().with_key(&key(who)));
    let path = format!("/session/{}", import(&acme, SESSION));
    let own = import(&bob, 100_000);
    let unread: Vec<_> = (0..8).map(|_| acme.open("GET", &path, "")).collect();
    let statuses: Vec<u16> = unread.iter().map(Streaming::status).collect();
    // Each holds the history twice, in full and compacted, and takes twice as much while it is built.
    assert_eq!(statuses, [200, 200, 200, 200, 503, 503, 503, 503]);
    let held_now = held(&server, "answers");
    assert!((4 * 2 * SESSION..MEMORY / 2).contains(&held_now), "{held_now}");
    assert_eq!(bob.send("GET", &format!("/session/{own}"), "").status, 200);
    // Who reads gets all of it, and gives the memory back.
    let mut unread = unread.into_iter();
    let read = unread.next().unwrap().into_answer();
    assert_eq!(read.header("content-length"), read.bytes.len().to_string());
    assert_eq!(read.json()["history"]["full"].as_array().unwrap().len(), 2);
    assert_eq!(acme.send("GET", &path, "").status, 200);
    drop(unread);
    eventually("it is given back", || (held(&server, "answers") == 0).then_some(()));
}

#[test]
fn a_turn_that_finds_no_memory_pauses_says_so_and_goes_on() {
    let home = home();
    let server = home.start();
    let acme = server.client().with_key(&key("acme"));
    let gate = Gate::default();
    let first = Reply::new().text("first").hold(&gate).call("clock", "{}").stops();
    script("thirsty", [first, Reply::says(&["It went on."])]);
    let spawn = json!({ "message": "play thirsty", "agent_id": "scripted" }).to_string();
    let spawned = acme.send("POST", "/api/v1/sessions/stream", &spawn);
    assert_eq!(spawned.status, 202, "{spawned:?}");
    let [session, turn] = ["x-session-id", "x-message-id"].map(|name| spawned.header(name).to_owned());
    let mut stream = acme.open("GET", &format!("/api/v1/sessions/{session}/messages/{turn}/stream"), "");
    stream.until("first");
    eventually("the request is on its way", || (held(&server, "model_requests") == 0).then_some(()));
    let stalled = stall(&server, "acme");
    gate.open();
    stream.until("the turn waits for memory: ");
    // Whoever reads it is told to come back, as for any pause.
    stream.rest();
    drop(stalled);
    let shown = format!("/api/v1/sessions/{session}/messages/{turn}");
    eventually("it goes on", || acme.send("GET", &shown, "").body.contains("It went on.").then_some(()));
}
