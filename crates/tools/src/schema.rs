//! JSON Schemas of tool inputs and of answers to forms, compiled within bounds.
//!
//! Schemas come from outside: from clients with each request, from tool servers, from models. So they are bounded in
//! size, depth and patterns, may refer only into themselves, and a pair of schema and input that would cost too much to
//! compare is refused instead of compared. [`crate::Schemas`] compiles and compares where it holds nobody up.

mod keywords;
mod pattern_cost;
mod survey;
mod work;

use std::fmt::Write as _;

use everturn_core::Json;
use jsonschema::{Draft, PatternOptions, ValidationError, Validator};
use serde_json::Value;

use survey::Survey;
use work::TooMuchWork;
pub(crate) use work::Work;

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
    /// A regular expression is too long.
    #[error("the schema has a regular expression of {bytes} bytes, at most {max} are allowed")]
    LongPattern {
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        max: usize,
    },
    /// A regular expression takes too much to compile.
    #[error(
        "the schema's regular expression {pattern:?} is too complex: its weight is {weight}, at most {max} is allowed; \
         repeat less, and fewer Unicode classes such as \\p{{L}}"
    )]
    HeavyPattern {
        /// The expression, shortened.
        pattern: String,
        /// How heavy it is.
        weight: u64,
        /// How heavy it may be.
        max: u64,
    },
    /// Its regular expressions together take too much to compile.
    #[error("the schema's regular expressions are too complex: their weight is {weight}, at most {max} is allowed")]
    HeavyPatterns {
        /// How heavy they are.
        weight: u64,
        /// How heavy they may be.
        max: u64,
    },
    /// The paths of its parts are too long, by long names at many places.
    #[error(
        "the paths to the schema's parts have {bytes} bytes together, at most {max} are allowed; shorten its names"
    )]
    LongPaths {
        /// How long they are.
        bytes: usize,
        /// How long they may be.
        max: usize,
    },
    /// Its `unevaluatedProperties` and `unevaluatedItems` multiply what there is to compile.
    #[error(
        "the schema has unevaluatedProperties or unevaluatedItems within each other, so that more than {max} subschemas \
         would be compiled; use fewer of them, or additionalProperties"
    )]
    Unevaluated {
        /// How many subschemas may be compiled.
        max: u32,
    },
    /// The schemas that came with it are too long together.
    #[error("the schemas that come together have more than {max} bytes")]
    TooLargeTogether {
        /// How long they may be.
        max: usize,
    },
    /// The regular expressions of the schemas that came with it are too heavy together.
    #[error(
        "the regular expressions of the schemas that come together are too complex: their weight is {weight} up to this \
         schema, at most {max} is allowed"
    )]
    HeavyTogether {
        /// How heavy they are.
        weight: u64,
        /// How heavy they may be.
        max: u64,
    },
    /// The compiler failed. A fault of ours.
    #[error("the schema could not be compiled, which is a fault of the server")]
    Crashed,
    /// Its references multiply, or come back without descending into the input, so that a check might never end.
    #[error("the schema's references to itself multiply or never end, so that no input can be checked against it")]
    Endless,
}

/// Largest compiled form of one regular expression, in bytes.
const PATTERN_BYTES: usize = 4 * 1024 * 1024;
/// Memory in which the matches of one regular expression remember what they found, in bytes.
const MATCH_BYTES: usize = 128 * 1024;
/// Steps back that one regular expression may take in one text.
const PATTERN_BACKTRACKS: usize = 20_000;
/// How many problems a message for a model lists.
const LISTED_PROBLEMS: usize = 5;
/// Longest text of one problem, in bytes: the library quotes the whole offending value.
const PROBLEM_BYTES: usize = 300;

impl SchemaCheck {
    /// Compiles a schema. It may take some hundred milliseconds: [`crate::Schemas`] does it where it holds nobody up.
    pub fn compile(&self, schema: &Json) -> Result<Schema, SchemaError> {
        self.look_through(schema)?.compile()
    }

    /// Checks all bounds of a schema, and that it refers only into itself, without compiling it.
    pub(crate) fn look_through(&self, schema: &Json) -> Result<Surveyed, SchemaError> {
        let bytes = schema.as_str().len();
        if bytes > self.max_bytes {
            return Err(SchemaError::TooLarge { bytes, max: self.max_bytes });
        }
        // Valid JSON by type; only its depth can be too much for the parser.
        let Ok(root) = serde_json::from_str::<Value>(schema.as_str()) else {
            return Err(SchemaError::TooDeep { max: self.max_depth });
        };
        if survey::depth(&root) > self.max_depth {
            return Err(SchemaError::TooDeep { max: self.max_depth });
        }
        if !describes_objects(&root) {
            return Err(SchemaError::NotForObjects);
        }
        let survey = survey::survey(&root)?;
        Ok(Surveyed { root, survey })
    }
}

/// A schema within bounds.
#[derive(Debug)]
pub(crate) struct Surveyed {
    root: Value,
    survey: Survey,
}

impl Surveyed {
    /// The weight of its regular expressions.
    pub(crate) fn weight(&self) -> u64 {
        self.survey.weight
    }

