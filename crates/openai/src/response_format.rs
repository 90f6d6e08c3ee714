//! `response_format`: the shape of the answer.

use everturn_core::{Json, OutputFormat};
use everturn_http::Object;

use crate::{
    error::ApiError,
    request::{FormatIn, JsonSchemaIn},
};

/// Longest name of a schema, as OpenAI has it.
const MAX_NAME: usize = 64;

/// The shape that is asked for; `None` for plain text.
pub(crate) fn output(format: Option<Object<FormatIn>>) -> Result<Option<OutputFormat>, ApiError> {
    let Some(Object(FormatIn { r#type, json_schema })) = format else { return Ok(None) };
    match r#type.as_str() {
        "text" => Ok(None),
        "json_object" => Ok(Some(OutputFormat::JsonObject)),
        "json_schema" => {
            let missing = |field: &str| ApiError::invalid(format!("response_format.{field}"), "it is missing");
            let Object(json_schema) = json_schema.ok_or_else(|| missing("json_schema"))?;
            schema(json_schema, missing).map(Some)
        }
        other => {
            let shown: String = other.chars().take(64).collect();
            let message = format!("{shown:?} is not supported; use \"text\", \"json_object\" or \"json_schema\"");
            Err(ApiError::unsupported("response_format.type", message))
        }
    }
}

fn schema(json_schema: JsonSchemaIn, missing: impl Fn(&str) -> ApiError) -> Result<OutputFormat, ApiError> {
    let JsonSchemaIn { name, description, schema, strict } = json_schema;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(is_name) {
        let shown: String = name.chars().take(MAX_NAME).collect();
        let message = format!("{shown:?} must have 1 to {MAX_NAME} characters of A-Z, a-z, 0-9, _ and -");
        return Err(ApiError::invalid("response_format.json_schema.name", message));
    }
    let schema = Json::from(schema.ok_or_else(|| missing("json_schema.schema"))?);
    Ok(OutputFormat::JsonSchema { name, description, schema, strict: strict.unwrap_or(false) })
}
