//! `/agents`: those that are configured, and profiles that a tenant has stored beside them.

use std::borrow::Cow;

use axum::{
    Json,
    body::Body,
    extract::{Query, State, rejection::QueryRejection},
    response::{IntoResponse, Response},
};
use everturn_core::{Effort, Thinking};
use everturn_engine::{Agent, Profile, ProfileError, StoredProfile};
use everturn_http::{Object, Scope, document, parse_json, read_body, submission_key};
use everturn_tools::ToolSet;
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    answers::{AgentChanged, AgentFixed, AgentTaken, Always, Keyed, Listed, NoAgent, Posted},
    error::{ApiError, Thing},
    model_options, nullable,
    paging::{List, ListQuery, Page, Paged},
    path,
    routes::Api,
    time::rfc3339,
};

/// Most model calls in one turn of an agent that does not say so.
const DEFAULT_STEPS: u32 = 25;

/// A page of agents.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = native::Agents)]
struct Agents<'a> {
    agents: Vec<AgentOut<'a>>,
    /// For the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    next_cursor: Option<String>,
}

/// An agent.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = native::Agent)]
struct AgentOut<'a> {
    agent_id: &'a str,
    /// A name for people.
    name: &'a str,
    #[schema(required)]
    description: Option<&'a str>,
    /// Of stored ones only: those of the configuration are the operator's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    instructions: Option<&'a str>,
    /// `provider/model`.
    model: &'a str,
    /// Models to fall back on.
    fallback: Vec<&'a str>,
    tools: &'a [String],
    /// Of these, the ones that run without asking.
    trusted: &'a [String],
    /// Tool servers whose tools cannot be used now.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unavailable: Vec<Unavailable>,
    /// Most model calls in one turn.
    max_steps: u32,
    /// How hard its models think.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = model_options::effort_word)]
    effort: Option<&'static str>,
    /// Whether its models think, and whether a summary of it is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = model_options::thinking_word)]
    thinking: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 0, maximum = 2)]
    temperature: Option<f64>,
    #[schema(schema_with = sources)]
    source: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, format = DateTime)]
    created_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, format = DateTime)]
    updated_at: Option<String>,
}

fn from_thousandths(thousandths: u32) -> f64 {
    f64::from(thousandths) / 1000.0
}

fn sources() -> document::AnySchema {
    document::schema(json!({ "type": "string", "enum": ["configured", "stored"] }))
}

/// A tool server that cannot be used now.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = native::UnavailableServer)]
struct Unavailable {
    server: String,
    reason: String,
}

impl<'a> AgentOut<'a> {
    /// A configured agent, with what is the matter with its tool servers.
    fn configured(agent: &'a Agent, tools: &ToolSet) -> Self {
        let troubles = agent.troubles(tools).into_iter();
        Self { unavailable: troubles.map(|(server, reason)| Unavailable { server, reason }).collect(), ..agent.into() }
    }
}

impl<'a> From<&'a Agent> for AgentOut<'a> {
    fn from(agent: &'a Agent) -> Self {
        let mut models = agent.models.iter().map(|model| model.name());
        Self {
            agent_id: &agent.name,
            name: agent.title.as_deref().unwrap_or(&agent.name),
            description: agent.description.as_deref(),
            instructions: None,
            model: models.next().unwrap_or_default(),
            fallback: models.collect(),
            tools: &agent.tools,
            trusted: &agent.trusted,
            unavailable: Vec::new(),
            max_steps: agent.max_steps,
            effort: agent.model_options.effort.map(Effort::as_str),
            thinking: agent.model_options.thinking.map(Thinking::as_str),
            temperature: agent.model_options.temperature.map(from_thousandths),
            source: "configured",
            created_at: None,
            updated_at: None,
        }
    }
}

impl<'a> From<&'a StoredProfile> for AgentOut<'a> {
    fn from(stored: &'a StoredProfile) -> Self {
        let profile = &stored.profile;
        Self {
            agent_id: &stored.id,
            name: &profile.name,
            description: profile.description.as_deref(),
            instructions: Some(&profile.instructions),
            model: &profile.model,
            fallback: profile.fallback.iter().map(String::as_str).collect(),
            tools: &profile.tools,
            trusted: &profile.trusted,
            unavailable: Vec::new(),
            max_steps: profile.max_steps,
            effort: profile.effort.map(Effort::as_str),
            thinking: profile.thinking.map(Thinking::as_str),
            temperature: profile.temperature.map(from_thousandths),
            source: "stored",
            created_at: Some(rfc3339(stored.created_at)),
            updated_at: Some(rfc3339(stored.updated_at)),
        }
    }
}

