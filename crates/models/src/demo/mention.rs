//! Finds the tools that a message asks for, by name or by an obvious request, and derives their input.

use everturn_core::{Json, Messages, ToolSpec};
use serde_json::Value;

use super::{arithmetic, feature::Feature, pause, schema_fill};

/// How many calls one message can ask for.
const MAX_CALLS: usize = 16;

/// Words that ask for the `clock` tool.
const CLOCK_WORDS: [&str; 4] = ["time", "date", "today", "o'clock"];

/// A tool call that a message asks for.
#[derive(Debug, PartialEq)]
pub(super) struct Call {
    pub(super) name: String,
    pub(super) input: Json,
}

/// The calls that `message`, the last of `history`, asks for, in the order in which it does.
pub(super) fn calls(message: &str, tools: &[ToolSpec], history: &Messages) -> Vec<Call> {
    let mut mentions = mentions(message, tools);
    if mentions.is_empty() {
        return obvious_call(message, tools, history).into_iter().collect();
    }
    mentions.truncate(MAX_CALLS);
    let only = mentions.len() == 1;
    let ends: Vec<usize> = mentions.iter().skip(1).map(|next| next.start).chain([message.len()]).collect();
    mentions
        .iter()
        .zip(ends)
        .map(|(mention, end)| {
            let words = &message[mention.end..end];
            // With one tool there is no doubt whose input an object is, wherever it stands.
            let object = object(words).or_else(|| if only { object(message) } else { None });
            let made_up = || Feature::of(mention.tool)?.input(message, history);
            call(mention.tool, object.or_else(made_up), trim_words(words))
        })
        .collect()
}

/// Where a message names a tool.
struct Mention<'a> {
    start: usize,
    end: usize,
    tool: &'a ToolSpec,
}

/// The places where `message` names tools, in order. The same tool counts again only where an input object follows,
/// so that a sentence which merely repeats the name makes one call.
fn mentions<'a>(message: &str, tools: &'a [ToolSpec]) -> Vec<Mention<'a>> {
    // Lower-casing ASCII only keeps every byte's place.
    let haystack = message.to_ascii_lowercase();
    let mut found = Vec::new();
    for tool in tools {
        for name in spoken_names(&tool.name) {
            for (start, _) in haystack.match_indices(&name) {
                let end = start + name.len();
                if stands_alone(&haystack, start, end) && is_meant(tool, &haystack, start, end) {
                    found.push(Mention { start, end, tool });
                }
            }
        }
    }
    // The longest of several names at one place is meant: `read_file` is not `read`.
    found.sort_by_key(|mention| (mention.start, usize::MAX - mention.end));
    let mut kept: Vec<Mention<'a>> = Vec::new();
    for mention in found {
        let overlaps = kept.last().is_some_and(|last| mention.start < last.end);
        let is_first = !kept.iter().any(|earlier| earlier.tool.name == mention.tool.name);
        if !overlaps && (is_first || message[mention.end..].trim_start().starts_with('{')) {
            kept.push(mention);
        }
    }
    kept
}

/// How people may write a tool's name: as it is, with spaces, and without the server that it comes from.
fn spoken_names(name: &str) -> Vec<String> {
    let name = name.to_ascii_lowercase();
    let short = name.split_once("__").map(|(_, short)| short.to_owned());
    let mut names: Vec<String> =
        short.into_iter().chain([name]).flat_map(|name| [name.replace(['_', '-'], " "), name]).collect();
    names.retain(|name| !name.trim().is_empty());
    names.sort();
    names.dedup();
    names
}

fn stands_alone(text: &str, start: usize, end: usize) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    !text[..start].ends_with(is_word) && !text[end..].starts_with(is_word)
}

