//! ECE towards a sender, decided at each arriving segment (docs/internals/relay-control.md, "arrival").
//!
//! Sockets of the kernel have this in a program there (`crates/tcp/src/bpf/ece.bpf.c`), which cannot be this one: it is
//! written in the kernel's terms, and both are changed together. Here it serves where there is no kernel.

use wansan_trace::Instant;

const SECOND_NS: u64 = 1_000_000_000;
/// Arrivals are measured over a round trip, but at least over so long: a train of segments that came as one is no rate.
const LEAST_ROUND_NS: u64 = 1_000_000;
/// What drained since the owner spoke is reckoned for so long, beside what leaves by itself; an owner that is silent
/// for longer may be as late in passing bytes on.
const MOST_DRAIN_NS: u64 = 2_000_000;
/// The cut of a sender that keeps its window down by PRR (RFC 6937) takes a round trip, and shows in the next one.
const ROUNDS_OF_A_CUT: u64 = 2;
/// No sender goes below so many segments in a round trip.
const LEAST_WINDOW: u64 = 2;
/// The next segment with data answers a signal, so what a sender that has none waits is in the time that its answer
/// takes. Of that time no more is taken for a round trip than so many of the shortest one.
const MOST_ROUND_TRIPS: u64 = 4;

/// What is wanted of a receiving socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Order {
    /// How often ECE was asked for since the connection began: one more is one signal, at the next
    /// segment that comes.
    pub asked: u64,
    /// Of the bytes that came on the connection, those that do not wait any more, …
    pub passed_bytes: u64,
    /// … at that moment.
    pub passed_at: Instant,
    /// Of those that wait, the ones that go although nobody does anything more, in bytes: as a kernel
    /// sends what was written.
    pub going_bytes: u64,
    /// How fast they go, in bytes per second.
    pub drain_bytes_per_s: u64,
    /// When more waits, it is signalled, in bytes, by the law of docs/internals/relay-control.md; 0: never.
    pub bound_bytes: u64,
    /// What has to be left to wait at the lowest point after a signal, in bytes: where it would be
    /// less, nothing is signalled.
    pub least_bytes: u64,
}

/// What came of it, since the connection began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Signals {
    /// Segments that were looked at: those that came since there was an order, on a connection with
    /// ECN.
    pub segments: u64,
    /// Times that ECE began.
    pub signals: u64,
    /// Times that the sender answered with CWR.
    pub answers: u64,
    /// Segments above the bound at which nothing was signalled, as the last cut was still at work.
    pub recovering: u64,
    /// Those at which a cut would have let what waits run out.
    pub spared: u64,
    /// Those at which a signal would have had no effect: the smallest window of a sender, two segments
    /// in a round trip, is more than drains.
    pub powerless: u64,
    /// The most that waited at an arriving segment, in bytes.
    pub backlog_max_bytes: u64,
    /// From the last signal to its answer, in ns, with what the sender waited until it sent the next
    /// segment; 0 before the first answer.
    pub loop_ns: u64,
    /// How fast bytes came in the last whole round trip, in bytes per second.
    pub arrival_bytes_per_s: u64,
}

/// A connection as a segment with data has just come there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Bytes that have come in order since the connection began.
    pub received_bytes: u64,
    /// Those of them that were not read.
    pub unread_bytes: u64,
    /// The shortest round trip that TCP knows of, in ns; `None` before the first.
    pub min_rtt_ns: Option<u64>,
    /// Segments that the peer may send, in bytes without options.
    pub advertised_mss_bytes: u32,
    /// Whether ECE is being sent, until CWR comes.
    pub is_signalling: bool,
}

/// The receiving end of one connection: what it was ordered, and what came of it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Receiver {
    order: Option<Order>,
    signals: Signals,
    asked: u64,
    signalled_ns: Option<u64>,
    /// When the round began in which arrivals are measured, what had come by then, and rounds since the last answer.
    round_ns: u64,
    round_bytes: u64,
    rounds: u64,
}

impl Receiver {
    /// Gives it orders, in place of those that it had.
    pub fn order(&mut self, order: Order) {
        self.order = Some(order);
    }

    /// What came of them.
    #[must_use]
    pub fn signals(&self) -> Signals {
        self.signals
    }

    /// A segment has come at `now_ns`; whether ECE is sent from now on, until CWR comes.
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

    /// Takes note of the answer to a signal.
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

    /// Measures how fast bytes come, round by round.
    fn measure(&mut self, arrival: &Arrival, now_ns: u64) {
        let passed = now_ns - self.round_ns;
        let round = self.round_trip_ns(arrival).max(LEAST_ROUND_NS);
        if passed < round {
            return;
        }
        // A pause is no slow arrival.
        if passed < (2 * round).max(SECOND_NS) {
            let bytes = arrival.received_bytes - self.round_bytes;
            self.signals.arrival_bytes_per_s = per_second(bytes, passed);
        }
        self.round_ns = now_ns;
        self.round_bytes = arrival.received_bytes;
        self.rounds += 1;
    }

    /// A round trip of this connection: as the last answer took, within bounds, or as the handshake did.
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

    /// Whether so much waits that it is to be signalled, where it is not yet.
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

/// What has come and has not left: what the owner last said, and what happened since.
fn backlog_bytes(order: &Order, arrival: &Arrival, now_ns: u64) -> u64 {
    let since = now_ns.saturating_sub(order.passed_at.ns()).min(SECOND_NS);
    let drain = order.drain_bytes_per_s;
    let most = order.going_bytes.max(drained(drain, MOST_DRAIN_NS));
    let left = order.passed_bytes + drained(drain, since).min(most);
    let backlog = arrival.received_bytes.saturating_sub(left);
    backlog.max(arrival.unread_bytes)
}

/// By how much the backlog falls before a sender that halves its window and then adds a segment in each round trip
/// (RFC 5681) has as much under way again as drains.
fn deficit_bytes(arrives: u64, drain: u64, round_trip_ns: u64, mss: u64) -> u64 {
    let lack = drained(drain.saturating_sub(arrives / 2), round_trip_ns);
    let bytes = u128::from(lack) * u128::from(lack + mss) / u128::from(2 * mss);
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// What leaves at that rate in that time, in bytes.
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

    /// A connection of 10 ms with so many bytes received, of which none wait in its own queue.
    fn arrival(received_bytes: u64) -> Arrival {
        Arrival {
            received_bytes,
            unread_bytes: 0,
            min_rtt_ns: Some(10 * MS),
            advertised_mss_bytes: MSS as u32,
            is_signalling: false,
        }
    }

    /// 2 MB/s come for so long, a segment every 0.5 ms, of which 1 MB/s pass on; what is reported of it, and the moments
    /// in ms at which ECE began. The sender answers a signal after 10 ms.
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
        // 1 MB/s gather from the start: the bound is passed after 50 ms.
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
                // Half a segment in a round trip.
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
        // 10 segments in a round trip arrive and drain: a halving lacks 5, 4, 3, 2 and 1 of them.
        assert_eq!(deficit_bytes(1_000_000, 1_000_000, 10 * MS, MSS), 15_000);
        assert_eq!(deficit_bytes(2_000_000, 1_000_000, 10 * MS, MSS), 0);
    }
}
