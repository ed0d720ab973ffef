//! How much solicited data a session requests at once.

use std::collections::VecDeque;

use wansan_trace::TaskTag;

use super::memory::Share;
use crate::wire::RESERVED_TAG;

/// Limit of solicited data, in bytes, that one session may have requested or buffered, so that a few large writes
/// cannot take all memory. A single task is always admitted, however large.
const SOLICITED_BYTES: u32 = 64 * 1024 * 1024;

/// The grant of a write that needs solicited data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Grant {
    /// Room for all of it: a started write can always complete.
    Given,
    /// It waits for another write to complete.
    Waits,
    /// There is no memory, and no other write to free some.
    NoMemory,
}

/// The grants of a session: each is charged to its share of memory and released once.
#[derive(Debug, Default)]
pub(super) struct Grants {
    granted_bytes: u32,
    /// Writes that wait for room, oldest first.
    waiting: VecDeque<TaskTag>,
    next_transfer_tag: u32,
}

impl Grants {
    /// Requests room for `bytes` of a write's data.
    pub(super) fn ask(&mut self, tag: TaskTag, bytes: u32, share: &mut Share) -> Grant {
        let is_first = self.granted_bytes == 0;
        let fits = is_first || self.granted_bytes.saturating_add(bytes) <= SOLICITED_BYTES;
        if fits && share.take(bytes as usize) {
            self.granted_bytes += bytes;
            return Grant::Given;
        }
        if is_first {
            return Grant::NoMemory;
        }
        if !self.waiting.contains(&tag) {
            self.waiting.push_back(tag);
        }
        Grant::Waits
    }

    /// Releases a write's grant; its memory is charged to the task.
    pub(super) fn give_back(&mut self, bytes: u32) {
        self.granted_bytes -= bytes;
    }

    /// The next write in turn.
    pub(super) fn first_waiting(&self) -> Option<TaskTag> {
        self.waiting.front().copied()
    }

    /// Removes that write.
    pub(super) fn first_is_served(&mut self) {
        self.waiting.pop_front();
    }

    /// The Target Transfer Tag of the next R2T, always valid.
    pub(super) fn next_transfer_tag(&self) -> u32 {
        self.next_transfer_tag
    }

    /// A Target Transfer Tag for an R2T.
    pub(super) fn take_transfer_tag(&mut self) -> u32 {
        let tag = self.next_transfer_tag;
        self.next_transfer_tag = (tag + 1) % RESERVED_TAG;
        tag
    }
}
