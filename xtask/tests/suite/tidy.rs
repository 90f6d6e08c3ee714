//! Rules for what is in files.

use std::path::Path;

use super::repository::{none, texts};

const MAX_LINES: usize = 600;

/// `file:line` of each line that breaks a rule.
fn lines_where(texts: &[(std::path::PathBuf, String)], broken: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for (file, text) in texts {
        for (number, line) in text.lines().enumerate().filter(|(_, line)| broken(line)) {
            found.push(format!("{}:{}: {}", file.display(), number + 1, line.trim()));
        }
    }
    found
}

#[test]
fn files_of_rust_are_short() {
    let long: Vec<_> = texts(&["rs"])
        .into_iter()
        .map(|(file, text)| (file, text.lines().count()))
        .filter(|(_, lines)| *lines > MAX_LINES)
        .map(|(file, lines)| format!("{}: {lines} lines", file.display()))
        .collect();
    none("a file has one idea and at most 600 lines; split it", &long);
}

#[test]
fn nothing_is_left_to_do() {
    // Written in halves, so that this file does not break its own rule.
    let leftovers = [concat!("to", "do!("), concat!("unimple", "mented!("), concat!("db", "g!("), concat!("FIX", "ME")];
    let found = lines_where(&texts(&["rs"]), |line| leftovers.iter().any(|leftover| line.contains(leftover)));
    none("finish it or leave it out", &found);
}

#[test]
fn no_test_is_skipped() {
    let attributes = [concat!("#[ign", "ore"), concat!("#[should", "_panic")];
    let found = lines_where(&texts(&["rs"]), |line| attributes.iter().any(|it| line.trim_start().starts_with(it)));
    none("a test runs, and checks what it gets", &found);
}

/// Whether a line names a folder of somebody's machine.
fn names_a_machine(line: &str) -> bool {
    ["home", "root", "work", "Users"].iter().any(|folder| {
        let path = format!("/{folder}/");
        line.match_indices(&path).any(|(at, _)| {
            // Within a URL or a relative path it is an ordinary name.
            let before = line[..at].chars().next_back();
            before.is_none_or(|c| !c.is_alphanumeric() && !matches!(c, '.' | '/' | '_' | '-' | '}' | ')' | '*'))
        })
    })
}

#[test]
fn no_file_names_a_machine() {
    let texts = texts(&["rs", "toml", "md", "sh", "json", "js", "mjs", "ts", "py", "txt", "yml", "yaml"]);
    none("paths of one machine mean nothing on another", &lines_where(&texts, names_a_machine));
}

#[test]
fn machines_are_recognised() {
    let path = |folder: &str| format!("see /{folder}/me/file");
    assert!(names_a_machine(&path("home")) && names_a_machine(&path("Users")));
    assert!(!names_a_machine("https://example.org/home/me") && !names_a_machine("target/root/file"));
}

#[test]
fn lock_files_name_public_registries_only() {
    let mut found = Vec::new();
    for (file, text) in texts(&["lock", "json", "txt"]) {
        let public = match file.file_name().and_then(|name| name.to_str()) {
            Some("Cargo.lock") => "source = \"registry+https://github.com/rust-lang/crates.io-index\"",
            Some("package-lock.json") => "\"resolved\": \"https://registry.npmjs.org/",
            Some("requirements.txt") => "",
            _ => continue,
        };
        let names_a_source = |line: &str| {
            let line = line.trim_start();
            ["source =", "\"resolved\":", "--index-url", "--extra-index-url", "--find-links", "-i ", "-f "]
                .iter()
                .any(|word| line.starts_with(word))
                && (public.is_empty() || !line.starts_with(public))
        };
        found.extend(lines_where(&[(file, text)], names_a_source));
    }
    none("lock files must work everywhere", &found);
}

#[test]
fn every_crate_takes_the_lints_of_the_workspace() {
    let mut found = Vec::new();
    for (file, text) in texts(&["toml"]) {
        if file.file_name() != Some("Cargo.toml".as_ref()) || file == Path::new("Cargo.toml") {
            continue;
        }
        let manifest: toml::Table = text.parse().unwrap();
        let inherited = manifest.get("lints").and_then(|lints| lints.get("workspace")?.as_bool());
        if inherited != Some(true) {
            found.push(file.display().to_string());
        }
    }
    none("add [lints] workspace = true", &found);
}

#[test]
fn versions_are_written_once() {
    let mut found = Vec::new();
    for (file, text) in texts(&["toml"]) {
        if file.file_name() != Some("Cargo.toml".as_ref()) || file == Path::new("Cargo.toml") {
            continue;
        }
        let manifest: toml::Table = text.parse().unwrap();
        for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let Some(dependencies) = manifest.get(section).and_then(toml::Value::as_table) else { continue };
            for (name, dependency) in dependencies {
                if dependency.is_str() || dependency.get("version").is_some() {
                    found.push(format!("{}: {name}", file.display()));
                }
            }
        }
    }
    none("take the version from [workspace.dependencies]", &found);
}
