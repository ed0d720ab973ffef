//! The finding in words.

use super::{Finding, Limit, Observed, PredictionSource, stalls};
use crate::cause::Cause;

/// The finding in a storage engineer's words. `observed` is the cell that it describes.
pub(super) fn sentence(finding: &Finding, observed: &Observed, cells: usize) -> String {
    let total = &observed.summary.total;
    let latency = format!("{:.1} ms", total.latency.mean_ns / 1e6);
    let share = match finding.waiting_share_uncertain {
        0.0 => format!("{:.0} %", finding.waiting_share * 100.0),
        half => format!(
            "{:.1} ± {:.1} %",
            finding.waiting_share * 100.0,
            half * 100.0
        ),
    };
    let (wanted, got) = (count(finding.wanted), count(finding.got));
    let sessions = observed.summary.sessions.len();
    let each = if sessions == 1 { "" } else { " per session" };
    let from = if cells > finding.binds_in_cells.len() {
        let in_flight = total.layers.first().map_or(0.0, |held| held.in_flight_mean);
        let in_flight = in_flight / sessions.max(1) as f64;
        format!("From {in_flight:.0} I/Os in flight per session on, ")
    } else {
        String::new()
    };
    let said = match finding.limit {
        Limit::CommandWindow => format!(
            "the command window limits throughput: the queue depth is {wanted}{each}, the window \
             {got}; {share} of the {latency} latency is spent waiting for a CmdSN slot"
        ),
        Limit::Store => format!(
            "the backing store limits throughput: {wanted} I/Os are ready for it{each} and it \
             serves {got} at a time; {share} of the {latency} latency is spent in the store"
        ),
        Limit::RouteLockstep => format!(
            "the slower route limits the faster one: a fast connection has {got} commands in \
             flight where it could have {wanted}; {share} of the {latency} latency is spent waiting \
             for the slower route"
        ),
        Limit::PathRate => format!(
            "the path's rate limits throughput: {wanted} I/Os are in flight between the \
             ends{each}, where an idle path would hold {got}; {share} of the {latency} latency is \
             spent at the link or queued for it"
        ),
        Limit::Encryption => format!(
            "encryption limits throughput: a router's VPN is busy all the time; {share} of the \
             {latency} latency is spent between the ends"
        ),
        Limit::ReceiveWindow => format!(
            "the TCP receive window limits throughput: {share} of the {latency} latency is spent \
             waiting between the ends"
        ),
        Limit::SendBuffer => format!(
            "the TCP send buffer limits throughput: {share} of the {latency} latency is spent \
             waiting between the ends"
        ),
        Limit::CongestionWindow => format!(
            "the TCP congestion window limits throughput: {share} of the {latency} latency is \
             spent waiting between the ends"
        ),
        Limit::R2tRoundTrips => format!(
            "R2T round trips limit writes: the target holds {wanted} write commands{each}, and has all data \
             for {got} of them; {share} of the {latency} latency is spent between an R2T and its first data"
        ),
        Limit::Stalls => format!(
            "stalls of single I/Os take {share} of the {latency} latency: {}",
            stalls::in_words(&observed.summary)
        ),
        Limit::Processor => format!(
            "a program is CPU-bound: {share} of the {latency} latency is spent in it or waiting for it"
        ),
        Limit::TooFewIos => format!(
            "too few I/Os in flight limit throughput: the queue depth is {wanted}{each} and nothing \
             queues; the {latency} latency is {}",
            match is_served_longest(observed) {
                true => "the store's service time",
                false => "the round trip",
            }
        ),
        Limit::Nothing if total.ios == 0 => "no I/O completed in the measured time".to_owned(),
        Limit::Nothing => format!(
            "no recorded limit binds: {got} I/Os in flight{each} on average at a latency of \
             {latency}"
        ),
    };
    let advice = match &finding.advice {
        Some(advice) => format!("; {}{}", advice.text, gain(finding)),
        None => String::new(),
    };
    let whole = format!("{from}{said}{advice}.");
    if from.is_empty() {
        capitalised(&whole)
    } else {
        whole
    }
}

/// Whether the store's service takes longer than the path.
fn is_served_longest(observed: &Observed) -> bool {
    let waits = &observed.summary.waits;
    waits.mean_ns(Cause::StoreService) > waits.mean_ns(Cause::Propagation)
}

/// A mean number of I/Os: as a whole number, except small fractional ones.
fn count(mean: f64) -> String {
    if mean >= 9.95 || (mean - mean.round()).abs() < 0.05 {
        format!("{mean:.0}")
    } else {
        format!("{mean:.1}")
    }
}

/// The largest predicted gain, and where.
fn gain(finding: &Finding) -> String {
    let best = finding
        .predicted
        .iter()
        .flatten()
        .max_by(|a, b| a.gain.total_cmp(&b.gain));
    match best {
        Some(best) => format!(
            ": expect {}{:+.0} % at {:.0} parallel",
            match best.source {
                PredictionSource::Bounds => "at most ",
                PredictionSource::Simulation => "",
            },
            best.gain * 100.0,
            best.in_flight
        ),
        None => String::new(),
    }
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}
