//! Applications follow turns with an `EventSource`, as browsers have it: whatever happens to the connection or the server,
//! they see the whole log once, and need no code of their own for that.

mod watcher;

use std::{
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU16, Ordering},
};

use serde_json::{Value, json};
use watcher::{Frame, Seen, Watcher};

use super::harness::{Client, Gate, Home, Reply, eventually, key, script, shared_config};

#[test]
fn chromium_sees_the_log_once() {
    walk("browser", Watcher::start("browser.mjs"));
}

#[test]
fn node_sees_the_log_once() {
    walk("eventsource", Watcher::start("eventsource.mjs"));
}

/// One client for everything: starting a browser takes longer than all that it does here.
fn walk(client: &str, mut watcher: Watcher) {
    let mut server = Server::start();
    // What the server allows other origins is put to the test by every stream that a page opens.
    let own = format!("http://{}", server.address);
    assert_eq!(watcher.origin.is_some(), client == "browser");
    assert_ne!(watcher.origin, Some(own), "the page has another origin than the server");
    a_long_answer(&server, &mut watcher);
    only_the_turns_own_token_opens_it(&server, &mut watcher);
    a_form_in_the_middle(client, &server, &mut watcher);
    the_server_is_killed_in_the_middle(client, &mut server, &mut watcher);
}

fn a_long_answer(server: &Server, watcher: &mut Watcher) {
    let turn = server.spawn("demo", "stream 200 at 400/s");
    let seen = watcher.watch(turn.url(&turn.token())).whole();
    assert_eq!((seen.opened, seen.errors.as_slice(), seen.statuses.as_slice()), (1, &[][..], &[200][..]), "{seen:?}");
    turn.check(&seen);
    let said: String = (1..=200).map(|n| format!("word {n} ")).collect();
    assert_eq!(final_response(&seen), said);
    assert_eq!(deltas(&seen.frames), said);
    // One that comes when everything is over sees the same.
    let late = watcher.watch(turn.url(&turn.token())).whole();
    assert_eq!(late.frames, seen.frames);
}

fn only_the_turns_own_token_opens_it(server: &Server, watcher: &mut Watcher) {
    let (turn, other) = (server.spawn("demo", "stream 1"), server.spawn("demo", "stream 1"));
    let expired = turn.token_with(&json!({ "ttl_seconds": 1 }));
    eventually("the token expires", || {
        let answer = Client { key: None, ..turn.client.clone() }.send("GET", &turn.path_with(&expired), "");
        (answer.status == 401).then_some(())
    });
    let refused = [turn.url(&other.token()), turn.url(&expired), turn.url("nonsense"), turn.plain_url()];
    for url in refused {
        let mut source = watcher.watch(url.clone());
        let seen = source.until("a refusal", |seen| !seen.errors.is_empty() && !seen.statuses.is_empty());
        assert_eq!((seen.errors.as_slice(), seen.statuses.as_slice()), (&[2][..], &[401][..]), "{url}: it gives up");
        assert_eq!((seen.opened, seen.frames.len()), (0, 0), "{url}: {seen:?}");
    }
    turn.check(&watcher.watch(turn.url(&turn.token())).whole());
}

/// The server closes the stream when the turn waits. The client comes back, and stays until somebody answers.
fn a_form_in_the_middle(client: &str, server: &Server, watcher: &mut Watcher) {
    let name = format!("form-{client}");
    let schema = json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] });
    let form = json!({ "kind": "clarify", "title": "Which city?", "schema": schema });
    script(&name, [Reply::calls(&[("request_form", form)]), Reply::says(&["It ", "rains ", "in Oslo."])]);
    let turn = server.spawn("asking", &format!("play {name}"));
    let mut source = watcher.watch(turn.url(&turn.token()));
    source.until("the form", |seen| seen.has("paused"));
    let seen = source.until("the same stream, open and silent", |seen| seen.opened == 2 && seen.heartbeats > 0);
    assert_eq!((seen.errors.as_slice(), seen.statuses.as_slice()), (&[0][..], &[200, 200][..]), "{seen:?}");

    let form = seen.frames.iter().find(|frame| frame.kind() == "form_request").expect("a form").json();
    let answer = json!({ "session_id": turn.session, "form_id": form["form_id"], "form_answer": { "city": "Oslo" } });
    let answered = turn.client.send("POST", "/api/v1/sessions/stream", &answer.to_string());
    assert_eq!(answered.status, 202, "{answered:?}");
    assert_eq!(answered.json(), json!({ "session_id": turn.session, "message_id": turn.id, "kind": "form_answer" }));

    let seen = source.whole();
    assert_eq!((seen.opened, seen.errors.len()), (2, 1), "it stayed: {seen:?}");
    turn.check(&seen);
    assert_eq!(final_response(&seen), "It rains in Oslo.");
}

