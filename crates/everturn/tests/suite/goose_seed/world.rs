//! What these tests share: a server of their own, its two doors, and the frames of their streams.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::LazyLock,
};

use serde_json::{Value, json};

use crate::suite::harness::{Answer, Client, Home, Server, Streaming, eventually, key, shared_config};

/// The agents of these tests. The first is the one that sessions have.
const AGENTS: &str = "
[[agents]]
name = 'goose'
model = 'script/model'
titles = false
tools = ['clock', 'calculator', 'request_form']
[[agents]]
name = 'twofold'
model = 'script/model'
fallback = ['script/other']
titles = false
";

/// One that has all tools of the MCP servers below.
const WORKER: &str = "
[[agents]]
name = 'worker'
model = 'script/model'
titles = false
tools = ['bad/*', 'pen/*']
trusted = ['bad/*', 'pen/append']
";

/// The interpreter itself: what is called `python3` may be a script that looks for it.
pub(super) static PYTHON: LazyLock<String> = LazyLock::new(|| {
    let output = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
});

/// A file of the repository.
pub(super) fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path).canonicalize().unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The two forms of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Door {
    /// `/reply`.
    Described,
    /// `/goose/reply`.
    Released,
}

impl Door {
    pub(super) const BOTH: [Self; 2] = [Self::Described, Self::Released];

    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Described => "/reply",
            Self::Released => "/goose/reply",
        }
    }

    /// What the door through which any turn can be read calls it.
    pub(super) fn view(self) -> &'static str {
        match self {
            Self::Described => "goose-seed",
            Self::Released => "goose",
        }
    }

    pub(super) fn other(self) -> Self {
        match self {
            Self::Described => Self::Released,
            Self::Released => Self::Described,
        }
    }
}

/// A server of a test's own. Acme's key may chat and read, the admin's everything, in the same tenant.
pub(super) struct World {
    pub(super) home: Home,
    pub(super) server: Server,
    config: String,
}

impl World {
    #[track_caller]
    pub(super) fn start() -> Self {
        Self::with("", "")
    }

    /// With these limits, and more settings.
    #[track_caller]
    pub(super) fn with(limits: &str, more: &str) -> Self {
        Self::with_files(limits, more, &[])
    }

    /// As [`Self::with`], with these files in its folder.
    #[track_caller]
    pub(super) fn with_files(limits: &str, more: &str, files: &[(&str, &str)]) -> Self {
        let mut config = shared_config(limits).replacen("[[agents]]", &format!("{AGENTS}[[agents]]"), 1);
        for (who, tenant, scopes) in
            [("acme", "acme", "'chat', 'read'"), ("acme-admin", "acme", "'admin'"), ("bob", "bob", "'chat'")]
        {
            config += &format!("[[keys]]\nkey = '{}'\ntenant = '{tenant}'\nscopes = [{scopes}]\n", key(who));
        }
        config += more;
        let home = Home::new(&config);
        for (name, text) in files {
            let path = home.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Self { server: home.start(), home, config }
    }

    /// With the MCP servers `bad` and `pen`, and an agent `worker` that has their tools.
    #[track_caller]
    pub(super) fn with_tools(limits: &str, more: &str) -> Self {
        let command = |script: &str| format!("command = {:?}", [PYTHON.as_str(), file(script).to_str().unwrap()]);
        let bad = format!("[mcp.bad]\n{}\n", command("../mcp/tests/suite/server.py"));
        // It leaves its marks beside the configuration, where a sandbox would let it make nothing.
        let pen = format!("[mcp.pen]\n{}\nsandbox = 'off'\n", command("tests/suite/goose_seed/pen.py"));
        let world = Self::with(limits, &format!("{bad}{pen}{WORKER}{more}"));
        world.await_tools();
        world
    }

    /// Waits until all MCP servers have told their tools.
    #[track_caller]
    pub(super) fn await_tools(&self) {
        eventually("the MCP servers are ready", || {
            let ready = self.server.client().send("GET", "/readyz", "").json();
            let servers = ready["mcp"].as_object().unwrap_or_else(|| panic!("no servers: {ready}"));
            servers.values().all(|server| server["state"] == "ready").then_some(())
        });
    }

    pub(super) fn client(&self) -> Client {
        self.server.client().with_key(&key("acme"))
    }

    pub(super) fn admin(&self) -> Client {
        self.server.client().with_key(&key("acme-admin"))
    }

    /// Kills the server and starts it again on what it left.
    #[track_caller]
    pub(super) fn crash(&mut self) {
        self.server.kill();
        self.server = self.home.start();
    }

    /// Starts it again with another text in place of one in its configuration.
    #[track_caller]
    pub(super) fn replace(&mut self, what: &str, by: &str) {
        assert!(self.config.contains(what), "{what:?} is not there: {}", self.config);
        self.config = self.config.replacen(what, by, 1);
        self.home.configure(&self.config);
        self.crash();
    }

    /// Says something at a door and gives what comes of it, whole.
    #[track_caller]
    pub(super) fn post(&self, door: Door, body: &Value) -> Stream {
        Stream::of(self.client().send("POST", door.path(), &body.to_string()))
    }

    /// As [`Self::post`], frame by frame.
    #[track_caller]
    pub(super) fn open(&self, door: Door, body: &Value) -> Streaming {
        let stream = self.client().open("POST", door.path(), &body.to_string());
        assert_eq!((stream.status(), stream.header("content-type")), (200, "text/event-stream"));
        stream
    }

    /// Says something that is refused; gives the status and what is wrong.
    #[track_caller]
    pub(super) fn refused(&self, door: Door, body: &Value) -> (u16, String) {
        refusal(&self.client().send("POST", door.path(), &body.to_string()))
    }

    /// The rest of a turn after a frame, as the door for all views shows it; all of it without one.
    #[track_caller]
    pub(super) fn view(&self, door: Door, session: &str, turn: &str, after: Option<&str>) -> Vec<Frame> {
        let path = format!("/api/v1/sessions/{session}/messages/{turn}/stream?as={}", door.view());
        let headers: Vec<_> = after.map(|id| ("last-event-id", id)).into_iter().collect();
        let answer = self.client().send_with("GET", &path, &headers, "");
        // Who has seen the end of a turn that is over is told not to come back.
        let over = answer.status == 204 && answer.body.is_empty();
        assert!(answer.status == 200 || over, "{answer:?}");
        frames(&answer.body)
    }

    /// A session, as the released door shows it.
    #[track_caller]
    pub(super) fn session(&self, session: &str) -> Value {
        let answer = self.client().send("GET", &format!("/goose/sessions/{session}"), "");
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }
}

/// What is wrong, in the one shape that refusals have.
#[track_caller]
pub(super) fn refusal(answer: &Answer) -> (u16, String) {
    assert!(answer.status >= 400, "not refused: {answer:?}");
    let json = answer.json();
    let object = json.as_object().unwrap();
    assert_eq!((object.len(), answer.header("content-type")), (1, "application/json"), "{answer:?}");
    (answer.status, object["message"].as_str().unwrap().to_owned())
}

/// A message with one text.
pub(super) fn says(session: &str, text: &str) -> Value {
    json!({ "session_id": session, "user_message": { "role": "user", "content": [{ "type": "text", "text": text }] } })
}

/// A message to a session that has this agent.
pub(super) fn says_to(agent: &str, session: &str, text: &str) -> Value {
    let mut body = says(session, text);
    body["agent"] = json!(agent);
    body
}

/// An answer that streamed a turn, and is over.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub(super) session: String,
    pub(super) turn: String,
    pub(super) frames: Vec<Frame>,
}

