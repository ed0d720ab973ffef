//! Tasks without a CmdSN.

use std::collections::VecDeque;

use wansan_trace::{Instant, TaskTag};

/// The session's queue: tasks leave it in order, each once. Tasks that ended meanwhile stay in it; the caller skips
/// them.
#[derive(Debug, Default)]
pub(super) struct TaskQueue {
    /// Oldest first.
    waiting: VecDeque<TaskTag>,
    /// Tasks whose unit was busy, and when each is requeued.
    delayed: Vec<(Instant, TaskTag)>,
}

impl TaskQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Number of queued tasks.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Appends a new task.
    pub(super) fn push(&mut self, tag: TaskTag) {
        self.waiting.push_back(tag);
    }

    /// Puts a task that was sent before at the front.
    pub(super) fn put_back(&mut self, tag: TaskTag) {
        self.waiting.push_front(tag);
    }

    /// Requeues a task when it is `due`.
    pub(super) fn delay(&mut self, due: Instant, tag: TaskTag) {
        self.delayed.push((due, tag));
    }

    /// Requeues delayed tasks that are due, at the front.
    pub(super) fn wake(&mut self, now: Instant) {
        while let Some(place) = self.delayed.iter().rposition(|(due, _)| *due <= now) {
            let (_, tag) = self.delayed.remove(place);
            self.put_back(tag);
        }
    }

    /// The next task.
    pub(super) fn peek(&self) -> Option<TaskTag> {
        self.waiting.front().copied()
    }

    /// Takes the next task.
    pub(super) fn pop(&mut self) -> Option<TaskTag> {
        self.waiting.pop_front()
    }
}
