//! The size of the database, as of the writer's last look at it.

use std::{fmt, sync::Arc};

use everturn_store::Space;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _},
    metrics::gauge::ConstGauge,
    registry::Registry,
};

#[derive(Debug)]
struct SpaceMetrics(Arc<Space>);

/// Adds the sizes to a registry.
pub(crate) fn register(space: Arc<Space>, registry: &mut Registry) {
    registry.register_collector(Box::new(SpaceMetrics(space)));
}

impl Collector for SpaceMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Self(space) = self;
        for (name, help, value) in [
            ("everturn_store_bytes", "Size of the database file", space.bytes()),
            ("everturn_store_free_bytes", "Free space in the database file", space.free_bytes()),
            ("everturn_store_free_pages", "Free pages of the database file", space.free_pages()),
        ] {
            let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            let metric = encoder.encode_descriptor(name, help, None, gauge.metric_type())?;
            gauge.encode(metric)?;
        }
        Ok(())
    }
}
