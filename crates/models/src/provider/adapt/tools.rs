//! Tools whose declaration a provider refuses.

use serde_json::Value;

use super::{
    is_quoted,
    path::{self, Step},
};
use crate::provider::failure::Report;

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
