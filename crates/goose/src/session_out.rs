//! `Session`: a session as the releases show it. What is not known is `null`, never absent.

use everturn_core::{Json, Said, SessionConfig, Usage};
use everturn_engine::Agent;
use everturn_store::SessionRecord;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    Style,
    choices::Mode,
    describe::{conversation, recipe_out, values},
    recipe::{RECIPE, VALUES},
    time::rfc3339,
    wire::Conversation,
};

/// The folder that a client works in, which it tells us and we tell it.
pub(crate) const WORKING_DIR: &str = "goose.working_dir";
/// What a session is called that has no name yet.
const UNNAMED: &str = "New Chat";

/// A session.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = goose::Session)]
pub(crate) struct SessionOut<'a> {
    id: &'a str,
    working_dir: String,
    name: &'a str,
    user_set_name: bool,
    session_type: &'static str,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    updated_at: String,
    extension_data: Empty,
    #[schema(required)]
    total_tokens: Option<u64>,
    #[schema(required)]
    input_tokens: Option<u64>,
    #[schema(required)]
    output_tokens: Option<u64>,
    accumulated_total_tokens: u64,
    accumulated_input_tokens: u64,
    accumulated_output_tokens: u64,
    #[schema(required)]
    accumulated_cost: Option<f64>,
    /// As the last releases have them.
    #[schema(required)]
    usage: Option<UsageOut>,
    accumulated_usage: UsageOut,
    #[schema(required)]
    schedule_id: Option<&'a str>,
    #[schema(schema_with = recipe_out, required)]
    recipe: Option<&'a Json>,
    #[schema(schema_with = values, required)]
    user_recipe_values: Option<&'a Json>,
    #[schema(schema_with = conversation, required)]
    conversation: Option<Conversation<'a>>,
    message_count: u64,
    #[schema(required)]
    provider_name: Option<String>,
    #[schema(required)]
    model_config: Option<ModelConfig>,
    /// Which tools run without asking: `auto`, `approve`, `smart_approve` or `chat`.
    goose_mode: &'static str,
    #[schema(required)]
    archived_at: Option<&'a str>,
    #[schema(required)]
    project_id: Option<&'a str>,
    /// The agent's name here: the releases had one only.
    agent: &'a str,
}

#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = goose::Empty)]
struct Empty {}

#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = goose::Usage)]
struct UsageOut {
    input_tokens: u64,
    output_tokens: u64,
    total_tokens: u64,
}

impl From<Usage> for UsageOut {
    fn from(usage: Usage) -> Self {
        Self { input_tokens: usage.input, output_tokens: usage.output, total_tokens: usage.total() }
    }
}

#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = goose::ModelConfig)]
struct ModelConfig {
    model_name: String,
    #[schema(required)]
    context_limit: Option<u64>,
    #[schema(required)]
    temperature: Option<f64>,
    #[schema(required)]
    max_tokens: Option<u64>,
    toolshim: bool,
    #[schema(required)]
    toolshim_model: Option<String>,
}

/// What is shown of a session besides its record.
#[derive(Default)]
pub(crate) struct Around<'a> {
    /// Its agent, if that is still configured.
    pub(crate) agent: Option<&'a Agent>,
    pub(crate) message_count: u64,
    pub(crate) mode: Mode,
    /// What its last turn used, if that is looked up.
    pub(crate) last_turn: Option<Usage>,
    pub(crate) conversation: Option<&'a [Said]>,
}

impl<'a> SessionOut<'a> {
    pub(crate) fn new(session: &'a SessionRecord, around: &Around<'a>) -> Self {
        let SessionRecord { id, config, usage, created_at, updated_at, title, .. } = session;
        let model = around.agent.and_then(|agent| Some((agent.models.first()?.name(), agent)));
        let provider_name = model.and_then(|(name, _)| name.split_once('/')).map(|(provider, _)| provider.to_owned());
        let model_config = model.map(|(name, agent)| ModelConfig {
            model_name: name.split_once('/').map_or(name, |(_, model)| model).to_owned(),
            context_limit: agent.context_window.or_else(|| agent.models.first()?.context_window()),
            temperature: agent.model_options.temperature.map(|thousandths| f64::from(thousandths) / 1000.0),
            max_tokens: agent.model_options.max_output_tokens,
            toolshim: false,
            toolshim_model: None,
        });
        let conversation = around.conversation.map(|said| Conversation { style: Style::Released, said });
        Self {
            id: id.as_str(),
            working_dir: working_dir(config),
            name: title.as_deref().unwrap_or(UNNAMED),
            user_set_name: false,
            session_type: "user",
            created_at: rfc3339(*created_at),
            updated_at: rfc3339(*updated_at),
            extension_data: Empty {},
            total_tokens: around.last_turn.map(Usage::total),
            input_tokens: around.last_turn.map(|usage| usage.input),
            output_tokens: around.last_turn.map(|usage| usage.output),
            accumulated_total_tokens: usage.total(),
            accumulated_input_tokens: usage.input,
            accumulated_output_tokens: usage.output,
            accumulated_cost: None,
            usage: around.last_turn.map(UsageOut::from),
            accumulated_usage: (*usage).into(),
            schedule_id: None,
            recipe: config.notes.get(RECIPE),
            user_recipe_values: config.notes.get(VALUES).filter(|values| values.as_str() != "{}"),
            conversation,
            message_count: around.message_count,
            provider_name,
            model_config,
            goose_mode: around.mode.as_str(),
            archived_at: None,
            project_id: None,
            agent: &config.agent,
        }
    }
}

fn working_dir(config: &SessionConfig) -> String {
    let kept = config.notes.get(WORKING_DIR).and_then(|note| serde_json::from_str(note.as_str()).ok());
    kept.unwrap_or_else(|| ".".to_owned())
}

/// A session, for the API document.
pub(crate) fn session_example(with_conversation: bool) -> Value {
    let usage = json!({ "input_tokens": 12, "output_tokens": 4, "total_tokens": 16 });
    let message = json!({
        "id": "turn_0197f2ab000070008000000000000001.u0", "role": "user", "created": 1_772_618_400,
        "content": [{ "type": "text", "text": "Hello" }],
        "metadata": { "userVisible": true, "agentVisible": true },
    });
    let last = |value: Value| if with_conversation { value } else { Value::Null };
    json!({
        "id": "20260304_1",
        "working_dir": ".",
        "name": "Greetings",
        "user_set_name": false,
        "session_type": "user",
        "created_at": "2026-03-04T10:00:00Z",
        "updated_at": "2026-03-04T10:00:02Z",
        "extension_data": {},
        "total_tokens": last(json!(16)),
        "input_tokens": last(json!(12)),
        "output_tokens": last(json!(4)),
        "accumulated_total_tokens": 16,
        "accumulated_input_tokens": 12,
        "accumulated_output_tokens": 4,
        "accumulated_cost": null,
        "usage": last(usage.clone()),
        "accumulated_usage": usage,
        "schedule_id": null,
        "recipe": null,
        "user_recipe_values": null,
        "conversation": last(json!([message])),
        "message_count": 2,
        "provider_name": "demo",
        "model_config": {
            "model_name": "demo", "context_limit": null, "temperature": null, "max_tokens": null, "toolshim": false,
            "toolshim_model": null,
        },
        "goose_mode": "smart_approve",
        "archived_at": null,
        "project_id": null,
        "agent": "demo",
    })
}
