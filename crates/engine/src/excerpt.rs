//! Lines that stand for messages where no summary could be made, so that a model knows what it has done.
//!
//! The newest messages have a line each. Older ones are told in ever fewer words, calls of the same tool together, and the
//! oldest are counted: something of every step stays for as long as possible.

use std::collections::{BTreeMap, HashMap};

use everturn_core::{CallId, Json, Message, context};
use serde_json::Value;

/// How much is said of a message.
#[derive(Clone, Copy, Debug)]
struct Form {
    /// The most bytes of what a person or the model said.
    text: usize,
    /// The most bytes of a call's input.
    input: usize,
    /// The most bytes of a call's result. Without any, calls of the same tool are told together.
    result: usize,
    /// Whether only the values of an input are told, without their names.
    is_bare: bool,
}

impl Form {
    const FULL: Self = Self { text: 120, input: 80, result: 24, is_bare: false };
    const SHORT: Self = Self { text: 60, input: 32, result: 0, is_bare: false };
    const BARE: Self = Self { text: 24, input: 16, result: 0, is_bare: true };
}

/// An input of more bytes is not looked into for its values.
const LONGEST_READ: usize = 4096;

/// A thing that was said or called.
enum Entry<'a> {
    Said { who: &'static str, text: String },
    Call { name: &'a str, input: &'a Json, result: Option<(bool, String)> },
}

/// The lines for these messages, in at most so many tokens.
pub(crate) fn excerpt<'a>(messages: impl Iterator<Item = &'a Message>, most: u64) -> String {
    let entries = entries(messages);
    let full: Vec<_> = entries.iter().map(|one| one.line(Form::FULL)).collect();
    if full.iter().map(|line| tokens(line)).sum::<u64>() <= most {
        return full.join("\n");
    }
    // A quarter of the room is for full lines, more than a third for short ones, and most of the rest for values alone.
    let forms = [(Form::FULL, most / 4), (Form::SHORT, most / 8 * 5), (Form::BARE, most / 16 * 15)];
    let (mut used, mut from) = (0, entries.len());
    let mut parts = Vec::new();
    for (form, end) in forms {
        let to = from;
        while let Some(at) = from.checked_sub(1) {
            let cost = entries[at].cost(form, entries[..to].get(from));
            // The newest is told in full if there is any room for it.
            let end = if from == entries.len() { most } else { end };
            if used + cost > end {
                break;
            }
            used += cost;
            from = at;
        }
        parts.push(lines(&entries[from..to], form));
    }
    parts.push(counted(&entries[..from], most.saturating_sub(used)).into_iter().collect());
    parts.into_iter().rev().flatten().collect::<Vec<_>>().join("\n")
}

fn entries<'a>(messages: impl Iterator<Item = &'a Message>) -> Vec<Entry<'a>> {
    let mut entries = Vec::new();
    // The place of each call, which its result is added to.
    let mut calls: HashMap<&CallId, usize> = HashMap::new();
    for message in messages {
        match message {
            Message::System { .. } => {}
            Message::User { content } => {
                entries.push(Entry::Said { who: "User", text: beginning(&content.text_and_media(), Form::FULL.text) });
            }
            Message::Assistant { content } => {
                let text = beginning(&content.text(), Form::FULL.text);
                if !text.is_empty() {
                    entries.push(Entry::Said { who: "Assistant", text });
                }
                for call in message.tool_uses() {
                    calls.insert(&call.id, entries.len());
                    entries.push(Entry::Call { name: &call.name, input: &call.input, result: None });
                }
            }
            Message::Tool { call_id, content, is_error } => {
                if let Some(Entry::Call { result, .. }) = calls.get(call_id).and_then(|at| entries.get_mut(*at)) {
                    *result = Some((*is_error, beginning(&content.text_and_media(), Form::FULL.result)));
                }
            }
        }
    }
    entries
}

