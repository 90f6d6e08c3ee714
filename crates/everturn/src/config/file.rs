//! The shape of the TOML file. What its words mean is checked elsewhere; here they only have a place.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

/// A text and where it stands.
pub(super) type Text = Spanned<String>;
/// A number and where it stands.
pub(super) type Number = Spanned<i64>;
/// A number that may have a fraction, and where it stands.
pub(super) type Fraction = Spanned<f64>;
/// Fields for the body of model calls, and where they stand.
pub(super) type Body = Spanned<toml::Table>;

/// The file. Printing it is not possible: it holds secrets.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) listen: Option<Text>,
    pub(super) store: Option<Text>,
    pub(super) durability: Option<Text>,
    pub(super) log_level: Option<Text>,
    #[serde(default)]
    pub(super) keys: Vec<Key>,
    #[serde(default)]
    pub(super) quotas: Quotas,
    #[serde(default)]
    pub(super) tenants: BTreeMap<Text, Tenant>,
    #[serde(default)]
    pub(super) providers: BTreeMap<Text, Provider>,
    #[serde(default)]
    pub(super) prices: BTreeMap<Text, super::prices::PriceTable>,
    #[serde(default)]
    pub(super) agents: Vec<Agent>,
    #[serde(default)]
    pub(super) mcp: BTreeMap<Text, McpServer>,
    #[serde(default)]
    pub(super) limits: Limits,
    #[serde(default)]
    pub(super) retention: Retention,
    #[serde(default)]
    pub(super) recipes: Recipes,
    #[serde(default)]
    pub(super) goose: Goose,
    #[serde(default)]
    pub(super) openai: OpenAi,
    #[serde(default)]
    pub(super) tls: Tls,
    #[serde(default)]
    pub(super) proxy: Proxy,
    #[serde(default)]
    pub(super) metrics: Metrics,
    #[serde(default)]
    pub(super) cors: Cors,
    #[serde(default)]
    pub(super) webhooks: BTreeMap<Text, Webhook>,
}

