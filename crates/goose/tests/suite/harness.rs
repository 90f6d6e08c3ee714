//! A server in memory with the demo model, and somebody who calls it.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use axum::{Router, body::Body};
use everturn_core::TenantId;
use everturn_engine::{Agent, Agents, Capabilities, Engine, Metrics, Models, Parts, Settings};
use everturn_goose::{Goose, routes};
use everturn_http::{BodyLimits, Key, Keys, Scope};
use everturn_models::{DemoModel, Model, Pace};
use everturn_recipes::Recipes;
use everturn_store::{SecretBox, SimStore};
use everturn_tools::{ToolSet, builtin_tools};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::Value;
use tempfile::TempDir;
use tower::ServiceExt as _;

use super::contract::Contract;

/// Longer than anything takes that works.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server, and the key that it is called with.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) engine: Engine,
    app: Router,
    /// What the answers must be like.
    pub(crate) contract: Arc<Contract>,
    key: &'static str,
    _recipes: Arc<TempDir>,
}

/// An answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    /// The body as JSON, if the answer has this status.
    #[track_caller]
    pub(crate) fn json(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// What a refusal says, if the answer has this status. Every refusal has this shape and no other.
    #[track_caller]
    pub(crate) fn message(&self, status: u16) -> String {
        let json = self.json(status);
        assert_eq!(json.as_object().unwrap().len(), 1, "{self:?}");
        json["message"].as_str().unwrap_or_else(|| panic!("not an error: {self:?}")).to_owned()
    }

    /// The events of a stream.
    #[track_caller]
    pub(crate) fn events(&self) -> Vec<Value> {
        assert_eq!(self.status, 200, "{self:?}");
        assert_eq!(self.headers["content-type"], "text/event-stream");
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        data.map(|data| serde_json::from_str(data).unwrap()).collect()
    }

    /// The text of a stream, and how it ended.
    #[track_caller]
    pub(crate) fn said(&self) -> (String, String) {
        let events = self.events();
        let texts = events.iter().filter(|event| event["type"] == "Message" && event["message"]["role"] == "assistant");
        let texts = texts.filter_map(|event| event["message"]["content"][0]["text"].as_str());
        let last = events.last().unwrap();
        assert_eq!(last["type"], "Finish", "{self:?}");
        (texts.collect(), last["reason"].as_str().unwrap().to_owned())
    }
}

struct DemoModels;

impl Models for DemoModels {
    fn find(&self, name: &str) -> Option<Arc<dyn Model>> {
        name.starts_with("demo/").then(|| Arc::new(DemoModel::new(name, Pace::Unpaced)) as Arc<dyn Model>)
    }

    fn providers(&self) -> Vec<String> {
        vec!["demo".to_owned()]
    }
}

fn agent(name: &str) -> Agent {
    Agent {
        name: name.to_owned(),
        version: "1.0.0".to_owned(),
        title: None,
        description: None,
        instructions: "Be brief.".to_owned(),
        models: vec![Arc::new(DemoModel::new("demo/demo", Pace::Unpaced))],
        tools: ["clock", "calculator", "request_form", "wait"].map(str::to_owned).to_vec(),
        trusted: Vec::new(),
        internal_tools: Vec::new(),
        options: Vec::new(),
        capabilities: Capabilities { image_data: name != "blind", ..Capabilities::default() },
        max_steps: 10,
        turn_timeout: Duration::from_secs(60),
        context_window: None,
        model_options: everturn_core::ModelOptions::default(),
        body: None,
        titles: false,
        client_trust: Default::default(),
    }
}

/// What the API document says, for those who need no server.
pub(crate) fn contract() -> Arc<Contract> {
    static CONTRACT: OnceLock<Arc<Contract>> = OnceLock::new();
    let started = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(Server::start()).contract
    };
    Arc::clone(CONTRACT.get_or_init(started))
}

/// The recipes of the test server.
const RECIPES: [(&str, &str); 4] = [
    (
        "code-helper.yaml",
        "version: 1.0.0\ntitle: Code helper\ndescription: Helps\ninstructions: You help with {{ lang }}.\n\
         parameters:\n  - {key: lang, input_type: string, requirement: required, description: language}\n\
         settings: {max_turns: 5, temperature: 0.25, goose_provider: demo, goose_model: other}\n",
    ),
    (
        "plain.yaml",
        "title: Plain\ndescription: Plain\nprompt: Say hello.\nextensions: [{type: builtin, name: clock}]\n",
    ),
    ("elsewhere.yaml", "title: E\ndescription: E\nprompt: E\nsettings: {goose_provider: nowhere, goose_model: m}\n"),
    ("developer.yaml", "title: D\ndescription: D\nprompt: D\nextensions: [{type: builtin, name: Developer}]\n"),
];

impl Server {
    /// A server with a key for each scope, and one of another tenant; called by one that chats.
    pub(crate) async fn start() -> Self {
        let (acme, other): (TenantId, TenantId) = ("acme".parse().unwrap(), "other".parse().unwrap());
        let keys = Arc::new(Keys::of(vec![
            Key::new("reader", acme.clone(), vec![Scope::Read]),
            Key::new("chatter", acme.clone(), vec![Scope::Chat]),
            Key::new("admin", acme, vec![Scope::Admin]),
            Key::new("stranger", other, vec![Scope::Admin]),
        ]));
        let engine = Engine::start(Parts {
            store: Arc::new(SimStore::new()),
            secrets: SecretBox::from_text(&"7".repeat(64)).unwrap(),
            agents: Agents::new(vec![agent("demo"), agent("blind")]),
            models: Arc::new(DemoModels),
            tools: Arc::new(ToolSet::new(builtin_tools()).unwrap()),
            settings: Settings::default(),
            accounts: Arc::new(everturn_engine::Unbounded),
            notices: Default::default(),
            metrics: Metrics::default(),
        });
        let engine = engine.await.unwrap();
        let folder = TempDir::new().unwrap();
        for (name, text) in RECIPES {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let recipes = Some(Arc::new(Recipes::open(folder.path()).unwrap()));
        let limits = BodyLimits { bytes: 100_000, depth: 30 };
        let goose = Goose { engine: engine.clone(), keys, limits, ping: PATIENCE, snapshot: PATIENCE, recipes };
        let (app, document) = routes(goose).split_for_parts();
        let contract = Arc::new(Contract::new(serde_json::to_value(document).unwrap()));
        Self { engine, app, contract, key: "chatter", _recipes: Arc::new(folder) }
    }

    /// The same server, called with another key.
    pub(crate) fn by(&self, key: &'static str) -> Self {
        Self { key, ..self.clone() }
    }

    /// A request, and all of its answer.
    pub(crate) async fn call(&self, method: &str, path: &str, body: impl Into<Option<Value>>) -> Answer {
        let mut request = Request::builder().method(method).uri(path).header("x-secret-key", self.key);
        let sent = body.into();
        let body = match &sent {
            Some(body) => {
                request = request.header("content-type", "application/json");
                Body::from(body.to_string())
            }
            None => Body::empty(),
        };
        let response = self.app.clone().oneshot(request.body(body).unwrap()).await.unwrap();
        let (head, body) = response.into_parts();
        let body = tokio::time::timeout(PATIENCE, body.collect()).await.unwrap().unwrap().to_bytes();
        let answer =
            Answer { status: head.status, headers: head.headers, body: String::from_utf8(body.into()).unwrap() };
        self.contract.check(method, path, sent.as_ref(), &answer);
        answer
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.call("POST", path, body).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call("GET", path, None).await
    }
}
