//! Schemas by rule and vendor, and what holds for all of them.

mod checks;
mod laws;
mod refusing_servers;

use std::fmt::Write as _;

use everturn_core::Json;
use expect_test::{Expect, expect};

use super::*;

const ALL: [Rules; 6] = [Rules::OpenAi, Rules::Anthropic, Rules::Gemini, Rules::Ollama, Rules::Grammar, Rules::Kimi];

/// Each schema with what becomes of it, vendors with the same outcome on one line.
fn shown(schemas: &[&str], expected: &Expect) {
    shown_for([Rules::OpenAi, Rules::Anthropic, Rules::Gemini, Rules::Ollama], schemas, expected);
}

fn shown_for(vendors: impl IntoIterator<Item = Rules> + Clone, schemas: &[&str], expected: &Expect) {
    let mut text = String::new();
    for schema in schemas {
        let schema = Json::parse(schema).unwrap();
        writeln!(text, "{}", schema.as_str()).unwrap();
        let mut outcomes: Vec<(String, Vec<String>)> = Vec::new();
        for rules in vendors.clone() {
            let outcome = match tool_schema(&schema, rules) {
                Ok(Cow::Borrowed(_)) => "unchanged".to_owned(),
                Ok(Cow::Owned(json)) => {
                    checks::check(&json, rules);
                    json.as_str().to_owned()
                }
                Err(reason) => format!("left out: {reason}"),
            };
            match outcomes.iter_mut().find(|(known, _)| *known == outcome) {
                Some((_, vendors)) => vendors.push(format!("{rules:?}")),
                None => outcomes.push((outcome, vec![format!("{rules:?}")])),
            }
        }
        for (outcome, vendors) in outcomes {
            writeln!(text, "    {}: {outcome}", vendors.join(", ")).unwrap();
        }
    }
    expected.assert_eq(&text);
}

