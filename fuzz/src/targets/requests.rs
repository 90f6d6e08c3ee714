//! Whole HTTP requests to every dialect, against a server in memory with the demo model.
//!
//! An input is a sequence of requests, with a line `%%` between them: the method and the path, headers, an empty line, the body.
//! `{session}` and `{message}` stand for what the last answer was about, `{token}` and the like for fields of the answers before. No
//! answer may be a fault of the server.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{Router, body::Body};
use everturn_aap::Aap;
use everturn_core::ModelOptions;
use everturn_engine::{Agent, Agents, Capabilities, Engine, Metrics, Models, Parts, Settings};
use everturn_goose::Goose;
use everturn_http::{BodyLimits, Keys, MESSAGE_ID, SESSION_ID, Views, views};
use everturn_models::{DemoModel, Model, Pace};
use everturn_native::Native;
use everturn_openai::OpenAi;
use everturn_store::{SecretBox, SimStore};
use everturn_tools::{ToolSet, builtin_tools};
use futures_util::StreamExt as _;
use http::Request;
use tokio::runtime::Runtime;
use tower::ServiceExt as _;

use super::Reading;

/// Inputs after which a new server begins, so that a finding depends on few inputs before it.
const INPUTS_OF_A_SERVER: usize = 500;
/// Requests of one input.
const MAX_REQUESTS: usize = 8;
/// How long an answer may take to begin.
const PATIENCE: Duration = Duration::from_secs(8);
/// How long a stream is read that does not end. Those of waiting turns do not.
const STREAM: Duration = Duration::from_millis(20);

struct DemoModels;

impl Models for DemoModels {
    fn find(&self, name: &str) -> Option<Arc<dyn Model>> {
        name.starts_with("demo/").then(|| Arc::new(DemoModel::new(name, Pace::Unpaced)) as Arc<dyn Model>)
    }

    fn providers(&self) -> Vec<String> {
        vec!["demo".to_owned()]
    }
}

pub(super) fn start() -> anyhow::Result<Reading> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut app = runtime.block_on(server())?;
    let mut inputs = 0_usize;
    Ok(Box::new(move |input| {
        inputs += 1;
        if inputs.is_multiple_of(INPUTS_OF_A_SERVER) {
            app = runtime.block_on(server()).map_err(|error| error.to_string())?;
        }
        exchange(&runtime, &app, input).map(drop)
    }))
}

