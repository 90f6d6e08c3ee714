//! Holds the answers that tests are given against the API document: every answer of every test.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Mutex, OnceLock, PoisonError},
};

use jsonschema::Validator;
use serde_json::{Value, json};

use super::{Answer, Client};

static CONTRACT: OnceLock<Contract> = OnceLock::new();

struct Contract {
    document: Value,
    validators: Mutex<HashMap<String, &'static Validator>>,
}

/// Reads the document of the first server that is started; that of all others is the same.
pub(super) fn read(address: SocketAddr) {
    CONTRACT.get_or_init(|| {
        // Where a proxy is trusted, it must say that this machine calls; elsewhere these mean nothing.
        let local = [("x-forwarded-for", "127.0.0.1"), ("x-forwarded-host", "localhost")];
        let document = Client { address, key: None }.exchange("GET", "/openapi.json", &local, "").json();
        Contract { document, validators: Mutex::default() }
    });
}

/// Checks an exchange. Paths and methods that the document does not have are not its business, nor is what was refused
/// before any of our code has seen it.
#[track_caller]
pub(crate) fn check(method: &str, path: &str, body: &[u8], answer: &Answer) {
    if let Some(contract) = CONTRACT.get().filter(|_| answer.headers.contains_key("x-request-id")) {
        contract.check(method, path, body, answer);
    }
}

impl Contract {
    #[track_caller]
    fn check(&self, method: &str, path: &str, body: &[u8], answer: &Answer) {
        let Some((template, operation)) = self.operation(method, path) else { return };
        let at = format!("{method} {template}");
        let taken = (200..300).contains(&answer.status);
        if let (true, Ok(body)) = (taken, serde_json::from_slice(body)) {
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
            assert!(schema.is_object(), "{at}: it takes a body, which is not in the document");
            self.holds(&format!("{at}, which was taken"), schema, &body);
        }
        let told = self.resolved(&operation["responses"][answer.status.to_string()]);
        assert!(told.is_object(), "{at}: an answer that is not in the document: {answer:?}");
        for (name, header) in told["headers"].as_object().into_iter().flatten() {
            let is_optional = header["required"] != true;
            assert!(is_optional || answer.headers.contains_key(name), "{at}: {name} is missing: {answer:?}");
        }
        // Our own headers, as far as pages may read them. All answers have the one that is left out.
        let exposed = answer.header("access-control-expose-headers").split(", ");
        let own = exposed.filter(|name| name.starts_with("x-") && *name != "x-request-id");
        for name in own.filter(|name| answer.headers.contains_key(*name)) {
            let mut known = told["headers"].as_object().into_iter().flat_map(|headers| headers.keys());
            let is_told = known.any(|known| known.eq_ignore_ascii_case(name));
            assert!(is_told, "{at}: the header {name} is not in the document: {answer:?}");
        }
        let kind = answer.header("content-type").split(';').next().unwrap_or_default();
        let Some(content) = told["content"].as_object() else {
            assert_eq!(answer.body, "", "{at}: a body that is not in the document: {answer:?}");
            return;
        };
        let media = content.iter().find(|(known, _)| known.split(';').next() == Some(kind) || *known == "*/*");
        let Some((_, media)) = media else { panic!("{at}: {kind:?} is not in the document: {answer:?}") };
        let Some(schema) = media.get("schema") else { return };
        match kind {
            "application/json" => self.holds(&at, schema, &answer.json()),
            "text/event-stream" => {
                let data = answer.body.lines().filter_map(|line| line.strip_prefix("data: "));
                for data in data.filter(|data| *data != "[DONE]") {
                    if let Some(schema) = schema.get("contentSchema") {
                        self.holds(&at, schema, &serde_json::from_str(data).unwrap());
                    }
                }
            }
            _ => {}
        }
    }

    fn resolved<'a>(&'a self, value: &'a Value) -> &'a Value {
        match value.get("$ref").and_then(Value::as_str) {
            Some(to) => self.document.pointer(to.trim_start_matches('#')).unwrap(),
            None => value,
        }
    }

    #[track_caller]
    fn holds(&self, at: &str, schema: &Value, value: &Value) {
        let mut validators = self.validators.lock().unwrap_or_else(PoisonError::into_inner);
        let validator = *validators.entry(schema.to_string()).or_insert_with(|| {
            let whole = json!({ "allOf": [schema], "components": self.document["components"] });
            // There are few, and they last as long as the tests.
            Box::leak(Box::new(jsonschema::validator_for(&whole).unwrap()))
        });
        drop(validators);
        let faults: Vec<_> = validator.iter_errors(value).map(|fault| fault.to_string()).collect();
        assert!(faults.is_empty(), "{at}: not as in the document: {faults:#?} in {value}");
    }

    fn operation(&self, method: &str, path: &str) -> Option<(&str, &Value)> {
        let path = path.split('?').next().unwrap_or_default();
        let fits = |template: &str| {
            let (given, told) = (path.split('/').collect::<Vec<_>>(), template.split('/').collect::<Vec<_>>());
            let fit = |(given, told): (&&str, &&str)| !given.is_empty() && told.starts_with('{') || given == told;
            given.len() == told.len() && given.iter().zip(&told).all(fit)
        };
        let paths = self.document["paths"].as_object().unwrap();
        // A word comes before a parameter.
        let found = paths.iter().filter(|(template, _)| fits(template));
        let (template, item) = found.min_by_key(|(template, _)| template.matches('{').count())?;
        item.get(method.to_ascii_lowercase()).map(|operation| (template.as_str(), operation))
    }
}
