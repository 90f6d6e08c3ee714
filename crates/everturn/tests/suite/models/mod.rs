//! `everturn models`, against a server that offers a few models and one that refuses its callers.

mod list;
mod trial;

use std::{
    process::Output,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    extract::{Request, State},
    response::{IntoResponse as _, Response},
};
use serde_json::{Value, json};

use super::harness::{Home, PROVIDER_KEY, Reply, runtime};

/// A request that the server got.
#[derive(Clone, Debug)]
struct Got {
    path: String,
    team: String,
    body: Value,
}

/// The server, and what it got.
struct Upstream {
    url: String,
    got: Arc<Mutex<Vec<Got>>>,
}

impl Upstream {
    fn start() -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let got = Arc::<Mutex<Vec<Got>>>::default();
        let app = Router::new().fallback(answer).with_state(Arc::clone(&got));
        runtime().spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            axum::serve(listener, app).await.unwrap();
        });
        Self { url, got }
    }

    fn got(&self) -> Vec<Got> {
        self.got.lock().unwrap().clone()
    }
}

async fn answer(State(got): State<Arc<Mutex<Vec<Got>>>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let header = |name: &str| parts.headers.get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
    let body = axum::body::to_bytes(body, 1024 * 1024).await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let path = parts.uri.to_string();
    got.lock().unwrap().push(Got { path: path.clone(), team: header("x-team"), body: body.clone() });
    if path.starts_with("/closed") {
        // As some vendors do, it repeats the key.
        let message = format!("Incorrect API key provided: {}", header("authorization"));
        let error = json!({ "error": { "message": message, "code": "invalid_api_key" } });
        return Reply::status(401, &[("content-type", "application/json")], &error.to_string()).into_response();
    }
    if path.contains("/models") {
        return axum::Json(models()).into_response();
    }
    chat(&body).into_response()
}

fn models() -> Value {
    json!({ "data": [
        { "id": "new-model", "context_length": 1_050_000, "pricing": { "prompt": "0.000002", "completion": "0.00001" },
          "top_provider": { "max_completion_tokens": 128_000 } },
        { "id": "auto", "pricing": { "prompt": "-1", "completion": "-1" } },
        { "id": "gpt-4o" },
    ] })
}

/// Plays a model that is short-sighted and not to be forced.
fn chat(request: &Value) -> Reply {
    let conversation = request["messages"].to_string();
    let has_tools = request["tools"].is_array();
    if conversation.contains("one word: ready") {
        Reply::says(&["ready"])
    } else if conversation.contains("Add 17 and 25") {
        Reply::calls(&[("add", json!({ "a": 17, "b": 25 }))])
    } else if has_tools {
        let error = json!({ "error": { "message": "nobody forces me today" } });
        Reply::status(400, &[("content-type", "application/json")], &error.to_string())
    } else if conversation.contains("farmer") {
        Reply::new().thinking("nine are left").text("27").stops()
    } else if conversation.contains("Which colour") {
        Reply::says(&["Green."])
    } else {
        Reply::says(&[r#"{"sum":"#, "42}"])
    }
}

/// A configuration with the server, the one that refuses and the demo.
fn config(upstream: &Upstream) -> String {
    let url = &upstream.url;
    format!(
        "\
[providers.open]
kind = 'openai'
wire = 'chat'
base_url = '{url}/v1?api-version=2026-01-01'
api_key = '{PROVIDER_KEY}'
headers = {{ X-Team = 'env:TEAM' }}
body = {{ seed = 7, metadata = {{ by = 'provider', team = 'blue' }} }}
[providers.closed]
kind = 'openai'
wire = 'chat'
base_url = '{url}/closed/v1'
api_key = '{PROVIDER_KEY}'
[[agents]]
name = 'first'
model = 'open/new-model'
fallback = ['open/lost']
body = {{ metadata = {{ by = 'agent' }} }}
[[agents]]
name = 'second'
model = 'closed/any'
[[agents]]
name = 'third'
model = 'open/new-model'
"
    )
}

fn run(config: &str, arguments: &[&str]) -> Output {
    Home::new(config).run_in(&[("TEAM", "team-secret")], arguments)
}

/// What was printed and the exit code, without times and without what the wires say of a model. No secret is in it.
#[track_caller]
fn shown(upstream: &Upstream, output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    for secret in [PROVIDER_KEY, "team-secret"] {
        assert!(!out.contains(secret) && !err.contains(secret), "{out}{err}");
    }
    let lines = out.lines().filter(|line| !line.trim_start().starts_with("note: "));
    let lines = lines.map(|line| line.split(": window").next().unwrap());
    let lines = lines.map(|line| match line.split_once("first token after ") {
        Some((before, after)) => {
            format!("{before}first token after {}", after.replacen(|c: char| c.is_ascii_digit(), "N", 2))
        }
        None => line.to_owned(),
    });
    let out: String = lines.map(|line| line.replace(&upstream.url, "http://upstream") + "\n").collect();
    format!("exit: {}\n----- stdout\n{out}----- stderr\n{err}", output.status.code().unwrap())
}
