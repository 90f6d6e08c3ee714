//! Tools, in the words of each version.

use everturn_core::{Json, ToolSpec};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

/// `ToolSpec` of version 1, as clients send it.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = aap::v1::NewTool)]
#[serde(rename_all = "camelCase")]
pub(crate) struct V1In {
    /// Unique among the session's tools.
    #[schema(pattern = "^[A-Za-z0-9_-]{1,64}$")]
    name: String,
    /// A name for people.
    title: Option<String>,
    /// What it does, for the model.
    description: String,
    /// JSON Schema of its input.
    #[schema(value_type = Object)]
    input_schema: Box<RawValue>,
}

/// `ToolSpec` of version 3, as clients send it.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = aap::v3::NewTool)]
pub(crate) struct V3In {
    /// Unique among the session's tools.
    #[schema(pattern = "^[A-Za-z0-9_-]{1,64}$")]
    name: String,
    /// A name for people.
    title: Option<String>,
    /// What it does, for the model.
    description: String,
    /// JSON Schema of its input.
    #[schema(value_type = Object)]
    parameters: Box<RawValue>,
}

impl V3In {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl From<V1In> for ToolSpec {
    fn from(tool: V1In) -> Self {
        let V1In { name, title, description, input_schema } = tool;
        Self { name, title, description, input_schema: Json::from(input_schema) }
    }
}

impl From<V3In> for ToolSpec {
    fn from(tool: V3In) -> Self {
        let V3In { name, title, description, parameters } = tool;
        Self { name, title, description, input_schema: Json::from(parameters) }
    }
}

/// `ToolSpec` of version 1, as clients are sent it.
#[derive(Serialize, ToSchema)]
#[schema(as = aap::v1::Tool)]
#[serde(rename_all = "camelCase")]
pub(crate) struct V1Out<'a> {
    /// Its name.
    name: &'a str,
    /// A name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    title: Option<&'a str>,
    /// What it does, for the model.
    description: &'a str,
    /// JSON Schema of its input.
    #[schema(value_type = Object)]
    input_schema: &'a Json,
}

/// `ToolSpec` of version 3, as clients are sent it.
#[derive(Serialize, ToSchema)]
#[schema(as = aap::v3::Tool)]
pub(crate) struct V3Out<'a> {
    /// Its name.
    name: &'a str,
    /// A name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    title: Option<&'a str>,
    /// What it does, for the model.
    description: &'a str,
    /// JSON Schema of its input.
    #[schema(value_type = Object)]
    parameters: &'a Json,
}

impl<'a> From<&'a ToolSpec> for V1Out<'a> {
    fn from(tool: &'a ToolSpec) -> Self {
        let ToolSpec { name, title, description, input_schema } = tool;
        Self { name, title: title.as_deref(), description, input_schema }
    }
}

impl<'a> From<&'a ToolSpec> for V3Out<'a> {
    fn from(tool: &'a ToolSpec) -> Self {
        let ToolSpec { name, title, description, input_schema } = tool;
        Self { name, title: title.as_deref(), description, parameters: input_schema }
    }
}
