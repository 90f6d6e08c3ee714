//! The tools of a server, by name.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use everturn_core::Json;
use tokio::{sync::watch, time::Instant};

use crate::{Resources, Schema, SchemaCheck, SchemaError, Schemas, Tool, schemas::SERVER_WEIGHT};

/// Tools with their compiled schemas. Names are unique.
///
/// Some are there from the start; those of tool servers come and go while the server runs.
#[derive(Debug, Default)]
pub struct ToolSet {
    current: RwLock<Current>,
    /// Changes whenever a tool server has said how it is.
    news: watch::Sender<()>,
    schemas: Schemas,
}

#[derive(Debug, Default)]
struct Current {
    tools: BTreeMap<String, Entry>,
    servers: BTreeMap<String, ServerTools>,
    resources: BTreeMap<String, Arc<dyn Resources>>,
}

#[derive(Debug)]
struct Entry {
    tool: Arc<dyn Tool>,
    schema: Arc<Schema>,
}

/// What is known of a tool server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerTools {
    /// Why its tools cannot be used now, if so. Those that were known before are still listed.
    pub trouble: Option<String>,
    /// Set while it is being started: since when.
    pub starts: Option<Instant>,
    /// Rises whenever its list of tools changes.
    pub revision: u64,
    /// The names of its tools here.
    pub tools: Vec<String>,
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
        let mut current = Current::default();
        tools.into_iter().try_for_each(|tool| current.add(Entry::of(tool, &mut 0)?))?;
        Ok(Self { current: RwLock::new(current), news: watch::Sender::default(), schemas: Schemas::default() })
    }

    /// The schemas that come with requests, and from models and tool servers.
    pub fn schemas(&self) -> &Schemas {
        &self.schemas
    }

    /// Says that a tool server is being started.
    pub fn start_server(&self, server: &str) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let known = current.servers.entry(server.to_owned()).or_default();
        known.trouble = Some("it is being started".to_owned());
        known.starts.get_or_insert_with(Instant::now);
        drop(current);
        self.news.send_replace(());
    }

    /// Waits until none of these tool servers is being started for the first time, for so long after it began to be.
    pub async fn started(&self, servers: &[&str], patience: Duration) {
        let mut news = self.news.subscribe();
        let ends = |known: &ServerTools| Some(known.starts.filter(|_| known.revision == 0)? + patience);
        let last =
            || self.read(|current| servers.iter().filter_map(|server| ends(current.servers.get(*server)?)).max());
        while let Some(until) = last().filter(|until| *until > Instant::now()) {
            let _ = tokio::time::timeout_at(until, news.changed()).await;
        }
    }

    /// Says how a tool server is: with these tools, all of them, or why it has none to use now. Until this was said for the
    /// first time, nothing is known of the server. A tool that cannot be taken is left out; the others are there.
    pub fn set_server(&self, server: &str, tools: Result<Vec<Arc<dyn Tool>>, String>) -> Vec<ToolSetError> {
        // Before the lock: to compile schemas takes a while, and everybody looks at the set.
        let mut weight = 0;
        let tools = tools.map(|tools| tools.into_iter().map(|tool| Entry::of(tool, &mut weight)).collect::<Vec<_>>());
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let mut known = current.servers.remove(server).unwrap_or_default();
        let mut refused = Vec::new();
        known.starts = None;
        match tools {
            Err(trouble) => known.trouble = Some(trouble),
            Ok(tools) => {
                known.trouble = None;
                let former: Vec<_> =
                    std::mem::take(&mut known.tools).iter().filter_map(|name| current.tools.remove(name)).collect();
                for entry in tools {
                    let name = entry.as_ref().map(|entry| entry.tool.spec().name.clone()).unwrap_or_default();
                    match entry.and_then(|entry| current.add(entry)) {
                        Ok(()) => known.tools.push(name),
                        Err(error) => refused.push(error),
                    }
                }
                let spec = |name: &String| current.tools.get(name).map(|entry| entry.tool.spec());
                let same = former.len() == known.tools.len()
                    && former.iter().zip(&known.tools).all(|(former, name)| Some(former.tool.spec()) == spec(name));
                // A server that comes back with what it had is no news.
                if known.revision == 0 || !same {
                    known.revision += 1;
                }
            }
        }
        current.servers.insert(server.to_owned(), known);
        drop(current);
        self.news.send_replace(());
        refused
    }

    /// Forgets a tool server and its tools.
    pub fn remove_server(&self, server: &str) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        current.resources.remove(server);
        for name in current.servers.remove(server).map(|known| known.tools).unwrap_or_default() {
            current.tools.remove(&name);
        }
        drop(current);
        self.news.send_replace(());
    }

    /// What is the matter with the tool server that a missing tool of this name would come from, if that server has not told
    /// its tools yet. `None` if the tool is there, or will not come.
    pub fn awaited(&self, name: &str) -> Option<String> {
        self.read(|current| {
            let is_its = |server: &str| name.strip_prefix(server).is_some_and(|rest| rest.starts_with("__"));
            let mut untold = current.servers.iter().filter(|(_, known)| known.revision == 0);
            let (_, known) = untold.find(|(server, _)| is_its(server)).filter(|_| !current.tools.contains_key(name))?;
            Some(known.trouble.clone().unwrap_or_default())
        })
    }

    /// Waits until a tool is there that is [`Self::awaited`], or will not come. Who calls this bounds the time.
    pub async fn arrival(&self, name: &str) {
        let mut news = self.news.subscribe();
        while self.awaited(name).is_some() && news.changed().await.is_ok() {}
    }

    /// What is known of each tool server.
    pub fn servers(&self) -> BTreeMap<String, ServerTools> {
        self.read(|current| current.servers.clone())
    }

    /// Says where the resources of a tool server are read.
    pub fn set_resources(&self, server: &str, resources: Arc<dyn Resources>) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        current.resources.insert(server.to_owned(), resources);
    }

    /// The resources of a tool server; `None` if there is no such server, or it cannot have any.
    pub fn resources(&self, server: &str) -> Option<Arc<dyn Resources>> {
        self.read(|current| current.resources.get(server).cloned())
    }

    /// The tool of this name.
    pub fn get(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.read(|current| current.tools.get(name).map(|entry| Arc::clone(&entry.tool)))
    }

    /// All tools, ordered by name.
    pub fn all(&self) -> Vec<Arc<dyn Tool>> {
        self.read(|current| current.tools.values().map(|entry| Arc::clone(&entry.tool)).collect())
    }

    /// All names, in order.
    pub fn names(&self) -> Vec<String> {
        self.read(|current| current.tools.keys().cloned().collect())
    }

    /// The tools that these patterns name, in their order, each once. A pattern is a tool's name, or `server/tool` or
    /// `server/*` for tools of a server.
    pub fn named(&self, patterns: &[String]) -> Vec<Arc<dyn Tool>> {
        self.read(|current| {
            let mut found: Vec<Arc<dyn Tool>> = Vec::new();
            for pattern in patterns {
                let new = |tool: &Arc<dyn Tool>, found: &[Arc<dyn Tool>]| {
                    names(pattern, tool.as_ref()) && !found.iter().any(|other| other.spec().name == tool.spec().name)
                };
                match current.tools.get(pattern) {
                    Some(entry) if new(&entry.tool, &found) => found.push(Arc::clone(&entry.tool)),
                    Some(_) => {}
                    None if !pattern.contains('/') => {}
                    None => {
                        for entry in current.tools.values() {
                            if new(&entry.tool, &found) {
                                found.push(Arc::clone(&entry.tool));
                            }
                        }
                    }
                }
            }
            found
        })
    }

    /// Whether the input fits the tool of this name. The message is for the model that made the call.
    pub async fn validate(&self, tenant: &str, name: &str, input: &Json) -> Result<(), String> {
        let schema = self.read(|current| current.tools.get(name).map(|entry| Arc::clone(&entry.schema)));
        let schema = schema.ok_or_else(|| format!("there is no tool called {name:?}"))?;
        self.schemas.validate(tenant, &schema, input).await
    }

    fn read<T>(&self, look: impl FnOnce(&Current) -> T) -> T {
        look(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Whether a pattern, see [`ToolSet::named`], names a tool.
fn names(pattern: &str, tool: &dyn Tool) -> bool {
    match (pattern.split_once('/'), tool.origin()) {
        (Some((server, name)), Some(origin)) => server == origin.server && (name == "*" || name == origin.tool),
        (Some(_), None) => false,
        (None, _) => pattern == tool.spec().name,
    }
}

impl Entry {
    /// `weight` is that of the regular expressions of the tools of the same server before.
    fn of(tool: Arc<dyn Tool>, weight: &mut u64) -> Result<Self, ToolSetError> {
        let name = tool.spec().name.clone();
        if !is_tool_name(&name) {
            return Err(ToolSetError::Name { name });
        }
        let mut compile = || {
            let surveyed = SchemaCheck::default().look_through(&tool.spec().input_schema)?;
            let together = weight.saturating_add(surveyed.weight());
            if together > SERVER_WEIGHT {
                return Err(SchemaError::HeavyTogether { weight: together, max: SERVER_WEIGHT });
            }
            *weight = together;
            surveyed.compile()
        };
        let schema = compile().map_err(|error| ToolSetError::Schema { name, error })?;
        Ok(Self { tool, schema: Arc::new(schema) })
    }
}

impl Current {
    fn add(&mut self, entry: Entry) -> Result<(), ToolSetError> {
        let name = entry.tool.spec().name.clone();
        if self.tools.contains_key(&name) {
            return Err(ToolSetError::Duplicate { name });
        }
        self.tools.insert(name, entry);
        Ok(())
    }
}
