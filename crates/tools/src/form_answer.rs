//! Answers to forms: whether they fit, and what a plain chat message says as one.

use everturn_core::Json;
use serde_json::{Map, Value};

use crate::{
    SchemaCheck,
    schema::{Listing, Misfit, Values, Work},
};

/// How many problems of one answer are told.
const MAX_PROBLEMS: usize = 10;

/// How the problems of an answer are listed: without the values, which may be secret.
pub(crate) const LISTING: Listing = Listing { most: MAX_PROBLEMS, values: Values::Hidden };

/// Whether an answer fits the schema of its form. Each problem names the place and what is expected there; there are ten
/// at most, each short. They show no value of the answer: it may hold a secret. Where others wait for this thread,
/// [`crate::Schemas::check_answer`] does the same.
pub fn check_answer(schema: &Json, answer: &Json) -> Result<(), Vec<String>> {
    let schema = SchemaCheck::default().compile(schema).map_err(|error| vec![error.to_string()])?;
    schema.compare(answer, LISTING, Work::MOST).map_err(problems)
}

/// The problems of an answer, in words.
pub(crate) fn problems(misfit: Misfit) -> Vec<String> {
    match misfit {
        Misfit::Unreadable(error) => vec![format!("the answer cannot be read: {error}")],
        Misfit::TooMuchWork(Work(steps)) => vec![format!(
            "the answer is too large or nested too deeply to be checked against the form's schema: it would take more than \
             {steps} steps, which is the limit"
        )],
        Misfit::Crashed => vec!["the answer could not be checked, which is a fault of the server".to_owned()],
        Misfit::Problems { mut listed, more } => {
            match more {
                Some(0) => {}
                Some(more) => {
                    listed.truncate(MAX_PROBLEMS - 1);
                    listed.push(format!("and {} more", more + 1));
                }
                None => listed.push("and perhaps more".to_owned()),
            }
            listed
        }
    }
}

/// What a plain chat message says as an answer to a form, if it can be one. It may still not fit the schema.
///
/// A JSON object is the answer itself. Where the form requires a yes or no called `approved`, the usual words give it.
/// Where it asks for nothing but one text, the message is that text.
pub fn answer_from_text(schema: &Json, text: &str) -> Option<Json> {
    let text = text.trim();
    if text.is_empty() {
        return None;
    }
    if let Some(object) = Json::parse(text).ok().filter(Json::is_object) {
        return Some(object);
    }
    let schema = schema.to_value();
    let required = schema.get("required").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let properties = schema.get("properties").and_then(Value::as_object)?;
    let has_type = |name: &str, kind: &str| properties.get(name).is_some_and(|schema| is_of_type(schema, kind));
    if required.iter().any(|name| name == "approved") && has_type("approved", "boolean") {
        return object("approved", Value::Bool(verdict(text)?));
    }
    let name = match required {
        [only] => only.as_str()?,
        [] if properties.len() == 1 => properties.keys().next()?,
        _ => return None,
    };
    let property = properties.get(name).filter(|property| is_of_type(property, "string"))?;
    object(name, Value::from(spelled_as_offered(property, text)))
}

fn object(name: &str, value: Value) -> Option<Json> {
    Json::of(&Map::from_iter([(name.to_owned(), value)])).ok()
}

fn is_of_type(schema: &Value, kind: &str) -> bool {
    match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(|name| name == kind),
        Some(name) => name == kind,
        None => false,
    }
}

/// Yes, no, or neither. A question mark is not passed over: "ok?" asks, and allows nothing.
fn verdict(text: &str) -> Option<bool> {
    let word = text.trim_end_matches(|c: char| c.is_whitespace() || matches!(c, '.' | '!' | ',' | ';' | ':' | '…'));
    match word.to_lowercase().as_str() {
        "yes" | "y" | "ok" | "approve" | "approved" | "allow" | "true" => Some(true),
        "no" | "n" | "deny" | "denied" | "reject" | "false" => Some(false),
        _ => None,
    }
}

