//! ECE towards a sender, decided at each arriving segment (docs/internals/relay-control.md, "arrival").
//!
//! Kernel sockets use a BPF program (`crates/tcp/src/bpf/ece.bpf.c`). It implements the same law on kernel data
//! structures and cannot share this code: change both together. This version serves where there is no kernel.

use wansan_trace::Instant;

const SECOND_NS: u64 = 1_000_000_000;
/// The arrival rate is measured over a round trip, but at least this long: one train of segments gives no rate.
const LEAST_ROUND_NS: u64 = 1_000_000;
/// Draining since the owner's last report is extrapolated to at most the bytes that drain in this time, or that drain
/// without the owner, whichever are more; an owner silent for longer may also be late in passing bytes on.
const MOST_DRAIN_NS: u64 = 2_000_000;
/// A sender that reduces its window by PRR (RFC 6937) takes a round trip to do so; the cut shows in the next one.
const ROUNDS_OF_A_CUT: u64 = 2;
/// The minimum window of a sender, in segments.
const LEAST_WINDOW: u64 = 2;
/// CWR comes with the next data segment, so the time to the answer includes any time the sender was idle. At most this
/// many minimum round trips of it count as a round trip.
const MOST_ROUND_TRIPS: u64 = 4;

/// Orders for a receiving socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Order {
    /// Number of explicit ECE requests since the connection began: each increase gives one signal, at the next
    /// arriving segment.
    pub asked: u64,
    /// The received bytes of the connection that had left the relay, …
    pub passed_bytes: u64,
    /// … as of this time.
    pub passed_at: Instant,
    /// Bytes still waiting that drain without the owner acting, as a kernel sends written data.
    pub going_bytes: u64,
    /// Their drain rate, in bytes per second.
    pub drain_bytes_per_s: u64,
    /// Backlog above which to signal, in bytes, by the law of docs/internals/relay-control.md; 0: never.
    pub bound_bytes: u64,
    /// The backlog that must remain at the lowest point after a signal, in bytes; no signal is given if it would be
    /// less.
    pub least_bytes: u64,
}

/// Effect of the orders, since the connection began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Signals {
    /// Segments examined: those that arrived since the first order, on a connection with ECN.
    pub segments: u64,
    /// Number of times that ECE was started.
    pub signals: u64,
    /// Number of times that the sender answered with CWR.
    pub answers: u64,
    /// Segments above the bound without a signal because the last cut was still taking effect, or no more arrived than
    /// drained.
    pub recovering: u64,
    /// Segments above the bound without a signal because a cut would have let the backlog fall below the permitted
    /// minimum.
    pub spared: u64,
    /// Segments above the bound without a signal because it would have had no effect: a sender's minimum window, two
    /// segments per round trip, exceeds the drain rate.
    pub powerless: u64,
    /// The largest backlog at an arriving segment, in bytes.
    pub backlog_max_bytes: u64,
    /// Time from the last signal to its answer, in ns, including any idle time of the sender before its next segment;
    /// 0 before the first answer.
    pub loop_ns: u64,
    /// Arrival rate in the last complete round trip, in bytes per second.
    pub arrival_bytes_per_s: u64,
}

/// State of a connection on arrival of a data segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Bytes received in order since the connection began.
    pub received_bytes: u64,
    /// Bytes of them not yet read.
    pub unread_bytes: u64,
    /// TCP's minimum round-trip time, in ns; `None` before the first sample.
    pub min_rtt_ns: Option<u64>,
    /// MSS advertised to the peer, in bytes without options.
    pub advertised_mss_bytes: u32,
    /// Whether ECE is being sent, until CWR arrives.
    pub is_signalling: bool,
}

/// The receiving end of one connection: its orders and their effect.
#[derive(Debug, Clone, Copy, Default)]
pub struct Receiver {
    order: Option<Order>,
    signals: Signals,
    asked: u64,
    signalled_ns: Option<u64>,
    /// Start of the current arrival-rate round, the bytes received by then, and the number of rounds since the last
    /// answer.
    round_ns: u64,
    round_bytes: u64,
    rounds: u64,
}

impl Receiver {
    /// Replaces the orders.
    pub fn order(&mut self, order: Order) {
        self.order = Some(order);
    }

    /// Effect of the orders.
    #[must_use]
    pub fn signals(&self) -> Signals {
        self.signals
    }