impl Entry<'_> {
    /// A line of its own.
    fn line(&self, form: Form) -> String {
        match self {
            Self::Said { who, text } => format!("{who}: {}", beginning(text, form.text)),
            Self::Call { name, input, result } => {
                let result = result.as_ref().map(|(is_error, text)| {
                    let outcome = if *is_error { "failed" } else { "gave" };
                    format!(" {outcome}: {text}")
                });
                format!("Called {name} {}{}", beginning(input.as_str(), form.input), result.unwrap_or_default())
            }
        }
    }

    /// A call among others of its tool.
    fn item(&self, form: Form) -> String {
        let Self::Call { input, result, .. } = self else { return String::new() };
        let input = if form.is_bare { values(input, form.input) } else { beginning(input.as_str(), form.input) };
        let failed = if matches!(result, Some((true, _))) { " (failed)" } else { "" };
        format!("{input}{failed}")
    }

    /// The tool whose calls this one is told together with.
    fn group(&self, form: Form) -> Option<&str> {
        match self {
            Self::Call { name, .. } if form.result == 0 => Some(name),
            Self::Call { .. } | Self::Said { .. } => None,
        }
    }

    /// The tokens that it adds to what is told of the one after it.
    fn cost(&self, form: Form, after: Option<&Self>) -> u64 {
        let Some(name) = self.group(form) else { return tokens(&self.line(form)) };
        let is_same = after.and_then(|after| after.group(form)) == Some(name);
        let begins = if is_same { 0 } else { tokens(&group_line(name, 1000, "")) };
        begins + tokens(&self.item(form))
    }
}

