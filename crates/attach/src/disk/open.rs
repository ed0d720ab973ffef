//! An operation of the disk that is under way: what its commands have brought.

use std::collections::VecDeque;

use wansan_cache::{Answer, Extent, Failure, Outcome, Range};
use wansan_iscsi::initiator::Transfer;
use wansan_iscsi::scsi::parse_runs;
use wansan_trace::{SessionId, TaskTag};

use super::facts::Facts;
use super::piece::{How, Rest};

/// An operation that is under way.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) kind: Kind,
    pub(super) range: Range,
    /// Commands that are not answered.
    pub(super) left: usize,
    /// What is still to be cut into commands.
    pub(super) rest: VecDeque<Rest>,
    /// A flush is still to follow.
    pub(super) then_flush: bool,
    /// Of a read, what has come; a read of one command has it in that one's buffer.
    pub(super) data: Vec<u8>,
    pub(super) extents: Vec<Extent>,
    pub(super) failure: Option<Failure>,
    /// The command that was answered last.
    pub(super) command: Option<(SessionId, TaskTag)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Status { one: bool },
    Zero { fast: bool },
    Other,
}

impl Open {
    /// The disk has no WRITE SAME: zeros are written to this part and to what is left, unless they are to be fast.
    pub(super) fn write_zeros(&mut self, range: Range) {
        if self.kind == (Kind::Zero { fast: true }) {
            self.failure.get_or_insert(Failure::NotSupported);
            return;
        }
        let how = How::Zeros;
        self.rest.iter_mut().for_each(|rest| rest.how = how);
        self.rest.push_front(Rest { range, how });
    }

    /// What a command has brought.
    pub(super) fn take(
        &mut self,
        part: Range,
        transfer: Transfer,
        facts: &Facts,
    ) -> Result<(), Failure> {
        match (self.kind, transfer) {
            (Kind::Read, Transfer::Read(data)) if part == self.range => self.data = data,
            (Kind::Read, Transfer::Read(data)) => {
                let at = (part.start - self.range.start) as usize;
                self.data[at..at + data.len()].copy_from_slice(&data);
            }
            (Kind::Status { .. }, Transfer::Read(data)) => {
                let runs = parse_runs(&data).map_err(|_| Failure::Io)?;
                let mut at = self.range.start;
                for run in runs {
                    let start = run.lba.saturating_mul(facts.block_bytes());
                    let end = start.saturating_add(u64::from(run.blocks) * facts.block_bytes());
                    // What is between is unknown.
                    if start > at {
                        break;
                    }
                    let end = end.min(self.range.end);
                    if end > at {
                        let is_hole = !run.is_mapped;
                        self.extents.push(Extent {
                            length_bytes: end - at,
                            is_hole,
                            reads_zero: is_hole && facts.provisioning.reads_zeros,
                        });
                        at = end;
                    }
                }
                if self.extents.is_empty() {
                    self.extents.push(Extent::data(self.range.bytes()));
                }
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn outcome(self) -> Outcome {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        Ok(match self.kind {
            Kind::Read => Answer::Data(self.data),
            Kind::Status { one } => {
                let mut extents = self.extents;
                extents.truncate(if one { 1 } else { usize::MAX });
                Answer::Status(extents)
            }
            Kind::Zero { .. } | Kind::Other => Answer::Done,
        })
    }
}