    /// Handles a segment that arrived at `now_ns`; returns whether to start sending ECE, until CWR arrives.
    pub fn on_segment(&mut self, arrival: &Arrival, now_ns: u64) -> bool {
        let Some(order) = self.order else {
            return false;
        };
        self.signals.segments += 1;
        self.hear(arrival, now_ns);
        self.measure(arrival, now_ns);
        let is_asked = std::mem::replace(&mut self.asked, order.asked) != order.asked;
        let asks = is_asked && !arrival.is_signalling;
        let is_signalling = asks || arrival.is_signalling;
        let signals =
            asks || order.bound_bytes > 0 && self.judge(&order, arrival, is_signalling, now_ns);
        if signals {
            self.signals.signals += 1;
            self.signalled_ns = Some(now_ns);
        }
        signals
    }

    /// Records the answer to a signal.
    fn hear(&mut self, arrival: &Arrival, now_ns: u64) {
        if arrival.is_signalling {
            return;
        }
        let Some(signalled_ns) = self.signalled_ns.take() else {
            return;
        };
        self.signals.loop_ns = now_ns - signalled_ns;
        self.signals.answers += 1;
        self.round_ns = now_ns;
        self.round_bytes = arrival.received_bytes;
        self.rounds = 0;
    }

    /// Measures the arrival rate, round by round.
    fn measure(&mut self, arrival: &Arrival, now_ns: u64) {
        let passed = now_ns - self.round_ns;
        let round = self.round_trip_ns(arrival).max(LEAST_ROUND_NS);
        if passed < round {
            return;
        }
        // An idle period is not a low arrival rate.
        if passed < (2 * round).max(SECOND_NS) {
            let bytes = arrival.received_bytes - self.round_bytes;
            self.signals.arrival_bytes_per_s = per_second(bytes, passed);
        }
        self.round_ns = now_ns;
        self.round_bytes = arrival.received_bytes;
        self.rounds += 1;
    }

    /// Round trip of this connection: the time of the last answer, at most [`MOST_ROUND_TRIPS`] minimum round trips;
    /// before the first answer, the minimum. Without an RTT sample, the minimum and the limit are one second.
    fn round_trip_ns(&self, arrival: &Arrival) -> u64 {
        let shortest = arrival.min_rtt_ns.unwrap_or(SECOND_NS);
        let most = arrival
            .min_rtt_ns
            .map_or(SECOND_NS, |shortest| MOST_ROUND_TRIPS * shortest);
        let took = match self.signals.loop_ns {
            0 => shortest,
            took => took,
        };
        took.min(most).max(1000)
    }

    /// Whether the backlog calls for a signal and none is in progress.
    fn judge(
        &mut self,
        order: &Order,
        arrival: &Arrival,
        is_signalling: bool,
        now_ns: u64,
    ) -> bool {
        let backlog = backlog_bytes(order, arrival, now_ns);
        let round_trip = self.round_trip_ns(arrival);
        let mss = u64::from(arrival.advertised_mss_bytes.max(1));
        let signals = &mut self.signals;
        signals.backlog_max_bytes = signals.backlog_max_bytes.max(backlog);
        if backlog <= order.bound_bytes || is_signalling {
            return false;
        }
        let drain = order.drain_bytes_per_s;
        let arrives = signals.arrival_bytes_per_s;
        if self.rounds < ROUNDS_OF_A_CUT || arrives <= drain {
            signals.recovering += 1;
        } else if drained(drain, round_trip) < LEAST_WINDOW * mss {
            signals.powerless += 1;
        } else if backlog < deficit_bytes(arrives, drain, round_trip, mss) + order.least_bytes {
            signals.spared += 1;
        } else {
            return true;
        }
        false
    }
}

/// Bytes received that have not left: the owner's last report, extrapolated to now.
fn backlog_bytes(order: &Order, arrival: &Arrival, now_ns: u64) -> u64 {
    let since = now_ns.saturating_sub(order.passed_at.ns()).min(SECOND_NS);
    let drain = order.drain_bytes_per_s;
    let most = order.going_bytes.max(drained(drain, MOST_DRAIN_NS));
    let left = order.passed_bytes + drained(drain, since).min(most);
    let backlog = arrival.received_bytes.saturating_sub(left);
    backlog.max(arrival.unread_bytes)
}

