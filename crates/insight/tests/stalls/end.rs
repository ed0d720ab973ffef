//! One end of a connection: a sender and a receiver by RFC 9293, RFC 1122, RFC 5681 and RFC 6298.

use std::collections::VecDeque;

use wansan_insight::stall::Cause;
use wansan_insight::traffic::FlowDirection;
use wansan_trace::TaskTag;

use super::path::Outgoing;
use super::truth::Wait;

/// Which short segments Nagle's algorithm delays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nagle {
    /// None.
    Off,
    /// Each, while any data is unacknowledged (RFC 896).
    BehindAny,
    /// Each, while another short one is unacknowledged, as in most stacks.
    BehindShort,
}

/// How an end's TCP behaves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner {
    pub(crate) mss: u64,
    pub(crate) nagle: Nagle,
    /// The delayed-acknowledgement timer; `None` disables delaying.
    pub(crate) ack_delay_ns: Option<u64>,
    /// Size of the receive buffer.
    pub(crate) buffer_bytes: u64,
    /// The retransmission timer.
    pub(crate) timeout_ns: u64,
}

/// Segments that may be outstanding at first, and after an idle time (RFC 6928, RFC 5681 §4.1).
const INITIAL_WINDOW: u64 = 10;
/// Number of duplicate acknowledgements that indicate a loss (RFC 5681 §3.2).
const DUPLICATES: u32 = 3;

/// The shortest delayed-acknowledgement timer in use.
const TIMER_NS: u64 = 30_000_000;
/// The finder counts acknowledgements that arrive within this time as one.
const AT_ONCE_NS: u64 = 100_000;

/// An unacknowledged segment.
#[derive(Debug, Clone, Copy)]
struct Out {
    place: u64,
    bytes: u64,
    sent_ns: u64,
}

/// Why the sender does not send.
#[derive(Debug, Clone)]
struct Held {
    causes: Vec<Cause>,
    since_ns: u64,
    /// Whether a window counted in segments, as in some stacks, would hold it like this one, which counts bytes.
    is_sure: bool,
    /// Causes that held it before and no longer do, with the times at which they ended.
    lifted: Vec<(Cause, u64)>,
}

/// A delayed acknowledgement.
#[derive(Debug, Clone, Copy)]
struct Kept {
    since_ns: u64,
    sent_ns: u64,
    /// It was triggered by something else before any timer in use would have expired: nothing shows that it was owed.
    is_early: bool,
}

/// A loss known to the sender.
#[derive(Debug, Clone, Copy)]
struct Recovery {
    until: u64,
}

#[derive(Debug)]
pub(crate) struct End {
    way: FlowDirection,
    manner: Manner,
    // The sender.
    /// End offsets of the application's writes, with their times and tasks.
    written: VecDeque<(u64, u64, TaskTag)>,
    end: u64,
    next: u64,
    una: u64,
    edge: u64,
    window: u64,
    threshold: u64,
    window_before_idle: u64,
    last_sent_ns: u64,
    was_limited: bool,
    out: VecDeque<Out>,
    duplicates: u32,
    recovery: Option<Recovery>,
    timer_ns: Option<u64>,
    held: Option<Held>,
    /// Set while a delayed acknowledgement is processed.
    kept: Option<Kept>,
    pub(crate) waits: Vec<Wait>,
    // The receiver.
    received: u64,
    taken: u64,
    beyond: Vec<(u64, u64)>,
    /// Deadline of the acknowledgement that is owed.
    owed: Option<u64>,
    /// When in-order data last arrived.
    newest_ns: u64,
    announced: u64,
    pub(crate) outgoing: Vec<Outgoing>,
}

impl End {
    pub(crate) fn new(way: FlowDirection, manner: Manner, peer_buffer_bytes: u64) -> End {
        End {
            way,
            manner,
            written: VecDeque::new(),
            end: 0,
            next: 0,
            una: 0,
            edge: peer_buffer_bytes,
            window: INITIAL_WINDOW * manner.mss,
            threshold: u64::MAX,
            window_before_idle: 0,
            last_sent_ns: 0,
            was_limited: false,
            out: VecDeque::new(),
            duplicates: 0,
            recovery: None,
            timer_ns: None,
            held: None,
            kept: None,
            waits: Vec::new(),
            received: 0,
            taken: 0,
            beyond: Vec::new(),
            owed: None,
            newest_ns: 0,
            announced: manner.buffer_bytes,
            outgoing: Vec::new(),
        }
    }

