//! Whether a session may start store operations.

use wansan_trace::TaskTag;

use crate::scsi::Fence;

/// Closed while an operation that the initiator considers lost may still reach a store: the initiator may repeat it,
/// and an old write must not land after a new one.
#[derive(Debug)]
pub(super) struct StoreGate {
    /// Store operations of earlier sessions of the initiator.
    predecessors: Option<Fence>,
    /// Tasks of connections that have left with operations outstanding.
    left_behind: Vec<TaskTag>,
}

impl StoreGate {
    /// Closed until `predecessors` is down.
    pub(super) fn behind(mut predecessors: Fence) -> Self {
        StoreGate {
            predecessors: (!predecessors.is_down()).then_some(predecessors),
            left_behind: Vec::new(),
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.predecessors.is_none() && self.left_behind.is_empty()
    }

    /// Whether no operation of earlier sessions can land any more.
    pub(super) fn predecessors_are_over(&self) -> bool {
        self.predecessors.is_none()
    }

    /// Checks whether the store operations of earlier sessions have completed.
    pub(super) fn review(&mut self) {
        self.predecessors.take_if(|fence| fence.is_down());
    }

    /// Closes until the stores have completed these tasks' operations.
    pub(super) fn leave_behind(&mut self, tags: Vec<TaskTag>) {
        for tag in tags {
            if !self.left_behind.contains(&tag) {
                self.left_behind.push(tag);
            }
        }
    }

    /// The store has completed an aborted task's operation.
    pub(super) fn answered(&mut self, tag: TaskTag) {
        self.left_behind.retain(|left| *left != tag);
    }
}
