//! A server in memory with the demo model, and somebody who calls it.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Router, body::Body};
use bytes::Bytes;
use everturn_core::{ModelOptions, TenantId};
use everturn_engine::{Agent, Agents, Capabilities, Cursor, Engine, Metrics, Models, Parts, Settings};
use everturn_http::{BodyLimits, Key, Keys, Scope, Views, views};
use everturn_models::{DemoModel, EventStream, Model, ModelError, ModelRequest, Pace};
use everturn_native::{Native, projections, routes};
use everturn_store::{SecretBox, SimStore};
use everturn_tools::{ToolSet, builtin_tools};
use futures_util::future::BoxFuture;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::Value;
use tower::ServiceExt as _;

/// Largest document of the test server, in bytes.
pub(crate) const DOCUMENT_BYTES: usize = 10_000;
/// Longer than anything takes that works, and than the server waits for silent clients.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server, and the key that it is called with.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) engine: Engine,
    pub(crate) asked: Asked,
    app: Router,
    key: Option<&'static str>,
}

/// An answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    /// The body as JSON, if the answer has this status.
    #[track_caller]
    pub(crate) fn json(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Checks that nothing but this status is said.
    #[track_caller]
    pub(crate) fn is_empty(&self, status: u16) {
        assert_eq!(self.status, status, "{self:?}");
        assert!(self.body.is_empty(), "{self:?}");
    }

    /// The code of an error, if the answer has this status. Every refusal has this shape and no other.
    #[track_caller]
    pub(crate) fn code(&self, status: u16) -> String {
        let json = self.json(status);
        let detail = json["detail"].as_object().unwrap_or_else(|| panic!("not an error: {self:?}"));
        assert_eq!(json.as_object().unwrap().len(), 1, "{self:?}");
        assert!(detail["message"].as_str().is_some_and(|message| !message.is_empty()), "{self:?}");
        let known = ["code", "message", "hint", "problems"];
        assert!(detail.keys().all(|key| known.contains(&key.as_str())), "{self:?}");
        detail["code"].as_str().unwrap().to_owned()
    }

    /// A header, or nothing.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

/// The options of the calls to models of stored agents, in order.
pub(crate) type Asked = Arc<Mutex<Vec<ModelOptions>>>;

struct DemoModels(Asked);

/// The demo, which keeps what it was asked for.
#[derive(Debug)]
struct Recorded(DemoModel, Asked);

impl Model for Recorded {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn context_window(&self) -> Option<u64> {
        self.0.context_window()
    }

    fn stream(&self, request: ModelRequest) -> BoxFuture<'static, Result<EventStream, ModelError>> {
        self.1.lock().unwrap().push(request.options.clone());
        self.0.stream(request)
    }
}

impl Models for DemoModels {
    fn find(&self, name: &str) -> Option<Arc<dyn Model>> {
        let demo = || Recorded(DemoModel::new(name, Pace::Unpaced), Arc::clone(&self.0));
        name.starts_with("demo/").then(|| Arc::new(demo()) as Arc<dyn Model>)
    }

    fn providers(&self) -> Vec<String> {
        vec!["demo".to_owned()]
    }
}

