//! Fields that a model does not take.

use std::collections::BTreeMap;

use serde_json::{Value, value::RawValue};

use super::is_quoted;
use crate::provider::failure::Report;

/// Fields that a call can do without; a dot leads into an object. Inner fields stand before the object that holds them, so
/// that as little as possible is left out.
const OPTIONAL: &[&str] = &[
    "thinking.block_binding",
    "thinking.display",
    "thinking",
    "output_config.effort",
    "output_config.format",
    "output_config",
    "reasoning.summary",
    "reasoning.effort",
    "reasoning",
    "reasoning_effort",
    "include_reasoning",
    "enable_thinking",
    "chat_template_kwargs",
    "text.verbosity",
    "text.format",
    "stream_options.include_obfuscation",
    "stream_options",
    "temperature",
    "top_p",
    "seed",
    "stop_sequences",
    "stop",
    "frequency_penalty",
    "presence_penalty",
    "parallel_tool_calls",
    "tool_choice",
    "toolConfig",
    "response_format",
    "prompt_cache_key",
    "cache_control",
    "include",
    "store",
    "think",
    "truncate",
    "shift",
    "max_completion_tokens",
    "max_tokens",
    "generationConfig.thinkingConfig",
    "generationConfig.temperature",
    "generationConfig.topP",
    "generationConfig.seed",
    "generationConfig.stopSequences",
    "generationConfig.responseJsonSchema",
    "generationConfig.responseMimeType",
    "options.num_ctx",
];

/// How providers say that they do not take a field.
const REFUSALS: &[&str] = &[
    "unsupported",
    "not supported",
    "not support",
    "unknown",
    "unrecognized",
    "unexpected",
    "deprecated",
    "extra inputs",
    "extra_forbidden",
    "not permitted",
    "not allowed",
    "not enabled",
    "unavailable",
    "cannot find field",
    "invalid",
    "must be verified",
    "only the default",
    "cannot both",
];

/// How providers say that a model calls no tools at all.
const NO_TOOLS: &[&str] = &[
    "does not support tools",
    "not support function calling",
    "not support tool",
    "tool use is not supported",
    "support tool use",
    "`tools` is not supported",
    "'tools' is not supported",
    "tool calling is not supported",
    "enable-auto-tool-choice",
    "function calling is not enabled",
    "tool calling is not enabled",
];

/// The field of the body that a refusal is about, if the API takes a request without it.
pub(super) fn refused(report: &Report, words: &str, body: &[u8], required: &[&str]) -> Option<String> {
    let fields: BTreeMap<String, &RawValue> = serde_json::from_slice(body).ok()?;
    // A model that cannot be forced to call tools may well call them.
    if fields.contains_key("tool_choice") && contains_word(words, "tool_choice") {
        return Some("tool_choice".to_owned());
    }
    let says_no_tools = |phrase: &&str| words.contains(phrase) && !is_quoted(body, phrase);
    if fields.contains_key("tools") && NO_TOOLS.iter().any(says_no_tools) {
        return Some("tools".to_owned());
    }
    if fields.contains_key("think") && words.contains("not support thinking") {
        return Some("think".to_owned());
    }
    let present = present(body, required);
    if let Some(param) = report.param() {
        let param = param.replace('[', ".");
        let named = present.iter().find(|path| param == **path || param.starts_with(&format!("{path}.")));
        let is_last = |path: &&&str| path.ends_with(&format!(".{param}"));
        let is_same = |path: &&&str| squeezed(path) == squeezed(&param);
        let named = named.or_else(|| present.iter().find(is_last)).or_else(|| present.iter().find(is_same));
        if let Some(path) = named {
            return Some((*path).to_owned());
        }
    }
    if !REFUSALS.iter().any(|phrase| words.contains(phrase)) {
        return None;
    }
    present.into_iter().find(|path| names(words, &path.to_lowercase())).map(str::to_owned)
}

