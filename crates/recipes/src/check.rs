//! From what a file says to a recipe that can be used.

use std::{collections::BTreeSet, io};

use crate::{
    Author, Extension, InputType, Parameter, Recipe, RecipeError, Response, Settings, bounds,
    document::{self, Document, Fields, Text},
    template,
    text::{Shown, list},
    values::RECIPE_DIR,
};

type Result<T> = std::result::Result<T, RecipeError>;

fn invalid<T>(what: impl Into<String>) -> Result<T> {
    Err(RecipeError::Invalid { what: what.into() })
}

impl Recipe {
    pub(crate) fn from_document(document: Document) -> Result<Self> {
        Self::from_document_or_version(document, "1.0.0")
    }

    /// The recipe, with this version if the document says none.
    pub(crate) fn from_document_or_version(mut document: Document, version: &str) -> Result<Self> {
        match document.recipe.take() {
            Some(inner) => Self::from_fields(*inner, version),
            None => Self::from_fields(document, version),
        }
    }

    fn from_fields<Inner>(document: Fields<Inner>, version: &str) -> Result<Self> {
        let Some(Text(title)) = document.title.filter(|Text(title)| !title.trim().is_empty()) else {
            return invalid("the recipe has no title");
        };
        let Some(Text(description)) = document.description else {
            return invalid("the recipe has no description");
        };
        let recipe = Self {
            version: document.version.map_or_else(|| version.to_owned(), |Text(version)| version),
            title,
            description,
            instructions: document.instructions.map(|Text(text)| text),
            prompt: document.prompt.map(|Text(text)| text),
            extensions: document.extensions.map(extensions).transpose()?,
            settings: document.settings.map(settings).transpose()?,
            activities: texts("activities", document.activities, bounds::ACTIVITIES, bounds::ACTIVITY)?,
            author: document.author.map(author).transpose()?,
            parameters: document.parameters.map(parameters).transpose()?.unwrap_or_default(),
            response: document.response.map(response).transpose()?,
            folder: None,
        };
        recipe.check()?;
        Ok(recipe)
    }

    fn check(&self) -> Result<()> {
        check_length("version", &self.version, bounds::VERSION)?;
        if self.version.is_empty() || self.version.contains(|sign: char| sign.is_whitespace() || sign.is_control()) {
            return invalid(format!(
                "the recipe's version must be a word such as \"1.0.0\", not {}",
                Shown(&self.version)
            ));
        }
        check_length("title", &self.title, bounds::TITLE)?;
        check_length("description", &self.description, bounds::DESCRIPTION)?;
        let [instructions, prompt] = [&self.instructions, &self.prompt].map(|text| text.as_deref().unwrap_or_default());
        check_length("instructions", instructions, bounds::INSTRUCTIONS)?;
        check_length("prompt", prompt, bounds::INSTRUCTIONS)?;
        if instructions.trim().is_empty() && prompt.trim().is_empty() {
            return invalid("the recipe has neither instructions nor a prompt");
        }
        self.check_templates()
    }

    fn check_templates(&self) -> Result<()> {
        let known = self.parameters.iter().map(|parameter| &*parameter.key).collect::<BTreeSet<_>>();
        for (field, text) in self.templates() {
            let unusable = |what| RecipeError::Invalid { what: format!("the recipe's {field} cannot be used: {what}") };
            let used = template::variables(field, text).map_err(unusable)?;
            let unknown = used.iter().map(String::as_str).filter(|name| *name != RECIPE_DIR && !known.contains(name));
            let unknown = unknown.collect::<Vec<_>>();
            if !unknown.is_empty() {
                return Err(unusable(format!(
                    "these names in it are none of its parameters: {}; add them to the parameters, or put the place \
                     between {{% raw %}} and {{% endraw %}} if it is to stay as it is",
                    list(unknown)
                )));
            }
        }
        Ok(())
    }

    /// The texts with places for parameters, and what they are.
    pub(crate) fn templates(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let settings = self.settings.iter();
        let settings = settings.flat_map(|settings| [&settings.goose_provider, &settings.goose_model]);
        let named = [("title", &*self.title), ("description", &*self.description)];
        named
            .into_iter()
            .chain(self.instructions.as_deref().map(|text| ("instructions", text)))
            .chain(self.prompt.as_deref().map(|text| ("prompt", text)))
            .chain(settings.flatten().map(|text| ("settings", &**text)))
            .chain(self.activities.iter().map(|text| ("activities", &**text)))
    }
}