/// The text; where the property offers choices and it is one of them in other letters, that choice.
fn spelled_as_offered<'a>(property: &'a Value, text: &'a str) -> &'a str {
    let choices = property.get("enum").and_then(Value::as_array).into_iter().flatten();
    let lower = text.to_lowercase();
    choices.filter_map(Value::as_str).find(|choice| choice.to_lowercase() == lower).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::approval_schema;

    fn json_of(value: &Value) -> Json {
        Json::of(value).unwrap()
    }

    #[track_caller]
    fn check(schema: &Value, answer: &Value, expected: Expect) {
        let outcome = check_answer(&json_of(schema), &json_of(answer));
        expected.assert_eq(&outcome.map_or_else(|problems| problems.join("\n"), |()| "fits".to_owned()));
    }

    #[track_caller]
    fn from_text(schema: &Value, text: &str, expected: Option<Value>) {
        let answer = answer_from_text(&json_of(schema), text);
        assert_eq!(answer.map(|answer| answer.to_value()), expected, "{text:?}");
    }

    #[test]
    fn answers_are_checked() {
        let schema = json!({
            "type": "object",
            "properties": {
                "colour": {"type": "string", "enum": ["red", "blue"]},
                "quantity": {"type": "integer", "minimum": 1},
                "key": {"type": "string", "pattern": "^sk-", "maxLength": 4},
            },
            "required": ["colour", "quantity"],
            "additionalProperties": false,
        });
        check(&schema, &json!({"colour": "red", "quantity": 2}), expect!["fits"]);
        check(
            &schema,
            &json!({"quantity": 0, "key": "my secret", "size": 3}),
            expect![[r#"
            at the top: "colour" is a required property
            at /key: the value is longer than 4 characters
            at /key: the value does not match "^sk-"
            at /quantity: the value is less than the minimum of 1
            at the top: Additional properties are not allowed ('size' was unexpected)"#]],
        );
        check(&schema, &json!([]), expect![[r#"at the top: the value is not of type "object""#]]);
        check(
            &json!({"type": "string"}),
            &json!({}),
            expect![[r#"the schema must be a JSON object that describes an object: {"type": "object", …}"#]],
        );
    }

    #[test]
    fn no_problem_shows_what_was_answered() {
        let secret = "hunter2-secret";
        for rule in [
            json!({"type": "integer"}),
            json!({"enum": ["a", 1]}),
            json!({"const": "a"}),
            json!({"pattern": "^a$"}),
            json!({"maxLength": 3}),
            json!({"minLength": 300}),
            json!({"not": {"type": "string"}}),
            json!({"anyOf": [{"type": "integer"}, {"maxLength": 3}]}),
            json!({"oneOf": [{"type": "string"}, {"minLength": 3}]}),
            json!({"format": "email", "allOf": [{"type": "null"}]}),
            json!(false),
        ] {
            let schema = json_of(
                &json!({"type": "object", "properties": {"key": rule, "list": {"uniqueItems": true, "contains": {"const": 1}, "items": rule}}}),
            );
            let answer = json_of(&json!({"key": secret, "list": [secret, secret]}));
            let problems = check_answer(&schema, &answer).unwrap_err();
            assert!(problems.iter().any(|problem| problem.starts_with("at /key: ")), "{problems:?}");
            assert!(problems.iter().all(|problem| !problem.contains("hunter2")), "{problems:?}");
        }
    }

    #[test]
    fn problems_are_few_and_short() {
        let schema = json!({"type": "object", "additionalProperties": {"type": "integer"}});
        let problems = |members: usize| {
            let answer: Value = (0..members).map(|n| (format!("{n:03}{}", "é".repeat(500)), json!("x"))).collect();
            check_answer(&json_of(&schema), &json_of(&answer)).unwrap_err()
        };
        assert_eq!(problems(10).len(), 10);
        let problems = problems(100);
        assert_eq!(problems.len(), 10);
        assert_eq!(problems[9], "and 91 more");
        assert!(problems.iter().all(|problem| problem.len() < 700), "{problems:?}");
    }

    #[test]
    fn an_object_is_the_answer_itself() {
        from_text(&json!({"type": "object"}), " {\"a\": [1]}\n", Some(json!({"a": [1]})));
        from_text(&approval_schema().to_value(), r#"{"approved":false}"#, Some(json!({"approved": false})));
        from_text(&json!({"type": "object"}), "[1]", None);
        from_text(&json!({"type": "object"}), "hello", None);
    }

    #[test]
    fn usual_words_approve_and_reject() {
        let schema = approval_schema().to_value();
        for text in ["yes", "Y", "ok", "OK!", " approve.", "Approved", "allow", "true", "Yes…\n"] {
            from_text(&schema, text, Some(json!({"approved": true})));
        }
        for text in ["no", "N", "deny", "denied", "Reject!!", "false", "No."] {
            from_text(&schema, text, Some(json!({"approved": false})));
        }
        for text in ["", "maybe", "yes, but later", "ok?", "not ok", "!", "yesno", "1"] {
            from_text(&schema, text, None);
        }
    }

    #[test]
    fn one_text_is_the_whole_message() {
        let name = json!({"type": "object", "properties": {"name": {"type": "string"}}});
        from_text(&name, " Ada Lovelace. ", Some(json!({"name": "Ada Lovelace."})));
        from_text(&name, "  ", None);
        let required = json!({"type": "object", "required": ["a"],
            "properties": {"a": {"type": ["string", "null"]}, "b": {"type": "string"}}});
        from_text(&required, "\"x\" {", Some(json!({"a": "\"x\" {"})));
        let choice = json!({"type": "object", "properties": {"colour": {"type": "string", "enum": ["Red", "Blau"]}}});
        from_text(&choice, "red", Some(json!({"colour": "Red"})));
        from_text(&choice, "green", Some(json!({"colour": "green"})));
        for schema in [
            json!({"type": "object", "properties": {"a": {"type": "integer"}}}),
            json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}),
            json!({"type": "object", "required": ["a", "b"], "properties": {"a": {"type": "string"}}}),
            json!({"type": "object", "required": ["b"], "properties": {"a": {"type": "string"}}}),
            json!({"type": "object", "required": [1], "properties": {"a": {"type": "string"}}}),
            json!({"type": "object", "required": "a", "properties": []}),
            json!({"type": "object"}),
            json!(1),
        ] {
            from_text(&schema, "x", None);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_taken(text in "\\PC{0,40}") {
            let name = json_of(&json!({"type": "object", "properties": {"name": {"type": "string"}}}));
            if let Some(answer) = answer_from_text(&name, &text) {
                prop_assert!(answer.is_object());
            }
            answer_from_text(&approval_schema(), &text);
        }
    }
}
