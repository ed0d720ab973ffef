//! What a sample of the I/Os leaves open about the limit.

use wansan_trace::Layer;

use super::Limit;
use super::limits::{
    COMMAND_WAITING_SHARE, STOPPED_INSIDE_SHARE, STOPPED_SHARE, Verdict, View, by_share, percent,
};
use crate::cause::Cause;
use crate::ledger::{FEWEST_IOS, STANDARD_ERRORS};
use crate::summary::CellSummary;

/// What happens to one I/O in n is missing from a sample of 3 n with a probability of 5 %.
const RULE_OF_THREE: f64 = 3.0;

/// How far shares of the latency are taken to be off.
#[derive(Debug, Clone, Copy)]
pub(super) enum Margin {
    /// Not at all: the estimates.
    None,
    /// To the lower end of their confidence intervals.
    Least,
    /// To the upper end.
    Most,
}

impl Margin {
    pub(super) fn opposite(self) -> Margin {
        match self {
            Margin::None => Margin::None,
            Margin::Least => Margin::Most,
            Margin::Most => Margin::Least,
        }
    }

    pub(super) fn of(self, half: f64) -> f64 {
        match self {
            Margin::None => 0.0,
            Margin::Least => -half,
            Margin::Most => half,
        }
    }
}

/// Half of the 95 % confidence interval of the share of the latency that a limit takes; 0 if all I/Os were recorded.
pub(super) fn share_uncertain(summary: &CellSummary, limit: Limit) -> f64 {
    let waits = &summary.waits;
    if matches!(limit, Limit::TooFewIos | Limit::Nothing) {
        return 0.0;
    }
    // The service time of a full store counts, too.
    let served = match limit {
        Limit::Store => waits.cause_uncertain(Cause::StoreService),
        _ => 0.0,
    };
    (waits.share_uncertain(limit) + served).min(1.0)
}

/// If a sample of the I/Os was recorded: how uncertain that makes the limit's share, and which other limits it does not
/// rule out.
pub(super) fn evidence(view: &View<'_>, verdict: &Verdict) -> Vec<String> {
    let Some(number) = view.summary.sampled_one_in else {
        return Vec::new();
    };
    let half = share_uncertain(view.summary, verdict.limit);
    let recorded = format!(
        "one I/O in {number:.0} was recorded, {} of them",
        view.summary.waits.ios
    );
    let mut lines = vec![match verdict.limit {
        Limit::TooFewIos | Limit::Nothing => recorded,
        _ => format!(
            "{recorded}: the limit takes {:.1} ± {:.1} % of the latency (95 % confidence)",
            verdict.waiting_share * 100.0,
            half * 100.0,
        ),
    }];
    let window = view.counting(0.0, STOPPED_SHARE, Margin::None);
    let window =
        { window.into_iter().max_by(by_share) }.filter(|(limit, _)| *limit == Limit::CommandWindow);
    // Where the command window is full, what is full inside it would be the limit.
    let inside = |margin| {
        window.map_or(Vec::new(), |(_, share)| {
            view.counting(share, STOPPED_INSIDE_SHARE, margin)
        })
    };
    let is_inside = window.is_some() && verdict.limit != Limit::CommandWindow;
    let mut possible = inside(Margin::Most);
    if !is_inside {
        let least = verdict.waiting_share - half;
        let all = view.counting(0.0, STOPPED_SHARE, Margin::Most).into_iter();
        possible.extend(all.filter(|(_, most)| *most >= least));
    }
    for limit in Limit::ALL.into_iter().filter(|it| *it != verdict.limit) {
        let of_it = possible.iter().find(|(other, _)| *other == limit);
        lines.extend(of_it.map(|(_, most)| {
            format!(
                "the sample is too small to rule out another limit: {limit}, with up to {:.1} %",
                most.min(1.0) * 100.0
            )
        }));
    }
    let certain = match is_inside {
        true => inside(Margin::Least),
        false => view.counting(0.0, STOPPED_SHARE, Margin::Least),
    };
    let is_certain = certain.iter().any(|(limit, _)| *limit == verdict.limit);
    let by_its_share = view.most_costly(Margin::None);
    if by_its_share.is_some_and(|it| it.0 == verdict.limit) && !is_certain {
        lines.push(
            "the sample is too small to tell whether that is enough to be the limit".to_owned(),
        );
    }
    lines.extend(waits_for_cmd_sn(view));
    lines
}

/// In a sample, whether the command window is what commands wait for may not show.
fn waits_for_cmd_sn(view: &View<'_>) -> Option<String> {
    let window = view.total.layer(Layer::Window)?;
    let sessions = view.summary.sessions.iter();
    let mut uses = sessions.filter_map(|it| it.command_window);
    let is_unknown = window.way_in_ns >= COMMAND_WAITING_SHARE * view.latency_ns
        && !uses.any(|used| used.is_waited_for);
    is_unknown.then(|| {
        format!(
            "a command waits {} of its latency for its CmdSN; whether the command window, TCP or the program holds it back \
             does not show in a sample",
            percent(window.way_in_ns / view.latency_ns),
        )
    })
}

/// What makes the numbers of a cell doubtful of which a sample of the I/Os was recorded; nothing if all were.
pub(super) fn doubts(summary: &CellSummary) -> Vec<String> {
    let Some(number) = summary.sampled_one_in else {
        return Vec::new();
    };
    let waits = &summary.waits;
    let ios = waits.ios.max(1) as f64;
    let of_latency = waits.latency_uncertain_ns / waits.latency_ns.max(1.0);
    let mut doubts = vec![
        format!(
            "one I/O in {number:.0} was recorded: IOPS are uncertain by ± {:.1} %, the mean latency by ± {:.1} %, numbers in \
             flight by both; extremes are those of the recorded I/Os, and what fewer than one I/O in {:.0} waits for may \
             not show",
            100.0 * STANDARD_ERRORS / ios.sqrt(),
            100.0 * of_latency,
            ios / RULE_OF_THREE,
        ),
        "a sample does not show whether the application keeps a fixed number in flight, submits batches, or has \
         connections that wait for each other, nor what requests to attached disks waited for (`--record-sample 1` \
         records all)"
            .to_owned(),
    ];
    let sessions = &summary.sessions;
    let small = sessions.iter().filter(|it| it.scope.ios < FEWEST_IOS);
    let small = small.count();
    if small > 0 {
        doubts.push(format!(
            "{small} of {} sessions have fewer than {FEWEST_IOS} I/Os in the sample: their own numbers are rough",
            sessions.len(),
        ));
    }
    if summary.losses.unsampled_sessions > 0 {
        doubts.push(format!(
            "{} sessions have no I/O in the sample",
            summary.losses.unsampled_sessions
        ));
    }
    doubts
}
