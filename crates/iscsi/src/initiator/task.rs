//! The initiator's tasks, and a table of them by tag.

use std::collections::VecDeque;

use wansan_multipath::Sent;
use wansan_trace::{ConnectionId, TaskTag};

use super::error::SessionError;
use super::overlap::Extent;
use super::snack::Came;
use crate::sequence::Sn;
use crate::wire::{Lun, Residual, ScsiStatus, TaskAttribute};

/// A command's data. The session owns the buffer until it returns it with the completion, so that
/// callers can reuse it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transfer {
    /// No data.
    None,
    /// Data from the target, read into this buffer; its length is the expected length.
    Read(Vec<u8>),
    /// Data to the target.
    Write(Vec<u8>),
}

impl Transfer {
    /// The Expected Data Transfer Length, in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u32 {
        match self {
            Transfer::None => 0,
            // `Session::submit` rejects longer ones.
            Transfer::Read(data) | Transfer::Write(data) => data.len() as u32,
        }
    }

    /// Data expected from the target, in bytes.
    pub(super) fn awaited_bytes(&self) -> u64 {
        match self {
            Transfer::Read(data) => data.len() as u64,
            Transfer::None | Transfer::Write(_) => 0,
        }
    }

    /// The buffer, whatever the direction.
    #[must_use]
    pub fn into_buffer(self) -> Vec<u8> {
        match self {
            Transfer::None => Vec::new(),
            Transfer::Read(data) | Transfer::Write(data) => data,
        }
    }
}

/// A SCSI command for [`Session::submit`](super::Session::submit).
#[derive(Debug)]
pub struct Command {
    /// The logical unit.
    pub lun: Lun,
    /// The CDB, padded with zeros.
    pub cdb: [u8; 16],
    /// Its task attribute.
    pub attribute: TaskAttribute,
    /// Its data.
    pub transfer: Transfer,
    /// The caller's identifier, returned with the completion.
    pub user: u64,
}

/// The target's answer to a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// SCSI status.
    pub status: ScsiStatus,
    /// Residual count: underflow or overflow.
    pub residual: Residual,
    /// Sense data, if any.
    pub sense: Vec<u8>,
}

/// Why a command failed without a SCSI status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TaskError {
    /// The target failed the command with an iSCSI response code (RFC 7143 §11.4.3).
    #[error("the target failed the command: iSCSI response 0x{0:02x} (RFC 7143 §11.4.3)")]
    Response(u8),
    /// The target sent a Reject for it (RFC 7143 §11.17.1).
    #[error("the target rejected the command: reason 0x{0:02x} (RFC 7143 §11.17.1)")]
    Rejected(u8),
    /// Less data was received than the residual count implies.
    #[error("the target reported GOOD after {got_bytes} of {expected_bytes} bytes")]
    DataMissing {
        /// Bytes received.
        got_bytes: u32,
        /// Bytes expected.
        expected_bytes: u32,
    },
    /// A task management function ended it.
    #[error("the command was aborted on request")]
    Aborted,
    /// The connection was lost, and the command is not safe to repeat.
    #[error(
        "the connection was lost before the command completed, and this command cannot be sent twice"
    )]
    Unsure,
    /// The session ended before the command completed.
    #[error("the session ended before the command completed")]
    SessionEnded,
}

/// A completed command.
#[derive(Debug)]
pub struct Completion {
    /// The caller's number of [`Command::user`].
    pub user: u64,
    /// Its Initiator Task Tag.
    pub task: TaskTag,
    /// Its buffer; after a read, it holds the data.
    pub transfer: Transfer,
    /// Its outcome.
    pub outcome: Result<Answer, TaskError>,
}

/// Data that the target has requested, or that may be sent unsolicited.
#[derive(Debug)]
pub(super) struct Burst {
    /// The R2T's Target Transfer Tag; `None` for unsolicited data.
    pub(super) transfer_tag: Option<u32>,
    pub(super) offset_bytes: u32,
    pub(super) end_bytes: u32,
    pub(super) data_sn: u32,
}