/// Whether a tool's name is no mere word of the sentence. `wait` often is: it takes a time, an input, or words that
/// speak of tools.
fn is_meant(tool: &ToolSpec, message: &str, start: usize, end: usize) -> bool {
    if Feature::of(tool) != Some(Feature::Wait) {
        return true;
    }
    let (before, after) = (message[..start].trim(), message[end..].trim());
    let is_quoted = before.ends_with('`') && after.starts_with('`');
    let is_called = before.ends_with("call") || before.ends_with("use") || after.starts_with("tool");
    let is_all = before.is_empty() && after.trim_matches(|c: char| c.is_ascii_punctuation()).is_empty();
    pause::find(after).is_some() || message.contains('{') || is_quoted || is_called || is_all
}

/// A call that the message asks for without naming the tool.
fn obvious_call(message: &str, tools: &[ToolSpec], history: &Messages) -> Option<Call> {
    if let Some(tool) = Feature::asked(message, tools, history) {
        return Some(call(tool, Feature::of(tool)?.input(message, history), ""));
    }
    let tool = |name: &str| tools.iter().find(|tool| tool.name == name);
    if let (Some(expression), Some(calculator)) = (arithmetic::find(message), tool("calculator")) {
        return Some(call(calculator, None, expression));
    }
    let lower = message.to_ascii_lowercase();
    let mut words = lower.split(|c: char| !(c.is_alphanumeric() || c == '\''));
    if words.any(|word| CLOCK_WORDS.contains(&word)) {
        return tool("clock").map(|clock| call(clock, None, ""));
    }
    None
}

/// A call of a tool that must be called, whatever the message says.
pub(super) fn forced(tool: &ToolSpec, message: &str) -> Call {
    call(tool, object(message), message)
}

fn call(tool: &ToolSpec, object: Option<Json>, words: &str) -> Call {
    let input = object.unwrap_or_else(|| {
        let words = if tool.name == "calculator" { arithmetic::find(words).unwrap_or(words) } else { words };
        let filled = schema_fill::fill(&tool.input_schema.to_value(), words);
        Json::of(&Value::Object(filled)).unwrap_or_else(|_| Json::empty_object())
    });
    Call { name: tool.name.clone(), input }
}

/// The first JSON object in a text.
fn object(text: &str) -> Option<Json> {
    text.match_indices('{').take(MAX_CALLS).find_map(|(start, _)| {
        let mut values = serde_json::Deserializer::from_str(&text[start..]).into_iter::<&serde_json::value::RawValue>();
        let raw = values.next()?.ok()?;
        Some(Json::from(raw.to_owned()))
    })
}

/// What is left of the words after a tool's name once the sentence around them is gone.
fn trim_words(words: &str) -> &str {
    let is_edge = |c: char| c.is_whitespace() || matches!(c, '`' | '"' | '\'' | ':' | ',' | '.' | '!' | '?' | ';');
    let mut words = words.trim_matches(is_edge);
    for filler in ["tool", "with", "for", "of", "and", "please"] {
        words = strip_word(words, filler).trim_matches(is_edge);
        words = words.strip_suffix(filler).filter(|rest| rest.is_empty() || rest.ends_with(' ')).unwrap_or(words);
        words = words.trim_matches(is_edge);
    }
    words
}