/// The optional fields of a body. Fields that its API requires are left out.
pub(super) fn present(body: &[u8], required: &[&str]) -> Vec<&'static str> {
    let Ok(fields) = serde_json::from_slice::<BTreeMap<String, &RawValue>>(body) else { return Vec::new() };
    let is_there = |path: &&&str| match path.split_once('.') {
        None if **path == CACHE_MARKS => has_cache_marks(body),
        None => fields.contains_key(**path),
        Some((outer, inner)) => fields
            .get(outer)
            .and_then(|raw| serde_json::from_str::<Value>(raw.get()).ok())
            .is_some_and(|value| value.get(inner).is_some()),
    };
    OPTIONAL.iter().filter(|path| !required.contains(path)).filter(is_there).copied().collect()
}

/// Marks for the provider's cache, which stand in many places of a body.
pub(super) const CACHE_MARKS: &str = "cache_control";

/// Whether a refusal is about such marks.
pub(super) fn is_about_cache_marks(words: &str, body: &[u8]) -> bool {
    words.contains(CACHE_MARKS) && REFUSALS.iter().any(|phrase| words.contains(phrase)) && has_cache_marks(body)
}

fn has_cache_marks(body: &[u8]) -> bool {
    String::from_utf8_lossy(body).contains("\"cache_control\":{")
}

/// Fields that few servers have, those that are missed least first.
const RARE: &[&str] = &[
    "seed",
    "parallel_tool_calls",
    "frequency_penalty",
    "presence_penalty",
    "stop",
    "top_p",
    "reasoning",
    "reasoning_effort",
    "temperature",
    "tool_choice",
];

/// A field of the body that a server may not have.
pub(super) fn any(body: &[u8]) -> Option<String> {
    let fields: BTreeMap<String, &RawValue> = serde_json::from_slice(body).ok()?;
    RARE.iter().find(|field| fields.contains_key(**field)).map(|field| (*field).to_owned())
}

/// Whether a refusal is about the value of a field rather than the field.
pub(super) fn is_about_value(words: &str) -> bool {
    let bounds = ["expected a value", "maximum value", "minimum value", "must be between", "less than", "greater than"];
    let more = ["at most", "at least", "out of range", "should be between", "<=", ">="];
    !words.contains("only the default") && bounds.iter().chain(&more).any(|phrase| words.contains(phrase))
}

/// Whether a text names a field: by its whole path, or by its last name in quotation marks or before a colon. A bare word
/// such as "include" may be any word.
fn names(words: &str, path: &str) -> bool {
    let last = path.rsplit('.').next().unwrap_or(path);
    let snake = snake_case(last);
    let is_marked = |name: &str| {
        ['\'', '"', '`'].iter().any(|mark| words.contains(&format!("{mark}{name}{mark}")))
            || words.starts_with(&format!("{name}:"))
            || words.contains(&format!(" {name}: "))
            || words.trim_end_matches('.').ends_with(&format!(": {name}"))
    };
    // A name with an underscore is no word of a sentence.
    let is_plain = |name: &str| name.contains(['_', '.']) && contains_word(words, name);
    // xAI writes `reasoningEffort` for `reasoning_effort` and `reasoning.effort`.
    let is_camel_case = path.contains(['_', '.']) && contains_word(words, &squeezed(path));
    contains_word(words, path) && path.contains('.')
        || is_camel_case
        || is_marked(last)
        || is_marked(&snake)
        || is_plain(last)
        || is_plain(&snake)
        || (matches!(last, "temperature" | "seed") && contains_word(words, last))
}

fn contains_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        !text[..at].ends_with(is_part) && !text[at + word.len()..].starts_with(is_part)
    })
}

/// A name as its camel case is in lower case.
fn squeezed(name: &str) -> String {
    name.replace(['_', '.'], "").to_lowercase()
}

/// `thinkingconfig` stays; `topP` in lower case is `topp`, which errors call `top_p`.
fn snake_case(name: &str) -> String {
    match name {
        "topp" => "top_p".to_owned(),
        "stopsequences" => "stop_sequences".to_owned(),
        "thinkingconfig" => "thinking_config".to_owned(),
        "responsejsonschema" => "response_json_schema".to_owned(),
        "responsemimetype" => "response_mime_type".to_owned(),
        name => name.to_owned(),
    }
}
