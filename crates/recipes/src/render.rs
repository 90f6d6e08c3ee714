//! A recipe with the values of its parameters.

use std::collections::BTreeMap;

use crate::{Recipe, Settings, template::Renderer, values};

/// The texts of a recipe with the values of its parameters in them.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendered {
    /// What it is.
    pub title: String,
    /// What it does.
    pub description: String,
    /// What the agent is told.
    pub instructions: Option<String>,
    /// The first message of the session.
    pub prompt: Option<String>,
    /// What a client may offer to say.
    pub activities: Vec<String>,
    /// The model, and how it is used.
    pub settings: Settings,
}

/// Why a recipe cannot be used with some values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// Values that it needs are not given.
    #[error("the recipe needs values for these parameters: {}", keys.join(", "))]
    MissingParameters {
        /// All keys that miss a value.
        keys: Vec<String>,
    },
    /// A value is given for no parameter.
    #[error("the recipe has no parameter {key}; {}", if known.is_empty() {
        "it has none at all".to_owned()
    } else {
        format!("it has: {known}")
    })]
    UnknownParameter {
        /// The key, in quotes.
        key: String,
        /// The keys that there are.
        known: String,
    },
    /// A value is not what its parameter takes.
    #[error("the value of the parameter {key} {what}")]
    InvalidValue {
        /// The key, in quotes.
        key: String,
        /// What it must be, and what it is.
        what: String,
    },
    /// The values are together longer than what is taken.
    #[error("the values of the parameters have {bytes} bytes together, at most {limit} are taken")]
    ValuesTooLarge {
        /// How long they are.
        bytes: usize,
        /// How long they may be.
        limit: usize,
    },
    /// The texts become longer than what is taken.
    #[error("with these values the texts of the recipe have more than {limit} bytes; give shorter ones")]
    TooLarge {
        /// How long they may be.
        limit: usize,
    },
    /// The recipe names its folder, and has none.
    #[error("the recipe's {field} cannot be worked out: only a recipe from a folder has {{{{ recipe_dir }}}}")]
    NoFolder {
        /// Which text.
        field: &'static str,
    },
    /// A text cannot be worked out with these values.
    #[error("the recipe's {field} cannot be worked out: {what}")]
    Failed {
        /// Which text.
        field: &'static str,
        /// What went wrong.
        what: String,
    },
}

impl Recipe {
    /// The texts with the values of the parameters in them: those given, or else the defaults. A parameter that is
    /// optional and has neither is not defined.
    ///
    /// The texts are templates of the engine of Goose, with Goose's own rule that a `{{ … }}` that is no expression stays
    /// as it is. Of the language they may use what cannot grow without bound: `{{ key }}`, `{% if %}`, `{% for %}`,
    /// `{% set %}`, `{% block %}`, `{% raw %}`, comparisons, `and`, `or`, `not`, `in`, `is defined`, lists and the common filters for
    /// text. Including other files, macros, arithmetic and joining with `~` are refused when the recipe is read.
    ///
    /// All values are texts, as they are in Goose: `{% if flag == "true" %}`. Values are put in as they are; nothing in
    /// them is taken as a template.
    pub fn render(&self, values: &BTreeMap<String, String>) -> Result<Rendered, RenderError> {
        let values = values::resolve(self, values)?;
        let mut renderer = Renderer::new(values);
        let mut text = |field, text: &str| renderer.render(field, text);
        let settings = self.settings.clone().unwrap_or_default();
        Ok(Rendered {
            title: text("title", &self.title)?,
            description: text("description", &self.description)?,
            instructions: self.instructions.as_deref().map(|it| text("instructions", it)).transpose()?,
            prompt: self.prompt.as_deref().map(|it| text("prompt", it)).transpose()?,
            activities: self.activities.iter().map(|it| text("activities", it)).collect::<Result<_, _>>()?,
            settings: Settings {
                goose_provider: settings.goose_provider.as_deref().map(|it| text("settings", it)).transpose()?,
                goose_model: settings.goose_model.as_deref().map(|it| text("settings", it)).transpose()?,
                ..settings
            },
        })
    }
}
