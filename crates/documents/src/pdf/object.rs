//! The values that a PDF is made of.

use std::{collections::BTreeMap, ops::Range};

/// A value. Whole and real numbers are not told apart.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Object {
    Null,
    Bool(bool),
    Number(f64),
    String(Vec<u8>),
    Name(Vec<u8>),
    Array(Vec<Object>),
    Dict(Dict),
    /// The number of an object that is defined elsewhere.
    Reference(u32),
    Stream(Box<Stream>),
}

/// A dictionary followed by bytes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stream {
    pub(crate) dict: Dict,
    /// Where the bytes lie in the file, as they are stored.
    pub(crate) data: Range<usize>,
    /// The object's number and generation: a part of what its bytes are encrypted with.
    pub(crate) id: (u32, u16),
}

/// Values by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Dict(pub(crate) BTreeMap<Vec<u8>, Object>);

impl Dict {
    /// The value as it is written there: it may be a reference.
    pub(crate) fn get(&self, key: &[u8]) -> &Object {
        self.0.get(key).unwrap_or(&Object::Null)
    }

    /// Whether the value is this name, written in place.
    pub(crate) fn has_name(&self, key: &[u8], name: &[u8]) -> bool {
        self.get(key).as_name() == Some(name)
    }
}

impl Object {
    pub(crate) fn as_number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// A whole number that is not negative.
    pub(crate) fn as_count(&self) -> Option<usize> {
        let number = self.as_number()?;
        // Casts of floats saturate, and no count in a file of bounded size comes near what a float cannot hold.
        (number >= 0.0 && number.fract() == 0.0 && number <= f64::from(u32::MAX)).then_some(number as usize)
    }

    pub(crate) fn as_name(&self) -> Option<&[u8]> {
        match self {
            Self::Name(name) => Some(name),
            _ => None,
        }
    }

    pub(crate) fn as_string(&self) -> Option<&[u8]> {
        match self {
            Self::String(bytes) => Some(bytes),
            _ => None,
        }
    }

    pub(crate) fn into_array(self) -> Vec<Object> {
        match self {
            Self::Array(items) => items,
            _ => Vec::new(),
        }
    }

    /// The dictionary, also that of a stream.
    pub(crate) fn into_dict(self) -> Option<Dict> {
        match self {
            Self::Dict(dict) => Some(dict),
            Self::Stream(stream) => Some(stream.dict),
            _ => None,
        }
    }

    pub(crate) fn into_stream(self) -> Option<Stream> {
        match self {
            Self::Stream(stream) => Some(*stream),
            _ => None,
        }
    }
}
