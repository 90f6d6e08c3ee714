//! Recipes of the kind that people have written for Goose.

use std::{collections::BTreeMap, fs, path::Path};

use everturn_recipes::Recipe;

pub(crate) const EXPLAIN_CHANGE: &str = include_str!("../fixtures/explain-change.yaml");
pub(crate) const FIGURES: &str = include_str!("../fixtures/figures.yaml");
pub(crate) const RELEASE: &str = include_str!("../fixtures/release.yaml");
pub(crate) const NOTES: &str = include_str!("../fixtures/notes.yaml");
pub(crate) const SAVED_BY_DESKTOP: &str = include_str!("../fixtures/saved-by-desktop.yaml");
pub(crate) const EVERYTHING: &str = include_str!("../fixtures/everything.yaml");
pub(crate) const REMOVE_FLAG: &str = include_str!("../fixtures/remove-flag.json");

/// All that are YAML.
pub(crate) const ALL: [&str; 6] = [EXPLAIN_CHANGE, FIGURES, RELEASE, NOTES, SAVED_BY_DESKTOP, EVERYTHING];

/// A recipe of a version that says nothing much.
pub(crate) fn small(version: &str) -> String {
    format!("version: {version}\ntitle: Small {version}\ndescription: Does little\nprompt: Do little\n")
}

/// A recipe whose prompt is this, with optional parameters of these names.
pub(crate) fn prompting(prompt: &str, keys: &[&str]) -> Recipe {
    let parameters = keys.iter().map(|key| serde_json::json!({"key": key, "requirement": "optional"}));
    let value = serde_json::json!({
        "title": "t", "description": "d", "prompt": prompt, "parameters": parameters.collect::<Vec<_>>(),
    });
    Recipe::from_value(&value).unwrap()
}

pub(crate) fn values<const N: usize>(values: [(&str, &str); N]) -> BTreeMap<String, String> {
    values.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

pub(crate) fn write(folder: &Path, file: &str, content: impl AsRef<[u8]>) {
    fs::write(folder.join(file), content).unwrap();
}
