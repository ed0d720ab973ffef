//! A router's VPN that is always busy encrypting: faster traffic waits in front of it, held back by TCP's windows,
//! which looks like too small a congestion window.

use wansan_trace::event::Role;

use super::Limit;
use super::limits::{Verdict, View};
use crate::path::FULL_UTILISATION;
use crate::processors::ProgramUse;
use crate::summary::CellSummary;

/// The router whose VPN uses the most CPU time.
fn busiest(summary: &CellSummary) -> Option<&ProgramUse> {
    let routers = summary
        .programs
        .iter()
        .filter(|used| used.role == Role::Vpn);
    routers.max_by(|a, b| a.ran_share.total_cmp(&b.ran_share))
}

/// Judges a cell.
pub(super) fn judge(view: &View<'_>) -> Option<Verdict> {
    let path = view.fullest_path();
    if path.is_some_and(|path| path.utilisation >= FULL_UTILISATION) {
        return None;
    }
    let router = busiest(view.summary).filter(|used| used.is_full_vpn())?;
    let mut evidence = vec![
        format!(
            "{} uses {:.2} CPUs on average and could use {:.2}: it always has work",
            router.program,
            router.ran_share,
            router.wanted_share(),
        ),
        format!(
            "at this cost a whole CPU could carry at most {:.1} Mbit/s of data; it carries {:.1}",
            view.data_bits_per_s() / router.ran_share / 1e6,
            view.data_bits_per_s() / 1e6,
        ),
    ];
    let others = view
        .summary
        .programs
        .iter()
        .filter(|used| used.role == Role::Vpn);
    for other in others.filter(|other| other.program != router.program) {
        evidence.push(format!(
            "{} uses {:.2} and could use {:.2}",
            other.program,
            other.ran_share,
            other.wanted_share(),
        ));
    }
    let mut verdict = view.network_verdict(Limit::Encryption, evidence);
    // The encryption delay is always present, so the minimum transit time contains it too.
    let encrypting = view.transit_share() * router.wanted_share().min(1.0);
    verdict.waiting_share = verdict.waiting_share.max(encrypting);
    Some(verdict)
}

/// I/Os per second at which the busiest VPN would use a whole CPU.
pub(super) fn bound(summary: &CellSummary) -> Option<f64> {
    let ran_share = busiest(summary)?.ran_share.min(1.0);
    (ran_share > 0.0).then(|| summary.total.iops / ran_share)
}
