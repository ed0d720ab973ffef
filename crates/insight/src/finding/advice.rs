//! What to change.

use wansan_schema::Advice;

use super::{Limit, Observed, lockstep, r2t, stalls};

/// Command windows are advised in multiples of this.
const COMMAND_WINDOW_STEP: u64 = 8;

/// The advice against `limit` in these cells; `None` if there is nothing to change.
pub(super) fn advice(limit: Limit, binding: &[&Observed]) -> Option<Advice> {
    if limit == Limit::CommandWindow {
        let window = most_wanted(binding)
            .div_ceil(COMMAND_WINDOW_STEP)
            .saturating_mul(COMMAND_WINDOW_STEP);
        // A sample of the I/Os shows the mean, and more are wanted at times.
        let is_sample = |observed: &&Observed| observed.summary.sampled_one_in.is_some();
        let or_more = match binding.iter().any(is_sample) {
            true => " or more",
            false => "",
        };
        return Some(Advice {
            text: format!(
                "raise the target's command window (`--command-window`) to {window}{or_more}"
            ),
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
        Limit::Store => "use a store with more parallelism or a shorter service time",
        Limit::PathRate => "use a path with a higher rate, or transfer fewer bytes",
        Limit::Encryption => {
            "use a cipher that costs less CPU time (3DES and AES-CBC cost more than AES-GCM \
             and ChaCha20-Poly1305), spread the connections over tunnels between other routers, or use \
             hardware encryption"
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
            "use a congestion control designed for long paths (`--congestion-control`), enlarge the \
             bottleneck's queue, or find the cause of packet loss"
        }
        Limit::Stalls => stalls::advice(binding)?,
        Limit::Processor => {
            "use a faster CPU, reduce the work per byte (digests, verification), or spread the load over \
             several sessions"
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

/// The most I/Os that any session of these cells wanted to have in flight.
fn most_wanted(binding: &[&Observed]) -> u64 {
    binding
        .iter()
        .flat_map(|observed| &observed.summary.sessions)
        .filter_map(|session| session.scope.above(wansan_trace::Layer::Window))
        .map(|above| { above.in_flight_max }.unwrap_or_else(|| above.in_flight_mean.round() as u64))
        .max()
        .unwrap_or(0)
}
