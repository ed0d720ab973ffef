//! The finding of a whole sweep.

use std::collections::BTreeMap;

use wansan_trace::Layer;

use super::advice::advice;
use super::limits::{Verdict, judge};
use super::predict::predict;
use super::sampled::{self, share_uncertain};
use super::sentence::sentence;
use super::{Finding, Limit, Observed};

/// Explains the cells of one sweep, in any order.
///
/// Each cell is judged separately. The finding is the limit that takes most of the latency over all cells; any limit is
/// preferred to too few I/Os, and that to nothing. Its numbers are those of the binding cell with the fewest I/Os in
/// flight: the limit binds from there on.
#[must_use]
pub fn explain(cells: &[Observed]) -> Finding {
    let judged: Vec<(&Observed, Verdict)> = cells
        .iter()
        .map(|observed| (observed, judge(&observed.summary)))
        .collect();
    let limit = strongest(&judged);
    let mut binding: Vec<&(&Observed, Verdict)> = judged
        .iter()
        .filter(|(_, verdict)| verdict.limit == limit)
        .collect();
    binding.sort_by(|a, b| in_flight(a.0).total_cmp(&in_flight(b.0)));
    let Some((observed, verdict)) = binding.first() else {
        return nothing_observed();
    };
    let observed_binding: Vec<&Observed> = binding.iter().map(|(observed, _)| *observed).collect();
    let advice = advice(limit, &observed_binding);
    let is_number = advice
        .as_ref()
        .is_some_and(|advice| advice.parameter.is_some());
    // The next limits' bounds do not show in a sample of the I/Os.
    let is_complete = cells
        .iter()
        .all(|cell| cell.summary.sampled_one_in.is_none());
    let predicted =
        (is_number && is_complete).then(|| cells.iter().map(|cell| predict(cell, limit)).collect());
    let mut evidence = verdict.evidence.clone();
    if let Some(below) = &observed.summary.below_socket {
        evidence.push(crate::below::sentence(below));
    }
    evidence.extend(other_limits(&judged, limit));
    evidence.extend(cells.iter().flat_map(doubts));
    let mut finding = Finding {
        limit,
        layer: verdict.layer,
        above: verdict.above,
        wanted: verdict.wanted,
        got: verdict.got,
        waiting_share: verdict.waiting_share,
        waiting_share_uncertain: share_uncertain(&observed.summary, limit),
        cell: observed.cell,
        binds_in_cells: observed_binding.iter().map(|bound| bound.cell).collect(),
        evidence,
        sentence: String::new(),
        advice,
        predicted,
    };
    finding.sentence = sentence(&finding, observed, cells.len());
    finding
}

/// Mean number of I/Os in flight at the top layer.
fn in_flight(observed: &Observed) -> f64 {
    let top = observed.summary.total.layers.first();
    top.map_or(0.0, |held| held.in_flight_mean)
}

fn strongest(judged: &[(&Observed, Verdict)]) -> Limit {
    let mut shares: BTreeMap<Limit, f64> = BTreeMap::new();
    for (_, verdict) in judged {
        // A limit that stops TCP may show no waiting above the minimum, but it still counts.
        *shares.entry(verdict.limit).or_default() += verdict.waiting_share.max(0.01);
    }
    let any_limit = shares
        .iter()
        .filter(|(limit, _)| !matches!(limit, Limit::TooFewIos | Limit::Nothing))
        .max_by(|a, b| a.1.total_cmp(b.1))
        .map(|(limit, _)| *limit);
    any_limit.unwrap_or_else(|| {
        if shares.contains_key(&Limit::TooFewIos) {
            Limit::TooFewIos
        } else {
            Limit::Nothing
        }
    })
}

/// What binds in the cells in which `limit` does not.
fn other_limits(judged: &[(&Observed, Verdict)], limit: Limit) -> Vec<String> {
    let mut others: BTreeMap<Limit, Vec<String>> = BTreeMap::new();
    for (observed, verdict) in judged.iter().filter(|(_, v)| v.limit != limit) {
        let cells = others.entry(verdict.limit).or_default();
        cells.push(observed.cell.to_string());
    }
    others
        .into_iter()
        .map(|(limit, cells)| {
            let plural = if cells.len() == 1 { "" } else { "s" };
            format!("in cell{plural} {}: {limit}", cells.join(", "))
        })
        .collect()
}

/// What makes a cell's numbers doubtful.
fn doubts(observed: &Observed) -> Vec<String> {
    let cell = observed.cell;
    let losses = &observed.summary.losses;
    let mut doubts = Vec::new();
    for (kind, hosts) in &losses.dropped {
        for (host, count) in hosts {
            doubts.push(format!(
                "cell {cell}: {host} lost {count} {kind} records: its recorder was full \
                 (`--record-memory`)"
            ));
        }
    }
    for used in observed
        .summary
        .programs
        .iter()
        .filter(|used| used.is_starved())
    {
        doubts.push(format!(
            "cell {cell}: a thread of {} waited for a CPU {:.0} % of the time, and the program had \
             one for {:.0} %: other work on the computer slows this cell down",
            used.program,
            used.most_waited_share * 100.0,
            used.ran_share * 100.0,
        ));
    }
    let layers = &observed.summary.total.layers;
    if !layers.is_empty() && !layers.iter().any(|held| held.layer >= Layer::Target) {
        doubts.push(format!(
            "cell {cell}: there are no records of the target, so its side is not judged: \
             `wansan target --record` writes its records when it ends"
        ));
    }
    let sampled = sampled::doubts(&observed.summary).into_iter();
    doubts.extend(sampled.map(|doubt| format!("cell {cell}: {doubt}")));
    if losses.missing_crossings > 0 {
        doubts.push(format!(
            "cell {cell}: {} crossings are missing",
            losses.missing_crossings
        ));
    }
    for held in &observed.summary.total.layers {
        if !held.little.agrees {
            doubts.push(format!(
                "cell {cell}: Little's law does not hold at {}: N = {:.2}, X·W = {:.2}",
                held.layer,
                held.little.in_flight_mean,
                held.little.left_per_s * held.little.inside_mean_ns / 1e9,
            ));
        }
    }
    doubts
}

fn nothing_observed() -> Finding {
    Finding {
        limit: Limit::Nothing,
        layer: None,
        above: None,
        wanted: 0.0,
        got: 0.0,
        waiting_share: 0.0,
        waiting_share_uncertain: 0.0,
        cell: 0,
        binds_in_cells: Vec::new(),
        evidence: Vec::new(),
        sentence: "No cell was recorded: there is nothing to explain.".to_owned(),
        advice: None,
        predicted: None,
    }
}
