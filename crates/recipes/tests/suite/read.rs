use everturn_recipes::{InputType, Recipe, Requirement};
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::sample::{ALL, EVERYTHING, EXPLAIN_CHANGE, FIGURES, NOTES, REMOVE_FLAG, SAVED_BY_DESKTOP};

#[track_caller]
fn refused(text: &str, expected: Expect) {
    expected.assert_eq(&Recipe::from_yaml(text).unwrap_err().to_string());
}

const START: &str = "title: t\ndescription: d\nprompt: p\n";

#[test]
fn recipes_of_goose_are_read() {
    let recipe = Recipe::from_yaml(EXPLAIN_CHANGE).unwrap();
    assert_eq!(recipe.version, "1.0.0");
    assert_eq!(recipe.author.unwrap().contact.as_deref(), Some("someone"));
    assert_eq!(recipe.activities, ["Look at the diff", "Find the ticket"]);
    assert_eq!(recipe.parameters[1].default.as_deref(), Some(""));
    assert_eq!(recipe.extensions.unwrap()[1].name, "memory");
    assert!(recipe.prompt.unwrap().ends_with("2. Say what it does.\n"));

    let recipe = Recipe::from_yaml(NOTES).unwrap();
    assert_eq!(recipe.parameters[0].requirement, Requirement::UserPrompt);
    assert_eq!(recipe.version, "1.0.0");

    let recipe = Recipe::from_yaml(SAVED_BY_DESKTOP).unwrap();
    assert_eq!(recipe.title, "Reviewer");
    // An empty list is not the same as no list.
    assert_eq!(recipe.extensions, Some(Vec::new()));
    assert_eq!(recipe.parameters, []);
}

