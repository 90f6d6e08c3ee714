//! Resources: texts and pages that a tool server has beside its tools.

use std::{fmt, sync::Arc};

use futures_util::future::BoxFuture;

use crate::ToolFailure;

/// A resource in a server's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceInfo {
    /// Its address at the server.
    pub uri: String,
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// Its media type.
    pub mime_type: Option<String>,
}

/// The content of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceText {
    /// The address that the server gave it, which may differ from the one that was asked for.
    pub uri: String,
    /// Its media type.
    pub mime_type: Option<String>,
    /// The text. Resources that are no text are not read.
    pub text: String,
}

/// The resources of one tool server. Both calls take as long as the server does: the caller bounds the time.
pub trait Resources: Send + Sync + fmt::Debug + 'static {
    /// The resources that the server lists; none if it has no resources.
    fn list(self: Arc<Self>) -> BoxFuture<'static, Result<Vec<ResourceInfo>, ToolFailure>>;

    /// The content of the resource with this address.
    fn read(self: Arc<Self>, uri: String) -> BoxFuture<'static, Result<ResourceText, ToolFailure>>;
}
