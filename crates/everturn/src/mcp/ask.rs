//! Asks the person at the terminal what a server wants to know.

use std::io::BufRead as _;

use everturn_core::Json;
use everturn_tools::{Question, Reply, check_answer};
use serde_json::{Map, Value};

use crate::terminal::{Lines, visible};

/// How often somebody may try.
const TRIES: usize = 3;

/// Asks field by field. An empty line leaves a field out; if it is required, that declines.
pub(super) fn ask(question: &Question) -> Reply {
    let about = question.description.as_ref().unwrap_or(&question.title);
    anstream::eprintln!("\n{}", visible(about, Lines::Kept));
    let schema = question.schema.to_value();
    let required = |name: &str| {
        schema["required"].as_array().is_some_and(|required| required.iter().any(|required| required == name))
    };
    let fields = schema["properties"].as_object().cloned().unwrap_or_default();
    for _ in 0..TRIES {
        let mut answer = Map::new();
        for (name, field) in &fields {
            anstream::eprint!("{}: ", visible(&prompt(name, field, required(name)), Lines::Shown));
            let mut line = String::new();
            if !matches!(std::io::stdin().lock().read_line(&mut line), Ok(length) if length > 0) {
                return Reply::Cancelled;
            }
            match line.trim() {
                "" if required(name) => return Reply::Declined,
                "" => {}
                text => {
                    answer.insert(name.clone(), value(field, text));
                }
            }
        }
        let Ok(answer) = Json::of(&answer) else { return Reply::Cancelled };
        match check_answer(&question.schema, &answer) {
            Ok(()) => return Reply::Accepted(answer),
            Err(problems) => anstream::eprintln!("{}", visible(&problems.join("\n"), Lines::Kept)),
        }
    }
    Reply::Declined
}

fn prompt(name: &str, field: &Value, required: bool) -> String {
    let title = field["title"].as_str().unwrap_or(name);
    let choices: Vec<_> =
        field["enum"].as_array().into_iter().flatten().map(|choice| choice.as_str().unwrap_or_default()).collect();
    let mut about = Vec::new();
    if !choices.is_empty() {
        about.push(choices.join(", "));
    } else if let Some(kind) = field["type"].as_str().filter(|kind| *kind != "string") {
        about.push(kind.to_owned());
    }
    if required {
        about.push("required".to_owned());
    }
    if about.is_empty() { title.to_owned() } else { format!("{title} ({})", about.join("; ")) }
}

/// What a line means where a field wants something else than a text.
fn value(field: &Value, text: &str) -> Value {
    match field["type"].as_str() {
        Some("string") | None => text.into(),
        Some("boolean") => match text.to_lowercase().as_str() {
            "y" | "yes" | "true" => true.into(),
            "n" | "no" | "false" => false.into(),
            _ => text.into(),
        },
        Some("array") => serde_json::from_str(text)
            .unwrap_or_else(|_| text.split(',').map(str::trim).map(Value::from).collect::<Vec<_>>().into()),
        Some(_) => serde_json::from_str(text).unwrap_or_else(|_| text.into()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_and_what_they_mean() {
        let of = |kind: &str, text| value(&json!({ "type": kind }), text);
        assert_eq!(of("string", "5"), json!("5"));
        assert_eq!(of("integer", "5"), json!(5));
        assert_eq!(of("integer", "five"), json!("five"));
        assert_eq!(of("boolean", "Yes"), json!(true));
        assert_eq!(of("array", "a, b"), json!(["a", "b"]));
        assert_eq!(of("array", "[1]"), json!([1]));
    }

    #[test]
    fn prompts() {
        assert_eq!(prompt("city", &json!({"type": "string", "title": "City"}), true), "City (required)");
        assert_eq!(prompt("size", &json!({"enum": ["s", "m"]}), false), "size (s, m)");
        assert_eq!(prompt("age", &json!({"type": "integer"}), true), "age (integer; required)");
    }
}