impl File {
    /// Whether it says anything about providers and agents. One that does not gets those that are found at start.
    pub(super) fn has_own_agents(&self) -> bool {
        !(self.providers.is_empty() && self.agents.is_empty())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Key {
    pub(super) key: Text,
    pub(super) tenant: Text,
    pub(super) scopes: Option<Spanned<Vec<Text>>>,
    pub(super) name: Option<Text>,
    pub(super) expires: Option<Spanned<toml::Value>>,
    pub(super) quota: Option<Quota>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Quotas {
    pub(super) tenant: Option<Quota>,
    pub(super) key: Option<Quota>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tenant {
    pub(super) quota: Option<Quota>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Quota {
    pub(super) requests_per_second: Option<Number>,
    pub(super) concurrent_turns: Option<Number>,
    pub(super) tokens_per_day: Option<Number>,
    pub(super) storage: Option<Number>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Provider {
    pub(super) kind: Text,
    pub(super) base_url: Option<Text>,
    pub(super) api_key: Option<Text>,
    pub(super) context_window: Option<Number>,
    pub(super) thinking_budget: Option<Number>,
    pub(super) wire: Option<Text>,
    pub(super) rules_of: Option<Text>,
    #[serde(default)]
    pub(super) headers: BTreeMap<Text, Text>,
    pub(super) body: Option<Body>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct McpServer {
    pub(super) command: Option<Spanned<Vec<Text>>>,
    #[serde(default)]
    pub(super) env: BTreeMap<Text, Text>,
    pub(super) cwd: Option<Text>,
    pub(super) url: Option<Text>,
    #[serde(default)]
    pub(super) headers: BTreeMap<Text, Text>,
    pub(super) timeout: Option<Text>,
    pub(super) max_timeout: Option<Text>,
    pub(super) start_timeout: Option<Text>,
    pub(super) output_cap: Option<Number>,
    pub(super) max_message: Option<Number>,
    #[serde(default)]
    pub(super) effects: BTreeMap<Text, Text>,
    pub(super) enabled: Option<bool>,
    pub(super) sandbox: Option<Text>,
    pub(super) paths: Option<Spanned<Vec<Text>>>,
    pub(super) read_paths: Option<Spanned<Vec<Text>>>,
    pub(super) user: Option<Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Agent {
    pub(super) name: Text,
    pub(super) version: Option<Text>,
    pub(super) title: Option<String>,
    pub(super) description: Option<String>,
    pub(super) instructions: Option<Text>,
    pub(super) model: Text,
    #[serde(default)]
    pub(super) fallback: Vec<Text>,
    #[serde(default)]
    pub(super) tools: Vec<Text>,
    #[serde(default)]
    pub(super) trusted: Vec<Text>,
    pub(super) client_trust: Option<Text>,
    #[serde(default)]
    pub(super) internal_tools: Vec<Text>,
    pub(super) max_steps: Option<Number>,
    pub(super) turn_timeout: Option<Text>,
    #[serde(default)]
    pub(super) options: Vec<AgentOption>,
    #[serde(default)]
    pub(super) capabilities: Capabilities,
    pub(super) max_output_tokens: Option<Number>,
    pub(super) effort: Option<Text>,
    pub(super) thinking: Option<Text>,
    pub(super) temperature: Option<Fraction>,
    pub(super) top_p: Option<Fraction>,
    pub(super) body: Option<Body>,
    pub(super) context_window: Option<Number>,
    pub(super) titles: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Capabilities {
    pub(super) history: Option<Vec<Text>>,
    pub(super) stream: Option<Spanned<Vec<Text>>>,
    pub(super) images: Option<Vec<Text>>,
    pub(super) application_tools: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AgentOption {
    #[serde(rename = "type")]
    pub(super) kind: Text,
    pub(super) name: Text,
    pub(super) title: Option<String>,
    pub(super) description: Option<String>,
    pub(super) options: Option<Spanned<Vec<Text>>>,
    pub(super) default: Option<Text>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Limits {
    pub(super) body_bytes: Option<Number>,
    pub(super) json_depth: Option<Number>,
    pub(super) concurrent_turns: Option<Number>,
    pub(super) queued_turns: Option<Number>,
    pub(super) queue_timeout: Option<Text>,
    pub(super) connections: Option<Number>,
    pub(super) first_byte_timeout: Option<Text>,
    pub(super) step_idle_timeout: Option<Text>,
    pub(super) retries: Option<Number>,
    pub(super) retry_max: Option<Text>,
    pub(super) ring_bytes: Option<Number>,
    pub(super) memory: Option<Number>,
    pub(super) warm_sessions: Option<Number>,
    pub(super) shutdown_grace: Option<Text>,
    pub(super) heartbeat: Option<Text>,
    pub(super) session_queue: Option<Number>,
    pub(super) tenant_queue: Option<Number>,
    pub(super) form_expiry: Option<Text>,
    pub(super) approval_expiry: Option<Text>,
    pub(super) question_expiry: Option<Text>,
    pub(super) pause_max: Option<Text>,
    pub(super) form_answer_bytes: Option<Number>,
    pub(super) artifact_bytes: Option<Number>,
    pub(super) document_bytes: Option<Number>,
    pub(super) document_context_bytes: Option<Number>,
    pub(super) document_memory: Option<Number>,
    pub(super) document_time: Option<Text>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Recipes {
    pub(super) dir: Option<Text>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Goose {
    pub(super) ping: Option<Text>,
    pub(super) snapshot: Option<Text>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OpenAi {
    #[serde(default)]
    pub(super) models: BTreeMap<Text, Text>,
    pub(super) wait: Option<Text>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tls {
    pub(super) cert: Option<Text>,
    pub(super) key: Option<Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Webhook {
    pub(super) url: Text,
    pub(super) secret: Text,
    pub(super) events: Option<Spanned<Vec<Text>>>,
    pub(super) timeout: Option<Text>,
    pub(super) retry_for: Option<Text>,
    pub(super) allow_private: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Metrics {
    pub(super) key: Option<Text>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cors {
    #[serde(default)]
    pub(super) origins: Vec<Text>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Proxy {
    #[serde(default)]
    pub(super) trusted: Vec<Text>,
    pub(super) headers: Option<Text>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Retention {
    pub(super) deltas: Option<Text>,
    pub(super) logs: Option<Text>,
    pub(super) artifacts: Option<Text>,
    pub(super) sessions: Option<Text>,
    pub(super) deleted: Option<Text>,
    pub(super) interval: Option<Text>,
    pub(super) clock_grace: Option<Text>,
}