/// How far the backlog falls before a sender that halves its window and then adds a segment per round trip (RFC 5681)
/// matches the drain rate again.
fn deficit_bytes(arrives: u64, drain: u64, round_trip_ns: u64, mss: u64) -> u64 {
    let lack = drained(drain.saturating_sub(arrives / 2), round_trip_ns);
    let bytes = u128::from(lack) * u128::from(lack + mss) / u128::from(2 * mss);
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Bytes that drain at the given rate in the given time.
fn drained(bytes_per_s: u64, time_ns: u64) -> u64 {
    let bytes = u128::from(bytes_per_s) * u128::from(time_ns) / u128::from(SECOND_NS);
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

fn per_second(bytes: u64, time_ns: u64) -> u64 {
    let rate = u128::from(bytes) * u128::from(SECOND_NS) / u128::from(time_ns.max(1));
    u64::try_from(rate).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const MSS: u64 = 1000;

    /// A connection with a round trip of 10 ms and the given bytes received, none unread.
    fn arrival(received_bytes: u64) -> Arrival {
        Arrival {
            received_bytes,
            unread_bytes: 0,
            min_rtt_ns: Some(10 * MS),
            advertised_mss_bytes: MSS as u32,
            is_signalling: false,
        }
    }

    /// Runs for `ms` milliseconds with a segment every 0.5 ms: 2 MB/s arrive, 1 MB/s pass on. Returns the counters and
    /// the times in ms at which ECE began. The sender answers a signal after 10 ms.
    fn run(bound_bytes: u64, least_bytes: u64, ms: u64) -> (Signals, Vec<u64>) {
        let mut receiver = Receiver::default();
        let mut began = Vec::new();
        let mut until = 0;
        for number in 1..=2 * ms {
            let now_ns = number * MS / 2;
            receiver.order(Order {
                passed_bytes: number * MSS / 2,
                passed_at: Instant::from_ns(now_ns),
                drain_bytes_per_s: 1_000_000,
                bound_bytes,
                least_bytes,
                ..Order::default()
            });
            let is_signalling = now_ns < until;
            let arrival = Arrival {
                is_signalling,
                ..arrival(number * MSS)
            };
            if receiver.on_segment(&arrival, now_ns) {
                until = now_ns + 10 * MS;
                began.push(now_ns / MS);
            }
        }
        (receiver.signals(), began)
    }

    #[test]
    fn a_backlog_above_the_bound_is_signalled_and_each_signal_has_two_round_trips_to_work() {
        let (signals, began) = run(50_000, 0, 200);
        // The backlog grows by 1 MB/s from the start and passes the bound after 50 ms.
        assert_eq!(began[0], 50);
        assert_eq!(signals.signals, began.len() as u64);
        assert!(signals.recovering > 0 && signals.answers > 0, "{signals:?}");
        let gaps = began.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(gaps.min().unwrap() >= 30, "{began:?}");
        assert_eq!(signals.loop_ns, 10 * MS);
        assert_eq!(signals.arrival_bytes_per_s, 2_000_000);
    }

    #[test]
    fn nothing_is_signalled_where_a_cut_would_empty_the_relay() {
        let (signals, began) = run(10, 1 << 40, 100);
        assert!(began.is_empty() && signals.spared > 0, "{signals:?}");
    }

    #[test]
    fn nothing_is_signalled_to_a_sender_whose_least_window_is_more_than_drains() {
        let mut receiver = Receiver::default();
        for number in 1..=200 {
            receiver.order(Order {
                // Half a segment per round trip.
                drain_bytes_per_s: 50_000,
                bound_bytes: 1,
                ..Order::default()
            });
            assert!(!receiver.on_segment(&arrival(number * MSS), number * MS));
        }
        assert!(receiver.signals().powerless > 0, "{receiver:?}");
    }

    #[test]
    fn who_asks_is_signalled_once_and_needs_no_bound() {
        let mut receiver = Receiver::default();
        assert!(!receiver.on_segment(&arrival(1), MS));
        receiver.order(Order {
            asked: 1,
            ..Order::default()
        });
        assert!(receiver.on_segment(&arrival(2), 2 * MS));
        assert!(!receiver.on_segment(&arrival(3), 3 * MS));
        assert_eq!(receiver.signals().segments, 2);
    }

    #[test]
    fn the_greatest_backlog_counts_while_a_signal_waits_for_its_answer() {
        let mut receiver = Receiver::default();
        receiver.order(Order {
            bound_bytes: 1,
            ..Order::default()
        });
        let waiting = Arrival {
            unread_bytes: 5 * MSS,
            is_signalling: true,
            ..arrival(5 * MSS)
        };
        assert!(!receiver.on_segment(&waiting, MS));
        let signals = receiver.signals();
        assert_eq!((signals.backlog_max_bytes, signals.signals), (5 * MSS, 0));
    }

    #[test]
    fn what_a_cut_costs_is_the_sum_of_what_is_missing_in_each_round_trip() {
        // 10 segments per round trip arrive and drain: a halving leaves deficits of 5, 4, 3, 2 and 1 segments.
        assert_eq!(deficit_bytes(1_000_000, 1_000_000, 10 * MS, MSS), 15_000);
        assert_eq!(deficit_bytes(2_000_000, 1_000_000, 10 * MS, MSS), 0);
    }
}
