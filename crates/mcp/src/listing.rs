//! A server's tools, as far as they can be used.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use everturn_core::{EffectClass, Json, ToolSpec};
use everturn_tools::{ToolSetError, is_tool_name};
use rmcp::model::{ServerResult, Tool, ToolAnnotations};
use serde_json::{Map, Value};

use crate::{
    config::Bytes,
    connection::Connection,
    health::LeftOut,
    naming::tool_name,
    peek::Peeked,
    server::Server,
    tool::McpTool,
    words::{one_line, shortened},
};

/// Most tools of one server.
pub(crate) const MAX_TOOLS: usize = 512;
/// Most pages that a list is taken in.
const MAX_PAGES: usize = 100;
/// Longest name of a tool, in bytes.
const NAME_BYTES: usize = 256;
/// Longest title, in bytes.
const TITLE_BYTES: usize = 200;
/// Longest description, in bytes.
const DESCRIPTION_BYTES: usize = 8 * 1024;
/// Bytes of all schemas of one server.
const SCHEMAS_BYTES: usize = 2 * 1024 * 1024;
/// Tools that are told to be left out.
const TOLD: usize = 100;

/// What a server offers.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) tools: Vec<Arc<McpTool>>,
    pub(crate) left_out: Vec<LeftOut>,
}

/// Asks a server for its tools.
pub(crate) async fn list(connection: &Connection, server: &Arc<Server>) -> Result<Listing, String> {
    let mut found = Vec::new();
    let mut cursor = None;
    let mut cursors = HashSet::new();
    let mut listing = Listing::default();
    connection.ears.peeked.forget_tools();
    for _ in 0..MAX_PAGES {
        let (page, next) = match connection.list_page(cursor.take()).await? {
            None => return Ok(listing),
            Some(page) => read_page(page)?,
        };
        found.extend(page);
        if found.len() > MAX_TOOLS {
            break;
        }
        match next {
            // A server that leads us in a circle has told everything.
            Some(next) if cursors.insert(next.clone()) => cursor = Some(next),
            Some(_) | None => break,
        }
    }
    if found.len() > MAX_TOOLS || cursor.is_some() {
        found.truncate(MAX_TOOLS);
        let reason = format!("a server may have {MAX_TOOLS} tools on {MAX_PAGES} pages; the rest is left out");
        listing.left_out.push(LeftOut { tool: "(more)".to_owned(), reason });
    }
    listing.fill(found, server, &connection.ears.peeked);
    Ok(listing)
}

/// A tool, or why it cannot be read.
type Found = Result<Tool, LeftOut>;

fn read_page(page: ServerResult) -> Result<(Vec<Found>, Option<String>), String> {
    match page {
        ServerResult::ListToolsResult(page) => Ok((page.tools.into_iter().map(Ok).collect(), page.next_cursor)),
        // One tool that is not well formed makes the whole page unreadable for the SDK.
        ServerResult::CustomResult(page) => {
            let Value::Object(mut page) = page.0 else { return Err("its list of tools cannot be read".to_owned()) };
            let Some(Value::Array(tools)) = page.remove("tools") else {
                return Err("its list of tools cannot be read".to_owned());
            };
            let next = page.remove("nextCursor").and_then(|next| next.as_str().map(str::to_owned));
            Ok((tools.into_iter().map(read_tool).collect(), next))
        }
        _ => Err("its list of tools cannot be read".to_owned()),
    }
}

fn read_tool(tool: Value) -> Found {
    let name =
        tool.get("name").and_then(Value::as_str).map_or_else(|| "(no name)".to_owned(), |name| one_line(name, 100));
    serde_json::from_value(tool).map_err(|error| LeftOut {
        tool: name,
        reason: format!("its description is not one of MCP: {}", one_line(&error.to_string(), 300)),
    })
}

