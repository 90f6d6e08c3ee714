//! Links between the documents of the repository lead somewhere.

use std::path::{Component, Path, PathBuf};

use super::repository::{none, root, texts};

#[test]
fn links_resolve() {
    let documents = texts(&["md"]);
    let mut found = Vec::new();
    for (file, text) in &documents {
        for target in links(text) {
            if let Err(reason) = resolve(file, target) {
                found.push(format!("{}: {target}: {reason}", file.display()));
            }
        }
    }
    none("mend these links", &found);
}

fn resolve(file: &Path, target: &str) -> Result<(), &'static str> {
    if target.contains("://") || target.starts_with("mailto:") {
        return Ok(());
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let goal = if path.is_empty() { file.to_owned() } else { join(file.parent().unwrap_or(Path::new("")), path) };
    if !root().join(&goal).exists() {
        return Err("there is no such file");
    }
    if anchor.is_empty() || goal.extension() != Some("md".as_ref()) {
        return Ok(());
    }
    let text = std::fs::read_to_string(root().join(&goal)).map_err(|_| "it cannot be read")?;
    if headings(&text).any(|heading| heading == anchor) { Ok(()) } else { Err("there is no such heading") }
}

fn join(folder: &Path, path: &str) -> PathBuf {
    let mut joined = PathBuf::new();
    for component in folder.join(path).components() {
        match component {
            Component::ParentDir => {
                joined.pop();
            }
            Component::CurDir => {}
            other => joined.push(other),
        }
    }
    joined
}

/// Lines outside of code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut code = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        !code && !fence
    })
}

/// Targets of `[text](target)`.
fn links(text: &str) -> impl Iterator<Item = &str> {
    prose(text).flat_map(|line| {
        // Every other piece between backticks is code.
        line.split('`').step_by(2).flat_map(|piece| {
            piece
                .split("](")
                .skip(1)
                .filter_map(|rest| Some(rest.split_once(')')?.0.split(' ').next().unwrap_or_default()))
        })
    })
}

/// Headings as links name them.
fn headings(text: &str) -> impl Iterator<Item = String> {
    prose(text).filter_map(|line| {
        let heading = line.trim_start_matches('#');
        if heading.len() == line.len() || !heading.starts_with(' ') {
            return None;
        }
        let kept = heading.trim().to_lowercase().replace(' ', "-");
        Some(kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect())
    })
}

#[test]
fn links_are_found_outside_of_code_only() {
    let text = "See [a](b.md), [c](d#e).\n```\n[no](no)\n```\n`[no](no)` but [f](<g h>)\n## Of links: a part\n";
    assert_eq!(links(text).collect::<Vec<_>>(), ["b.md", "d#e", "<g"]);
    assert_eq!(headings(text).collect::<Vec<_>>(), ["of-links-a-part"]);
}
