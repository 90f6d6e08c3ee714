//! OpenRouter's details of a model's reasoning, which arrive in pieces and go back whole.

use serde_json::{Map, Value};

/// The texts of a detail, of which each kind has one.
const TEXTS: [&str; 3] = ["text", "summary", "data"];

/// The most details of one answer.
const MAX_DETAILS: usize = 1024;

/// The details of one answer so far.
#[derive(Debug, Default)]
pub(super) struct Details(Vec<Map<String, Value>>);

impl Details {
    /// Adds the pieces of one chunk. Pieces of the same kind and index are one detail: texts are joined, and of all else
    /// the last value counts.
    pub(super) fn add(&mut self, pieces: &Value) {
        for piece in pieces.as_array().into_iter().flatten().filter_map(Value::as_object) {
            let key = |detail: &Map<String, Value>| {
                let index = detail.get("index").and_then(Value::as_u64).unwrap_or(0);
                (detail.get("type").cloned(), index)
            };
            let id = |detail: &Map<String, Value>| detail.get("id").filter(|id| !id.is_null()).cloned();
            // Details with ids of their own are different ones even where their index is the same.
            let is_same = |detail: &&mut Map<String, Value>| {
                key(detail) == key(piece) && id(detail).zip(id(piece)).is_none_or(|(before, now)| before == now)
            };
            let Some(detail) = self.0.iter_mut().rev().find(is_same) else {
                if self.0.len() < MAX_DETAILS {
                    self.0.push(piece.clone());
                }
                continue;
            };
            for (name, value) in piece {
                match (detail.get_mut(name), value) {
                    (Some(Value::String(before)), Value::String(more)) if TEXTS.contains(&name.as_str()) => {
                        before.push_str(more);
                    }
                    (_, Value::Null) => {}
                    _ => drop(detail.insert(name.clone(), value.clone())),
                }
            }
        }
    }

    /// What a chunk's details say in plain text.
    pub(super) fn texts(pieces: &Value) -> impl Iterator<Item = &str> {
        let pieces = pieces.as_array().into_iter().flatten();
        pieces.filter_map(|piece| piece["text"].as_str().or(piece["summary"].as_str()))
    }

    /// All details. Encrypted ones without data are left out: the provider refuses them.
    pub(super) fn take(&mut self) -> Vec<Value> {
        let details = std::mem::take(&mut self.0).into_iter();
        let is_whole = |detail: &Map<String, Value>| {
            detail.get("type").and_then(Value::as_str) != Some("reasoning.encrypted")
                || detail.get("data").is_some_and(Value::is_string)
        };
        details.filter(is_whole).map(Value::Object).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pieces_become_whole_details() {
        let mut details = Details::default();
        for piece in [
            json!([{"type": "reasoning.text", "text": "Two ", "index": 0, "format": "anthropic-claude-v1"}]),
            json!([{"type": "reasoning.text", "text": "cities.", "index": 0, "signature": null}]),
            json!([{"type": "reasoning.text", "signature": "EqQB", "index": 0}]),
            json!([{"type": "reasoning.encrypted", "data": "AA", "id": "call_a", "index": 0}]),
            json!([{"type": "reasoning.encrypted", "data": "BB", "id": "call_b", "index": 0}]),
            json!([{"type": "reasoning.encrypted", "id": "call_c", "index": 1}]),
            json!(null),
            json!(["nonsense"]),
        ] {
            details.add(&piece);
        }
        assert_eq!(
            Value::Array(details.take()),
            json!([
                {"type": "reasoning.text", "text": "Two cities.", "index": 0, "signature": "EqQB", "format": "anthropic-claude-v1"},
                {"type": "reasoning.encrypted", "data": "AA", "id": "call_a", "index": 0},
                {"type": "reasoning.encrypted", "data": "BB", "id": "call_b", "index": 0},
            ])
        );
    }
}
