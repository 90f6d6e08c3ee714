//! Recipes: what a session has of them, from its first turn on.

use std::fmt::Write as _;

use expect_test::expect;
use serde_json::{Value, json};

use super::world::{Door, World, refusal, says};
use crate::suite::harness::{Reply, asked, script};

const HELPER: &str = "
version: 1.0.0
title: Code helper
description: Helps with code
instructions: |
  You help with {{ lang }}. {% if strict == 'true' %}Be strict.{% endif %}
prompt: Begin with {{ lang }}.
parameters:
  - {key: lang, input_type: string, requirement: required, description: The language}
  - {key: strict, input_type: boolean, requirement: optional, description: How, default: 'false'}
settings: {goose_provider: script, goose_model: special, temperature: 0.25, max_turns: 2}
extensions:
  - {type: builtin, name: calculator}
activities: [Explain this]
";

const FILES: [(&str, &str); 8] = [
    ("recipes/code-helper.yaml", HELPER),
    ("recipes/plain.yaml", "title: Plain\ndescription: Plain\ninstructions: Be plain, first version.\n"),
    (
        "recipes/plain@2.0.0.yaml",
        "version: 2.0.0\ntitle: Plain\ndescription: Plain\ninstructions: Be plain, second version.\n",
    ),
    ("recipes/prompted.json", r#"{"recipe": {"title": "P", "description": "P", "prompt": "Only a prompt."}}"#),
    (
        "recipes/elsewhere.yaml",
        "title: E\ndescription: E\ninstructions: E\nsettings: {goose_provider: nowhere, goose_model: m}\n",
    ),
    (
        "recipes/developer.yaml",
        "title: D\ndescription: D\ninstructions: D\nextensions: [{type: builtin, name: Developer}]\n",
    ),
    ("recipes/broken.yaml", "title: [\n"),
    ("recipes/empty.yaml", "title: T\ndescription: D\n"),
];

fn world() -> World {
    World::with_files("", "[recipes]\ndir = 'recipes'\n", &FILES)
}

fn with(mut body: Value, name: &str, version: Option<&str>, values: Value) -> Value {
    body["recipe_name"] = json!(name);
    body["recipe_version"] = json!(version);
    if !values.is_null() {
        body["recipe_parameters"] = values;
    }
    body
}

/// The instructions that a request gives the model.
fn instructions(request: &Value) -> String {
    assert_eq!(request["messages"][0]["role"], "system", "{request}");
    request["messages"][0]["content"].as_str().unwrap().to_owned()
}

#[test]
fn all_of_a_recipe_reaches_the_model() {
    let mut world = world();
    for door in Door::BOTH {
        let name = format!("seed-recipe-{}", door.view());
        let call = || Reply::calls(&[("calculator", json!({ "expression": "6*7" }))]);
        script(&name, [call(), call(), Reply::says(&["Later."])]);
        let body = says(&name, &format!("play {name}"));
        let stream = world
            .post(door, &with(body.clone(), "code-helper", Some("1.0.0"), json!({ "lang": "Rust", "strict": true })));
        // Two model calls are all that it allows.
        assert_eq!(stream.reason(), "error");
        assert!(stream.frames[stream.frames.len() - 2].data["error"].as_str().unwrap().contains('2'));
        let requests = asked(&name);
        assert_eq!(requests.len(), 2);
        for request in &requests {
            assert_eq!(instructions(request), "You help with Rust. Be strict.\n", "{request}");
            assert_eq!((&request["model"], &request["temperature"]), (&json!("special"), &json!(0.25)), "{request}");
            let tools = request["tools"].as_array().unwrap();
            assert_eq!(tools.iter().map(|tool| &tool["function"]["name"]).collect::<Vec<_>>(), ["calculator"]);
        }
        // The session keeps it, without being told again, and after a restart.
        world.crash();
        assert_eq!(world.post(door, &body).text(), "Later.");
        let later = asked(&name).pop().unwrap();
        assert_eq!(
            (&later["model"], instructions(&later).as_str()),
            (&json!("special"), "You help with Rust. Be strict.\n")
        );
        let session = world.session(&name);
        assert_eq!(
            (&session["recipe"]["title"], &session["recipe"]["version"]),
            (&json!("Code helper"), &json!("1.0.0"))
        );
        assert_eq!(session["user_recipe_values"], json!({ "lang": "Rust", "strict": "true" }));
        assert_eq!(session["model_config"]["model_name"], "special");
    }
}

#[test]
fn versions() {
    let world = world();
    script("seed-versions", (0..8).map(|_| Reply::says(&["Hm."])));
    for door in Door::BOTH {
        for (version, told) in [
            (None, "Be plain, second version."),
            (Some("1.0.0"), "Be plain, first version."),
            (Some(""), "Be plain, second version."),
        ] {
            let session = format!("{}-{}", door.view(), version.unwrap_or("newest"));
            let session = if version == Some("") { format!("{session}e") } else { session };
            world.post(door, &with(says(&session, "play seed-versions"), "plain", version, Value::Null));
            assert_eq!(instructions(&asked("seed-versions").pop().unwrap()), told);
        }
        let session = format!("{}-prompted", door.view());
        world.post(door, &with(says(&session, "play seed-versions"), "prompted", None, Value::Null));
        assert_eq!(instructions(&asked("seed-versions").pop().unwrap()), "Only a prompt.");
    }
}

/// A recipe is put on once; what a session has of it stays, whatever becomes of the file.
#[test]
fn a_session_keeps_its_recipe() {
    let world = world();
    script("seed-keeps", (0..4).map(|_| Reply::says(&["Hm."])));
    let body = says("keeps", "play seed-keeps");
    world.post(Door::Described, &with(body.clone(), "plain", Some("1.0.0"), Value::Null));
    std::fs::write(world.home.path().join(FILES[1].0), "title: N\ndescription: N\ninstructions: New.\n").unwrap();
    world.post(Door::Released, &with(body.clone(), "plain", Some("1.0.0"), Value::Null));
    world.post(Door::Described, &body);
    assert!(asked("seed-keeps").iter().all(|request| instructions(request) == "Be plain, first version."));
    // A new session has the new text.
    world.post(Door::Described, &with(says("new", "play seed-keeps"), "plain", Some("1.0.0"), Value::Null));
    assert_eq!(instructions(&asked("seed-keeps").pop().unwrap()), "New.");
    for door in Door::BOTH {
        for (recipe, version) in [("code-helper", None), ("plain", Some("2.0.0")), ("nope", None)] {
            let (status, message) = world.refused(door, &with(body.clone(), recipe, version, Value::Null));
            assert_eq!(status, 409, "{message}");
            assert!(message.contains("\"plain\" 1.0.0"), "{message}");
        }
    }
    assert_eq!(asked("seed-keeps").len(), 4);
}

#[test]
fn what_cannot_be_is_refused() {
    let world = world();
    script("seed-bare", [Reply::says(&["Hello."])]);
    world.post(Door::Described, &says("bare", "play seed-bare"));
    let fresh = || says("fresh", "hello");
    let table = [
        with(fresh(), "nope", None, Value::Null),
        with(fresh(), "code-helpre", Some("1.0.0"), Value::Null),
        with(fresh(), "plain", Some("3.0.0"), Value::Null),
        with(fresh(), "../plain", None, Value::Null),
        with(fresh(), "plain.yaml", None, Value::Null),
        with(fresh(), "broken", None, Value::Null),
        with(fresh(), "empty", None, Value::Null),
        with(fresh(), "elsewhere", None, Value::Null),
        with(fresh(), "developer", None, Value::Null),
        with(fresh(), "code-helper", None, Value::Null),
        with(fresh(), "code-helper", None, json!({ "lang": "Rust", "colour": "red" })),
        with(fresh(), "code-helper", None, json!({ "lang": "Rust", "strict": "perhaps" })),
        with(fresh(), "code-helper", None, json!({ "lang": ["Rust"] })),
        with(fresh(), "code-helper", None, json!(["Rust"])),
        with(says("bare", "hello"), "plain", None, Value::Null),
    ];
    let mut text = String::new();
    for body in &table {
        let [described, released] = Door::BOTH.map(|door| world.refused(door, body));
        assert_eq!(described, released, "{body}");
        let [name, version, values] = ["recipe_name", "recipe_version", "recipe_parameters"].map(|field| &body[field]);
        writeln!(text, "{name} {version} {values}\n  {} {}", described.0, described.1).unwrap();
        let path = world.home.path().canonicalize().unwrap();
        assert!(!described.1.contains(path.to_str().unwrap()), "the folder is nobody's business: {}", described.1);
    }
    let gone = world.client().send("GET", "/goose/sessions/fresh", "");
    assert_eq!(refusal(&gone).0, 404, "nothing was made");
    expect![[r#"
        "nope" null null
          404 there is no recipe "nope"; there are: broken, code-helper, developer, elsewhere, empty, plain, prompted
        "code-helpre" "1.0.0" null
          404 there is no recipe "code-helpre"; there are: broken, code-helper, developer, elsewhere, empty, plain, prompted
        "plain" "3.0.0" null
          404 recipe "plain" has no version "3.0.0"; there are: 1.0.0, 2.0.0
        "../plain" null null
          404 "../plain" cannot be the name of a recipe, which is 1 to 128 of A-Z a-z 0-9 . _ -
        "plain.yaml" null null
          404 there is no recipe "plain.yaml"; there are: broken, code-helper, developer, elsewhere, empty, plain, prompted
        "broken" null null
          422 recipe "broken" cannot be used: the recipe cannot be read: title: expected string scalar at line 1, column 8
        "empty" null null
          422 recipe "empty" cannot be used: the recipe has neither instructions nor a prompt
        "elsewhere" null null
          422 model: "nowhere/m" names no model; write provider/model, with one of: demo, lines, script
        "developer" null null
          422 the recipe's extension "Developer" is not configured on this server: add [mcp.developer] to its configuration; there are: none
        "code-helper" null null
          422 recipe_parameters: the recipe needs values for these parameters: lang
        "code-helper" null {"colour":"red","lang":"Rust"}
          422 the recipe has no parameter "colour"; it has: lang, strict
        "code-helper" null {"lang":"Rust","strict":"perhaps"}
          422 the value of the parameter "strict" must be true or false, not "perhaps"
        "code-helper" null {"lang":["Rust"]}
          400 the body is not valid at recipe_parameters.lang: invalid type: sequence, expected a string, a number, true or false at line 1 column 58
        "code-helper" null ["Rust"]
          400 the body is not valid at recipe_parameters: invalid type: sequence, expected a map at line 1 column 49
        "plain" null null
          409 this session began without a recipe; begin another session for one
    "#]].assert_eq(&text);
}

#[test]
fn the_list() {
    let world = world();
    let answer = world.client().send("GET", "/goose/recipes/list", "");
    let listed = answer.json();
    let mut ids: Vec<_> =
        listed["manifests"].as_array().unwrap().iter().map(|manifest| manifest["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    // Those that cannot be used are not there.
    assert_eq!(
        ids,
        ["code-helper@1.0.0", "developer@1.0.0", "elsewhere@1.0.0", "plain@1.0.0", "plain@2.0.0", "prompted@1.0.0"]
    );
    let helper =
        listed["manifests"].as_array().unwrap().iter().find(|manifest| manifest["id"] == "code-helper@1.0.0").unwrap();
    assert_eq!(helper["recipe"]["parameters"][0]["key"], "lang");
    assert_eq!(helper["recipe"]["settings"]["goose_model"], "special");
    assert_eq!(
        helper["recipe"]["instructions"], "You help with {{ lang }}. {% if strict == 'true' %}Be strict.{% endif %}\n",
        "unrendered"
    );
    // A file is there as soon as it is written.
    std::fs::write(world.home.path().join("recipes/fresh.yaml"), "title: F\ndescription: F\nprompt: F\n").unwrap();
    let listed = world.client().send("GET", "/goose/recipes/list", "").json();
    assert_eq!(listed["manifests"].as_array().unwrap().len(), 7);
}

#[test]
fn a_server_without_recipes_says_so() {
    let world = World::start();
    for door in Door::BOTH {
        let (status, message) = world.refused(door, &with(says("s", "hello"), "plain", None, Value::Null));
        assert_eq!(status, 404, "{message}");
        assert!(message.contains("[recipes] dir"), "{message}");
    }
    assert_eq!(world.client().send("GET", "/goose/recipes/list", "").json(), json!({ "manifests": [] }));
}