fn strip_word<'a>(text: &'a str, word: &str) -> &'a str {
    match text.strip_prefix(word) {
        Some(rest) if rest.is_empty() || rest.starts_with(' ') => rest,
        Some(_) | None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, schema: &str) -> ToolSpec {
        let input_schema = Json::parse(schema).unwrap();
        ToolSpec { name: name.into(), title: None, description: String::new(), input_schema }
    }

    fn check(message: &str, expected: &[(&str, &str)]) {
        let tools = [
            tool("clock", "{}"),
            tool("calculator", r#"{"required":["expression"],"properties":{"expression":{"type":"string"}}}"#),
            tool("get_weather", r#"{"required":["location"],"properties":{"location":{"type":"string"}}}"#),
            tool("files__read_file", r#"{"required":["path"],"properties":{"path":{"type":"string"}}}"#),
            tool("read", "{}"),
        ];
        let calls = calls(message, &tools, &Messages::default());
        let found: Vec<_> = calls.iter().map(|call| (call.name.as_str(), call.input.as_str())).collect();
        assert_eq!(found, expected, "{message}");
    }

    #[test]
    fn tools_are_found_in_messages() {
        check("hello", &[]);
        check("What time is it?", &[("clock", "{}")]);
        check("sometimes", &[]);
        check("what is 12*7?", &[("calculator", r#"{"expression":"12*7"}"#)]);
        check("use the calculator for 1 + 2 please", &[("calculator", r#"{"expression":"1 + 2"}"#)]);
        check(r#"get_weather {"location":"Tokyo"}"#, &[("get_weather", r#"{"location":"Tokyo"}"#)]);
        check(r#"With {"location": "Rome"} call get_weather"#, &[("get_weather", r#"{"location": "Rome"}"#)]);
        check("get weather for Tokyo, please.", &[("get_weather", r#"{"location":"Tokyo"}"#)]);
        check("Call get_weather", &[("get_weather", r#"{"location":"location"}"#)]);
        check("`read_file` notes.txt", &[("files__read_file", r#"{"path":"notes.txt"}"#)]);
        check("the clock tool: the clock is nice", &[("clock", "{}")]);
        check("get_weather Oslo and clock", &[("get_weather", r#"{"location":"Oslo"}"#), ("clock", "{}")]);
        check(
            r#"get_weather {"location":"A"} get_weather {"location":"B"}"#,
            &[("get_weather", r#"{"location":"A"}"#), ("get_weather", r#"{"location":"B"}"#)],
        );
        check("get_weather {broken", &[("get_weather", r#"{"location":"{broken"}"#)]);
    }

    #[test]
    fn features_are_found_in_plain_words() {
        let object = |member: &str| format!(r#"{{"properties":{{"{member}":{{}}}}}}"#);
        let tools = [
            tool("clock", "{}"),
            tool("calculator", "{}"),
            tool("request_form", &object("schema")),
            tool("wait", &object("seconds")),
            tool("create_artifact", &object("content")),
            tool("update_artifact", &object("artifact_id")),
        ];
        let check = |message: &str, expected: &[&str]| {
            let calls = calls(message, &tools, &Messages::default());
            let found: Vec<_> = calls.iter().map(|call| call.name.as_str()).collect();
            assert_eq!(found, expected, "{message}");
        };
        check("what time is it?", &["clock"]);
        check("what is 12*7?", &["calculator"]);
        check("Ask me for the date", &["request_form"]);
        check("request form", &["request_form"]);
        check("write a page about time", &["create_artifact"]);
        check("change it", &[]);
        check("wait 5 seconds", &["wait"]);
        check("wait 5 seconds and use the clock", &["wait", "clock"]);
        check("Wait!", &["wait"]);
        check("use the wait tool", &["wait"]);
        check("wait, what time is it?", &["clock"]);
        check("I cannot wait", &[]);
        check("clock and calculator", &["clock", "calculator"]);
        // Named like ours, but another's.
        let tools = [tool("wait", r#"{"required":["for"],"properties":{"for":{"type":"string"}}}"#)];
        let [call] = &calls("wait Ada", &tools, &Messages::default())[..] else { panic!("one call") };
        assert_eq!(call.input.as_str(), r#"{"for":"Ada"}"#);
    }

    proptest::proptest! {
        #[test]
        fn any_message_is_taken(message in "(clock|get_weather|[{}\"a-zé ]){0,40}") {
            let tools = [tool("clock", "[1]"), tool("get_weather", r#"{"required":["é"]}"#), tool("__", "{}")];
            for call in calls(&message, &tools, &Messages::default()) {
                proptest::prop_assert!(call.input.is_object());
            }
        }
    }
}
