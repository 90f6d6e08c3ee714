//! `tools` and `tool_choice`: what the model may call of the application's tools, and what it must.

use everturn_core::{Json, ToolChoice, ToolSpec};
use everturn_http::Object;

use crate::{
    error::ApiError,
    request::{AllowedIn, Anything, ChoiceIn, FunctionIn, NamedIn, ToolIn},
};

/// How many tools of its own an application may bring.
const MAX_TOOLS: usize = 128;
/// The input of a tool that does not say what it takes.
const NO_PARAMETERS: &str = r#"{"type":"object","properties":{}}"#;
/// What `tool_choice` can be.
const CHOICES: &str = "use \"auto\", \"none\", \"required\", {\"type\": \"function\", \"function\": {\"name\": …}} or \
                       {\"type\": \"allowed_tools\", \"allowed_tools\": {\"mode\": …, \"tools\": […]}}";

/// The names of those tools whose calls must fit their schema.
pub(crate) fn strict(offered: &[Object<ToolIn>]) -> Vec<String> {
    let functions = offered.iter().filter_map(|Object(tool)| tool.function.as_ref());
    let strict = functions.filter(|Object(function)| function.strict == Some(true));
    strict.map(|Object(function)| function.name.clone()).collect()
}

/// The application's tools.
pub(crate) fn tools(offered: Vec<Object<ToolIn>>) -> Result<Vec<ToolSpec>, ApiError> {
    if offered.len() > MAX_TOOLS {
        let message = format!("{} tools are too many, the limit is {MAX_TOOLS}", offered.len());
        return Err(ApiError::invalid("tools", message));
    }
    offered.into_iter().enumerate().map(|(index, Object(offered))| tool(index, offered)).collect()
}

fn tool(index: usize, tool: ToolIn) -> Result<ToolSpec, ApiError> {
    if tool.r#type != "function" {
        let shown: String = tool.r#type.chars().take(64).collect();
        let message = format!("tools of type {shown:?} are not supported; use \"function\"");
        return Err(ApiError::unsupported(&format!("tools[{index}].type"), message));
    }
    let missing = || ApiError::invalid(format!("tools[{index}].function"), "it is missing");
    let Object(FunctionIn { name, description, parameters, .. }) = tool.function.ok_or_else(missing)?;
    let place = format!("tools[{index}].function.parameters");
    let input_schema = match parameters {
        Some(parameters) => Json::from(parameters),
        None => Json::parse(NO_PARAMETERS).unwrap_or_else(|_| Json::empty_object()),
    };
    if !input_schema.is_object() {
        return Err(ApiError::invalid(place, "it must be a JSON Schema, which is an object"));
    }
    Ok(ToolSpec { name, title: None, description: description.unwrap_or_default(), input_schema })
}

/// What the model may or must call. Takes tools away that are not allowed.
pub(crate) fn choice(choice: &Anything, tools: &mut Vec<ToolSpec>) -> Result<Option<ToolChoice>, ApiError> {
    let Some(choice) = choice else { return Ok(None) };
    let invalid = || ApiError::invalid("tool_choice", CHOICES);
    if let Ok(word) = serde_json::from_str::<Option<String>>(choice.get()) {
        return match word.as_deref() {
            None => Ok(None),
            Some(word) => mode(word, tools).ok_or_else(invalid)?,
        };
    }
    let Object(ChoiceIn { r#type, function, allowed_tools }) =
        serde_json::from_str(choice.get()).map_err(|_| invalid())?;
    match r#type.as_str() {
        "function" => {
            let Object(NamedIn { name }) = function.ok_or_else(invalid)?;
            known(&name, tools)?;
            Ok(Some(ToolChoice::Named(name)))
        }
        "allowed_tools" => {
            let Object(AllowedIn { mode: word, tools: allowed }) = allowed_tools.ok_or_else(invalid)?;
            let mut names = Vec::new();
            for Object(allowed) in allowed {
                let Object(NamedIn { name }) = allowed.function.ok_or_else(invalid)?;
                known(&name, tools)?;
                names.push(name);
            }
            tools.retain(|tool| names.contains(&tool.name));
            mode(&word, tools).ok_or_else(invalid)?
        }
        _ => Err(invalid()),
    }
}

/// A choice that is one word; `None` for a word that is none. The agent's own tools are the agent's to call.
fn mode(word: &str, tools: &mut Vec<ToolSpec>) -> Option<Result<Option<ToolChoice>, ApiError>> {
    match word {
        "auto" => Some(Ok(None)),
        "none" => {
            tools.clear();
            Some(Ok(None))
        }
        "required" if tools.is_empty() => {
            let message = "\"required\" needs tools to choose from; send them in tools";
            Some(Err(ApiError::invalid("tool_choice", message)))
        }
        "required" => Some(Ok(Some(ToolChoice::Required))),
        _ => None,
    }
}

fn known(name: &str, tools: &[ToolSpec]) -> Result<(), ApiError> {
    if tools.iter().any(|tool| tool.name == name) {
        return Ok(());
    }
    let shown: String = name.chars().take(64).collect();
    Err(ApiError::invalid("tool_choice", format!("the tool {shown:?} is not in tools")))
}
