//! Fields that configuration adds to the body of model calls: a TOML table that becomes JSON.

use everturn_core::Json;
use serde_json::{Map, Value};

use super::{file::Body, problem::Report};

/// The table as JSON; a problem for each value that JSON lacks.
pub(super) fn check(report: &mut Report<'_>, body: &Body) -> Option<Json> {
    let mut missing = Vec::new();
    let object = object("body", body.get_ref(), &mut missing);
    for (path, what) in &missing {
        let hint = "JSON has no such value: write it as a string".to_owned();
        report.add(Some(body.span()), format!("`{path}` is {what}"), hint);
    }
    if missing.is_empty() { Json::of(&object).ok() } else { None }
}

fn object(path: &str, table: &toml::Table, missing: &mut Vec<(String, &'static str)>) -> Map<String, Value> {
    let field = |(name, field): (&String, &toml::Value)| {
        let path = format!("{path}.{name}");
        (name.clone(), value(&path, field, missing))
    };
    table.iter().map(field).collect()
}

fn value(path: &str, value: &toml::Value, missing: &mut Vec<(String, &'static str)>) -> Value {
    match value {
        toml::Value::String(text) => Value::from(text.as_str()),
        toml::Value::Integer(number) => Value::from(*number),
        toml::Value::Boolean(truth) => Value::from(*truth),
        toml::Value::Float(number) => {
            if !number.is_finite() {
                missing.push((path.to_owned(), "not a finite number"));
            }
            Value::from(*number)
        }
        toml::Value::Datetime(_) => {
            missing.push((path.to_owned(), "a date or a time"));
            Value::Null
        }
        toml::Value::Array(items) => {
            let items = items.iter().enumerate();
            items.map(|(index, item)| self::value(&format!("{path}[{index}]"), item, missing)).collect()
        }
        toml::Value::Table(table) => Value::Object(object(path, table, missing)),
    }
}
