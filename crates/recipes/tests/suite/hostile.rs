//! Recipes that are made to take all memory or all time, or to break the reader. That these tests end is a part of what
//! they test.

use std::fmt::Write;

use everturn_recipes::Recipe;
use expect_test::{Expect, expect};
use serde_json::{Value, json};

const START: &str = "title: t\ndescription: d\nprompt: p\n";
const MEGABYTE: usize = 1 << 20;

#[track_caller]
fn refused(text: &str, expected: Expect) {
    expected.assert_eq(&Recipe::from_yaml(text).unwrap_err().to_string());
}

#[track_caller]
fn refused_value(change: impl FnOnce(&mut Value), expected: Expect) {
    let mut value = json!({"title": "t", "description": "d", "prompt": "p"});
    change(&mut value);
    expected.assert_eq(&Recipe::from_value(&value).unwrap_err().to_string());
}

/// Lists of lists of lists, each ten times as long as the one before.
fn laughs(levels: usize) -> String {
    let mut text = format!("{START}l0: &l0 [lol]\n");
    for level in 1..=levels {
        let before = vec![format!("*l{}", level - 1); 10].join(", ");
        writeln!(text, "l{level}: &l{level} [{before}]").unwrap();
    }
    writeln!(text, "response: {{json_schema: {{a: *l{levels}}}}}").unwrap();
    text
}

#[test]
fn aliases_do_not_explode() {
    refused(&laughs(9), expect!["the recipe cannot be read: its aliases repeat more than 10000 values"]);
    let text = "x".repeat(500_000);
    let activities = "  - *a\n".repeat(100);
    refused(
        &format!("{START}a: &a {text}\nactivities:\n{activities}"),
        expect!["the recipe cannot be read: it has more than 1048576 bytes of text, with what aliases repeat"],
    );
    refused(
        &format!("{START}a: &a [*a]\n"),
        expect!["the recipe cannot be read: a: Recursive reference not allowed here at line 4, column 8"],
    );
    refused(
        &format!("{START}a: *nothing\n"),
        expect!["the recipe cannot be read: reference to unknown value at line 4, column 4"],
    );
    let anchors = (0..2000).fold(String::new(), |text, number| text + &format!("k{number}: &a{number} x\n"));
    refused(
        &format!("{START}{anchors}"),
        expect!["the recipe cannot be read: it has more than 1000 anchors or aliases, or they repeat too much"],
    );
    let merges = "b: &b {x: 1}\n".to_owned() + &"c: {<<: *b}\n".repeat(2000);
    assert!(Recipe::from_yaml(&format!("{START}{merges}")).is_err());
}

#[test]
fn deep_files_are_refused() {
    refused(
        &format!("{START}x: {}{}", "[".repeat(5000), "]".repeat(5000)),
        expect!["the recipe cannot be read: it is nested more than 32 deep"],
    );
    refused(
        &format!("{START}x: {}", "{a: ".repeat(100_000)),
        expect!["the recipe cannot be read: it is nested more than 32 deep"],
    );
    refused(
        &format!("{START}x:\n{}", "- ".repeat(100_000)),
        expect!["the recipe cannot be read: it is nested more than 32 deep"],
    );
    let blocks = (1..1000).fold(String::new(), |text, depth| text + &" ".repeat(depth) + "a:\n");
    refused(&format!("{START}x:\n{blocks}"), expect!["the recipe cannot be read: it is nested more than 32 deep"]);
    let wrapped = "recipe:\n".to_owned() + &(1..60).map(|depth| " ".repeat(depth) + "recipe:\n").collect::<String>();
    assert!(Recipe::from_yaml(&wrapped).is_err());
    let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
    let json = format!("{{\"title\": \"t\", \"response\": {{\"json_schema\": {{\"a\": {deep}}}}}}}");
    expect!["the recipe cannot be read: recursion limit exceeded at line 1 column 174"]
        .assert_eq(&Recipe::from_json(&json).unwrap_err().to_string());
}

/// As deep as is taken, on half of the stack that a thread of the server has.
#[test]
fn what_is_taken_fits_on_the_stack() {
    let deepest = |read: fn(&str) -> bool| {
        let thread = std::thread::Builder::new().stack_size(MEGABYTE);
        let thread = thread.spawn(move || {
            let fits = |depth: &usize| {
                let schema = format!("{}1{}", "{\"a\": ".repeat(*depth), "}".repeat(*depth));
                read(&format!(
                    r#"{{"title": "t", "description": "d", "prompt": "p", "response": {{"json_schema": {schema}}}}}"#
                ))
            };
            (1..200).filter(fits).max()
        });
        thread.unwrap().join().unwrap()
    };
    assert_eq!(deepest(|text| Recipe::from_yaml(text).is_ok()), Some(30));
    assert_eq!(deepest(|text| Recipe::from_json(text).is_ok()), Some(125));
    assert_eq!(deepest(|text| serde_json::from_str::<Recipe>(text).is_ok()), Some(125));
    let from_value = |text: &str| serde_json::from_str(text).is_ok_and(|value| Recipe::from_value(&value).is_ok());
    assert_eq!(deepest(from_value), Some(125));
}

