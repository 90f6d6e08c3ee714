//! Forms that the demo model asks for.

use everturn_core::Json;
use serde::Serialize;
use serde_json::value::RawValue;

use super::words;

/// Fields that a form can ask for, by the words that ask for them.
const FIELDS: [(&[&str], &str, &str); 6] = [
    (&["name"], "name", r#"{"type":"string","title":"Name","minLength":1}"#),
    (&["email", "mail", "address"], "email", r#"{"type":"string","title":"E-mail","format":"email"}"#),
    (&["city", "town", "where"], "city", r#"{"type":"string","title":"City","minLength":1}"#),
    (&["date", "day", "when"], "date", r#"{"type":"string","title":"Date","format":"date"}"#),
    (
        &["colour", "color", "favourite", "favorite"],
        "colour",
        r#"{"type":"string","title":"Colour","enum":["red","green","blue"]}"#,
    ),
    (
        &["quantity", "number", "many", "much", "amount"],
        "quantity",
        r#"{"type":"integer","title":"Quantity","minimum":1,"maximum":100}"#,
    ),
];

/// What it asks for where the message names nothing that it knows.
const USUAL: [&str; 2] = ["colour", "quantity"];

const SIGNATURE: &str = r#"{"type":"object","properties":{"name":{"type":"string","title":"Your full name","minLength":1}},"required":["name"],"additionalProperties":false}"#;

const INTEGRATION: &str = r#"{"type":"object","properties":{"service":{"type":"string","title":"Service","minLength":1},"key":{"type":"string","title":"Key","format":"password","writeOnly":true,"minLength":1}},"required":["service","key"],"additionalProperties":false}"#;

#[derive(Serialize)]
struct Input<'a> {
    kind: &'a str,
    title: &'a str,
    description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<Box<RawValue>>,
}

/// Whether these words, in lower case, ask for a form.
pub(super) fn is_wanted(words: &[&str]) -> bool {
    kind(words).is_some() || words.contains(&"form") || words.windows(2).any(|pair| pair == ["ask", "me"])
}

/// The kind of form that the words name.
fn kind(words: &[&str]) -> Option<&'static str> {
    words.iter().find_map(|word| match *word {
        "sign" | "signature" => Some("signature"),
        "connect" | "integration" => Some("integration"),
        "approve" | "approval" => Some("approval"),
        _ => None,
    })
}

/// The input of `request_form` for a message.
pub(super) fn input(message: &str) -> Option<Json> {
    let lower = message.to_lowercase();
    let words: Vec<&str> = lower.split(|c: char| !c.is_alphanumeric()).collect();
    let kind = kind(&words).unwrap_or("clarify");
    let (title, schema) = match kind {
        "signature" => ("Please sign", Some(SIGNATURE.to_owned())),
        "integration" => ("Connect a service", Some(INTEGRATION.to_owned())),
        // The server has a schema of its own for these.
        "approval" => ("Do you approve?", None),
        _ => ("A few details, please", Some(details(&words))),
    };
    let schema = schema.map(RawValue::from_string).transpose().ok()?;
    let description = format!("The demo model asks because you said {}.", words::quote(message));
    Json::of(&Input { kind, title, description, schema }).ok()
}

/// The schema of a form with the fields that the words name.
fn details(words: &[&str]) -> String {
    let is_named = |names: &&[&str]| names.iter().any(|name| words.contains(name));
    let mut fields: Vec<_> = FIELDS.iter().filter(|(names, ..)| is_named(names)).collect();
    if fields.is_empty() {
        fields = FIELDS.iter().filter(|(_, field, _)| USUAL.contains(field)).collect();
    }
    let properties: Vec<String> = fields.iter().map(|(_, field, schema)| format!("\"{field}\":{schema}")).collect();
    let required: Vec<String> = fields.iter().map(|(_, field, _)| format!("\"{field}\"")).collect();
    format!(
        r#"{{"type":"object","properties":{{{}}},"required":[{}],"additionalProperties":false}}"#,
        properties.join(","),
        required.join(",")
    )
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn check(message: &str, expected: Option<(&str, &[&str])>) {
        let lower = message.to_lowercase();
        let words: Vec<&str> = lower.split(|c: char| !c.is_alphanumeric()).collect();
        assert_eq!(is_wanted(&words), expected.is_some(), "{message}");
        let Some((kind, fields)) = expected else { return };
        let input = input(message).unwrap().to_value();
        assert_eq!(input["kind"], kind, "{message}");
        let schema = input.get("schema").unwrap_or(&Value::Null);
        let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
        assert_eq!(required, fields, "{message}");
        for field in fields {
            assert!(schema["properties"][field]["title"].is_string(), "{message}: {field}");
        }
    }

    #[test]
    fn forms_fit_the_request() {
        check("Show me a form", Some(("clarify", &["colour", "quantity"])));
        check("ask me something", Some(("clarify", &["colour", "quantity"])));
        check("Ask me for my name and the date", Some(("clarify", &["name", "date"])));
        check("let me sign the contract", Some(("signature", &["name"])));
        check("connect my calendar", Some(("integration", &["service", "key"])));
        check("I must approve this", Some(("approval", &[])));
        check("information", None);
        check("I ask for a sign-off form?", Some(("signature", &["name"])));
        check("I asked you", None);
    }
}
