//! All servers of a configuration.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use everturn_tools::{Resources, ToolSet};
use tokio::task::JoinHandle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    Backoff, KeptLists, Launcher, Metrics, ServerConfig, ServerHealth, ServerReport,
    server::{Server, Surroundings},
};

/// How long everything may take to stop.
const STOPPING: Duration = Duration::from_secs(15);

/// What servers are run with.
#[derive(Clone, Debug)]
pub struct Parts {
    /// Where their tools go.
    pub tools: Arc<ToolSet>,
    /// How programs are started.
    pub launcher: Launcher,
    /// What is counted.
    pub metrics: Metrics,
    /// How soon a server that failed is started again.
    pub backoff: Backoff,
    /// Where what they offer is kept, if anywhere.
    pub lists: Option<Arc<dyn KeptLists>>,
}

/// The servers. Cheap to clone. They go on when it is dropped; [`Mcp::shutdown`] ends them.
#[derive(Clone, Debug)]
pub struct Mcp(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    parts: Parts,
    running: Mutex<Vec<Running>>,
    /// Held while they are changed, so that one change is over before the next begins.
    changing: tokio::sync::Mutex<()>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

#[derive(Debug)]
struct Running {
    server: Arc<Server>,
    stop: CancellationToken,
    ended: JoinHandle<()>,
}

impl Mcp {
    /// Begins to start all that are enabled, and comes back at once.
    pub fn start(servers: impl IntoIterator<Item = ServerConfig>, parts: Parts) -> Self {
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let shared = Shared { parts, running: Mutex::default(), changing: Default::default(), tasks, stop };
        let enabled = servers.into_iter().filter(|config| config.enabled);
        *shared.running() = enabled.map(|config| shared.begin(config)).collect();
        shared.tasks.close();
        Self(Arc::new(shared))
    }

    /// Takes these for the servers there are. Those that are the same run on; others end, with the calls that they work on,
    /// before what takes their place is started. Comes back when the former ones have ended.
    pub async fn reload(&self, servers: impl IntoIterator<Item = ServerConfig>) -> Reloaded {
        let _changing = self.0.changing.lock().await;
        let mut wanted: Vec<_> = servers.into_iter().filter(|config| config.enabled).collect();
        let former = std::mem::take(&mut *self.0.running());
        let (same, gone): (Vec<_>, Vec<_>) =
            former.into_iter().partition(|running| wanted.iter().any(|config| config.is_same(&running.server.config)));
        let has = |servers: &[Running], name: &str| servers.iter().any(|running| running.server.config.name == name);
        wanted.retain(|config| !has(&same, &config.name));
        // Those that go on are there for whoever asks meanwhile.
        *self.0.running() = same;
        gone.iter().for_each(|running| running.stop.cancel());
        let mut told = Reloaded::default();
        for running in gone {
            let name = running.server.config.name.clone();
            if tokio::time::timeout(STOPPING, running.ended).await.is_err() {
                tracing::warn!(target: "everturn::mcp", server = name, "it did not stop in time; its guard goes on with it");
            }
            if wanted.iter().any(|config| config.name == name) {
                told.changed.push(name);
            } else {
                self.0.parts.tools.remove_server(&name);
                self.0.parts.metrics.forget(&name);
                told.removed.push(name);
            }
        }
        told.added =
            wanted.iter().map(|config| config.name.clone()).filter(|name| !told.changed.contains(name)).collect();
        if !self.0.stop.is_cancelled() {
            let begun: Vec<_> = wanted.into_iter().map(|config| self.0.begin(config)).collect();
            let mut running = self.0.running();
            running.extend(begun);
            running.sort_by(|one, other| one.server.config.name.cmp(&other.server.config.name));
        }
        told
    }

    /// How they are.
    pub fn health(&self) -> Vec<ServerHealth> {
        self.0.servers().iter().map(|server| server.health()).collect()
    }

    /// All there is to say about them.
    pub fn report(&self) -> Vec<ServerReport> {
        self.0.servers().iter().map(|server| server.report()).collect()
    }

    /// Waits until each has been started once, with whatever success.
    pub async fn settled(&self) {
        for server in self.0.servers() {
            server.settled().await;
        }
    }

    /// Ends them, and all that they have started. Calls in flight fail.
    pub async fn shutdown(&self) {
        self.0.stop.cancel();
        if tokio::time::timeout(STOPPING, self.0.tasks.wait()).await.is_err() {
            tracing::warn!(target: "everturn::mcp", "some MCP servers did not stop in time; their guards go on with it");
        }
    }
}

/// What has become of the servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// Those that were not there before.
    pub added: Vec<String>,
    /// Those that were started anew.
    pub changed: Vec<String>,
    /// Those that are there no more.
    pub removed: Vec<String>,
}

impl Shared {
    fn begin(&self, config: ServerConfig) -> Running {
        let Parts { tools, launcher, metrics, backoff, lists } = self.parts.clone();
        let stop = self.stop.child_token();
        let around = Surroundings { tools, launcher, backoff, lists, stop: stop.clone() };
        let server = Arc::new(Server::new(config, metrics));
        // Known before anybody asks.
        around.tools.start_server(&server.config.name);
        around.tools.set_resources(&server.config.name, Arc::clone(&server) as Arc<dyn Resources>);
        let ended = self.tasks.spawn(Arc::clone(&server).run(around));
        Running { server, stop, ended }
    }

    fn running(&self) -> MutexGuard<'_, Vec<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn servers(&self) -> Vec<Arc<Server>> {
        self.running().iter().map(|running| Arc::clone(&running.server)).collect()
    }
}
