//! What the tunnels have carried and what that has cost, over time.

use std::fs;
use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use wansan_trace::clock;

use super::{Server, Tunnels, VpnError};

/// How long a dying program's exit may take to be seen.
const LAST_WORDS: Duration = Duration::from_secs(1);
const GIB: f64 = (1_u64 << 30) as f64;

/// What the tunnels of one router carried and cost in a stretch of time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RouterUsage {
    /// The router.
    pub router: String,
    /// `wireguard` or `ipsec`.
    pub vpn: String,
    /// How its tunnels encrypt.
    pub ciphers: Vec<String>,
    /// Bytes of inner IP packets that went into the tunnels here.
    pub sent_bytes: u64,
    /// Bytes of inner IP packets that came out of the tunnels here.
    pub received_bytes: u64,
    /// Processor time of the router's VPN program, user and system.
    pub cpu_ns: u64,
    /// `cpu_ns` in seconds for each 2^30 bytes that were sent or received; null when none were.
    pub cpu_s_per_gib: Option<f64>,
}

/// Every server's counters at one moment.
#[derive(Debug)]
pub(super) struct Sample {
    at_ns: u64,
    counters: Vec<Counters>,
}

/// What a server has done since its start.
#[derive(Debug, Clone, Copy, Default)]
struct Counters {
    cpu_ns: u64,
    sent_bytes: u64,
    received_bytes: u64,
}

impl Tunnels {
    /// Notes what each router has done so far; often enough, usage can be told of any stretch.
    ///
    /// # Errors
    /// [`VpnError::Program`] when a router's program has ended: its tunnels are gone.
    pub fn sample(&mut self) -> Result<(), VpnError> {
        let counters = self
            .servers
            .iter_mut()
            .map(Counters::read)
            .collect::<Result<_, _>>()?;
        self.samples.push(Sample {
            at_ns: clock::now().ns(),
            counters,
        });
        Ok(())
    }

    /// What each router's tunnels carried and cost between two moments of CLOCK_MONOTONIC. Between
    /// samples it is taken to have gone evenly; beyond them nothing is known, and nothing counted.
    #[must_use]
    pub fn usage(&self, from_ns: u64, to_ns: u64) -> Vec<RouterUsage> {
        let usage_of = |(place, server): (usize, &Server)| {
            let begin = at(&self.samples, place, from_ns);
            let end = at(&self.samples, place, to_ns);
            let cpu_ns = end.cpu_ns.saturating_sub(begin.cpu_ns);
            let sent_bytes = end.sent_bytes.saturating_sub(begin.sent_bytes);
            let received_bytes = end.received_bytes.saturating_sub(begin.received_bytes);
            let bytes = sent_bytes + received_bytes;
            RouterUsage {
                router: server.router.clone(),
                vpn: server.vpn.name().to_owned(),
                ciphers: server.ciphers.iter().map(ToString::to_string).collect(),
                sent_bytes,
                received_bytes,
                cpu_ns,
                cpu_s_per_gib: (bytes > 0).then(|| cpu_ns as f64 / 1e9 / (bytes as f64 / GIB)),
            }
        };
        self.servers.iter().enumerate().map(usage_of).collect()
    }
}

impl Counters {
    fn read(server: &mut Server) -> Result<Counters, VpnError> {
        let process = &mut server.process;
        let counters = (|| {
            let (sent_bytes, received_bytes) = device_bytes(process.id(), &server.devices)?;
            let cpu_ns = process.cpu_time()?.as_nanos() as u64;
            Ok(Counters {
                cpu_ns,
                sent_bytes,
                received_bytes,
            })
        })();
        if counters.is_err() || !process.is_running()? {
            // It never ends by itself: let it say why it did.
            process.line("serve", LAST_WORDS)?;
        }
        counters.map_err(|source| VpnError::System {
            action: format!("read the counters of router `{}`", server.router),
            source,
        })
    }

    /// What lies `share` of the way to `later`.
    fn towards(self, later: Counters, share: f64) -> Counters {
        let between = |from: u64, to: u64| from + (to.saturating_sub(from) as f64 * share) as u64;
        Counters {
            cpu_ns: between(self.cpu_ns, later.cpu_ns),
            sent_bytes: between(self.sent_bytes, later.sent_bytes),
            received_bytes: between(self.received_bytes, later.received_bytes),
        }
    }
}

/// The counters of the server at `place` at a moment.
fn at(samples: &[Sample], place: usize, at_ns: u64) -> Counters {
    let next = samples.partition_point(|sample| sample.at_ns < at_ns);
    let counters = |sample: &Sample| sample.counters[place];
    match (next.checked_sub(1).map(|i| &samples[i]), samples.get(next)) {
        (Some(before), Some(after)) => {
            let share = (at_ns - before.at_ns) as f64 / (after.at_ns - before.at_ns).max(1) as f64;
            counters(before).towards(counters(after), share)
        }
        (Some(only), None) | (None, Some(only)) => counters(only),
        (None, None) => Counters::default(),
    }
}

/// Bytes sent into and received from these devices, of the network namespace of process `id`.
fn device_bytes(id: u32, devices: &[String]) -> io::Result<(u64, u64)> {
    let table = fs::read_to_string(format!("/proc/{id}/net/dev"))?;
    let (mut sent, mut received) = (0, 0);
    for line in table.lines() {
        let Some((name, numbers)) = line.split_once(':') else {
            continue;
        };
        if devices.iter().any(|device| device == name.trim()) {
            let numbers: Vec<u64> = numbers
                .split_ascii_whitespace()
                .map_while(|number| number.parse().ok())
                .collect();
            // proc_pid_net(5): bytes received come first, bytes sent ninth.
            received += numbers.first().copied().unwrap_or(0);
            sent += numbers.get(8).copied().unwrap_or(0);
        }
    }
    Ok((sent, received))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_ns: u64, cpu_ns: u64) -> Sample {
        let counters = Counters {
            cpu_ns,
            ..Counters::default()
        };
        Sample {
            at_ns,
            counters: vec![counters],
        }
    }

    #[test]
    fn between_samples_it_goes_evenly() {
        let samples = [sample(100, 0), sample(200, 50), sample(300, 250)];
        let cpu_at = |at_ns| at(&samples, 0, at_ns).cpu_ns;
        assert_eq!(cpu_at(0), 0);
        assert_eq!(cpu_at(150), 25);
        assert_eq!(cpu_at(200), 50);
        assert_eq!(cpu_at(275), 200);
        assert_eq!(cpu_at(400), 250);
        assert_eq!(at(&[], 0, 7).cpu_ns, 0);
    }
}