#[test]
fn all_that_a_recipe_can_say_is_kept() {
    let recipe = Recipe::from_yaml(EVERYTHING).unwrap();
    let kinds = recipe.parameters.iter().map(|parameter| parameter.input_type).collect::<Vec<_>>();
    assert_eq!(
        kinds,
        [InputType::String, InputType::Number, InputType::Select, InputType::Boolean, InputType::Date, InputType::File]
    );
    expect![[r#"
        {
          "version": "1.2.0",
          "title": "Everything",
          "description": "All that a recipe can say",
          "instructions": "Take {{ count }} files like {{ pattern }} and write {{ format }}. Loud: {{ loud }}. Until {{ until }}. {{ settings }}",
          "prompt": "See {{ recipe_dir }}/style.md",
          "settings": {
            "goose_provider": "openai",
            "goose_model": "gpt-{{ format }}",
            "temperature": 0.7,
            "max_turns": 100
          },
          "parameters": [
            {
              "key": "pattern",
              "input_type": "string",
              "requirement": "required",
              "description": "Which files"
            },
            {
              "key": "count",
              "input_type": "number",
              "requirement": "optional",
              "description": "How many files",
              "default": "10"
            },
            {
              "key": "format",
              "input_type": "select",
              "requirement": "required",
              "description": "What to write",
              "options": [
                "json",
                "markdown",
                "3"
              ]
            },
            {
              "key": "loud",
              "input_type": "boolean",
              "requirement": "optional",
              "description": "Whether to say much",
              "default": "no"
            },
            {
              "key": "until",
              "input_type": "date",
              "requirement": "optional",
              "description": "When to end",
              "default": "2026-07-02"
            },
            {
              "key": "settings",
              "input_type": "file",
              "requirement": "required",
              "description": "The settings"
            }
          ],
          "response": {
            "json_schema": {
              "additionalProperties": false,
              "properties": {
                "lines": {
                  "items": {
                    "type": "string"
                  },
                  "maxItems": 3,
                  "type": "array"
                },
                "result": {
                  "description": "What came out",
                  "type": "string"
                }
              },
              "required": [
                "result"
              ],
              "type": "object"
            }
          }
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&recipe).unwrap());
}

#[test]
fn what_goose_would_run_is_not_kept() {
    let recipe = Recipe::from_yaml(FIGURES).unwrap();
    expect![[r#"
        [
          {
            "type": "stdio",
            "name": "files",
            "description": "Reads and writes files",
            "available_tools": [
              "read_file",
              "write_file"
            ]
          },
          {
            "type": "platform",
            "name": "summon",
            "description": "",
            "available_tools": []
          }
        ]"#]]
    .assert_eq(&serde_json::to_string_pretty(&recipe.extensions).unwrap());
    let shown = format!("{recipe:?}{}", serde_json::to_string(&recipe).unwrap());
    assert!(!shown.contains("not-to-be-shown") && !shown.contains("npx"));
}

#[test]
fn a_recipe_can_be_json() {
    let recipe = Recipe::from_json(REMOVE_FLAG).unwrap();
    assert_eq!(recipe.parameters[2].default.as_deref(), Some("1.5"));
    let value = serde_json::from_str::<Value>(REMOVE_FLAG).unwrap();
    assert_eq!(Recipe::from_value(&value).unwrap(), recipe);
    assert_eq!(serde_json::from_str::<Recipe>(REMOVE_FLAG).unwrap(), recipe);
    // JSON is YAML.
    assert_eq!(Recipe::from_yaml(REMOVE_FLAG).unwrap(), recipe);
    assert_eq!(Recipe::from_json(&format!("\u{feff}{REMOVE_FLAG}")).unwrap(), recipe);
}

#[test]
fn a_recipe_is_shown_as_it_is_read() {
    for text in ALL {
        let recipe = Recipe::from_yaml(text).unwrap();
        let shown = serde_json::to_value(&recipe).unwrap();
        assert_eq!(Recipe::from_value(&shown).unwrap(), recipe);
        assert_eq!(Recipe::from_yaml(&shown.to_string()).unwrap(), recipe);
    }
}

#[test]
fn yaml_is_taken_as_people_write_it() {
    let recipe = Recipe::from_yaml(&format!("\u{feff}---\n# A comment\n{START}version: 1.10\n")).unwrap();
    assert_eq!(recipe.version, "1.10");
    let recipe = Recipe::from_yaml("title: 2026\ndescription: yes\nprompt: p\r\n").unwrap();
    assert_eq!([&*recipe.title, &*recipe.description], ["2026", "yes"]);
    let shared = "x: &tools\n  - a\n  - b\ntitle: &t Hello\ndescription: *t\nprompt: p\nextensions:\n  - {type: builtin, \
                  name: one, available_tools: *tools}\n  - {type: builtin, name: two, available_tools: *tools}\n";
    let recipe = Recipe::from_yaml(shared).unwrap();
    assert_eq!(recipe.description, "Hello");
    assert_eq!(recipe.extensions.unwrap()[1].available_tools, ["a", "b"]);
    let merged = "base: &base {title: a, description: b}\nrecipe:\n  <<: *base\n  prompt: c\n";
    assert_eq!(Recipe::from_yaml(merged).unwrap().title, "a");
}

#[test]
fn what_is_left_out_is_asked_for() {
    refused("", expect!["the recipe has no title"]);
    refused("just words", expect!["the recipe cannot be read: expected mapping start at line 1, column 1"]);
    refused("- a\n- b", expect!["the recipe cannot be read: expected mapping start at line 1, column 1"]);
    refused("description: d\nprompt: p", expect!["the recipe has no title"]);
    refused("title: ' '\ndescription: d\nprompt: p", expect!["the recipe has no title"]);
    refused("title: t\nprompt: p", expect!["the recipe has no description"]);
    refused("title: t\ndescription: d", expect!["the recipe has neither instructions nor a prompt"]);
    refused(
        "title: t\ndescription: d\nprompt: ' '\ninstructions: ''",
        expect!["the recipe has neither instructions nor a prompt"],
    );
    refused("name: x\nrecipe:\n  title: t", expect!["the recipe has no description"]);
}

#[test]
fn what_is_wrong_is_named() {
    refused(
        &format!("{START}extensions: [developer]"),
        expect!["the recipe cannot be read: extensions[0]: expected mapping start at line 4, column 14"],
    );
    refused(
        &format!("{START}extensions: [{{name: x}}]"),
        expect!["the recipe cannot be read: extensions[0]: missing field `type` at line 4, column 15"],
    );
    refused(
        &format!("{START}extensions: [{{type: x, name: ''}}]"),
        expect!["an extension of the recipe has an empty name"],
    );
    refused(
        &format!("{START}author: me"),
        expect!["the recipe cannot be read: author: expected mapping start at line 4, column 9"],
    );
    refused(
        &format!("{START}settings: {{temperature: warm}}"),
        expect!["the recipe cannot be read: settings.temperature: invalid floating point at line 4, column 25"],
    );
    refused(
        &format!("{START}settings: {{temperature: .nan}}"),
        expect!["the recipe's temperature must be from 0 to 2, not NaN"],
    );
    refused(
        &format!("{START}settings: {{temperature: 2.5}}"),
        expect!["the recipe's temperature must be from 0 to 2, not 2.5"],
    );
    refused(&format!("{START}settings: {{max_turns: 0}}"), expect!["the recipe's max_turns must be at least 1, not 0"]);
    refused(
        &format!("{START}settings: {{max_turns: -1}}"),
        expect!["the recipe cannot be read: settings.max_turns: invalid u32 at line 4, column 23"],
    );
    refused(
        &format!("{START}version: ' '"),
        expect![[r#"the recipe's version must be a word such as "1.0.0", not " ""#]],
    );
    refused(
        &format!("{START}title: u"),
        expect!["the recipe cannot be read: duplicate mapping key: title not allowed here at line 4, column 1"],
    );
    refused(
        &format!("{START}response: {{json_schema: [1]}}"),
        expect!["the json_schema of the recipe's response must be a map"],
    );
    refused(
        &format!("{START}parameters: [{{key: a, input_type: colour}}]"),
        expect![
            "the recipe cannot be read: parameters[0].input_type: unknown variant `colour`, expected one of string, number, boolean, date, file, select at line 4, column 35"
        ],
    );
    refused(
        &format!("{START}parameters: [{{key: a, requirement: maybe}}]"),
        expect![
            "the recipe cannot be read: parameters[0].requirement: unknown variant `maybe`, expected one of required, optional, user_prompt at line 4, column 36"
        ],
    );
    refused(
        &format!("{START}parameters: [{{key: a}}, {{key: a}}]"),
        expect![[r#"two parameters of the recipe have the key "a""#]],
    );
    refused(&format!("{START}parameters: [{{key: ''}}]"), expect!["a parameter of the recipe has an empty key"]);
    refused(
        &format!("{START}parameters: [{{key: a, input_type: select}}]"),
        expect![[r#"the parameter "a" of the recipe is to be selected from options but has none"#]],
    );
    refused(
        &format!("{START}parameters: [{{input_type: string}}]"),
        expect!["the recipe cannot be read: parameters[0]: missing field `key` at line 4, column 15"],
    );
    refused(&format!("{START}---\n{START}"), expect!["the recipe cannot be read: it has more than one document"]);
    refused(
        "title: [t\ndescription: d",
        expect!["the recipe cannot be read: title: expected string scalar at line 1, column 8"],
    );
    refused(
        "{% extends \"parent.yaml\" %}\n{% block prompt %}x{% endblock %}",
        expect![
            "the recipe cannot be read: it begins with a template statement, such as {% extends %}; a recipe is one file, write it out"
        ],
    );
    expect!["the recipe cannot be read: title: invalid type: integer `1`, expected a text at line 1 column 11"]
        .assert_eq(&Recipe::from_json("{\"title\": 1,}").unwrap_err().to_string());
    expect!["the recipe cannot be read: trailing characters at line 1 column 4"]
        .assert_eq(&Recipe::from_json("{} {}").unwrap_err().to_string());
    expect!["the recipe cannot be read: title: invalid type: map, expected a text"]
        .assert_eq(&Recipe::from_value(&json!({"title": {"a": 1}})).unwrap_err().to_string());
    expect!["the recipe has no description"]
        .assert_eq(&serde_json::from_str::<Recipe>("{\"title\": \"t\"}").unwrap_err().to_string());
}

#[test]
fn what_a_text_must_not_use_is_named() {
    for (prompt, expected) in [
        (
            "{{ who }} and {{ whom }}",
            expect![
                "the recipe's prompt cannot be used: these names in it are none of its parameters: who, whom; add them to the parameters, or put the place between {% raw %} and {% endraw %} if it is to stay as it is"
            ],
        ),
        (
            "{{ github.sha }}",
            expect![[r#"the recipe's prompt cannot be used: values are texts and have no parts such as "sha""#]],
        ),
        (
            "{% if who",
            expect!["the recipe's prompt cannot be used: unexpected end of input, expected end of block (line 1)"],
        ),
        (
            "{% if a %}",
            expect!["the recipe's prompt cannot be used: unexpected end of input, expected end of block (line 1)"],
        ),
        ("\n\n{% endif %}", expect!["the recipe's prompt cannot be used: unknown statement endif (line 3)"]),
        ("{# a", expect!["the recipe's prompt cannot be used: unexpected end of comment (line 1)"]),
        (
            "{% include 'other.yaml' %}",
            expect!["the recipe's prompt cannot be used: it takes text from another file; a recipe is one file"],
        ),
        (
            "{% extends a %}",
            expect!["the recipe's prompt cannot be used: it takes text from another file; a recipe is one file"],
        ),
        (
            "{% from a import b %}",
            expect!["the recipe's prompt cannot be used: it takes text from another file; a recipe is one file"],
        ),
        (
            "{% block a %}{% include a %}{% endblock %}",
            expect!["the recipe's prompt cannot be used: it takes text from another file; a recipe is one file"],
        ),
        (
            "{% block a %}{{ super() }}{{ self.a() }}{% endblock %}",
            expect!["the recipe's prompt cannot be used: it calls a function, and there are none"],
        ),
        (
            "{% block a %}{% endblock %}{% block a %}{% endblock %}",
            expect!["the recipe's prompt cannot be used: block 'a' defined twice (line 1)"],
        ),
        (
            "{% macro a() %}{% endmacro %}",
            expect!["the recipe's prompt cannot be used: unknown statement macro (line 1)"],
        ),
        (
            "{% set a %}b{% endset %}",
            expect![
                "the recipe's prompt cannot be used: it has a statement that is not taken; a recipe takes {{ key }}, {% if %}, {% for %}, {% set %} and {% raw %}"
            ],
        ),
        (
            "{{ a ~ a }}",
            expect!["the recipe's prompt cannot be used: values can be compared, but not calculated with or joined"],
        ),
        (
            "{{ a * 1000 }}",
            expect!["the recipe's prompt cannot be used: values can be compared, but not calculated with or joined"],
        ),
        ("{{ range(10) }}", expect!["the recipe's prompt cannot be used: it calls a function, and there are none"]),
        ("{{ a[0] }}", expect!["the recipe's prompt cannot be used: values are texts, of which no part can be taken"]),
        (
            "{{ {'a': 1} }}",
            expect![
                "the recipe's prompt cannot be used: it has a map; a recipe takes {{ key }}, {% if %}, {% for %}, {% set %} and {% raw %}"
            ],
        ),
        (
            "{{ a | tojson }}",
            expect![[
                r#"the recipe's prompt cannot be used: there is no filter "tojson"; there are: capitalize, count, d, default, first, float, indent, int, join, last, length, lines, lower, replace, safe, split, title, trim, upper"#
            ]],
        ),
        (
            "{{ a is odd }}",
            expect![[
                r#"the recipe's prompt cannot be used: there is no test "is odd"; there are: defined, undefined, none, eq, equalto, ne, in, startingwith, endingwith"#
            ]],
        ),
        (
            "{{ a | default(b | upper) }}",
            expect!["the recipe's prompt cannot be used: lists and arguments take only names and fixed values"],
        ),
        (
            "{% for a, b in c %}{% endfor %}",
            expect!["the recipe's prompt cannot be used: only a name can be given a value"],
        ),
    ] {
        let value = json!({
            "title": "t", "description": "d", "prompt": prompt,
            "parameters": [{"key": "a"}, {"key": "b"}, {"key": "c"}],
        });
        expected.assert_eq(&Recipe::from_value(&value).unwrap_err().to_string());
    }
}
