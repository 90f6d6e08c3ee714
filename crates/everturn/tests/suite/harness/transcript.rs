//! Conversations as readable text: requests, then answers as they are on the wire.
//!
//! Ids that the server makes are shown by stable names (`sess#1`, `turn#1`, `call#2`), and requests may use these
//! names. Moments are shown as `<time>`, and how long tools took as nothing.

use std::{collections::HashMap, fmt::Write as _};

use expect_test::Expect;
use serde_json::Value;

use super::{Answer, Client, key, shared};

/// The headers that a transcript shows.
const SHOWN: [&str; 6] = ["allow", "content-type", "retry-after", "www-authenticate", "x-session-id", "x-message-id"];
/// Longest line of JSON before it is broken up.
const WIDTH: usize = 110;
/// What requests may say for short.
const SHORT: [(&str, &str); 3] = [
    (
        "$weather",
        r#"{"name":"get_weather","description":"Tells the weather","inputSchema":{"type":"object","properties":{"location":{"type":"string"}},"required":["location"]}}"#,
    ),
    ("$map", r#"{"name":"show_map","title":"Map","description":"Shows a map","inputSchema":{"type":"object"}}"#),
    // In the words of a later version of the protocol.
    (
        "$tide",
        r#"{"name":"get_tide","description":"Tells the tide","parameters":{"type":"object","required":["port"]}}"#,
    ),
];

/// Sends requests to the shared server, one after the other, and compares the whole conversation. A request is a
/// method, a path and perhaps a body, separated by spaces; `@bob` before it sends it with Bob's key, `@nobody`
/// without any.
#[track_caller]
pub(crate) fn check(requests: &[&str], expected: Expect) {
    let shared = shared();
    let mut talk = Talk::new(shared.client("acme"));
    for request in requests {
        talk.send(request);
    }
    talk.check(expected);
}

/// A conversation and what was said so far.
pub(crate) struct Talk {
    client: Client,
    names: Names,
    text: String,
}

impl Talk {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, names: Names::default(), text: String::new() }
    }

    /// Sends a request and notes it and its answer.
    #[track_caller]
    pub(crate) fn send(&mut self, request: &str) -> Answer {
        let _ = writeln!(self.text, "> {request}");
        let (client, request) = match request.strip_prefix('@').and_then(|rest| rest.split_once(' ')) {
            Some(("nobody", request)) => (Client { key: None, ..self.client.clone() }, request),
            Some((who, request)) => (self.client.with_key(&key(who)), request),
            None => (self.client.clone(), request),
        };
        let request = self.names.real(request);
        let mut words = request.splitn(3, ' ');
        let (method, path, body) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap_or_default());
        let answer = client.send(method, path, body);
        self.note(&answer, &SHOWN);
        answer
    }

    /// Notes an answer.
    pub(crate) fn note(&mut self, answer: &Answer, headers: &[&str]) {
        let mut text = format!("{}\n", answer.status);
        for name in headers {
            for value in answer.headers.get_all(*name) {
                let _ = writeln!(text, "{name}: {}", value.to_str().unwrap());
            }
        }
        self.say(&text);
        let body = self.names.stable(&answer.body);
        let _ = match serde_json::from_str::<Value>(&body) {
            Ok(json) => writeln!(self.text, "{}\n", readable(&json, 0)),
            Err(_) if body.is_empty() => writeln!(self.text),
            Err(_) => write!(self.text, "\n{body}"),
        };
    }

    /// Notes a text.
    pub(crate) fn say(&mut self, text: &str) {
        let text = self.names.stable(text);
        self.text.push_str(&text);
    }

    /// The id behind a stable name.
    pub(crate) fn id(&self, name: &str) -> String {
        self.names.real(name)
    }

    /// What was said.
    pub(crate) fn text(self) -> String {
        self.text
    }

    /// Compares what was said.
    #[track_caller]
    pub(crate) fn check(self, expected: Expect) {
        expected.assert_eq(&self.text);
    }
}