async fn server() -> anyhow::Result<Router> {
    let tools = ["clock", "calculator", "request_form", "wait", "create_artifact", "update_artifact"];
    let agent = Agent {
        name: "demo".to_owned(),
        version: "1.0.0".to_owned(),
        title: None,
        description: None,
        instructions: "Be brief.".to_owned(),
        models: vec![Arc::new(DemoModel::new("demo/load", Pace::Unpaced))],
        tools: tools.map(str::to_owned).to_vec(),
        trusted: Vec::new(),
        internal_tools: Vec::new(),
        options: vec![serde_json::from_str(r#"{"type":"text","name":"nickname","default":"friend"}"#)?],
        capabilities: Capabilities::default(),
        max_steps: 5,
        turn_timeout: Duration::from_secs(60),
        context_window: None,
        model_options: ModelOptions::default(),
        body: None,
        titles: false,
        client_trust: Default::default(),
    };
    let engine = Engine::start(Parts {
        store: Arc::new(SimStore::new()),
        secrets: SecretBox::from_text(&"7".repeat(64))?,
        agents: Agents::new(vec![agent]),
        models: Arc::new(DemoModels),
        tools: Arc::new(ToolSet::new(builtin_tools())?),
        settings: Settings { document_bytes: 100_000, session_queue: 4, ..Settings::default() },
        accounts: Arc::new(everturn_engine::Unbounded),
        notices: Default::default(),
        metrics: Metrics::default(),
    })
    .await?;
    let (keys, silence) = (Arc::new(Keys::open()), Duration::from_secs(60));
    let limits = BodyLimits { bytes: 200_000, depth: 64 };
    let models = BTreeMap::from([("*".to_owned(), "demo".to_owned())]);
    let projections = everturn_aap::projections().into_iter().chain(everturn_native::projections());
    let projections = projections.chain(everturn_goose::projections()).chain(everturn_openai::projections());
    let own = |engine: &Engine| (engine.clone(), Arc::clone(&keys));
    let ((e1, k1), (e2, k2), (e3, k3), (e4, k4), (e5, k5)) =
        (own(&engine), own(&engine), own(&engine), own(&engine), own(&engine));
    let routes = everturn_aap::routes(Aap { engine: e1, keys: k1, limits, silence })
        .merge(views(Views::new(e2, k2, silence, projections)))
        .merge(everturn_native::routes(Native {
            engine: e3,
            keys: k3,
            limits,
            document_bytes: 100_000,
            prices: Arc::default(),
        }))
        .merge(everturn_openai::routes(OpenAi { engine: e4, keys: k4, limits, silence, patience: STREAM, models }))
        .merge(everturn_goose::routes(Goose {
            engine: e5,
            keys: k5,
            limits,
            ping: silence,
            snapshot: silence,
            recipes: None,
        }));
    Ok(routes.into())
}

/// What `{session}` and the like stand for.
#[derive(Default)]
struct Names(BTreeMap<String, String>);

impl Names {
    fn put(&self, text: &str) -> String {
        let put = |text: String, (name, value): (&String, &String)| text.replace(&format!("{{{name}}}"), value);
        self.0.iter().fold(text.to_owned(), put)
    }

    fn learn(&mut self, name: &str, value: &str) {
        self.0.insert(name.to_owned(), value.to_owned());
    }
}

/// The statuses of the answers to the requests of an input, by a server of its own.
pub fn statuses(input: &[u8]) -> anyhow::Result<Vec<u16>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let app = runtime.block_on(server())?;
    exchange(&runtime, &app, input).map_err(anyhow::Error::msg)
}

fn exchange(runtime: &Runtime, app: &Router, input: &[u8]) -> Result<Vec<u16>, String> {
    let (mut names, mut statuses) = (Names::default(), Vec::new());
    let mut rest = input;
    for _ in 0..MAX_REQUESTS {
        let end = rest.windows(4).position(|four| four == b"\n%%\n");
        let (one, more) = end.map_or((rest, &b""[..]), |end| (&rest[..end], &rest[end + 4..]));
        if let Some(request) = request(one, &names) {
            let shown = format!("{} {}", request.method(), request.uri());
            let status = runtime.block_on(send(app, request, &mut names));
            statuses.push(status.map_err(|what| format!("{shown}: {what}"))?);
        }
        if more.is_empty() {
            break;
        }
        rest = more;
    }
    Ok(statuses)
}

/// The request in these bytes, if an HTTP server could receive it.
fn request(bytes: &[u8], names: &Names) -> Option<Request<Body>> {
    let head_end = bytes.windows(2).position(|two| two == b"\n\n").unwrap_or(bytes.len());
    let head = std::str::from_utf8(&bytes[..head_end]).ok()?;
    let body = bytes.get(head_end + 2..).unwrap_or_default();
    let mut lines = head.lines();
    let (method, path) = lines.next()?.split_once(' ')?;
    let mut request = Request::builder().method(method).uri(names.put(path)).header("host", "localhost");
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        request = request.header(name, names.put(value));
    }
    let body = match std::str::from_utf8(body) {
        Ok(text) => Body::from(names.put(text)),
        Err(_) => Body::from(body.to_vec()),
    };
    request.body(body).ok()
}

async fn send(app: &Router, request: Request<Body>, names: &mut Names) -> Result<u16, String> {
    let answer = tokio::time::timeout(PATIENCE, app.clone().oneshot(request)).await;
    let response = answer.map_err(|_| "no answer begins in time".to_owned())?.map_err(|error| error.to_string())?;
    for (header, name) in [(SESSION_ID, "session"), (MESSAGE_ID, "message")] {
        if let Some(value) = response.headers().get(header).and_then(|value| value.to_str().ok()) {
            names.learn(name, value);
        }
    }
    let status = response.status();
    let mut text = Vec::new();
    let mut body = response.into_body().into_data_stream();
    let reading = async {
        while let Some(Ok(bytes)) = body.next().await {
            text.extend_from_slice(&bytes);
        }
    };
    let _ = tokio::time::timeout(STREAM, reading).await;
    let text = String::from_utf8_lossy(&text);
    if let Ok(serde_json::Value::Object(answer)) = serde_json::from_str(&text) {
        for (name, value) in answer.iter().filter_map(|(name, value)| Some((name, value.as_str()?))) {
            names.learn(name, value);
        }
    }
    // 503 and 501 are answers; a fault of ours is 500.
    match status.as_u16() {
        500 => Err(format!("{status}: {}", text.chars().take(300).collect::<String>())),
        status => Ok(status),
    }
}
