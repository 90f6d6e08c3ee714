//! Tools whose declaration a provider refuses.

use serde_json::Value;

use super::path::{self, Step};
use crate::provider::failure::Report;

/// The name of the tool that a refusal is about.
pub(super) fn refused(report: &Report, body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let declared = declared(&body);
    [report.param(), Some(report.words())].into_iter().flatten().find_map(|text| {
        let by_place = ["function_declarations", "functionDeclarations", "tools"].iter().find_map(|root| {
            let Step::Index(index) = path::after(text, root)?.first()?.clone() else { return None };
            declared.get(index).copied()
        });
        by_place.or_else(|| by_name(text, &declared)).map(str::to_owned)
    })
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
