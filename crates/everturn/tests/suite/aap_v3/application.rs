//! An application that takes the protocol at its word: it checks the shape of all that it gets and the order of events, keeps
//! the conversation by itself, as the public client does, and compares it with what the server has.

use std::{collections::HashSet, sync::Arc};

use serde_json::{Value, json};

use super::shape;
use crate::suite::harness::{Answer, Client, Shared, shared};

/// Where version 3 is.
pub(super) const BASE: &str = "/aap/v3";

/// The ways to get an answer.
pub(super) const MODES: [&str; 3] = ["delta", "message", "none"];

/// An application with one session.
pub(super) struct Application {
    /// Keeps the server running that all share.
    _shared: Option<Arc<Shared>>,
    client: Client,
    pub(super) session: String,
    /// What it knows of the conversation.
    known: Vec<Value>,
    calls: HashSet<String>,
}

/// What came of a turn's leg.
#[derive(Debug)]
pub(super) struct Leg {
    pub(super) stop: String,
    /// What the agent said.
    pub(super) messages: Vec<Value>,
    /// The calls that wait for the application.
    pub(super) waiting: Vec<Value>,
    /// Names of the events, if there were any, those of one name after the other as one.
    pub(super) events: Vec<String>,
    pub(super) answer: Answer,
}

impl Leg {
    /// The id of the call of a tool that waits.
    #[track_caller]
    pub(super) fn call(&self, name: &str) -> &str {
        let call = self.waiting.iter().find(|call| call["name"] == name);
        call.and_then(|call| call["toolCallId"].as_str()).unwrap_or_else(|| panic!("no call of {name} waits: {self:?}"))
    }

    /// The last text.
    pub(super) fn text(&self) -> String {
        let last = self.messages.last().map(blocks).unwrap_or_default();
        last.iter().filter_map(|block| block["text"].as_str()).collect()
    }
}

impl Application {
    /// Connects as Acme and makes a session.
    #[track_caller]
    pub(super) fn start(new: &Value) -> Self {
        let shared = shared();
        let started = Self::start_at(shared.client("acme"), new);
        Self { _shared: Some(shared), ..started }
    }

    /// Connects and makes a session.
    #[track_caller]
    pub(super) fn start_at(client: Client, new: &Value) -> Self {
        let meta = ok(client.send("GET", &format!("{BASE}/meta"), ""), 200);
        shape::meta(&meta);
        let created = ok(client.send("POST", &format!("{BASE}/sessions"), &new.to_string()), 201);
        shape::created(&created);
        let session = created["sessionId"].as_str().unwrap().to_owned();
        let known = new["messages"].as_array().cloned().unwrap_or_default();
        Self { _shared: None, client, session, known, calls: HashSet::new() }
    }

    /// Goes on with the server at another address.
    pub(super) fn moved_to(self, client: Client) -> Self {
        Self { client, ..self }
    }

    /// The session, as it is shown and as it is listed.
    #[track_caller]
    pub(super) fn shown(&self) -> Value {
        let shown = ok(self.get(&format!("/sessions/{}", self.session)), 200);
        shape::session(&shown, "session");
        let mut next = None;
        loop {
            let path = next.map_or("/sessions".to_owned(), |next: String| format!("/sessions?after={next}"));
            let page = ok(self.get(&path), 200);
            shape::sessions(&page);
            if let Some(listed) =
                page["sessions"].as_array().unwrap().iter().find(|one| one["sessionId"] == self.session)
            {
                assert_eq!(*listed, shown, "a list shows what the session itself does");
                return shown;
            }
            next = Some(page["next"].as_str().expect("the session is listed").to_owned());
        }
    }

    /// Sends what the user says.
    #[track_caller]
    pub(super) fn say(&mut self, mode: &str, text: &str) -> Leg {
        self.turn(mode, &json!({}), &json!([{ "role": "user", "content": text }]))
    }

