//! Content as clients send it: a text, or a list of blocks.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{self, SeqAccess, Visitor, value::SeqAccessDeserializer},
};
use serde_json::value::RawValue;

use super::object;

/// `string | ContentBlock[]`.
#[derive(Debug)]
pub(crate) enum ContentIn {
    Text(String),
    Blocks(Vec<BlockIn>),
}

/// A block of any type; which fields it must have depends on the type.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BlockIn {
    pub(crate) r#type: String,
    pub(crate) text: Option<String>,
    pub(crate) thinking: Option<String>,
    pub(crate) tool_call_id: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) input: Option<Box<RawValue>>,
    pub(crate) url: Option<String>,
}

impl<'de> Deserialize<'de> for ContentIn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = ContentIn;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or an array of content blocks")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<ContentIn, E> {
        Ok(ContentIn::Text(text.to_owned()))
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<ContentIn, E> {
        Ok(ContentIn::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, blocks: A) -> Result<ContentIn, A::Error> {
        object::several(SeqAccessDeserializer::new(blocks)).map(ContentIn::Blocks)
    }
}
