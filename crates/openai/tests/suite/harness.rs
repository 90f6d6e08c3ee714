//! A server in memory with a model that does as it is told, and somebody who calls it.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Router, body::Body};
use bytes::Bytes;
use everturn_core::{Json, TenantId, Usage};
use everturn_engine::{Agent, Agents, Capabilities, Engine, Metrics, Models, Parts, Settings};
use everturn_http::{BodyLimits, Key, Keys, Scope, Views, views};
use everturn_models::{EventStream, Model, ModelError, ModelErrorKind, ModelEvent, ModelFinish, ModelRequest};
use everturn_openai::{OpenAi, projections, routes};
use everturn_store::{SecretBox, SimStore};
use everturn_tools::{ToolSet, builtin_tools};
use futures_util::{StreamExt as _, future::BoxFuture, stream};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tower::ServiceExt as _;

use super::slow_tool::SlowTool;

/// Longer than anything takes that works.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// How long answers in one piece wait for people.
const WAIT: Duration = Duration::from_millis(50);

/// One answer of the model.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    events: Vec<ModelEvent>,
    failure: Option<ModelErrorKind>,
    /// Given once this has a permit.
    gate: Option<Arc<Semaphore>>,
}

impl Reply {
    /// A text, in these pieces.
    pub(crate) fn says(pieces: &[&str]) -> Self {
        let texts = pieces.iter().map(|piece| ModelEvent::Text((*piece).to_owned()));
        Self { events: texts.collect(), failure: None, gate: None }.finish(ModelFinish::Stop)
    }

    /// These calls, after a text.
    pub(crate) fn calls(text: &str, calls: &[(&str, Value)]) -> Self {
        let mut events: Vec<_> = Some(text).filter(|text| !text.is_empty()).map(said).into_iter().collect();
        events.extend((0..).zip(calls).map(|(part, (name, input))| ModelEvent::ToolCall {
            part,
            name: (*name).to_owned(),
            input: Json::of(input).unwrap(),
        }));
        Self { events, failure: None, gate: None }.finish(ModelFinish::Stop)
    }

    /// Nothing but this failure.
    pub(crate) fn fails(kind: ModelErrorKind) -> Self {
        Self { events: Vec::new(), failure: Some(kind), gate: None }
    }

    /// The same, with reasoning before it.
    pub(crate) fn after_thinking(mut self, thought: &str) -> Self {
        self.events.insert(0, ModelEvent::Thinking(thought.to_owned()));
        self
    }

    /// The same, with a proof of its reasoning at the end.
    pub(crate) fn signed(mut self, proof: &str) -> Self {
        let end = self.events.len() - 1;
        self.events.insert(end, ModelEvent::ThinkingSignature(proof.to_owned()));
        self
    }

    /// The same, once the gate is opened.
    pub(crate) fn behind(self, gate: &Arc<Semaphore>) -> Self {
        Self { gate: Some(Arc::clone(gate)), ..self }
    }

    /// The same, ended for this reason.
    pub(crate) fn finish(mut self, finish: ModelFinish) -> Self {
        self.events.retain(|event| !matches!(event, ModelEvent::Finished { .. }));
        self.events.push(ModelEvent::Finished { finish, usage: Some(Usage::of(10, 5)) });
        self
    }
}

fn said(text: &str) -> ModelEvent {
    ModelEvent::Text(text.to_owned())
}

/// The model: gives the replies that it was given, in order.
#[derive(Debug, Default)]
pub(crate) struct Script {
    replies: Mutex<VecDeque<Reply>>,
    requests: Mutex<Vec<ModelRequest>>,
}

impl Script {
    /// What the model was asked.
    pub(crate) fn asked(&self) -> Vec<ModelRequest> {
        self.requests.lock().unwrap().clone()
    }
}

#[derive(Debug)]
struct Scripted(Arc<Script>);

