//! A model server that does as it is told: it speaks the wire of OpenAI's chat completions, and that of Ollama as far
//! as needed, and plays scripts.
//!
//! A user message that says `play NAME` makes it give the next reply of the script of that name.

use std::{
    collections::{HashMap, VecDeque},
    convert::Infallible,
    sync::{Mutex, OnceLock},
};

use axum::{Json, Router, body::Body, extract::DefaultBodyLimit, response::Response, routing::post};
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::runtime;

/// Holds a reply back until it is opened.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gate {
    opened: CancellationToken,
    left: CancellationToken,
}

impl Gate {
    pub(crate) fn open(&self) {
        self.opened.cancel();
    }

    /// Whether somebody who waited for it has gone away instead.
    pub(crate) fn is_left(&self) -> bool {
        self.left.is_cancelled()
    }
}

/// One answer of the model.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    parts: Vec<Part>,
    calls: u32,
}

#[derive(Clone, Debug)]
enum Part {
    Bytes(String),
    Hold(Gate),
}

impl Reply {
    pub(crate) fn new() -> Self {
        let headers = vec![("content-type", "text/event-stream".to_owned())];
        Self { status: 200, headers, parts: Vec::new(), calls: 0 }
    }

    /// A text in these pieces, and nothing else.
    pub(crate) fn says(pieces: &[&str]) -> Self {
        pieces.iter().fold(Self::new(), |reply, piece| reply.text(piece)).stops()
    }

    /// These calls, and nothing else.
    pub(crate) fn calls(calls: &[(&str, Value)]) -> Self {
        calls.iter().fold(Self::new(), |reply, (name, input)| reply.call(name, input.to_string())).finish("tool_calls")
    }

    /// Lines of JSON, on the wire of Ollama.
    pub(crate) fn lines(lines: &[Value]) -> Self {
        let headers = vec![("content-type", "application/x-ndjson".to_owned())];
        let parts = lines.iter().map(|line| Part::Bytes(format!("{line}\n"))).collect();
        Self { headers, parts, ..Self::new() }
    }

