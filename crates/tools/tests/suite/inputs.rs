//! The inputs of the tools that the engine performs: what their schemas take is what is read, up to what no schema says.

use everturn_core::Json;
use everturn_tools::{ArtifactInput, FormRequest, ToolSet, WaitRequest, builtin_tools};
use serde_json::{Value, json};

fn read(tool: &str, input: &Json) -> Result<(), String> {
    match tool {
        "request_form" => FormRequest::parse(input).map(drop),
        "wait" => WaitRequest::parse(input).map(drop),
        _ => ArtifactInput::parse(tool, input).map(drop),
    }
}

#[track_caller]
fn check(tool: &str, input: &Value, fits: bool) {
    let tools = ToolSet::new(builtin_tools()).unwrap();
    let input = Json::of(input).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let checked = runtime.block_on(tools.validate("acme", tool, &input));
    assert_eq!(checked.is_ok(), fits, "the schema of {tool}, {input:?}");
    assert_eq!(read(tool, &input).is_ok(), fits, "the reader of {tool}, {input:?}");
}

/// The input with one member set to a text of so many characters.
fn with(input: &Value, member: &str, characters: usize) -> Value {
    let mut input = input.clone();
    input[member] = Value::from("é".repeat(characters));
    input
}

#[test]
fn schemas_and_readers_agree() {
    let form = json!({"kind": "clarify", "title": "a", "schema": {"type": "object"}});
    let wait = json!({"seconds": 1});
    let create = json!({"title": "a", "type": "code", "language": "b", "content": "c"});
    let update = json!({"artifact_id": "a", "content": "b"});
    for (tool, input) in
        [("request_form", &form), ("wait", &wait), ("create_artifact", &create), ("update_artifact", &update)]
    {
        check(tool, input, true);
        check(tool, &with(input, "colour", 1), false);
        check(tool, &json!([]), false);
    }
    for (tool, input, member, least, most) in [
        ("request_form", &form, "title", 1, 200),
        ("request_form", &form, "description", 0, 4000),
        ("wait", &wait, "reason", 0, 500),
        ("create_artifact", &create, "title", 1, 200),
        ("create_artifact", &create, "language", 0, 40),
        ("update_artifact", &update, "title", 1, 200),
    ] {
        check(tool, &with(input, member, least), true);
        check(tool, &with(input, member, most), true);
        check(tool, &with(input, member, most + 1), false);
        if least > 0 {
            check(tool, &with(input, member, least - 1), false);
        }
    }
    for (seconds, fits) in
        [(json!(0), false), (json!(1e-3), true), (json!(31_536_000), true), (json!(31_536_001), false)]
    {
        check("wait", &json!({"seconds": seconds}), fits);
    }
    check("request_form", &json!({"kind": "approval", "title": "a"}), true);
    check("request_form", &json!({"kind": "approval", "title": "a", "schema": {}}), false);
    check("update_artifact", &json!({"artifact_id": "a".repeat(128), "content": ""}), true);
    check("update_artifact", &json!({"artifact_id": "a".repeat(129), "content": ""}), false);
}

#[test]
fn what_is_shown_first_is_asked_for_first() {
    // Models write members in the order of the schema.
    let tools = ToolSet::new(builtin_tools()).unwrap();
    let place = |tool: &str, member: &str| {
        let schema = tools.get(tool).unwrap().spec().input_schema.as_str().to_owned();
        schema.find(&format!("\"{member}\": {{")).unwrap()
    };
    assert!(place("create_artifact", "title") < place("create_artifact", "type"));
    assert!(place("create_artifact", "type") < place("create_artifact", "content"));
    assert!(place("update_artifact", "artifact_id") < place("update_artifact", "content"));
}
