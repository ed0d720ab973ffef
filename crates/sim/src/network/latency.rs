//! The delay from a packet's arrival at a host to its processing.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// A host that has had nothing to do for longer lets its processor sleep: a tick, as the kernel stops its clock only
/// for longer pauses (kernel/time/tick-sched.c).
const PAUSE_NS: u64 = 4_000_000;

/// The time between a packet's arrival and the moment at which the host's TCP takes it, with all that has arrived
/// meanwhile: interrupt, softirq (NAPI, net/core/dev.c) and, after a pause, the processor's way out of its sleep
/// (drivers/cpuidle). Each time between the least and the most is as likely.
///
/// Without it, a short queue shows what no network does. A link spaces a flow's packets by its own sending times, so
/// the next burst would come at the very moment at which a packet leaves, each round trip anew (Floyd and Jacobson
/// 1992, "On Traffic Phase Effects in Packet-Switched Gateways"). With it, the first burst of a round trip comes later
/// than those that follow it, whose host is awake, and their last packet finds the queue full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Latency {
    /// The least, in nanoseconds.
    pub least_ns: u64,
    /// The most, in nanoseconds; no less.
    pub most_ns: u64,
    /// What a pause adds at most, in nanoseconds.
    pub waking_ns: u64,
}

impl Default for Latency {
    /// What Linux 6.18 takes in namespaces on a virtual machine, from data to its acknowledgement and from that to new
    /// data: a tenth of the times are below 10 µs and a tenth above 45 µs, after pauses below 25 µs and above 100 µs.
    fn default() -> Self {
        Latency {
            least_ns: 10_000,
            most_ns: 45_000,
            waking_ns: 60_000,
        }
    }
}

/// Draws such times.
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

    /// The next one, in nanoseconds, of a host that has had nothing to do for so long.
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

    /// From 0 to `most`, each as likely.
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
