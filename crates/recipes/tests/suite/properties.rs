use everturn_recipes::{Recipe, is_recipe_name};
use proptest::prelude::*;
use serde_json::json;

use super::sample::{ALL, prompting, values};

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[ -~\n\té{}%#]{0,60}", ".{0,20}"]
}

/// Pieces from which templates are made, good and bad ones.
fn template() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("{{ a }}"),
        Just("{{"),
        Just("}}"),
        Just("{%"),
        Just("%}"),
        Just("{#"),
        Just("#}"),
        Just("{% if a %}"),
        Just("{% else %}"),
        Just("{% elif b %}"),
        Just("{% endif %}"),
        Just("{% raw %}"),
        Just("{% endraw %}"),
        Just("{% for x in a | split(',') %}"),
        Just("{% endfor %}"),
        Just("{{ x }}"),
        Just("{% set x = a %}"),
        Just("{{ b | replace(a, b) | upper }}"),
        Just("{{ a | indent(b) }}"),
        Just("{{your name}}"),
        Just("'"),
        Just("\""),
        Just(" "),
        Just("\n"),
        Just("a"),
        Just("|"),
        Just("("),
        Just(")"),
        Just("é"),
        Just("-"),
        Just("{{ loop.index }}"),
        Just("{{ a in b }}"),
        Just("{{ [a, b] }}"),
        Just("{{ a | first | last }}"),
    ];
    proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in text()) {
        let _ = Recipe::from_yaml(&text);
        let _ = Recipe::from_json(&text);
    }

    #[test]
    fn any_change_of_a_recipe_is_read_or_refused(
        sample in proptest::sample::select(&ALL[..]),
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), "[ -~\n\t]{0,3}"), 1..6),
    ) {
        let mut text = sample.to_owned();
        for (at, change) in changes {
            let at = text.floor_char_boundary(at.index(text.len()));
            let end = text.ceil_char_boundary((at + change.len()).min(text.len()));
            text.replace_range(at..end, &change);
        }
        if let Ok(recipe) = Recipe::from_yaml(&text) {
            let _ = recipe.render(&values([("change", "x"), ("file", "x"), ("path", "x")]));
        }
    }

    #[test]
    fn a_recipe_is_the_same_after_it_was_shown(
        title in "[!-z][ -zé\n]{0,20}",
        prompt in "[!-z][ -zé\n\t]{0,40}",
        default in proptest::option::of("[ -~é\n]{0,20}"),
        extensions in proptest::option::of(proptest::collection::vec("[a-z]{1,9}", 0..3)),
        temperature in proptest::option::of(0..=20_u8),
        schema in proptest::option::of(proptest::collection::btree_map("[a-z$]{1,9}", "[ -~é]{0,9}", 0..3)),
    ) {
        let extensions = extensions.map(|names| {
            names.into_iter().map(|name| json!({"type": "builtin", "name": name})).collect::<Vec<_>>()
        });
        let recipe = Recipe::from_value(&json!({
            "title": title, "description": "", "prompt": prompt, "extensions": extensions,
            "settings": {"temperature": temperature.map(|tenths| f64::from(tenths) / 10.0)}, "response": {"json_schema": schema},
            "parameters": [{"key": "a", "default": default}],
        })).unwrap();
        let shown = serde_json::to_string(&recipe).unwrap();
        prop_assert_eq!(&Recipe::from_json(&shown).unwrap(), &recipe);
        prop_assert_eq!(&Recipe::from_yaml(&shown).unwrap(), &recipe);
    }

    #[test]
    fn any_template_is_worked_out_or_refused(prompt in template(), a in ".{0,30}", b in "[0-9]{0,3}") {
        let value = json!({
            "title": "t", "description": "d", "instructions": "i", "prompt": prompt,
            "parameters": [{"key": "a"}, {"key": "b"}],
        });
        if let Ok(recipe) = Recipe::from_value(&value) {
            let _ = recipe.render(&values([("a", &a), ("b", &b)]));
        }
    }

    #[test]
    fn a_value_is_put_in_as_it_is(before in "[^{]{0,20}", value in ".{0,40}", after in "[^{]{0,20}") {
        let recipe = prompting(&format!("x{before}{{{{ a }}}}{after}"), &["a"]);
        let rendered = recipe.render(&values([("a", &value)])).unwrap();
        prop_assert_eq!(rendered.prompt.unwrap(), format!("x{before}{value}{after}"));
    }

    #[test]
    fn a_text_without_places_stays_as_it_is(prompt in "[^{]{1,60}") {
        prop_assume!(!prompt.trim().is_empty());
        let rendered = prompting(&prompt, &[]).render(&values([])).unwrap();
        prop_assert_eq!(rendered.prompt.unwrap(), prompt);
    }

    #[test]
    fn names_never_lead_anywhere(name in ".{0,140}") {
        if is_recipe_name(&name) {
            prop_assert!(!name.contains(['/', '\\', '\0', '@']) && name.len() <= 128 && name.is_ascii());
        }
    }
}
