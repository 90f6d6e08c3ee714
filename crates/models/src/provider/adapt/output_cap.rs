//! Caps on the answer that a provider refuses: they are lowered, and never left out where the API wants one.

use serde_json::Value;

use super::{Change, is_quoted};
use crate::provider::failure::number_after;

/// Where the wires write the cap.
const PLACES: &[&str] = &[
    "/max_tokens",
    "/max_completion_tokens",
    "/max_output_tokens",
    "/generationConfig/maxOutputTokens",
    "/options/num_predict",
];

/// What refusals of a cap call it.
const NAMES: &[&str] = &[
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "maxoutputtokens",
    "max_new_tokens",
    "completion tokens",
    "maximum tokens",
];

/// What stands before the highest cap that the model takes.
const UP_TO: &[&str] = &[
    "at most ",
    " > ",
    "<= ",
    "less than or equal to ",
    "maximum value of ",
    "maximum value is ",
    "maximum of ",
    "maximum is ",
    "limit of ",
    "max_total_tokens=",
    "max_model_len=",
    "not exceed ",
    "no more than ",
    "[1, ",
    "[1,",
    "[0, ",
    "between 1 and ",
    "from 1 to ",
];

/// What stands before the lowest cap that is too high.
const BELOW: &[&str] = &["less than ", "lower than ", "smaller than "];

/// The caps that are tried one after the other where a refusal names none.
const STEPS: &[u64] = &[32_000, 8192, 4096, 1024];

/// No model's longest answer is shorter, in tokens. A number that is misread must not cut every later answer short.
const SHORTEST: u64 = 256;

/// How a refusal says that the cap is too high, rather than that there is no such field.
const TOO_HIGH: &[&str] = &[
    "too large",
    "too big",
    "too high",
    "exceed",
    "range",
    "at most",
    "less than",
    "lower than",
    "maximum",
    "between",
    "<=",
    "invalid max",
    "invalid value",
];

/// How a refusal says that there is no such field.
const NO_FIELD: &[&str] =
    &["unsupported", "not support", "unknown", "unrecognized", "unexpected", "extra", "not permitted", "deprecated"];

/// A lower cap does not help against these: it is missing, too low, or in the way of a budget for thinking.
const NOT_TOO_HIGH: &[&str] = &["required", "missing", "at least", "minimum", ">=", "budget"];

/// The lower cap that a refusal asks for. `is_required`: whether the API takes no request without a cap.
pub(super) fn lowered(words: &str, body: &[u8], is_required: bool) -> Option<Change> {
    let sent = sent(body)?;
    // An overflow names the cap too; a shorter answer would not make room for the question.
    if !NAMES.iter().any(|name| words.contains(name)) || words.replace("context_window", "").contains("context") {
        return None;
    }
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| words.contains(phrase));
    if let Some(most) = named(words, body).filter(|most| (SHORTEST..sent).contains(most)) {
        return Some(Change::MaxOutput(most));
    }
    let is_too_high = !says(NOT_TOO_HIGH) && (is_required || (says(TOO_HIGH) && !says(NO_FIELD)));
    let next = STEPS.iter().copied().find(|step| *step < sent);
    next.filter(|_| is_too_high).map(Change::LowerOutput)
}

/// The highest cap that a refusal names. What the request itself says is no such number.
fn named(words: &str, body: &[u8]) -> Option<u64> {
    let words = words.replace(['`', '\'', '"'], "");
    if words.contains("(exclusive)") {
        return number_after(&words, "to ").map(|most| most.saturating_sub(1));
    }
    let read = |marker: &str| {
        let number = number_after(&words, marker)?;
        (!is_quoted(body, &format!("{marker}{number}"))).then_some(number)
    };
    let below = || BELOW.iter().find_map(|marker| read(marker)).map(|most| most.saturating_sub(1));
    UP_TO.iter().find_map(|marker| read(marker)).or_else(below)
}

/// The cap that a request has.
fn sent(body: &[u8]) -> Option<u64> {
    let body: Value = serde_json::from_slice(body).ok()?;
    PLACES.iter().find_map(|place| body.pointer(place)?.as_u64())
}
