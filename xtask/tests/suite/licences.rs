//! Everything that we build upon may be built upon.

use std::process::Command;

use serde_json::Value;

use super::repository::{none, root};

/// Licences that ask for no more than a notice.
const ALLOWED: [&str; 13] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Zlib",
];

#[test]
fn licences_of_all_dependencies_are_allowed() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--all-features", "--filter-platform"])
        .arg(host())
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let built: Vec<&Value> = metadata["resolve"]["nodes"].as_array().unwrap().iter().map(|node| &node["id"]).collect();
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 50, "only {} packages: is this the workspace?", packages.len());
    let mut refused = Vec::new();
    for package in packages.iter().filter(|package| built.contains(&&package["id"])) {
        let licence = package["license"].as_str();
        if !licence.is_some_and(is_allowed) {
            let licence = licence.unwrap_or("no licence");
            refused.push(format!("{} {}: {licence}", package["name"], package["version"]));
        }
    }
    none("these licences are not in the list of allowed ones", &refused);
}

fn host() -> String {
    let output = Command::new("rustc").arg("-vV").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().find_map(|line| line.strip_prefix("host: ")).unwrap().to_owned()
}

/// Whether an SPDX expression leaves us an allowed choice. `/` is how older crates write `OR`.
fn is_allowed(expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    let allowed = any(&mut rest);
    allowed && rest.is_empty()
}

fn any(rest: &mut &[&str]) -> bool {
    let mut allowed = all(rest);
    while let ["OR", tail @ ..] = *rest {
        *rest = tail;
        allowed |= all(rest);
    }
    allowed
}

fn all(rest: &mut &[&str]) -> bool {
    let mut allowed = one(rest);
    while let ["AND", tail @ ..] = *rest {
        *rest = tail;
        allowed &= one(rest);
    }
    allowed
}

fn one(rest: &mut &[&str]) -> bool {
    match *rest {
        ["(", tail @ ..] => {
            *rest = tail;
            let allowed = any(rest);
            match *rest {
                [")", tail @ ..] => *rest = tail,
                _ => return false,
            }
            allowed
        }
        [licence, "WITH", exception, tail @ ..] => {
            *rest = tail;
            ALLOWED.contains(&format!("{licence} WITH {exception}").as_str())
        }
        [licence, tail @ ..] => {
            *rest = tail;
            ALLOWED.contains(licence)
        }
        [] => false,
    }
}

#[test]
fn expressions_are_understood() {
    for allowed in [
        "MIT",
        "MIT/Apache-2.0",
        "GPL-3.0 OR MIT",
        "(MIT OR GPL-3.0) AND Unicode-3.0",
        "Apache-2.0 WITH LLVM-exception",
    ] {
        assert!(is_allowed(allowed), "{allowed}");
    }
    for refused in
        ["GPL-3.0", "MIT AND GPL-3.0", "GPL-3.0 OR MIT AND GPL-2.0", "(MIT", "MIT)", "", "MIT WITH something"]
    {
        assert!(!is_allowed(refused), "{refused}");
    }
}