/// What a client says about an agent. What is absent is left to the default, or as it is.
#[derive(Clone, Debug, Default, Deserialize, utoipa::ToSchema)]
#[schema(as = native::AgentChange)]
struct AgentIn {
    /// Its name in the API; one is made if there is none.
    #[schema(min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9._-]+$")]
    agent_id: Option<String>,
    /// A name for people.
    #[schema(schema_with = names)]
    name: Option<String>,
    #[serde(default, deserialize_with = "nullable::or_null")]
    #[schema(value_type = Option<String>, max_length = 2000)]
    description: Option<Option<String>>,
    /// Standing instructions.
    #[schema(max_length = 262_144)]
    instructions: Option<String>,
    /// `provider/model`.
    #[schema(pattern = "^[^/]+/.", max_length = 400)]
    model: Option<String>,
    /// Models to fall back on.
    #[schema(max_items = 8)]
    fallback: Option<Vec<String>>,
    tools: Option<Vec<String>>,
    /// Of these, the ones that run without asking.
    trusted: Option<Vec<String>>,
    /// Most model calls in one turn.
    #[schema(minimum = 1, maximum = 1000)]
    max_steps: Option<u32>,
    /// How hard its models think; `null` leaves it to them.
    #[serde(default, deserialize_with = "nullable::or_null")]
    #[schema(schema_with = model_options::effort_words)]
    effort: Option<Option<String>>,
    /// Whether its models think, and whether a summary of it is shown; `null` leaves it to them.
    #[serde(default, deserialize_with = "nullable::or_null")]
    #[schema(schema_with = model_options::thinking_words)]
    thinking: Option<Option<String>>,
    /// Sampling temperature; `null` leaves it to the models.
    #[serde(default, deserialize_with = "nullable::or_null")]
    #[schema(value_type = Option<f64>, minimum = 0, maximum = 2)]
    temperature: Option<Option<f64>>,
}

fn names() -> document::AnySchema {
    document::schema(json!({ "type": ["string", "null"], "maxLength": 200, "pattern": document::NOT_BLANK }))
}

/// A new agent: what a change can say, and at least a name and a model.
struct NewAgent;

impl utoipa::PartialSchema for NewAgent {
    fn schema() -> document::AnySchema {
        document::schema(json!({
            "description": "A new agent",
            "allOf": [{ "$ref": "#/components/schemas/native.AgentChange" }],
            "required": ["name", "model"],
            "properties": { "name": { "type": "string" }, "model": { "type": "string" } },
        }))
    }
}

impl utoipa::ToSchema for NewAgent {
    fn name() -> Cow<'static, str> {
        "native.NewAgent".into()
    }
}

impl AgentIn {
    /// A profile that says this and nothing else.
    fn create(mut self) -> Result<(Option<String>, Profile), ApiError> {
        let missing = |field: &str| ApiError::invalid(format!("{field} is missing"));
        let agent_id = self.agent_id.take();
        let bare = Profile {
            name: self.name.take().ok_or_else(|| missing("name"))?,
            description: None,
            instructions: String::new(),
            model: self.model.take().ok_or_else(|| missing("model"))?,
            fallback: Vec::new(),
            tools: Vec::new(),
            trusted: Vec::new(),
            max_steps: DEFAULT_STEPS,
            effort: None,
            thinking: None,
            temperature: None,
        };
        Ok((agent_id, self.change(bare)?))
    }

    /// The profile with what is said here.
    fn change(self, profile: Profile) -> Result<Profile, ProfileError> {
        Ok(Profile {
            effort: changed("effort", self.effort, profile.effort, |word| model_options::effort(&word))?,
            thinking: changed("thinking", self.thinking, profile.thinking, |word| model_options::thinking(&word))?,
            temperature: changed("temperature", self.temperature, profile.temperature, model_options::temperature)?,
            name: self.name.unwrap_or(profile.name),
            description: self.description.unwrap_or(profile.description),
            instructions: self.instructions.unwrap_or(profile.instructions),
            model: self.model.unwrap_or(profile.model),
            fallback: self.fallback.unwrap_or(profile.fallback),
            tools: self.tools.unwrap_or(profile.tools),
            trusted: self.trusted.unwrap_or(profile.trusted),
            max_steps: self.max_steps.unwrap_or(profile.max_steps),
        })
    }
}

