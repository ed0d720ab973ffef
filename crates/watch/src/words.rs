//! Messages about the watch itself.

use std::time::Duration;

use wansan_tcp::watch::Method;
use wansan_trace::units;

/// Reports in a line that a network device was removed.
#[must_use]
pub fn describe_device_gone(device: &str) -> String {
    format!(
        "device {device} has gone: traffic over it stalls until there is another route; the watch \
         continues"
    )
}

/// Describes in a line how changes are observed.
#[must_use]
pub fn describe_method(method: &Method, interval: Duration) -> String {
    let every = units::format_duration(interval);
    match method {
        Method::Traced => {
            format!("wansan watch: every change is traced (eBPF), the rest sampled every {every}")
        }
        Method::Sampled { reason } => {
            format!("wansan watch: sampled every {every}, events inferred from samples: {reason}")
        }
    }
}
