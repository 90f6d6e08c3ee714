//! What these tests share: a server with an MCP server of its own, its chats, and the events of their streams.

use std::{fmt, path::Path, process::Command, sync::LazyLock, time::Instant};

use serde_json::{Value, json};

use crate::suite::harness::{
    Answer, Client, Ended, Home, PATIENCE, Reply, Server, Streaming, eventually, key, shared_config,
};

/// The agent that sessions have unless they ask for another: it comes first.
const MAIN: &str = "
[[agents]]
name = 'main'
model = 'script/model'
titles = false
tools = ['clock', 'calculator', 'request_form', 'box/*']
trusted = ['box/look', 'box/hold', 'box/ask', 'box/news', 'box/picture', 'box/fail']
";

/// Keys, tenants and scopes.
const KEYS: [(&str, &str, &str); 4] = [
    ("acme", "acme", "'chat'"),
    ("acme-reader", "acme", "'read'"),
    ("acme-admin", "acme", "'admin'"),
    ("bob", "bob", "'admin'"),
];

/// The interpreter itself: what is called `python3` may be a script that looks for it.
static PYTHON: LazyLock<String> = LazyLock::new(|| {
    let output = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
});

/// A configuration with these lines at its end.
pub(super) fn config(more: &str) -> String {
    let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/goose_released/server.py");
    let command = [PYTHON.as_str(), server.to_str().unwrap()];
    let config = shared_config("").replacen("[[agents]]", &format!("{MAIN}[[agents]]"), 1);
    // Its effects are written beside the configuration, where a sandbox would let it make nothing.
    format!("{config}[mcp.box]\ncommand = {command:?}\ncwd = '.'\nsandbox = 'off'\n{more}")
}

/// A server of a test's own.
pub(super) struct World {
    pub(super) home: Home,
    pub(super) server: Server,
}

impl World {
    /// Without keys: everybody may do everything.
    #[track_caller]
    pub(super) fn start() -> Self {
        Self::with("")
    }

    /// With a key for each of some people.
    #[track_caller]
    pub(super) fn with_keys() -> Self {
        let keys = KEYS.map(|(who, tenant, scopes)| {
            format!("[[keys]]\nkey = '{}'\ntenant = '{tenant}'\nscopes = [{scopes}]\n", key(who))
        });
        Self::with(&keys.concat())
    }

    /// With these lines at the end of its configuration.
    #[track_caller]
    pub(super) fn with(more: &str) -> Self {
        let home = Home::new(&config(more));
        let world = Self { server: home.start(), home };
        world.ready();
        world
    }

    /// Waits until the tools are there.
    #[track_caller]
    pub(super) fn ready(&self) {
        let ready = r#""box":{"restarts":0,"state":"ready""#;
        eventually("the MCP server is ready", || {
            self.client().send("GET", "/readyz", "").body.contains(ready).then_some(())
        });
    }

    pub(super) fn client(&self) -> Client {
        self.server.client()
    }

    pub(super) fn client_of(&self, who: &str) -> Client {
        self.client().with_key(&key(who))
    }

    /// Kills the server and starts it again on what it left.
    #[track_caller]
    pub(super) fn crash(&mut self) {
        self.server.kill();
        self.server = self.home.start();
    }