#[test]
fn large_files_are_read_in_one_pass_or_refused() {
    refused(
        &format!("{START}# {}", "x".repeat(MEGABYTE)),
        expect!["the recipe has more than 1048576 bytes; shorten it"],
    );
    assert!(Recipe::from_json(&" ".repeat(MEGABYTE + 1)).is_err());
    for filling in [
        "a",
        "- ",
        "-\n",
        "a:\n",
        "[",
        "{",
        "? ",
        ": ",
        "&a ",
        "*a ",
        "!a ",
        "\"",
        "'",
        "|",
        "> ",
        "#",
        "%",
        "\n",
        " ",
        "\t",
        "\0",
        "\u{feff}",
        "---\n",
        "...\n",
        "a: b\n",
        "- a\n",
        "[a],",
        "{a},",
        "\\",
        "é",
        "`",
        "@",
        "x: &x *x\n",
        "? a\n: b\n",
        "!!str ",
        "<<: *a\n",
        "\"\\x41",
        "a: |\n  b\n",
        "\u{2028}",
        "k: >-\n\n",
    ] {
        for start in ["", START, "activities:\n", "x: [", "x: \"", "x: '", "x: |\n ", "? "] {
            let mut text = start.to_owned();
            text.push_str(&filling.repeat((MEGABYTE - text.len()) / filling.len()));
            let _ = Recipe::from_yaml(&text);
        }
        let _ = Recipe::from_json(&filling.repeat(MEGABYTE / filling.len()));
    }
}

#[test]
fn everything_has_an_end() {
    refused_value(
        |value| value["title"] = json!("x".repeat(1001)),
        expect!["the recipe's title must have at most 1000 bytes, not 1001; shorten it"],
    );
    refused_value(
        |value| value["version"] = json!("1".repeat(65)),
        expect!["the recipe's version must have at most 64 bytes, not 65; shorten it"],
    );
    refused_value(
        |value| value["description"] = json!("x".repeat(70_000)),
        expect!["the recipe's description must have at most 65536 bytes, not 70000; shorten it"],
    );
    refused_value(
        |value| value["prompt"] = json!("x".repeat(600_000)),
        expect!["the recipe's prompt must have at most 524288 bytes, not 600000; shorten it"],
    );
    refused_value(
        |value| value["instructions"] = json!("x".repeat(600_000)),
        expect!["the recipe's instructions must have at most 524288 bytes, not 600000; shorten it"],
    );
    refused_value(
        |value| value["activities"] = json!(vec!["x"; 101]),
        expect!["the recipe has 101 activities, at most 100 are taken"],
    );
    refused_value(
        |value| value["activities"] = json!(["x".repeat(20_000)]),
        expect!["the recipe's activities must have at most 16384 bytes, not 20000; shorten it"],
    );
    refused_value(
        |value| value["extensions"] = json!(vec![json!({"type": "a", "name": "b"}); 101]),
        expect!["the recipe has 101 extensions, at most 100 are taken"],
    );
    refused_value(
        |value| value["extensions"] = json!([{"type": "a", "name": "b", "available_tools": vec!["x"; 1001]}]),
        expect!["the recipe has 1001 available_tools, at most 1000 are taken"],
    );
    let parameters = (0..101).map(|number| json!({"key": format!("k{number}")})).collect::<Vec<_>>();
    refused_value(
        |value| value["parameters"] = json!(parameters),
        expect!["the recipe has 101 parameters, at most 100 are taken"],
    );
    refused_value(
        |value| value["parameters"] = json!([{"key": "k".repeat(300)}]),
        expect!["the recipe's parameter key must have at most 256 bytes, not 300; shorten it"],
    );
    refused_value(
        |value| value["parameters"] = json!([{"key": "k", "default": "k".repeat(70_000)}]),
        expect!["the recipe's parameter default must have at most 65536 bytes, not 70000; shorten it"],
    );
    refused_value(
        |value| value["parameters"] = json!([{"key": "k", "options": vec!["o"; 1001]}]),
        expect!["the recipe has 1001 options, at most 1000 are taken"],
    );
    refused_value(
        |value| value["response"] = json!({"json_schema": {"a": "x".repeat(300_000)}}),
        expect!["the json_schema of the recipe's response has more than 262144 bytes as JSON"],
    );
    refused_value(
        |value| value["author"] = json!({"contact": "x".repeat(5000)}),
        expect!["the recipe's author contact must have at most 4000 bytes, not 5000; shorten it"],
    );
}
