//! Requests as somebody sends them who has the names of another's things, and what they are told.

use std::collections::BTreeSet;

use super::{
    document::{Operation, Parameter},
    fill::{self, Case, Fill},
    things::{MARK, Names},
};
use crate::suite::harness::{Answer, Client};

/// One way to call an operation, with everything named or just what must be.
#[derive(Debug)]
pub(super) struct Shape<'a> {
    pub(super) operation: &'a Operation,
    pub(super) case: Case,
    /// A parameter that need not be there, and is.
    more: Option<&'a Parameter>,
}

/// A request with names in it.
#[derive(Debug)]
pub(super) struct Request {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: String,
}

/// What somebody is told, without what is different each time, and without the names that they gave.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) status: u16,
    headers: BTreeSet<String>,
    pub(super) body: String,
}

/// All ways to call an operation. Fails on one that it does not know how to fill.
pub(super) fn shapes(operation: &Operation) -> Vec<Shape<'_>> {
    let id = &operation.id;
    let cases = fill::cases(operation);
    let cases = cases.unwrap_or_else(|| panic!("{id} has a body; add to fill.rs what in it names something"));
    let forgotten = fill::forgotten(operation, &cases);
    assert!(forgotten.is_empty(), "{id}: say in fill.rs what is named by {forgotten:?}");
    let mut shapes = Vec::new();
    for case in cases {
        shapes.push(Shape { operation, case: case.clone(), more: None });
        for parameter in &operation.parameters {
            let fill = fill::parameter(id, parameter);
            let fill = fill.unwrap_or_else(|| panic!("{id}: say in fill.rs what is named by {parameter:?}"));
            let shape = Shape { operation, case: case.clone(), more: Some(parameter) };
            // What makes something does it once for each key; that is another test's.
            let is_once = shape.makes() && parameter.name == "Idempotency-Key";
            if !parameter.is_required && !is_once && !matches!(fill, Fill::Absent) {
                shapes.push(shape);
            }
        }
    }
    shapes
}

impl Shape<'_> {
    fn parameters(&self) -> impl Iterator<Item = (&Parameter, Fill)> {
        let is_there = |parameter: &&Parameter| {
            parameter.is_required
                || self.more.is_some_and(|more| (&more.place, &more.name) == (&parameter.place, &parameter.name))
        };
        let parameters = self.operation.parameters.iter().filter(is_there);
        parameters.map(|parameter| (parameter, fill::parameter(&self.operation.id, parameter).unwrap()))
    }

    /// What somebody is told who names what is another's.
    pub(super) fn status(&self) -> u16 {
        let names_session = self.more.is_some_and(|more| more.name == "session_id");
        // Without a session it is about the default agent.
        if names_session && self.operation.id == "goose_released_list_apps" { 404 } else { self.case.status }
    }

    /// The sessions that it is called for. Which one it is matters less where something else is added.
    pub(super) fn sessions<'n>(&self, all: &'n [Names]) -> &'n [Names] {
        let names_one = self.kinds().iter().any(|kind| ["session", "turn", "said", "event"].contains(kind));
        match (names_one, self.more) {
            (false, _) => &all[..1],
            (true, Some(_)) => &all[..4],
            (true, None) => all,
        }
    }

    /// These names, as far as it names them.
    pub(super) fn given(&self, names: &Names) -> Names {
        let kinds = self.kinds();
        names.iter().filter(|(kind, _)| kinds.contains(*kind)).map(|(kind, name)| (*kind, name.clone())).collect()
    }

    /// Whether it has a name for the request itself.
    pub(super) fn is_named(&self) -> bool {
        self.more.is_some_and(|more| more.name == "Idempotency-Key")
    }

    /// Whether it makes something for whoever asks.
    pub(super) fn makes(&self) -> bool {
        (200..300).contains(&self.case.status) && self.operation.method != "GET" && !self.case.body.is_null()
    }

    /// The kinds of things that it names.
    pub(super) fn kinds(&self) -> BTreeSet<&'static str> {
        let mut kinds: BTreeSet<_> = self
            .parameters()
            .filter_map(|(_, fill)| match fill {
                Fill::Name(kind) => Some(kind),
                Fill::Plain(_) | Fill::Absent => None,
            })
            .collect();
        let body = self.case.body.to_string();
        kinds.extend(ALL.iter().filter(|kind| body.contains(&format!("<{kind}>"))));
        kinds
    }

    pub(super) fn request(&self, names: &Names) -> Request {
        let name = |kind: &str| names.get(kind).unwrap_or_else(|| panic!("{self}: there is no {kind}")).clone();
        let mut path = self.operation.path.clone();
        let (mut query, mut headers) = (Vec::new(), Vec::new());
        for (parameter, fill) in self.parameters() {
            let value = match fill {
                Fill::Name(kind) => name(kind),
                Fill::Plain(value) => value.to_owned(),
                Fill::Absent => continue,
            };
            match parameter.place.as_str() {
                "path" => path = path.replace(&format!("{{{}}}", parameter.name), &value),
                "query" => query.push(format!("{}={value}", parameter.name)),
                _ => headers.push((parameter.name.to_lowercase(), value)),
            }
        }
        assert!(!path.contains('{'), "{self}: {path} is not filled");
        if !query.is_empty() {
            path += &format!("?{}", query.join("&"));
        }
        let mut body = String::new();
        if !self.case.body.is_null() {
            headers.push(("content-type".to_owned(), "application/json".to_owned()));
            body = self.case.body.to_string();
            for kind in ALL {
                let place = format!("<{kind}>");
                if body.contains(&place) {
                    body = body.replace(&place, &name(kind));
                }
            }
        }
        Request { method: self.operation.method.clone(), path, headers, body }
    }
}

