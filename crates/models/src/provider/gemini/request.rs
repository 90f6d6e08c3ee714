//! Requests.

use serde::Serialize;

use super::{
    config::{self, GenerationConfig},
    contents::{Content, contents},
    facts::facts,
    tools::{self, ToolConfig, Tools},
};
use crate::provider::wire::{Ask, Written};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Content<'a>>,
    contents: Vec<Content<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tools<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<ToolConfig<'a>>,
    #[serde(skip_serializing_if = "GenerationConfig::is_empty")]
    generation_config: GenerationConfig<'a>,
}

pub(super) fn write(ask: &Ask<'_>) -> Result<Written, serde_json::Error> {
    let facts = facts(ask.model);
    let mut notices = Vec::new();
    let declarations = tools::declarations(ask, &mut notices);
    let tool_config = tools::choice(ask, &declarations, &mut notices);
    let (generation_config, instruction) = config::generation(ask, facts, !declarations.is_empty(), &mut notices);
    let mut system = ask.request.system.clone();
    if let Some(instruction) = instruction {
        let gap = if system.is_empty() { "" } else { "\n\n" };
        system.extend([gap, &instruction]);
    }
    let body = serde_json::to_vec(&Body {
        system_instruction: (!system.is_empty()).then(|| Content::system(system)),
        contents: contents(ask, facts),
        tools: if declarations.is_empty() { vec![] } else { vec![Tools { function_declarations: declarations }] },
        tool_config,
        generation_config,
    })?;
    Ok(Written { body, notices, prefix: None })
}
