//! The pacing rate for algorithms that do not set their own.

use super::Window;

/// Data bytes of the largest packet that a sender hands to an ordinary device, which segments it: 64 KiB less room for
/// headers (GSO_LEGACY_MAX_SIZE - 1 - MAX_TCP_HEADER, the latter 320 on x86-64 with tunnels).
pub const GSO_BYTES: u64 = 65_536 - 1 - 320;

/// Percent of the current rate in slow start (`tcp_pacing_ss_ratio`).
const SLOW_START_PERCENT: u64 = 200;
/// Percent of it in congestion avoidance (`tcp_pacing_ca_ratio`).
const AVOIDANCE_PERCENT: u64 = 120;

/// The pacing rate (`tcp_update_pacing_rate`), in bytes per second: twice the window per round trip, or, from half the
/// threshold on, where slow start nears its end, 1.2 times the window.
#[must_use]
pub fn rate(window: &Window) -> u64 {
    let percent = if window.cwnd < window.ssthresh / 2 {
        SLOW_START_PERCENT
    } else {
        AVOIDANCE_PERCENT
    };
    let packets = u64::from(window.cwnd.max(window.outstanding));
    // The kernel divides by eight times the RTT, and by 1 before the first sample.
    let per_us8 = u64::from(window.mss) * (1_000_000 / 100 * 8) * percent * packets;
    per_us8 / (window.srtt_us * 8).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 packets of 1000 bytes in 100 ms are 1 MB/s.
    #[test]
    fn a_rate_is_twice_the_window_in_slow_start_and_a_fifth_more_than_it_near_its_end() {
        let mut window = Window {
            cwnd: 100,
            srtt_us: 100_000,
            ..Window::new(1000)
        };
        assert_eq!(rate(&window), 2_000_000);
        window.ssthresh = 200;
        assert_eq!(rate(&window), 1_200_000);
        window.ssthresh = 50;
        assert_eq!(rate(&window), 1_200_000);
        window.outstanding = 150;
        assert_eq!(rate(&window), 1_800_000);
    }
}
