//! The direct reads of one reactor: a fair queue in front of a [`Ring`].

use std::collections::BinaryHeap;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use wansan_trace::clock;

use super::pool::{Lane, Task};
use super::ring::{Outcome, Ring};

/// Reads in flight, and those that wait for room. The lanes of one reactor take turns by bytes, as all lanes do in front of
/// workers.
pub(super) struct DirectReads {
    ring: Ring<Task>,
    waiting: BinaryHeap<Task>,
    /// Virtual time: the start tag of the last read started.
    reached: u64,
    next_number: u64,
}

impl DirectReads {
    /// Fails where io_uring is not available.
    pub(super) fn start(event: BorrowedFd<'_>) -> io::Result<Self> {
        Ok(DirectReads {
            ring: Ring::start(event)?,
            waiting: BinaryHeap::new(),
            reached: 0,
            next_number: 0,
        })
    }

    /// Adds a read that [has a file](Task::direct_file); returns false if no read could be submitted and the caller must try
    /// again.
    pub(super) fn add(&mut self, mut task: Task, lane: &mut Lane) -> bool {
        task.enqueue(&mut lane.next_read, self.reached, self.next_number);
        self.next_number += 1;
        self.waiting.push(task);
        self.fill()
    }

    /// Passes each completed read to `done`, and starts others; returns false as [`add`](DirectReads::add) does.
    pub(super) fn reap(&mut self, done: impl FnMut(Task, Outcome<'_>)) -> bool {
        self.ring.reap(done);
        self.fill()
    }

    fn fill(&mut self) -> bool {
        while let Some(task) = self.waiting.peek()
            && self.ring.has_room(task.operation.bytes())
            && let Some(mut task) = self.waiting.pop()
        {
            self.reached = task.place;
            task.began = Some(clock::now());
            let (file, range) = task.direct_file().expect("as when it was added");
            self.ring.read(file.as_raw_fd(), range, task);
        }
        self.ring.submit()
    }
}

impl core::fmt::Debug for DirectReads {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("DirectReads")
            .field("ring", &self.ring)
            .field("waiting", &self.waiting.len())
            .finish_non_exhaustive()
    }
}
