//! The operations of the API document, and where in their requests a name of something can be.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::suite::harness::Client;

/// One operation.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) id: String,
    pub(super) method: String,
    pub(super) path: String,
    pub(super) parameters: Vec<Parameter>,
    /// The fields of its body whose names say that they may name something, such as `.document_ids` or `.messages[].id`.
    pub(super) fields: BTreeSet<String>,
    pub(super) has_body: bool,
    /// Whether it may answer with a stream.
    pub(super) streams: bool,
}

/// A parameter of an operation.
#[derive(Clone, Debug)]
pub(super) struct Parameter {
    /// `path`, `query` or `header`.
    pub(super) place: String,
    pub(super) name: String,
    pub(super) is_required: bool,
}

/// All operations that the server tells of.
pub(super) fn operations(client: &Client) -> Vec<Operation> {
    let document = client.send("GET", "/openapi.json", "").json();
    let mut all = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            all.push(read(&document, path, method, operation));
        }
    }
    all
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn read(document: &Value, path: &str, method: &str, operation: &Value) -> Operation {
    let parameters = operation["parameters"].as_array().into_iter().flatten().map(|parameter| Parameter {
        place: text(&parameter["in"]),
        name: text(&parameter["name"]),
        is_required: parameter["required"] == true,
    });
    let mut fields = BTreeSet::new();
    let body = operation["requestBody"]["content"].as_object();
    for media in body.into_iter().flat_map(|content| content.values()) {
        visit(document, &media["schema"], "", &mut Vec::new(), &mut fields);
    }
    fields.retain(|field| may_name(field));
    let responses = operation["responses"].as_object().unwrap().values();
    let streams = responses.into_iter().any(|response| response["content"].get("text/event-stream").is_some());
    Operation {
        id: text(&operation["operationId"]),
        method: method.to_uppercase(),
        path: path.to_owned(),
        parameters: parameters.collect(),
        fields,
        has_body: body.is_some(),
        streams,
    }
}

/// All fields of what a schema describes.
fn visit(document: &Value, schema: &Value, place: &str, above: &mut Vec<String>, fields: &mut BTreeSet<String>) {
    if let Some(to) = schema.get("$ref").and_then(Value::as_str)
        && !above.iter().any(|seen| seen == to)
    {
        above.push(to.to_owned());
        visit(document, document.pointer(to.strip_prefix('#').unwrap()).unwrap(), place, above, fields);
        above.pop();
    }
    for word in ["allOf", "anyOf", "oneOf"] {
        for part in schema[word].as_array().into_iter().flatten() {
            visit(document, part, place, above, fields);
        }
    }
    for word in ["items", "additionalProperties"] {
        if schema[word].is_object() {
            visit(document, &schema[word], &format!("{place}[]"), above, fields);
        }
    }
    for (name, part) in schema["properties"].as_object().into_iter().flatten() {
        let place = format!("{place}.{name}");
        visit(document, part, &place, above, fields);
        fields.insert(place);
    }
}

/// Whether a field's name says that it may name something that somebody has.
fn may_name(field: &str) -> bool {
    let name = field.rsplit('.').next().unwrap_or_default().trim_end_matches("[]");
    let whole =
        ["id", "ids", "agent", "model", "session", "turn", "form", "artifact", "document", "key", "token", "cursor"];
    let ends = ["_id", "_ids", "Id", "Ids", "_key", "_token", "_cursor"];
    whole.contains(&name) || ends.iter().any(|end| name.ends_with(end)) || field.ends_with(".agent.name")
}
