//! How a model thinks and samples, as requests say it.

use everturn_core::{Effort, Thinking};
use everturn_http::document;
use serde_json::json;

/// The effort that a word stands for, else what is wrong with the word.
pub(crate) fn effort(word: &str) -> Result<Effort, String> {
    choose(word, &Effort::ALL, Effort::as_str)
}

/// The mode of thinking that a word stands for, else what is wrong with the word.
pub(crate) fn thinking(word: &str) -> Result<Thinking, String> {
    choose(word, &Thinking::ALL, Thinking::as_str)
}

/// A temperature in thousandths, else what is wrong with the number.
pub(crate) fn temperature(value: f64) -> Result<u32, String> {
    if !(0.0..=2.0).contains(&value) {
        return Err(format!("it must be between 0 and 2, not {value}"));
    }
    Ok((value * 1000.0).round() as u32)
}

fn choose<T: Copy>(word: &str, all: &[T], name: fn(T) -> &'static str) -> Result<T, String> {
    all.iter().copied().find(|choice| name(*choice) == word).ok_or_else(|| {
        let shown: String = word.chars().take(64).collect();
        let names: Vec<_> = all.iter().map(|choice| format!("{:?}", name(*choice))).collect();
        format!("it cannot be {shown:?}; use one of {}", names.join(", "))
    })
}

pub(crate) fn effort_words() -> document::AnySchema {
    words(Effort::ALL.map(Effort::as_str).to_vec(), true)
}

pub(crate) fn effort_word() -> document::AnySchema {
    words(Effort::ALL.map(Effort::as_str).to_vec(), false)
}

pub(crate) fn thinking_words() -> document::AnySchema {
    words(Thinking::ALL.map(Thinking::as_str).to_vec(), true)
}

pub(crate) fn thinking_word() -> document::AnySchema {
    words(Thinking::ALL.map(Thinking::as_str).to_vec(), false)
}

fn words(words: Vec<&str>, or_null: bool) -> document::AnySchema {
    if !or_null {
        return document::schema(json!({ "type": "string", "enum": words }));
    }
    let words: Vec<_> = words.into_iter().map(Some).chain([None]).collect();
    document::schema(json!({ "type": ["string", "null"], "enum": words }))
}