#[test]
fn the_root_becomes_an_object() {
    shown(
        &[
            r#"{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}"#,
            r#"{ "properties": {}, "type": "object" }"#,
            r#"{}"#,
            r#"true"#,
            r#"null"#,
            r#"{"type":"object"}"#,
            r#"{"type":["object","null"],"properties":{}}"#,
            r#"{"type":"Dict","properties":[],"required":true}"#,
            r#"false"#,
            r#"[]"#,
            r#""string""#,
            r#"{"type":"string"}"#,
            r#"{"enum":["a"]}"#,
            r#"{"anyOf":[{"type":"string"},{"type":"null"}]}"#,
            r#"{"allOf":[{"type":"object"},{"type":"array"}]}"#,
            r#"{"type":"object","properties":{},"not":{"required":["a"]}}"#,
        ],
        &expect![[r#"
            {"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}
                OpenAi, Anthropic, Gemini, Ollama: unchanged
            { "properties": {}, "type": "object" }
                OpenAi, Anthropic, Gemini, Ollama: unchanged
            {}
                OpenAi, Anthropic, Gemini, Ollama: {"type":"object","properties":{}}
            true
                OpenAi, Anthropic, Gemini, Ollama: {"type":"object","properties":{}}
            null
                OpenAi, Anthropic, Gemini, Ollama: {"type":"object","properties":{}}
            {"type":"object"}
                OpenAi, Anthropic, Gemini, Ollama: {"type":"object","properties":{}}
            {"type":["object","null"],"properties":{}}
                OpenAi, Anthropic, Gemini, Ollama: {"type":"object","properties":{}}
            {"type":"Dict","properties":[],"required":true}
                OpenAi, Anthropic, Gemini, Ollama: {"type":"object","properties":{}}
            false
                OpenAi, Anthropic, Gemini, Ollama: left out: its input is not an object
            []
                OpenAi, Anthropic, Gemini, Ollama: left out: its input is not an object
            "string"
                OpenAi, Anthropic, Gemini, Ollama: left out: its input is not an object
            {"type":"string"}
                OpenAi, Anthropic, Gemini, Ollama: left out: its input is not an object
            {"enum":["a"]}
                OpenAi, Anthropic, Gemini, Ollama: left out: its input is not an object
            {"anyOf":[{"type":"string"},{"type":"null"}]}
                OpenAi, Anthropic, Gemini, Ollama: left out: its input is not an object
            {"allOf":[{"type":"object"},{"type":"array"}]}
                OpenAi, Anthropic, Gemini, Ollama: left out: its input is not an object
            {"type":"object","properties":{},"not":{"required":["a"]}}
                OpenAi, Gemini, Ollama: {"type":"object","properties":{}}
                Anthropic: unchanged
        "#]],
    );
}

#[test]
fn alternatives_at_the_root_become_one_object() {
    shown(
        &[
            r#"{"anyOf":[{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]},{"type":"object","properties":{"name":{"type":"string"},"deep":{"type":"boolean"}},"required":["name"]}]}"#,
            r#"{"type":"object","description":"Finds one.","oneOf":[{"properties":{"kind":{"const":"a"},"x":{"type":"string"}},"required":["kind","x"],"additionalProperties":false},{"properties":{"kind":{"const":"b"},"x":{"type":"integer"}},"required":["kind"],"additionalProperties":false}]}"#,
            r#"{"allOf":[{"type":"object","properties":{"a":{"type":"number"}},"required":["a"]},{"properties":{"a":{"type":"integer","minimum":1},"b":{}},"required":["b"]}],"title":"Both"}"#,
            r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"anyOf":[{"required":["a"]},{"required":["b"]}]}"#,
            r#"{"anyOf":[{"type":"object","properties":{"only":{"type":"string"}},"required":["only"]},{"type":"null"}]}"#,
        ],
        &expect![[r#"
            {"anyOf":[{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]},{"type":"object","properties":{"name":{"type":"string"},"deep":{"type":"boolean"}},"required":["name"]}]}
                OpenAi, Anthropic, Gemini, Ollama: {"properties":{"id":{"type":"integer"},"name":{"type":"string"},"deep":{"type":"boolean"}},"description":"Give the fields of one of these alternatives: id; name.","type":"object"}
            {"type":"object","description":"Finds one.","oneOf":[{"properties":{"kind":{"const":"a"},"x":{"type":"string"}},"required":["kind","x"],"additionalProperties":false},{"properties":{"kind":{"const":"b"},"x":{"type":"integer"}},"required":["kind"],"additionalProperties":false}]}
                OpenAi, Anthropic, Gemini: {"type":"object","description":"Finds one.\nGive the fields of one of these alternatives: kind, x; kind.","properties":{"kind":{"enum":["a","b"]},"x":{"anyOf":[{"type":"string"},{"type":"integer"}]}},"required":["kind"],"additionalProperties":false}
                Ollama: {"type":"object","description":"Finds one.\nGive the fields of one of these alternatives: kind, x; kind.","properties":{"kind":{"enum":["a","b"]},"x":{"anyOf":[{"type":"string"},{"type":"integer"}]}},"required":["kind"]}
            {"allOf":[{"type":"object","properties":{"a":{"type":"number"}},"required":["a"]},{"properties":{"a":{"type":"integer","minimum":1},"b":{}},"required":["b"]}],"title":"Both"}
                OpenAi, Anthropic, Gemini: {"properties":{"a":{"type":"integer","minimum":1},"b":{}},"required":["b","a"],"type":"object","title":"Both"}
                Ollama: {"properties":{"a":{"type":"integer","description":"minimum: 1"},"b":{}},"required":["b","a"],"type":"object"}
            {"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"anyOf":[{"required":["a"]},{"required":["b"]}]}
                OpenAi, Anthropic, Gemini, Ollama: {"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"description":"Give the fields of one of these alternatives: a; b."}
            {"anyOf":[{"type":"object","properties":{"only":{"type":"string"}},"required":["only"]},{"type":"null"}]}
                OpenAi, Anthropic, Gemini, Ollama: {"properties":{"only":{"type":"string"}},"required":["only"],"type":"object"}
        "#]],
    );
}

#[test]
fn references_are_replaced() {
    shown(
        &[
            r##"{"type":"object","properties":{"p":{"$ref":"#/$defs/Point","description":"Where."}},"$defs":{"Point":{"type":"object","description":"A point.","properties":{"x":{"type":"number"}},"required":["x"]}}}"##,
            r##"{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"a":{"$ref":"#/definitions/x~1y%20z"}},"definitions":{"x/y z":{"type":"string","$comment":"c"}}}"##,
            r##"{"$ref":"#/definitions/In","definitions":{"In":{"type":"object","properties":{"a":{"type":"string"}}}}}"##,
            r##"{"type":"object","properties":{"far":{"$ref":"https://example.com/s.json","description":"Far."},"none":{"$ref":"#/$defs/none"}}}"##,
            r##"{"type":"object","properties":{"tree":{"$ref":"#/$defs/Node"}},"$defs":{"Node":{"type":"object","properties":{"children":{"type":"array","items":{"$ref":"#/$defs/Node"}}}}}}"##,
            r##"{"$ref":"#"}"##,
            r##"{"type":"object","properties":{"$ref":{"type":"string"},"$defs":{"type":"string"}}}"##,
        ],
        &expect![[r##"
            {"type":"object","properties":{"p":{"$ref":"#/$defs/Point","description":"Where."}},"$defs":{"Point":{"type":"object","description":"A point.","properties":{"x":{"type":"number"}},"required":["x"]}}}
                OpenAi, Anthropic, Gemini, Ollama: {"type":"object","properties":{"p":{"type":"object","description":"Where.","properties":{"x":{"type":"number"}},"required":["x"]}}}
            {"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"a":{"$ref":"#/definitions/x~1y%20z"}},"definitions":{"x/y z":{"type":"string","$comment":"c"}}}
                OpenAi, Anthropic, Gemini, Ollama: {"type":"object","properties":{"a":{"type":"string"}}}
            {"$ref":"#/definitions/In","definitions":{"In":{"type":"object","properties":{"a":{"type":"string"}}}}}
                OpenAi, Anthropic, Gemini, Ollama: {"type":"object","properties":{"a":{"type":"string"}}}
            {"type":"object","properties":{"far":{"$ref":"https://example.com/s.json","description":"Far."},"none":{"$ref":"#/$defs/none"}}}
                OpenAi, Anthropic, Gemini, Ollama: {"type":"object","properties":{"far":{"description":"Far."},"none":{}}}
            {"type":"object","properties":{"tree":{"$ref":"#/$defs/Node"}},"$defs":{"Node":{"type":"object","properties":{"children":{"type":"array","items":{"$ref":"#/$defs/Node"}}}}}}
                OpenAi: {"type":"object","properties":{"tree":{"type":"object","properties":{"children":{"type":"array","items":{"type":"object","properties":{"children":{"type":"array","items":{"type":"object","properties":{}}}}}}}}}}
                Anthropic, Gemini, Ollama: {"type":"object","properties":{"tree":{"type":"object","properties":{"children":{"type":"array","items":{"type":"object","properties":{"children":{"type":"array","items":{"type":"object"}}}}}}}}}
            {"$ref":"#"}
                OpenAi, Anthropic, Gemini, Ollama: {"type":"object","properties":{}}
            {"type":"object","properties":{"$ref":{"type":"string"},"$defs":{"type":"string"}}}
                OpenAi, Gemini, Ollama: unchanged
                Anthropic: {"type":"object","properties":{}}
        "##]],
    );
}

#[test]
fn older_drafts_and_booleans_are_translated() {
    shown(
        &[
            r#"{"type":"object","properties":{"a":{"type":"string","required":true},"b":{"type":"string","required":false}}}"#,
            r#"{"type":"object","properties":{"a":{"type":"number","minimum":0,"exclusiveMinimum":true,"maximum":9,"exclusiveMaximum":false}}}"#,
            r#"{"type":"object","properties":{"yes":true,"no":false,"list":{"type":"array","items":true}},"required":["no"],"additionalProperties":false}"#,
            r#"{"type":"object","properties":{"pair":{"type":"array","items":[{"type":"string"},{"type":"number"}],"additionalItems":false}}}"#,
            r#"{"type":"object","properties":{"pair":{"type":"array","prefixItems":[{"type":"string"},{"type":"string"}],"items":false}}}"#,
            r#"{"type":"object","properties":{"tags":{"type":"array"},"maybe":{"type":["array","null"]},"map":{"type":"object","additionalProperties":{"type":"string"}}}}"#,
            r#"{"type":"object","properties":{"a":{"type":"any","description":5},"b":{"type":"STRING","minLength":-1,"enum":[]},"c":{"type":null,"pattern":1}}}"#,
        ],
        &expect![[r#"
            {"type":"object","properties":{"a":{"type":"string","required":true},"b":{"type":"string","required":false}}}
                OpenAi, Anthropic, Gemini, Ollama: {"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"required":["a"]}
            {"type":"object","properties":{"a":{"type":"number","minimum":0,"exclusiveMinimum":true,"maximum":9,"exclusiveMaximum":false}}}
                OpenAi, Anthropic: {"type":"object","properties":{"a":{"type":"number","exclusiveMinimum":0,"maximum":9}}}
                Gemini: {"type":"object","properties":{"a":{"type":"number","maximum":9,"description":"exclusiveMinimum: 0"}}}
                Ollama: {"type":"object","properties":{"a":{"type":"number","description":"exclusiveMinimum: 0, maximum: 9"}}}
            {"type":"object","properties":{"yes":true,"no":false,"list":{"type":"array","items":true}},"required":["no"],"additionalProperties":false}
                OpenAi, Anthropic, Gemini: {"type":"object","properties":{"yes":{},"list":{"type":"array","items":{}}},"additionalProperties":false}
                Ollama: {"type":"object","properties":{"yes":{},"list":{"type":"array","items":{}}}}
            {"type":"object","properties":{"pair":{"type":"array","items":[{"type":"string"},{"type":"number"}],"additionalItems":false}}}
                OpenAi, Ollama: {"type":"object","properties":{"pair":{"type":"array","items":{"anyOf":[{"type":"string"},{"type":"number"}]}}}}
                Anthropic, Gemini: {"type":"object","properties":{"pair":{"type":"array","prefixItems":[{"type":"string"},{"type":"number"}],"items":false}}}
            {"type":"object","properties":{"pair":{"type":"array","prefixItems":[{"type":"string"},{"type":"string"}],"items":false}}}
                OpenAi, Ollama: {"type":"object","properties":{"pair":{"type":"array","items":{"type":"string"}}}}
                Anthropic, Gemini: unchanged
            {"type":"object","properties":{"tags":{"type":"array"},"maybe":{"type":["array","null"]},"map":{"type":"object","additionalProperties":{"type":"string"}}}}
                OpenAi: {"type":"object","properties":{"tags":{"type":"array","items":{}},"maybe":{"type":["array","null"],"items":{}},"map":{"type":"object","additionalProperties":{"type":"string"},"properties":{}}}}
                Anthropic: unchanged
                Gemini: {"type":"object","properties":{"tags":{"type":"array","items":{}},"maybe":{"type":["array","null"],"items":{}},"map":{"type":"object","additionalProperties":{"type":"string"}}}}
                Ollama: {"type":"object","properties":{"tags":{"type":"array","items":{}},"maybe":{"type":["array","null"],"items":{}},"map":{"type":"object"}}}
            {"type":"object","properties":{"a":{"type":"any","description":5},"b":{"type":"STRING","minLength":-1,"enum":[]},"c":{"type":null,"pattern":1}}}
                OpenAi, Anthropic, Gemini, Ollama: {"type":"object","properties":{"a":{},"b":{"type":"string"},"c":{}}}
        "#]],
    );
}

#[test]
fn keywords_are_kept_translated_or_noted() {
    shown(
        &[
            r#"{"type":"object","properties":{"a":{"const":"x"},"b":{"type":"boolean","const":true}}}"#,
            r#"{"type":"object","properties":{"a":{"type":"string","nullable":true},"b":{"type":["string","null"]}}}"#,
            r#"{"type":"object","properties":{"a":{"type":"string","description":"An id.","pattern":"^x","minLength":2,"default":"x1","format":"uuid"},"b":{"type":"integer","minimum":1,"exclusiveMaximum":9}}}"#,
            r#"{"type":"object","properties":{"a":{"oneOf":[{"type":"string"},{"type":"integer"}]},"b":{"oneOf":[{"const":"x"},{"type":"null"}]}}}"#,
            r#"{"type":"object","properties":{"a":{"type":"object","properties":{"x":{}},"anyOf":[{"required":["x"]},{"required":["y"]}]}}}"#,
            r#"{"type":"object","properties":{"a":{"description":"Mine.","allOf":[{"type":"string","description":"Theirs.","maxLength":9},{"maxLength":5}]}}}"#,
            r#"{"type":"object","properties":{"a":{"type":["string","null"],"enum":["x",null]}}}"#,
            r#"{"type":"object","properties":{},"required":["ghost"]}"#,
            r#"{"type":"object","properties":{"a":{"type":"object","patternProperties":{"^x-":{"type":"string"}},"additionalProperties":false}}}"#,
        ],
        &expect![[r#"
            {"type":"object","properties":{"a":{"const":"x"},"b":{"type":"boolean","const":true}}}
                OpenAi, Ollama: {"type":"object","properties":{"a":{"enum":["x"]},"b":{"type":"boolean","enum":[true]}}}
                Anthropic: unchanged
                Gemini: {"type":"object","properties":{"a":{"enum":["x"]},"b":{"type":"boolean","description":"one of: [true]"}}}
            {"type":"object","properties":{"a":{"type":"string","nullable":true},"b":{"type":["string","null"]}}}
                OpenAi, Anthropic: unchanged
                Gemini, Ollama: {"type":"object","properties":{"a":{"type":["string","null"]},"b":{"type":["string","null"]}}}
            {"type":"object","properties":{"a":{"type":"string","description":"An id.","pattern":"^x","minLength":2,"default":"x1","format":"uuid"},"b":{"type":"integer","minimum":1,"exclusiveMaximum":9}}}
                OpenAi, Anthropic: unchanged
                Gemini: {"type":"object","properties":{"a":{"type":"string","description":"An id. (pattern: ^x, minLength: 2, default: x1)","format":"uuid"},"b":{"type":"integer","minimum":1,"description":"exclusiveMaximum: 9"}}}
                Ollama: {"type":"object","properties":{"a":{"type":"string","description":"An id. (pattern: ^x, minLength: 2, default: x1, format: uuid)"},"b":{"type":"integer","description":"minimum: 1, exclusiveMaximum: 9"}}}
            {"type":"object","properties":{"a":{"oneOf":[{"type":"string"},{"type":"integer"}]},"b":{"oneOf":[{"const":"x"},{"type":"null"}]}}}
                OpenAi, Gemini: {"type":"object","properties":{"a":{"oneOf":[{"type":"string"},{"type":"integer"}]},"b":{"anyOf":[{"enum":["x"]},{"type":"null"}]}}}
                Anthropic: unchanged
                Ollama: {"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"type":"integer"}]},"b":{"anyOf":[{"enum":["x"]},{"type":"null"}]}}}
            {"type":"object","properties":{"a":{"type":"object","properties":{"x":{}},"anyOf":[{"required":["x"]},{"required":["y"]}]}}}
                OpenAi: {"type":"object","properties":{"a":{"properties":{"x":{}},"anyOf":[{"required":["x"],"type":"object","properties":{}},{"required":["y"],"type":"object","properties":{}}]}}}
                Anthropic, Ollama: unchanged
                Gemini: {"type":"object","properties":{"a":{"type":"object","properties":{"x":{}}}}}
            {"type":"object","properties":{"a":{"description":"Mine.","allOf":[{"type":"string","description":"Theirs.","maxLength":9},{"maxLength":5}]}}}
                OpenAi, Anthropic: unchanged
                Gemini, Ollama: {"type":"object","properties":{"a":{"type":"string","description":"Mine. (maxLength: 5)"}}}
            {"type":"object","properties":{"a":{"type":["string","null"],"enum":["x",null]}}}
                OpenAi, Anthropic, Ollama: unchanged
                Gemini: {"type":"object","properties":{"a":{"anyOf":[{"type":"string","enum":["x"]},{"type":"null"}]}}}
            {"type":"object","properties":{},"required":["ghost"]}
                OpenAi, Anthropic, Ollama: unchanged
                Gemini: {"type":"object","properties":{}}
            {"type":"object","properties":{"a":{"type":"object","patternProperties":{"^x-":{"type":"string"}},"additionalProperties":false}}}
                OpenAi: {"type":"object","properties":{"a":{"type":"object","patternProperties":{"^x-":{"type":"string"}},"additionalProperties":false,"properties":{}}}}
                Anthropic: unchanged
                Gemini, Ollama: {"type":"object","properties":{"a":{"type":"object"}}}
        "#]],
    );
}

#[test]
fn fields_with_names_that_are_refused_are_dropped_unless_required() {
    shown(
        &[
            r#"{"type":"object","properties":{"a b":{"type":"string"},"a.b-c_1":{"type":"string"}}}"#,
            r#"{"type":"object","properties":{"größe":{"type":"string"}},"required":["größe"]}"#,
            r#"{"type":"object","properties":{"filter":{"type":"object","properties":{"$eq":{"type":"string"}},"required":["$eq"]},"a":{"type":"string"}}}"#,
            r#"{"type":"object","properties":{"filter":{"anyOf":[{"type":"object","properties":{"$eq":{}},"required":["$eq"]},{"type":"string"}]}},"required":["filter"]}"#,
        ],
        &expect![[r#"
            {"type":"object","properties":{"a b":{"type":"string"},"a.b-c_1":{"type":"string"}}}
                OpenAi, Gemini, Ollama: unchanged
                Anthropic: {"type":"object","properties":{"a.b-c_1":{"type":"string"}}}
            {"type":"object","properties":{"größe":{"type":"string"}},"required":["größe"]}
                OpenAi, Gemini, Ollama: unchanged
                Anthropic: left out: its input needs a field "größe", and the provider takes only names of 1 to 64 letters, digits, "_", "." and "-"
            {"type":"object","properties":{"filter":{"type":"object","properties":{"$eq":{"type":"string"}},"required":["$eq"]},"a":{"type":"string"}}}
                OpenAi, Gemini, Ollama: unchanged
                Anthropic: {"type":"object","properties":{"a":{"type":"string"}}}
            {"type":"object","properties":{"filter":{"anyOf":[{"type":"object","properties":{"$eq":{}},"required":["$eq"]},{"type":"string"}]}},"required":["filter"]}
                OpenAi, Gemini, Ollama: unchanged
                Anthropic: {"type":"object","properties":{"filter":{"anyOf":[{"type":"string"}]}},"required":["filter"]}
        "#]],
    );
}

/// The shapes that tool servers of the MCP project declare, as zod and hand-written code make them.
#[test]
fn real_tools_are_taken() {
    shown(
        &[
            // server-everything
            r##"{"type":"object","properties":{"message":{"type":"string","description":"Message to echo"}},"required":["message"],"additionalProperties":false,"$schema":"http://json-schema.org/draft-07/schema#"}"##,
            r##"{"type":"object","properties":{"duration":{"type":"number","default":10,"description":"Duration of the operation in seconds"},"steps":{"type":"number","default":5,"description":"Number of steps in the operation"}},"additionalProperties":false,"$schema":"http://json-schema.org/draft-07/schema#"}"##,
            r##"{"type":"object","properties":{},"additionalProperties":false,"$schema":"http://json-schema.org/draft-07/schema#"}"##,
            r##"{"type":"object","properties":{"messageType":{"type":"string","enum":["error","success","debug"]},"includeImage":{"type":"boolean","default":false}},"required":["messageType"],"additionalProperties":false,"$schema":"http://json-schema.org/draft-07/schema#"}"##,
            r##"{"type":"object","properties":{"resourceId":{"type":"number","minimum":1,"maximum":100}},"required":["resourceId"],"additionalProperties":false,"$schema":"http://json-schema.org/draft-07/schema#"}"##,
            // server-filesystem
            r##"{"type":"object","properties":{"path":{"type":"string"},"tail":{"type":"number","description":"If provided, returns only the last N lines of the file"}},"required":["path"],"$schema":"http://json-schema.org/draft-07/schema#"}"##,
            r##"{"type":"object","properties":{"paths":{"type":"array","items":{"type":"string"},"minItems":1,"description":"Paths to read."}},"required":["paths"],"$schema":"http://json-schema.org/draft-07/schema#"}"##,
            r##"{"type":"object","properties":{"path":{"type":"string"},"edits":{"type":"array","items":{"type":"object","properties":{"oldText":{"type":"string"},"newText":{"type":"string"}},"required":["oldText","newText"],"additionalProperties":false}},"dryRun":{"type":"boolean","default":false}},"required":["path","edits"],"$schema":"http://json-schema.org/draft-07/schema#"}"##,
            // pydantic, with an optional model
            r##"{"$defs":{"Sort":{"enum":["up","down"],"title":"Sort","type":"string"}},"properties":{"sort":{"anyOf":[{"$ref":"#/$defs/Sort"},{"type":"null"}],"default":null,"title":"Sort"}},"title":"listArguments","type":"object"}"##,
        ],
        &expect![[r##"
            {"type":"object","properties":{"message":{"type":"string","description":"Message to echo"}},"required":["message"],"additionalProperties":false,"$schema":"http://json-schema.org/draft-07/schema#"}
                OpenAi, Anthropic, Gemini: {"type":"object","properties":{"message":{"type":"string","description":"Message to echo"}},"required":["message"],"additionalProperties":false}
                Ollama: {"type":"object","properties":{"message":{"type":"string","description":"Message to echo"}},"required":["message"]}
            {"type":"object","properties":{"duration":{"type":"number","default":10,"description":"Duration of the operation in seconds"},"steps":{"type":"number","default":5,"description":"Number of steps in the operation"}},"additionalProperties":false,"$schema":"http://json-schema.org/draft-07/schema#"}
                OpenAi, Anthropic: {"type":"object","properties":{"duration":{"type":"number","default":10,"description":"Duration of the operation in seconds"},"steps":{"type":"number","default":5,"description":"Number of steps in the operation"}},"additionalProperties":false}
                Gemini: {"type":"object","properties":{"duration":{"type":"number","description":"Duration of the operation in seconds (default: 10)"},"steps":{"type":"number","description":"Number of steps in the operation (default: 5)"}},"additionalProperties":false}
                Ollama: {"type":"object","properties":{"duration":{"type":"number","description":"Duration of the operation in seconds (default: 10)"},"steps":{"type":"number","description":"Number of steps in the operation (default: 5)"}}}
            {"type":"object","properties":{},"additionalProperties":false,"$schema":"http://json-schema.org/draft-07/schema#"}
                OpenAi, Anthropic, Gemini: {"type":"object","properties":{},"additionalProperties":false}
                Ollama: {"type":"object","properties":{}}
            {"type":"object","properties":{"messageType":{"type":"string","enum":["error","success","debug"]},"includeImage":{"type":"boolean","default":false}},"required":["messageType"],"additionalProperties":false,"$schema":"http://json-schema.org/draft-07/schema#"}
                OpenAi, Anthropic: {"type":"object","properties":{"messageType":{"type":"string","enum":["error","success","debug"]},"includeImage":{"type":"boolean","default":false}},"required":["messageType"],"additionalProperties":false}
                Gemini: {"type":"object","properties":{"messageType":{"type":"string","enum":["error","success","debug"]},"includeImage":{"type":"boolean","description":"default: false"}},"required":["messageType"],"additionalProperties":false}
                Ollama: {"type":"object","properties":{"messageType":{"type":"string","enum":["error","success","debug"]},"includeImage":{"type":"boolean","description":"default: false"}},"required":["messageType"]}
            {"type":"object","properties":{"resourceId":{"type":"number","minimum":1,"maximum":100}},"required":["resourceId"],"additionalProperties":false,"$schema":"http://json-schema.org/draft-07/schema#"}
                OpenAi, Anthropic, Gemini: {"type":"object","properties":{"resourceId":{"type":"number","minimum":1,"maximum":100}},"required":["resourceId"],"additionalProperties":false}
                Ollama: {"type":"object","properties":{"resourceId":{"type":"number","description":"minimum: 1, maximum: 100"}},"required":["resourceId"]}
            {"type":"object","properties":{"path":{"type":"string"},"tail":{"type":"number","description":"If provided, returns only the last N lines of the file"}},"required":["path"],"$schema":"http://json-schema.org/draft-07/schema#"}
                OpenAi, Anthropic, Gemini, Ollama: {"type":"object","properties":{"path":{"type":"string"},"tail":{"type":"number","description":"If provided, returns only the last N lines of the file"}},"required":["path"]}
            {"type":"object","properties":{"paths":{"type":"array","items":{"type":"string"},"minItems":1,"description":"Paths to read."}},"required":["paths"],"$schema":"http://json-schema.org/draft-07/schema#"}
                OpenAi, Anthropic, Gemini: {"type":"object","properties":{"paths":{"type":"array","items":{"type":"string"},"minItems":1,"description":"Paths to read."}},"required":["paths"]}
                Ollama: {"type":"object","properties":{"paths":{"type":"array","items":{"type":"string"},"description":"Paths to read. (minItems: 1)"}},"required":["paths"]}
            {"type":"object","properties":{"path":{"type":"string"},"edits":{"type":"array","items":{"type":"object","properties":{"oldText":{"type":"string"},"newText":{"type":"string"}},"required":["oldText","newText"],"additionalProperties":false}},"dryRun":{"type":"boolean","default":false}},"required":["path","edits"],"$schema":"http://json-schema.org/draft-07/schema#"}
                OpenAi, Anthropic: {"type":"object","properties":{"path":{"type":"string"},"edits":{"type":"array","items":{"type":"object","properties":{"oldText":{"type":"string"},"newText":{"type":"string"}},"required":["oldText","newText"],"additionalProperties":false}},"dryRun":{"type":"boolean","default":false}},"required":["path","edits"]}
                Gemini: {"type":"object","properties":{"path":{"type":"string"},"edits":{"type":"array","items":{"type":"object","properties":{"oldText":{"type":"string"},"newText":{"type":"string"}},"required":["oldText","newText"],"additionalProperties":false}},"dryRun":{"type":"boolean","description":"default: false"}},"required":["path","edits"]}
                Ollama: {"type":"object","properties":{"path":{"type":"string"},"edits":{"type":"array","items":{"type":"object","properties":{"oldText":{"type":"string"},"newText":{"type":"string"}},"required":["oldText","newText"]}},"dryRun":{"type":"boolean","description":"default: false"}},"required":["path","edits"]}
            {"$defs":{"Sort":{"enum":["up","down"],"title":"Sort","type":"string"}},"properties":{"sort":{"anyOf":[{"$ref":"#/$defs/Sort"},{"type":"null"}],"default":null,"title":"Sort"}},"title":"listArguments","type":"object"}
                OpenAi, Anthropic: {"properties":{"sort":{"anyOf":[{"enum":["up","down"],"title":"Sort","type":"string"},{"type":"null"}],"default":null,"title":"Sort"}},"title":"listArguments","type":"object"}
                Gemini: {"properties":{"sort":{"anyOf":[{"enum":["up","down"],"title":"Sort","type":"string"},{"type":"null"}],"title":"Sort"}},"title":"listArguments","type":"object"}
                Ollama: {"properties":{"sort":{"anyOf":[{"enum":["up","down"],"type":"string"},{"type":"null"}]}},"type":"object"}
        "##]],
    );
}

#[test]
fn what_is_too_large_is_left_out() {
    let wide: Vec<String> = (0..6000).map(|n| format!(r#""k{n}":{{"type":"string"}}"#)).collect();
    let wide = format!(r#"{{"type":"object","properties":{{{}}}}}"#, wide.join(","));
    let deep = format!(r#"{}{{"type":"string"}}{}"#, r#"{"items":"#.repeat(70), "}".repeat(70));
    let deep = format!(r#"{{"type":"object","properties":{{"a":{deep}}}}}"#);
    let long = format!(r#"{{"type":"object","description":"{}"}}"#, "x".repeat(300_000));
    let huge = format!(r#"{{"type":"object","description":"{}"}}"#, "x".repeat(1_100_000));
    let bottomless = format!("{}{}", r#"{"not":"#.repeat(300) + "true", "}".repeat(300));
    for (schema, reason) in [
        (wide, "its schema has more than 10000 values"),
        (deep, "its schema is nested deeper than 64 levels"),
        (long, "its schema is longer than 262144 bytes"),
        (huge, "its schema is longer than 1048576 bytes"),
        (bottomless, "its schema cannot be read: recursion limit exceeded at line 1 column 890"),
    ] {
        let schema = Json::parse(&schema).unwrap();
        for rules in ALL {
            assert_eq!(tool_schema(&schema, rules).unwrap_err(), reason);
        }
    }
}

/// Each definition refers to all others several times: written out, it would be larger than any memory.
#[test]
fn references_that_multiply_are_followed_less_deep() {
    let names: Vec<String> = (0..20).map(|n| format!("d{n}")).collect();
    let fields = names.iter().map(|name| format!(r##""{name}":{{"$ref":"#/$defs/{name}"}}"##));
    let fields = fields.collect::<Vec<_>>().join(",");
    let definitions = names.iter().map(|name| format!(r#""{name}":{{"type":"object","properties":{{{fields}}}}}"#));
    let definitions = definitions.collect::<Vec<_>>().join(",");
    let schema = format!(r#"{{"type":"object","properties":{{{fields}}},"$defs":{{{definitions}}}}}"#);
    let schema = Json::parse(&schema).unwrap();
    for rules in ALL {
        let rewritten = tool_schema(&schema, rules).unwrap();
        assert_eq!(rewritten.to_value()["properties"]["d0"]["properties"]["d19"]["type"], "object");
        checks::check(&rewritten, rules);
    }
}

#[test]
fn outcomes_are_remembered_within_bounds() {
    let mut memory = Memory::default();
    for n in 0..MAX_REMEMBERED + 1 {
        memory.insert(Rules::Gemini, &n.to_string(), Outcome::Fits);
    }
    assert_eq!((memory.count, memory.outcomes[Rules::Gemini as usize].len()), (1, 1));
    let large = Outcome::Unfit("x".repeat(MAX_REMEMBERED_BYTES - 10).into());
    memory.insert(Rules::Ollama, "a", large);
    assert_eq!(memory.count, 2);
    memory.insert(Rules::Ollama, "0123456789", Outcome::Fits);
    assert_eq!((memory.count, memory.bytes), (1, 10));
}
