//! JSON kept as the text it came in: tool input and schemas pass through us and need no tree.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A valid JSON value, as text. Compared by text.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Json(Box<RawValue>);

impl Json {
    /// The text, if it is valid JSON.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str::<&RawValue>(text).map(|raw| Self(raw.to_owned()))
    }

    /// The JSON of any serialisable value.
    pub fn of(value: &impl Serialize) -> Result<Self, serde_json::Error> {
        serde_json::value::to_raw_value(value).map(Self)
    }

    /// `{}`.
    pub fn empty_object() -> Self {
        Self(RawValue::from_string("{}".to_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// Whether it is a JSON object. The text is valid, so its first character tells.
    pub fn is_object(&self) -> bool {
        self.as_str().trim_start().starts_with('{')
    }

    /// The value as a tree, for those who must look inside.
    pub fn to_value(&self) -> serde_json::Value {
        // Valid by construction; only a depth beyond the parser's limit can fail.
        serde_json::from_str(self.as_str()).unwrap_or(serde_json::Value::Null)
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Json {}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<Box<RawValue>> for Json {
    fn from(raw: Box<RawValue>) -> Self {
        Self(raw)
    }
}
