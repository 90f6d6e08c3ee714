//! From YAML and JSON to a recipe.

use serde::{Deserialize, Deserializer, de};
use serde_json::Value;

use crate::{Recipe, bounds, document::Document, text::one_line, yaml};

/// Why something is not a recipe.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecipeError {
    /// It is longer than what is taken.
    #[error("the recipe has more than {limit} bytes; shorten it")]
    TooLarge {
        /// How long it may be.
        limit: usize,
    },
    /// It is not YAML or JSON, or says something else than a recipe does.
    #[error("the recipe cannot be read: {what}")]
    Unreadable {
        /// What is wrong, and where.
        what: String,
    },
    /// A part is missing, too long, or does not fit the others.
    #[error("{what}")]
    Invalid {
        /// What is wrong.
        what: String,
    },
}

impl Recipe {
    /// The recipe that a YAML text describes.
    pub fn from_yaml(text: &str) -> Result<Self, RecipeError> {
        Self::from_document(read_yaml(text)?)
    }

    /// The recipe that a JSON text describes.
    pub fn from_json(text: &str) -> Result<Self, RecipeError> {
        Self::from_document(read_json(text)?)
    }

    /// The recipe that a JSON value describes.
    pub fn from_value(value: &Value) -> Result<Self, RecipeError> {
        let document = serde_path_to_error::deserialize(value)
            .map_err(|error| unreadable(&error.path().to_string(), &error.inner().to_string()))?;
        Self::from_document(document)
    }
}

impl<'de> Deserialize<'de> for Recipe {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_document(Document::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

/// What a YAML text says, without any check.
pub(crate) fn read_yaml(text: &str) -> Result<Document, RecipeError> {
    check_length(text)?;
    if text.trim_start().starts_with("{%") {
        // Goose puts values into the file before it reads it, so a file may be put together from others.
        let what = "it begins with a template statement, such as {% extends %}; a recipe is one file, write it out";
        return Err(RecipeError::Unreadable { what: what.to_owned() });
    }
    yaml::read(text).map_err(|(path, message)| unreadable(&path, &message))
}

/// What a JSON text says, without any check.
pub(crate) fn read_json(text: &str) -> Result<Document, RecipeError> {
    check_length(text)?;
    let mut json = serde_json::Deserializer::from_str(text.strip_prefix('\u{feff}').unwrap_or(text));
    let document = serde_path_to_error::deserialize(&mut json)
        .map_err(|error| unreadable(&error.path().to_string(), &error.inner().to_string()))?;
    json.end().map_err(|error| unreadable("", &error.to_string()))?;
    Ok(document)
}

fn check_length(text: &str) -> Result<(), RecipeError> {
    if text.len() > bounds::FILE { Err(RecipeError::TooLarge { limit: bounds::FILE }) } else { Ok(()) }
}

/// Where something is, as long as people can follow it.
const LONGEST_PATH: usize = 100;

fn unreadable(path: &str, message: &str) -> RecipeError {
    let message = one_line(message);
    let what = if ["", ".", "?"].contains(&path) || path.len() > LONGEST_PATH {
        message
    } else {
        format!("{path}: {message}")
    };
    RecipeError::Unreadable { what }
}
