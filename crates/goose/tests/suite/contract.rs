//! Holds what goes over the wire against the API document: every exchange of every test.

use std::{collections::HashMap, sync::Mutex};

use jsonschema::Validator;
use serde_json::{Value, json};

use super::harness::Answer;

/// The document of the routes.
pub(crate) struct Contract {
    document: Value,
    validators: Mutex<HashMap<String, &'static Validator>>,
}

impl Contract {
    pub(crate) fn new(document: Value) -> Self {
        Self { document, validators: Mutex::default() }
    }

    pub(crate) fn document(&self) -> &Value {
        &self.document
    }

    /// Checks one exchange. Paths and methods that the document does not have are not its business.
    #[track_caller]
    pub(crate) fn check(&self, method: &str, path: &str, body: Option<&Value>, answer: &Answer) {
        let Some((template, operation)) = self.operation(method, path) else { return };
        let at = format!("{method} {template}");
        let status = answer.status.as_u16();
        let told = &operation["responses"][status.to_string()];
        assert!(told.is_object(), "{at}: an answer that is not in the document: {answer:?}");
        if let Some(body) = body {
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
            assert!(schema.is_object(), "{at}: a body that is not in the document");
            match self.faults(&at, schema, body) {
                Some(faults) => {
                    assert!((400..500).contains(&status), "{at} takes what is not in the document: {faults}");
                }
                // Values that one recipe needs, another does not; and a text may have anything in it.
                None if answer.body.contains("Missing required parameters") => {}
                None if answer.body.contains("json: this is no exported session") => {}
                None => assert!(status != 400, "{at} refuses what is in the document: {answer:?} {body}"),
            }
        }
        let kind = answer.headers.get("content-type").map_or("", |kind| kind.to_str().unwrap());
        let content = &told["content"];
        if content.is_null() {
            assert_eq!(answer.body, "", "{at}: a body that is not in the document: {answer:?}");
            return;
        }
        let essence = kind.split(';').next().unwrap_or_default();
        let schema = &content[essence]["schema"];
        assert!(schema.is_object(), "{at}: {kind:?} is not in the document: {answer:?}");
        match essence {
            "text/event-stream" => {
                for data in answer.body.lines().filter_map(|line| line.strip_prefix("data: ")) {
                    let frame = serde_json::from_str(data).unwrap();
                    self.holds(&at, &schema["contentSchema"], &frame);
                }
            }
            "application/json" => self.holds(&at, schema, &serde_json::from_str(&answer.body).unwrap()),
            _ => self.holds(&at, schema, &json!(answer.body)),
        }
    }

    /// Checks a value against one of the schemas that have names.
    #[track_caller]
    pub(crate) fn check_named(&self, name: &str, value: &Value) {
        self.holds(name, &json!({ "$ref": format!("#/components/schemas/{name}") }), value);
    }

    #[track_caller]
    fn holds(&self, at: &str, schema: &Value, value: &Value) {
        if let Some(faults) = self.faults(at, schema, value) {
            panic!("{at}: not as in the document: {faults}");
        }
    }

    /// What is wrong with a value, if anything is.
    pub(crate) fn faults(&self, at: &str, schema: &Value, value: &Value) -> Option<String> {
        let mut validators = self.validators.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let validator = *validators.entry(schema.to_string()).or_insert_with(|| {
            let whole = json!({ "allOf": [schema], "components": self.document["components"] });
            let validator = jsonschema::validator_for(&whole);
            // There are few, and they last as long as the tests.
            Box::leak(Box::new(validator.unwrap_or_else(|error| panic!("{at}: {error}: {schema}"))))
        });
        let faults: Vec<_> = validator.iter_errors(value).map(|fault| fault.to_string()).collect();
        (!faults.is_empty()).then(|| format!("{}: {value}", faults.join("; ")))
    }

    fn operation(&self, method: &str, path: &str) -> Option<(&str, &Value)> {
        let path = path.split('?').next().unwrap_or_default();
        let fits = |template: &str| {
            let (given, told) = (path.split('/').collect::<Vec<_>>(), template.split('/').collect::<Vec<_>>());
            given.len() == told.len()
                && given.iter().zip(&told).all(|(given, told)| told.starts_with('{') || given == told)
        };
        let paths = self.document["paths"].as_object().unwrap();
        // A word comes before a parameter.
        let mut found: Vec<_> = paths.iter().filter(|(template, _)| fits(template)).collect();
        found.sort_by_key(|(template, _)| template.matches('{').count());
        let (template, item) = found.first()?;
        let operation = &item[method.to_ascii_lowercase()];
        operation.is_object().then_some((template.as_str(), operation))
    }
}
