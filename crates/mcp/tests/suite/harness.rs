//! Servers to test with.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};

use everturn_core::{Block, CallId, Content, EffectId, Json, SessionId, TenantId, TurnId};
use everturn_mcp::{Backoff, Endpoint, Launcher, Mcp, Metrics, Parts, ServerConfig};
use everturn_tools::{Report, Reporter, ToolContext, ToolFailure, ToolOutput, ToolSet};
use prometheus_client::registry::Registry;
use serde_json::Value;
use tokio::sync::mpsc;

/// How long anything may take that a test waits for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// How programs are started here: as everywhere, by a guard.
pub(crate) fn launcher() -> Launcher {
    let environment = ["PATH", "HOME"].map(|name| (name.to_owned(), std::env::var(name).unwrap_or_default()));
    Launcher {
        program: PathBuf::from(env!("CARGO_BIN_EXE_mcp-guard")),
        arguments: Vec::new(),
        environment: environment.into(),
        temporary: std::env::temp_dir(),
    }
}

/// The file of the server that behaves badly.
pub(crate) fn bad_server() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/server.py")
}

/// The interpreter itself: what is called `python3` may be a script that sets variables and looks for it.
pub(crate) fn python() -> &'static str {
    static PYTHON: LazyLock<String> = LazyLock::new(|| {
        let output = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    });
    &PYTHON
}

/// The server that behaves badly, called `bad`, with these options.
pub(crate) fn bad(options: &[&str]) -> ServerConfig {
    let arguments = std::iter::once(bad_server().to_str().unwrap().to_owned());
    ServerConfig::stdio("bad", python(), arguments.chain(options.iter().map(|option| (*option).to_owned())))
}

/// Sets a variable of a server.
pub(crate) fn set_variable(config: &mut ServerConfig, name: &str, value: &str) {
    let Endpoint::Stdio { environment, .. } = &mut config.endpoint else { panic!("only programs have variables") };
    environment.insert(name.to_owned(), value.into());
}

/// Servers that run, and what is known of them.
pub(crate) struct World {
    pub(crate) mcp: Mcp,
    pub(crate) tools: Arc<ToolSet>,
    registry: Registry,
}

impl World {
    /// Starts servers, with short pauses.
    pub(crate) fn start(servers: impl IntoIterator<Item = ServerConfig>) -> Self {
        let backoff =
            Backoff { first: Duration::from_millis(50), most: Duration::from_millis(200), ..Backoff::default() };
        Self::start_with(servers, backoff)
    }

    pub(crate) fn start_with(servers: impl IntoIterator<Item = ServerConfig>, backoff: Backoff) -> Self {
        // Fails only if there is one already.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let tools = Arc::new(ToolSet::new([]).unwrap());
        let metrics = Metrics::default();
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        let parts = Parts { tools: Arc::clone(&tools), launcher: launcher(), metrics, backoff, lists: None };
        Self { mcp: Mcp::start(servers, parts), tools, registry }
    }

    /// Starts servers and waits until the first attempt at each is over.
    pub(crate) async fn settled(servers: impl IntoIterator<Item = ServerConfig>) -> Self {
        let world = Self::start(servers);
        world.mcp.settled().await;
        world
    }

    /// Starts one server, which must work.
    pub(crate) async fn ready(server: ServerConfig) -> Self {
        let world = Self::settled([server]).await;
        for health in world.mcp.health() {
            assert_eq!(health.trouble, None, "{}", health.name);
        }
        world
    }

    /// Calls a tool, and nobody watches.
    pub(crate) async fn call(&self, tool: &str, input: Value) -> Result<ToolOutput, ToolFailure> {
        self.call_with(tool, input, Reporter::default()).await
    }

    /// Calls a tool.
    pub(crate) async fn call_with(
        &self,
        tool: &str,
        input: Value,
        reporter: Reporter,
    ) -> Result<ToolOutput, ToolFailure> {
        let tool = self.tools.get(tool).unwrap_or_else(|| panic!("there is no {tool}: {:?}", self.tools.names()));
        let call = tool.call(context(reporter), Json::of(&input).unwrap());
        tokio::time::timeout(PATIENCE, call).await.expect("a call ends")
    }

    /// Calls a tool and gathers what it reports.
    pub(crate) async fn watched(&self, tool: &str, input: Value) -> (Result<ToolOutput, ToolFailure>, Vec<String>) {
        let (reporter, mut reports) = Reporter::new(1000);
        let result = self.call_with(tool, input, reporter).await;
        (result, told(&mut reports))
    }

    /// The metrics whose names begin so, one on each line.
    pub(crate) fn metrics(&self, name: &str) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text.lines().filter(|line| line.starts_with(name)).map(|line| format!("{line}\n")).collect()
    }
}

/// What was reported so far.
pub(crate) fn told(reports: &mut mpsc::Receiver<Report>) -> Vec<String> {
    let mut told = Vec::new();
    while let Ok(report) = reports.try_recv() {
        told.push(match report {
            Report::Notification { method, params } => format!("{method} {}", params.as_str()),
            Report::Question(question, _) => format!("question {}", question.title),
        });
    }
    told
}

pub(crate) fn context(reporter: Reporter) -> ToolContext {
    context_of(TenantId::local(), reporter)
}

/// The context of a tenant's call.
pub(crate) fn context_of(tenant: TenantId, reporter: Reporter) -> ToolContext {
    ToolContext {
        tenant,
        session: SessionId::mint(),
        turn: TurnId::mint(),
        call: CallId::mint(),
        effect_id: EffectId::mint(),
        reporter,
    }
}

/// The text of a result.
#[track_caller]
pub(crate) fn text(result: Result<ToolOutput, ToolFailure>) -> String {
    match result.unwrap().content {
        Content::Text(text) => text,
        Content::Blocks(blocks) => {
            let text = |block: &Block| match block {
                Block::Text(text) => text.clone(),
                other => format!("{other:?}"),
            };
            blocks.iter().map(text).collect::<Vec<_>>().join("\n")
        }
    }
}

/// Waits until something holds.
#[track_caller]
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) -> impl Future<Output = ()> {
    let place = std::panic::Location::caller();
    let what = what.to_owned();
    async move {
        let until = Instant::now() + PATIENCE;
        while !holds() {
            assert!(Instant::now() < until, "{what} did not happen, at {place}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Whether a process is there and has not ended.
pub(crate) fn is_alive(pid: i32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    let state = stat.rsplit_once(')').map_or("", |(_, rest)| rest.trim_start());
    !state.starts_with('Z')
}

/// The process ids in a file, once it is there.
pub(crate) async fn pids(file: &Path) -> Vec<i32> {
    eventually("the file of process ids", || file.exists()).await;
    std::fs::read_to_string(file).unwrap().split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}