    /// What the tools have done, in order.
    pub(super) fn effects(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.home.path().join("effects.txt")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Waits until a tool has done this.
    #[track_caller]
    pub(super) fn effect(&self, what: &str) {
        eventually(what, || self.effects().iter().any(|effect| effect == what).then_some(()));
    }

    /// Lets the tool `hold` go on.
    pub(super) fn go(&self, what: &str) {
        std::fs::write(self.home.path().join(format!("{what}.go")), "").unwrap();
    }
}

/// The same reply as often as it is asked for, within reason: a step that was cut off is asked for again.
pub(super) fn always(reply: &Reply) -> Vec<Reply> {
    vec![reply.clone(); 8]
}

/// A number as a UUID.
pub(super) fn uuid(number: u32) -> String {
    format!("0197f2ab-0000-7abc-8def-{number:012x}")
}

/// A message of the user's, as the desktop sends it.
pub(super) fn said(text: &str) -> Value {
    content(&json!([{ "type": "text", "text": text }]))
}

/// A message with this content.
pub(super) fn content(items: &Value) -> Value {
    let metadata = json!({ "userVisible": true, "agentVisible": true });
    json!({ "id": "k3j9x0ab", "role": "user", "created": 1_772_618_400, "content": items, "metadata": metadata })
}

/// A session, and who talks in it.
#[derive(Clone, Debug)]
pub(super) struct Chat {
    pub(super) client: Client,
    pub(super) id: String,
}

impl Chat {
    /// A new session.
    #[track_caller]
    pub(super) fn start(client: &Client) -> Self {
        let answer = client.send("POST", "/goose/agent/start", r#"{"working_dir":"ann"}"#);
        assert_eq!(answer.status, 200, "{answer:?}");
        Self::of(client, answer.json()["id"].as_str().unwrap())
    }

    pub(super) fn of(client: &Client, id: &str) -> Self {
        Self { client: client.clone(), id: id.to_owned() }
    }

    /// The same session, after the server was started again.
    pub(super) fn on(&self, world: &World) -> Self {
        Self { client: Client { key: self.client.key.clone(), ..world.client() }, ..self.clone() }
    }

    pub(super) fn path(&self, rest: &str) -> String {
        format!("/goose/sessions/{}{rest}", self.id)
    }

    /// Sends something to a path below the session's.
    #[track_caller]
    pub(super) fn send(&self, method: &str, rest: &str, body: &Value) -> Answer {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.client.send(method, &self.path(rest), &body)
    }

    /// Tries to say something under a request's id.
    #[track_caller]
    pub(super) fn try_say(&self, request: u32, message: &Value) -> Answer {
        self.send("POST", "/reply", &json!({ "request_id": uuid(request), "user_message": message }))
    }

    /// Says something under a request's id.
    #[track_caller]
    pub(super) fn say(&self, request: u32, text: &str) {
        let answer = self.try_say(request, &said(text));
        assert_eq!((answer.status, answer.json()), (200, json!({ "request_id": uuid(request) })), "{answer:?}");
    }

    /// Says something and waits for all that comes of it.
    #[track_caller]
    pub(super) fn run(&self, request: u32, text: &str) -> Vec<Frame> {
        let mut events = self.events();
        self.say(request, text);
        let own = uuid(request);
        let all = events.until_finish_of(request);
        all.into_iter().filter(|frame| frame.data["chat_request_id"] == own.as_str()).collect()
    }

    /// Says something as soon as nothing else is under way, and waits for all that comes of it.
    #[track_caller]
    pub(super) fn run_next(&self, request: u32, text: &str) -> Vec<Frame> {
        let mut events = self.events();
        eventually("the session takes the next message", || {
            let answer = self.try_say(request, &said(text));
            assert!(matches!(answer.status, 200 | 409), "{answer:?}");
            (answer.status == 200).then_some(())
        });
        let own = uuid(request);
        let all = events.until_finish_of(request);
        all.into_iter().filter(|frame| frame.data["chat_request_id"] == own.as_str()).collect()
    }

    /// All events of the last turn, and of those to come.
    #[track_caller]
    pub(super) fn events(&self) -> Events {
        self.open(&[])
    }

    /// All events after one.
    #[track_caller]
    pub(super) fn events_after(&self, id: &str) -> Events {
        self.open(&[("last-event-id", id)])
    }

    #[track_caller]
    fn open(&self, headers: &[(&str, &str)]) -> Events {
        let stream = self.client.open_with("GET", &self.path("/events"), headers, "");
        assert_eq!((stream.status(), stream.header("content-type")), (200, "text/event-stream"));
        assert_eq!(stream.header("x-session-id"), self.id);
        Events(stream)
    }

    /// The session with its conversation.
    #[track_caller]
    pub(super) fn show(&self) -> Value {
        let answer = self.send("GET", "", &Value::Null);
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }

    /// What was said in it.
    #[track_caller]
    pub(super) fn conversation(&self) -> Vec<Value> {
        self.show()["conversation"].as_array().unwrap().clone()
    }

    /// Decides about a tool's call.
    #[track_caller]
    pub(super) fn decide(&self, call: &str, action: &str) -> Answer {
        let body = json!({ "id": call, "principalType": "Tool", "action": action, "sessionId": self.id });
        self.client.send("POST", "/goose/action-required/tool-confirmation", &body.to_string())
    }

    /// As [`Self::decide`], and that is fine.
    #[track_caller]
    pub(super) fn decided(&self, call: &str, action: &str) {
        let answer = self.decide(call, action);
        assert_eq!((answer.status, answer.body.as_str()), (200, "{}"), "{answer:?}");
    }
}

/// A session's stream.
pub(super) struct Events(pub(super) Streaming);

impl Events {
    /// The next event, or how the stream ended. Comments are none.
    #[track_caller]
    pub(super) fn next(&mut self) -> Result<Frame, Ended> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let frame = self.0.next()?;
            if !frame.starts_with(':') {
                return Ok(Frame::read(&frame));
            }
            assert!(Instant::now() < deadline, "nothing but comments");
        }
    }

