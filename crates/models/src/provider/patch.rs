//! Last changes to a request's body: fields that configuration adds, and fields that the model does not take.

use std::collections::{BTreeMap, BTreeSet};

use everturn_core::Json;
use serde_json::{Value, value::RawValue};

/// The fields of a body, in the order of their names; the same for the same content.
type Fields = BTreeMap<String, Box<RawValue>>;

/// The body without the fields in `without` (a dot leads into an object), then with each of `patches` merged into it:
/// objects are merged field by field, `null` removes a field, all else replaces what was there. Gives the names of the fields
/// that were taken out, too.
pub(super) fn patch(
    body: Vec<u8>,
    without: &BTreeSet<String>,
    patches: &[Option<&Json>],
) -> Result<(Vec<u8>, Vec<String>), serde_json::Error> {
    let mut removed = Vec::new();
    if without.is_empty() && patches.iter().all(Option::is_none) {
        return Ok((body, removed));
    }
    let mut fields: Fields = serde_json::from_slice(&body)?;
    for name in without {
        let before = fields.len();
        match name.split_once('.') {
            None => {
                remove_field(&mut fields, name, without);
                // The cap on the answer is only renamed.
                removed.extend((fields.len() < before).then(|| name.clone()));
            }
            Some((outer, inner)) => {
                let Some(raw) = fields.get(outer) else { continue };
                let mut value: Value = serde_json::from_str(raw.get())?;
                removed.extend(remove(&mut value, inner).then(|| name.clone()));
                if value.as_object().is_some_and(serde_json::Map::is_empty) {
                    fields.remove(outer);
                } else {
                    fields.insert(outer.to_owned(), serde_json::value::to_raw_value(&value)?);
                }
            }
        }
    }
    for patch in patches.iter().flatten() {
        let patch: BTreeMap<String, Value> = serde_json::from_str(patch.as_str())?;
        for (name, change) in patch {
            let mut value = match fields.remove(&name) {
                // Only what is merged is taken apart.
                Some(raw) if change.is_object() => serde_json::from_str(raw.get())?,
                Some(_) | None => Value::Null,
            };
            merge(&mut value, change);
            if !value.is_null() {
                fields.insert(name, serde_json::value::to_raw_value(&value)?);
            }
        }
    }
    Ok((serde_json::to_vec(&fields)?, removed))
}

/// Takes a field out, and what means nothing without it. The cap on the answer has two names: a server that refuses one
/// takes the other.
fn remove_field(fields: &mut Fields, name: &str, without: &BTreeSet<String>) {
    let removed = fields.remove(name);
    let other = match name {
        "max_tokens" => "max_completion_tokens",
        "max_completion_tokens" => "max_tokens",
        "tools" => {
            ["tool_choice", "parallel_tool_calls", "toolConfig"].iter().for_each(|field| drop(fields.remove(*field)));
            return;
        }
        _ => return,
    };
    if let Some(cap) = removed.filter(|_| !without.contains(other)) {
        fields.entry(other.to_owned()).or_insert(cap);
    }
}

/// Takes a field out. `false` if it was not there.
fn remove(value: &mut Value, path: &str) -> bool {
    let Some(object) = value.as_object_mut() else { return false };
    match path.split_once('.') {
        None => object.remove(path).is_some(),
        Some((outer, inner)) => object.get_mut(outer).is_some_and(|value| remove(value, inner)),
    }
}

fn merge(value: &mut Value, change: Value) {
    let Value::Object(changes) = change else {
        *value = change;
        return;
    };
    if !value.is_object() {
        *value = Value::Object(serde_json::Map::new());
    }
    let Some(object) = value.as_object_mut() else { return };
    for (name, change) in changes {
        if change.is_null() {
            object.remove(&name);
        } else {
            merge(object.entry(name).or_insert(Value::Null), change);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(body: &str, without: &[&str], patches: &[&str], expected: &str) -> Vec<String> {
        let without = without.iter().map(ToString::to_string).collect();
        let patches: Vec<Json> = patches.iter().map(|patch| Json::parse(patch).unwrap()).collect();
        let patches: Vec<Option<&Json>> = patches.iter().map(Some).collect();
        let (patched, removed) = patch(body.as_bytes().to_vec(), &without, &patches).unwrap();
        assert_eq!(String::from_utf8(patched).unwrap(), expected);
        removed
    }

    #[test]
    fn fields_are_merged_replaced_and_removed() {
        let body = r#"{"model":"m","z":1.50,"reasoning":{"effort":"low","summary":"auto"}}"#;
        check(body, &[], &[], body);
        check(
            body,
            &[],
            &[r#"{"reasoning":{"effort":"high"},"seed":7}"#, r#"{"seed":8}"#],
            r#"{"model":"m","reasoning":{"effort":"high","summary":"auto"},"seed":8,"z":1.50}"#,
        );
        check(
            body,
            &[],
            &[r#"{"reasoning":{"effort":null},"z":null}"#],
            r#"{"model":"m","reasoning":{"summary":"auto"}}"#,
        );
        let removed = check(
            body,
            &["z", "reasoning.effort", "no.such", "none"],
            &[],
            r#"{"model":"m","reasoning":{"summary":"auto"}}"#,
        );
        assert_eq!(removed, ["reasoning.effort", "z"]);
        check(body, &["reasoning.effort", "reasoning.summary"], &[], r#"{"model":"m","z":1.50}"#);
        let renamed = check(r#"{"max_tokens":5}"#, &["max_tokens"], &[], r#"{"max_completion_tokens":5}"#);
        assert_eq!(renamed, [] as [&str; 0]);
        check(r#"{"max_tokens":5}"#, &["max_tokens", "max_completion_tokens"], &[], "{}");
        check(r#"{"tools":[],"tool_choice":"auto"}"#, &["tools"], &[], "{}");
    }
}