impl Model for Scripted {
    fn name(&self) -> &'static str {
        "script/model"
    }

    fn context_window(&self) -> Option<u64> {
        None
    }

    fn stream(&self, request: ModelRequest) -> BoxFuture<'static, Result<EventStream, ModelError>> {
        self.0.requests.lock().unwrap().push(request);
        let reply = self.0.replies.lock().unwrap().pop_front();
        Box::pin(async move {
            let reply = reply.unwrap_or_else(|| Reply::fails(ModelErrorKind::Rejected));
            if let Some(gate) = reply.gate {
                gate.acquire().await.unwrap().forget();
            }
            match reply.failure {
                Some(kind) => {
                    // A rate limit is waited for, unless it lasts longer than a turn may be paused.
                    let retry_after = match kind {
                        ModelErrorKind::RateLimited => Some(Duration::from_secs(100_000)),
                        _ => None,
                    };
                    Err(ModelError { retry_after, ..ModelError::new(kind, "the provider says no") })
                }
                None => Ok(stream::iter(reply.events.into_iter().map(Ok)).boxed()),
            }
        })
    }
}

struct NoModels;

impl Models for NoModels {
    fn find(&self, _: &str) -> Option<Arc<dyn Model>> {
        None
    }

    fn providers(&self) -> Vec<String> {
        Vec::new()
    }
}

fn agent(name: &str, script: &Arc<Script>) -> Agent {
    Agent {
        name: name.to_owned(),
        version: "1.0.0".to_owned(),
        title: Some("The agent".to_owned()),
        description: None,
        instructions: "Be brief.".to_owned(),
        models: vec![Arc::new(Scripted(Arc::clone(script)))],
        tools: ["calculator", "request_form", "slow", "wait"].map(str::to_owned).to_vec(),
        trusted: Vec::new(),
        internal_tools: Vec::new(),
        options: Vec::new(),
        capabilities: Capabilities { image_http: false, ..Capabilities::default() },
        max_steps: 40,
        turn_timeout: Duration::from_secs(60),
        context_window: None,
        model_options: everturn_core::ModelOptions::default(),
        body: None,
        titles: false,
        client_trust: Default::default(),
    }
}

/// A server, and the key that it is called with.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) engine: Engine,
    pub(crate) script: Arc<Script>,
    pub(crate) slow: SlowTool,
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

    /// The error's code and parameter, if the answer has this status. Every refusal has this shape and no other.
    #[track_caller]
    pub(crate) fn refusal(&self, status: u16) -> (String, String) {
        let json = self.json(status);
        let error = json["error"].as_object().unwrap_or_else(|| panic!("not an error: {self:?}"));
        assert_eq!(json.as_object().unwrap().len(), 1, "{self:?}");
        let keys: Vec<_> = error.keys().map(String::as_str).filter(|key| *key != "waiting").collect();
        assert_eq!(keys, ["code", "message", "param", "type"], "{self:?}");
        assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{self:?}");
        let text = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
        (text("code"), text("param"))
    }

    /// What the error says.
    #[track_caller]
    pub(crate) fn message(&self) -> String {
        self.json(self.status.as_u16())["error"]["message"].as_str().unwrap().to_owned()
    }

    /// A header, or nothing.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The frames of a stream; and whether `[DONE]` came last.
    #[track_caller]
    pub(crate) fn chunks(&self) -> Vec<Value> {
        assert_eq!((self.status, self.header("content-type")), (StatusCode::OK, "text/event-stream"), "{self:?}");
        let text = std::str::from_utf8(&self.body).unwrap();
        let mut frames: Vec<_> = text.split_terminator("\n\n").collect();
        let data = |frame: &str| {
            // The pieces of a call belong together: the last one has a cursor.
            let has_cursor = frame.lines().any(|line| line.starts_with("id: "));
            assert!(has_cursor || frame.contains("\"tool_calls\":"), "no cursor: {frame}");
            frame.lines().find_map(|line| line.strip_prefix("data: ")).unwrap().to_owned()
        };
        assert_eq!(frames.pop().map(data).as_deref(), Some("[DONE]"), "{text}");
        frames.into_iter().map(|frame| serde_json::from_str(&data(frame)).unwrap()).collect()
    }
}

/// The text of an answer that came in chunks.
pub(crate) fn text(chunks: &[Value]) -> String {
    chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect()
}

/// Why an answer that came in chunks ended.
pub(crate) fn finish(chunks: &[Value]) -> String {
    let reasons = chunks.iter().filter_map(|chunk| chunk["choices"][0]["finish_reason"].as_str());
    let reasons: Vec<_> = reasons.collect();
    assert_eq!(reasons.len(), 1, "{chunks:#?}");
    reasons[0].to_owned()
}

/// The message of an answer in one piece.
pub(crate) fn message(completion: &Value) -> &Value {
    &completion["choices"][0]["message"]
}