/// A field's new value, or the one that it has if nothing is said.
fn changed<S, T>(
    field: &'static str,
    said: Option<Option<S>>,
    own: Option<T>,
    read: fn(S) -> Result<T, String>,
) -> Result<Option<T>, ProfileError> {
    match said {
        None => Ok(own),
        Some(said) => said.map(read).transpose().map_err(|what| ProfileError::Invalid { field, what }),
    }
}

/// List agents
///
/// The configured ones come first, on the first page; the stored ones are paged.
#[utoipa::path(
    get, path = "/agents", operation_id = "native_list_agents",
    params(Paged<{ List::Agents.letter() }>),
    responses(
        (status = 200, description = "A page", body = Agents<'_>, example = json!({ "agents": [{
            "agent_id": "demo", "name": "Demo", "description": null, "model": "demo/demo", "fallback": [],
            "tools": ["clock"], "trusted": [], "max_steps": 25, "source": "configured",
        }] })),
        Always, Listed,
    ),
)]
pub(crate) async fn list(
    State(api): State<Api>,
    headers: HeaderMap,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Read)?;
    let page = Page::new(List::Agents, &query?.0)?;
    let mut stored = api.engine.profiles(&caller.tenant, page.below, page.wanted()).await?;
    let next_cursor = page.cut(&mut stored, |profile| profile.position);
    let configured = api.engine.agents().all();
    let first_page = page.below.is_none();
    let shown = configured.iter().filter(|_| first_page);
    let mut agents: Vec<_> = shown.map(|agent| AgentOut::configured(agent, api.engine.tools())).collect();
    // A configured agent stands before a stored one of its name.
    agents.extend(
        stored.iter().filter(|profile| configured.iter().all(|agent| agent.name != profile.id)).map(AgentOut::from),
    );
    Ok(Json(Agents { agents, next_cursor }).into_response())
}

/// Show an agent
#[utoipa::path(
    get, path = "/agents/{agent}", operation_id = "native_show_agent",
    params(("agent" = String, Path, description = "The agent", example = "ann")),
    responses(
        (status = 200, description = "The agent", body = AgentOut<'_>, example = json!({
            "agent_id": "ann", "name": "Ann", "description": "Sums", "instructions": "Be brief.", "model": "demo/demo",
            "fallback": [], "tools": ["clock"], "trusted": [], "max_steps": 25, "source": "stored",
            "created_at": "2026-07-25T17:20:00.120Z", "updated_at": "2026-07-25T17:20:00.120Z",
        })),
        Always, NoAgent,
    ),
)]
pub(crate) async fn show(State(api): State<Api>, path: path::One, headers: HeaderMap) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Read)?;
    let id = path::name(path, Thing::Agent)?;
    if let Some(agent) = api.engine.agents().get(&id) {
        return Ok(Json(AgentOut::configured(&agent, api.engine.tools())).into_response());
    }
    let stored = api.engine.profile(&caller.tenant, &id).await?;
    let stored = stored.ok_or_else(|| ApiError::no(Thing::Agent, &id))?;
    Ok(Json(AgentOut::from(&stored)).into_response())
}

/// Make an agent
#[utoipa::path(
    post, path = "/agents", operation_id = "native_create_agent",
    params(document::IdempotencyKey),
    request_body(content = NewAgent, example = json!({ "agent_id": "ann", "name": "Ann", "model": "demo/demo" })),
    responses(
        (status = 201, description = "The agent", body = AgentOut<'_>, example = json!({
            "agent_id": "ann", "name": "Ann", "description": "Sums", "instructions": "Be brief.", "model": "demo/demo",
            "fallback": [], "tools": ["clock"], "trusted": [], "max_steps": 25, "source": "stored",
            "created_at": "2026-07-25T17:20:00.120Z", "updated_at": "2026-07-25T17:20:00.120Z",
        })),
        Always, Posted, AgentTaken,
    ),
)]
pub(crate) async fn create(State(api): State<Api>, headers: HeaderMap, body: Body) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Admin)?;
    let body = read_body(&headers, body, api.limits, &api.engine.memory_of(&caller.tenant)).await?;
    let Object(request): Object<AgentIn> = parse_json(&body, api.limits)?;
    let key = submission_key(&headers, "POST /api/v1/agents", &body)?;
    let (id, profile) = request.create()?;
    let stored = api.engine.create_profile(&caller.tenant, id, profile, key).await?;
    Ok((StatusCode::CREATED, Json(AgentOut::from(&stored))).into_response())
}

