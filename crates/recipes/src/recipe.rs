//! What a recipe says.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A recipe. As JSON it has the shape of released Goose.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Recipe {
    /// Its version, `1.0.0` if it does not say.
    pub version: String,
    /// What it is, in a few words. It may have places for parameters.
    pub title: String,
    /// What it does. It may have places for parameters.
    pub description: String,
    /// What the agent is told, with places for parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// The first message of the session, with places for parameters. There are instructions or a prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The extensions that it works with. None leaves them to the server; an empty list means none at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extensions: Option<Vec<Extension>>,
    /// The model, and how it is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settings: Option<Settings>,
    /// What a client may offer to say, with places for parameters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub activities: Vec<String>,
    /// Who made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<Author>,
    /// What it asks for. No two have the same key.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<Parameter>,
    /// What the last answer is to look like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<Response>,
    /// The folder of its file: the value of `{{ recipe_dir }}`.
    #[serde(skip)]
    pub(crate) folder: Option<PathBuf>,
}

impl Recipe {
    /// The recipe as one of this folder, which is then the value of `{{ recipe_dir }}` in its texts. [`crate::Recipes`]
    /// does it for what it finds.
    #[must_use]
    pub fn in_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// The folder of its file. None if it did not come from one.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }
}

/// An extension that a recipe works with. What Goose would start is not kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Extension {
    /// What kind of extension: `builtin`, `platform`, `stdio`, `streamable_http` and others.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its name.
    pub name: String,
    /// What it is for. Empty if it does not say.
    pub description: String,
    /// Its tools that may be used. Empty means all of them.
    pub available_tools: Vec<String>,
}

/// The model of a recipe, and how it is used.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Settings {
    /// The provider. It may have places for parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goose_provider: Option<String>,
    /// The model. It may have places for parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goose_model: Option<String>,
    /// From 0 to 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// How often the model may be asked in one turn. At least 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u32>,
}

/// Who made a recipe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Author {
    /// How to reach the author.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contact: Option<String>,
    /// Anything else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<String>,
}

/// What the last answer is to look like.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Response {
    /// Its JSON Schema, as it was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json_schema: Option<serde_json::Value>,
}

/// What a recipe asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Parameter {
    /// Its name in the texts.
    pub key: String,
    /// What kind of value.
    pub input_type: InputType,
    /// Whether there must be one.
    pub requirement: Requirement,
    /// What to put in, for people.
    pub description: String,
    /// The value if none is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// The values of a [`InputType::Select`] to choose from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
}

/// What kind of value a parameter takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputType {
    /// Any text.
    #[default]
    String,
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A date, in any form.
    Date,
    /// The text of a file. Goose's clients on the same machine give a path instead; here no file is opened for it.
    File,
    /// One of the options.
    Select,
}

/// Whether a parameter must have a value. One with a default always has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Requirement {
    /// It must.
    #[default]
    Required,
    /// It need not.
    Optional,
    /// It must, and a client may ask a person for it.
    UserPrompt,
}