/// State of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// In the session's queue.
    Queued,
    /// Has a CmdSN and was sent on this connection.
    Sent(ConnectionId),
    /// Completed, but not to be reported yet.
    Withheld,
}

/// One task of the initiator.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) tag: TaskTag,
    pub(super) user: u64,
    pub(super) lun: Lun,
    pub(super) cdb: [u8; 16],
    pub(super) attribute: TaskAttribute,
    pub(super) transfer: Transfer,
    pub(super) stage: Stage,
    /// Its state in the connection's lane.
    pub(super) sent: Option<Sent>,
    pub(super) cmd_sn: Sn,
    /// Bursts owed to the target, in the order of its requests.
    pub(super) bursts: VecDeque<Burst>,
    /// Bytes of Data-In received.
    pub(super) got_bytes: u32,
    /// DataSNs, or R2TSNs of a write, received from the target.
    pub(super) data_sns: Came,
    /// The response, if it arrived before all data.
    pub(super) answer: Option<Answer>,
    /// The first byte of the response has arrived.
    pub(super) answered: bool,
    /// For a write: its blocks among those of the others.
    pub(super) extent: Option<Extent>,
    /// Number of retries that responses have asked for.
    pub(super) retries: u8,
    /// A later command has been executed, so the unit's report of the lost session, if any, is the response to this one
    /// or to another like it.
    pub(super) may_report_loss: bool,
}

impl Task {
    /// A task that waits to be sent, and overlaps no other.
    pub(super) fn new(tag: TaskTag, command: Command) -> Task {
        let Command {
            lun,
            cdb,
            attribute,
            transfer,
            user,
        } = command;
        Task {
            tag,
            user,
            lun,
            cdb,
            attribute,
            transfer,
            stage: Stage::Queued,
            sent: None,
            cmd_sn: Sn(0),
            bursts: VecDeque::new(),
            got_bytes: 0,
            data_sns: Came::default(),
            answer: None,
            answered: false,
            extent: None,
            retries: 0,
            may_report_loss: false,
        }
    }
}

impl Task {
    /// Forgets all that was received for it, as if it had just been sent.
    pub(super) fn forget_answer(&mut self) {
        self.bursts.clear();
        self.got_bytes = 0;
        self.data_sns = Came::default();
        self.answer = None;
    }
}

/// Tasks by tag.
///
/// Tags count up through all 2^32 − 1 values, and a tag's low bits are its task's index, so finding a task takes one
/// lookup, and an old tag never names a new task. An index still in use when its turn comes is skipped.
///
/// As indices are used in turn, the table is no larger than the concurrent tasks require: few tasks stay within the
/// processor's cache.
#[derive(Debug)]
pub(super) struct TaskTable {
    places: Vec<Option<Task>>,
    next: u32,
    used: usize,
    /// Most concurrent tasks.
    most: usize,
}

/// Size of a new table.
const FIRST_PLACES: usize = 16;

impl TaskTable {
    /// A table for `tasks` concurrent tasks (at least 1).
    pub(super) fn new(tasks: usize) -> Self {
        TaskTable {
            places: (0..FIRST_PLACES).map(|_| None).collect(),
            next: 0,
            used: 0,
            most: tasks.max(1).next_power_of_two(),
        }
    }

    fn place_of(&self, tag: TaskTag) -> usize {
        tag.0 as usize & (self.places.len() - 1)
    }

    /// Whether another task fits.
    pub(super) fn has_room(&self) -> bool {
        self.used < self.most
    }

    /// Adds the task that `make` builds for its new tag. The caller has checked [`TaskTable::has_room`].
    pub(super) fn insert(&mut self, make: impl FnOnce(TaskTag) -> Task) -> TaskTag {
        // Twice the room makes skipping rare.
        if self.used * 2 >= self.places.len() {
            self.grow();
        }
        let tag = self.spare_tag();
        let place = self.place_of(tag);
        self.places[place] = Some(make(tag));
        self.used += 1;
        tag
    }

