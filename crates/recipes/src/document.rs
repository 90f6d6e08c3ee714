//! A recipe as it is written down: lenient about what is left out and about what is unknown.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{self, IgnoredAny},
};
use serde_json::Value;

use crate::{InputType, Requirement};

/// What is known of a recipe file. Goose's desktop saves recipes inside of a map with words of its own.
pub(crate) type Document = Fields<Fields<IgnoredAny>>;

/// The fields of a recipe. They are not in each other more than once: each time would take a piece of the stack.
#[derive(Deserialize)]
#[serde(expecting = "a recipe, which is a map with title, description, and instructions or prompt")]
pub(crate) struct Fields<Inner> {
    pub(crate) version: Option<Text>,
    pub(crate) title: Option<Text>,
    pub(crate) description: Option<Text>,
    pub(crate) instructions: Option<Text>,
    pub(crate) prompt: Option<Text>,
    pub(crate) extensions: Option<Vec<Extension>>,
    pub(crate) settings: Option<Settings>,
    pub(crate) activities: Option<Vec<Text>>,
    pub(crate) author: Option<Author>,
    pub(crate) parameters: Option<Vec<Parameter>>,
    pub(crate) response: Option<Response>,
    pub(crate) recipe: Option<Box<Inner>>,
}

#[derive(Deserialize)]
#[serde(expecting = "an extension, which is a map with type and name")]
pub(crate) struct Extension {
    #[serde(rename = "type")]
    pub(crate) kind: Text,
    pub(crate) name: Text,
    pub(crate) description: Option<Text>,
    pub(crate) available_tools: Option<Vec<Text>>,
}

#[derive(Deserialize)]
#[serde(expecting = "settings, which are a map")]
pub(crate) struct Settings {
    pub(crate) goose_provider: Option<Text>,
    pub(crate) goose_model: Option<Text>,
    pub(crate) temperature: Option<f64>,
    pub(crate) max_turns: Option<u32>,
}

#[derive(Deserialize)]
#[serde(expecting = "an author, which is a map with contact and metadata")]
pub(crate) struct Author {
    pub(crate) contact: Option<Text>,
    pub(crate) metadata: Option<Text>,
}

#[derive(Deserialize)]
#[serde(expecting = "a response, which is a map with json_schema")]
pub(crate) struct Response {
    pub(crate) json_schema: Option<Value>,
}

#[derive(Deserialize)]
#[serde(expecting = "a parameter, which is a map with key, input_type, requirement and description")]
pub(crate) struct Parameter {
    pub(crate) key: Text,
    #[serde(default)]
    pub(crate) input_type: InputType,
    #[serde(default)]
    pub(crate) requirement: Requirement,
    pub(crate) description: Option<Text>,
    #[serde(default, deserialize_with = "scalar")]
    pub(crate) default: Option<Text>,
    #[serde(default, deserialize_with = "scalars")]
    pub(crate) options: Option<Vec<Text>>,
}

/// A text. YAML gives what looks like a number as it is written: `version: 1.10`.
pub(crate) struct Text(pub(crate) String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor)
    }
}

/// A text, or a number, true or false in its place: people write `default: 10`.
struct Scalar(Text);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor).map(Self)
    }
}

fn scalar<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Text>, D::Error> {
    Ok(Option::<Scalar>::deserialize(deserializer)?.map(|Scalar(text)| text))
}

fn scalars<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<Text>>, D::Error> {
    let scalars = Option::<Vec<Scalar>>::deserialize(deserializer)?;
    Ok(scalars.map(|scalars| scalars.into_iter().map(|Scalar(text)| text).collect()))
}

struct TextVisitor;

impl de::Visitor<'_> for TextVisitor {
    type Value = Text;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_str<E>(self, text: &str) -> Result<Text, E> {
        Ok(Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Text, E> {
        Ok(Text(text))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Text, E> {
        Ok(Text(value.to_string()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Text, E> {
        Ok(Text(number.to_string()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Text, E> {
        Ok(Text(number.to_string()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Text, E> {
        // Unlike Display, Debug keeps the `.0` of `1.0`.
        Ok(Text(format!("{number:?}")))
    }
}
