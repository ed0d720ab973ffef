//! The times at which congestion control reduced a connection's window, as recorded or as derived from
//! TCP_INFO samples ([`wansan_trace::congestion`]).

use wansan_trace::congestion::between;
use wansan_trace::event::{Tcp, TcpEvent};

/// Why the window was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cut {
    /// Without a loss: ECN-Echo, or a full queue of the sending host.
    Cwr,
    /// Fast recovery, after duplicate or selective acknowledgements.
    Recovery,
    /// A retransmission timeout.
    Loss,
}

impl Cut {
    /// The cut that an event stands for; `None` if it is no cut.
    fn of(event: TcpEvent) -> Option<Cut> {
        match event {
            TcpEvent::Cwr | TcpEvent::CwrByEce | TcpEvent::CwrByDevice => Some(Cut::Cwr),
            TcpEvent::Recovery => Some(Cut::Recovery),
            TcpEvent::Loss => Some(Cut::Loss),
            TcpEvent::Sample
            | TcpEvent::Retransmit
            | TcpEvent::Undo
            | TcpEvent::Change
            | TcpEvent::Begin
            | TcpEvent::End => None,
        }
    }
}

/// Every window cut at one end of a connection, with the time of the record that shows it. `records` are that end's,
/// sorted by time.
pub fn cuts<'a>(records: &'a [&'a Tcp]) -> impl Iterator<Item = (u64, Cut)> + 'a {
    let recorded = records
        .iter()
        .filter_map(|record| Some((record.time.ns(), Cut::of(record.event)?)));
    let told = records.windows(2).filter_map(|pair| {
        let sampled = pair.iter().all(|record| record.event == TcpEvent::Sample);
        let event = between(pair[0], pair[1]).filter(|_| sampled)?;
        Some((pair[1].time.ns(), Cut::of(event)?))
    });
    recorded.chain(told)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wansan_trace::event::CongestionState;
    use wansan_trace::{Instant, SessionId};

    /// Samples 10 ms apart: state, window, threshold, retransmits.
    fn samples(of: &[(u8, u32, u32, u32)]) -> Vec<Tcp> {
        let sample = |(i, &(congestion_state, cwnd_packets, ssthresh_packets, retransmits))| Tcp {
            time: Instant::from_ns(10 * i as u64),
            session: SessionId(1),
            congestion_state: CongestionState(congestion_state),
            cwnd_packets,
            ssthresh_packets,
            mss_bytes: 1448,
            retransmits,
            ..Tcp::BLANK
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
        // Nor is a threshold restored after a spurious retransmission.
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
