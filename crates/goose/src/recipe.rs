//! Recipes: what a session has instead of what its agent says, from its first turn on.

use std::{collections::BTreeMap, sync::Arc};

use everturn_core::{Json, Overlay, SessionConfig};
use everturn_engine::{Agent, SessionUpdate};
use everturn_http::Caller;
use everturn_recipes::{Extension, Recipe, RenderError, Rendered};
use everturn_store::SessionRecord;
use http::StatusCode;

use crate::{error::ApiError, routes::Api, scalar::Scalar};

/// Most model calls in one turn; a recipe that says more means no limit.
const MAX_STEPS: u32 = 1000;

/// What is kept of a recipe beside a session: the recipe, unrendered.
pub(crate) const RECIPE: &str = "goose.recipe";
/// The name that it was found by.
const RECIPE_NAME: &str = "goose.recipe_name";
/// The values of its parameters.
pub(crate) const VALUES: &str = "goose.recipe_values";

/// A recipe that a client asks for, or values for the session's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    name: Option<String>,
    version: Option<String>,
    values: BTreeMap<String, String>,
}

impl Wanted {
    pub(crate) fn new(
        name: Option<String>,
        version: Option<String>,
        values: Option<BTreeMap<String, Scalar>>,
    ) -> Result<Option<Self>, ApiError> {
        let (name, version) = (name.filter(|name| !name.is_empty()), version.filter(|version| !version.is_empty()));
        if name.is_none() && version.is_some() {
            return Err(ApiError::invalid("recipe_version: say which recipe in recipe_name"));
        }
        let values = values.unwrap_or_default();
        if name.is_none() && values.is_empty() {
            return Ok(None);
        }
        let values = values.into_iter().map(|(key, Scalar(value))| (key, value)).collect();
        Ok(Some(Self { name, version, values }))
    }
}

/// A recipe on its way into a session.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    pub(crate) recipe: Arc<Recipe>,
    /// The name that it was found by, if it was.
    pub(crate) name: Option<String>,
}

/// What is kept of a session's recipe.
struct Noted {
    recipe: Recipe,
    name: Option<String>,
    values: BTreeMap<String, String>,
}

impl Noted {
    fn of(config: &SessionConfig) -> Option<Self> {
        let note = |name: &str| config.notes.get(name).map(Json::as_str);
        Some(Self {
            recipe: serde_json::from_str(note(RECIPE)?).ok()?,
            name: note(RECIPE_NAME).and_then(|name| serde_json::from_str(name).ok()),
            values: note(VALUES).and_then(|values| serde_json::from_str(values).ok()).unwrap_or_default(),
        })
    }

    fn is(&self, name: &str, version: Option<&str>) -> bool {
        self.name.as_deref() == Some(name) && version.is_none_or(|version| self.recipe.version == version)
    }

    fn told(&self) -> String {
        format!("{:?} {}", self.name.as_deref().unwrap_or(&self.recipe.title), self.recipe.version)
    }
}

impl Api {
    /// Takes the recipe that is asked for, or the one that the session was made with, into what its first turn changes.
    pub(crate) async fn take_recipe(
        &self,
        caller: &Caller,
        agent: &str,
        known: Option<&SessionRecord>,
        wanted: Option<Wanted>,
        update: &mut SessionUpdate,
    ) -> Result<(), ApiError> {
        let noted = known.and_then(|known| Noted::of(&known.config));
        if let (Some(noted), Some(Wanted { name: Some(name), version, .. })) = (&noted, &wanted)
            && !noted.is(name, version.as_deref())
        {
            let other: String = name.chars().take(64).collect();
            return Err(ApiError::conflict(format!(
                "this session has the recipe {}, and keeps it; begin another session for {other:?}",
                noted.told()
            )));
        }
        let has_begun = known.is_some_and(|known| known.last_turn.is_some() || known.queued > 0);
        let Wanted { name, version, values: given } = match (wanted, &noted) {
            (Some(wanted), _) => wanted,
            (None, Some(_)) => Wanted { name: None, version: None, values: BTreeMap::new() },
            (None, None) => return Ok(()),
        };
        if has_begun {
            return match noted {
                Some(_) => Ok(()),
                None => Err(ApiError::conflict("this session began without a recipe; begin another session for one")),
            };
        }
        // One that was made with the session has been put on already, unless values were missing or come now.
        let pending = match known {
            Some(known) => self.given_values(known).await?,
            None => None,
        };
        let dressed = known.is_some_and(|known| known.config.overlay.is_some());
        let (chosen, mut values) = match (noted, name) {
            (Some(_), _) if dressed && given.is_empty() && pending.is_none() => return Ok(()),
            (Some(noted), _) => (self.again(noted.recipe, noted.name), pending.unwrap_or(noted.values)),
            (None, Some(name)) => (self.find_recipe(name, version).await?, BTreeMap::new()),
            (None, None) => return Err(ApiError::invalid("recipe_parameters: say of which recipe in recipe_name")),
        };
        values.extend(given);
        let overlay = self.overlay(caller, agent, &chosen, &values).await.map_err(Dressing::told)?;
        put_on(update, &chosen, &values, Some(overlay))
    }

