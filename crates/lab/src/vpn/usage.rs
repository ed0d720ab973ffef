//! Traffic and cost of the tunnels over time.

use std::fs;
use std::time::Duration;

use wansan_schema::RouterUsage;
use wansan_trace::clock;

use super::{Server, Tunnels, Vpn, VpnError};

/// Grace time to detect a program's exit.
const LAST_WORDS: Duration = Duration::from_secs(1);
const GIB: f64 = (1_u64 << 30) as f64;

/// Work of the routers' VPN programs over time.
#[derive(Debug, Default)]
pub struct Meter {
    routers: Vec<Metered>,
    samples: Vec<Sample>,
}

/// The VPN program of a router.
#[derive(Debug)]
pub(crate) struct Metered {
    pub(crate) router: String,
    pub(crate) vpn: Vpn,
    pub(crate) ciphers: Vec<&'static str>,
}

/// Every program's counters at one time.
#[derive(Debug)]
struct Sample {
    at_ns: u64,
    counters: Vec<Counters>,
}

/// A program's counters since its start.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counters {
    pub(crate) cpu_ns: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) received_bytes: u64,
    pub(crate) dropped_packets: u64,
    pub(crate) dropped_sealed_packets: u64,
}

impl Tunnels {
    /// Samples each router's counters; call it often enough for the usage of any period.
    ///
    /// # Errors
    /// [`VpnError::Program`] if a router's program has exited, and its tunnels with it.
    pub fn sample(&mut self) -> Result<(), VpnError> {
        let counters = self
            .servers
            .iter_mut()
            .map(Counters::read)
            .collect::<Result<_, _>>()?;
        self.meter.note(clock::now().ns(), counters);
        Ok(())
    }

    /// Stops the programs; returns their work.
    #[must_use]
    pub fn end(self) -> Meter {
        self.meter
    }
}

impl Meter {
    /// A meter without samples.
    pub(crate) fn new(routers: Vec<Metered>) -> Meter {
        Meter {
            routers,
            samples: Vec::new(),
        }
    }

    /// Adds a sample, later than the previous ones.
    pub(crate) fn note(&mut self, at_ns: u64, counters: Vec<Counters>) {
        self.samples.push(Sample { at_ns, counters });
    }

    /// Traffic and cost of each router's tunnels between two times. Interpolates linearly between samples; counts
    /// nothing beyond them.
    #[must_use]
    pub fn usage(&self, from_ns: u64, to_ns: u64) -> Vec<RouterUsage> {
        let usage_of = |(place, metered): (usize, &Metered)| {
            let begin = at(&self.samples, place, from_ns);
            let end = at(&self.samples, place, to_ns);
            let since = |of: fn(&Counters) -> u64| of(&end).saturating_sub(of(&begin));
            let cpu_ns = since(|counters| counters.cpu_ns);
            let sent_bytes = since(|counters| counters.sent_bytes);
            let received_bytes = since(|counters| counters.received_bytes);
            let bytes = sent_bytes + received_bytes;
            RouterUsage {
                router: metered.router.clone(),
                vpn: metered.vpn.name().to_owned(),
                ciphers: metered.ciphers.iter().map(ToString::to_string).collect(),
                sent_bytes,
                received_bytes,
                dropped_packets: since(|counters| counters.dropped_packets),
                dropped_sealed_packets: since(|counters| counters.dropped_sealed_packets),
                cpu_ns,
                cpu_s_per_gib: (bytes > 0).then(|| cpu_ns as f64 / 1e9 / (bytes as f64 / GIB)),
            }
        };
        self.routers.iter().enumerate().map(usage_of).collect()
    }
}

impl Counters {
    fn read(server: &mut Server) -> Result<Counters, VpnError> {
        let process = &mut server.process;
        let counters = (|| {
            let net =
                |table: &str| fs::read_to_string(format!("/proc/{}/net/{table}", process.id()));
            Ok(Counters {
                cpu_ns: process.cpu_time()?.as_nanos() as u64,
                dropped_sealed_packets: socket_drops(&net("udp")?),
                ..device_counters(&net("dev")?, &server.devices)
            })
        })();
        if counters.is_err() || !process.is_running()? {
            // It never exits by itself: report its last output.
            process.line("serve", LAST_WORDS)?;
        }
        counters.map_err(|source| VpnError::System {
            action: format!("read the counters of router `{}`", server.router),
            source,
        })
    }

    /// Interpolates towards `later`.
    fn towards(self, later: Counters, share: f64) -> Counters {
        let between = |from: u64, to: u64| from + (to.saturating_sub(from) as f64 * share) as u64;
        Counters {
            cpu_ns: between(self.cpu_ns, later.cpu_ns),
            sent_bytes: between(self.sent_bytes, later.sent_bytes),
            received_bytes: between(self.received_bytes, later.received_bytes),
            dropped_packets: between(self.dropped_packets, later.dropped_packets),
            dropped_sealed_packets: between(
                self.dropped_sealed_packets,
                later.dropped_sealed_packets,
            ),
        }
    }
}

/// The counters of the program with index `place` at a time.
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

/// Bytes sent to and received from these devices, and drops on input, from a network namespace's `/proc/PID/net/dev`.
fn device_counters(table: &str, devices: &[String]) -> Counters {
    let mut all = Counters::default();
    for line in table.lines() {
        let Some((name, numbers)) = line.split_once(':') else {
            continue;
        };
        if devices.iter().any(|device| device == name.trim()) {
            let numbers: Vec<u64> = numbers
                .split_ascii_whitespace()
                .map_while(|number| number.parse().ok())
                .collect();
            // proc_pid_net(5): eight numbers for receiving (bytes first), eight for sending (bytes first, drops
            // fourth).
            let number = |place: usize| numbers.get(place).copied().unwrap_or(0);
            all.received_bytes += number(0);
            all.sent_bytes += number(8);
            all.dropped_packets += number(11);
        }
    }
    all
}

/// Datagrams dropped by full UDP sockets of a network namespace, from the last column of `/proc/PID/net/udp`. A router
/// has no sockets but its VPN's.
fn socket_drops(table: &str) -> u64 {
    let sockets = table.lines().skip(1);
    let drops = sockets.filter_map(|line| {
        line.split_ascii_whitespace()
            .next_back()?
            .parse::<u64>()
            .ok()
    });
    drops.sum()
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

    #[test]
    fn what_a_router_drops_is_counted() {
        let devices = "Inter-|   Receive                                                |  Transmit\n \
            face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop \
            fifo colls carrier compressed\n    lo:      0       0    0    9    0     0          0         \
            0        0       0    0    9    0     0       0          0\n  vpn0:    100       2    0    1    \
            0     0          0         0     2000       3    0    7    0     0       0          0\n  vpn1:  \
            10       2    0    0    0     0          0         0      200       3    0    1    0     0       \
            0          0\n";
        let found = device_counters(devices, &["vpn0".to_owned(), "vpn1".to_owned()]);
        let told = (
            found.received_bytes,
            found.sent_bytes,
            found.dropped_packets,
        );
        assert_eq!(told, (110, 2200, 8));
        let sockets = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  \
            timeout inode ref pointer drops\n  12: 0200540A:CA6C 0300540A:CA6C 01 00000000:00000000 \
            00:00000000 00000000     0        0 4711 2 0000000000000000 5\n  13: 0200540A:CA6D \
            0300540A:CA6D 01 00000000:00000000 00:00000000 00000000     0        0 4712 2 \
            0000000000000000 2\n";
        assert_eq!(socket_drops(sockets), 7);
    }
}