    pub(crate) fn compile(self) -> Result<Schema, SchemaError> {
        let Self { root, survey } = self;
        let options = || {
            jsonschema::options().offline().with_pattern_options(
                PatternOptions::fancy_regex()
                    .size_limit(PATTERN_BYTES)
                    .dfa_size_limit(MATCH_BYTES)
                    .backtrack_limit(PATTERN_BACKTRACKS),
            )
        };
        let built = match options().build(&root) {
            // Many tools do not say that they mean an older draft, whose tuples are lists in `items`.
            Err(_) if root.get("$schema").is_none() && has_tuples(&root) => {
                options().with_draft(Draft::Draft7).build(&root)
            }
            built => built,
        };
        let validator =
            built.map_err(|error| SchemaError::Invalid { location: location(&error), reason: reason(&error) })?;
        Ok(Schema { validator, root, survey })
    }
}

/// Whether some list of values is described by a list of schemas, as before the draft of 2020.
fn has_tuples(schema: &Value) -> bool {
    match schema {
        Value::Object(keywords) => {
            matches!(keywords.get("items"), Some(Value::Array(_))) || keywords.values().any(has_tuples)
        }
        Value::Array(items) => items.iter().any(has_tuples),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
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
    root: Value,
    survey: Survey,
}

/// Why a value does not fit a schema.
#[derive(Debug)]
pub(crate) enum Misfit {
    /// It cannot be read as a tree.
    Unreadable(serde_json::Error),
    /// To compare it would cost more than this.
    TooMuchWork(Work),
    /// The comparison failed. A fault of ours.
    Crashed,
    /// What is wrong with it: the first problems, each with its place, and how many more there are, if that is known.
    Problems { listed: Vec<String>, more: Option<usize> },
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
        self.compare(input, Listing::FOR_MODELS, Work::MOST).map_err(Misfit::for_model)
    }

    /// The weight of its regular expressions.
    pub(crate) fn weight(&self) -> u64 {
        self.survey.weight
    }

    /// About how much memory it takes, in bytes.
    pub(crate) fn memory(&self) -> usize {
        /// Of what is compiled, for each byte of the paths to its parts.
        const COMPILED: usize = 4;
        /// Of the automaton, for each state.
        const STATE: usize = 32;
        let weight = usize::try_from(self.survey.weight).unwrap_or(usize::MAX);
        let patterns = weight.saturating_mul(STATE).saturating_add(self.survey.patterns.len() * 2 * MATCH_BYTES);
        self.survey.path_bytes.saturating_mul(COMPILED).saturating_add(patterns)
    }

    /// Whether the input fits, if to find out takes no more than `most`.
    pub(crate) fn compare(&self, input: &Json, listing: Listing, most: Work) -> Result<(), Misfit> {
        let input: Value = serde_json::from_str(input.as_str()).map_err(Misfit::Unreadable)?;
        let work = work::rehearse(&self.root, &input, &self.survey.patterns, most)
            .map_err(|TooMuchWork| Misfit::TooMuchWork(most))?;
        if self.validator.is_valid(&input) {
            return Ok(());
        }
        if work <= Work::ALL_PROBLEMS {
            let mut problems = self.validator.iter_errors(&input);
            let listed = problems.by_ref().take(listing.most).map(|problem| listing.words(problem)).collect();
            return Err(Misfit::Problems { listed, more: Some(problems.count()) });
        }
        // The problems of a large input may be too many to keep, and so may the problems of all alternatives.
        let first = if self.survey.has_alternatives {
            "at the top: it does not fit; it is too large to say where".to_owned()
        } else {
            self.validator.validate(&input).err().map_or_else(String::new, |problem| listing.words(problem))
        };
        Err(Misfit::Problems { listed: vec![first], more: None })
    }
}

/// How problems are listed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listing {
    /// How many, at most.
    pub(crate) most: usize,
    /// Whether they show the values that they are about.
    pub(crate) values: Values,
}

impl Listing {
    /// As a model is told them.
    pub(crate) const FOR_MODELS: Self = Self { most: LISTED_PROBLEMS, values: Values::Shown };

    fn words(self, problem: ValidationError<'_>) -> String {
        match self.values {
            Values::Shown => format!("{}: {}", location(&problem), reason(&problem)),
            Values::Hidden => {
                format!("{}: {}", location(&problem), shortened(problem.masked_with("the value").to_string()))
            }
        }
    }
}

impl Misfit {
    /// The message for the model that made the input.
    pub(crate) fn for_model(self) -> String {
        match self {
            Self::Unreadable(error) => format!("the input cannot be read: {error}"),
            Self::TooMuchWork(Work(steps)) => format!(
                "the input is too large or nested too deeply to be checked against the tool's schema: it would take more \
                 than {steps} steps, which is the limit"
            ),
            Self::Crashed => "the input could not be checked, which is a fault of the server".to_owned(),
            Self::Problems { listed, more } => {
                let mut message = "the input does not fit the tool's schema:".to_owned();
                for problem in listed {
                    let _ = write!(message, "\n- {problem}");
                }
                match more {
                    Some(0) => {}
                    Some(more) => drop(write!(message, "\n- and {more} more")),
                    None => message.push_str("\n- and perhaps more"),
                }
                message
            }
        }
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
    if text.len() > PROBLEM_BYTES {
        text.truncate(text.floor_char_boundary(PROBLEM_BYTES));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests;
