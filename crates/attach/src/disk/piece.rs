//! SCSI commands of an operation of a disk.

use wansan_cache::{Action, Failure, Range};
use wansan_iscsi::initiator::{Command, Transfer};
use wansan_iscsi::scsi::{Cdb, cdb};
use wansan_iscsi::wire::{Lun, TaskAttribute};

use super::facts::Facts;

/// Room for the runs of one GET LBA STATUS: its header and 256 of them.
const STATUS_BYTES: u32 = 8 + 256 * 16;

/// One command of an operation.
#[derive(Debug)]
pub(super) struct Piece {
    /// The part of the disk that it is about.
    pub(super) range: Range,
    pub(super) cdb: Cdb,
    pub(super) transfer: Transfer,
}

/// What an operation is made of.
#[derive(Debug)]
pub(super) struct Pieces {
    pub(super) pieces: Vec<Piece>,
    /// Whether a flush follows, which makes up for FUA.
    pub(super) then_flush: bool,
}

/// A command as the session takes it.
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
    /// The commands of an operation; none when there is nothing to do.
    pub(super) fn of(action: Action, facts: &Facts) -> Result<Pieces, Failure> {
        let blocks = Blocks(facts);
        let pieces = match action {
            Action::Read { range } => blocks.reads(range),
            Action::Write {
                offset_bytes,
                data,
                fua,
            } => {
                let obeys = fua && facts.modes.has_fua;
                return Ok(Pieces {
                    pieces: blocks.writes(offset_bytes, data, obeys),
                    then_flush: fua && !obeys && facts.modes.has_write_cache,
                });
            }
            Action::Flush if !facts.modes.has_write_cache => Vec::new(),
            Action::Flush => vec![Piece::flush()],
            Action::Trim { range, .. } => {
                match (facts.unmaps(), facts.provisioning.by_write_same) {
                    (true, _) => blocks.unmaps(range),
                    (false, true) => blocks.zeros(range, true),
                    (false, false) => return Err(Failure::NotSupported),
                }
            }
            Action::Zero {
                range, may_unmap, ..
            } => blocks.zeros(range, may_unmap && facts.provisioning.by_write_same),
            Action::Status { range, .. } => vec![blocks.status(range)],
            Action::Prefetch { .. } => Vec::new(),
        };
        Ok(Pieces {
            pieces,
            then_flush: false,
        })
    }

    /// Zeros for a disk that has no WRITE SAME.
    pub(super) fn of_zeros(range: Range, facts: &Facts) -> Vec<Piece> {
        let data = vec![0; range.bytes() as usize];
        Blocks(facts).writes(range.start, data, false)
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

/// Ranges in blocks of a disk.
struct Blocks<'a>(&'a Facts);

impl Blocks<'_> {
    fn lba(&self, range: &Range) -> u64 {
        range.start / self.0.block_bytes()
    }

    /// As many as one command is about: far fewer than 32 bits count.
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

    fn unmaps(&self, range: Range) -> Vec<Piece> {
        self.each(range, self.0.unmap_bytes(), |part| Piece {
            range: part,
            cdb: cdb::unmap(),
            transfer: Transfer::Write(cdb::unmap_list(self.lba(&part), self.count(&part))),
        })
    }

    fn zeros(&self, range: Range, unmap: bool) -> Vec<Piece> {
        self.each(range, self.0.write_same_bytes(), |part| Piece {
            range: part,
            cdb: cdb::write_same_16(self.lba(&part), self.count(&part), unmap),
            transfer: Transfer::Write(vec![0; self.0.block_bytes() as usize]),
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
