//! Expected completion times of requests of one direction on one route.
//!
//! A route is modelled as a pipe with a length and a rate. A request in an empty pipe takes the pipe's length and its
//! own transfer; in a full one it takes the time that all bytes ahead of it and its own need at the pipe's rate
//! (Little's law). Both are learned from completions alone: the length from latencies, the rate from the bytes that
//! complete between a request's submission and its completion (the delivery rate of Cardwell et al., "BBR:
//! Congestion-Based Congestion Control", 2016, and draft-cheng-iccrg-delivery-rate-estimation). A pipe that was never
//! full has only shown the offered rate: until latencies grow, it is expected to carry twice as much.

use std::time::Duration;

use wansan_trace::Instant;

use crate::window::Extreme;

/// How long samples of rates, and of lengths by pings, stay valid: a change is learned within this time.
const WINDOW: Duration = Duration::from_secs(1);
/// How long lengths by requests stay valid. A length that has grown meanwhile does no harm: the pipe counts as full,
/// and its rate with this much in flight is known.
const LENGTH_WINDOW: Duration = Duration::from_secs(10);
/// How often the pipe is drained to half.
const DRAINED: Duration = Duration::from_secs(4);
/// The weight of a new latency in the smoothed one.
const GAIN: f64 = 1.0 / 8.0;
/// The same for pings, which are few.
const PING_GAIN: f64 = 1.0 / 2.0;
/// An idle route is probed again after this time, and after this multiple of the last probe's duration, so that probing
/// costs 1 %.
const IDLE: Duration = Duration::from_secs(1);
const IDLE_TRIES: f64 = 100.0;
/// A probe ends once a request takes as long as the one before it, within this factor. TCP restarts with a small window
/// after a pause (RFC 5681 §4.1, RFC 7661 §4.4), so the first requests take longer than those that follow.
const ALIKE: f64 = 1.1;
/// A route whose latency grew by this factor is probed again at once: the delay may have been a single event.
const WORSE: f64 = 2.0;
/// The factor by which latencies must exceed the minimum for the pipe to count as full.
const FULL: f64 = 1.25;
/// Default expected rate of a pipe that is not full, relative to its measured rate.
const HEADROOM: f64 = 2.0;

/// Requests of one direction (reads, or writes) on one route.
#[derive(Debug, Clone)]
pub struct Lane {
    open_bytes: u64,
    open_requests: u64,
    done_bytes: u64,
    /// When the last request completed, or the first was sent into an empty pipe.
    done_at: Instant,
    /// When the request that completed last was sent.
    sent_at: Instant,
    latency: Latency,
    /// Latency of pings, if any.
    ping: Latency,
    /// In bytes per ns.
    rate: Extreme,
    /// Latency of the last request sent into an empty pipe, and duration of the last probe or of the current one so
    /// far, in ns.
    alone_ns: f64,
    try_ns: f64,
    is_tried: bool,
    /// When the pipe is drained to half next, and how many requests may stay in flight until then.
    drained_at: Instant,
    drains_to: Option<u64>,
    /// The length was measured by the last request sent into an empty pipe, or the pipe has not been empty since.
    is_length_known: bool,
    /// Expected rate while the pipe is not full, relative to the measured rate.
    headroom: f64,
}

/// A latency over time.
#[derive(Debug, Clone)]
struct Latency {
    /// The weight of each new latency.
    gain: f64,
    smoothed_ns: Option<f64>,
    /// The minimum, of smoothed latencies or of single ones: a single one of few pings may be short by chance.
    least_ns: Extreme,
    is_smoothed: bool,
}

impl Latency {
    fn of_requests() -> Latency {
        Latency {
            gain: GAIN,
            smoothed_ns: None,
            least_ns: Extreme::least(LENGTH_WINDOW),
            is_smoothed: false,
        }
    }

    fn of_pings() -> Latency {
        Latency {
            gain: PING_GAIN,
            smoothed_ns: None,
            least_ns: Extreme::least(WINDOW),
            is_smoothed: true,
        }
    }

    fn add(&mut self, took: Duration, now: Instant) {
        let took_ns = took.as_nanos() as f64;
        let smoothed_ns = match self.smoothed_ns {
            Some(before) => before + (took_ns - before) * self.gain,
            None => took_ns,
        };
        self.smoothed_ns = Some(smoothed_ns);
        let least_ns = if self.is_smoothed {
            smoothed_ns
        } else {
            took_ns
        };
        self.least_ns.add(least_ns, now);
    }

    /// Whether latency has grown, so that requests queue.
    fn has_grown(&self) -> Option<bool> {
        Some(self.smoothed_ns? > FULL * self.least_ns.get()?)
    }
}

/// What a lane records of a request when it is sent, and uses at its completion.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    bytes: u64,
    at: Instant,
    done_bytes: u64,
    done_at: Instant,
    sent_at: Instant,
    /// Nothing else of this direction was in flight.
    is_alone: bool,
}

