//! Templates that are made to take all memory or all time, or to break the engine. That these tests end is a part of
//! what they test.

use everturn_recipes::{Recipe, RenderError};
use expect_test::{Expect, expect};
use serde_json::json;

use super::sample::{prompting, values};

const MEGABYTE: usize = 1 << 20;

#[test]
fn templates_do_not_explode() {
    let double = "{% set a = a | replace('x', 'xx') %}".repeat(64);
    let failed = |prompt: &str, given: &str, expected: Expect| {
        let error = prompting(prompt, &["a"]).render(&values([("a", given)])).unwrap_err();
        expected.assert_eq(&error.to_string());
    };
    failed(
        &double,
        "x",
        expect!["the recipe's prompt cannot be worked out: its filters work on more than 16777216 bytes (line 1)"],
    );
    failed(
        "{{ a | indent(999999999999, true) }}",
        "x",
        expect!["the recipe's prompt cannot be worked out: its filters work on more than 16777216 bytes (line 1)"],
    );
    failed(
        "{{ a | indent(a) }}",
        "99999999999",
        expect!["the recipe's prompt cannot be worked out: cannot convert string to usize (line 1)"],
    );
    failed(
        "{{ a | replace('', a) }}",
        &"x".repeat(100_000),
        expect!["the recipe's prompt cannot be worked out: its filters work on more than 16777216 bytes (line 1)"],
    );
    failed(
        &"{{ a | upper | lower }}".repeat(1000),
        &"x".repeat(100_000),
        expect!["with these values the texts of the recipe have more than 1048576 bytes; give shorter ones"],
    );
    failed(
        &"{% if a | upper == 'X' %}{% endif %}".repeat(1000),
        &"x".repeat(100_000),
        expect!["the recipe's prompt cannot be worked out: its filters work on more than 16777216 bytes (line 1)"],
    );
    failed(
        "{{ a | split(',') | length }}",
        &",".repeat(100_000),
        expect!["the recipe's prompt cannot be worked out: a text is split into more than 1000 parts (line 1)"],
    );
    let nested = "{% for x in a | split(',') %}".repeat(10) + &"{% endfor %}".repeat(10);
    failed(
        &nested,
        &"x,".repeat(500),
        expect!["the recipe's prompt cannot be worked out: it takes more than 20000 steps (line 1)"],
    );
    let blocks = (0..1900)
        .map(|n| format!("{{% block b{n} %}}{{% for x in [1, 2, 3] %}}{{{{ x }}}}{{% endfor %}}{{% endblock %}}\n"));
    failed(
        &blocks.collect::<String>(),
        "x",
        expect!["the recipe's prompt cannot be worked out: it takes more than 20000 steps (line 1053)"],
    );
    failed(
        &"{{ a }}".repeat(1000),
        &"x".repeat(100_000),
        expect!["with these values the texts of the recipe have more than 1048576 bytes; give shorter ones"],
    );
    failed(
        &"{% if a in a %}{% endif %}\n".repeat(4990),
        &"x".repeat(250_000),
        expect!["the recipe's prompt cannot be worked out: it takes more than 20000 steps (line 4000)"],
    );
    let list = vec!["a"; 95].join(",");
    failed(
        &format!("{{{{ [{list}] }}}}"),
        &"x".repeat(250_000),
        expect!["with these values the texts of the recipe have more than 1048576 bytes; give shorter ones"],
    );
}

#[test]
fn templates_do_not_go_too_deep() {
    let refused = |prompt: String, expected: Expect| {
        let value = json!({"title": "t", "description": "d", "prompt": prompt, "parameters": [{"key": "a"}]});
        expected.assert_eq(&Recipe::from_value(&value).unwrap_err().to_string());
    };
    for (begin, filling, end) in [
        ("{{ a", " or\na", " }}"),
        ("{{ a", "\n| upper", " }}"),
        ("{{", "\nnot", " a }}"),
        ("{{", "\n-", " a }}"),
        ("{{", "\n(", " a }}"),
        ("{{ '}}'", "\nor a", " }}"),
        ("{{ a", "\n.a", " }}"),
        ("{{ [a", ",\na", "] }}"),
        ("{{ a is", "\nnot", " }}"),
        ("{{ a", "\nif a else a", " }}"),
        ("{% if a", "\n== a", " %}{% endif %}"),
        ("{% set a = a", "\nor a", " %}"),
    ] {
        let prompt = format!("{begin}{}{end}", filling.repeat(400_000 / filling.len()));
        let value = json!({"title": "t", "description": "d", "prompt": prompt, "parameters": [{"key": "a"}]});
        let error = Recipe::from_value(&value).unwrap_err().to_string();
        assert!(error.ends_with("has more than 200 words and signs"), "{begin}{filling}: {error}");
    }
    refused(
        format!("{{{{ {}a{} }}}}", "(".repeat(101), ")".repeat(101)),
        expect!["the recipe's prompt cannot be used: a place in it has more than 200 words and signs"],
    );
    refused(
        format!("{{{{ a{} }}}}", " or a".repeat(50_000)),
        expect!["the recipe's prompt cannot be used: a line of it has more than 60000 bytes; break it"],
    );
    refused(
        "{% if a %}\n".repeat(9000),
        expect!["the recipe's prompt cannot be used: template exceeds maximum recursion limits (line 150)"],
    );
    refused(
        "{% if a %}\n".repeat(30_000),
        expect!["the recipe's prompt cannot be used: it has more than 10000 places and statements"],
    );
    refused(
        format!("{{% if a %}}\n{}{{% endif %}}", "{% elif a %}\n".repeat(9000)),
        expect!["the recipe's prompt cannot be used: it has {% elif %} more than 100 times"],
    );
    refused(
        "{% for a in a %}\n".repeat(9000),
        expect!["the recipe's prompt cannot be used: template exceeds maximum recursion limits (line 150)"],
    );
    refused(
        format!("{}{}", "{% if a %}".repeat(200), "{% endif %}".repeat(200)),
        expect!["the recipe's prompt cannot be used: template exceeds maximum recursion limits (line 1)"],
    );
}

