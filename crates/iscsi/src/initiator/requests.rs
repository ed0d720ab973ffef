//! Requests other than SCSI commands that wait for their answers.

use wansan_trace::{ConnectionId, TaskTag};

use crate::sequence::Sn;
use crate::wire::{Lun, TaskManagementFunction};

/// A request other than a SCSI command that waits for its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Request {
    Manage {
        function: TaskManagementFunction,
        lun: Lun,
        referenced: TaskTag,
        before: Sn,
    },
    Ping,
    Logout,
    /// The connection is to be closed, as the target wants.
    Leave,
    /// The connection `cid` is lost and to be removed for recovery, which was asked for on `on`.
    Remove {
        cid: ConnectionId,
        on: ConnectionId,
    },
    /// A task of a lost connection is to move to `on`.
    Reassign {
        referenced: TaskTag,
        on: ConnectionId,
    },
}

/// Requests of the caller that may wait at once; more are refused.
const MAX_REQUESTS: usize = 16;

/// The requests under way; each is answered once, by its tag.
#[derive(Debug, Default)]
pub(super) struct Requests {
    waiting: Vec<(TaskTag, Request)>,
}

impl Requests {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether the caller may ask for another.
    pub(super) fn has_room(&self) -> bool {
        self.waiting.len() < MAX_REQUESTS
    }

    pub(super) fn push(&mut self, tag: TaskTag, request: Request) {
        self.waiting.push((tag, request));
    }

    /// The request with `tag` is answered.
    pub(super) fn take(&mut self, tag: TaskTag) -> Option<Request> {
        let mut waiting = self.waiting.iter();
        let place = waiting.position(|(waiting, _)| *waiting == tag)?;
        Some(self.waiting.swap_remove(place).1)
    }

    /// Takes all of them, as their session is lost.
    pub(super) fn take_all(&mut self) -> Vec<(TaskTag, Request)> {
        std::mem::take(&mut self.waiting)
    }

    /// Whether an ABORT TASK of that task is under way.
    pub(super) fn abort(&self, tag: TaskTag) -> bool {
        let aborts = |request: &Request| {
            matches!(
                request,
                Request::Manage {
                    function: TaskManagementFunction::AbortTask,
                    referenced,
                    ..
                } if *referenced == tag
            )
        };
        self.waiting.iter().any(|(_, request)| aborts(request))
    }

    /// The tasks that TASK REASSIGN is under way for, and on which connection.
    pub(super) fn reassigned(&self) -> impl Iterator<Item = (TaskTag, ConnectionId)> {
        let requests = self.waiting.iter();
        requests.filter_map(|(_, request)| match request {
            Request::Reassign { referenced, on } => Some((*referenced, *on)),
            _ => None,
        })
    }

    /// Forgets what recovery has asked for on a connection that is lost: whoever takes over asks
    /// again. What another connection has asked for, it gets.
    pub(super) fn lose(&mut self, lost: ConnectionId) {
        self.waiting.retain(|(_, request)| match request {
            Request::Remove { on, .. } | Request::Reassign { on, .. } => *on != lost,
            Request::Manage { .. } | Request::Logout | Request::Ping | Request::Leave => true,
        });
    }
}
