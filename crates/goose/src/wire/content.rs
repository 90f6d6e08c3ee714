//! Content as clients send it: a text, or a list of items.

use std::fmt;

use everturn_http::Object;
use serde::{
    Deserialize, Deserializer,
    de::{self, SeqAccess, Visitor},
};

use super::ItemIn;

/// How many items a content may have.
const MAX_ITEMS: usize = 10_000;

/// `string | Content[]`.
#[derive(Debug)]
pub(crate) enum ContentIn {
    /// One text.
    Text(String),
    /// Items, in order.
    Items(Vec<ItemIn>),
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
        f.write_str("a string or an array of objects")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<ContentIn, E> {
        Ok(ContentIn::Text(text.to_owned()))
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<ContentIn, E> {
        Ok(ContentIn::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<ContentIn, A::Error> {
        let mut items = Vec::new();
        while let Some(Object(item)) = sequence.next_element()? {
            if items.len() == MAX_ITEMS {
                return Err(de::Error::custom(format_args!("more than {MAX_ITEMS} items, which is the limit")));
            }
            items.push(item);
        }
        Ok(ContentIn::Items(items))
    }
}
