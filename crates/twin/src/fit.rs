//! Whether a twin does what was recorded.

use serde::Serialize;
use wansan_insight::CellSummary;
use wansan_insight::cause::Cause;

/// How far throughput and latencies may be off, as a share of what was recorded.
pub const MOST_OFF: f64 = 0.05;
/// How far shares of the latency may be off.
pub const MOST_SHARE_OFF: f64 = 0.05;

/// One number of the recording and of its twin.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// What it is: `iops`, `latency_p50_ns`, `latency_p99_ns`, or `waits.CAUSE` for a share of the latency.
    pub name: String,
    /// As recorded.
    pub recorded: f64,
    /// As simulated.
    pub twin: f64,
    /// How far the twin is off: a share of what was recorded, or the difference of two shares.
    pub off: f64,
    /// How far it may be.
    pub most_off: f64,
}

impl Compared {
    /// Whether the twin is near enough.
    #[must_use]
    pub fn fits(&self) -> bool {
        self.off.abs() <= self.most_off
    }
}

/// Compares a twin's run with the recording, number by number.
#[must_use]
pub fn compare(recorded: &CellSummary, twin: &CellSummary) -> Vec<Compared> {
    let number = |name: &str, of: fn(&CellSummary) -> f64| {
        let (recorded, twin) = (of(recorded), of(twin));
        Compared {
            name: name.to_owned(),
            recorded,
            twin,
            off: (twin - recorded) / recorded.abs().max(1e-9),
            most_off: MOST_OFF,
        }
    };
    let mut compared = vec![
        number("iops", |cell| cell.total.iops),
        number("latency_p50_ns", |cell| cell.total.latency.p50_ns as f64),
        number("latency_p99_ns", |cell| cell.total.latency.p99_ns as f64),
    ];
    let share =
        |cell: &CellSummary, cause| cell.waits.mean_ns(cause) / cell.waits.latency_ns.max(1.0);
    let shares = Cause::ALL.into_iter().map(|cause| {
        let (recorded, twin) = (share(recorded, cause), share(twin, cause));
        Compared {
            name: format!("waits.{}", cause.name()),
            recorded,
            twin,
            off: twin - recorded,
            most_off: MOST_SHARE_OFF,
        }
    });
    compared.extend(shares.filter(|it| it.recorded > 0.0 || it.twin > 0.0));
    compared
}

/// How much the worst number is off, in units of what it may be.
#[must_use]
pub fn worst(compared: &[Compared]) -> f64 {
    let off = compared.iter().map(|it| it.off.abs() / it.most_off);
    off.fold(0.0, f64::max)
}
