//! The API document: that it is one, that it says enough, and that what it says is so.

mod examples;
mod schemathesis;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use serde_json::Value;

use super::harness::{Answer, contract, shared};

/// The document, as the server gives it to anybody.
fn document() -> Value {
    let answer = shared().server.client().send("GET", "/openapi.json", "");
    assert_eq!((answer.status, answer.header("content-type")), (200, "application/json"), "{}", answer.body);
    answer.json()
}

/// All operations: path, method, operation.
fn operations(document: &Value) -> Vec<(&str, &str, &Value)> {
    let paths = document["paths"].as_object().unwrap().iter();
    let all = paths.flat_map(|(path, item)| {
        let methods = item.as_object().unwrap().iter();
        methods.map(move |(method, operation)| (path.as_str(), method.as_str(), operation))
    });
    all.collect()
}

/// What a reference leads to; anything else is itself.
fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    match value.get("$ref").and_then(Value::as_str) {
        Some(to) => document.pointer(to.strip_prefix('#').unwrap()).unwrap_or_else(|| panic!("{to} leads nowhere")),
        None => value,
    }
}

#[test]
fn it_is_kept_by_clients_until_it_changes() {
    let shared = shared();
    let client = shared.server.client();
    let tag = client.send("GET", "/openapi.json", "").header("etag").to_owned();
    assert!(tag.len() > 10, "{tag}");
    for known in [tag.clone(), format!("\"other\", W/{tag}")] {
        let again = client.send_with("GET", "/openapi.json", &[("if-none-match", &known)], "");
        assert_eq!((again.status, again.body.as_str(), again.header("etag")), (304, "", tag.as_str()));
    }
    assert_eq!(client.send_with("GET", "/openapi.json", &[("if-none-match", "\"other\"")], "").status, 200);
}

#[test]
fn it_is_an_openapi_document() {
    let document = document();
    let schema: Value = serde_json::from_str(include_str!("openapi-3.1.schema.json")).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    let problems: Vec<_> =
        schema.iter_errors(&document).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(problems.is_empty(), "{problems:#?}");
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        jsonschema::meta::validate(schema).unwrap_or_else(|error| panic!("the schema {name}: {error}"));
    }
}

#[test]
fn every_reference_leads_somewhere() {
    let document = document();
    let mut seen = BTreeSet::new();
    visit(&document, &mut |value| {
        if let Some(to) = value.get("$ref").and_then(Value::as_str) {
            resolved(&document, value);
            seen.insert(to.to_owned());
        }
    });
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let idle: Vec<_> = schemas.keys().filter(|name| !seen.contains(&format!("#/components/schemas/{name}"))).collect();
    // The events of the door that all dialects share are told in words: there, which schema it is depends on the query.
    // Those of AAP are parts of others, which have them written out.
    let told = ["native.Event", "aap.v1.Tool", "aap.v3.Tool"];
    assert!(idle.iter().all(|name| told.contains(&name.as_str())), "nobody refers to {idle:?}");
}

fn visit(value: &Value, look: &mut impl FnMut(&Value)) {
    look(value);
    match value {
        Value::Array(all) => all.iter().for_each(|value| visit(value, look)),
        Value::Object(all) => all.values().for_each(|value| visit(value, look)),
        _ => {}
    }
}