/// What a user says.
pub(crate) fn user(text: &str) -> Value {
    json!({ "role": "user", "content": text })
}

/// The result of a call.
pub(crate) fn result(call: &Value, text: &str) -> Value {
    json!({ "role": "tool", "tool_call_id": call["id"], "content": text })
}

/// A tool of the application's.
pub(crate) fn tool(name: &str) -> Value {
    json!({ "type": "function", "function": { "name": name, "description": "A tool", "parameters": { "type": "object" } } })
}

impl Server {
    /// A server without keys, whose model gives these replies.
    pub(crate) async fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::with_keys(Keys::open(), replies).await
    }

    /// A server with keys of two tenants.
    pub(crate) async fn locked(replies: impl IntoIterator<Item = Reply>) -> Self {
        let (acme, other): (TenantId, TenantId) = ("acme".parse().unwrap(), "other".parse().unwrap());
        let keys = Keys::of(vec![
            Key::new("reader", acme.clone(), vec![Scope::Read]),
            Key::new("chatter", acme, vec![Scope::Chat]),
            Key::new("stranger", other, vec![Scope::Admin]),
        ]);
        Self::with_keys(keys, replies).await
    }

    async fn with_keys(keys: Keys, replies: impl IntoIterator<Item = Reply>) -> Self {
        let script = Arc::new(Script::default());
        script.replies.lock().unwrap().extend(replies);
        let slow = SlowTool::default();
        let mut tools = builtin_tools();
        tools.push(Arc::new(slow.clone()));
        let settings = Settings { retry_base: Duration::from_millis(1), ..Settings::default() };
        let engine = Engine::start(Parts {
            store: Arc::new(SimStore::new()),
            secrets: SecretBox::from_text(&"7".repeat(64)).unwrap(),
            agents: Agents::new(vec![agent("first", &script), agent("second", &script)]),
            models: Arc::new(NoModels),
            tools: Arc::new(ToolSet::new(tools).unwrap()),
            settings,
            accounts: Arc::new(everturn_engine::Unbounded),
            notices: Default::default(),
            metrics: Metrics::default(),
        });
        let engine = engine.await.unwrap();
        let limits = BodyLimits { bytes: 100_000, depth: 20 };
        let keys = Arc::new(keys);
        let streams = views(Views::new(engine.clone(), Arc::clone(&keys), PATIENCE, projections()));
        let openai = OpenAi {
            engine: engine.clone(),
            keys,
            limits,
            silence: PATIENCE,
            patience: WAIT,
            models: [("mapped/name:8b".to_owned(), "second".to_owned())].into(),
        };
        let app = routes(openai).merge(streams).into();
        Self { engine, script, slow, app, key: None }
    }

    /// The same server, called with a key.
    pub(crate) fn by(&self, key: &'static str) -> Self {
        Self { key: Some(key), ..self.clone() }
    }

    /// Sends a request, and gives the answer once its head is there.
    pub(crate) async fn open(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> http::Response<Body> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(key) = self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let answering = self.app.clone().oneshot(request.body(body.into()).unwrap());
        tokio::time::timeout(PATIENCE, answering).await.expect("an answer in time").unwrap()
    }

    /// Sends a request.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Answer {
        let (parts, body) = self.open(method, path, headers, body).await.into_parts();
        let body = tokio::time::timeout(PATIENCE, body.collect()).await.expect("an end in time").unwrap().to_bytes();
        Answer { status: parts.status, headers: parts.headers, body }
    }

    /// `GET`.
    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], Body::empty()).await
    }

    /// Asks an agent.
    pub(crate) async fn chat(&self, body: Value) -> Answer {
        self.chat_with(&[], body).await
    }

    /// Asks an agent, with these headers.
    pub(crate) async fn chat_with(&self, headers: &[(&str, &str)], body: Value) -> Answer {
        let headers = [&[("content-type", "application/json")], headers].concat();
        self.send("POST", "/v1/chat/completions", &headers, body.to_string()).await
    }

    /// How many sessions the caller has.
    pub(crate) async fn sessions(&self) -> usize {
        let tenant = match self.key {
            None => TenantId::local(),
            Some("stranger") => "other".parse().unwrap(),
            Some(_) => "acme".parse().unwrap(),
        };
        self.engine.sessions(&tenant, None, 100).await.unwrap().len()
    }
}
