//! What servers offered when they were last asked, kept for as long as they are configured.
//!
//! A conversation's tools must not change because the process was started again and a server has not come back yet: providers
//! cache what they are sent from its beginning, and some refuse their own reasoning after another beginning.

use std::{fmt, sync::Arc};

use everturn_core::{EffectClass, Json, ToolSpec};
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{Endpoint, ServerConfig, listing::Listing, server::Server, tool::McpTool};

/// Where lists are kept.
pub trait KeptLists: fmt::Debug + Send + Sync {
    /// The list under a key, if there is one that can be read.
    fn load(&self, key: String) -> BoxFuture<'static, Option<Json>>;

    /// Keeps a list. Nothing depends on it.
    fn keep(&self, key: String, list: Json) -> BoxFuture<'static, ()>;
}

/// A tool as it is kept.
#[derive(Serialize, Deserialize)]
struct KeptTool {
    tool: String,
    name: String,
    title: Option<String>,
    description: String,
    input_schema: Json,
    effect: EffectClass,
}

/// What the list of a server is kept under: another program or address is another server.
pub(crate) fn key(config: &ServerConfig) -> String {
    let digest = match &config.endpoint {
        Endpoint::Stdio { program, arguments, .. } => {
            arguments.iter().fold(Sha256::new().chain_update(program), |digest, argument| {
                digest.chain_update([0]).chain_update(argument)
            })
        }
        Endpoint::Http { url, .. } => Sha256::new().chain_update(url),
    };
    let digest: [u8; 32] = digest.finalize().into();
    let digest: String = digest[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}#{digest}", config.name)
}

/// A list as it is kept. `None` if it cannot be written.
pub(crate) fn write(listing: &Listing) -> Option<Json> {
    let tools: Vec<KeptTool> = listing
        .tools
        .iter()
        .map(|tool| {
            let ToolSpec { name, title, description, input_schema } = tool.spec.clone();
            KeptTool { tool: tool.tool.clone(), name, title, description, input_schema, effect: tool.effect }
        })
        .collect();
    Json::of(&tools).ok()
}

/// The list that was kept of a server.
pub(crate) fn read(list: &Json, server: &Arc<Server>) -> Option<Listing> {
    let tools: Vec<KeptTool> = serde_json::from_str(list.as_str()).ok()?;
    let tools = tools.into_iter().map(|kept| {
        let KeptTool { tool, name, title, description, input_schema, effect } = kept;
        let effect = server.config.effects.get(&tool).copied().unwrap_or(effect);
        let spec = ToolSpec { name, title, description, input_schema };
        Arc::new(McpTool { spec, effect, tool, server: Arc::clone(server) })
    });
    Some(Listing { tools: tools.collect(), left_out: Vec::new() })
}