    /// The application writes `bytes` at once.
    pub(crate) fn write(&mut self, now_ns: u64, bytes: u64, task: TaskTag) {
        self.end += bytes;
        self.written.push_back((self.end, now_ns, task));
        self.push(now_ns);
    }

    /// The stream offset of the next byte to be written.
    pub(crate) fn written_end(&self) -> u64 {
        self.end
    }

    /// The congestion window, in bytes.
    pub(crate) fn window(&self) -> u64 {
        self.window
    }

    /// Bytes that the application has read.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// The application reads all received data; sends a window update if that has opened the window far enough.
    pub(crate) fn take(&mut self) {
        self.taken = self.received;
        let edge = self.received + self.manner.buffer_bytes;
        // RFC 9293 §3.8.6.2.2.
        let worth = (2 * self.manner.mss).min(self.manner.buffer_bytes / 2);
        if edge.saturating_sub(self.announced) >= worth && self.announced < self.received + worth {
            self.emit(self.next, 0, true);
        }
    }

    /// The next timer expiry.
    pub(crate) fn wakes_ns(&self) -> Option<u64> {
        [self.owed, self.timer_ns].into_iter().flatten().min()
    }

    /// Handles timers that have expired.
    pub(crate) fn wake(&mut self, now_ns: u64) {
        if self.owed.is_some_and(|due_ns| due_ns <= now_ns) {
            self.acknowledge();
        }
        if self.timer_ns.is_some_and(|at_ns| at_ns <= now_ns) {
            let behind = self.out.len() > 1;
            self.threshold = (self.flight() / 2).max(2 * self.manner.mss);
            self.window = self.manner.mss;
            self.window_before_idle = 0;
            let was_again = self.recovery.is_some();
            let cause = if behind || was_again {
                Cause::RetransmissionTimeout
            } else {
                Cause::TailLoss
            };
            self.send_again(now_ns, cause);
            self.timer_ns = Some(now_ns + 2 * self.manner.timeout_ns);
        }
    }

    fn flight(&self) -> u64 {
        self.next - self.una
    }

    /// Sends as much as allowed.
    fn push(&mut self, now_ns: u64) {
        while self.next < self.end {
            let bytes = self.manner.mss.min(self.end - self.next);
            let is_idle = self.out.is_empty() && self.next > 0;
            if is_idle && now_ns - self.last_sent_ns > self.manner.timeout_ns {
                // RFC 5681 §4.1.
                self.window_before_idle = self.window_before_idle.max(self.window);
                self.window = self.window.min(INITIAL_WINDOW * self.manner.mss);
            }
            let causes = self.blocks(bytes);
            if !causes.is_empty() {
                self.was_limited |= self.flight() + bytes > self.window;
                let ready_ns = self.ready_ns().max(self.last_sent_ns);
                let since_ns = match &self.held {
                    // A wait after a loss is counted separately.
                    Some(held) if held.causes == [Cause::FastRetransmit] => now_ns,
                    Some(held) => held.since_ns,
                    None => ready_ns,
                };
                let fits = (self.out.len() as u64 + 1) * self.manner.mss <= self.window;
                let mut is_sure = fits || self.flight() + bytes > self.window;
                let mut lifted = Vec::new();
                if let Some(before) = self.held.take() {
                    is_sure &= before.is_sure;
                    let now_lifted = before.causes.iter().filter(|was| !causes.contains(was));
                    lifted.extend(now_lifted.map(|was| (*was, now_ns)));
                    lifted.extend(before.lifted);
                }
                self.held = Some(Held {
                    causes,
                    since_ns,
                    is_sure,
                    lifted,
                });
                return;
            }
            self.released(now_ns);
            self.out.push_back(Out {
                place: self.next,
                bytes,
                sent_ns: now_ns,
            });
            self.emit(self.next, bytes, false);
            self.next += bytes;
            self.last_sent_ns = now_ns;
            self.timer_ns.get_or_insert(now_ns + self.manner.timeout_ns);
        }
        self.held = None;
    }

