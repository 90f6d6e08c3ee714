//! A server's resources, as callers read them.

use std::sync::Arc;

use everturn_tools::{ResourceInfo, ResourceText, Resources, ToolFailure};
use futures_util::future::BoxFuture;
use rmcp::model::{ResourceContents, ServerResult};

use crate::{
    server::Server,
    words::{one_line, shortened},
};

/// Most resources of one server that are listed.
const MAX_RESOURCES: usize = 256;
/// Longest address, name or media type, in bytes.
const NAME_BYTES: usize = 2 * 1024;
/// Longest description, in bytes.
const DESCRIPTION_BYTES: usize = 8 * 1024;
/// Longest text of a resource, in bytes.
const TEXT_BYTES: usize = 4 * 1024 * 1024;

impl Resources for Server {
    fn list(self: Arc<Self>) -> BoxFuture<'static, Result<Vec<ResourceInfo>, ToolFailure>> {
        Box::pin(async move {
            let listed = self.connection()?.list_resources().await.map_err(|error| self.failure(&error))?;
            let listed = match listed {
                None => Vec::new(),
                Some(ServerResult::ListResourcesResult(page)) => page.resources,
                Some(_) => return Err(self.failure("its list of resources cannot be read")),
            };
            let info = |resource: rmcp::model::Resource| ResourceInfo {
                uri: resource.uri,
                name: one_line(&resource.name, NAME_BYTES),
                description: resource.description.map(|text| shortened(&text, DESCRIPTION_BYTES)),
                mime_type: resource.mime_type.map(|kind| one_line(&kind, NAME_BYTES)),
            };
            // An address that was shortened would lead nowhere.
            let usable = listed.into_iter().filter(|resource| resource.uri.len() <= NAME_BYTES);
            Ok(usable.take(MAX_RESOURCES).map(info).collect())
        })
    }

    fn read(self: Arc<Self>, uri: String) -> BoxFuture<'static, Result<ResourceText, ToolFailure>> {
        Box::pin(async move {
            let answer = self.connection()?.read_resource(uri).await.map_err(|error| self.failure(&error))?;
            let ServerResult::ReadResourceResult(result) = answer else {
                return Err(self.failure("its answer is not the content of a resource"));
            };
            match result.contents.into_iter().next() {
                Some(ResourceContents::TextResourceContents { uri, mime_type, text, .. })
                    if text.len() <= TEXT_BYTES =>
                {
                    Ok(ResourceText { uri, mime_type, text: self.secrets.hide(text) })
                }
                Some(ResourceContents::TextResourceContents { text, .. }) => {
                    Err(self.failure(&format!("the resource has {} bytes, the limit is {TEXT_BYTES}", text.len())))
                }
                Some(_) => Err(self.failure("the resource is no text")),
                None => Err(self.failure("the resource is empty")),
            }
        })
    }
}

impl Server {
    fn failure(&self, reason: &str) -> ToolFailure {
        ToolFailure(self.secrets.hide(format!("MCP server {:?}: {reason}", self.config.name)))
    }
}
