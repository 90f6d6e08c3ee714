//! Tools: their declarations, and whether the model must call them.

use std::borrow::Cow;

use everturn_core::{Json, ToolChoice, ToolSpec};
use serde::Serialize;
use serde_json::Value;

use crate::provider::{
    schema::{Rules, tool_schema},
    wire::Ask,
};

/// The longest name of a tool.
const MAX_NAME: usize = 128;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Tools<'a> {
    pub(super) function_declarations: Vec<Declaration<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Declaration<'a> {
    name: &'a str,
    description: &'a str,
    /// Takes all of JSON Schema, unlike `parameters`. Absent where there is nothing to be given.
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters_json_schema: Option<Cow<'a, Json>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolConfig<'a> {
    function_calling_config: CallingConfig<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CallingConfig<'a> {
    mode: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    allowed_function_names: Vec<&'a str>,
}

/// The tools that can be declared.
pub(super) fn declarations<'a>(ask: &Ask<'a>, notices: &mut Vec<String>) -> Vec<Declaration<'a>> {
    let mut declarations = Vec::with_capacity(ask.request.tools.len());
    for tool in ask.request.tools.iter().filter(|tool| !ask.learned.tools.contains(&tool.name)) {
        match declaration(tool) {
            Ok(declaration) => declarations.push(declaration),
            Err(reason) => notices.push(format!("the tool {} is left out: {reason}", tool.name)),
        }
    }
    declarations
}

fn declaration(tool: &ToolSpec) -> Result<Declaration<'_>, String> {
    if !is_name(&tool.name) {
        let rule = "a letter or underscore, then letters, digits and _.:-";
        return Err(format!("Gemini takes names of at most {MAX_NAME} characters, {rule}"));
    }
    let schema = tool_schema(&tool.input_schema, Rules::Gemini)?;
    let parameters_json_schema = takes_input(&schema).then_some(schema);
    Ok(Declaration { name: &tool.name, description: &tool.description, parameters_json_schema })
}

fn is_name(name: &str) -> bool {
    name.len() <= MAX_NAME
        && name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.:-".contains(c))
}

/// Whether a schema lets anything be given.
fn takes_input(schema: &Json) -> bool {
    let Value::Object(schema) = schema.to_value() else { return true };
    schema.iter().any(|(keyword, value)| match keyword.as_str() {
        "type" | "title" | "description" | "required" | "$schema" | "$id" => false,
        "properties" => value.as_object().is_none_or(|properties| !properties.is_empty()),
        "additionalProperties" => value != &Value::Bool(false),
        _ => true,
    })
}

/// Whether the model must, may or must not call tools. Must not be there without declarations.
pub(super) fn choice<'a>(
    ask: &Ask<'a>,
    declarations: &[Declaration<'a>],
    notices: &mut Vec<String>,
) -> Option<ToolConfig<'a>> {
    let (mode, named) = match ask.request.options.tool_choice.as_ref()? {
        ToolChoice::Auto => ("AUTO", None),
        ToolChoice::None => ("NONE", None),
        ToolChoice::Required => ("ANY", None),
        ToolChoice::Named(name) => ("ANY", Some(name.as_str())),
    };
    let is_declared = |name: &str| declarations.iter().any(|declaration| declaration.name == name);
    if let Some(name) = named
        && !is_declared(name)
    {
        notices.push(format!("tool_choice is not sent: there is no tool {name}"));
        return None;
    }
    if declarations.is_empty() {
        if mode == "ANY" {
            notices.push("tool_choice is not sent: there are no tools".to_owned());
        }
        return None;
    }
    let allowed_function_names = named.into_iter().collect();
    Some(ToolConfig { function_calling_config: CallingConfig { mode, allowed_function_names } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_without_anything_to_give_are_known() {
        for (schema, expected) in [
            (r#"{"type":"object"}"#, false),
            (r#"{"type":"object","properties":{},"required":[],"additionalProperties":false}"#, false),
            ("{}", false),
            (r#"{"type":"object","properties":{"a":{}}}"#, true),
            (r#"{"type":"object","additionalProperties":{"type":"string"}}"#, true),
            (r##"{"$ref":"#/$defs/a","$defs":{"a":{"type":"object"}}}"##, true),
        ] {
            assert_eq!(takes_input(&Json::parse(schema).unwrap()), expected, "{schema}");
        }
    }
}
