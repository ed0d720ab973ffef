//! The direct I/O of one reactor: a fair queue in front of a [`Ring`].

use std::collections::BinaryHeap;
use std::io;
use std::os::fd::BorrowedFd;

use wansan_trace::clock;

use super::pool::{Lane, Task};
use super::ring::{Outcome, Ring};

/// Reads and writes in flight, and those that wait for room. The lanes of one reactor take turns by bytes, as all lanes do
/// in front of workers.
pub(super) struct DirectIo {
    ring: Ring<Task>,
    waiting: BinaryHeap<Task>,
    /// Virtual time: the start tag of the last operation started.
    reached: u64,
    next_number: u64,
}

impl DirectIo {
    /// Fails where io_uring is not available.
    pub(super) fn start(event: BorrowedFd<'_>) -> io::Result<Self> {
        Ok(DirectIo {
            ring: Ring::start(event)?,
            waiting: BinaryHeap::new(),
            reached: 0,
            next_number: 0,
        })
    }

    /// Adds an operation that is direct ([`Task::direct`]); returns false if none could be submitted and the caller must
    /// try again. Passes those to `refuse` that cannot begin without waiting.
    pub(super) fn add(
        &mut self,
        mut task: Task,
        lane: &mut Lane,
        refuse: impl FnMut(Task),
    ) -> bool {
        task.enqueue(&mut lane.next_direct, self.reached, self.next_number);
        self.next_number += 1;
        self.waiting.push(task);
        self.fill(refuse)
    }

    /// Passes each completed operation to `done`, and starts others; see [`add`](DirectIo::add).
    pub(super) fn reap(
        &mut self,
        done: impl FnMut(Task, Outcome<'_>),
        refuse: impl FnMut(Task),
    ) -> bool {
        self.ring.reap(done);
        self.fill(refuse)
    }

    fn fill(&mut self, mut refuse: impl FnMut(Task)) -> bool {
        while let Some(task) = self.waiting.peek()
            && self.ring.has_room(task.operation.bytes())
            && let Some(mut task) = self.waiting.pop()
        {
            self.reached = task.place;
            if task.begin_direct() {
                task.began = Some(clock::now());
                self.ring.begin(task);
            } else {
                refuse(task);
            }
        }
        self.ring.submit()
    }
}

impl core::fmt::Debug for DirectIo {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("DirectIo")
            .field("ring", &self.ring)
            .field("waiting", &self.waiting.len())
            .finish_non_exhaustive()
    }
}
