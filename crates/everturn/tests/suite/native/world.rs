//! What these tests share: a server of their own, its turns, and the frames of their streams.

use std::fmt;

use serde_json::{Value, json};

use crate::suite::harness::{Answer, Client, Home, Server, Streaming, shared_config};

/// Agents that these tests need beside the harness's: one with every tool, and one whose sessions are named by the
/// model.
const AGENTS: &str = "
[[agents]]
name = 'writer'
model = 'script/model'
titles = false
tools = ['clock', 'calculator', 'request_form', 'create_artifact', 'update_artifact', 'wait']
trusted = ['clock', 'calculator']
[[agents]]
name = 'titled'
model = 'script/model'
";

/// A configuration with these limits, without keys.
pub(crate) fn config(limits: &str) -> String {
    shared_config(limits) + AGENTS
}

/// A server of a test's own.
pub(crate) struct World {
    pub(crate) home: Home,
    pub(crate) server: Server,
}

impl World {
    /// Without keys: everybody may do everything.
    #[track_caller]
    pub(crate) fn start(limits: &str) -> Self {
        Self::with(&config(limits))
    }

    #[track_caller]
    pub(crate) fn with(config: &str) -> Self {
        let home = Home::new(config);
        Self { server: home.start(), home }
    }

    pub(crate) fn client(&self) -> Client {
        self.server.client()
    }

    /// Kills the server and starts it again on what it left.
    #[track_caller]
    pub(crate) fn crash(&mut self) {
        self.server.kill();
        self.server = self.home.start();
    }
}

/// A turn of a session, and who reads it.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    pub(crate) client: Client,
    pub(crate) session: String,
    pub(crate) message: String,
    pub(crate) kind: String,
}

/// One frame of a stream.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) id: String,
    pub(crate) data: Value,
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.id, self.data)
    }
}

impl Frame {
    /// A frame with an id and data, and the word how soon to come back before the first; `None` for that word alone.
    #[track_caller]
    pub(crate) fn read(text: &str) -> Option<Self> {
        let text = text.strip_prefix("retry: 1000").map_or(text, |rest| rest.trim_start());
        if text.is_empty() {
            return None;
        }
        let (id, data) = text.split_once('\n').unwrap_or_else(|| panic!("not a frame: {text:?}"));
        let id = id.strip_prefix("id: ").unwrap_or_else(|| panic!("a frame without an id: {text:?}"));
        let data = data.strip_prefix("data: ").unwrap_or_else(|| panic!("a frame without data: {text:?}"));
        Some(Self { id: id.to_owned(), data: serde_json::from_str(data).unwrap() })
    }

    pub(crate) fn kind(&self) -> &str {
        self.data["type"].as_str().unwrap()
    }
}

/// All frames of an answer.
#[track_caller]
pub(crate) fn frames(body: &str) -> Vec<Frame> {
    body.split_terminator("\n\n").filter_map(Frame::read).collect()
}

/// Their types, in order.
pub(crate) fn kinds(frames: &[Frame]) -> Vec<&str> {
    frames.iter().map(Frame::kind).collect()
}

/// Spawns a turn, which is accepted.
#[track_caller]
pub(crate) fn spawn(client: &Client, body: &Value) -> Turn {
    let answer = client.send("POST", "/api/v1/sessions/stream", &body.to_string());
    assert_eq!(answer.status, 202, "{answer:?}");
    let json = answer.json();
    let text = |field: &str| json[field].as_str().unwrap().to_owned();
    Turn { client: client.clone(), session: text("session_id"), message: text("message_id"), kind: text("kind") }
}

/// Spawns a turn in a new session of the agent with every tool, which plays this script.
#[track_caller]
pub(crate) fn play(client: &Client, script: &str) -> Turn {
    spawn(client, &json!({ "agent_id": "writer", "message": format!("play {script}") }))
}

impl Turn {
    /// The same turn, after the server was started again.
    pub(crate) fn on(&self, world: &World) -> Self {
        Self { client: Client { key: self.client.key.clone(), ..world.client() }, ..self.clone() }
    }

    /// Spawns the next turn of the session, or answers what it waits for.
    #[track_caller]
    pub(crate) fn say(&self, message: &str) -> Self {
        spawn(&self.client, &json!({ "session_id": self.session, "message": message }))
    }

    pub(crate) fn path(&self) -> String {
        format!("/api/v1/sessions/{}/messages/{}", self.session, self.message)
    }

    /// The turn as the list of messages shows it.
    #[track_caller]
    pub(crate) fn shown(&self) -> Value {
        let answer = self.client.send("GET", &self.path(), "");
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }

    /// The stream from its beginning, as it comes.
    #[track_caller]
    pub(crate) fn open(&self) -> Streaming {
        let stream = self.client.open("GET", &format!("{}/stream", self.path()), "");
        assert_eq!(stream.status(), 200);
        stream
    }

    /// The stream after a frame, as it comes.
    #[track_caller]
    pub(crate) fn open_after(&self, id: &str) -> Streaming {
        let stream =
            self.client.open_with("GET", &format!("{}/stream", self.path()), &[("last-event-id", id)], String::new());
        assert_eq!(stream.status(), 200);
        stream
    }

    #[track_caller]
    fn read(&self, headers: &[(&str, &str)]) -> Vec<Frame> {
        let answer: Answer = self.client.send_with("GET", &format!("{}/stream", self.path()), headers, "");
        // Who has seen all that there will ever be is told not to come back.
        let over = answer.status == 204 && answer.body.is_empty();
        assert!(answer.status == 200 || over, "{answer:?}");
        frames(&answer.body)
    }

    /// All frames until the server closes the stream.
    #[track_caller]
    pub(crate) fn frames(&self) -> Vec<Frame> {
        self.read(&[])
    }

    /// The frames after this one, until the server closes the stream.
    #[track_caller]
    pub(crate) fn frames_after(&self, id: &str) -> Vec<Frame> {
        self.read(&[("last-event-id", id)])
    }

    /// Waits until the turn is complete; gives its last frame's data.
    #[track_caller]
    pub(crate) fn complete(&self) -> Value {
        let frames = self.frames();
        let last = frames.last().unwrap();
        assert_eq!(last.kind(), "complete", "{frames:#?}");
        last.data.clone()
    }

    /// Waits until the turn is paused; gives that frame.
    #[track_caller]
    pub(crate) fn paused(&self) -> Frame {
        let frames = self.frames();
        let last = frames.last().unwrap();
        assert_eq!(last.kind(), "paused", "{frames:#?}");
        last.clone()
    }
}
