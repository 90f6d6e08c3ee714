//! `GET /meta`: the agents and what they offer.

use everturn_core::OptionSpec;
use everturn_engine::{Agent, Capabilities, Engine};
use serde_json::{Map, Value, json};

use crate::wire::ToolOut;

/// `MetaResponse`.
///
/// Everybody may read it; what is wrong with tool servers in their own words is for those who may call.
pub(crate) fn meta(engine: &Engine, may_call: bool) -> Value {
    let agents: Vec<_> = engine.agents().iter().map(|agent| agent_info(engine, agent, may_call)).collect();
    json!({ "version": 1, "agents": agents })
}

fn agent_info(engine: &Engine, agent: &Agent, may_call: bool) -> Value {
    let mut info = Map::new();
    info.insert("name".into(), json!(agent.name));
    if let Some(title) = &agent.title {
        info.insert("title".into(), json!(title));
    }
    info.insert("version".into(), json!(agent.version));
    if let Some(description) = &agent.description {
        info.insert("description".into(), json!(description));
    }
    let tools = agent.offered(engine.tools()).into_iter().filter_map(|name| engine.tools().get(&name));
    let tools: Vec<_> = tools.map(|tool| json!(ToolOut::from(tool.spec()))).collect();
    if !tools.is_empty() {
        info.insert("tools".into(), json!(tools));
    }
    // Told where its tools would be: who sets up a tool server looks here.
    let troubles = agent.troubles(engine.tools());
    if !troubles.is_empty() {
        let told = |(server, reason): (String, String)| {
            let reason = if may_call { reason } else { "it is not running".to_owned() };
            json!({ "server": server, "reason": reason })
        };
        info.insert("unavailableTools".into(), troubles.into_iter().map(told).collect());
    }
    if !agent.options.is_empty() {
        info.insert("options".into(), agent.options.iter().map(option).collect());
    }
    info.insert("capabilities".into(), capabilities(agent.capabilities));
    Value::Object(info)
}

/// The default of a secret is a secret too.
fn option(option: &OptionSpec) -> Value {
    let mut shown = json!(option);
    if option.is_secret() && !option.default_value().is_empty() {
        shown["default"] = json!(everturn_engine::REDACTED);
    }
    shown
}

fn capabilities(capabilities: Capabilities) -> Value {
    let Capabilities {
        history_compacted,
        history_full,
        stream_delta,
        stream_message,
        stream_none,
        application_tools,
        image_http,
        image_data,
    } = capabilities;
    let groups = [
        ("history", vec![("compacted", history_compacted), ("full", history_full)]),
        ("stream", vec![("delta", stream_delta), ("message", stream_message), ("none", stream_none)]),
        ("application", vec![("tools", application_tools)]),
        ("image", vec![("http", image_http), ("data", image_data)]),
    ];
    let group = |(name, members): (&str, Vec<(&str, bool)>)| {
        let declared = members.into_iter().filter(|(_, declared)| *declared);
        let declared: Map<_, _> = declared.map(|(member, _)| (member.to_owned(), json!({}))).collect();
        (!declared.is_empty()).then(|| (name.to_owned(), Value::Object(declared)))
    };
    Value::Object(groups.into_iter().filter_map(group).collect())
}
