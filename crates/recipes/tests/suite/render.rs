use everturn_recipes::{Recipe, RenderError, Rendered};
use expect_test::{Expect, expect};

use super::sample::{EVERYTHING, EXPLAIN_CHANGE, FIGURES, NOTES, RELEASE, prompting, values};

#[track_caller]
fn check(prompt: &str, given: &[(&str, &str)], expected: &str) {
    let recipe = prompting(prompt, &["a", "b", "c"]);
    let given = given.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    assert_eq!(recipe.render(&given).unwrap().prompt.unwrap(), expected, "{prompt}");
}

fn everything(more: &[(&str, &str)]) -> Result<Rendered, RenderError> {
    let recipe = Recipe::from_yaml(EVERYTHING).unwrap().in_folder("/srv/recipes");
    let mut given = values([("pattern", "*.rs"), ("format", "json"), ("settings", "a: 1\nb: 2")]);
    given.extend(more.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
    recipe.render(&given)
}

#[track_caller]
fn refused(more: &[(&str, &str)], expected: Expect) {
    expected.assert_eq(&everything(more).unwrap_err().to_string());
}

#[test]
fn recipes_of_goose_are_filled_in() {
    let recipe = Recipe::from_yaml(EXPLAIN_CHANGE).unwrap();
    let prompt = recipe.render(&values([("change", "fix-1")])).unwrap().prompt.unwrap();
    expect![[r#"
        Explain the change fix-1.


        1. Find it. fix-1 may be a part of its name:
           `vcs list --open`
        2. Say what it does.
    "#]]
    .assert_eq(&prompt);
    let prompt = recipe.render(&values([("change", "fix-1"), ("repository", "core")])).unwrap().prompt.unwrap();
    expect![[r#"
        Explain the change fix-1.

        It is in core, so say that in every command.


        1. Find it. fix-1 may be a part of its name:
           `vcs list --open`
        2. Say what it does.
    "#]]
    .assert_eq(&prompt);

    let recipe = Recipe::from_yaml(FIGURES).unwrap();
    let rendered = recipe.render(&values([("file", "a.csv"), ("draw", "false")])).unwrap();
    assert_eq!(rendered.activities, ["Clean the table", "Draw a.csv"]);
    expect![[r#"
        Look at a.csv in the way full. Write to ./out.

        - Work out the usual figures.

        - Do not draw.
        For full=="quick", leave out what takes long.
    "#]]
    .assert_eq(&rendered.prompt.unwrap());

    let recipe = Recipe::from_yaml(RELEASE).unwrap();
    let rendered = recipe.render(&values([("path", "/src")])).unwrap();
    assert_eq!(rendered.instructions.unwrap(), "Work only in `/src`.\nWrite to `/src/signoff.md`.\n");
    assert_eq!(rendered.prompt.unwrap(), "Look at the release in `/src`.");

    let recipe = Recipe::from_yaml(NOTES).unwrap();
    let rendered = recipe.render(&values([("start", "abc"), ("end", "def")])).unwrap();
    expect![[r#"
        All commits from abc to def, as
        # [Version/Date]
        - [What] - [number](link)
        A place is written like \{\{ key }}, and $def is one.
        Ask for {{your name}}, and write {{DATE}} where the date goes.
    "#]]
    .assert_eq(&rendered.prompt.unwrap());
}

#[test]
fn defaults_and_the_folder_are_filled_in() {
    let rendered = everything(&[]).unwrap();
    assert_eq!(
        rendered.instructions.unwrap(),
        "Take 10 files like *.rs and write json. Loud: no. Until 2026-07-02. a: 1\nb: 2"
    );
    assert_eq!(rendered.prompt.unwrap(), "See /srv/recipes/style.md");
    assert_eq!(rendered.settings.goose_model.unwrap(), "gpt-json");
    assert_eq!(rendered.settings.max_turns, Some(100));
    assert_eq!([rendered.title, rendered.description], ["Everything", "All that a recipe can say"]);
}

#[test]
fn values_are_checked() {
    for more in [("count", "-1.5e3"), ("count", " 7 "), ("loud", "True"), ("loud", "no"), ("format", "3")] {
        everything(&[more]).unwrap();
    }
    refused(&[("count", "many")], expect![[r#"the value of the parameter "count" must be a number, not "many""#]]);
    refused(&[("count", "inf")], expect![[r#"the value of the parameter "count" must be a number, not "inf""#]]);
    refused(&[("count", "")], expect![[r#"the value of the parameter "count" must be a number, not """#]]);
    refused(&[("loud", "yes")], expect![[r#"the value of the parameter "loud" must be true or false, not "yes""#]]);
    refused(
        &[("format", "xml")],
        expect![[r#"the value of the parameter "format" must be one of json, markdown, 3, not "xml""#]],
    );
    refused(
        &[("colour", "red")],
        expect![[r#"the recipe has no parameter "colour"; it has: pattern, count, format, loud, until, settings"#]],
    );
    refused(
        &[("recipe_dir", "/etc")],
        expect![[r#"the recipe has no parameter "recipe_dir"; it has: pattern, count, format, loud, until, settings"#]],
    );
    let recipe = Recipe::from_yaml(EVERYTHING).unwrap();
    expect!["the recipe needs values for these parameters: pattern, format, settings"]
        .assert_eq(&recipe.render(&values([])).unwrap_err().to_string());
    assert_eq!(
        Recipe::from_yaml(NOTES).unwrap().render(&values([])),
        Err(RenderError::MissingParameters { keys: vec!["start".to_owned(), "end".to_owned()] })
    );
    let given = values([("pattern", ""), ("format", "json"), ("settings", "")]);
    expect!["the recipe's prompt cannot be worked out: only a recipe from a folder has {{ recipe_dir }}"]
        .assert_eq(&recipe.render(&given).unwrap_err().to_string());
    expect![[r#"the recipe has no parameter "a"; it has none at all"#]]
        .assert_eq(&prompting("x", &[]).render(&values([("a", "b")])).unwrap_err().to_string());
}

#[test]
fn the_language_is_that_of_goose() {
    check("{{a}}{{ a }}{{-  a }} {{ a -}} .", &[("a", "1")], "111 1.");
    check("{% if a %}yes{% else %}no{% endif %}", &[("a", "")], "no");
    // Values are texts, and a text that says false is not empty.
    check("{% if a %}yes{% else %}no{% endif %}", &[("a", "false")], "yes");
    check("{% if a == 'x' %}1{% elif a == \"y\" %}2{% else %}3{% endif %}", &[("a", "y")], "2");
    check("{% if a in ['x', 'y'] and not b %}1{% endif %}", &[("a", "y")], "1");
    check("{% if 'x' in a %}1{% endif %}{% if a not in b %}2{% endif %}", &[("a", "axb"), ("b", "a")], "12");
    check("{{ a if a else 'nothing' }}", &[], "nothing");
    check("{{ a | default('none') }} {{ b | default('none', true) }}", &[("b", "")], "none none");
    check("{% if a is defined %}1{% else %}2{% endif %}{% if a is not defined %}3{% endif %}", &[], "23");
    check("[{{ a }}]", &[], "[]");
    check("{% raw %}{{ a }}{% endraw %}{# {{ a }} #}.", &[], "{{ a }}.");
    check("{% set d = a %}{{ d }}", &[("a", "1")], "1");
    check("{% for x in a | split(',') %}{{ loop.index }}:{{ x | trim }};{% endfor %}", &[("a", "p, q")], "1:p;2:q;");
    check("{% if a | int > 5 %}many{% endif %}", &[("a", "10")], "many");
    check("{% block x %}1{% block y %}2{% endblock %}{% endblock %}", &[], "12");
    check("a\n{{ a }}\n", &[("a", "1")], "a\n1\n");
}

#[test]
fn filters_do_what_they_say() {
    for (filter, expected) in [
        ("upper", " Ä-B C\nDE\n"),
        ("lower", " ä-b c\nde\n"),
        ("capitalize", " ä-b c\nde\n"),
        ("title", " Ä-B C\nDe\n"),
        ("trim", "ä-b c\nDE"),
        ("trim(' ä')", "-b c\nDE\n"),
        ("safe", " ä-b c\nDE\n"),
        ("replace('b', '<>')", " ä-<> c\nDE\n"),
        ("indent", " ä-b c\n    DE"),
        ("indent(1, true)", "  ä-b c\n DE"),
        ("indent(width=2)", " ä-b c\n  DE"),
        ("length", "10"),
        ("count", "10"),
        ("first", " "),
        ("last", "\n"),
        ("split | join('|')", "ä-b|c|DE"),
        ("lines | join(',')", " ä-b c,DE"),
        ("lines | last", "DE"),
        ("lines | first", " ä-b c"),
        ("lines | length", "2"),
        ("int", "0"),
        ("int(7)", "7"),
        ("float", "0.0"),
        ("default('x')", " ä-b c\nDE\n"),
    ] {
        check(&format!("{{{{ a | {filter} }}}}"), &[("a", " ä-b c\nDE\n")], expected);
    }
    check("{{ a | int }} {{ a | float }}", &[("a", " 2.50 ")], "2 2.5");
    check(
        "{% if a is startingwith('x') and a is endingwith('y') and a is in b %}1{% endif %}",
        &[("a", "xy"), ("b", "axyb")],
        "1",
    );
    check("{% if a is eq('x') and a is ne('y') and a is in(['x']) %}1{% endif %}", &[("a", "x")], "1");
}

#[test]
fn values_are_never_templates() {
    let hostile = "{{ b }}{% if %}{% raw %}\"': - x\n\0";
    check("{{ a }}|{{ a }}", &[("a", hostile), ("b", "secret")], &format!("{hostile}|{hostile}"));
}

#[test]
fn the_folder_is_known_only_to_recipes_of_one() {
    let recipe = prompting("{{ recipe_dir }}", &["recipe_dir"]);
    expect!["the recipe's prompt cannot be worked out: only a recipe from a folder has {{ recipe_dir }}"]
        .assert_eq(&recipe.render(&values([])).unwrap_err().to_string());
    let recipe = recipe.in_folder("/srv");
    assert_eq!(recipe.render(&values([])).unwrap().prompt.unwrap(), "/srv");
    // What is not used is not missed.
    assert!(prompting("x", &["recipe_dir"]).render(&values([])).is_ok());
}