    /// The causes that keep a segment of that length from being sent; any of them is sufficient.
    fn blocks(&self, bytes: u64) -> Vec<Cause> {
        let mut causes = Vec::new();
        if self.recovery.is_some() {
            // The loss is recorded separately.
            return vec![Cause::FastRetransmit];
        }
        if self.next + bytes > self.edge {
            causes.push(Cause::ReceiveWindow);
        }
        let short_is_out = self.out.iter().any(|out| out.bytes < self.manner.mss);
        let held_by_nagle = bytes < self.manner.mss
            && match self.manner.nagle {
                Nagle::Off => false,
                Nagle::BehindAny => !self.out.is_empty(),
                Nagle::BehindShort => short_is_out,
            };
        if held_by_nagle {
            causes.push(Cause::Nagle);
        }
        let would_be = self.flight() + bytes;
        if would_be > self.window {
            causes.push(if would_be <= self.window_before_idle {
                Cause::SlowStartAfterIdle
            } else {
                Cause::ExtraRoundTrips
            });
        }
        causes
    }

    /// Records the wait that ends at `now_ns`.
    fn released(&mut self, now_ns: u64) {
        let Some(held) = self.held.take() else { return };
        if held.causes == [Cause::FastRetransmit] {
            return;
        }
        let task = self.task_at(self.next);
        let mut causes = held.causes;
        // Causes that end within this time of each other cannot be distinguished.
        let at_once = held
            .lifted
            .into_iter()
            .filter(|(_, at_ns)| now_ns - at_ns <= AT_ONCE_NS);
        causes.extend(at_once.map(|(cause, _)| cause));
        causes.retain(|cause| *cause != Cause::FastRetransmit);
        let mut wait = Wait {
            task,
            causes,
            from_ns: held.since_ns,
            to_ns: now_ns,
            is_owed: held.is_sure,
        };
        if let Some(kept) = self.kept {
            let (kept_from_ns, sent_ns) = (kept.since_ns.max(wait.from_ns), kept.sent_ns);
            if sent_ns > kept_from_ns {
                if kept.is_early {
                    self.waits.push(Wait {
                        is_owed: false,
                        ..wait.clone()
                    });
                }
                let (nagle, others): (Vec<Cause>, Vec<Cause>) = wait
                    .causes
                    .iter()
                    .partition(|cause| **cause == Cause::Nagle);
                // With both, two attributions are correct.
                let is_owed =
                    wait.is_owed && (nagle.is_empty() || others.is_empty()) && !kept.is_early;
                if !nagle.is_empty() {
                    self.waits.push(Wait {
                        causes: vec![Cause::NagleAgainstDelayedAck],
                        is_owed,
                        ..wait.clone()
                    });
                }
                if others.is_empty() {
                    return;
                }
                self.waits.push(Wait {
                    task,
                    causes: vec![Cause::DelayedAck],
                    from_ns: kept_from_ns,
                    to_ns: sent_ns,
                    is_owed,
                });
                wait.from_ns += sent_ns - kept_from_ns;
                wait.causes = others;
                wait.is_owed = is_owed;
            }
        }
        self.waits.push(wait);
    }

    /// When the next byte to be sent was written.
    fn ready_ns(&self) -> u64 {
        let written = self.written.iter().find(|(end, _, _)| *end > self.next);
        written.map_or(0, |(_, at_ns, _)| *at_ns)
    }

    fn task_at(&self, place: u64) -> TaskTag {
        let written = self.written.iter().find(|(end, _, _)| *end > place);
        written.map_or(TaskTag(u32::MAX), |(_, _, task)| *task)
    }

    /// Retransmits the first unacknowledged segment.
    fn send_again(&mut self, now_ns: u64, cause: Cause) {
        let Some(first) = self.out.front_mut() else {
            self.timer_ns = None;
            return;
        };
        let (place, bytes, sent_ns) = (first.place, first.bytes, first.sent_ns);
        first.sent_ns = now_ns;
        self.waits.push(Wait {
            task: self.task_at(place),
            causes: vec![cause],
            from_ns: sent_ns,
            to_ns: now_ns,
            is_owed: true,
        });
        self.recovery = Some(Recovery { until: self.next });
        self.duplicates = 0;
        self.emit(place, bytes, false);
    }