    /// Sends messages, with these settings.
    #[track_caller]
    pub(super) fn turn(&mut self, mode: &str, settings: &Value, messages: &Value) -> Leg {
        let mut body = settings.clone();
        body["messages"] = messages.clone();
        body["stream"] = json!(mode);
        let path = format!("{BASE}/sessions/{}/turns", self.session);
        let answer = self.client.send("POST", &path, &body.to_string());
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.header("x-session-id"), self.session);
        let sent = messages.as_array().unwrap().iter().filter(|message| message["role"] != "tool_permission");
        self.known.extend(sent.cloned());
        let leg = if mode == "none" { whole(answer) } else { folded(answer, mode) };
        self.calls.extend(calls(&leg.messages).iter().map(id));
        for result in leg.messages.iter().filter(|message| message["role"] == "tool") {
            assert!(self.calls.contains(&id(result)), "a result of a call that nobody made: {result}");
        }
        self.known.extend(leg.messages.iter().cloned());
        let resolved: HashSet<_> = self.known.iter().filter(|message| message["role"] == "tool").map(id).collect();
        let last = self.known.iter().rfind(|message| message["role"] == "assistant").cloned();
        let last: Vec<_> = last.into_iter().collect();
        let waiting: Vec<_> = calls(&last).into_iter().filter(|call| !resolved.contains(&id(call))).collect();
        assert_eq!(leg.stop == "tool_use", !waiting.is_empty(), "it stops for calls that wait, and only for these");
        self.compare();
        Leg { waiting, ..leg }
    }

    /// Both sides hold the same conversation. What the application answered stands where the server's results stand.
    #[track_caller]
    fn compare(&self) {
        let ours: Vec<_> = ordered(&self.known).iter().map(plain).collect();
        let theirs: Vec<_> = ordered(&self.history("full")).iter().map(plain).collect();
        assert_eq!(ours, theirs);
    }

    /// The history that the server has.
    #[track_caller]
    pub(super) fn history(&self, kind: &str) -> Vec<Value> {
        let answer = ok(self.get(&format!("/sessions/{}/history?type={kind}", self.session)), 200);
        shape::history(&answer, kind);
        answer["history"][kind].as_array().unwrap().clone()
    }

    /// Asks for something.
    #[track_caller]
    pub(super) fn get(&self, path: &str) -> Answer {
        self.client.send("GET", &format!("{BASE}{path}"), "")
    }
}

#[track_caller]
fn ok(answer: Answer, status: u16) -> Value {
    assert_eq!(answer.status, status, "{answer:?}");
    assert_eq!(answer.header("content-type"), "application/json");
    answer.json()
}

fn id(call: &Value) -> String {
    call["toolCallId"].as_str().unwrap().to_owned()
}

/// Content as blocks, whichever form it has.
fn blocks(message: &Value) -> Vec<Value> {
    match &message["content"] {
        Value::String(text) if text.is_empty() => Vec::new(),
        Value::String(text) => vec![json!({ "type": "text", "text": text })],
        other => other.as_array().cloned().unwrap_or_default(),
    }
}

fn plain(message: &Value) -> Value {
    let mut message = message.clone();
    message["content"] = json!(blocks(&message));
    message
}

fn calls(messages: &[Value]) -> Vec<Value> {
    let blocks = messages.iter().filter(|message| message["role"] == "assistant").flat_map(blocks);
    blocks.filter(|block| block["type"] == "tool_use").collect()
}

/// The results of one step in the order of their ids: applications learn of them when they come.
fn ordered(messages: &[Value]) -> Vec<Value> {
    let mut ordered = messages.to_vec();
    for step in ordered.chunk_by_mut(|one, other| one["role"] == "tool" && other["role"] == "tool") {
        step.sort_by_key(|result| result["toolCallId"].to_string());
    }
    ordered
}