impl Default for Lane {
    fn default() -> Lane {
        Lane {
            open_bytes: 0,
            open_requests: 0,
            done_bytes: 0,
            done_at: Instant::ZERO,
            sent_at: Instant::ZERO,
            latency: Latency::of_requests(),
            ping: Latency::of_pings(),
            rate: Extreme::most(WINDOW),
            alone_ns: f64::INFINITY,
            try_ns: 0.0,
            is_tried: false,
            drained_at: Instant::ZERO,
            drains_to: None,
            is_length_known: false,
            headroom: HEADROOM,
        }
    }
}

impl Lane {
    /// A lane that is expected to carry no more than its measured rate: for requests that complete on arrival of their
    /// data, not only with their status. A route that gets too few of these soon runs empty, and is chosen then.
    #[must_use]
    pub fn without_headroom() -> Lane {
        Lane {
            headroom: 1.0,
            ..Lane::default()
        }
    }

    /// Counts a request of `bytes` as sent.
    pub fn send(&mut self, bytes: u64, now: Instant) -> Sent {
        let is_alone = self.open_requests == 0;
        if is_alone {
            self.is_tried = !self.is_length_known || self.is_due(now);
            // Idle time does not count against the route.
            (self.done_at, self.sent_at) = (now, now);
        }
        self.open_bytes += bytes;
        self.open_requests += 1;
        let is_due = now >= self.drained_at && self.open_requests > 1;
        if is_alone || is_due {
            self.drained_at = now + DRAINED;
            self.drains_to = is_due.then_some(self.open_requests / 2);
        }
        Sent {
            bytes,
            at: now,
            done_bytes: self.done_bytes,
            done_at: self.done_at,
            sent_at: self.sent_at,
            is_alone,
        }
    }

    /// Counts a request as completed.
    pub fn complete(&mut self, sent: Sent, now: Instant) {
        self.forget(sent);
        self.done_bytes += sent.bytes;
        // Responses that arrive in a burst were sent one after the other: the longer of the two times is the route's.
        let since = (now - sent.done_at).max(sent.at.since(sent.sent_at));
        self.done_at = now;
        self.sent_at = self.sent_at.max(sent.at);
        let done_bytes = (self.done_bytes - sent.done_bytes) as f64;
        self.rate
            .add(done_bytes / (since.as_nanos() as f64).max(1.0), now);
        if sent.is_alone {
            self.latency = Latency::of_requests();
            self.took_alone((now - sent.at).as_nanos() as f64);
        } else if self.open_requests == 0 {
            // A request that queued does not show the latency of one alone.
            (self.is_length_known, self.try_ns) = (false, 0.0);
        }
        self.latency.add(now - sent.at, now);
    }

    fn took_alone(&mut self, took_ns: f64) {
        let before_ns = self.alone_ns;
        if self.is_length_known {
            self.try_ns = 0.0;
        }
        self.try_ns += took_ns;
        self.is_length_known = match self.is_tried {
            true => took_ns.max(before_ns) <= ALIKE * took_ns.min(before_ns),
            false => took_ns <= WORSE * before_ns,
        };
        self.alone_ns = took_ns;
    }

    /// Whether the route was idle for so long that it must be probed again.
    fn is_due(&self, now: Instant) -> bool {
        let idle_ns = now.since(self.done_at).as_nanos() as f64;
        idle_ns > (IDLE.as_nanos() as f64).max(IDLE_TRIES * self.try_ns)
    }

    /// The latency of a ping, which overtakes no request's data. Where requests also wait for other routes, as with the
    /// command order of a session, only pings show whether this route is full.
    pub fn pinged(&mut self, took: Duration, now: Instant) {
        self.ping.add(took, now);
    }

    /// Removes a request from those in flight without a sample of the route.
    pub fn forget(&mut self, sent: Sent) {
        self.open_bytes -= sent.bytes;
        self.open_requests -= 1;
        self.drains_to = self.drains_to.filter(|left| self.open_requests > *left);
    }

    /// Whether the pipe is being drained: requests for it must wait.
    #[must_use]
    pub fn drains(&self) -> bool {
        self.drains_to.is_some()
    }

    /// Requests in flight.
    #[must_use]
    pub fn open(&self) -> u64 {
        self.open_requests
    }

    /// Expected latency of a request of `bytes` that is sent now, in ns: 0 on a route to be probed, because nothing has
    /// completed on it yet, it has run empty, or it was idle for long; infinite during the first probe. On a route with
    /// requests in flight but no recent completion, at least the time since the last one.
    #[must_use]
    pub fn expects_ns(&self, bytes: u64, now: Instant) -> f64 {
        self.expectation(bytes, now).0
    }

    /// Latency of such a request plus the delay that it adds to others, in ns: while as many stay in flight as now,
    /// each of them waits for its transfer if the pipe is full. Choosing the route with the lowest marginal cost
    /// completes all requests together first (Pigou, "The Economics of Welfare", 1920, on two roads between two towns).
    #[must_use]
    pub fn costs_ns(&self, bytes: u64, now: Instant) -> f64 {
        let (takes_ns, delays_ns) = self.expectation(bytes, now);
        takes_ns + delays_ns
    }