    /// A recipe that was kept beside its session.
    fn again(&self, recipe: Recipe, name: Option<String>) -> Chosen {
        let folder = self.recipes.as_ref().filter(|_| name.is_some()).map(|recipes| recipes.folder());
        let recipe = match folder {
            Some(folder) => recipe.in_folder(folder),
            None => recipe,
        };
        Chosen { recipe: Arc::new(recipe), name }
    }

    /// The recipe of a session, if it has one, with the values that were given for it.
    pub(crate) fn recipe_of(&self, config: &SessionConfig) -> Option<(Chosen, BTreeMap<String, String>)> {
        let Noted { recipe, name, values } = Noted::of(config)?;
        Some((self.again(recipe, name), values))
    }

    pub(crate) async fn find_recipe(&self, name: String, version: Option<String>) -> Result<Chosen, ApiError> {
        let Some(recipes) = self.recipes.clone() else {
            return Err(ApiError::not_found(
                "this server has no recipes; put them into a folder and name it in the configuration: [recipes] dir",
            ));
        };
        let task = move || recipes.find(&name, version.as_deref()).map(|recipe| Chosen { recipe, name: Some(name) });
        Ok(blocking(task).await??)
    }

    /// What a session has of a recipe. One that a client brings narrows what the agent has, unless the caller may go beyond.
    pub(crate) async fn overlay(
        &self,
        caller: &Caller,
        agent: &str,
        chosen: &Chosen,
        values: &BTreeMap<String, String>,
    ) -> Result<Overlay, Dressing> {
        let recipe = &chosen.recipe;
        let reach = match &chosen.name {
            Some(_) => self.any_reach(caller, agent).await?,
            None => self.reach(caller, agent).await?,
        };
        // Before its texts, which may lack values: what is refused is refused at once.
        let tools = recipe.extensions.as_deref().map(|extensions| self.tools_of(extensions)).transpose()?;
        let tools = tools.map(|tools| reach.tools(tools)).transpose().map_err(Dressing::Beyond)?;
        let (shared, values) = (Arc::clone(recipe), values.clone());
        let rendered = blocking(move || shared.render(&values)).await?.map_err(Dressing::Render)?;
        let Rendered { instructions, prompt, settings, .. } = rendered;
        // One that has nothing but a first message is about that message.
        let mut instructions = instructions.or(prompt);
        if let Some(schema) = recipe.response.as_ref().and_then(|response| response.json_schema.as_ref()) {
            let wanted =
                format!("Your last answer must be JSON, and nothing else, that fits this JSON Schema: {schema}");
            instructions = Some(instructions.map_or(wanted.clone(), |text| format!("{text}\n\n{wanted}")));
        }
        let model = model_of(reach.agent(), settings.goose_provider, settings.goose_model)?;
        if let Some(model) = &model {
            reach.check_model(model).map_err(Dressing::Beyond)?;
        }
        Ok(Overlay {
            system: None,
            instructions,
            model,
            tools,
            max_steps: settings.max_turns.map(|turns| reach.steps(turns.min(MAX_STEPS))),
            temperature: settings.temperature.map(|temperature| (temperature * 1000.0).round() as u32),
            max_output_tokens: None,
        })
    }

