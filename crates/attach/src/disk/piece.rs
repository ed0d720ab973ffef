//! SCSI commands that make up an operation.

use wansan_cache::{Action, Failure, Range};
use wansan_iscsi::initiator::{Command, Transfer};
use wansan_iscsi::scsi::{Cdb, cdb};
use wansan_iscsi::wire::{Lun, TaskAttribute};

use super::facts::Facts;

/// Allocation length of GET LBA STATUS: the header and 256 descriptors.
const STATUS_BYTES: u32 = 8 + 256 * 16;

/// One command of an operation.
#[derive(Debug)]
pub(super) struct Piece {
    /// Its range on the disk.
    pub(super) range: Range,
    pub(super) cdb: Cdb,
    pub(super) transfer: Transfer,
}

/// The commands of an operation.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    pub(super) pieces: Vec<Piece>,
    /// The range cut into further commands as others complete.
    pub(super) rest: Option<Rest>,
    /// Whether a flush follows, in place of FUA.
    pub(super) then_flush: bool,
}

/// A range to which one action applies throughout; it may be the whole disk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rest {
    pub(super) range: Range,
    pub(super) how: How,
}

/// The action on a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    Unmap,
    WriteSame {
        unmap: bool,
    },
    /// Write zeros.
    Zeros,
}

impl Rest {
    /// Cuts off the next command.
    pub(super) fn next(&mut self, facts: &Facts) -> Option<Piece> {
        if self.range.is_empty() {
            return None;
        }
        let most = match self.how {
            How::Unmap => facts.unmap_bytes(),
            How::WriteSame { .. } => facts.write_same_bytes(),
            How::Zeros => facts.transfer_bytes(),
        };
        let part = Range::new(self.range.start, self.range.bytes().min(most));
        self.range.start = part.end;
        let blocks = Blocks(facts);
        let (lba, count) = (blocks.lba(&part), blocks.count(&part));
        let (cdb, data) = match self.how {
            How::Unmap => (cdb::unmap(), cdb::unmap_list(lba, count)),
            How::WriteSame { unmap } => {
                let block = vec![0; facts.block_bytes() as usize];
                (cdb::write_same_16(lba, count, unmap), block)
            }
            How::Zeros => (
                cdb::write(lba, count, false),
                vec![0; part.bytes() as usize],
            ),
        };
        Some(Piece {
            range: part,
            cdb,
            transfer: Transfer::Write(data),
        })
    }
}

/// Builds the session's command.
pub(super) fn command(at: Lun, cdb: Cdb, transfer: Transfer, user: u64) -> Command {
    Command {
        lun: at,
        cdb,
        attribute: TaskAttribute::Simple,
        transfer,
        user,
    }
}

impl Pieces {
    /// The commands of an operation; none if there is nothing to do. `writes_same` is true unless the disk has refused
    /// WRITE SAME.
    pub(super) fn of(action: Action, facts: &Facts, writes_same: bool) -> Result<Pieces, Failure> {
        let blocks = Blocks(facts);
        let range = action.range();
        if !range.start.is_multiple_of(facts.block_bytes())
            || !range.end.is_multiple_of(facts.block_bytes())
        {
            return Err(Failure::Invalid);
        }
        let mut pieces = Pieces::default();
        let rest = |how| Some(Rest { range, how });
        match action {
            Action::Read { range } => pieces.pieces = blocks.reads(range),
            Action::Write {
                offset_bytes,
                data,
                fua,
            } => {
                let obeys = fua && facts.modes.has_fua;
                pieces.pieces = blocks.writes(offset_bytes, data, obeys);
                pieces.then_flush = fua && !obeys && facts.modes.has_write_cache;
            }
            Action::Flush if facts.modes.has_write_cache => pieces.pieces.push(Piece::flush()),
            Action::Trim { .. } if facts.unmaps() => pieces.rest = rest(How::Unmap),
            Action::Trim { .. } if facts.provisioning.by_write_same => {
                pieces.rest = rest(How::WriteSame { unmap: true });
            }
            Action::Trim { .. } => return Err(Failure::NotSupported),
            Action::Zero { may_unmap, .. } if writes_same => {
                let unmap = may_unmap && facts.provisioning.by_write_same;
                pieces.rest = rest(How::WriteSame { unmap });
            }
            Action::Zero { fast: true, .. } => return Err(Failure::NotSupported),
            Action::Zero { .. } => pieces.rest = rest(How::Zeros),
            Action::Status { range, .. } => pieces.pieces.push(blocks.status(range)),
            Action::Flush | Action::Prefetch { .. } => {}
        }
        Ok(pieces)
    }
}

impl Piece {
    pub(super) fn flush() -> Piece {
        Piece {
            range: Range::new(0, 0),
            cdb: cdb::synchronize_cache(0, 0, false),
            transfer: Transfer::None,
        }
    }
}

/// Converts ranges to logical blocks.
struct Blocks<'a>(&'a Facts);

impl Blocks<'_> {
    fn lba(&self, range: &Range) -> u64 {
        range.start / self.0.block_bytes()
    }

    /// The block count of one command: far below 32 bits.
    fn count(&self, range: &Range) -> u32 {
        u32::try_from(range.bytes() / self.0.block_bytes()).unwrap_or(u32::MAX)
    }

    fn each(
        &self,
        range: Range,
        most_bytes: u64,
        mut piece: impl FnMut(Range) -> Piece,
    ) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut start = range.start;
        while start < range.end {
            let part = Range::new(start, most_bytes.min(range.end - start));
            pieces.push(piece(part));
            start = part.end;
        }
        pieces
    }

    fn reads(&self, range: Range) -> Vec<Piece> {
        self.each(range, self.0.transfer_bytes(), |part| Piece {
            range: part,
            cdb: cdb::read(self.lba(&part), self.count(&part), false),
            transfer: Transfer::Read(vec![0; part.bytes() as usize]),
        })
    }

    fn writes(&self, offset_bytes: u64, data: Vec<u8>, fua: bool) -> Vec<Piece> {
        let range = Range::new(offset_bytes, data.len() as u64);
        let most = self.0.transfer_bytes();
        let write = |part: Range, data: Vec<u8>| Piece {
            range: part,
            cdb: cdb::write(self.lba(&part), self.count(&part), fua),
            transfer: Transfer::Write(data),
        };
        if range.bytes() <= most && !range.is_empty() {
            return vec![write(range, data)];
        }
        self.each(range, most, |part| {
            let at = (part.start - range.start) as usize..(part.end - range.start) as usize;
            write(part, data[at].to_vec())
        })
    }

    fn status(&self, range: Range) -> Piece {
        Piece {
            range,
            cdb: cdb::get_lba_status(self.lba(&range), STATUS_BYTES),
            transfer: Transfer::Read(vec![0; STATUS_BYTES as usize]),
        }
    }
}
