//! Names and versions of recipes.

use std::cmp::Ordering;

use semver::Version;

use crate::bounds;

/// Longest name of a recipe.
const NAME: usize = 128;

/// Whether a recipe can have this name: 1 to 128 letters and digits of ASCII, dots, dashes and underscores.
pub fn is_recipe_name(name: &str) -> bool {
    (1..=NAME).contains(&name.len())
        && name.bytes().all(|sign| sign.is_ascii_alphanumeric() || matches!(sign, b'.' | b'_' | b'-'))
}

/// The name and the version in the name of a file without its ending: `name` or `name@version`.
pub(crate) fn split_stem(stem: &str) -> Result<(&str, Option<&str>), &'static str> {
    let (name, version) = match stem.split_once('@') {
        Some((name, version)) => (name, Some(version)),
        None => (stem, None),
    };
    if !is_recipe_name(name) {
        return Err(
            "the name of the file must be 1 to 128 of A-Z a-z 0-9 . _ -, with @ and a version after it or not; \
             rename it",
        );
    }
    let is_version_sign = |sign: u8| sign.is_ascii_alphanumeric() || matches!(sign, b'.' | b'_' | b'-' | b'+');
    if version
        .is_some_and(|version| !(1..=bounds::VERSION).contains(&version.len()) || !version.bytes().all(is_version_sign))
    {
        return Err("what follows @ in the name of the file is no version such as 1.0.0; rename it");
    }
    Ok((name, version))
}

/// Which version is the newer one. `1.2` counts as `1.2.0`, and what is no version at all as older than all versions.
pub(crate) fn compare_versions(one: &str, other: &str) -> Ordering {
    let [one_parsed, other_parsed] = [one, other].map(parse_version);
    // Without a second look, `1.0` and `1.0.0` would be the same.
    one_parsed.cmp(&other_parsed).then_with(|| one.cmp(other))
}

fn parse_version(version: &str) -> Option<Version> {
    let version = version.strip_prefix('v').unwrap_or(version);
    Version::parse(version)
        .or_else(|_| Version::parse(&format!("{version}.0")))
        .or_else(|_| Version::parse(&format!("{version}.0.0")))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_their_folder() {
        for name in ["a", "code-review", "build.recipe", "A_1", &"x".repeat(128)] {
            assert!(is_recipe_name(name), "{name}");
        }
        for name in ["", "a/b", "a\\b", "a b", "é", "a@1", "a\0", "a\n", &"x".repeat(129)] {
            assert!(!is_recipe_name(name), "{name}");
        }
    }

    #[test]
    fn a_file_name_may_have_a_version() {
        assert_eq!(split_stem("review"), Ok(("review", None)));
        assert_eq!(split_stem("review@1.2.0-beta+5"), Ok(("review", Some("1.2.0-beta+5"))));
        for stem in ["", "@1", "a b", "a@", "a@1@2", "a@1 2", "a/b"] {
            assert!(split_stem(stem).is_err(), "{stem}");
        }
    }

    #[test]
    fn newer_versions_come_last() {
        let mut versions =
            ["10.0.0", "9.1.0", "1.0", "1.0.0", "nightly", "2", "1.0.0-beta", "v1.1", "latest", "1.0.0-alpha"];
        versions.sort_by(|one, other| compare_versions(one, other));
        assert_eq!(
            versions,
            ["latest", "nightly", "1.0.0-alpha", "1.0.0-beta", "1.0", "1.0.0", "v1.1", "2", "9.1.0", "10.0.0"]
        );
    }
}