fn agent(name: &str) -> Agent {
    let tools = ["clock", "calculator", "request_form", "wait", "create_artifact", "update_artifact"];
    Agent {
        name: name.to_owned(),
        version: "1.0.0".to_owned(),
        title: Some("The demo".to_owned()),
        description: None,
        instructions: "Be brief.".to_owned(),
        models: vec![Arc::new(DemoModel::load())],
        tools: tools.map(str::to_owned).to_vec(),
        trusted: Vec::new(),
        internal_tools: Vec::new(),
        options: vec![
            serde_json::from_str(r#"{"type":"text","name":"language","default":"English"}"#).unwrap(),
            serde_json::from_str(r#"{"type":"secret","name":"key"}"#).unwrap(),
        ],
        capabilities: Capabilities::default(),
        max_steps: 10,
        turn_timeout: Duration::from_secs(60),
        context_window: None,
        model_options: ModelOptions::default(),
        body: None,
        titles: false,
        client_trust: Default::default(),
    }
}

impl Server {
    /// A server without keys.
    pub(crate) async fn start() -> Self {
        Self::with_keys(Keys::open()).await
    }

    /// A server with a key for each scope, and one of another tenant.
    pub(crate) async fn locked() -> Self {
        let (acme, other): (TenantId, TenantId) = ("acme".parse().unwrap(), "other".parse().unwrap());
        Self::with_keys(Keys::of(vec![
            Key::new("reader", acme.clone(), vec![Scope::Read]),
            Key::new("chatter", acme.clone(), vec![Scope::Chat]),
            Key::new("admin", acme, vec![Scope::Admin]),
            Key::new("stranger", other, vec![Scope::Admin]),
        ]))
        .await
    }

    async fn with_keys(keys: Keys) -> Self {
        let asked = Asked::default();
        let engine = Engine::start(Parts {
            store: Arc::new(SimStore::new()),
            secrets: SecretBox::from_text(&"7".repeat(64)).unwrap(),
            agents: Agents::new(vec![agent("demo"), agent("other")]),
            models: Arc::new(DemoModels(Arc::clone(&asked))),
            tools: Arc::new(ToolSet::new(builtin_tools()).unwrap()),
            settings: Settings { document_bytes: DOCUMENT_BYTES, session_queue: 2, ..Settings::default() },
            accounts: Arc::new(everturn_engine::Unbounded),
            notices: Default::default(),
            metrics: Metrics::default(),
        });
        let engine = engine.await.unwrap();
        let limits = BodyLimits { bytes: 100_000, depth: 20 };
        let document_bytes = DOCUMENT_BYTES;
        let keys = Arc::new(keys);
        let streams = views(Views::new(engine.clone(), Arc::clone(&keys), PATIENCE, projections()));
        let app = routes(Native { engine: engine.clone(), keys, limits, document_bytes, prices: Arc::default() })
            .merge(streams)
            .into();
        Self { engine, asked, app, key: None }
    }

    /// The same server, called with a key.
    pub(crate) fn by(&self, key: &'static str) -> Self {
        Self { key: Some(key), ..self.clone() }
    }

    /// Sends a request.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(key) = self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let answering = self.app.clone().oneshot(request.body(body.into()).unwrap());
        let response = tokio::time::timeout(PATIENCE, answering).await.expect("an answer in time").unwrap();
        let (parts, body) = response.into_parts();
        Answer { status: parts.status, headers: parts.headers, body: body.collect().await.unwrap().to_bytes() }
    }

    /// `GET`.
    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], Body::empty()).await
    }

    /// `POST` or the like with nothing in it.
    pub(crate) async fn bare(&self, method: &str, path: &str) -> Answer {
        self.send(method, path, &[], Body::empty()).await
    }

    /// `POST` or the like with JSON.
    pub(crate) async fn json(&self, method: &str, path: &str, body: Value) -> Answer {
        self.send(method, path, &[("content-type", "application/json")], body.to_string()).await
    }

    /// Spawns.
    pub(crate) async fn spawn(&self, body: Value) -> Answer {
        self.json("POST", "/api/v1/sessions/stream", body).await
    }

    /// Spawns, and reads the turn's stream until it closes. Gives the ids and the last event.
    pub(crate) async fn turn(&self, body: Value) -> (String, String, Value) {
        let accepted = self.spawn(body).await.json(202);
        let text = |field: &str| accepted[field].as_str().unwrap().to_owned();
        let (session, message) = (text("session_id"), text("message_id"));
        let last = self.rest_of(&session, &message).await;
        (session, message, last)
    }

    /// Reads a turn's stream to the pause that it is in, or to its end. Gives the last event.
    pub(crate) async fn rest_of(&self, session: &str, message: &str) -> Value {
        let (session, message) = (session.parse().unwrap(), message.parse().unwrap());
        let [native] = projections();
        let mut cursor = Cursor::default();
        let mut last = Value::Null;
        let reading = async {
            loop {
                let tenant = self.tenant();
                let reader = self.engine.read_turn(&tenant, &session, &message, native, cursor).await;
                let Some(mut reader) = reader.expect("the turn is there") else { return };
                while let Some(bytes) = reader.next().await.expect("the log can be read") {
                    for frame in std::str::from_utf8(&bytes).unwrap().split_terminator("\n\n") {
                        let (id, data) = frame.split_once("\ndata: ").expect("a frame");
                        cursor = id.strip_prefix("id: ").unwrap().parse().unwrap();
                        last = serde_json::from_str(data).unwrap();
                    }
                }
                // It closes at every pause, also at those that are over.
                let record = self.engine.turn(&tenant, &session, &message).await.unwrap().expect("the turn is there");
                if record.head == cursor.seq {
                    return;
                }
            }
        };
        if tokio::time::timeout(PATIENCE, reading).await.is_err() {
            let record = self.engine.turn(&self.tenant(), &session, &message).await;
            panic!("the stream does not close; it is at {cursor:?}, the turn at {record:?}");
        }
        last
    }

    /// Waits until the first words of a turn's answer are there.
    pub(crate) async fn speaks(&self, session: &str, message: &str) {
        let (session, message) = (session.parse().unwrap(), message.parse().unwrap());
        let [native] = projections();
        let reader = self.engine.read_turn(&self.tenant(), &session, &message, native, Cursor::default()).await;
        let mut reader = reader.expect("the turn is there").expect("it is not over");
        let waiting = async {
            while let Some(frames) = reader.next().await.expect("the log can be read") {
                if std::str::from_utf8(&frames).unwrap().contains("\"type\":\"delta\"") {
                    return;
                }
            }
            panic!("the turn said nothing");
        };
        tokio::time::timeout(PATIENCE, waiting).await.expect("words in time");
    }

    /// Waits until the server has named a session by itself, which it does in its own time.
    pub(crate) async fn named(&self, session: &str) {
        let path = format!("/api/v1/sessions/{session}");
        let waiting = async {
            while self.get(&path).await.json(200)["title"].is_null() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.expect("a title in time");
    }

    fn tenant(&self) -> TenantId {
        match self.key {
            None => TenantId::local(),
            Some("stranger") => "other".parse().unwrap(),
            Some(_) => "acme".parse().unwrap(),
        }
    }
}
