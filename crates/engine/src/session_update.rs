//! Changes that a command makes to a session's settings, judged against its agent.

use std::collections::{BTreeMap, HashSet};

use everturn_core::{Json, OptionSpec, OptionValue, OutputFormat, Overlay, SessionConfig, TenantId, ToolRef, ToolSpec};
use everturn_store::SecretError;
use everturn_tools::{RefusedSchema, SchemaError, ToolSet, is_tool_name};

use crate::Agent;

/// What a secret option looks like from outside; sent back, it means unchanged.
pub const REDACTED: &str = "***";
/// How many tools of its own an application may bring.
const MAX_CLIENT_TOOLS: usize = 128;
/// How long an option's value may be.
const MAX_OPTION_BYTES: usize = 16 * 1024;
/// How long all notes of a session may be.
const MAX_NOTES_BYTES: usize = 2 * 1024 * 1024;

/// Settings to change. What is absent stays as it is.
#[derive(Clone, Debug, Default)]
pub struct SessionUpdate {
    /// Replaces the enabled server-side tools.
    pub tools: Option<Vec<ToolRef>>,
    /// Enables all of the agent's tools, which run inline as the agent says; `tools` then says otherwise for some.
    pub agent_tools: bool,
    /// Has the session named after its first exchange.
    pub titled: bool,
    /// Replaces the application's tools.
    pub client_tools: Option<Vec<ToolSpec>>,
    /// Merged by key.
    pub options: BTreeMap<String, String>,
    /// Replaces what the session has instead of what its agent says.
    pub overlay: Option<Overlay>,
    /// What a dialect keeps of the session for itself; merged by key.
    pub notes: BTreeMap<String, Json>,
}

/// Why settings cannot be changed so.
#[derive(Debug, thiserror::Error)]
pub enum UpdateError {
    /// The agent has no such tool to offer.
    #[error("agent {agent:?} has no tool {name:?}; it has: {available}")]
    UnknownTool {
        /// The agent.
        agent: String,
        /// What was asked for.
        name: String,
        /// What there is.
        available: String,
    },
    /// Its server is not there.
    #[error("tool {name:?} cannot be used at the moment: {trouble}; try again later, or without it")]
    ToolUnavailable {
        /// What was asked for.
        name: String,
        /// What is the matter.
        trouble: String,
    },
    /// Two tools of one name.
    #[error("there are two tools named {0:?}; tool names must be unique across application and server tools")]
    DuplicateTool(String),
    /// The agent takes no tools from applications.
    #[error("agent {0:?} takes no application tools (it does not declare capabilities.application.tools)")]
    NoClientTools(String),
    /// Too many of them.
    #[error("{count} application tools are too many, the limit is {MAX_CLIENT_TOOLS}")]
    TooManyClientTools {
        /// How many came.
        count: usize,
    },
    /// A name that model providers do not take.
    #[error("{0:?} cannot be a tool's name: it must have 1 to 64 characters of A-Z a-z 0-9 _ -")]
    ToolName(String),
    /// A schema that cannot be used.
    #[error("the input schema of tool {name:?} cannot be used: {error}")]
    Schema {
        /// The tool.
        name: String,
        /// What is wrong.
        error: SchemaError,
    },
    /// A schema of the answer's format that cannot be used.
    #[error("the schema of the answer's format cannot be used: {0}")]
    OutputSchema(SchemaError),
    /// The agent has no such option.
    #[error("agent {agent:?} has no option {name:?}; it has: {available}")]
    UnknownOption {
        /// The agent.
        agent: String,
        /// What was set.
        name: String,
        /// What there is.
        available: String,
    },
    /// A value that is not among the choices.
    #[error("option {name:?} cannot be {value:?}; choose one of: {choices}")]
    NotAChoice {
        /// The option.
        name: String,
        /// What was set.
        value: String,
        /// The choices.
        choices: String,
    },
    /// A value that is too long.
    #[error("the value of option {name:?} has {bytes} bytes, the limit is {MAX_OPTION_BYTES}")]
    OptionTooLong {
        /// The option.
        name: String,
        /// How long it was.
        bytes: usize,
    },
    /// Notes that are too long.
    #[error("what is kept beside the session has {bytes} bytes, the limit is {MAX_NOTES_BYTES}")]
    NotesTooLong {
        /// How long they were.
        bytes: usize,
    },
    /// A secret that could not be sealed. A fault of ours.
    #[error(transparent)]
    Seal(#[from] SecretError),
}

impl SessionUpdate {
    /// Checks all schemas that come with the update, also that of the answer's format: they have one budget.
    pub async fn check_schemas(
        &self,
        tenant: &TenantId,
        set: &ToolSet,
        output: Option<&OutputFormat>,
    ) -> Result<(), UpdateError> {
        let tools = self.client_tools.as_deref().unwrap_or_default();
        let output = output.and_then(|format| match format {
            OutputFormat::JsonSchema { schema, .. } => Some(schema),
            OutputFormat::JsonObject => None,
        });
        let schemas: Vec<_> = tools.iter().map(|tool| &tool.input_schema).chain(output).collect();
        let checked = set.schemas().compile_all(tenant.as_str(), &schemas).await;
        checked.map_err(|RefusedSchema { index, error }| match tools.get(index) {
            Some(tool) => UpdateError::Schema { name: tool.name.clone(), error },
            None => UpdateError::OutputSchema(error),
        })
    }