    fn emit(&mut self, place: u64, payload_bytes: u64, is_update: bool) {
        // Every segment acknowledges the data received.
        let window_bytes = self.manner.buffer_bytes - (self.received - self.taken);
        self.announced = self.received + window_bytes;
        let delay_ns = self.manner.ack_delay_ns.unwrap_or(0);
        let kept_since_ns = self
            .owed
            .take()
            .map(|due_ns| (self.newest_ns, due_ns - delay_ns));
        self.outgoing.push(Outgoing {
            way: self.way,
            place,
            payload_bytes,
            acked: self.received,
            window_bytes,
            kept_since_ns,
            is_update,
        });
    }

    fn acknowledge(&mut self) {
        self.emit(self.next, 0, false);
    }

    /// A segment of the peer arrives. The application reads received data at once if `reads`.
    pub(crate) fn arrive(&mut self, now_ns: u64, sent_ns: u64, segment: &Outgoing, reads: bool) {
        self.kept = segment.kept_since_ns.map(|(since_ns, oldest_ns)| Kept {
            since_ns,
            sent_ns,
            is_early: segment.is_update || sent_ns - oldest_ns < TIMER_NS,
        });
        self.hear(now_ns, segment);
        self.kept = None;
        if segment.payload_bytes > 0 {
            self.take_in(now_ns, segment, reads);
        }
    }

    /// Processes the segment's acknowledgement of this end's data.
    fn hear(&mut self, now_ns: u64, segment: &Outgoing) {
        if segment.acked < self.una {
            return;
        }
        let edge = segment.acked + segment.window_bytes;
        if segment.acked > self.una {
            let acked = segment.acked - self.una;
            self.una = segment.acked;
            self.out.retain(|out| out.place + out.bytes > segment.acked);
            let una = self.una;
            while self.written.front().is_some_and(|(end, _, _)| *end <= una) {
                self.written.pop_front();
            }
            self.duplicates = 0;
            self.recovery = self.recovery.filter(|recovery| una < recovery.until);
            // RFC 5681 §3.1, if the window was fully used (RFC 7661).
            if self.was_limited {
                if self.window < self.threshold {
                    self.window += acked.min(self.manner.mss);
                } else {
                    let mss = self.manner.mss;
                    self.window += (mss * mss / self.window).max(1);
                }
                self.was_limited = self.next < self.end;
            }
            let timeout_ns = self.manner.timeout_ns;
            self.timer_ns = (!self.out.is_empty()).then_some(now_ns + timeout_ns);
        } else if segment.payload_bytes == 0 && edge == self.edge && !self.out.is_empty() {
            self.duplicates += 1;
            if self.duplicates == DUPLICATES && self.recovery.is_none() {
                self.threshold = (self.flight() / 2).max(2 * self.manner.mss);
                self.window = self.threshold;
                self.window_before_idle = 0;
                self.send_again(now_ns, Cause::FastRetransmit);
                self.timer_ns = Some(now_ns + self.manner.timeout_ns);
            }
        }
        self.edge = edge;
        self.push(now_ns);
    }

    /// Processes the segment's payload.
    fn take_in(&mut self, now_ns: u64, segment: &Outgoing, reads: bool) {
        let (place, end) = (segment.place, segment.place + segment.payload_bytes);
        let in_order = place <= self.received;
        if in_order {
            self.newest_ns = now_ns;
        }
        let fills = !self.beyond.is_empty();
        if in_order {
            self.received = self.received.max(end);
            self.beyond.sort_unstable();
            let mut received = self.received;
            self.beyond.retain(|&(from, to)| {
                if from <= received {
                    received = received.max(to);
                }
                from > received
            });
            self.received = received;
        } else {
            self.beyond.push((place, end));
        }
        if reads {
            self.taken = self.received;
        }
        let Some(delay_ns) = self.manner.ack_delay_ns else {
            self.acknowledge();
            return;
        };
        if !in_order || fills {
            // RFC 5681 §4.2.
            self.acknowledge();
            return;
        }
        // RFC 1122 §4.2.3.2: every second full segment at least.
        let is_full = segment.payload_bytes >= self.manner.mss;
        match self.owed {
            Some(_) if is_full => self.acknowledge(),
            Some(_) => {}
            None => self.owed = Some(now_ns + delay_ns),
        }
    }
}