/// Change an agent
///
/// What is not said stays as it is.
#[utoipa::path(
    patch, path = "/agents/{agent}", operation_id = "native_change_agent",
    params(("agent" = String, Path, description = "The agent", example = "ann"), document::IdempotencyKey),
    request_body(content = AgentIn, example = json!({ "description": "Sums", "max_steps": 9 })),
    responses(
        (status = 200, description = "The agent", body = AgentOut<'_>, example = json!({
            "agent_id": "ann", "name": "Ann", "description": "Sums", "instructions": "Be brief.", "model": "demo/demo",
            "fallback": [], "tools": ["clock"], "trusted": [], "max_steps": 25, "source": "stored",
            "created_at": "2026-07-25T17:20:00.120Z", "updated_at": "2026-07-25T17:20:00.120Z",
        })),
        Always, Posted, AgentChanged,
    ),
)]
pub(crate) async fn change(
    State(api): State<Api>,
    path: path::One,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Admin)?;
    let id = path::name(path, Thing::Agent)?;
    let body = read_body(&headers, body, api.limits, &api.engine.memory_of(&caller.tenant)).await?;
    let Object(request): Object<AgentIn> = parse_json(&body, api.limits)?;
    let key = submission_key(&headers, &format!("PATCH /api/v1/agents/{id}"), &body)?;
    let change = |profile| {
        if request.agent_id.as_ref().is_some_and(|other| *other != id) {
            let what = "it cannot be changed; leave it out, or make another agent".to_owned();
            return Err(ProfileError::Invalid { field: "agent_id", what });
        }
        request.clone().change(profile)
    };
    let stored = api.engine.change_profile(&caller.tenant, &id, change, key).await?;
    Ok(Json(AgentOut::from(&stored)).into_response())
}

/// Delete an agent
///
/// It takes no new sessions then; those that it has go on with it.
#[utoipa::path(
    delete, path = "/agents/{agent}", operation_id = "native_delete_agent",
    params(("agent" = String, Path, description = "The agent", example = "ann"), document::IdempotencyKey),
    responses((status = 204, description = "It is deleted"), Always, Keyed, AgentFixed),
)]
pub(crate) async fn delete(
    State(api): State<Api>,
    path: path::One,
    headers: HeaderMap,
) -> Result<StatusCode, ApiError> {
    let caller = api.caller(&headers, Scope::Admin)?;
    let id = path::name(path, Thing::Agent)?;
    let key = submission_key(&headers, &format!("DELETE /api/v1/agents/{id}"), b"")?;
    api.engine.delete_profile(&caller.tenant, &id, key).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> AgentIn {
        let Object(request) = serde_json::from_str(json).unwrap();
        request
    }

    #[test]
    fn an_agent_needs_a_name_and_a_model() {
        let (id, profile) = read(r#"{"name":"Ann","model":"demo/demo","tools":["clock"]}"#).create().unwrap();
        assert_eq!(id, None);
        assert_eq!((profile.name.as_str(), profile.max_steps), ("Ann", 25));
        assert_eq!(profile.tools, ["clock"]);
        assert_eq!(read(r#"{"name":"Ann"}"#).create(), Err(ApiError::invalid("model is missing")));
        assert_eq!(read(r#"{"model":"demo/demo"}"#).create(), Err(ApiError::invalid("name is missing")));
    }

    #[test]
    fn a_change_leaves_the_rest() {
        let json = r#"{"agent_id":"ann","name":"Ann","model":"demo/demo","description":"Sums","max_steps":3}"#;
        let (id, profile) = read(json).create().unwrap();
        assert_eq!(id.as_deref(), Some("ann"));
        assert_eq!(read("{}").change(profile.clone()).unwrap(), profile);
        assert_eq!(read(r#"{"name":null}"#).change(profile.clone()).unwrap(), profile);
        let bare = read(r#"{"description":null,"max_steps":9}"#).change(profile).unwrap();
        assert_eq!((bare.description, bare.max_steps, bare.name.as_str()), (None, 9, "Ann"));
    }
}