    /// The rate while requests queue, in bytes per ns.
    #[must_use]
    pub fn full_rate(&self) -> Option<f64> {
        let rate = self.rate.get();
        rate.filter(|_| self.open_requests > 0 && self.is_full())
    }

    /// Whether requests are known to queue.
    fn is_full(&self) -> bool {
        let has_grown = self.ping.has_grown().or(self.latency.has_grown());
        has_grown != Some(false)
    }

    fn length_ns(&self) -> Option<f64> {
        self.ping.least_ns.get().or(self.latency.least_ns.get())
    }

    /// The latency of a request, and the delay that it adds to others.
    fn expectation(&self, bytes: u64, now: Instant) -> (f64, f64) {
        let (Some(length_ns), Some(rate)) = (self.length_ns(), self.rate.get()) else {
            // One request is enough as a probe.
            return match self.open_requests {
                0 => (0.0, 0.0),
                _ => (f64::INFINITY, 0.0),
            };
        };
        let rate = match self.is_full() {
            true => rate,
            false => self.headroom * rate,
        };
        // A ping carries no data.
        let length_ns = match self.ping.least_ns.get() {
            Some(ping_ns) => ping_ns + bytes as f64 / rate,
            None => length_ns,
        };
        if self.open_requests == 0 {
            // Earlier requests may have been too short to show a rate.
            return match !self.is_length_known || self.is_due(now) {
                true => (0.0, 0.0),
                false => (length_ns, 0.0),
            };
        }
        let silent_ns = now.since(self.done_at).as_nanos() as f64;
        let queued_ns = (self.open_bytes + bytes) as f64 / rate;
        let delays_ns = match queued_ns > length_ns {
            true => self.open_bytes as f64 / rate,
            false => 0.0,
        };
        (length_ns.max(queued_ns).max(silent_ns), delays_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends a request into the empty lane that takes `ms`; returns whether the lane is probed again at once.
    fn is_tried_after(lane: &mut Lane, now: &mut Instant, ms: u64) -> bool {
        let sent = lane.send(4096, *now);
        *now += Duration::from_millis(ms);
        lane.complete(sent, *now);
        lane.expects_ns(4096, *now) == 0.0
    }

    #[test]
    fn a_try_goes_on_until_a_request_takes_as_long_as_the_one_before() {
        let (mut lane, mut now) = (Lane::default(), Instant::ZERO);
        for _ in 0..2 {
            let mut tried = |ms| is_tried_after(&mut lane, &mut now, ms);
            // TCP's window grows.
            assert_eq!(
                [300, 150, 100, 100].map(&mut tried),
                [true, true, true, false]
            );
            // A hundred times the duration of the four.
            let after = |seconds| lane.expects_ns(4096, now + Duration::from_secs(seconds));
            assert!(after(65) > 0.0);
            assert_eq!(after(66), 0.0);
            now += Duration::from_secs(66);
        }
    }

    #[test]
    fn a_route_that_was_held_up_once_is_tried_again_at_once() {
        let (mut lane, mut now) = (Lane::default(), Instant::ZERO);
        let mut tried = |ms| is_tried_after(&mut lane, &mut now, ms);
        assert_eq!([10, 10, 12, 9].map(&mut tried), [true, false, false, false]);
        assert_eq!(
            [9000, 10, 10].map(&mut tried),
            [true, true, false],
            "it was held up"
        );
        assert_eq!([9000, 9000].map(&mut tried), [true, false], "it is slower");
    }

    /// A ping takes 2 ms, and a read of 64 KiB 10 ms.
    #[test]
    fn a_read_takes_longer_than_a_ping_by_its_data() {
        let (mut lane, mut now) = (Lane::default(), Instant::ZERO);
        for _ in 0..10 {
            lane.pinged(Duration::from_millis(2), now);
            let sent = lane.send(64 << 10, now);
            now += Duration::from_millis(10);
            lane.complete(sent, now);
        }
        // One request alone has only shown a rate of 64 KiB in 10 ms; twice that is expected.
        assert_eq!(lane.expects_ns(64 << 10, now).round(), 7e6);
        assert_eq!(lane.expects_ns(16 << 10, now).round(), 3.25e6);
    }

    #[test]
    fn a_route_that_stands_still_costs_as_much_as_it_is_silent() {
        let (mut lane, mut now) = (Lane::default(), Instant::ZERO);
        for _ in 0..100 {
            let sent = [(); 4].map(|()| lane.send(4096, now));
            now += Duration::from_millis(10);
            sent.into_iter().for_each(|sent| lane.complete(sent, now));
        }
        let _never_done = lane.send(4096, now);
        let usual_ns = lane.expects_ns(4096, now);
        assert!((5e6..40e6).contains(&usual_ns), "{usual_ns}");
        let after = |silence| lane.expects_ns(4096, now + silence);
        assert_eq!(after(Duration::from_millis(500)), 500e6);
        assert_eq!(after(Duration::from_secs(5)), 5e9);
    }
}
