//! Tasks that have no CmdSN yet.

use std::collections::VecDeque;

use wansan_trace::{Instant, TaskTag};

/// The session's queue: tasks leave it in its order, each once. Tasks that ended meanwhile are left
/// in it and passed over by whoever takes them.
#[derive(Debug, Default)]
pub(super) struct TaskQueue {
    /// Oldest first.
    waiting: VecDeque<TaskTag>,
    /// Tasks whose unit was busy, and when each goes back.
    delayed: Vec<(Instant, TaskTag)>,
}

impl TaskQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Puts a new task behind all others.
    pub(super) fn push(&mut self, tag: TaskTag) {
        self.waiting.push_back(tag);
    }

    /// Puts a task that was sent once before all others.
    pub(super) fn put_back(&mut self, tag: TaskTag) {
        self.waiting.push_front(tag);
    }

    /// Puts a task back when it is `due`.
    pub(super) fn delay(&mut self, due: Instant, tag: TaskTag) {
        self.delayed.push((due, tag));
    }

    /// Puts delayed tasks whose time has come back, before all others.
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
