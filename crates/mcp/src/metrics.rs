//! What is counted about MCP servers.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

/// Names a server.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct ServerLabel {
    /// Its name.
    pub(crate) server: String,
}

/// Names a server and how a call of one of its tools ended.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct CallLabels {
    /// The server.
    pub(crate) server: String,
    /// `ok`, `error` (the tool says so), `failed` (there is no result) or `cancelled` (nobody waited any more).
    pub(crate) outcome: &'static str,
}

/// The metrics. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Metrics {
    pub(crate) up: Family<ServerLabel, Gauge>,
    pub(crate) restarts: Family<ServerLabel, Counter>,
    pub(crate) calls: Family<CallLabels, Counter>,
    pub(crate) call_seconds: Family<ServerLabel, Histogram, fn() -> Histogram>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            up: Family::default(),
            restarts: Family::default(),
            calls: Family::default(),
            call_seconds: Family::new_with_constructor(|| {
                Histogram::new([0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0])
            }),
        }
    }
}

impl Metrics {
    /// Tells nothing more of how a server is that is there no more.
    pub(crate) fn forget(&self, server: &str) {
        let label = ServerLabel { server: server.to_owned() };
        self.up.remove(&label);
        self.restarts.remove(&label);
    }

    /// Adds them to a registry.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("everturn_mcp_up", "Whether an MCP server is ready", self.up.clone());
        registry.register("everturn_mcp_restarts", "Times that an MCP server was started again", self.restarts.clone());
        registry.register("everturn_mcp_calls", "Calls of MCP tools, by how they ended", self.calls.clone());
        registry.register("everturn_mcp_call_seconds", "Time of one call of an MCP tool", self.call_seconds.clone());
    }
}
