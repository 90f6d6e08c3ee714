//! What the engine counts.

use std::sync::{Arc, atomic::AtomicU64};

use everturn_core::{Prices, Usage};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use crate::memory::MemoryMetrics;

/// One label.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct Label {
    /// What kind.
    pub(crate) kind: String,
}

/// Labels of a tool call.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct ToolLabels {
    /// The tool.
    pub(crate) tool: String,
    /// `ok`, `error`, `timeout`, or `told`: answered without running.
    pub(crate) outcome: &'static str,
}

/// Labels of a model.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct ModelLabels {
    /// `provider/model`.
    pub(crate) model: String,
    /// `input` or `output`, or a part of one of them: `cached_input`, `cache_write`, `reasoning`.
    pub(crate) direction: &'static str,
}

/// The model of a cost.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct CostLabels {
    /// `provider/model`.
    pub(crate) model: String,
}

/// Dollars. Rounding errors are those of floating point numbers.
type Dollars = Counter<f64, AtomicU64>;

/// The engine's metrics. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Metrics {
    pub(crate) turns_started: Counter,
    pub(crate) turns_resumed: Counter,
    pub(crate) turns_recovered: Counter,
    pub(crate) turns_ended: Family<Label, Counter>,
    pub(crate) turns_live: Gauge,
    pub(crate) turns_queued: Gauge,
    pub(crate) steps: Counter,
    pub(crate) step_restarts: Counter,
    pub(crate) tokens: Family<ModelLabels, Counter>,
    prices: Arc<Prices>,
    cost: Family<CostLabels, Dollars>,
    pub(crate) tool_calls: Family<ToolLabels, Counter>,
    pub(crate) model_errors: Family<Label, Counter>,
    pub(crate) commit_seconds: Histogram,
    pub(crate) commit_commands: Histogram,
    pub(crate) commit_events: Counter,
    pub(crate) commit_failures: Counter,
    pub(crate) warm_bytes: Gauge,
    pub(crate) history_loads: Family<Label, Counter>,
    readers: Gauge,
    pub(crate) memory: MemoryMetrics,
}

impl Default for Metrics {
    fn default() -> Self {
        let seconds = [0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 2.0];
        let sizes = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 500.0, 1000.0];
        Self {
            turns_started: Counter::default(),
            turns_resumed: Counter::default(),
            turns_recovered: Counter::default(),
            turns_ended: Family::default(),
            turns_live: Gauge::default(),
            turns_queued: Gauge::default(),
            steps: Counter::default(),
            step_restarts: Counter::default(),
            tokens: Family::default(),
            prices: Arc::default(),
            cost: Family::default(),
            tool_calls: Family::default(),
            model_errors: Family::default(),
            commit_seconds: Histogram::new(seconds),
            commit_commands: Histogram::new(sizes),
            commit_events: Counter::default(),
            commit_failures: Counter::default(),
            warm_bytes: Gauge::default(),
            history_loads: Family::default(),
            readers: Gauge::default(),
            memory: MemoryMetrics::default(),
        }
    }
}

impl Metrics {
    /// Metrics that also count what model calls cost.
    pub fn with_prices(prices: Arc<Prices>) -> Self {
        Self { prices, ..Self::default() }
    }

    /// Counts what a call of this model has used.
    pub(crate) fn count_tokens(&self, model: &str, usage: Usage) {
        let Usage { input, output, cached_input, cache_write, reasoning } = usage;
        let parts = [("cached_input", cached_input), ("cache_write", cache_write), ("reasoning", reasoning)];
        // Most providers tell of few parts: a series that is always zero says nothing.
        let parts = parts.into_iter().filter(|(_, tokens)| *tokens > 0);
        for (direction, tokens) in [("input", input), ("output", output)].into_iter().chain(parts) {
            self.tokens.get_or_create(&ModelLabels { model: model.to_owned(), direction }).inc_by(tokens);
        }
        if let Some(price) = self.prices.of(model) {
            let labels = CostLabels { model: model.to_owned() };
            self.cost.get_or_create(&labels).inc_by(price.cost(usage).dollars());
        }
    }

    /// Adds them to a registry.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("everturn_turns_started", "Turns begun", self.turns_started.clone());
        registry.register("everturn_turns_resumed", "Waiting turns taken up by an answer", self.turns_resumed.clone());
        registry.register("everturn_turns_recovered", "Turns taken over at start", self.turns_recovered.clone());
        registry.register("everturn_turns_ended", "Turns ended, by outcome", self.turns_ended.clone());
        registry.register("everturn_turns_live", "Turns running now", self.turns_live.clone());
        registry.register("everturn_turns_queued", "Submissions that wait for a free slot", self.turns_queued.clone());
        registry.register("everturn_steps", "Model calls begun", self.steps.clone());
        registry.register("everturn_step_restarts", "Model calls begun again", self.step_restarts.clone());
        let parts = "Tokens used, by model and direction; cached_input and cache_write are part of input, reasoning is part \
                     of output";
        registry.register("everturn_tokens", parts, self.tokens.clone());
        if !self.prices.is_empty() {
            let cost = "Cost of model calls in dollars, by model, for models with a price";
            registry.register("everturn_cost_dollars", cost, self.cost.clone());
        }
        registry.register("everturn_tool_calls", "Tool calls resolved by the server", self.tool_calls.clone());
        registry.register("everturn_model_errors", "Failed model calls, by kind", self.model_errors.clone());
        registry.register("everturn_commit_seconds", "Time of one commit", self.commit_seconds.clone());
        registry.register("everturn_commit_commands", "Commands in one commit", self.commit_commands.clone());
        registry.register("everturn_events", "Events made durable", self.commit_events.clone());
        registry.register("everturn_commit_failures", "Commits that failed", self.commit_failures.clone());
        let warm = "Memory of sessions that were used lately, in bytes";
        registry.register("everturn_warm_sessions_bytes", warm, self.warm_bytes.clone());
        let loads = "Histories that a turn began with, by where they were: memory or store";
        registry.register("everturn_history_loads", loads, self.history_loads.clone());
        registry.register("everturn_readers", "Readers connected now", self.readers.clone());
        self.memory.register(registry);
    }

    pub(crate) fn reader(&self) -> ReaderGuard {
        self.readers.inc();
        ReaderGuard(self.readers.clone())
    }

    pub(crate) fn live_turn(&self) -> LiveGuard {
        self.turns_live.inc();
        LiveGuard(self.turns_live.clone())
    }
}

/// Counts a reader for as long as it lives.
#[derive(Debug)]
pub(crate) struct ReaderGuard(Gauge);

impl Drop for ReaderGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Counts a live turn for as long as it lives.
#[derive(Debug)]
pub(crate) struct LiveGuard(Gauge);

impl Drop for LiveGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}
