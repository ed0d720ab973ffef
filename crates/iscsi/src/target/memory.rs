//! The memory limit shared by all sessions of a target.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A share takes and returns memory in steps of this size, so that sessions on different threads seldom contend here.
const STEP_BYTES: usize = 64 << 10;

/// Unneeded steps that a share keeps.
const SPARE_STEPS: usize = 2;

/// A limit on the memory of all sessions of a target together: data of writes, commands held behind a gap in CmdSN,
/// outstanding reads at stores, and unsent responses.
///
/// When it is exhausted, commands with data get TASK SET FULL or BUSY, and each session reads one small piece at a
/// time. Receive buffers (one PDU of MaxRecvDataSegmentLength or 256 KiB per connection) are not counted.
#[derive(Debug)]
pub struct Memory {
    limit_bytes: usize,
    used_bytes: AtomicUsize,
}

impl Memory {
    /// `limit_bytes` for all sessions with this memory in their configuration.
    #[must_use]
    pub fn new(limit_bytes: usize) -> Arc<Memory> {
        Arc::new(Memory {
            limit_bytes,
            used_bytes: AtomicUsize::new(0),
        })
    }

    fn take(&self, bytes: usize) -> bool {
        // The counter guards no other data.
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        let taken = self.used_bytes.fetch_update(set, fetch, |used| {
            used.checked_add(bytes)
                .filter(|used| *used <= self.limit_bytes)
        });
        taken.is_ok()
    }

    fn give(&self, bytes: usize) {
        self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// One session's share of a [`Memory`]; returned when it is dropped.
#[derive(Debug)]
pub(super) struct Share {
    memory: Arc<Memory>,
    /// Taken from `memory`.
    taken_bytes: usize,
    /// Of these, bytes in use.
    used_bytes: usize,
}

impl Share {
    pub(super) fn of(memory: &Arc<Memory>) -> Share {
        Share {
            memory: Arc::clone(memory),
            taken_bytes: 0,
            used_bytes: 0,
        }
    }

    /// Takes `bytes`, if available.
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        let lacking_bytes = (self.used_bytes + bytes).saturating_sub(self.taken_bytes);
        if lacking_bytes > 0 {
            let steps_bytes = lacking_bytes.next_multiple_of(STEP_BYTES);
            if self.memory.take(steps_bytes) {
                self.taken_bytes += steps_bytes;
            } else if self.memory.take(lacking_bytes) {
                self.taken_bytes += lacking_bytes;
            } else {
                return false;
            }
        }
        self.used_bytes += bytes;
        true
    }

    /// Returns `bytes` taken before.
    pub(super) fn give(&mut self, bytes: usize) {
        self.used_bytes -= bytes;
        let spare_bytes = self.taken_bytes - self.used_bytes;
        if spare_bytes > SPARE_STEPS * STEP_BYTES {
            self.memory.give(spare_bytes);
            self.taken_bytes = self.used_bytes;
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.memory.give(self.taken_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_never_have_more_than_there_is() {
        let memory = Memory::new(10 * STEP_BYTES);
        let (mut one, mut other) = (Share::of(&memory), Share::of(&memory));
        assert!(one.take(7 * STEP_BYTES - 100));
        assert!(!other.take(4 * STEP_BYTES));
        assert!(other.take(3 * STEP_BYTES));
        assert!(!other.take(1));
        assert!(one.take(100), "what is rounded up is one's own");
        one.give(6 * STEP_BYTES);
        assert!(other.take(4 * STEP_BYTES));
        drop(one);
        drop(other);
        assert_eq!(memory.used_bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn the_last_bytes_can_be_had_without_a_whole_step() {
        let memory = Memory::new(1000);
        let mut share = Share::of(&memory);
        assert!(share.take(1000));
        assert!(!share.take(1));
    }
}
