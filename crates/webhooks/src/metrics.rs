//! What is counted of webhooks. Without the names of tenants: everybody may see it.

use prometheus_client::{
    metrics::{counter::Counter, gauge::Gauge},
    registry::Registry,
};

/// The counts. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    pub(crate) delivered: Counter,
    pub(crate) failed_attempts: Counter,
    pub(crate) given_up: Counter,
    pub(crate) waiting: Gauge,
}

impl Metrics {
    /// Adds them to a registry.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("everturn_webhooks_delivered", "Messages that receivers took", self.delivered.clone());
        let help = "Attempts to deliver a message that failed";
        registry.register("everturn_webhooks_failed_attempts", help, self.failed_attempts.clone());
        registry.register("everturn_webhooks_given_up", "Messages that no receiver took", self.given_up.clone());
        let help = "Messages that wait to be delivered, as far as they are in memory";
        registry.register("everturn_webhooks_waiting", help, self.waiting.clone());
    }
}
