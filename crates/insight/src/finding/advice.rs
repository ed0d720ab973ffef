//! What to change.

use wansan_schema::Advice;

use super::{Limit, Observed, lockstep, r2t, stalls};

/// Command windows are advised in multiples of this.
const COMMAND_WINDOW_STEP: u64 = 8;

/// The advice against `limit` in these cells; none when nothing binds.
pub(super) fn advice(limit: Limit, binding: &[&Observed]) -> Option<Advice> {
    if limit == Limit::CommandWindow {
        let window = most_wanted(binding)
            .div_ceil(COMMAND_WINDOW_STEP)
            .saturating_mul(COMMAND_WINDOW_STEP);
        return Some(Advice {
            text: format!("raise the target's command window (`--command-window`) to {window}"),
            parameter: Some("target.command_window".to_owned()),
            value: Some(window.to_string()),
            ..Advice::default()
        });
    }
    if limit == Limit::R2tRoundTrips {
        let summaries = binding.iter().map(|observed| &observed.summary);
        let uses: Vec<_> = summaries.flat_map(r2t::uses).collect();
        return r2t::advice(&uses);
    }
    if limit == Limit::RouteLockstep {
        return Some(lockstep::advice(binding));
    }
    let text = match limit {
        Limit::Store => "use a store that serves more I/Os at once or each one faster",
        Limit::PathRate => "use a path of a higher rate, or ask for fewer bytes",
        Limit::Encryption => {
            "use a cipher that takes less processor time (3DES and AES-CBC take more than AES-GCM \
             and ChaCha20-Poly1305), spread the connections over tunnels between other routers, or let \
             hardware encrypt"
        }
        Limit::ReceiveWindow => {
            "let the receive buffer grow (`net.ipv4.tcp_rmem`, no fixed SO_RCVBUF) to the \
             bandwidth-delay product or more"
        }
        Limit::SendBuffer => {
            "let the send buffer grow (`net.ipv4.tcp_wmem`, no fixed SO_SNDBUF) to twice the \
             bandwidth-delay product or more"
        }
        Limit::CongestionWindow => {
            "use a congestion control made for long paths (`--congestion-control`), deepen the \
             bottleneck's queue, or find what loses packets"
        }
        Limit::Stalls => stalls::advice(binding)?,
        Limit::Processor => {
            "give the program a faster processor or less to do for each byte (digests, verifying), or \
             spread the load over several sessions"
        }
        Limit::TooFewIos => "keep more I/Os in flight (`--parallel`)",
        Limit::RouteLockstep | Limit::CommandWindow | Limit::R2tRoundTrips | Limit::Nothing => {
            return None;
        }
    };
    Some(Advice {
        text: text.to_owned(),
        ..Advice::default()
    })
}

/// The most that any session of any cell ever wanted to have in flight.
fn most_wanted(binding: &[&Observed]) -> u64 {
    binding
        .iter()
        .flat_map(|observed| &observed.summary.sessions)
        .filter_map(|session| session.scope.above(wansan_trace::Layer::Window))
        .map(|above| above.in_flight_max)
        .max()
        .unwrap_or(0)
}