impl Listing {
    fn fill(&mut self, found: Vec<Found>, server: &Arc<Server>, peeked: &Peeked) {
        let mut names: HashMap<String, String> = HashMap::new();
        let mut schemas = 0;
        for tool in found {
            let checked = tool.and_then(|tool| {
                let leave_out = |reason| LeftOut { tool: one_line(&tool.name, 100), reason };
                if tool.name.is_empty() || tool.name.len() > NAME_BYTES {
                    let reason = format!("its name has {} bytes; 1 to {NAME_BYTES} are allowed", tool.name.len());
                    return Err(leave_out(reason));
                }
                if peeked.runs_as_task_only(&tool.name) {
                    return Err(leave_out("it runs as a task only, and tasks are not offered here".to_owned()));
                }
                let made = make(&tool, server).map_err(&leave_out)?;
                schemas += made.spec.input_schema.as_str().len();
                if schemas > SCHEMAS_BYTES {
                    return Err(leave_out(format!(
                        "the schemas of one server may have {} together",
                        Bytes(SCHEMAS_BYTES)
                    )));
                }
                if let Some(other) = names.insert(made.spec.name.clone(), made.tool.clone()) {
                    let reason = format!("it would be called {:?} here, as {other:?} is", made.spec.name);
                    names.insert(made.spec.name.clone(), other);
                    return Err(leave_out(reason));
                }
                Ok(made)
            });
            match checked {
                Ok(tool) => self.tools.push(Arc::new(tool)),
                Err(left_out) => self.left_out.push(left_out),
            }
        }
        if self.left_out.len() > TOLD {
            let more = self.left_out.len() - TOLD;
            self.left_out.truncate(TOLD);
            let reason = format!("and {more} more");
            self.left_out.push(LeftOut { tool: "(more)".to_owned(), reason });
        }
    }

    /// Takes those out that the set of tools did not take.
    pub(crate) fn without(&mut self, refused: &[ToolSetError]) {
        for error in refused {
            let (name, reason) = match error {
                ToolSetError::Duplicate { name } => (name, format!("there is another tool called {name:?}")),
                ToolSetError::Name { name } => (name, format!("{name:?} cannot be a tool's name")),
                ToolSetError::Schema { name, error } => (name, error.to_string()),
            };
            if let Some(at) = self.tools.iter().position(|tool| tool.spec.name == *name) {
                let tool = self.tools.remove(at);
                self.left_out.push(LeftOut { tool: one_line(&tool.tool, 100), reason });
            }
        }
    }
}

fn make(tool: &Tool, server: &Arc<Server>) -> Result<McpTool, String> {
    let name = tool_name(&server.config.name, &tool.name);
    debug_assert!(is_tool_name(&name));
    let annotations = tool.annotations.as_ref();
    let title = tool.title.as_ref().or_else(|| annotations?.title.as_ref());
    let title = title.map(|title| one_line(title, TITLE_BYTES)).filter(|title| !title.is_empty());
    let description = tool.description.as_deref().map(|text| shortened(text.trim(), DESCRIPTION_BYTES));
    let spec = ToolSpec {
        name,
        description: description.or_else(|| title.clone()).unwrap_or_default(),
        title,
        input_schema: for_objects(&tool.input_schema)?,
    };
    let effect = match server.config.effects.get(tool.name.as_ref()) {
        Some(effect) => *effect,
        None => effect(annotations),
    };
    Ok(McpTool { spec, effect, tool: tool.name.to_string(), server: Arc::clone(server) })
}

/// The schema of an object, in the form that every provider takes.
fn for_objects(schema: &Map<String, Value>) -> Result<Json, String> {
    let fits = match schema.get("type") {
        None => true,
        Some(Value::String(kind)) => kind == "object",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
        Some(_) => false,
    };
    if !fits {
        return Err("its input schema does not describe an object".to_owned());
    }
    let mut schema = schema.clone();
    schema.insert("type".to_owned(), "object".into());
    Json::of(&schema).map_err(|error| format!("its input schema cannot be read: {error}"))
}

/// What the server says about repetitions; without a word, the worst.
fn effect(annotations: Option<&ToolAnnotations>) -> EffectClass {
    match annotations {
        Some(hints) if hints.read_only_hint == Some(true) => EffectClass::ReadOnly,
        Some(hints) if hints.idempotent_hint == Some(true) => EffectClass::Idempotent,
        Some(_) | None => EffectClass::Effectful,
    }
}
