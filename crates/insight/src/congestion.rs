//! When congestion control cut a connection's window, told from samples of TCP_INFO.
//!
//! The kernel's congestion state is seen only where a sample was taken. An episode that begins and
//! ends between two samples still leaves a mark: another slow-start threshold. One that was set on
//! the way out of slow start without a cut (HyStart of CUBIC) is told apart by the window, which
//! did not fall below what it had been. An episode that leaves the same threshold behind, or several
//! between two samples, cannot be told: what is found here is the least that happened.

use wansan_trace::event::{Tcp, TcpEvent};

/// Congestion states of Linux (`tcp_ca_state`).
const DISORDER: u8 = 1;
/// The window is being reduced without a loss.
const CWR: u8 = 2;
/// Fast recovery.
const RECOVERY: u8 = 3;
/// After a retransmission time-out.
const LOSS: u8 = 4;

/// Why the window was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cut {
    /// Without a loss: ECN-Echo, or a full queue of the sending host.
    Cwr,
    /// Fast recovery, after duplicate or selective acknowledgements.
    Recovery,
    /// A retransmission time-out.
    Loss,
}

/// Every cut of one connection's end, with the time of the record that shows it. The records are
/// those of one end, by time.
pub fn cuts<'a>(records: &'a [&'a Tcp]) -> impl Iterator<Item = (u64, Cut)> + 'a {
    let recorded = records.iter().filter_map(|record| {
        let cut = match record.event {
            TcpEvent::Cwr => Cut::Cwr,
            TcpEvent::Recovery => Cut::Recovery,
            TcpEvent::Loss => Cut::Loss,
            TcpEvent::Sample | TcpEvent::Retransmit => return None,
        };
        Some((record.time.ns(), cut))
    });
    let told = records.windows(2).filter_map(|pair| {
        let sampled = pair.iter().all(|record| record.event == TcpEvent::Sample);
        let cut = between(pair[0], pair[1]).filter(|_| sampled)?;
        Some((pair[1].time.ns(), cut))
    });
    recorded.chain(told)
}

/// What happened between two samples that follow each other.
fn between(before: &Tcp, after: &Tcp) -> Option<Cut> {
    let another_threshold = after.ssthresh_packets != before.ssthresh_packets;
    let state = match after.congestion_state {
        CWR => Some(Cut::Cwr),
        RECOVERY => Some(Cut::Recovery),
        LOSS => Some(Cut::Loss),
        _ => None,
    };
    if let Some(cut) = state {
        // In the same state with another threshold: it was left and entered again.
        let begun = after.congestion_state != before.congestion_state || another_threshold;
        return begun.then_some(cut);
    }
    // On the way out of an episode the threshold may be set back (RFC 4015 §3).
    let was_open = before.congestion_state <= DISORDER;
    let slow_start = before.cwnd_packets < before.ssthresh_packets;
    let fell = after.ssthresh_packets < before.cwnd_packets;
    if !was_open || !another_threshold || (slow_start && !fell) {
        return None;
    }
    if after.retransmits > before.retransmits {
        Some(Cut::Recovery)
    } else {
        Some(Cut::Cwr)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wansan_trace::{ConnectionId, Instant, SessionId};

    /// Samples 10 ms apart: state, window, threshold, retransmits.
    fn samples(of: &[(u8, u32, u32, u32)]) -> Vec<Tcp> {
        let sample = |(i, &(congestion_state, cwnd_packets, ssthresh_packets, retransmits))| Tcp {
            time: Instant::from_ns(10 * i as u64),
            session: SessionId(1),
            connection: ConnectionId(0),
            event: TcpEvent::Sample,
            congestion_state,
            cwnd_packets,
            ssthresh_packets,
            mss_bytes: 1448,
            in_flight_packets: 0,
            srtt_ns: 0,
            min_rtt_ns: 0,
            rwnd_bytes: 0,
            unsent_bytes: 0,
            acked_bytes: 0,
            pacing_bytes_per_s: 0,
            delivery_bytes_per_s: 0,
            busy_ns: 0,
            rwnd_limited_ns: 0,
            sndbuf_limited_ns: 0,
            retransmits,
        };
        of.iter().enumerate().map(sample).collect()
    }

    fn told(of: &[(u8, u32, u32, u32)]) -> Vec<(u64, Cut)> {
        let samples = samples(of);
        let samples: Vec<&Tcp> = samples.iter().collect();
        cuts(&samples).collect()
    }

    const UNSET: u32 = i32::MAX as u32;

    #[test]
    fn states_are_counted_once_each() {
        let found = told(&[
            (0, 350, 300, 0),
            (2, 300, 245, 0),
            (2, 250, 245, 0),
            (0, 246, 245, 0),
            (3, 200, 170, 2),
            (4, 1, 170, 3),
            (1, 20, 170, 3),
        ]);
        assert_eq!(
            found,
            [(10, Cut::Cwr), (40, Cut::Recovery), (50, Cut::Loss)]
        );
        // Left and entered again between two samples.
        assert_eq!(
            told(&[(0, 9, 9, 0), (2, 80, 70, 0), (2, 70, 60, 0)]),
            [(10, Cut::Cwr), (20, Cut::Cwr)]
        );
    }

    #[test]
    fn what_passed_between_samples_shows_in_the_threshold() {
        assert_eq!(
            told(&[(0, 350, 300, 0), (0, 250, 245, 0)]),
            [(10, Cut::Cwr)]
        );
        assert_eq!(
            told(&[(0, 350, 300, 0), (0, 250, 245, 9)]),
            [(10, Cut::Recovery)]
        );
        assert_eq!(
            told(&[(0, 350, UNSET, 0), (0, 250, 245, 1)]),
            [(10, Cut::Recovery)]
        );
    }

    #[test]
    fn leaving_slow_start_is_no_cut() {
        assert_eq!(told(&[(0, 100, UNSET, 0), (0, 180, 160, 0)]), []);
        // Nor is the threshold that is set back after a false alarm.
        assert_eq!(
            told(&[(0, 100, 90, 0), (3, 80, 70, 1), (0, 100, 100, 1)]),
            [(10, Cut::Recovery)]
        );
        assert_eq!(told(&[]), []);
    }

    #[test]
    fn recorded_events_count_as_they_are() {
        let mut samples = samples(&[(0, 10, 10, 0), (0, 10, 10, 0)]);
        samples[1].event = TcpEvent::Loss;
        let samples: Vec<&Tcp> = samples.iter().collect();
        assert_eq!(cuts(&samples).collect::<Vec<_>>(), [(10, Cut::Loss)]);
    }
}
