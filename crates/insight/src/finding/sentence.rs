//! The finding in words.

use super::{Finding, Limit, Observed, stalls};

/// The finding as a storage engineer would say it. `observed` is the cell it speaks of.
pub(super) fn sentence(finding: &Finding, observed: &Observed, cells: usize) -> String {
    let total = &observed.summary.total;
    let latency = format!("{:.1} ms", total.latency.mean_ns / 1e6);
    let share = format!("{:.0} %", finding.waiting_share * 100.0);
    let (wanted, got) = (count(finding.wanted), count(finding.got));
    let sessions = observed.summary.sessions.len();
    let each = if sessions == 1 { "" } else { " per session" };
    let from = if cells > finding.binds_in_cells.len() {
        let in_flight = total.layers.first().map_or(0.0, |held| held.in_flight_mean);
        let in_flight = in_flight / sessions.max(1) as f64;
        format!("From {in_flight:.0} in flight per session on, ")
    } else {
        String::new()
    };
    let said = match finding.limit {
        Limit::CommandWindow => format!(
            "commands wait for the command window: {wanted} wanted in, {got} got in{each}; {share} \
             of the latency of {latency} is spent waiting for a CmdSN slot"
        ),
        Limit::Store => format!(
            "I/Os wait for the store: {wanted} wanted in, {got} got in{each}; {share} of the \
             latency of {latency} is the store's"
        ),
        Limit::RouteLockstep => format!(
            "the routes are in lockstep: a fast connection has {got} commands on their way where it \
             could have {wanted}, as it waits for a slower one; {share} of the latency of {latency} \
             is the slower one's"
        ),
        Limit::PathRate => format!(
            "the path is full: {wanted} I/Os are between the ends{each}, where an empty path would \
             hold {got}; {share} of the latency of {latency} is spent waiting for the link"
        ),
        Limit::Encryption => format!(
            "data wait for a router's encryption: its VPN has something to do all of the time; {share} \
             of the latency of {latency} is spent between the ends"
        ),
        Limit::ReceiveWindow => format!(
            "data wait for the receiver's TCP window: {share} of the latency of {latency} is spent \
             waiting between the ends"
        ),
        Limit::SendBuffer => format!(
            "data wait for room in the sender's TCP buffer: {share} of the latency of {latency} is \
             spent waiting between the ends"
        ),
        Limit::CongestionWindow => format!(
            "data wait for the sender's congestion window: {share} of the latency of {latency} is \
             spent waiting between the ends"
        ),
        Limit::R2tRoundTrips => format!(
            "writes wait for their data to be asked for: the target has {wanted} of them and all \
             data of {got}{each}; {share} of the latency of {latency} passes between an R2T and \
             the first of its data"
        ),
        Limit::Stalls => format!(
            "I/Os stand still for {share} of the latency of {latency}, each by itself: {}",
            stalls::in_words(&observed.summary)
        ),
        Limit::TooFewIos => format!(
            "too few I/Os are asked for: {wanted} in flight{each} and nothing waits; the latency \
             of {latency} is the way there and back"
        ),
        Limit::Nothing if total.ios == 0 => "no I/O was completed in the measured time".to_owned(),
        Limit::Nothing => format!(
            "nothing binds: {got} in flight{each} on average at a latency of {latency}, and no \
             recorded limit holds them back"
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

/// A mean number of I/Os: whole, but for small ones.
fn count(mean: f64) -> String {
    if mean >= 9.95 || (mean - mean.round()).abs() < 0.05 {
        format!("{mean:.0}")
    } else {
        format!("{mean:.1}")
    }
}

/// The largest gain predicted, and where.
fn gain(finding: &Finding) -> String {
    let best = finding
        .predicted
        .iter()
        .flatten()
        .max_by(|a, b| a.gain.total_cmp(&b.gain));
    match best {
        Some(best) => format!(
            ": expect {:+.0} % at {:.0} parallel",
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