fn the_server_is_killed_in_the_middle(client: &str, server: &mut Server, watcher: &mut Watcher) {
    let (name, never, gate) = (format!("killed-{client}"), Gate::default(), Gate::default());
    let first = Reply::new().text("one ").text("two ").hold(&never);
    let second = Reply::new().text("uno ").hold(&gate).text("due ").text("tre").stops();
    script(&name, [first, second]);
    let turn = server.spawn("asking", &format!("play {name}"));
    let mut source = watcher.watch(turn.url(&turn.token()));
    // It comes back with the id of a heartbeat.
    source.until("the beginning, and silence", |seen| seen.says("two ") == 1 && seen.heartbeats > 0);
    let before = source.seen.frames.clone();
    server.kill();
    source.until("a server in vain", |seen| seen.errors.len() >= 2);
    server.restart();
    let seen = source.until("the step begun again", |seen| seen.says("uno ") == 1);
    assert!(seen.errors.iter().all(|state| *state == 0), "it never gives up: {seen:?}");
    gate.open();
    let seen = source.whole();
    assert_eq!(seen.opened, 2, "{seen:?}");
    turn.check(&seen);
    assert!(seen.frames.starts_with(&before), "what was seen before the crash still holds: {seen:?}");
    let kinds: Vec<_> = seen.frames[before.len()..].iter().map(Frame::kind).collect();
    assert_eq!(kinds, ["retry_notification", "delta", "delta", "delta", "complete"]);
    assert_eq!(deltas(&seen.frames[before.len()..]), "uno due tre");
    assert_eq!(final_response(&seen), "uno due tre");
}

/// The answer, from its pieces.
fn deltas(frames: &[Frame]) -> String {
    let pieces = frames.iter().filter(|frame| frame.kind() == "delta").map(Frame::json);
    pieces.map(|delta| delta["content"].as_str().unwrap().to_owned()).collect()
}

/// The answer, as the turn's end has it.
#[track_caller]
fn final_response(seen: &Seen) -> String {
    let end = seen.frames.last().unwrap().json();
    end["final_response"].as_str().unwrap_or_else(|| panic!("no answer: {end}")).to_owned()
}

/// A turn, and somebody with the key to it.
struct Turn {
    client: Client,
    session: String,
    id: String,
}

impl Turn {
    /// Where its stream is, on the server.
    fn path(&self) -> String {
        format!("/api/v1/sessions/{}/messages/{}/stream", self.session, self.id)
    }

    fn path_with(&self, token: &str) -> String {
        format!("{}?token={token}", self.path())
    }

    /// Where its stream is, for those with this token.
    fn url(&self, token: &str) -> String {
        format!("http://{}{}", self.client.address, self.path_with(token))
    }

    fn plain_url(&self) -> String {
        format!("http://{}{}", self.client.address, self.path())
    }

    /// A token for its stream.
    #[track_caller]
    fn token(&self) -> String {
        self.token_with(&json!({}))
    }

    #[track_caller]
    fn token_with(&self, settings: &Value) -> String {
        let path = format!("/api/v1/sessions/{}/messages/{}/token", self.session, self.id);
        let answer = self.client.send("POST", &path, &settings.to_string());
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.json()["token"].as_str().unwrap_or_else(|| panic!("no token: {answer:?}")).to_owned()
    }

