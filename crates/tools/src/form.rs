//! Asks a person to fill in a form.

use everturn_core::{EffectClass, FormKind, Json, ToolSpec};
use futures_util::future::BoxFuture;
use serde::Deserialize;

use crate::{Tool, ToolContext, ToolFailure, ToolKind, ToolOutput, input};

/// Longest title, in characters.
const MAX_TITLE: usize = 200;
/// Longest description, in characters.
const MAX_DESCRIPTION: usize = 4000;

const DESCRIPTION: &str = "Shows a form to the person and waits for the answer, which is given back as a JSON object. \
    Use it when you cannot go on without something that only the person can give: `clarify` for a choice or missing \
    details, `integration` for connecting another service (an account, an address, a key), `signature` for a binding \
    consent by name, `approval` for a yes or no before something that cannot be undone. Ask for everything you need in \
    one form, with few fields. Do not use it for what you can find out yourself, nor for a question that a plain \
    sentence asks as well. The person may decline; then go on without, or end.";

const SCHEMA: &str = r#"{
  "type": "object",
  "properties": {
    "kind": {
      "type": "string",
      "enum": ["clarify", "integration", "signature", "approval"],
      "description": "What the form is for."
    },
    "title": {
      "type": "string",
      "description": "What is asked, in a few words.",
      "minLength": 1,
      "maxLength": 200
    },
    "description": {
      "type": "string",
      "description": "What the person should know before answering, and why you ask.",
      "maxLength": 4000
    },
    "schema": {
      "type": "object",
      "description": "JSON Schema of the answer. An object schema with one property for each field, each with a title; say which are required. An approval may leave it out: it then asks for approved (yes or no) and a reason.",
      "properties": {
        "type": { "type": "string", "enum": ["object"] },
        "properties": { "type": "object" },
        "required": { "type": "array", "items": { "type": "string" } }
      },
      "required": ["type"]
    }
  },
  "required": ["kind", "title"],
  "additionalProperties": false
}"#;

const APPROVAL: &str = r#"{"type":"object","properties":{"approved":{"type":"boolean","title":"Approved"},"reason":{"type":"string","title":"Reason"}},"required":["approved"],"additionalProperties":false}"#;

/// The schema of the answer to an approval that names none.
pub fn approval_schema() -> Json {
    Json::parse(APPROVAL).unwrap_or_else(|_| Json::empty_object())
}

/// A form that a model asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormRequest {
    /// What it is for.
    pub kind: FormKind,
    /// What is asked.
    pub title: String,
    /// What to know before answering.
    pub description: Option<String>,
    /// JSON Schema of the answer: an object's.
    pub schema: Json,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    kind: FormKind,
    title: String,
    description: Option<String>,
    schema: Option<Json>,
}

impl FormRequest {
    /// The form that an input of [`FormTool`] describes. The message is for the model that made the input. Whether the
    /// schema can be used is for [`crate::Schemas::compile`] to say.
    pub fn parse(input: &Json) -> Result<Self, String> {
        let Input { kind, title, description, schema } = input::read(FormTool::NAME, input)?;
        input::check_length("title", &title, 1..=MAX_TITLE)?;
        if let Some(description) = &description {
            input::check_length("description", description, 0..=MAX_DESCRIPTION)?;
        }
        let schema = match (schema, kind) {
            (Some(schema), _) => schema,
            (None, FormKind::Approval) => approval_schema(),
            (None, FormKind::Clarify | FormKind::Integration | FormKind::Signature) => {
                return Err(format!(
                    "schema is missing: a form of kind {} needs the JSON Schema of its answer, {EXAMPLE}",
                    kind.as_str()
                ));
            }
        };
        // A schema that does not say so fits objects too, but a form is drawn from the properties of one.
        if schema.to_value().get("type").and_then(|kind| kind.as_str()) != Some("object") {
            return Err(format!("schema does not describe a form: it must have \"type\": \"object\", {EXAMPLE}"));
        }
        Ok(Self { kind, title, description, schema })
    }
}

const EXAMPLE: &str =
    r#"such as {"type":"object","properties":{"city":{"type":"string","title":"City"}},"required":["city"]}"#;

/// The tool `request_form`.
#[derive(Debug)]
pub struct FormTool {
    spec: ToolSpec,
}

impl FormTool {
    /// Its name.
    pub const NAME: &str = "request_form";