    #[cold]
    fn grow(&mut self) {
        let places = 2 * self.places.len();
        let tasks = std::mem::take(&mut self.places);
        self.places.resize_with(places, || None);
        for task in tasks.into_iter().flatten() {
            // Tags with different indices keep different indices.
            let place = self.place_of(task.tag);
            self.places[place] = Some(task);
        }
    }

    /// A tag that no task has, for a request other than a SCSI command.
    pub(super) fn spare_tag(&mut self) -> TaskTag {
        let tag = self.free_tag();
        self.next = tag.0.wrapping_add(1);
        tag
    }

    /// The next tag whose index is free.
    fn free_tag(&self) -> TaskTag {
        let mut tag = TaskTag(self.next);
        // 0xffffffff means "no task" (RFC 7143 §11.2.1.8).
        while tag.0 == u32::MAX || self.places[self.place_of(tag)].is_some() {
            tag = TaskTag(tag.0.wrapping_add(1));
        }
        tag
    }

    pub(super) fn get(&self, tag: TaskTag) -> Option<&Task> {
        let place = self.place_of(tag);
        self.places[place].as_ref().filter(|task| task.tag == tag)
    }

    pub(super) fn get_mut(&mut self, tag: TaskTag) -> Option<&mut Task> {
        let place = self.place_of(tag);
        self.places[place].as_mut().filter(|task| task.tag == tag)
    }

    /// The task with `tag` for a PDU received on `connection`.
    ///
    /// # Errors
    /// It belongs to another connection (allegiance, RFC 7143 §4.2.5.1), or was not sent.
    pub(super) fn on(
        &mut self,
        connection: ConnectionId,
        tag: TaskTag,
    ) -> Result<Option<&mut Task>, SessionError> {
        match self.get_mut(tag) {
            Some(task) if task.stage != Stage::Sent(connection) => {
                Err(SessionError::WrongConnection {
                    task: tag.0,
                    connection: connection.0,
                })
            }
            found => Ok(found),
        }
    }

    /// Removes the task with `tag`, if it exists.
    pub(super) fn remove(&mut self, tag: TaskTag) {
        let place = self.place_of(tag);
        let task = &mut self.places[place];
        if task.as_ref().is_some_and(|task| task.tag == tag) {
            *task = None;
            self.used -= 1;
        }
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Task> {
        self.places.iter_mut().flatten()
    }

    /// The tags of all tasks.
    pub(super) fn tags(&self) -> Vec<TaskTag> {
        self.places.iter().flatten().map(|task| task.tag).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(tag: TaskTag) -> Task {
        let command = Command {
            lun: Lun::default(),
            cdb: [0; 16],
            attribute: TaskAttribute::Simple,
            transfer: Transfer::None,
            user: 0,
        };
        Task::new(tag, command)
    }

    #[test]
    fn tasks_are_found_by_their_tags_however_far_the_table_has_grown() {
        let mut table = TaskTable::new(1000);
        // One stays while the tags of others wrap around.
        let first = table.insert(task);
        let mut under_way = VecDeque::new();
        for _ in 0..10 * FIRST_PLACES {
            under_way.push_back(table.insert(task));
            if under_way.len() > FIRST_PLACES / 4
                && let Some(oldest) = under_way.pop_front()
            {
                table.remove(oldest);
            }
        }
        assert_eq!(table.places.len(), FIRST_PLACES, "few need no more");
        while table.has_room() {
            under_way.push_back(table.insert(task));
        }
        assert_eq!(table.len(), 1024);
        for tag in under_way.into_iter().chain([first]) {
            assert_eq!(table.get_mut(tag).map(|task| task.tag), Some(tag));
            table.remove(tag);
            assert!(table.get_mut(tag).is_none());
        }
        assert_eq!(table.len(), 0);
    }
}
