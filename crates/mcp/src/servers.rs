//! All servers of a configuration.

use std::{sync::Arc, time::Duration};

use everturn_tools::{Resources, ToolSet};
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
pub struct Mcp {
    servers: Arc<[Arc<Server>]>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Mcp {
    /// Begins to start all that are enabled, and comes back at once.
    pub fn start(servers: impl IntoIterator<Item = ServerConfig>, parts: Parts) -> Self {
        let Parts { tools, launcher, metrics, backoff, lists } = parts;
        let stop = CancellationToken::new();
        let tasks = TaskTracker::new();
        let around = Surroundings { tools, launcher, backoff, lists, stop: stop.clone() };
        let enabled = servers.into_iter().filter(|config| config.enabled);
        let servers: Arc<[_]> = enabled.map(|config| Arc::new(Server::new(config, metrics.clone()))).collect();
        for server in servers.iter() {
            // Known before anybody asks.
            around.tools.start_server(&server.config.name);
            around.tools.set_resources(&server.config.name, Arc::clone(server) as Arc<dyn Resources>);
            tasks.spawn(Arc::clone(server).run(around.clone()));
        }
        tasks.close();
        Self { servers, tasks, stop }
    }

    /// How they are.
    pub fn health(&self) -> Vec<ServerHealth> {
        self.servers.iter().map(|server| server.health()).collect()
    }

    /// All there is to say about them.
    pub fn report(&self) -> Vec<ServerReport> {
        self.servers.iter().map(|server| server.report()).collect()
    }

    /// Waits until each has been started once, with whatever success.
    pub async fn settled(&self) {
        for server in self.servers.iter() {
            server.settled().await;
        }
    }

    /// Ends them, and all that they have started. Calls in flight fail.
    pub async fn shutdown(&self) {
        self.stop.cancel();
        if tokio::time::timeout(STOPPING, self.tasks.wait()).await.is_err() {
            tracing::warn!(target: "everturn::mcp", "some MCP servers did not stop in time; their guards go on with it");
        }
    }
}