    /// The tool.
    pub fn new() -> Self {
        Self { spec: input::spec(Self::NAME, "Form", DESCRIPTION, SCHEMA) }
    }
}

impl Default for FormTool {
    fn default() -> Self {
        Self::new()
    }
}

impl Tool for FormTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn is_builtin(&self) -> bool {
        true
    }

    fn effect(&self) -> EffectClass {
        EffectClass::ReadOnly
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Form
    }

    fn call(&self, _: ToolContext, _: Json) -> BoxFuture<'static, Result<ToolOutput, ToolFailure>> {
        input::performed_by_the_engine(Self::NAME)
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::{Value, json};

    use super::*;

    fn parse(input: &Value) -> Result<FormRequest, String> {
        FormRequest::parse(&Json::of(input).unwrap())
    }

    #[track_caller]
    fn refused(input: &Value, expected: Expect) {
        expected.assert_eq(&parse(input).unwrap_err());
    }

    #[test]
    fn a_form_is_read() {
        let schema = r#"{"type":"object", "properties":{"city":{"type":"string"}}}"#;
        let input =
            format!(r#"{{"kind":"clarify","title":"Where?","description":"For the weather.","schema":{schema}}}"#);
        let form = FormRequest::parse(&Json::parse(&input).unwrap()).unwrap();
        let expected = FormRequest {
            kind: FormKind::Clarify,
            title: "Where?".to_owned(),
            description: Some("For the weather.".to_owned()),
            schema: Json::parse(schema).unwrap(),
        };
        assert_eq!(form, expected);
    }

    #[test]
    fn an_approval_has_a_schema_of_its_own() {
        let form = parse(&json!({"kind": "approval", "title": "Send it?"})).unwrap();
        assert_eq!(form.schema, approval_schema());
        let own = json!({"type": "object", "properties": {"sure": {"type": "boolean"}}});
        let form = parse(&json!({"kind": "approval", "title": "Send it?", "schema": own})).unwrap();
        assert_eq!(form.schema.to_value(), own);
    }

    #[test]
    fn kinds_are_named_alike_everywhere() {
        for kind in [FormKind::Clarify, FormKind::Integration, FormKind::Signature, FormKind::Approval] {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
            assert!(SCHEMA.contains(&format!("\"{}\"", kind.as_str())));
        }
    }

    #[test]
    fn forms_that_are_none() {
        refused(
            &json!({"kind": "clarify", "title": "x"}),
            expect![[
                r#"schema is missing: a form of kind clarify needs the JSON Schema of its answer, such as {"type":"object","properties":{"city":{"type":"string","title":"City"}},"required":["city"]}"#
            ]],
        );
        for schema in
            [json!({}), json!({"type": ["object", "null"]}), json!({"type": "string"}), json!([]), json!(true)]
        {
            let error = parse(&json!({"kind": "clarify", "title": "x", "schema": schema})).unwrap_err();
            assert!(error.starts_with(r#"schema does not describe a form: it must have "type": "object""#), "{error}");
        }
        refused(&json!({"kind": "approval", "title": ""}), expect!["title has 0 characters, it must have 1 to 200"]);
        refused(
            &json!({"kind": "approval", "title": "x", "description": "é".repeat(4001)}),
            expect!["description has 4001 characters, it must have 0 to 4000"],
        );
        refused(
            &json!({"kind": "survey", "title": "x"}),
            expect![
                "the input is not what request_form takes: unknown variant `survey`, expected one of `clarify`, `integration`, `signature`, `approval` at line 1 column 16"
            ],
        );
        refused(
            &json!({"kind": "approval"}),
            expect!["the input is not what request_form takes: missing field `title` at line 1 column 19"],
        );
        refused(
            &json!({"kind": "approval", "title": "x", "colour": 1}),
            expect![
                "the input is not what request_form takes: unknown field `colour`, expected one of `kind`, `title`, `description`, `schema` at line 1 column 9"
            ],
        );
        refused(
            &json!(["approval", "x", null, null]),
            expect!["the input is not what request_form takes: it must be a JSON object"],
        );
    }

    #[test]
    fn a_schema_too_deep_to_read_is_refused() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let input = Json::parse(&format!(r#"{{"kind":"clarify","title":"x","schema":{deep}}}"#)).unwrap();
        assert!(FormRequest::parse(&input).is_err());
    }
}
