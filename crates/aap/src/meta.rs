//! `GET /meta`: the agents and what they offer.

use std::sync::Arc;

use everturn_core::{OptionSpec, ToolSpec};
use everturn_engine::{Agent, Capabilities, Engine, REDACTED};
use everturn_http::document::schema;
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::{
    ToSchema,
    openapi::{RefOr, Schema},
};

use crate::version::Version;

/// `GetMetaResponse`, with tools in the words of a version.
#[derive(Serialize, ToSchema)]
#[schema(as = aap::Meta)]
pub(crate) struct MetaOut<'a, T> {
    /// Version of the protocol.
    version: u32,
    /// What there is to talk to.
    agents: Vec<AgentInfoOut<'a, T>>,
}

/// `AgentInfo`.
#[derive(Serialize, ToSchema)]
#[schema(as = aap::Agent)]
#[serde(rename_all = "camelCase")]
struct AgentInfoOut<'a, T> {
    /// Its name, unique on this server.
    name: &'a str,
    /// A name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    title: Option<&'a str>,
    /// Its semantic version.
    version: &'a str,
    /// What it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    description: Option<&'a str>,
    /// Server-side tools that can be enabled.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    tools: Vec<T>,
    /// Tool servers that are not there, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    unavailable_tools: Vec<TroubleOut<'a>>,
    /// What can be set.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false, schema_with = options_schema)]
    options: Vec<OptionSpec>,
    /// What it can do; what is absent it cannot.
    #[schema(schema_with = capabilities_schema)]
    capabilities: Value,
}

/// A tool server that is not there.
#[derive(Serialize, ToSchema)]
#[schema(as = aap::UnavailableTools)]
struct TroubleOut<'a> {
    /// The server.
    server: &'a str,
    /// What is the matter.
    reason: &'a str,
}

/// What an agent offers at the moment.
pub(crate) struct Offer {
    agent: Arc<Agent>,
    tools: Vec<ToolSpec>,
    troubles: Vec<(String, String)>,
}

/// What all agents offer.
///
/// Everybody may read it; what is wrong with tool servers in their own words is for those who may call.
pub(crate) fn offers(engine: &Engine, may_call: bool) -> Vec<Offer> {
    let told =
        |(server, reason): (String, String)| (server, if may_call { reason } else { "it is not running".to_owned() });
    let offer = |agent: &Arc<Agent>| {
        let tools = agent.offered(engine.tools()).into_iter().filter_map(|name| engine.tools().get(&name));
        Offer {
            agent: Arc::clone(agent),
            tools: tools.map(|tool| tool.spec().clone()).collect(),
            troubles: agent.troubles(engine.tools()).into_iter().map(told).collect(),
        }
    };
    engine.agents().all().iter().map(offer).collect()
}

impl<'a, T: From<&'a ToolSpec>> MetaOut<'a, T> {
    pub(crate) fn new(version: Version, offers: &'a [Offer]) -> Self {
        Self { version: version.number(), agents: offers.iter().map(AgentInfoOut::new).collect() }
    }
}

impl<'a, T: From<&'a ToolSpec>> AgentInfoOut<'a, T> {
    fn new(offer: &'a Offer) -> Self {
        let Offer { agent, tools, troubles } = offer;
        Self {
            name: &agent.name,
            title: agent.title.as_deref(),
            version: &agent.version,
            description: agent.description.as_deref(),
            tools: tools.iter().map(T::from).collect(),
            unavailable_tools: troubles.iter().map(|(server, reason)| TroubleOut { server, reason }).collect(),
            options: agent.options.iter().map(option).collect(),
            capabilities: capabilities(agent.capabilities),
        }
    }
}

/// The default of a secret is a secret too.
fn option(option: &OptionSpec) -> OptionSpec {
    let mut shown = option.clone();
    if let OptionSpec::Secret { default, .. } = &mut shown
        && !default.is_empty()
    {
        REDACTED.clone_into(default);
    }
    shown
}

/// The groups of capabilities and their members.
fn groups(capabilities: Capabilities) -> [(&'static str, Vec<(&'static str, bool)>); 4] {
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
    [
        ("history", vec![("compacted", history_compacted), ("full", history_full)]),
        ("stream", vec![("delta", stream_delta), ("message", stream_message), ("none", stream_none)]),
        ("application", vec![("tools", application_tools)]),
        ("image", vec![("http", image_http), ("data", image_data)]),
    ]
}

fn capabilities(capabilities: Capabilities) -> Value {
    let group = |(name, members): (&str, Vec<(&str, bool)>)| {
        let declared = members.into_iter().filter(|(_, declared)| *declared);
        let declared: Map<_, _> = declared.map(|(member, _)| (member.to_owned(), json!({}))).collect();
        (!declared.is_empty()).then(|| (name.to_owned(), Value::Object(declared)))
    };
    Value::Object(groups(capabilities).into_iter().filter_map(group).collect())
}

fn capabilities_schema() -> RefOr<Schema> {
    let member = |(name, _): (&str, bool)| (name.to_owned(), json!({ "type": "object", "maxProperties": 0 }));
    let group = |(name, members): (&str, Vec<(&'static str, bool)>)| {
        let members: Map<_, _> = members.into_iter().map(member).collect();
        (name.to_owned(), json!({ "type": "object", "properties": members, "additionalProperties": false }))
    };
    let groups: Map<_, _> = groups(Capabilities::default()).into_iter().map(group).collect();
    schema(json!({ "type": "object", "properties": groups, "additionalProperties": false }))
}

fn options_schema() -> RefOr<Schema> {
    let text = json!({ "type": "string" });
    let option = |kind: &[&str], more: Value, required: &[&str]| {
        let mut properties = json!({
            "type": { "type": "string", "enum": kind },
            "name": text,
            "title": text,
            "description": text,
            "default": text,
        });
        if let (Some(properties), Value::Object(more)) = (properties.as_object_mut(), more) {
            properties.extend(more);
        }
        json!({ "type": "object", "properties": properties, "required": required })
    };
    let choices = json!({ "options": { "type": "array", "items": text } });
    let options = [
        option(&["text", "secret"], json!({}), &["type", "name", "default"]),
        option(&["select"], choices, &["type", "name", "default", "options"]),
    ];
    schema(json!({ "type": "array", "items": { "oneOf": options } }))
}
