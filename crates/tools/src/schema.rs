//! JSON Schemas of tool inputs and of answers to forms, compiled within bounds.
//!
//! Schemas come from outside: from clients with each request, from tool servers, from models. So they are bounded in
//! size, depth and patterns, may refer only into themselves, and a pair of schema and input that would cost too much to
//! compare is refused instead of compared.

use std::fmt::Write as _;

use everturn_core::Json;
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::Value;

use crate::schema_walk::{self, TooMuchWork};

/// Compiles schemas from outside. The default bounds fit what clients send with a request.
#[derive(Clone, Copy, Debug)]
pub struct SchemaCheck {
    /// Longest text of a schema, in bytes.
    pub max_bytes: usize,
    /// Deepest nesting of objects and arrays in a schema.
    pub max_depth: usize,
}

impl Default for SchemaCheck {
    fn default() -> Self {
        Self { max_bytes: 64 * 1024, max_depth: 32 }
    }
}

/// Why a schema is refused. The words are for the one who wrote the schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// Too long.
    #[error("the schema has {bytes} bytes, at most {max} are allowed")]
    TooLarge {
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        max: usize,
    },
    /// Nested too deeply.
    #[error("the schema is nested more than {max} deep")]
    TooDeep {
        /// How deep it may be.
        max: usize,
    },
    /// Not an object, or one that no object fits. The input of a tool is always an object.
    #[error("the schema must be a JSON object that describes an object: {{\"type\": \"object\", …}}")]
    NotForObjects,
    /// Not a JSON Schema.
    #[error("the schema is not valid {location}: {reason}")]
    Invalid {
        /// Where, in words: `at /properties/a`.
        location: String,
        /// What is wrong.
        reason: String,
    },
    /// It refers to something else than a part of itself.
    #[error(
        "the schema refers to {reference:?}; only references into the schema itself, such as \"#/$defs/name\", are followed"
    )]
    Reference {
        /// What it refers to.
        reference: String,
    },
    /// More regular expressions than we compile.
    #[error("the schema has more than {max} regular expressions")]
    TooManyPatterns {
        /// How many it may have.
        max: usize,
    },
    /// Its references multiply, or come back without descending into the input, so that a check might never end.
    #[error("the schema's references to itself multiply or never end, so that no input can be checked against it")]
    Endless,
}

/// Largest compiled form of one regular expression, in bytes.
const PATTERN_BYTES: usize = 1024 * 1024;
/// Steps back that one regular expression may take in one text.
const PATTERN_BACKTRACKS: usize = 100_000;
/// How many errors a message lists.
const LISTED_ERRORS: usize = 5;
/// Longest text of one error, in bytes: the library quotes the whole offending value.
const ERROR_BYTES: usize = 300;

impl SchemaCheck {
    /// Compiles a schema.
    pub fn compile(&self, schema: &Json) -> Result<Schema, SchemaError> {
        let bytes = schema.as_str().len();
        if bytes > self.max_bytes {
            return Err(SchemaError::TooLarge { bytes, max: self.max_bytes });
        }
        // Valid JSON by type; only its depth can be too much for the parser.
        let Ok(root) = serde_json::from_str::<Value>(schema.as_str()) else {
            return Err(SchemaError::TooDeep { max: self.max_depth });
        };
        if schema_walk::depth(&root) > self.max_depth {
            return Err(SchemaError::TooDeep { max: self.max_depth });
        }
        if !describes_objects(&root) {
            return Err(SchemaError::NotForObjects);
        }
        let survey = schema_walk::survey(&root)?;
        let validator = jsonschema::options()
            .offline()
            .with_pattern_options(
                PatternOptions::fancy_regex()
                    .size_limit(PATTERN_BYTES)
                    .dfa_size_limit(PATTERN_BYTES)
                    .backtrack_limit(PATTERN_BACKTRACKS),
            )
            .build(&root)
            .map_err(|error| SchemaError::Invalid { location: location(&error), reason: reason(&error) })?;
        Ok(Schema { validator, expandable: survey.may_expand.then_some(root) })
    }
}

fn describes_objects(root: &Value) -> bool {
    match root.as_object().map(|schema| schema.get("type")) {
        Some(None) => true,
        Some(Some(Value::String(name))) => name == "object",
        Some(Some(Value::Array(names))) => names.iter().any(|name| name == "object"),
        Some(Some(_)) | None => false,
    }
}

/// A compiled schema of a tool's input.
#[derive(Debug)]
pub struct Schema {
    validator: Validator,
    /// The schema itself, if the cost of a check depends on more than the sizes of schema and input.
    expandable: Option<Value>,
}

/// Why a value does not fit a schema.
#[derive(Debug)]
pub(crate) enum Misfit {
    /// It cannot be read as a tree.
    Unreadable(serde_json::Error),
    /// To compare it would cost too much.
    TooMuchWork,
    /// What is wrong with it: the first problems, each with its place, and how many more there are.
    Problems { listed: Vec<String>, more: usize },
}

/// Whether problems show the values that they are about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Values {
    Shown,
    Hidden,
}

impl Schema {
    /// Whether the input fits. The message is for the model that made the input: what is wrong, and where.
    pub fn validate(&self, input: &Json) -> Result<(), String> {
        self.compare(input, LISTED_ERRORS, Values::Shown).map_err(|misfit| match misfit {
            Misfit::Unreadable(error) => format!("the input cannot be read: {error}"),
            Misfit::TooMuchWork => {
                "the input is too large or nested too deeply to be checked against the tool's schema".to_owned()
            }
            Misfit::Problems { listed, more } => {
                let mut message = "the input does not fit the tool's schema:".to_owned();
                for problem in listed {
                    let _ = write!(message, "\n- {problem}");
                }
                if more > 0 {
                    let _ = write!(message, "\n- and {more} more");
                }
                message
            }
        })
    }

    /// Whether the input fits; if not, its first `most` problems.
    pub(crate) fn compare(&self, input: &Json, most: usize, values: Values) -> Result<(), Misfit> {
        let input: Value = serde_json::from_str(input.as_str()).map_err(Misfit::Unreadable)?;
        if let Some(root) = &self.expandable {
            schema_walk::rehearse(root, &input).map_err(|TooMuchWork| Misfit::TooMuchWork)?;
        }
        if self.validator.is_valid(&input) {
            return Ok(());
        }
        let mut errors = self.validator.iter_errors(&input);
        let problem = |error: ValidationError<'_>| match values {
            Values::Shown => format!("{}: {}", location(&error), reason(&error)),
            Values::Hidden => {
                format!("{}: {}", location(&error), shortened(error.masked_with("the value").to_string()))
            }
        };
        let listed = errors.by_ref().take(most).map(problem).collect();
        Err(Misfit::Problems { listed, more: errors.count() })
    }
}

fn location(error: &ValidationError<'_>) -> String {
    match error.instance_path().as_str() {
        "" => "at the top".to_owned(),
        path => shortened(format!("at {path}")),
    }
}

fn reason(error: &ValidationError<'_>) -> String {
    shortened(error.to_string())
}

fn shortened(mut text: String) -> String {
    if text.len() > ERROR_BYTES {
        text.truncate(text.floor_char_boundary(ERROR_BYTES));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests;
