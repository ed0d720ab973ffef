//! Send calls on a socket, until all their stamps have come.

use std::collections::VecDeque;

use wansan_trace::Instant;
use wansan_trace::event::Stamp;

/// The kernel's stamps of the last byte of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// TCP passed it to the queueing discipline (SCM_TSTAMP_SCHED).
    Scheduled,
    /// The device got it (SCM_TSTAMP_SND).
    Departed,
    /// The peer acknowledged it and all before it (SCM_TSTAMP_ACK).
    Acknowledged,
}

/// Most calls kept, 64 bytes each: more than a send buffer holds at a reasonable call size. Beyond that the oldest is
/// recorded as it is.
const MOST: usize = 4096;

/// Calls of one socket in the order of the stream.
#[derive(Debug)]
pub(super) struct Calls {
    /// The stream offset at which the kernel began to count.
    base: u64,
    waiting: VecDeque<Stamp>,
    /// The end of acknowledged data in the stream.
    acknowledged_end: u64,
}

impl Calls {
    /// No calls yet; the kernel counts from stream offset `base`.
    pub(super) fn new(base: u64) -> Calls {
        Calls {
            base,
            waiting: VecDeque::new(),
            acknowledged_end: base,
        }
    }

    /// Adds a call.
    pub(super) fn handed(&mut self, call: Stamp) {
        self.waiting.push_back(call);
    }

    /// Whether stamps are outstanding.
    #[cfg(test)]
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether the last byte of the newest call is still in the send buffer.
    pub(super) fn holds(&self) -> bool {
        let newest = self.waiting.back();
        newest.is_some_and(|call| call.scheduled.max(call.departed) == Instant::ZERO)
    }

    /// When the call before the one that ends with byte `key` returned: a lower bound of the byte's stamps. `None` when
    /// no call ends with that byte.
    pub(super) fn since(&self, key: u32) -> Option<Instant> {
        let place = self.place(key)?;
        let before = place.checked_sub(1).map(|before| self.waiting[before].time);
        Some(before.unwrap_or(Instant::ZERO))
    }

    /// Adds a stamp of byte `key`, counted from the base. When retransmissions cause several, the first counts.
    pub(super) fn told(&mut self, key: u32, step: Step, at: Instant) {
        if let Some(place) = self.place(key) {
            let call = &mut self.waiting[place];
            let time = match step {
                Step::Scheduled => &mut call.scheduled,
                Step::Departed => &mut call.departed,
                Step::Acknowledged => {
                    self.acknowledged_end = self.acknowledged_end.max(call.stream_end);
                    &mut call.acknowledged
                }
            };
            if *time == Instant::ZERO {
                *time = at;
            }
        }
    }

    /// The next complete call: it was acknowledged, alone or with a later one.
    pub(super) fn done(&mut self) -> Option<Stamp> {
        let oldest = self.waiting.front()?;
        let is_done = oldest.stream_end <= self.acknowledged_end || self.waiting.len() > MOST;
        is_done.then(|| self.waiting.pop_front()).flatten()
    }

    /// The next call, complete or not.
    pub(super) fn take(&mut self) -> Option<Stamp> {
        self.waiting.pop_front()
    }

    /// The call that ends with byte `key`.
    fn place(&self, key: u32) -> Option<usize> {
        let first = self.waiting.front()?;
        // Keys are the low 32 bits of a stream offset: extended from the first call.
        let last_byte = first.stream_end.wrapping_sub(1).wrapping_sub(self.base);
        let distance = i64::from(key.wrapping_sub(last_byte as u32).cast_signed());
        let end = first.stream_end.checked_add_signed(distance)?;
        let place = self.waiting.partition_point(|call| call.stream_end < end);
        let call = self.waiting.get(place)?;
        (call.stream_end == end).then_some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 1_000;

    fn at(ns: u64) -> Instant {
        Instant::from_ns(ns)
    }

    fn call(stream_end: u64) -> Stamp {
        Stamp {
            time: at(stream_end),
            stream_end,
            ..Stamp::BLANK
        }
    }

    fn three() -> Calls {
        let mut calls = Calls::new(BASE);
        for end in [1_010, 1_020, 1_030] {
            calls.handed(call(end));
        }
        calls
    }

    #[test]
    fn a_call_is_done_when_it_is_acknowledged() {
        let mut calls = three();
        calls.told(9, Step::Scheduled, at(1));
        calls.told(9, Step::Departed, at(2));
        assert_eq!(calls.done(), None);
        // Retransmitted: the first time counts.
        calls.told(9, Step::Departed, at(7));
        calls.told(9, Step::Acknowledged, at(9));
        let done = calls.done().unwrap();
        assert_eq!((done.stream_end, done.scheduled.ns()), (1_010, 1));
        assert_eq!((done.departed.ns(), done.acknowledged.ns()), (2, 9));
        assert_eq!(calls.done(), None);
        assert!(calls.holds());
        calls.told(29, Step::Scheduled, at(3));
        assert!(!calls.holds());
    }

    #[test]
    fn a_call_goes_with_one_that_is_acknowledged_after_it() {
        let mut calls = three();
        calls.told(19, Step::Acknowledged, at(9));
        let ends: Vec<u64> = std::iter::from_fn(|| calls.done())
            .map(|done| done.stream_end)
            .collect();
        assert_eq!(ends, [1_010, 1_020]);
        assert!(calls.is_waiting());
        assert_eq!(calls.take(), Some(call(1_030)));
        assert!(!calls.is_waiting());
    }

    #[test]
    fn numbers_wrap_and_foreign_ones_are_nobodys() {
        let far = u64::from(u32::MAX);
        let mut calls = Calls::new(BASE);
        calls.handed(call(BASE + far));
        calls.handed(call(BASE + far + 11));
        assert_eq!(calls.since(9), Some(at(BASE + far)));
        calls.told(9, Step::Departed, at(5));
        for key in [0, 8, 10, 1 << 31, u32::MAX] {
            calls.told(key, Step::Scheduled, at(6));
            assert_eq!(calls.since(key), None);
        }
        calls.told(u32::MAX - 1, Step::Acknowledged, at(7));
        assert_eq!(calls.done().unwrap().acknowledged.ns(), 7);
        let second = calls.take().unwrap();
        assert_eq!((second.departed.ns(), second.scheduled), (5, Instant::ZERO));
    }

    #[test]
    fn what_nobody_acknowledges_is_bounded() {
        let mut calls = Calls::new(0);
        for end in 1..=MOST as u64 {
            calls.handed(call(end));
            assert_eq!(calls.done(), None);
        }
        calls.handed(call(MOST as u64 + 1));
        assert_eq!(calls.done(), Some(call(1)));
        assert_eq!(calls.done(), None);
    }
}