    /// The tools of extensions, named as in an agent's configuration.
    fn tools_of(&self, extensions: &[Extension]) -> Result<Vec<String>, Dressing> {
        let servers = self.engine.tools().servers();
        let mut tools = Vec::new();
        for extension in extensions {
            let plain = plain_name(&extension.name);
            let known = [extension.name.as_str(), plain.as_str()].into_iter().find(|name| servers.contains_key(*name));
            if let Some(name) = known {
                match extension.available_tools.as_slice() {
                    [] => tools.push(format!("{name}/*")),
                    some => tools.extend(some.iter().map(|tool| format!("{name}/{}", own_name(name, tool)))),
                }
            } else if self.engine.tools().get(&plain).is_some() {
                tools.push(plain);
            } else {
                let servers: Vec<_> = servers.keys().map(String::as_str).collect();
                let servers = if servers.is_empty() { "none".to_owned() } else { servers.join(", ") };
                let shown: String = extension.name.chars().take(64).collect();
                return Err(Dressing::Other(ApiError::invalid(format!(
                    "the recipe's extension {shown:?} is not configured on this server: add [mcp.{plain}] to its \
                     configuration; there are: {servers}"
                ))));
            }
        }
        Ok(tools)
    }
}

/// The model that a recipe's settings name; a model alone is one of the provider that the agent's first model has.
fn model_of(agent: &Agent, provider: Option<String>, model: Option<String>) -> Result<Option<String>, Dressing> {
    match (provider, model) {
        (None, None) => Ok(None),
        (Some(provider), Some(model)) => Ok(Some(format!("{provider}/{model}"))),
        (None, Some(model)) => {
            let own = agent.models.first().and_then(|model| model.name().split_once('/'));
            Ok(Some(own.map_or(model.clone(), |(provider, _)| format!("{provider}/{model}"))))
        }
        (Some(_), None) => {
            let message = "the recipe's settings.goose_provider needs settings.goose_model beside it";
            Err(Dressing::Other(ApiError::invalid(message)))
        }
    }
}

/// Why a recipe cannot be put on.
#[derive(Debug)]
pub(crate) enum Dressing {
    /// With these values it does not work.
    Render(RenderError),
    /// It names something that the caller could not use through the agent.
    Beyond(ApiError),
    /// Something that this server does not have.
    Other(ApiError),
}

impl Dressing {
    pub(crate) fn told(self) -> ApiError {
        match self {
            Self::Render(error @ RenderError::MissingParameters { .. }) => {
                ApiError::invalid(format!("recipe_parameters: {error}"))
            }
            Self::Render(error) => error.into(),
            Self::Beyond(error) | Self::Other(error) => error,
        }
    }
}

impl From<ApiError> for Dressing {
    fn from(error: ApiError) -> Self {
        Self::Other(error)
    }
}

/// Has an update say what a session has of a recipe.
pub(crate) fn put_on(
    update: &mut SessionUpdate,
    chosen: &Chosen,
    values: &BTreeMap<String, String>,
    overlay: Option<Overlay>,
) -> Result<(), ApiError> {
    let json = |error: serde_json::Error| ApiError::internal(&error);
    update.overlay = overlay;
    update.notes.insert(RECIPE.to_owned(), Json::of(&*chosen.recipe).map_err(json)?);
    update.notes.insert(VALUES.to_owned(), Json::of(values).map_err(json)?);
    if let Some(name) = &chosen.name {
        update.notes.insert(RECIPE_NAME.to_owned(), Json::of(name).map_err(json)?);
    }
    Ok(())
}

/// Runs what blocks where it holds up nobody.
pub(crate) async fn blocking<T: Send + 'static>(task: impl FnOnce() -> T + Send + 'static) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(task).await.map_err(|error| {
        tracing::error!(%error, "a look at the recipes met a fault");
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "the server met a fault while it looked at the recipes")
    })
}

/// A name as Goose itself compares them, and as sections of the configuration are called: `Computer Controller` is
/// `computercontroller`.
pub(crate) fn plain_name(name: &str) -> String {
    let sign =
        |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { Some(c.to_ascii_lowercase()) } else { None };
    name.chars().filter_map(sign).collect()
}

/// A tool's name at its server, also where it is written as models know it.
fn own_name<'a>(server: &str, tool: &'a str) -> &'a str {
    tool.strip_prefix(server).and_then(|rest| rest.strip_prefix("__")).unwrap_or(tool)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_as_goose_does() {
        assert_eq!(plain_name("Computer Controller"), "computercontroller");
        assert_eq!(plain_name("my_files-2"), "my_files-2");
        assert_eq!(own_name("files", "files__read"), "read");
        assert_eq!(own_name("files", "filesystem"), "filesystem");
    }

    #[test]
    fn a_version_is_of_something() {
        assert_eq!(Wanted::new(None, None, None), Ok(None));
        assert_eq!(Wanted::new(Some(String::new()), Some(String::new()), None), Ok(None));
        assert!(Wanted::new(None, Some("1.0.0".to_owned()), None).is_err());
    }
}
