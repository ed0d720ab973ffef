//! Outstanding requests other than SCSI commands.

use wansan_trace::{ConnectionId, TaskTag};

use crate::sequence::Sn;
use crate::wire::{Lun, TaskManagementFunction};

/// An outstanding request other than a SCSI command.
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
    /// Close the connection, at the target's request.
    Leave,
    /// Remove the lost connection `cid` for recovery; requested on `on`.
    Remove {
        cid: ConnectionId,
        on: ConnectionId,
    },
    /// Reassign a task of a lost connection to `on`.
    Reassign {
        referenced: TaskTag,
        on: ConnectionId,
    },
}

/// Most outstanding requests of the caller; more are rejected.
const MAX_REQUESTS: usize = 16;

/// Outstanding requests; each is answered once, by its tag.
#[derive(Debug, Default)]
pub(super) struct Requests {
    waiting: Vec<(TaskTag, Request)>,
}

impl Requests {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether the caller may send another.
    pub(super) fn has_room(&self) -> bool {
        self.waiting.len() < MAX_REQUESTS
    }

    pub(super) fn push(&mut self, tag: TaskTag, request: Request) {
        self.waiting.push((tag, request));
    }

    /// Removes the answered request with `tag`.
    pub(super) fn take(&mut self, tag: TaskTag) -> Option<Request> {
        let mut waiting = self.waiting.iter();
        let place = waiting.position(|(waiting, _)| *waiting == tag)?;
        Some(self.waiting.swap_remove(place).1)
    }

    /// Removes all of them, because their session is lost.
    pub(super) fn take_all(&mut self) -> Vec<(TaskTag, Request)> {
        std::mem::take(&mut self.waiting)
    }

    /// Whether an ABORT TASK of that task is outstanding.
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

    /// The tasks with an outstanding TASK REASSIGN, and its connection.
    pub(super) fn reassigned(&self) -> impl Iterator<Item = (TaskTag, ConnectionId)> {
        let requests = self.waiting.iter();
        requests.filter_map(|(_, request)| match request {
            Request::Reassign { referenced, on } => Some((*referenced, *on)),
            _ => None,
        })
    }

    /// Forgets recovery requests sent on a lost connection: the one that takes over repeats them. Requests of other
    /// connections stay.
    pub(super) fn lose(&mut self, lost: ConnectionId) {
        self.waiting.retain(|(_, request)| match request {
            Request::Remove { on, .. } | Request::Reassign { on, .. } => *on != lost,
            Request::Manage { .. } | Request::Logout | Request::Ping | Request::Leave => true,
        });
    }
}