/// The kinds of things that bodies name.
const ALL: [&str; 11] = [
    "session",
    "turn",
    "form",
    "document",
    "agent",
    "call",
    "waiting_call",
    "shown_call",
    "request",
    "message_name",
    "said",
];

impl std::fmt::Display for Shape<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Operation { id, method, path, .. } = self.operation;
        write!(f, "{id} ({method} {path}) {:?}", self.case.about)?;
        self.more.map_or(Ok(()), |more| write!(f, " with {}", more.name))
    }
}

impl Request {
    fn headers(&self) -> Vec<(&str, &str)> {
        self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }

    #[track_caller]
    pub(super) fn send(&self, client: &Client) -> Answer {
        client.send_with(&self.method, &self.path, &self.headers(), self.body.clone())
    }

    /// What its sender is told, up to the first event of an answer that may have no end.
    #[track_caller]
    pub(super) fn begin(&self, client: &Client, names: &Names) -> (u16, String) {
        let mut answer = client.open_with(&self.method, &self.path, &self.headers(), self.body.clone());
        match answer.header("content-type") {
            "text/event-stream" => (answer.status(), hidden(&answer.next().unwrap_or_default(), names)),
            _ => (answer.status(), Told::new(&answer.into_answer(), names).body),
        }
    }

    /// What its sender is refused with; none if it is not. An answer that is none may have no end.
    #[track_caller]
    pub(super) fn refusal(&self, client: &Client, names: &Names) -> Option<Told> {
        let answer = client.open_with(&self.method, &self.path, &self.headers(), self.body.clone());
        (answer.status() >= 400).then(|| Told::new(&answer.into_answer(), names))
    }
}

impl Told {
    /// What an answer says to somebody who has given these names.
    pub(super) fn new(answer: &Answer, names: &Names) -> Self {
        let hide = |text: &str| hidden(text, names);
        let headers = answer.headers.iter().filter(|(name, _)| !["x-request-id", "date"].contains(&name.as_str()));
        let headers =
            headers.map(|(name, value)| hide(&format!("{name}: {}", String::from_utf8_lossy(value.as_bytes()))));
        let headers = headers.filter(|header| !header.starts_with("content-length")).collect();
        Self { status: answer.status, headers, body: hide(&answer.body) }
    }

    /// Whether it has anything of another's in it.
    pub(super) fn tells_of(&self, names: &[Names]) -> Option<String> {
        let all = format!("{:?} {}", self.headers, self.body).to_lowercase();
        let names = names.iter().flat_map(|names| names.iter());
        // Words that everybody has.
        let names = names.filter(|(kind, _)| !["tool", "idempotency", "request"].contains(*kind));
        let long = names
            .filter(|(kind, _)| !kind.ends_with("cursor") && **kind != "after")
            .map(|(_, name)| name.to_lowercase());
        long.chain([MARK.to_owned()]).find(|name| all.contains(name.as_str()))
    }
}

/// A text without these names, and without what is different each time.
fn hidden(text: &str, names: &Names) -> String {
    // A cursor is short enough to be in any text, and nobody is told of those that they give.
    let mut longest: Vec<_> = names.iter().filter(|(_, name)| name.len() > 8).collect();
    longest.sort_by_key(|(_, name)| std::cmp::Reverse(name.len()));
    let mut text = text.to_owned();
    for (kind, name) in longest {
        // What is long is shown in part.
        let part = &name[..name.len().min(64)];
        text = text.replace(name.as_str(), &format!("<{kind}>")).replace(part, &format!("<{kind}>"));
    }
    without_numbers(&without_times(&without_last_use(&text)))
}

/// A text without the times at which keys were last used: to look at one's keys is to use one.
fn without_last_use(text: &str) -> String {
    let mut parts = text.split("\"last_used_at\":");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.find([',', '}']).map_or("", |end| &part[end..]))
}

/// A text without times, such as 2026-07-25T17:20:00.120Z.
fn without_times(text: &str) -> String {
    let fits = |(byte, shape): (u8, u8)| if shape == b'0' { byte.is_ascii_digit() } else { byte == shape };
    let is_time = |text: &str, shape: &str| text.len() >= shape.len() && text.bytes().zip(shape.bytes()).all(fits);
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(char) = rest.chars().next() {
        match ["0000-00-00T00:00:00.000Z", "0000-00-00T00:00:00Z"].into_iter().find(|shape| is_time(rest, shape)) {
            Some(shape) => {
                out.push('#');
                rest = &rest[shape.len()..];
            }
            None => {
                out.push(char);
                rest = &rest[char.len_utf8()..];
            }
        }
    }
    out
}

/// A text without ids that were made for the answer, and without times.
fn without_numbers(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut digits = String::new();
    for char in text.chars().chain(['\0']) {
        if char.is_ascii_hexdigit() {
            digits.push(char);
            continue;
        }
        let is_number = digits.len() >= 9 && digits.bytes().any(|byte| byte.is_ascii_digit());
        out.push_str(if is_number { "#" } else { &digits });
        digits.clear();
        out.push(char);
    }
    out.pop();
    out
}
