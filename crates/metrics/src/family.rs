//! Families of samples in OpenMetrics text.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

/// Labels and their values.
pub type Labels = Vec<(&'static str, String)>;

/// The name of a family, what it says, and how to read it from a `T`.
pub type Row<T, V> = (&'static str, &'static str, fn(&T) -> V);

/// The whole text of what is collected.
pub fn openmetrics(collected: impl Collector) -> String {
    let mut registry = Registry::with_prefix("wansan");
    registry.register_collector(Box::new(collected));
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
    text
}

/// A family of numbers that only grow.
pub fn counters<V: EncodeCounterValue>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    samples: impl IntoIterator<Item = (Labels, V)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (labels, value) in samples {
        // Without labels there are no braces either.
        if labels.is_empty() {
            family.encode_counter::<NoLabelSet, V, u64>(&value, None)?;
        } else {
            family
                .encode_family(&labels)?
                .encode_counter::<NoLabelSet, V, u64>(&value, None)?;
        }
    }
    Ok(())
}

/// A family of numbers that come and go.
pub fn gauges<V: EncodeGaugeValue>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    samples: impl IntoIterator<Item = (Labels, V)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in samples {
        if labels.is_empty() {
            family.encode_gauge(&value)?;
        } else {
            family.encode_family(&labels)?.encode_gauge(&value)?;
        }
    }
    Ok(())
}
