//! Division of a permitted backlog among the places where bytes wait.

use std::time::Duration;

use super::Reading;

/// Limits for each place of one direction, in bytes.
///
/// Together they are what drains in the requested latency. Half of it may be in the send queue, where it can be sent
/// at once, so that the outgoing side never runs dry between two turns of the relay. The relay's own share is the
/// smallest: bytes there can neither be sent at once nor stop the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shares {
    /// In the send queue of the side that bytes go to, unsent.
    pub unsent_bytes: u32,
    /// In the relay's own memory.
    pub held_bytes: u32,
    /// The window offered to the sender: room for the receive queue plus one round trip of data in flight.
    pub window_bytes: u32,
}

impl Shares {
    /// Shares of a backlog that drains within `latency` at `rate` bytes per second. `outgoing` is the TCP state of the
    /// side that bytes go to, `incoming` of the one that they come from.
    ///
    /// Each share is at least two segments, and the receive queue's part of the window at least four: less would stall
    /// a connection instead of slowing it.
    pub(super) fn of(
        latency: Duration,
        rate: u64,
        incoming: &Reading,
        outgoing: &Reading,
    ) -> Shares {
        let drained = |time: Duration| drained_bytes(rate, time);
        let all = drained(latency);
        let unsent = all / 2;
        let held = all / 8;
        let received = all - unsent - held;
        let least = |info: u32| 2 * u64::from(info.max(1));
        let fits = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
        Shares {
            unsent_bytes: fits(unsent.max(least(outgoing.mss_bytes))),
            held_bytes: fits(held.max(least(outgoing.mss_bytes))),
            window_bytes: fits(
                received.max(2 * least(incoming.advertised_mss_bytes))
                    + drained(round_trip(incoming)),
            ),
        }
    }
}

/// Bytes that drain at the given rate in the given time.
pub(super) fn drained_bytes(bytes_per_s: u64, time: Duration) -> u64 {
    let bytes = u128::from(bytes_per_s) * time.as_nanos() / 1_000_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Round-trip time of the incoming connection: the receiver's estimate, but at most twice the minimum, since a sender
/// that pauses inflates it.
fn round_trip(incoming: &Reading) -> Duration {
    let shortest = incoming.min_rtt_ns;
    Duration::from_nanos(incoming.receiver_rtt_ns.clamp(shortest, 2 * shortest))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection with the given congestion window, MSS, and smoothed and minimum round-trip time.
    fn info(cwnd_packets: u32, mss_bytes: u32, srtt_us: u64) -> Reading {
        Reading {
            cwnd_packets,
            mss_bytes,
            advertised_mss_bytes: mss_bytes,
            srtt_ns: srtt_us * 1000,
            min_rtt_ns: srtt_us * 1000,
            receiver_rtt_ns: srtt_us * 1000,
            peer_window_bytes: 1 << 30,
            pacing_bytes_per_s: u64::MAX,
            ..Reading::default()
        }
    }

    #[test]
    fn the_shares_are_what_drains_in_the_time() {
        // 1000 segments of 1000 bytes in 40 ms: 25 MB/s.
        let outgoing = info(1000, 1000, 40_000);
        assert_eq!(outgoing.sending_bytes_per_s(), 25_000_000);
        let incoming = info(10, 1000, 1000);
        let latency = Duration::from_millis(20);
        let shares = Shares::of(latency, 25_000_000, &incoming, &outgoing);
        let in_flight = 25_000;
        assert_eq!(
            shares.unsent_bytes + shares.held_bytes + shares.window_bytes - in_flight,
            500_000
        );
        assert_eq!(shares.unsent_bytes, 250_000);
    }

    #[test]
    fn no_share_stops_a_connection() {
        let (incoming, outgoing) = (info(10, 1400, 1000), info(1000, 1000, 40_000));
        for (latency, rate) in [(Duration::ZERO, 25_000_000), (Duration::from_secs(1), 0)] {
            let shares = Shares::of(latency, rate, &incoming, &outgoing);
            assert_eq!((shares.unsent_bytes, shares.held_bytes), (2000, 2000));
            assert!(shares.window_bytes >= 5600, "{shares:?}");
        }
    }
}