fn check_length(field: &str, text: &str, limit: usize) -> Result<()> {
    if text.len() <= limit {
        return Ok(());
    }
    invalid(format!("the recipe's {field} must have at most {limit} bytes, not {}; shorten it", text.len()))
}

fn check_count(field: &str, count: usize, limit: usize) -> Result<()> {
    if count <= limit { Ok(()) } else { invalid(format!("the recipe has {count} {field}, at most {limit} are taken")) }
}

fn text(field: &str, Text(text): Text, limit: usize) -> Result<String> {
    check_length(field, &text, limit)?;
    Ok(text)
}

fn optional(field: &str, value: Option<Text>, limit: usize) -> Result<Option<String>> {
    value.map(|value| text(field, value, limit)).transpose()
}

fn texts(field: &str, values: Option<Vec<Text>>, most: usize, limit: usize) -> Result<Vec<String>> {
    let values = values.unwrap_or_default();
    check_count(field, values.len(), most)?;
    values.into_iter().map(|value| text(field, value, limit)).collect()
}

fn extensions(extensions: Vec<document::Extension>) -> Result<Vec<Extension>> {
    check_count("extensions", extensions.len(), bounds::EXTENSIONS)?;
    let extension = |extension: document::Extension| {
        let name = text("extension name", extension.name, bounds::NAME)?;
        if name.trim().is_empty() {
            return invalid("an extension of the recipe has an empty name");
        }
        Ok(Extension {
            kind: text("extension type", extension.kind, bounds::NAME)?,
            name,
            description: optional("extension description", extension.description, bounds::DESCRIPTION)?
                .unwrap_or_default(),
            available_tools: texts("available_tools", extension.available_tools, bounds::TOOLS, bounds::NAME)?,
        })
    };
    extensions.into_iter().map(extension).collect()
}

fn settings(settings: document::Settings) -> Result<Settings> {
    if let Some(temperature) = settings.temperature
        && !(0.0..=2.0).contains(&temperature)
    {
        return invalid(format!("the recipe's temperature must be from 0 to 2, not {temperature}"));
    }
    if settings.max_turns == Some(0) {
        return invalid("the recipe's max_turns must be at least 1, not 0");
    }
    Ok(Settings {
        goose_provider: optional("goose_provider", settings.goose_provider, bounds::NAME)?,
        goose_model: optional("goose_model", settings.goose_model, bounds::NAME)?,
        temperature: settings.temperature,
        max_turns: settings.max_turns,
    })
}

fn author(author: document::Author) -> Result<Author> {
    Ok(Author {
        contact: optional("author contact", author.contact, bounds::AUTHOR)?,
        metadata: optional("author metadata", author.metadata, bounds::AUTHOR)?,
    })
}

fn response(response: document::Response) -> Result<Response> {
    if let Some(schema) = &response.json_schema {
        if !schema.is_object() {
            return invalid("the json_schema of the recipe's response must be a map");
        }
        let limit = bounds::SCHEMA;
        if serde_json::to_writer(Bounded { left: limit }, schema).is_err() {
            return invalid(format!("the json_schema of the recipe's response has more than {limit} bytes as JSON"));
        }
    }
    Ok(Response { json_schema: response.json_schema })
}

/// Counts what is written, up to an end.
struct Bounded {
    left: usize,
}

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.left = self.left.checked_sub(bytes.len()).ok_or(io::ErrorKind::FileTooLarge)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn parameters(parameters: Vec<document::Parameter>) -> Result<Vec<Parameter>> {
    check_count("parameters", parameters.len(), bounds::PARAMETERS)?;
    let mut keys = BTreeSet::new();
    let parameter = |parameter: document::Parameter| {
        let key = text("parameter key", parameter.key, bounds::NAME)?;
        if key.trim().is_empty() {
            return invalid("a parameter of the recipe has an empty key");
        }
        if !keys.insert(key.clone()) {
            return invalid(format!("two parameters of the recipe have the key {}", Shown(&key)));
        }
        let options = texts("options", parameter.options, bounds::OPTIONS, bounds::NAME)?;
        if parameter.input_type == InputType::Select && options.is_empty() {
            return invalid(format!(
                "the parameter {} of the recipe is to be selected from options but has none",
                Shown(&key)
            ));
        }
        Ok(Parameter {
            key,
            input_type: parameter.input_type,
            requirement: parameter.requirement,
            description: optional("parameter description", parameter.description, bounds::DESCRIPTION)?
                .unwrap_or_default(),
            default: optional("parameter default", parameter.default, bounds::DEFAULT)?,
            options,
        })
    };
    parameters.into_iter().map(parameter).collect()
}
