//! Tools whose declaration a provider refuses.

use serde_json::Value;

use super::{
    is_quoted,
    path::{self, Step},
};
use crate::provider::failure::{Report, number_after};

/// What refusals of declarations have in common. Some servers make a grammar of them.
const ABOUT_DECLARATIONS: &[&str] = &[
    "grammar",
    "json schema",
    "json_schema",
    "jsonschema",
    "invalid schema",
    "schema conversion",
    "unrecognized schema",
    "unimplemented keys",
    "function.parameters",
    "function parameters",
    "function declaration",
    "function definition",
    "tool definition",
    "tool parameters",
    "tool schema",
    "input_schema",
    "too many states",
    "too many tools",
    "tools limit",
    "number of tools",
    "is not callable",
];

/// How refusals name the list of tools.
const NAMES_OF_TOOLS: &[&str] = &["'tools'", "\"tools\"", "`tools`", "tools: list"];

/// What stands before the most tools that a provider takes.
const MOST: &[&str] = &[
    "maximum length ",
    "maximum number of items is ",
    "number of tools is ",
    "should have at most ",
    "limit reached: ",
    "at most ",
    "no more than ",
    "maximum of ",
    "maximum is ",
    "maximum ",
    "max ",
    "limit of ",
    "limit is ",
];

/// How refusals speak of too many tools.
const COUNTS_OF_TOOLS: &[&str] = &["too many tools", "tools limit", "number of tools", "maximum tools"];

/// Whether a refusal speaks of how tools are declared.
pub(super) fn is_about_declarations(words: &str) -> bool {
    ABOUT_DECLARATIONS.iter().any(|phrase| words.contains(phrase))
}

/// The most tools that a provider takes in one request, where it refuses more.
pub(super) fn most(report: &Report, words: &str, body: &[u8]) -> Option<usize> {
    let names_tools = report.param() == Some("tools") || NAMES_OF_TOOLS.iter().any(|name| words.contains(name));
    let says_too_many = COUNTS_OF_TOOLS.iter().any(|phrase| words.contains(phrase) && !is_quoted(body, phrase));
    if !names_tools && !says_too_many && !["tools", "functions"].iter().any(|name| words.contains(name)) {
        return None;
    }
    let Some(marker) = MOST.iter().find(|marker| number_after(words, marker).is_some()) else {
        // How many are too many is not said: half of them may do.
        let body: Value = serde_json::from_slice(body).ok()?;
        return says_too_many.then(|| declared(&body).len() / 2).filter(|most| *most > 0);
    };
    let most = number_after(words, marker)?;
    if is_quoted(body, &format!("{marker}{most}")) {
        return None;
    }
    let body: Value = serde_json::from_slice(body).ok()?;
    usize::try_from(most).ok().filter(|most| *most > 0 && *most < declared(&body).len())
}

/// The name of the tool that a refusal is about.
pub(super) fn refused(report: &Report, raw: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(raw).ok()?;
    let declared = declared(&body);
    let by_place = |text: &str| {
        ["function_declarations", "functionDeclarations", "tools"].iter().find_map(|root| {
            let Step::Index(index) = path::after(text, root)?.first()?.clone() else { return None };
            declared.get(index).copied()
        })
    };
    if let Some(name) = report.param().and_then(by_place) {
        return Some(name.to_owned());
    }
    // A user may have written such words, for the provider to repeat and for us to misread.
    let words = report.words();
    let is_own = |name: &&str| {
        let index = declared.iter().position(|other| other == name).unwrap_or_default();
        let function = format!("schema for function '{name}");
        let quotes = [function, format!("tools[{index}]"), format!("tools.{index}"), format!("declarations[{index}]")];
        !quotes.iter().any(|quote| words.contains(quote) && is_quoted(raw, quote))
    };
    by_place(words).or_else(|| by_name(words, &declared)).filter(is_own).map(str::to_owned)
}

/// The names of the tools that a body declares, in order.
pub(super) fn names(body: &[u8]) -> Vec<String> {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    declared(&body).into_iter().map(str::to_owned).collect()
}

fn declared(body: &Value) -> Vec<&str> {
    let Some(tools) = body.get("tools").and_then(Value::as_array) else { return Vec::new() };
    let flat = tools.iter().flat_map(|tool| match tool.get("functionDeclarations").and_then(Value::as_array) {
        Some(declarations) => declarations.iter().collect(),
        None => vec![tool],
    });
    flat.map(|tool| tool.get("function").unwrap_or(tool).get("name").and_then(Value::as_str).unwrap_or_default())
        .collect()
}

/// `Invalid schema for function 'name': …`
fn by_name<'d>(text: &str, declared: &[&'d str]) -> Option<&'d str> {
    let (_, rest) = text.split_once("schema for function ")?;
    let named = rest.trim_start_matches(['\'', '"', '`']);
    let end = named.find(['\'', '"', '`', ':', ' ']).unwrap_or(named.len());
    declared.iter().copied().find(|name| *name == &named[..end])
}
