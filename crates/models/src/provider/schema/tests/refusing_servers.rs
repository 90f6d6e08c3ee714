//! Servers that refuse the whole request because of one schema: llama.cpp and the like, and Kimi.

use super::*;

#[test]
fn one_odd_tool_does_not_take_the_others_with_it() {
    let fields = [
        r#"{"type":"string","pattern":"[a-z]+-\\d{2}"}"#,
        r#"{"enum":["a","b"]}"#,
        r#"{"type":"string","anyOf":[{"minLength":1},{"const":"x"}]}"#,
        r#"{"type":["string","null"]}"#,
        r#"{}"#,
        r#"true"#,
        r#"{"description":"anything"}"#,
        r#"{"not":{"type":"string"}}"#,
        r#"{"allOf":[{"type":"object","properties":{"a":{"type":"string"}}},{"required":["a","b"]}]}"#,
        r#"{"type":"object","patternProperties":{"^x":{"type":"string"}},"additionalProperties":{"type":"integer"},"propertyNames":{"pattern":"^[a-z]+$"}}"#,
        r#"{"type":"object","additionalProperties":{}}"#,
        r#"{"type":"object","properties":{"k":{"type":"string"}},"if":{"properties":{"k":{"const":"a"}}},"then":{"required":["k"]}}"#,
        r#"{"type":"integer","enum":[1,2]}"#,
        r#"{"enum":["a",1,null]}"#,
        r#"{"type":"array"}"#,
        r#"{"type":"array","items":[{"type":"string"},{"type":"number"}]}"#,
        r#"{"type":"string","format":"date-time","maxLength":100000,"default":null}"#,
        r#"{"anyOf":[{"type":["string","integer"]},{"type":"null"}]}"#,
        r#"{"oneOf":[{"type":"string"},{"type":"boolean"}]}"#,
    ];
    let schemas: Vec<String> =
        fields.iter().map(|field| format!(r#"{{"type":"object","properties":{{"f":{field}}}}}"#)).collect();
    let schemas: Vec<&str> = schemas.iter().map(String::as_str).collect();
    shown_for(
        [Rules::Grammar, Rules::Kimi],
        &schemas,
        &expect![[r#"
            {"type":"object","properties":{"f":{"type":"string","pattern":"[a-z]+-\\d{2}"}}}
                Grammar, Kimi: {"type":"object","properties":{"f":{"type":"string","description":"pattern: [a-z]+-\\d{2}"}}}
            {"type":"object","properties":{"f":{"enum":["a","b"]}}}
                Grammar: unchanged
                Kimi: {"type":"object","properties":{"f":{"type":"string","enum":["a","b"]}}}
            {"type":"object","properties":{"f":{"type":"string","anyOf":[{"minLength":1},{"const":"x"}]}}}
                Grammar: {"type":"object","properties":{"f":{"anyOf":[{"minLength":1,"type":"string"},{"type":"string","enum":["x"]}]}}}
                Kimi: {"type":"object","properties":{"f":{"anyOf":[{"type":"string","description":"minLength: 1"},{"type":"string","enum":["x"]}]}}}
            {"type":"object","properties":{"f":{"type":["string","null"]}}}
                Grammar: unchanged
                Kimi: {"type":"object","properties":{"f":{"anyOf":[{"type":"string"},{"type":"null"}]}}}
            {"type":"object","properties":{"f":{}}}
                Grammar: unchanged
                Kimi: {"type":"object","properties":{"f":{"anyOf":[{"type":"string"},{"type":"number"},{"type":"boolean"},{"type":"object"},{"type":"array"},{"type":"null"}]}}}
            {"type":"object","properties":{"f":true}}
                Grammar: {"type":"object","properties":{"f":{}}}
                Kimi: {"type":"object","properties":{"f":{"anyOf":[{"type":"string"},{"type":"number"},{"type":"boolean"},{"type":"object"},{"type":"array"},{"type":"null"}]}}}
            {"type":"object","properties":{"f":{"description":"anything"}}}
                Grammar: unchanged
                Kimi: {"type":"object","properties":{"f":{"description":"anything","anyOf":[{"type":"string"},{"type":"number"},{"type":"boolean"},{"type":"object"},{"type":"array"},{"type":"null"}]}}}
            {"type":"object","properties":{"f":{"not":{"type":"string"}}}}
                Grammar: {"type":"object","properties":{"f":{}}}
                Kimi: {"type":"object","properties":{"f":{"anyOf":[{"type":"string"},{"type":"number"},{"type":"boolean"},{"type":"object"},{"type":"array"},{"type":"null"}]}}}
            {"type":"object","properties":{"f":{"allOf":[{"type":"object","properties":{"a":{"type":"string"}}},{"required":["a","b"]}]}}}
                Grammar: {"type":"object","properties":{"f":{"required":["a","b"],"type":"object","properties":{"a":{"type":"string"}}}}}
                Kimi: {"type":"object","properties":{"f":{"required":["a"],"type":"object","properties":{"a":{"type":"string"}}}}}
            {"type":"object","properties":{"f":{"type":"object","patternProperties":{"^x":{"type":"string"}},"additionalProperties":{"type":"integer"},"propertyNames":{"pattern":"^[a-z]+$"}}}}
                Grammar: {"type":"object","properties":{"f":{"type":"object","properties":{}}}}
                Kimi: {"type":"object","properties":{"f":{"type":"object"}}}
            {"type":"object","properties":{"f":{"type":"object","additionalProperties":{}}}}
                Grammar: {"type":"object","properties":{"f":{"type":"object","additionalProperties":{},"properties":{}}}}
                Kimi: {"type":"object","properties":{"f":{"type":"object"}}}
            {"type":"object","properties":{"f":{"type":"object","properties":{"k":{"type":"string"}},"if":{"properties":{"k":{"const":"a"}}},"then":{"required":["k"]}}}}
                Grammar, Kimi: {"type":"object","properties":{"f":{"type":"object","properties":{"k":{"type":"string"}}}}}
            {"type":"object","properties":{"f":{"type":"integer","enum":[1,2]}}}
                Grammar, Kimi: unchanged
            {"type":"object","properties":{"f":{"enum":["a",1,null]}}}
                Grammar: unchanged
                Kimi: {"type":"object","properties":{"f":{"anyOf":[{"type":"string","enum":["a"]},{"type":"number","enum":[1]},{"type":"null"}]}}}
            {"type":"object","properties":{"f":{"type":"array"}}}
                Grammar: {"type":"object","properties":{"f":{"type":"array","items":{}}}}
                Kimi: unchanged
            {"type":"object","properties":{"f":{"type":"array","items":[{"type":"string"},{"type":"number"}]}}}
                Grammar, Kimi: {"type":"object","properties":{"f":{"type":"array","items":{"anyOf":[{"type":"string"},{"type":"number"}]}}}}
            {"type":"object","properties":{"f":{"type":"string","format":"date-time","maxLength":100000,"default":null}}}
                Grammar: {"type":"object","properties":{"f":{"type":"string","format":"date-time","default":null,"description":"maxLength: 100000"}}}
                Kimi: {"type":"object","properties":{"f":{"type":"string","description":"format: date-time, maxLength: 100000"}}}
            {"type":"object","properties":{"f":{"anyOf":[{"type":["string","integer"]},{"type":"null"}]}}}
                Grammar: unchanged
                Kimi: {"type":"object","properties":{"f":{"anyOf":[{"type":"string"},{"type":"integer"},{"type":"null"}]}}}
            {"type":"object","properties":{"f":{"oneOf":[{"type":"string"},{"type":"boolean"}]}}}
                Grammar: unchanged
                Kimi: {"type":"object","properties":{"f":{"anyOf":[{"type":"string"},{"type":"boolean"}]}}}
        "#]],
    );
}