/// As much as is taken, on half of the stack that a thread of the server has.
#[test]
fn what_is_taken_fits_on_the_stack() {
    let thread = std::thread::Builder::new().stack_size(MEGABYTE);
    let thread = thread.spawn(move || {
        let mut deepest = [0; 9];
        for depth in 1..=200 {
            let prompts = [
                format!("{{{{ a{} }}}}", " or a".repeat(depth)),
                format!("{{{{ a{} }}}}", " | upper".repeat(depth)),
                format!("{{{{ {}a }}}}", "not ".repeat(depth)),
                format!("{{{{ {}a{} }}}}", "(".repeat(depth), ")".repeat(depth)),
                format!("{}x{}", "{% if a %}".repeat(depth), "{% endif %}".repeat(depth)),
                format!("{}x{}", "{% for b in [a] %}".repeat(depth), "{% endfor %}".repeat(depth)),
                format!("{{% if a %}}{}{{% endif %}}", "{% elif a %}".repeat(depth)),
                (0..depth).map(|n| format!("{{% block b{n} %}}")).collect::<String>() + &"{% endblock %}".repeat(depth),
                format!(
                    "{}{{% if not a %}}{}{{{{ a{} }}}}{{% endif %}}{}",
                    "{% if a %}".repeat(depth),
                    "{% elif a %}".repeat(depth),
                    " or a".repeat(depth),
                    "{% endif %}".repeat(depth),
                ),
            ];
            for (prompt, deepest) in prompts.iter().zip(&mut deepest) {
                let value = json!({"title": "t", "description": "d", "prompt": prompt, "parameters": [{"key": "a"}]});
                let Ok(recipe) = Recipe::from_value(&value) else { continue };
                recipe.render(&values([("a", "x")])).unwrap();
                *deepest = depth;
            }
        }
        deepest
    });
    expect!["[99, 99, 198, 99, 149, 147, 100, 150, 99]"].assert_eq(&format!("{:?}", thread.unwrap().join().unwrap()));
}

#[test]
fn large_templates_are_read_in_one_pass() {
    for filling in [
        "{{",
        "}}",
        "{%",
        "%}",
        "{#",
        "#}",
        "{{ a }}",
        "{{a b}}",
        "{% raw %}",
        "{% endraw %}",
        "{% if a %}x{% endif %}",
        "{{ '",
        "{{ \"\\",
        "\n",
        "{{\n",
        "{{ a",
        "-",
        "{{-",
        "{{ 1 }}",
        "{{ a | upper }}",
        "{# x #}",
        "{{ a |",
        "{",
    ] {
        let prompt = filling.repeat(500_000 / filling.len());
        let value = json!({"title": "t", "description": "d", "prompt": prompt, "parameters": [{"key": "a"}]});
        if let Ok(recipe) = Recipe::from_value(&value) {
            let _ = recipe.render(&values([("a", "x")]));
        }
    }
}

#[test]
fn values_have_an_end() {
    let recipe = prompting("{{ a }}", &["a", "b", "c", "d", "e"]);
    let error = recipe.render(&values([("a", &"x".repeat(300_000))])).unwrap_err();
    expect![[r#"the value of the parameter "a" has 300000 bytes, at most 262144 are taken"#]]
        .assert_eq(&error.to_string());
    let long = "x".repeat(250_000);
    let given = values([("a", &long), ("b", &long), ("c", &long), ("d", &long), ("e", &long)]);
    assert_eq!(recipe.render(&given), Err(RenderError::ValuesTooLarge { bytes: 1_250_000, limit: MEGABYTE }));
    let recipe = prompting(&"{{ a }}".repeat(5), &["a"]);
    assert_eq!(recipe.render(&values([("a", &long)])), Err(RenderError::TooLarge { limit: MEGABYTE }));
    // The texts count together.
    let mut recipe = prompting("{{ a }}{{ a }}{{ a }}", &["a"]);
    assert!(recipe.render(&values([("a", &long)])).is_ok());
    recipe.instructions = recipe.prompt.clone();
    assert_eq!(recipe.render(&values([("a", &long)])), Err(RenderError::TooLarge { limit: MEGABYTE }));
}

/// The fields of a recipe can be set without asking.
#[test]
fn a_changed_recipe_is_checked_again() {
    let mut recipe = prompting("x", &["a"]);
    recipe.prompt = Some("{{ a ~ a }}".to_owned());
    expect!["the recipe's prompt cannot be worked out: values can be compared, but not calculated with or joined"]
        .assert_eq(&recipe.render(&values([])).unwrap_err().to_string());
}
