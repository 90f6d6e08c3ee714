//! What an engine is started with.

use std::{sync::Arc, time::Duration};

use everturn_core::{EffectClass, ToolRef};
use everturn_engine::{
    Accounts, Agent, Agents, Capabilities, Engine, Metrics, Models, Notices, Parts, SessionUpdate, Settings, Unbounded,
};
use everturn_models::Model;
use everturn_store::{SecretBox, Store, StoreError};
use everturn_tools::{ReadResult, Tool, builtin_tools};

use super::{Behaviour, Ledger, Script, ScriptedModel, spec, tool, tool_set};

/// Seals the secrets of tests.
pub(crate) fn secrets() -> SecretBox {
    SecretBox::from_text(&"07".repeat(32)).expect("a good key")
}

/// The tools of a server, or why it has none to use.
pub(crate) type ServerTools = Result<Vec<Arc<dyn Tool>>, String>;

/// Everything that outlives one engine: models, tools, settings.
pub(crate) struct Setup {
    pub(crate) accounts: Arc<dyn Accounts>,
    pub(crate) notices: Notices,
    pub(crate) agent: Agent,
    pub(crate) settings: Settings,
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    /// The tool servers, as they are when an engine starts.
    pub(crate) servers: Vec<(&'static str, ServerTools)>,
    pub(crate) ledger: Ledger,
    pub(crate) metrics: Metrics,
    /// What the first submission to a session sets.
    pub(crate) update: SessionUpdate,
}

impl Setup {
    /// One model with these scripts, and the tools `look` (read-only, trusted), `book` (idempotent, trusted), `pay`
    /// (effectful, asks) and `weather` (the client's).
    pub(crate) fn new(scripts: impl IntoIterator<Item = Script>) -> Self {
        Self::with_models([ScriptedModel::new("test/one", scripts)])
    }

    /// The same with these models.
    pub(crate) fn with_models(models: impl IntoIterator<Item = Arc<ScriptedModel>>) -> Self {
        let agent = Agent {
            name: "tester".to_owned(),
            version: "1.0.0".to_owned(),
            title: None,
            description: None,
            instructions: "You are tested.".to_owned(),
            models: models.into_iter().map(|model| model as Arc<dyn Model>).collect(),
            tools: Vec::new(),
            trusted: Vec::new(),
            internal_tools: Vec::new(),
            options: Vec::new(),
            capabilities: Capabilities::default(),
            max_steps: 10,
            turn_timeout: Duration::from_secs(3600),
            context_window: None,
            model_options: everturn_core::ModelOptions::default(),
            body: None,
            titles: false,
            client_trust: Default::default(),
        };
        let setup = Self {
            accounts: Arc::new(Unbounded),
            notices: Notices::default(),
            agent,
            settings: Settings::default(),
            tools: Vec::new(),
            servers: Vec::new(),
            ledger: Ledger::default(),
            metrics: Metrics::default(),
            update: SessionUpdate::default(),
        };
        setup
            .trusted("look", EffectClass::ReadOnly, Behaviour::Echo)
            .trusted("book", EffectClass::Idempotent, Behaviour::Echo)
            .asking("pay", EffectClass::Effectful, Behaviour::Echo)
            .client("weather")
    }

    /// With a server-side tool that is enabled and runs without asking.
    pub(crate) fn trusted(self, name: &str, effect: EffectClass, behaviour: Behaviour) -> Self {
        self.with_tool(name, effect, behaviour).enable(name, true)
    }

    /// With a server-side tool that is enabled and asks.
    pub(crate) fn asking(self, name: &str, effect: EffectClass, behaviour: Behaviour) -> Self {
        self.with_tool(name, effect, behaviour).enable(name, false)
    }

    /// With a server-side tool that sessions may enable.
    pub(crate) fn with_tool(mut self, name: &str, effect: EffectClass, behaviour: Behaviour) -> Self {
        self.tools.push(tool(name, effect, behaviour, &self.ledger));
        self.agent.tools.push(name.to_owned());
        self
    }

    fn enable(mut self, name: &str, trust: bool) -> Self {
        self.update.tools.get_or_insert_default().push(ToolRef { name: name.to_owned(), trust });
        self
    }

    /// With a tool server.
    pub(crate) fn server(mut self, name: &'static str, tools: ServerTools) -> Self {
        self.servers.push((name, tools));
        self
    }

    /// Sessions have all of the agent's tools, which asks for those that it does not trust.
    pub(crate) fn agent_tools(mut self) -> Self {
        self.update = SessionUpdate { agent_tools: true, ..SessionUpdate::default() };
        self
    }

    /// With a built-in tool that is enabled and runs without asking.
    pub(crate) fn builtin(mut self, name: &str) -> Self {
        let builtin = builtin_tools().into_iter().find(|tool| tool.spec().name == name);
        self.tools.push(builtin.expect("there is such a built-in tool"));
        self.agent.tools.push(name.to_owned());
        self.enable(name, true)
    }

    /// With a tool of the application's.
    pub(crate) fn client(mut self, name: &str) -> Self {
        self.update.client_tools.get_or_insert_default().push(spec(name));
        self
    }

    pub(crate) fn agent(mut self, change: impl FnOnce(&mut Agent)) -> Self {
        change(&mut self.agent);
        self
    }

    pub(crate) fn settings(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// An engine over this store.
    pub(crate) async fn start(&self, store: impl Store) -> Result<Engine, StoreError> {
        self.start_with(store, vec![self.agent.clone()]).await
    }

    /// An engine with other agents.
    pub(crate) async fn start_with(&self, store: impl Store, agents: Vec<Agent>) -> Result<Engine, StoreError> {
        let tools =
            tool_set(self.tools.iter().cloned().chain([Arc::new(ReadResult::new()) as Arc<dyn Tool>]).collect());
        for (server, list) in &self.servers {
            let refused = tools.set_server(server, list.clone());
            assert_eq!(refused, [], "test servers have good tools");
        }
        let parts = Parts {
            store: Arc::new(store),
            secrets: secrets(),
            models: Arc::new(Known(agents.iter().flat_map(|agent| agent.models.clone()).collect())),
            agents: Agents::new(agents),
            tools: Arc::new(tools),
            settings: self.settings.clone(),
            accounts: self.accounts.clone(),
            notices: self.notices.clone(),
            metrics: self.metrics.clone(),
        };
        Engine::start(parts).await
    }
}

/// The models that stored agents may name: those of the configured ones.
struct Known(Vec<Arc<dyn Model>>);

impl Models for Known {
    fn find(&self, name: &str) -> Option<Arc<dyn Model>> {
        self.0.iter().find(|model| model.name() == name).cloned()
    }

    fn providers(&self) -> Vec<String> {
        let mut providers: Vec<_> =
            self.0.iter().filter_map(|model| model.name().split_once('/')).map(|(name, _)| name.to_owned()).collect();
        providers.dedup();
        providers
    }
}