    /// All events up to the first of this type.
    #[track_caller]
    pub(super) fn until(&mut self, kind: &str) -> Vec<Frame> {
        self.until_one(kind, |frame| frame.kind() == kind)
    }

    /// All events up to the end of a request.
    #[track_caller]
    pub(super) fn until_finish_of(&mut self, request: u32) -> Vec<Frame> {
        let request = uuid(request);
        self.until_one(&request, |frame| frame.kind() == "Finish" && frame.data["request_id"] == request.as_str())
    }

    /// All events up to the one that asks about a tool, and the call's id.
    #[track_caller]
    pub(super) fn until_asked(&mut self) -> (Vec<Frame>, String) {
        let frames = self.until_one("a confirmation", |frame| frame.action().is_some());
        let call = frames.last().unwrap().action().unwrap()["id"].as_str().unwrap().to_owned();
        (frames, call)
    }

    #[track_caller]
    pub(super) fn until_one(&mut self, what: &str, is_it: impl Fn(&Frame) -> bool) -> Vec<Frame> {
        let mut frames = Vec::new();
        // Comments keep the stream open while nothing comes.
        let deadline = Instant::now() + PATIENCE;
        loop {
            assert!(Instant::now() < deadline, "waited in vain for {what}: {frames:#?}");
            match self.next() {
                Ok(frame) => frames.push(frame),
                Err(ended) => panic!("the stream ended ({ended:?}) before {what}: {frames:#?}"),
            }
            if is_it(frames.last().unwrap()) {
                return frames;
            }
        }
    }
}

/// An event.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) id: Option<String>,
    pub(super) data: Value,
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.id.as_deref().unwrap_or("-"), self.data)
    }
}

impl Frame {
    #[track_caller]
    pub(super) fn read(text: &str) -> Self {
        let (mut id, mut data) = (None, None);
        for line in text.lines() {
            match line.split_once(": ") {
                Some(("id", value)) if id.is_none() => id = Some(value.to_owned()),
                Some(("data", value)) if data.is_none() => data = Some(serde_json::from_str(value).unwrap()),
                _ => panic!("not a frame: {text:?}"),
            }
        }
        Self { id, data: data.unwrap_or_else(|| panic!("a frame without data: {text:?}")) }
    }

    pub(super) fn kind(&self) -> &str {
        self.data["type"].as_str().unwrap()
    }

    pub(super) fn id(&self) -> &str {
        self.id.as_deref().unwrap_or_else(|| panic!("an event without an id: {self:?}"))
    }

    /// What a person is asked, if that is what it is about.
    pub(super) fn action(&self) -> Option<&Value> {
        let data = &self.data["message"]["content"][0]["data"];
        data.is_object().then_some(data)
    }
}

/// The types of events, in order.
pub(super) fn kinds(frames: &[Frame]) -> Vec<&str> {
    frames.iter().map(Frame::kind).collect()
}

/// The text that events add up to.
pub(super) fn text(frames: &[Frame]) -> String {
    frames.iter().filter_map(|frame| frame.data["message"]["content"][0]["text"].as_str()).collect()
}