#[track_caller]
fn whole(answer: Answer) -> Leg {
    let response = answer.json();
    shape::response(&response);
    let messages = response["messages"].as_array().unwrap().clone();
    let stop = response["stopReason"].as_str().unwrap().to_owned();
    Leg { stop, messages, waiting: Vec::new(), events: Vec::new(), answer }
}

/// Reads a stream, strictly.
#[track_caller]
fn folded(answer: Answer, mode: &str) -> Leg {
    assert_eq!(answer.header("content-type"), "text/event-stream");
    assert!(answer.body.ends_with("\n\n"), "the last event is over: {:?}", answer.body);
    let (mut events, mut messages, mut step, mut stop) = (Vec::new(), Vec::new(), Vec::<Value>::new(), None);
    for frame in answer.body.split_terminator("\n\n") {
        let Some((event, data)) = parsed(frame) else { continue };
        shape::event(&event, &data);
        assert!(stop.is_none(), "nothing follows turn_stop: {frame}");
        assert_eq!(events.is_empty(), event == "turn_start", "turn_start is the first, and only the first: {frame}");
        let of_mode = match mode {
            "delta" => !matches!(event.as_str(), "text" | "thinking"),
            _ => !event.ends_with("_delta"),
        };
        assert!(of_mode, "an event of another mode: {frame}");
        match event.as_str() {
            "text_delta" | "text" => said(&mut step, "text", &data),
            "thinking_delta" | "thinking" => {
                assert!(step.iter().all(|block| block["type"] == "thinking"), "thinking comes first: {frame}");
                said(&mut step, "thinking", &data);
            }
            "tool_call" => {
                let (id, name, input) = (&data["toolCallId"], &data["name"], &data["input"]);
                step.push(json!({ "type": "tool_use", "toolCallId": id, "name": name, "input": input }));
            }
            "tool_result" => {
                flush(&mut step, &mut messages);
                let (id, content) = (&data["toolCallId"], &data["content"]);
                messages.push(json!({ "role": "tool", "toolCallId": id, "content": content }));
            }
            "turn_stop" => stop = Some(data["stopReason"].as_str().unwrap().to_owned()),
            _ => {}
        }
        if events.last() != Some(&event) {
            events.push(event);
        }
    }
    flush(&mut step, &mut messages);
    let stop = stop.unwrap_or_else(|| panic!("the stream has no turn_stop: {}", answer.body));
    Leg { stop, messages, waiting: Vec::new(), events, answer }
}

fn said(step: &mut Vec<Value>, kind: &str, data: &Value) {
    let piece = data.get("delta").unwrap_or(&data[kind]).as_str().unwrap();
    match step.last_mut() {
        Some(last) if last["type"] == kind && data.get("delta").is_some() => {
            last[kind] = json!(format!("{}{piece}", last[kind].as_str().unwrap()));
        }
        _ => step.push(json!({ "type": kind, kind: piece })),
    }
}

fn flush(step: &mut Vec<Value>, messages: &mut Vec<Value>) {
    if !step.is_empty() {
        messages.push(json!({ "role": "assistant", "content": std::mem::take(step) }));
    }
}

/// An event's name and data; nothing for a comment.
#[track_caller]
fn parsed(frame: &str) -> Option<(String, Value)> {
    let mut lines: Vec<_> = frame.lines().filter(|line| !line.starts_with(':')).collect();
    if lines.is_empty() {
        return None;
    }
    let mut take = |field: &str| -> String {
        let at = lines.iter().position(|line| line.starts_with(field)).unwrap_or_else(|| panic!("no {field}: {frame}"));
        lines.remove(at)[field.len()..].to_owned()
    };
    let (event, data, _id) = (take("event: "), take("data: "), take("id: "));
    assert!(lines.is_empty(), "a field that nobody knows: {frame}");
    Some((event, serde_json::from_str(&data).unwrap_or_else(|error| panic!("{error}: {frame}"))))
}
