//! The tools of a server, by name.

use std::{collections::BTreeMap, sync::Arc};

use everturn_core::Json;

use crate::{Schema, SchemaCheck, SchemaError, Tool};

/// Tools with their compiled schemas. Names are unique.
#[derive(Debug, Default)]
pub struct ToolSet {
    tools: BTreeMap<String, Entry>,
}

#[derive(Debug)]
struct Entry {
    tool: Arc<dyn Tool>,
    schema: Schema,
}

/// Why tools do not make a set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ToolSetError {
    /// Two tools have one name.
    #[error("there are two tools called {name:?}")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// A name that model providers do not take.
    #[error("{name:?} cannot be a tool's name: it must have 1 to 64 characters of A-Z a-z 0-9 _ -")]
    Name {
        /// The name.
        name: String,
    },
    /// A schema that cannot be used.
    #[error("tool {name:?}: {error}")]
    Schema {
        /// The tool.
        name: String,
        /// What is wrong.
        #[source]
        error: SchemaError,
    },
}

/// Whether model providers take this as a tool's name: 1 to 64 characters of `A-Z a-z 0-9 _ -`.
pub fn is_tool_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    (1..=64).contains(&name.len()) && name.chars().all(allowed)
}

impl ToolSet {
    /// A set of these tools.
    pub fn new(tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Result<Self, ToolSetError> {
        let mut set = Self::default();
        for tool in tools {
            let name = tool.spec().name.clone();
            if !is_tool_name(&name) {
                return Err(ToolSetError::Name { name });
            }
            let schema = SchemaCheck::default()
                .compile(&tool.spec().input_schema)
                .map_err(|error| ToolSetError::Schema { name: name.clone(), error })?;
            if set.tools.insert(name.clone(), Entry { tool, schema }).is_some() {
                return Err(ToolSetError::Duplicate { name });
            }
        }
        Ok(set)
    }

    /// The tool of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.get(name).map(|entry| &entry.tool)
    }

    /// All tools, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.tools.values().map(|entry| &entry.tool)
    }

    /// All names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.keys().map(String::as_str)
    }

    /// Whether the input fits the tool of this name. The message is for the model that made the call.
    pub fn validate(&self, name: &str, input: &Json) -> Result<(), String> {
        match self.tools.get(name) {
            Some(entry) => entry.schema.validate(input),
            None => Err(format!("there is no tool called {name:?}")),
        }
    }
}