impl Stream {
    #[track_caller]
    pub(super) fn of(answer: Answer) -> Self {
        assert_eq!((answer.status, answer.header("content-type")), (200, "text/event-stream"), "{answer:?}");
        let header = |name: &str| answer.header(name).to_owned();
        Self { session: header("x-session-id"), turn: header("x-message-id"), frames: frames(&answer.body) }
    }

    /// The text of all answers, put together as clients do.
    pub(super) fn text(&self) -> String {
        text(&self.frames)
    }

    /// How it ended, and that nothing came after that.
    #[track_caller]
    pub(super) fn reason(&self) -> &str {
        assert_eq!(kinds(&self.frames).iter().filter(|kind| **kind == "Finish").count(), 1, "{:#?}", self.frames);
        let last = self.frames.last().unwrap();
        assert_eq!(last.kind(), "Finish", "{:#?}", self.frames);
        last.data["reason"].as_str().unwrap()
    }
}

/// One frame of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) id: Option<String>,
    pub(super) data: Value,
}

impl Frame {
    /// A frame: perhaps an id, then data in one line.
    #[track_caller]
    pub(super) fn read(text: &str) -> Self {
        let (id, data) = match text.strip_prefix("id: ") {
            Some(rest) => rest.split_once('\n').map(|(id, data)| (Some(id.to_owned()), data)).unwrap(),
            None => (None, text),
        };
        let json = data.strip_prefix("data: ").unwrap_or_else(|| panic!("not a frame: {text:?}"));
        Self { id, data: serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {text:?}")) }
    }

    #[track_caller]
    pub(super) fn kind(&self) -> &str {
        self.data["type"].as_str().unwrap_or_else(|| panic!("no type: {self:?}"))
    }

    /// The items of the message in it.
    pub(super) fn items(&self) -> &[Value] {
        self.data["message"]["content"].as_array().map_or(&[], Vec::as_slice)
    }
}

#[track_caller]
pub(super) fn frames(body: &str) -> Vec<Frame> {
    assert!(body.is_empty() || body.ends_with("\n\n"), "it ends within a frame: {body:?}");
    body.split_terminator("\n\n").map(Frame::read).collect()
}

/// Their types, in order.
pub(super) fn kinds(frames: &[Frame]) -> Vec<&str> {
    frames.iter().map(Frame::kind).collect()
}

/// Those that have a place in the log.
pub(super) fn logged(frames: &[Frame]) -> Vec<Frame> {
    frames.iter().filter(|frame| frame.id.is_some()).cloned().collect()
}

/// The text in these frames.
pub(super) fn text(frames: &[Frame]) -> String {
    let items = frames.iter().flat_map(Frame::items).filter(|item| item["type"] == "text");
    items.map(|item| item["text"].as_str().unwrap()).collect()
}

/// What is left of a stream.
#[track_caller]
pub(super) fn rest(stream: &mut Streaming) -> Vec<Frame> {
    let (frames, _) = stream.rest();
    frames.iter().map(|frame| Frame::read(frame)).collect()
}

/// Reads a stream up to a frame that has this in it.
#[track_caller]
pub(super) fn until(stream: &mut Streaming, what: &str) -> Vec<Frame> {
    let mut seen = Vec::new();
    loop {
        let frame = stream.next().unwrap_or_else(|ended| panic!("it ended ({ended:?}) before {what:?}: {seen:#?}"));
        seen.push(Frame::read(&frame));
        if frame.contains(what) {
            return seen;
        }
    }
}
