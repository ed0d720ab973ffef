//! The delay from a packet's arrival at a host to its processing.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// A host that is idle for longer lets its CPU sleep: one tick, as the kernel stops the tick only for longer idle
/// periods (kernel/time/tick-sched.c).
const PAUSE_NS: u64 = 4_000_000;

/// The time from a packet's arrival until the host's TCP processes it, with all that arrived in the meantime:
/// interrupt, softirq (NAPI, net/core/dev.c) and, after an idle period, the CPU's exit from its idle state
/// (drivers/cpuidle). Times are uniformly distributed between the minimum and the maximum.
///
/// Without it, short queues show phase effects that real networks do not have: a link spaces a flow's packets by its
/// own serialization time, so in each round trip the next burst would arrive exactly when a packet leaves (Floyd and
/// Jacobson 1992, "On Traffic Phase Effects in Packet-Switched Gateways"). With it, the first burst of a round trip is
/// delayed more than the following ones, whose host is awake, and the last packet of those finds the queue full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Latency {
    /// Minimum, in nanoseconds.
    pub least_ns: u64,
    /// Maximum, in nanoseconds; at least the minimum.
    pub most_ns: u64,
    /// Maximum added after an idle period, in nanoseconds.
    pub waking_ns: u64,
}

impl Default for Latency {
    /// As measured with Linux 6.18 in network namespaces on a virtual machine, from data to its ACK and from the ACK to
    /// new data: a tenth of the times are below 10 µs, and a tenth above 45 µs; after idle periods, below 25 and above
    /// 100 µs.
    fn default() -> Self {
        Latency {
            least_ns: 10_000,
            most_ns: 45_000,
            waking_ns: 60_000,
        }
    }
}

/// Draws latencies at random.
#[derive(Debug)]
pub(super) struct Draw {
    latency: Latency,
    random: Pcg64Mcg,
}

impl Draw {
    pub(super) fn new(latency: Latency, seed: u64) -> Draw {
        Draw {
            latency,
            random: Pcg64Mcg::seed_from_u64(seed),
        }
    }

    /// The next latency in nanoseconds, of a host that has been idle for `idle_ns`.
    pub(super) fn next_ns(&mut self, idle_ns: u64) -> u64 {
        let Latency {
            least_ns,
            most_ns,
            waking_ns,
        } = self.latency;
        let awake_ns = least_ns + self.up_to(most_ns.saturating_sub(least_ns));
        match idle_ns > PAUSE_NS {
            true => awake_ns + self.up_to(waking_ns),
            false => awake_ns,
        }
    }

    /// Uniform from 0 to `most`.
    fn up_to(&mut self, most: u64) -> u64 {
        ((u128::from(self.random.next_u64()) * (u128::from(most) + 1)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_times_between_the_bounds_are_as_likely_and_a_pause_adds_to_them() {
        let latency = Latency::default();
        let mut draw = Draw::new(latency, 1);
        for (idle_ns, most_ns, mean_ns) in [
            (PAUSE_NS, latency.most_ns, 27_500),
            (PAUSE_NS + 1, latency.most_ns + latency.waking_ns, 57_500),
        ] {
            let times: Vec<u64> = (0..10_000).map(|_| draw.next_ns(idle_ns)).collect();
            let (least, most) = (times.iter().min(), times.iter().max());
            let (least, most) = (*least.expect("some"), *most.expect("some"));
            assert!(
                least >= latency.least_ns && least < latency.least_ns + 3_000,
                "{least}"
            );
            assert!(most <= most_ns && most > most_ns - 3_000, "{most}");
            let mean = times.iter().sum::<u64>() / 10_000;
            assert!(mean.abs_diff(mean_ns) < 600, "{mean}");
        }
    }
}