    /// Not a stream.
    pub(crate) fn status(status: u16, headers: &[(&'static str, &str)], body: &str) -> Self {
        let headers = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        Self { status, headers, parts: vec![Part::Bytes(body.to_owned())], calls: 0 }
    }

    pub(crate) fn text(self, text: &str) -> Self {
        self.delta(json!({ "content": text }))
    }

    pub(crate) fn thinking(self, text: &str) -> Self {
        self.delta(json!({ "reasoning_content": text }))
    }

    /// A call, its input as it is, in two pieces.
    pub(crate) fn call(mut self, name: &str, input: impl Into<String>) -> Self {
        let index = self.calls;
        self.calls += 1;
        let input = input.into();
        let (first, second) = input.split_at(input.floor_char_boundary(input.len() / 2));
        let id = format!("provider-{index}");
        self.delta(json!({ "tool_calls": [
            { "index": index, "id": id, "type": "function", "function": { "name": name, "arguments": first } }
        ]}))
        .delta(json!({ "tool_calls": [{ "index": index, "function": { "arguments": second } }] }))
    }

    /// A call, its input in these pieces.
    pub(crate) fn call_in_pieces(self, name: &str, pieces: &[&str]) -> Self {
        pieces.iter().fold(self.call_begins(name), |reply, piece| reply.input(piece))
    }

    /// The head of a call; its input follows.
    pub(crate) fn call_begins(mut self, name: &str) -> Self {
        let index = self.calls;
        self.calls += 1;
        let function = json!({ "name": name, "arguments": "" });
        let id = format!("provider-{index}");
        self.delta(json!({ "tool_calls": [{ "index": index, "id": id, "type": "function", "function": function }] }))
    }

    /// A piece of the input of the call that was begun last.
    pub(crate) fn input(self, piece: &str) -> Self {
        let index = self.calls - 1;
        self.delta(json!({ "tool_calls": [{ "index": index, "function": { "arguments": piece } }] }))
    }

    /// Waits here.
    pub(crate) fn hold(mut self, gate: &Gate) -> Self {
        self.parts.push(Part::Hold(gate.clone()));
        self
    }

    pub(crate) fn stops(self) -> Self {
        self.finish("stop")
    }

    /// Says why it stops, and that this is all.
    pub(crate) fn finish(self, reason: &str) -> Self {
        self.finish_with(reason, &json!({ "prompt_tokens": 10, "completion_tokens": 5 }))
    }

    /// As [`Self::finish`], and what it has used.
    pub(crate) fn finish_with(self, reason: &str, usage: &Value) -> Self {
        self.data(&json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": reason }], "usage": usage }))
            .bytes("data: [DONE]\n\n")
    }

    fn delta(self, delta: Value) -> Self {
        self.data(&json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": null }] }))
    }

    fn data(self, chunk: &Value) -> Self {
        self.bytes(&format!("data: {chunk}\n\n"))
    }

    fn bytes(mut self, bytes: &str) -> Self {
        self.parts.push(Part::Bytes(bytes.to_owned()));
        self
    }

    pub(crate) fn into_response(self) -> Response {
        let mut response = Response::builder().status(self.status);
        for (name, value) in self.headers {
            response = response.header(name, value);
        }
        let body = stream::iter(self.parts).filter_map(async |part| match part {
            Part::Bytes(bytes) => Some(Ok::<_, Infallible>(bytes)),
            Part::Hold(gate) => {
                let waits = gate.left.drop_guard();
                gate.opened.cancelled().await;
                waits.disarm();
                None
            }
        });
        response.body(Body::from_stream(Box::pin(body))).unwrap()
    }
}

#[derive(Default)]
struct Script {
    replies: VecDeque<Reply>,
    requests: Vec<Value>,
}

fn scripts() -> &'static Mutex<HashMap<String, Script>> {
    static SCRIPTS: OnceLock<Mutex<HashMap<String, Script>>> = OnceLock::new();
    SCRIPTS.get_or_init(Mutex::default)
}

/// Adds a script, which plays when somebody says `play NAME`.
#[track_caller]
pub(crate) fn script(name: &str, replies: impl IntoIterator<Item = Reply>) {
    let script = Script { replies: replies.into_iter().collect(), requests: Vec::new() };
    let before = scripts().lock().unwrap().insert(name.to_owned(), script);
    assert!(before.is_none(), "there are two scripts {name:?}");
}

/// Adds replies to a script, for what only shows while it plays.
#[track_caller]
pub(crate) fn go_on(name: &str, replies: impl IntoIterator<Item = Reply>) {
    scripts().lock().unwrap().get_mut(name).unwrap().replies.extend(replies);
}

/// The requests that a script was played for, in order.
pub(crate) fn asked(name: &str) -> Vec<Value> {
    scripts().lock().unwrap()[name].requests.clone()
}

/// Where the model server is.
pub(super) fn base_url() -> &'static str {
    static URL: OnceLock<String> = OnceLock::new();
    URL.get_or_init(|| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let play = post(async |Json(request)| play(request));
        let app = Router::new().route("/v1/chat/completions", play.clone()).route("/api/chat", play);
        // Histories may hold whole artifacts.
        let app = app.layer(DefaultBodyLimit::disable());
        runtime().spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            axum::serve(listener, app).await.unwrap();
        });
        format!("http://{address}")
    })
}

fn play(request: Value) -> Response {
    let text = request["messages"].to_string();
    let name = text.rsplit("play ").next().unwrap_or_default();
    let name: String = name.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
    let mut scripts = scripts().lock().unwrap();
    let reply = scripts.get_mut(&name).and_then(|script| {
        script.requests.push(request);
        script.replies.pop_front()
    });
    // A refusal that no retry repeats, so that a wrong script shows as a failed turn.
    reply.unwrap_or_else(|| Reply::status(400, &[], &format!("no reply is left for {name:?}"))).into_response()
}