    /// The settings after this update, whose schemas are checked by [`Self::check_schemas`]. `seal` makes a secret unreadable; it is given the option's name and value.
    pub fn apply(
        &self,
        agent: &Agent,
        set: &ToolSet,
        config: &SessionConfig,
        seal: impl Fn(&str, &str) -> Result<String, SecretError>,
    ) -> Result<SessionConfig, UpdateError> {
        let mut config = config.clone();
        let (offered, internal) = (agent.offered(set), agent.internal(set));
        if let Some(tools) = &self.tools {
            for tool in tools {
                if let Some(trouble) = set.awaited(&tool.name).filter(|_| !offered.contains(&tool.name)) {
                    return Err(UpdateError::ToolUnavailable { name: tool.name.clone(), trouble });
                }
                if !offered.contains(&tool.name) {
                    return Err(UpdateError::UnknownTool {
                        agent: agent.name.clone(),
                        name: tool.name.clone(),
                        available: list(offered.iter().map(String::as_str)),
                    });
                }
            }
            config.tools.clone_from(tools);
            config.agent_tools = false;
        }
        config.agent_tools |= self.agent_tools;
        config.titled |= self.titled;
        if let Some(tools) = &self.client_tools {
            check_client_tools(agent, tools)?;
            config.client_tools.clone_from(tools);
        }
        let named = || config.tools.iter().map(|tool| tool.name.as_str());
        // Where all of the agent's tools are enabled, those that are named only say whom to trust.
        let own = offered.iter().filter(|_| config.agent_tools).map(String::as_str);
        let enabled = named().filter(|_| !config.agent_tools).chain(own);
        let client = config.client_tools.iter().map(|tool| tool.name.as_str());
        let internal = internal.iter().map(String::as_str);
        if let Some(twice) = repeated(named()).or_else(|| repeated(enabled.chain(client).chain(internal))) {
            return Err(UpdateError::DuplicateTool(twice.to_owned()));
        }
        for (name, value) in &self.options {
            if let Some(value) = option_value(agent, name, value, &seal)? {
                config.options.insert(name.clone(), value);
            }
        }
        if let Some(overlay) = &self.overlay {
            config.overlay = Some(overlay.clone());
        }
        config.notes.extend(self.notes.clone());
        let bytes = config.notes.iter().map(|(name, note)| name.len() + note.as_str().len()).sum();
        if bytes > MAX_NOTES_BYTES {
            return Err(UpdateError::NotesTooLong { bytes });
        }
        Ok(config)
    }
}

fn check_client_tools(agent: &Agent, tools: &[ToolSpec]) -> Result<(), UpdateError> {
    if !tools.is_empty() && !agent.capabilities.application_tools {
        return Err(UpdateError::NoClientTools(agent.name.clone()));
    }
    if tools.len() > MAX_CLIENT_TOOLS {
        return Err(UpdateError::TooManyClientTools { count: tools.len() });
    }
    match tools.iter().find(|tool| !is_tool_name(&tool.name)) {
        Some(tool) => Err(UpdateError::ToolName(tool.name.clone())),
        None => Ok(()),
    }
}

fn option_value(
    agent: &Agent,
    name: &str,
    value: &str,
    seal: impl Fn(&str, &str) -> Result<String, SecretError>,
) -> Result<Option<OptionValue>, UpdateError> {
    let Some(option) = agent.options.iter().find(|option| option.name() == name) else {
        return Err(UpdateError::UnknownOption {
            agent: agent.name.clone(),
            name: name.to_owned(),
            available: list(agent.options.iter().map(OptionSpec::name)),
        });
    };
    if value.len() > MAX_OPTION_BYTES {
        return Err(UpdateError::OptionTooLong { name: name.to_owned(), bytes: value.len() });
    }
    Ok(match option {
        OptionSpec::Secret { .. } if value == REDACTED => None,
        OptionSpec::Secret { .. } => Some(OptionValue::Sealed(seal(name, value)?)),
        OptionSpec::Text { .. } => Some(OptionValue::Plain(value.to_owned())),
        OptionSpec::Select { options, .. } if options.iter().any(|choice| choice == value) => {
            Some(OptionValue::Plain(value.to_owned()))
        }
        OptionSpec::Select { options, .. } => {
            return Err(UpdateError::NotAChoice {
                name: name.to_owned(),
                value: value.to_owned(),
                choices: list(options.iter().map(String::as_str)),
            });
        }
    })
}

/// The first name that was there before.
fn repeated<'a>(mut names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut seen = HashSet::new();
    names.find(|name| !seen.insert(*name))
}

fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
