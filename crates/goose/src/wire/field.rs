//! What is wrong with a request, and where in it.

use std::fmt;

use everturn_http::Object;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

/// A field that is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {what}")]
pub(crate) struct FieldError {
    path: String,
    what: String,
}

/// A place within a request.
#[derive(Clone, Copy)]
pub(crate) enum At<'a> {
    /// A field of the request itself.
    Top(&'a str),
    /// An entry of an array.
    Entry(&'a At<'a>, usize),
    /// A field of an object.
    Field(&'a At<'a>, &'a str),
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Top(name) => f.write_str(name),
            Self::Entry(within, index) => write!(f, "{within}[{index}]"),
            Self::Field(within, name) => write!(f, "{within}.{name}"),
        }
    }
}

impl At<'_> {
    /// Something is wrong here.
    pub(crate) fn error(&self, what: impl Into<String>) -> FieldError {
        FieldError { path: self.to_string(), what: what.into() }
    }

    /// An object that is to be found here.
    pub(crate) fn object<T: DeserializeOwned>(&self, raw: &RawValue) -> Result<T, FieldError> {
        let Object(value) = self.value(raw)?;
        Ok(value)
    }

    /// A value that is to be found here.
    pub(crate) fn value<T: DeserializeOwned>(&self, raw: &RawValue) -> Result<T, FieldError> {
        serde_json::from_str(raw.get()).map_err(|error| {
            // The position within the piece would mislead.
            let what = error.to_string();
            let what = what.rsplit_once(" at line ").map_or(what.as_str(), |(what, _)| what);
            self.error(what)
        })
    }
}

/// A text from outside, short enough to be quoted.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(64).collect()
}