    /// Whether an `EventSource` has shown what the log says: all of it, once, in order.
    #[track_caller]
    fn check(&self, seen: &Seen) {
        assert_eq!(seen.frames, self.log());
        let mut ids: Vec<_> = seen.frames.iter().map(|frame| &frame.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), seen.frames.len(), "every frame has an id of its own: {:#?}", seen.frames);
    }

    /// The whole log of a turn that is over, as plain requests with the key give it.
    #[track_caller]
    fn log(&self) -> Vec<Frame> {
        let mut frames: Vec<Frame> = Vec::new();
        loop {
            let last = frames.last().map(|frame| frame.id.clone());
            let headers: Vec<_> = last.iter().map(|id| ("last-event-id", id.as_str())).collect();
            let answer = self.client.send_with("GET", &self.path(), &headers, "");
            assert_eq!((answer.status, answer.header("content-type")), (200, "text/event-stream"), "{answer:?}");
            let fields = |frame: &str| {
                let field = |name| frame.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
                Some(Frame { id: field("id: ")?, data: field("data: ")? })
            };
            let known = frames.len();
            frames.extend(answer.body.split("\n\n").filter_map(fields).filter(|frame| frame.kind() != "heartbeat"));
            match frames.last().map(Frame::kind).as_deref() {
                Some("complete") => return frames,
                Some("paused") if frames.len() > known => {}
                _ => panic!("the log ends in the middle: {frames:#?}"),
            }
        }
    }
}

/// The server, always at the same address: clients that come back know no other.
struct Server {
    home: Home,
    address: SocketAddr,
    child: Child,
}

impl Server {
    #[track_caller]
    fn start() -> Self {
        let asking = "[[agents]]\nname = 'asking'\nmodel = 'script/model'\ntools = ['request_form']\ntitles = false\n";
        let keys = format!("[[keys]]\nkey = '{}'\ntenant = 'acme'\nscopes = ['chat', 'read']\n", key("acme"));
        // Heartbeats come soon, so that nobody waits long for them.
        let home = Home::new(&(shared_config("heartbeat = '500ms'") + asking + &keys));
        let address = free_address();
        let server = Self { child: launch(&home, address), home, address };
        server.listens()
    }

    /// Ends it as a crash does.
    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again on what it left.
    #[track_caller]
    fn restart(&mut self) {
        self.child = launch(&self.home, self.address);
    }

    #[track_caller]
    fn listens(mut self) -> Self {
        eventually("the server listens", || {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "the server does not start: {}", self.home.log());
            TcpStream::connect(self.address).ok()
        });
        self
    }

    /// Begins a turn in a new session.
    #[track_caller]
    fn spawn(&self, agent: &str, message: &str) -> Turn {
        let client = Client { address: self.address, key: Some(key("acme")) };
        let body = json!({ "agent_id": agent, "message": message }).to_string();
        let answer = client.send("POST", "/api/v1/sessions/stream", &body);
        assert_eq!(answer.status, 202, "{answer:?}");
        let spawned = answer.json();
        let id = |name: &str| spawned[name].as_str().unwrap_or_else(|| panic!("no {name}: {spawned}")).to_owned();
        Turn { session: id("session_id"), id: id("message_id"), client }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("the server's log:\n{}", self.home.log());
        }
    }
}

fn launch(home: &Home, address: SocketAddr) -> Child {
    let log = std::fs::File::create(home.path().join("log.txt")).unwrap();
    Command::new(env!("CARGO_BIN_EXE_everturn"))
        .args(["--listen", &address.to_string()])
        .current_dir(home.path())
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap()
}

/// An address that is free, and below those that systems give away by themselves: nobody takes it while the server is dead.
fn free_address() -> SocketAddr {
    static TRIED: AtomicU16 = AtomicU16::new(0);
    (0..1000)
        .map(|_| {
            let own = std::process::id() % 10_000;
            let port = 20_000 + (own as u16 + TRIED.fetch_add(1, Ordering::Relaxed)) % 10_000;
            SocketAddr::from(([127, 0, 0, 1], port))
        })
        .find(|address| TcpListener::bind(address).is_ok())
        .expect("one of so many is free")
}