/// The lines for entries in a form.
fn lines(entries: &[Entry<'_>], form: Form) -> Vec<String> {
    let is_same =
        |one: &Entry<'_>, other: &Entry<'_>| one.group(form).is_some() && one.group(form) == other.group(form);
    let line = |group: &[Entry<'_>]| match group.first()?.group(form) {
        Some(name) => {
            let items: Vec<_> = group.iter().map(|one| one.item(form)).collect();
            Some(group_line(name, group.len(), &items.join(", ")))
        }
        None => group.first().map(|one| one.line(form)),
    };
    entries.chunk_by(is_same).filter_map(line).collect()
}

fn group_line(name: &str, count: usize, items: &str) -> String {
    format!("Called {name} {}: {items}", times(count))
}

/// One line for all of these, if there is room for it.
fn counted(entries: &[Entry<'_>], most: u64) -> Option<String> {
    let mut said: BTreeMap<&str, usize> = BTreeMap::new();
    let mut calls: BTreeMap<&str, usize> = BTreeMap::new();
    for one in entries {
        match one {
            Entry::Said { who, .. } => *said.entry(who).or_default() += 1,
            Entry::Call { name, .. } => *calls.entry(name).or_default() += 1,
        }
    }
    let mut calls: Vec<_> = calls.into_iter().collect();
    calls.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let said = said.into_iter().map(|(who, count)| format!("{who} spoke {}", times(count)));
    let calls = calls.into_iter().map(|(name, count)| format!("called {name} {}", times(count)));
    let mut line = String::new();
    // The calls first: they are what was done.
    for fact in calls.chain(said) {
        let longer = if line.is_empty() { format!("Before that: {fact}") } else { format!("{line}, {fact}") };
        if tokens(&longer) > most {
            break;
        }
        line = longer;
    }
    (!line.is_empty()).then_some(line)
}

fn times(count: usize) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

/// The tokens of a line, or of an item with the comma after it.
fn tokens(line: &str) -> u64 {
    context::estimate_text(line) + 1
}

/// The values in an input, without their names.
fn values(input: &Json, most: usize) -> String {
    if input.as_str().len() > LONGEST_READ {
        return beginning(input.as_str(), most);
    }
    let mut found = String::new();
    let mut left = vec![input.to_value()];
    while let Some(value) = left.pop().filter(|_| found.len() <= most) {
        match value {
            Value::Array(items) => left.extend(items.into_iter().rev()),
            Value::Object(fields) => left.extend(fields.into_iter().map(|(_, field)| field).rev()),
            Value::String(text) => found.extend([text.as_str(), " "]),
            Value::Null => {}
            Value::Bool(_) | Value::Number(_) => found.extend([value.to_string().as_str(), " "]),
        }
    }
    beginning(&found, most)
}

/// The first words of a text, on one line.
fn beginning(text: &str, most: usize) -> String {
    // Of a long text the rest is not looked at.
    let looked_at = &text[..text.floor_char_boundary(most.saturating_mul(8))];
    let words = looked_at.split_whitespace().collect::<Vec<_>>().join(" ");
    let is_whole = words.len() <= most && looked_at.len() == text.len();
    if is_whole { words } else { format!("{}…", &words[..words.floor_char_boundary(most)]) }
}

#[cfg(test)]
mod tests {
    use everturn_core::{Block, Content, ToolUse};

    use super::*;

    fn call(id: &str, name: &str, input: &str) -> Message {
        let call = ToolUse { id: CallId::new(id), name: name.to_owned(), input: Json::parse(input).unwrap() };
        Message::Assistant { content: Content::Blocks(vec![Block::ToolUse(call)]) }
    }

    fn result(id: &str, text: &str, is_error: bool) -> Message {
        Message::Tool { call_id: CallId::new(id), content: Content::Text(text.to_owned()), is_error }
    }

    #[test]
    fn calls_are_told_with_their_results_and_the_newest_stay() {
        let messages = [
            Message::user("do\nboth"),
            call("a", "work", r#"{"job":1}"#),
            result("a", &"é".repeat(60), false),
            call("b", "work", r#"{"job":2}"#),
            result("b", "no", true),
        ];
        let expected = format!(
            "User: do both\nCalled work {{\"job\":1}} gave: {}…\nCalled work {{\"job\":2}} failed: no",
            "é".repeat(12)
        );
        assert_eq!(excerpt(messages.iter(), 250), expected);
        assert_eq!(excerpt(messages.iter(), 13), "Called work {\"job\":2} failed: no");
        assert_eq!(excerpt(messages.iter(), 3), "");
    }

    #[test]
    fn the_older_is_told_in_fewer_words_and_the_oldest_is_counted() {
        let mut messages = vec![Message::user("read all of them")];
        for number in 0..60 {
            let id = format!("c{number}");
            messages.push(call(&id, "read_file", &format!(r#"{{"path":"src/f{number}.rs","limit":{number}}}"#)));
            messages.push(result(&id, "fn main() {}", number == 30));
        }
        let shown = excerpt(messages.iter(), 400);
        let lines: Vec<_> = shown.lines().collect();
        let [counted, bare, short, full @ ..] = lines.as_slice() else { panic!("{shown}") };
        assert!(counted.starts_with("Before that: called read_file "), "{shown}");
        assert!(counted.ends_with(" times, User spoke once"), "{shown}");
        assert!(bare.contains(", 41 src/f41.rs, 42 src/f42.rs"), "{shown}");
        assert!(short.contains(r#", {"path":"src/f54.rs","limit":54}, "#), "{shown}");
        assert_eq!(full.last(), Some(&r#"Called read_file {"path":"src/f59.rs","limit":59} gave: fn main() {}"#));
        let shown = excerpt(messages.iter(), 900);
        assert!(shown.contains(r#"{"path":"src/f30.rs","limit":30} (failed), "#), "{shown}");
        assert!(shown.starts_with("User: read all of them\nCalled read_file 29 times: 0 src/f0.rs, 1 "), "{shown}");
        for most in (0..1500).step_by(7) {
            let shown = excerpt(messages.iter(), most);
            assert!(context::estimate_text(&shown) <= most, "{most}: {shown}");
        }
    }
}
