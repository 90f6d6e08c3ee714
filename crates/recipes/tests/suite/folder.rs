use std::{
    fs::{self, File},
    sync::Arc,
    time::{Duration, SystemTime},
};

use everturn_recipes::{FolderError, Recipe, Recipes};
use expect_test::{Expect, expect};
use tempfile::TempDir;

use super::sample::{ALL, REMOVE_FLAG, small, values, write};

fn folder(files: &[(&str, &str)]) -> (TempDir, Recipes) {
    let folder = tempfile::tempdir().unwrap();
    for (file, content) in files {
        write(folder.path(), file, content);
    }
    let recipes = Recipes::open(folder.path()).unwrap();
    (folder, recipes)
}

#[track_caller]
fn check_list(recipes: &Recipes, expected: Expect) {
    let lines = recipes.list().unwrap().into_iter().map(|listed| {
        let version = listed.version.as_deref().unwrap_or("-");
        let rest = match (listed.title, listed.problem) {
            (Some(title), None) => title,
            (None, Some(problem)) => format!("! {problem}"),
            both => format!("{both:?}"),
        };
        format!("{} {version} {rest}\n", listed.name)
    });
    expected.assert_eq(&lines.collect::<String>());
}

#[track_caller]
fn check_missing(recipes: &Recipes, name: &str, version: Option<&str>, expected: Expect) {
    expected.assert_eq(&recipes.find(name, version).unwrap_err().to_string());
}

fn found(recipes: &Recipes, name: &str, version: Option<&str>) -> Arc<Recipe> {
    recipes.find(name, version).unwrap()
}

#[test]
fn recipes_are_found_by_the_names_of_their_files() {
    let (folder, recipes) = folder(&[("remove-flag.json", REMOVE_FLAG), ("readme.md", "x"), (".hidden.yaml", "x")]);
    for (number, text) in ALL.iter().enumerate() {
        write(folder.path(), &format!("recipe{number}.yml"), text);
    }
    fs::create_dir(folder.path().join("more")).unwrap();
    let listed = recipes.list().unwrap();
    assert_eq!(listed.len(), 7);
    assert!(listed.iter().all(|listed| listed.problem.is_none() && listed.modified.is_some()));
    assert_eq!(listed[6].description.as_deref(), Some("Removes a flag that is on for everybody"));
    let recipe = found(&recipes, "recipe5", None);
    assert_eq!(listed[5].recipe.as_deref(), Some(&*recipe));
    assert_eq!(recipe.folder(), Some(recipes.folder()));
    let given = values([("pattern", "x"), ("format", "json"), ("settings", "")]);
    let prompt = recipe.render(&given).unwrap().prompt.unwrap();
    assert_eq!(prompt, format!("See {}/style.md", recipes.folder().display()));
}