#[test]
fn every_operation_says_enough() {
    let document = document();
    let tags: BTreeSet<_> = document["tags"].as_array().unwrap().iter().map(|tag| tag["name"].as_str()).collect();
    let schemes = document["components"]["securitySchemes"].as_object().unwrap();
    let mut ids: BTreeMap<&str, &str> = BTreeMap::new();
    let mut problems = Vec::new();
    let mut used = BTreeSet::new();
    for (path, method, operation) in operations(&document) {
        let mut problem = |what: String| problems.push(format!("{method} {path}: {what}"));
        let id = operation["operationId"].as_str().unwrap_or_default();
        if let Some(other) = ids.insert(id, path) {
            problem(format!("{other} has its id {id:?} too"));
        }
        let summary = operation["summary"].as_str().unwrap_or_default();
        if summary.is_empty() || summary.ends_with('.') || summary.len() > 80 {
            problem(format!("its summary is {summary:?}"));
        }
        let own: Vec<_> = operation["tags"].as_array().into_iter().flatten().map(Value::as_str).collect();
        if own.len() != 1 || !own.iter().all(|tag| tags.contains(tag)) {
            problem(format!("its tags are {own:?}"));
        }
        used.extend(own);
        let responses = operation["responses"].as_object().unwrap();
        if !responses.keys().any(|status| status.starts_with('2')) {
            problem("it never succeeds".to_owned());
        }
        let security = operation["security"].as_array().map(Vec::as_slice).unwrap_or_default();
        let open = security.is_empty() || security.iter().any(|way| way.as_object().unwrap().is_empty());
        let ways = security.iter().flat_map(|way| way.as_object().unwrap().keys());
        for way in ways.filter(|way| !schemes.contains_key(*way)) {
            problem(format!("it names {way:?}, which is no way to be let in"));
        }
        if security.is_empty() {
            problem("it does not say who may call".to_owned());
        }
        if !open {
            for status in ["401", "403", "429"] {
                if !responses.contains_key(status) {
                    problem(format!("it wants a key and does not answer {status}"));
                }
            }
        }
        for (status, response) in responses {
            let response = resolved(&document, response);
            if response["description"].as_str().unwrap_or_default().is_empty() {
                problem(format!("its answer {status} is not described"));
            }
            let refused = status.starts_with('4') || status.starts_with('5');
            if refused && response["content"].as_object().is_none_or(serde_json::Map::is_empty) {
                problem(format!("its answer {status} says nothing"));
            }
        }
        let named = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        let parameters = operation["parameters"].as_array().map(Vec::as_slice).unwrap_or_default();
        for name in named {
            if !parameters.iter().any(|parameter| parameter["in"] == "path" && parameter["name"] == name) {
                problem(format!("it does not describe {name} in its path"));
            }
        }
    }
    assert!(problems.is_empty(), "{problems:#?}");
    assert_eq!(used, tags, "every tag is there for something");
}

/// Routes that are made in any other way are not in the document. The reader's own page and files are no API.
#[test]
fn every_route_is_in_it() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Vec::new();
    for part in std::fs::read_dir(crates).unwrap() {
        files(&part.unwrap().path().join("src"), &mut |file, text| {
            let routes = [".route(", ".route_service(", ".nest_service(", "axum::routing::"];
            let apart = file.ends_with("http/src/docs.rs") || file.file_name().is_some_and(|name| name == "tests.rs");
            // A path that leads nowhere is no operation.
            let text = text.replace(".route(\"/v1/\", axum::routing::any(nothing_here))", "");
            if !apart && routes.iter().any(|route| text.contains(route)) {
                found.push(file.to_owned());
            }
        });
    }
    // A model's own routes have nothing to do with HTTP.
    found.retain(|file| {
        !file.ends_with("engine/src/step.rs") && !file.components().any(|part| part.as_os_str() == "bench")
    });
    assert!(found.is_empty(), "use routes! and OpenApiRouter in {found:#?}");
}

fn files(folder: &Path, look: &mut impl FnMut(&Path, &str)) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files(&path, look);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            look(&path, &std::fs::read_to_string(&path).unwrap());
        }
    }
}

/// All other tests hold their answers against the document; that would mean nothing if it found nothing.
#[test]
fn answers_that_are_not_in_it_are_noticed() {
    let shared = shared();
    let good = shared.client("acme").send("GET", "/api/v1/sessions", "");
    let notices = |path: &str, request: &str, change: &dyn Fn(&mut Answer)| {
        let mut answer = good.clone();
        change(&mut answer);
        let check = std::panic::AssertUnwindSafe(|| contract::check("GET", path, request.as_bytes(), &answer));
        std::panic::catch_unwind(check).is_err()
    };
    let sessions = "/api/v1/sessions?limit=1";
    assert!(!notices(sessions, "", &|_| {}));
    assert!(notices(sessions, "", &|answer| answer.status = 418));
    assert!(notices(sessions, "", &|answer| answer.body = r#"{"sessions":[{"session_id":1}]}"#.to_owned()));
    assert!(notices(sessions, "{}", &|_| {}), "a body that is not in the document");
    assert!(notices(sessions, "", &|answer| {
        answer.headers.insert("content-type", "text/plain".parse().unwrap());
    }));
    assert!(!notices("/no/such/path", "", &|answer| answer.status = 418));
}
