//! Examples are of the shape that they are examples of.

use std::{cell::RefCell, collections::HashMap, rc::Rc};

use jsonschema::Validator;
use serde_json::{Value, json};

use super::{document, operations, resolved};

/// What does not fit a schema of the document.
fn misfits(document: &Value, schema: &Value, value: &Value) -> Vec<String> {
    thread_local! {
        static KNOWN: RefCell<HashMap<String, Rc<Validator>>> = RefCell::default();
    }
    let make = || {
        let whole = json!({ "allOf": [schema], "components": document["components"] });
        Rc::new(jsonschema::options().should_validate_formats(true).build(&whole).unwrap())
    };
    let schema = KNOWN.with_borrow_mut(|known| Rc::clone(known.entry(schema.to_string()).or_insert_with(make)));
    schema.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

/// All examples of a media type, a parameter or a header.
fn examples(of: &Value) -> Vec<&Value> {
    let several = of["examples"].as_object().into_iter().flat_map(|all| all.values().map(|example| &example["value"]));
    of.get("example").into_iter().chain(several).collect()
}

/// What is wrong with the examples of a body.
fn check_content(document: &Value, content: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    for (kind, media) in content.as_object().into_iter().flatten() {
        let schema = &media["schema"];
        for example in examples(media) {
            let wrong = misfits(document, schema, example);
            problems.extend(wrong.into_iter().map(|error| format!("{kind}: {error} in {example}")));
            let Some(event) = schema.get("contentSchema") else { continue };
            let text = example.as_str().unwrap();
            let data: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
            assert!(text.ends_with("\n\n") && !data.is_empty(), "these are no events: {text:?}");
            for data in data.into_iter().filter(|data| *data != "[DONE]") {
                let data = serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {data}"));
                let wrong = misfits(document, event, &data);
                problems.extend(wrong.into_iter().map(|error| format!("{kind}: {error} in the event {data}")));
            }
        }
    }
    problems
}

#[test]
fn they_are_valid() {
    let document = document();
    let mut problems = Vec::new();
    let mut count = 0;
    for (path, method, operation) in operations(&document) {
        let mut found = |place: &str, wrong: Vec<String>| {
            problems.extend(wrong.into_iter().map(|what| format!("{method} {path}, {place}: {what}")));
        };
        found("request", check_content(&document, &operation["requestBody"]["content"]));
        for (status, response) in operation["responses"].as_object().unwrap() {
            let response = resolved(&document, response);
            found(status, check_content(&document, &response["content"]));
        }
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            let wrong = examples(parameter).into_iter().flat_map(|one| misfits(&document, &parameter["schema"], one));
            found("parameters", wrong.collect());
        }
        count += 1;
    }
    assert!(count > 40, "only {count} operations");
    assert!(problems.is_empty(), "{problems:#?}");
}

/// Every answer shows what it looks like, and so does every request; files are what they are.
#[test]
fn there_are_enough() {
    let document = document();
    let mut bare = Vec::new();
    for (path, method, operation) in operations(&document) {
        let request = operation.get("requestBody").map(|body| ("request", body));
        let responses = operation["responses"].as_object().unwrap().iter();
        let responses = responses.map(|(status, response)| (status.as_str(), resolved(&document, response)));
        for (place, body) in request.into_iter().chain(responses) {
            for (kind, media) in body["content"].as_object().into_iter().flatten() {
                let is_ours = ["application/json", "text/event-stream", "multipart/form-data"].contains(&kind.as_str());
                if is_ours && media.get("schema").is_some() && examples(media).is_empty() {
                    bare.push(format!("{method} {path}, {place}, {kind}"));
                }
            }
        }
    }
    assert!(bare.is_empty(), "without an example: {bare:#?}");
}