/// JSON on one line where it fits, else one entry a line.
fn readable(json: &Value, depth: usize) -> String {
    let line = json.to_string();
    if depth * 2 + line.len() <= WIDTH {
        return line;
    }
    let entries: Vec<_> = match json {
        Value::Array(items) => items.iter().map(|item| readable(item, depth + 1)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| format!("{name:?}: {}", readable(value, depth + 1))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return line,
    };
    let (open, close) = if json.is_array() { ('[', ']') } else { ('{', '}') };
    let (inner, outer) = ("  ".repeat(depth + 1), "  ".repeat(depth));
    format!("{open}\n{inner}{}\n{outer}{close}", entries.join(&format!(",\n{inner}")))
}

/// Stable names of minted ids, in the order in which they were seen.
#[derive(Default)]
struct Names {
    stable: HashMap<String, String>,
    counts: HashMap<String, usize>,
}

impl Names {
    /// Replaces ids, and the time.
    fn stable(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, kind, id, after)) = next_id(rest) {
            out.push_str(before);
            if !self.stable.contains_key(id) {
                let count = self.counts.entry(kind.to_owned()).or_default();
                *count += 1;
                self.stable.insert(id.to_owned(), format!("{kind}#{count}"));
            }
            out.push_str(&self.stable[id]);
            rest = after;
        }
        out.push_str(rest);
        without_time(out)
    }

    /// Replaces names by ids. The longest first: `call#12` is not `call#1` and a two.
    fn real(&self, text: &str) -> String {
        let mut names: Vec<_> = self.stable.iter().collect();
        names.sort_by_key(|(_, name)| std::cmp::Reverse(name.len()));
        let text = names.into_iter().fold(text.to_owned(), |text, (id, name)| text.replace(name, id));
        SHORT.iter().fold(text, |text, (short, long)| text.replace(short, long))
    }
}

/// The next `kind_` and 32 hexadecimal digits: what is before it, its kind, itself, what is after it.
fn next_id(text: &str) -> Option<(&str, &str, &str, &str)> {
    const DIGITS: usize = 32;
    ["sess", "turn", "call", "form", "art", "doc", "agent"]
        .iter()
        .flat_map(|kind| text.match_indices(&format!("{kind}_")).map(|(at, _)| (at, *kind)).collect::<Vec<_>>())
        .filter_map(|(at, kind)| {
            let end = at + kind.len() + 1 + DIGITS;
            let digits = text.get(end - DIGITS..end)?;
            let minted = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            minted.then(|| (&text[..at], kind, &text[at..end], &text[end..]))
        })
        .min_by_key(|(before, ..)| before.len())
}

/// What differs every time: what the clock tool says, moments, and how long things took.
fn without_time(mut text: String) -> String {
    while let Some(at) = text.find("+00:00, ") {
        let end = text[at..].find(')').unwrap() + at + 1;
        text.replace_range(at - "2026-01-01T00:00:00".len()..end, "<now>");
    }
    const TOOK: &str = "\"duration_ms\":";
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (shown, after) = if let Some(after) = rest.strip_prefix(TOOK) {
            ("\"duration_ms\":0", after.trim_start_matches(|c: char| c.is_ascii_digit()))
        } else if is_moment(rest) {
            ("<time>", &rest[MOMENT.len()..])
        } else {
            rest.split_at(rest.chars().next().map_or(0, char::len_utf8))
        };
        out.push_str(shown);
        rest = after;
    }
    out
}

/// How moments are written: a digit for each zero.
const MOMENT: &str = "0000-00-00T00:00:00.000Z";

fn is_moment(text: &str) -> bool {
    let fits = |(c, form): (u8, u8)| if form == b'0' { c.is_ascii_digit() } else { c == form };
    text.len() >= MOMENT.len() && text.bytes().zip(MOMENT.bytes()).all(fits)
}
