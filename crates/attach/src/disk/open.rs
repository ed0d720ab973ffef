//! An outstanding operation of the disk, and the results of its commands so far.

use std::collections::VecDeque;

use wansan_cache::{Answer, Extent, Failure, Outcome, Range};
use wansan_iscsi::initiator::Transfer;
use wansan_iscsi::scsi::parse_runs;
use wansan_trace::{SessionId, TaskTag};

use super::facts::Facts;
use super::piece::{How, Rest};

/// An outstanding operation.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) kind: Kind,
    pub(super) range: Range,
    /// Unanswered commands.
    pub(super) left: usize,
    /// Ranges not yet cut into commands.
    pub(super) rest: VecDeque<Rest>,
    /// Whether a flush follows.
    pub(super) then_flush: bool,
    /// Data read so far; a read of one command keeps it in that command's buffer.
    pub(super) data: Vec<u8>,
    pub(super) extents: Vec<Extent>,
    pub(super) failure: Option<Failure>,
    /// The last command answered.
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
    /// WRITE SAME is not supported: writes zeros to this range and the remaining ones, unless the caller asked for fast
    /// zeroing.
    pub(super) fn write_zeros(&mut self, range: Range) {
        if self.kind == (Kind::Zero { fast: true }) {
            self.failure.get_or_insert(Failure::NotSupported);
            return;
        }
        let how = How::Zeros;
        self.rest.iter_mut().for_each(|rest| rest.how = how);
        self.rest.push_front(Rest { range, how });
    }

    /// Processes a command's result.
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
                    // The status of the gap is unknown.
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
