//! Other people's servers, started for these tests. Each ends when its standard input does: with this process.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::OnceLock,
};

use everturn_models::{Model, OpenAiWire, Provider, ProviderConfig, ProviderKind};
use serde_json::{Value, json};

/// A server that runs.
pub(crate) struct Peer {
    pub(crate) url: String,
    child: Child,
    stdin: Option<ChildStdin>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/peers")
}

/// Starts a server that prints its address as its first line.
fn start(command: &mut Command) -> Peer {
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut child = child.unwrap_or_else(|error| panic!("failed to start {command:?}: {error}; is it installed?"));
    let mut url = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
    let stdin = child.stdin.take();
    assert!(url.starts_with("http://127.0.0.1:"), "{command:?} printed {url:?} instead of its address");
    Peer { url: url.trim().to_owned(), child, stdin }
}

/// The Python that the peers from PyPI are installed for, in their folder.
fn python() -> Command {
    let folder = folder();
    let python = folder.join(".venv/bin/python");
    let install = "cd tests/peers && python3 -m venv .venv && .venv/bin/pip install --no-deps -r requirements.txt";
    assert!(python.exists(), "the peers from PyPI are not installed; run: {install}");
    let mut command = Command::new(python);
    command.current_dir(folder);
    command
}

/// A real llama.cpp server.
pub(crate) fn llama() -> Peer {
    start(python().arg("llama_server.py"))
}

/// Strict fakes of the vendors' servers, which check requests with the vendors' own SDKs and documented rules. One
/// process for all tests of this process; each test has a scope with a script, a journal and caches of its own.
pub(crate) struct StrictFake {
    url: String,
}

impl StrictFake {
    /// The scope `name`. `steps` is how many answers with calls its agent gives before it ends a turn.
    pub(crate) async fn new(name: &str, steps: usize) -> Self {
        static SERVER: OnceLock<Peer> = OnceLock::new();
        let server = SERVER.get_or_init(|| start(python().arg("strict_models.py")));
        let fake = Self { url: format!("{}/s/{name}", server.url) };
        let url = format!("{}/__settings", fake.url);
        let set = reqwest::Client::new().post(url).json(&json!({"steps": steps})).send().await.unwrap();
        assert!(set.status().is_success(), "{}", set.text().await.unwrap());
        fake
    }

    /// One of the vendors' models. `path` is what stands before the wire's own path, such as `/v1`.
    pub(crate) fn model(&self, config: ProviderConfig, path: &str, model: &str) -> std::sync::Arc<dyn Model> {
        let kind = config.kind;
        let base_url = Some(format!("{}{path}", self.url));
        let config = ProviderConfig { base_url, api_key: Some("test-key".into()), ..config };
        Provider::new(kind.as_str(), config).unwrap().model(model)
    }

    /// All requests so far, oldest first; see `tests/peers/strict/core.py`.
    pub(crate) async fn journal(&self) -> Vec<Value> {
        reqwest::get(format!("{}/__journal", self.url)).await.unwrap().json().await.unwrap()
    }
}

/// Runs the vendors' SDKs against the fakes; gives what that printed.
pub(crate) fn strict_selftest() -> Result<String, String> {
    let output = python().args(["-m", "strict.selftest"]).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

/// The mock of the providers' wires. One for all tests of this process; each uses a model name of its own.
pub(crate) struct AiMock {
    url: String,
    model: String,
}

impl AiMock {
    /// The mock, which gives `response` whenever `model` is called. `options` are those of its fixtures.
    pub(crate) async fn new(model: &str, response: Value, options: Value) -> Self {
        static SERVER: OnceLock<Peer> = OnceLock::new();
        let server = SERVER.get_or_init(|| {
            let folder = folder();
            let installed = folder.join("node_modules/@copilotkit/aimock").exists();
            assert!(installed, "aimock is not installed; with Node.js 20 or later run: cd tests/peers && npm ci");
            start(Command::new("node").arg(folder.join("aimock.mjs")))
        });
        let mut fixture = json!({"match": {"model": model}, "response": response});
        fixture.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        let mock = Self { url: server.url.clone(), model: model.to_owned() };
        let added = mock.control("fixtures").json(&json!({"fixtures": [fixture]})).send().await.unwrap();
        assert!(added.status().is_success(), "{}", added.text().await.unwrap());
        mock
    }

    fn control(&self, what: &str) -> reqwest::RequestBuilder {
        reqwest::Client::new().post(format!("{}/__aimock/{what}", self.url))
    }

    /// The model, through one of our wires.
    pub(crate) fn model(&self, kind: ProviderKind) -> std::sync::Arc<dyn Model> {
        self.model_of(kind.as_str(), ProviderConfig::new(kind))
    }

    /// The model, through OpenAI's Responses.
    pub(crate) fn responses_model(&self) -> std::sync::Arc<dyn Model> {
        let wire = Some(OpenAiWire::Responses);
        self.model_of("responses", ProviderConfig { wire, ..ProviderConfig::new(ProviderKind::OpenAi) })
    }

    fn model_of(&self, name: &str, config: ProviderConfig) -> std::sync::Arc<dyn Model> {
        let (base_url, api_key) = (Some(self.url.clone()), Some("test-key".into()));
        Provider::new(name, ProviderConfig { base_url, api_key, ..config }).unwrap().model(&self.model)
    }

    /// The calls of this model, as the mock understood them: translated into OpenAI's form, oldest first.
    pub(crate) async fn journal(&self) -> Vec<Value> {
        let url = format!("{}/__aimock/journal", self.url);
        let entries: Vec<Value> = reqwest::get(url).await.unwrap().json().await.unwrap();
        entries.into_iter().filter(|entry| entry["body"]["model"] == self.model.as_str()).collect()
    }
}