#[test]
fn the_newest_version_is_found() {
    let (_folder, recipes) = folder(&[
        ("a.yaml", &small("1.0.0")),
        ("a@1.9.0.yaml", &small("1.9.0")),
        ("a@1.10.0.json", &serde_json::json!({"title": "x", "description": "y", "prompt": "z"}).to_string()),
        ("a@1.10.0-beta.yml", &small("1.10.0-beta")),
        ("ab.yaml", &small("7.0.0")),
    ]);
    assert_eq!(found(&recipes, "a", None).version, "1.10.0");
    assert_eq!(found(&recipes, "a", Some("1.9.0")).title, "Small 1.9.0");
    assert_eq!(found(&recipes, "a", Some("1.10.0-beta")).title, "Small 1.10.0-beta");
    check_missing(
        &recipes,
        "a",
        Some("1.9"),
        expect![[r#"recipe "a" has no version "1.9"; there are: 1.0.0, 1.9.0, 1.10.0-beta, 1.10.0"#]],
    );
    check_missing(
        &recipes,
        "a",
        Some("../../x"),
        expect![[r#"recipe "a" has no version "../../x"; there are: 1.0.0, 1.9.0, 1.10.0-beta, 1.10.0"#]],
    );
    check_missing(&recipes, "b", None, expect![[r#"there is no recipe "b"; there are: a, ab"#]]);
    check_missing(&recipes, "A", Some("1.0.0"), expect![[r#"there is no recipe "A"; there are: a, ab"#]]);
    check_list(
        &recipes,
        expect![[r#"
        a 1.0.0 Small 1.0.0
        a 1.9.0 Small 1.9.0
        a 1.10.0-beta Small 1.10.0-beta
        a 1.10.0 x
        ab 7.0.0 Small 7.0.0
    "#]],
    );
}

#[test]
fn broken_files_are_listed_with_what_is_wrong() {
    let (folder, recipes) = folder(&[
        ("good.yaml", &small("1.0.0")),
        ("good@2.0.0.yaml", "title: x"),
        ("good@1.5.0.yaml", &small("1.6.0")),
        ("twice.json", &serde_json::to_string(&Recipe::from_yaml(&small("1.0.0")).unwrap()).unwrap()),
        ("twice.yaml", &small("1.0.0")),
        ("broken.yaml", "title: [x"),
        ("two words.yaml", &small("1.0.0")),
        ("good@.yaml", &small("1.0.0")),
        ("empty.yaml", ""),
    ]);
    write(folder.path(), "binary.yaml", b"title: \xff\xfe");
    write(folder.path(), "zeros.yaml", [0; 64]);
    write(folder.path(), "long.yaml", format!("{}# {}", small("1.0.0"), "x".repeat(1 << 20)));
    fs::create_dir(folder.path().join("folder.yaml")).unwrap();
    check_list(
        &recipes,
        expect![[r#"
        binary - ! the file is not text in UTF-8: byte 7 does not belong there
        broken - ! the recipe cannot be read: title: expected string scalar at line 1, column 8
        empty - ! the recipe has no title
        folder - ! it is not a file
        good 1.0.0 Small 1.0.0
        good 1.5.0 ! the version is "1.5.0" by the name of the file but "1.6.0" inside of it; change one of them
        good 2.0.0 ! the recipe has no description
        good@ - ! what follows @ in the name of the file is no version such as 1.0.0; rename it
        long - ! the recipe has more than 1048576 bytes; shorten it
        twice - ! its name and version are those of "twice.json"; remove one of them
        twice 1.0.0 Small 1.0.0
        two words - ! the name of the file must be 1 to 128 of A-Z a-z 0-9 . _ -, with @ and a version after it or not; rename it
        zeros - ! the recipe cannot be read: unexpected character: `\u{0}' at line 1, column 1
    "#]],
    );
    assert_eq!(found(&recipes, "good", None).version, "1.0.0");
    check_missing(
        &recipes,
        "good",
        Some("2.0.0"),
        expect![[r#"recipe "good" cannot be used: the recipe has no description"#]],
    );
    check_missing(
        &recipes,
        "good",
        Some("3.0.0"),
        expect![[r#"recipe "good" has no version "3.0.0"; there are: 1.0.0"#]],
    );
    check_missing(
        &recipes,
        "broken",
        None,
        expect![[
            r#"recipe "broken" cannot be used: the recipe cannot be read: title: expected string scalar at line 1, column 8"#
        ]],
    );
    check_missing(
        &recipes,
        "broken",
        Some("1.0.0"),
        expect![[
            r#"recipe "broken" cannot be used: the recipe cannot be read: title: expected string scalar at line 1, column 8"#
        ]],
    );
    check_missing(
        &recipes,
        "other",
        None,
        expect![[r#"there is no recipe "other"; there are: binary, broken, empty, folder, good, long, twice, zeros"#]],
    );
}

#[test]
fn names_do_not_lead_out_of_the_folder() {
    let outer = tempfile::tempdir().unwrap();
    write(outer.path(), "secret.yaml", small("1.0.0"));
    let inner = outer.path().join("recipes");
    fs::create_dir(&inner).unwrap();
    let recipes = Recipes::open(&inner).unwrap();
    check_missing(&recipes, "secret", None, expect![[r#"there is no recipe "secret"; there are none at all"#]]);
    check_missing(&recipes, "..", None, expect![[r#"there is no recipe ".."; there are none at all"#]]);
    for name in ["../secret", "..\\secret", "/etc/passwd", "", "recipes/../secret", "secret\0", &"x".repeat(5000)] {
        let error = recipes.find(name, None).unwrap_err().to_string();
        assert!(error.contains("cannot be the name of a recipe") && error.len() < 400, "{error}");
    }
}

#[cfg(unix)]
#[test]
fn links_stay_in_the_folder() {
    use std::os::unix::fs::symlink;

    let outer = tempfile::tempdir().unwrap();
    write(outer.path(), "secret.yaml", small("1.0.0"));
    let inner = outer.path().join("recipes");
    fs::create_dir_all(inner.join("more")).unwrap();
    write(&inner.join("more"), "real.yaml", small("1.0.0"));
    symlink(outer.path().join("secret.yaml"), inner.join("absolute.yaml")).unwrap();
    symlink("../secret.yaml", inner.join("relative.yaml")).unwrap();
    symlink("more/real.yaml", inner.join("inside.yaml")).unwrap();
    symlink("loop.yaml", inner.join("loop.yaml")).unwrap();
    symlink("nowhere", inner.join("nowhere.yaml")).unwrap();
    symlink("more", inner.join("folder.yaml")).unwrap();
    symlink("/dev/zero", inner.join("endless.yaml")).unwrap();
    // The folder itself may be a link.
    symlink(&inner, outer.path().join("link")).unwrap();
    let recipes = Recipes::open(outer.path().join("link")).unwrap();
    check_list(
        &recipes,
        expect![[r#"
        absolute - ! the file is a link that leads out of the folder; copy the recipe instead
        endless - ! the file is a link that leads out of the folder; copy the recipe instead
        folder - ! it is not a file
        inside 1.0.0 Small 1.0.0
        loop - ! the file cannot be read: Too many levels of symbolic links (os error 40)
        nowhere - ! the file cannot be read: No such file or directory (os error 2)
        relative - ! the file is a link that leads out of the folder; copy the recipe instead
    "#]],
    );
}

#[test]
fn edits_are_seen_at_once() {
    let (folder, recipes) = folder(&[("a.yaml", &small("1.0.0"))]);
    for version in ["1.0.1", "1.0.2", "1.0.3"] {
        write(folder.path(), "a.yaml", small(version));
        assert_eq!(found(&recipes, "a", None).version, version);
    }
    write(folder.path(), "a.yaml", "title: x");
    assert!(recipes.find("a", None).is_err());
    write(folder.path(), "b.yaml", small("1.0.0"));
    assert_eq!(recipes.list().unwrap().len(), 2);
    fs::rename(folder.path().join("b.yaml"), folder.path().join("a.yaml")).unwrap();
    assert_eq!(found(&recipes, "a", None).version, "1.0.0");
    fs::remove_file(folder.path().join("a.yaml")).unwrap();
    check_missing(&recipes, "a", None, expect![[r#"there is no recipe "a"; there are none at all"#]]);
}

#[test]
fn files_that_did_not_change_are_not_read_again() {
    let (folder, recipes) = folder(&[("a.yaml", &small("1.0.0"))]);
    let age = |hours: u64| {
        let file = File::options().write(true).open(folder.path().join("a.yaml")).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(3600 * hours)).unwrap();
    };
    age(1);
    let first = found(&recipes, "a", None);
    assert!(Arc::ptr_eq(&first, &found(&recipes, "a", None)));
    assert!(Arc::ptr_eq(&first, recipes.list().unwrap()[0].recipe.as_ref().unwrap()));
    // As long as before, but of another time.
    write(folder.path(), "a.yaml", small("1.0.9"));
    age(2);
    assert_eq!(found(&recipes, "a", None).version, "1.0.9");
}

#[test]
fn a_folder_must_be_there() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "file", "x");
    for path in ["nowhere", "file"] {
        let error = Recipes::open(folder.path().join(path)).unwrap_err();
        assert!(matches!(error, FolderError::Unreadable { .. }), "{error}");
        assert!(error.to_string().contains(path), "{error}");
    }
    let recipes = Recipes::open(folder.path()).unwrap();
    check_missing(&recipes, "a", None, expect![[r#"there is no recipe "a"; there are none at all"#]]);
    folder.close().unwrap();
    assert!(recipes.list().is_err());
    assert!(recipes.find("a", None).is_err());
}

#[test]
fn a_folder_has_an_end() {
    let (folder, recipes) = folder(&[]);
    for number in 0..1000 {
        write(folder.path(), &format!("r{number}.yaml"), small("1.0.0"));
    }
    assert_eq!(recipes.list().unwrap().len(), 1000);
    let error = recipes.find("x", None).unwrap_err().to_string();
    assert!(error.ends_with("and 980 more"), "{error}");
    write(folder.path(), "more.yaml", small("1.0.0"));
    expect!["the folder of recipes has more than 1000 recipes; move some away"]
        .assert_eq(&recipes.list().unwrap_err().to_string());
    check_missing(&recipes, "r1", None, expect!["the folder of recipes has more than 1000 recipes; move some away"]);
}

#[test]
fn many_may_ask_at_once() {
    let (folder, recipes) = folder(&[("a.yaml", &small("1.0.0"))]);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    // A file is emptied before it is written, so it may be seen broken, but never mixed up.
                    if let Ok(recipe) = recipes.find("a", None) {
                        assert_eq!(recipe.title, format!("Small {}", recipe.version));
                    }
                    recipes.list().unwrap();
                }
            });
        }
        for number in 0..50 {
            write(folder.path(), "a.yaml", small(&format!("1.0.{number}")));
        }
    });
    assert_eq!(found(&recipes, "a", None).version, "1.0.49");
}
