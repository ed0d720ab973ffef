//! The gain to expect: a closed queueing model with asymptotic bounds.
//!
//! A closed loop of N I/Os with time R inside the limit has throughput X = min(N, W) ÷ R, W being the limit. Without
//! the limit X = N ÷ R, but at most what the next limit allows: for the path X ÷ utilisation, for a VPN that is busy
//! for a share u of the time, and for a store whose k servers are busy for a share u, X ÷ u.

use std::collections::BTreeMap;

use serde::Serialize;
use wansan_trace::Layer;

use super::{Limit, Observed, encryption, lockstep, r2t};
use crate::path::FULL_UTILISATION;
use crate::summary::CellSummary;

/// What one cell would do once the advice is followed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
    /// The cell.
    pub cell: u64,
    /// The parameters of the sweep.
    pub parameters: BTreeMap<String, serde_json::Value>,
    /// Mean in flight per session at the top layer, as measured.
    pub in_flight: f64,
    /// I/Os per second as measured.
    pub iops: f64,
    /// I/Os per second predicted.
    pub predicted_iops: f64,
    /// `predicted_iops` ÷ `iops` − 1.
    pub gain: f64,
    /// What bounds the prediction.
    pub bound: Limit,
    /// What it comes from.
    pub source: PredictionSource,
}

/// What a prediction comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PredictionSource {
    /// Upper bounds set by the next limits.
    Bounds,
    /// A simulation of the recording with the change.
    Simulation,
}

impl PredictionSource {
    /// Its name in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            PredictionSource::Bounds => "bounds",
            PredictionSource::Simulation => "simulation",
        }
    }
}

/// The prediction for a cell once the advice against `limit` is followed. Advice that is not a number has no known
/// gain.
#[must_use]
pub(super) fn predict(observed: &Observed, limit: Limit) -> Prediction {
    let summary = &observed.summary;
    let total = &summary.total;
    let iops = total.iops;
    let freed = match limit {
        Limit::CommandWindow => without_command_window(summary),
        Limit::R2tRoundTrips => without_round_trips(summary),
        Limit::RouteLockstep => lockstep::shared_out(summary),
        _ => iops,
    };
    // The records do not show which path a connection takes, and what is freed uses another path than the fullest.
    let path_bound = (limit != Limit::RouteLockstep)
        .then(|| path_bound(summary))
        .flatten();
    let bounds = [
        (Limit::TooFewIos, Some(freed)),
        (Limit::PathRate, path_bound),
        (Limit::Encryption, encryption::bound(summary)),
        (Limit::Store, store_bound(summary)),
    ];
    let (bound, predicted_iops) = bounds
        .into_iter()
        .filter_map(|(limit, iops)| Some((limit, iops?)))
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .unwrap_or((Limit::Nothing, iops));
    let predicted_iops = predicted_iops.max(iops);
    let top = total.layers.first().map_or(0.0, |held| held.in_flight_mean);
    Prediction {
        cell: observed.cell,
        parameters: observed.parameters.clone(),
        in_flight: top / summary.sessions.len().max(1) as f64,
        iops,
        predicted_iops,
        gain: if iops > 0.0 {
            predicted_iops / iops - 1.0
        } else {
            0.0
        },
        bound,
        source: PredictionSource::Bounds,
    }
}

/// The rate of a closed loop whose I/Os do not wait for a CmdSN.
fn without_command_window(summary: &CellSummary) -> f64 {
    let total = &summary.total;
    match (total.above(Layer::Window), total.layer(Layer::Window)) {
        (Some(above), Some(window)) if window.in_flight_mean > 0.0 => {
            total.iops * above.in_flight_mean / window.in_flight_mean
        }
        _ => total.iops,
    }
}

/// The rate of a closed loop whose I/Os save these round trips, each being in the command window for a shorter time. A
/// paced load becomes no faster.
fn without_round_trips(summary: &CellSummary) -> f64 {
    let total = &summary.total;
    let closed = summary
        .sessions
        .iter()
        .filter(|s| s.load.is_some_and(|load| load.closed_loop))
        .count();
    let inside_ns = total
        .layer(Layer::Window)
        .map_or(total.latency.mean_ns, |window| window.little.inside_mean_ns);
    let left_ns = inside_ns - r2t::saved_ns(summary);
    if closed * 2 > summary.sessions.len() && left_ns > 0.0 {
        total.iops * inside_ns / left_ns
    } else {
        total.iops
    }
}

/// The rate at which the fullest path reaches full utilization.
fn path_bound(summary: &CellSummary) -> Option<f64> {
    let utilisation = summary
        .paths
        .iter()
        .map(|path| path.utilisation)
        .max_by(f64::total_cmp)
        .filter(|utilisation| *utilisation > 0.0)?;
    Some(summary.total.iops * FULL_UTILISATION / utilisation)
}

/// The rate at which the store's servers would always be busy. Their number shows only if I/Os waited for them: then it
/// is the maximum number ever busy at once.
fn store_bound(summary: &CellSummary) -> Option<f64> {
    /// A queue seen for less of the time than this may be chance.
    const SEEN_SHARE: f64 = 0.05;
    let store = summary.total.layer(Layer::Store)?;
    if summary.total.store_queue_share? < SEEN_SHARE || store.in_flight_mean <= 0.0 {
        return None;
    }
    let utilisation = store.in_flight_mean / store.in_flight_max?.max(1) as f64;
    Some(summary.total.iops / utilisation)
}
