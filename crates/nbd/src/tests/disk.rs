//! A disk in memory that answers requests.

use crate::Extent;
use crate::server::{Command, Reply, Request, Server};
use crate::wire::Errno;

/// What is allocated is known for blocks of this length.
const BLOCK_BYTES: usize = 512;

/// Reads of the last block fail.
pub(super) const BAD_FROM: u64 = (1 << 20) - BLOCK_BYTES as u64;

/// A disk of 1 MiB.
#[derive(Debug, Clone)]
pub(super) struct Disk {
    pub(super) bytes: Vec<u8>,
    is_hole: Vec<bool>,
}

/// An answer that has not been given yet.
#[derive(Debug)]
pub(super) enum Answer {
    Done,
    Data(Vec<u8>),
    Hole,
    Status(Vec<Extent>),
    Failed(Errno),
}

impl Disk {
    pub(super) fn new() -> Self {
        Disk {
            bytes: vec![0; 1 << 20],
            is_hole: vec![true; (1 << 20) / BLOCK_BYTES],
        }
    }

    fn allocate(&mut self, offset_bytes: u64, length_bytes: u64, is_hole: bool) -> &mut [u8] {
        let (start, end) = range(offset_bytes, length_bytes);
        self.is_hole[start / BLOCK_BYTES..end / BLOCK_BYTES].fill(is_hole);
        &mut self.bytes[start..end]
    }

    /// Carries out a command.
    pub(super) fn carry_out(&mut self, command: &Command) -> Answer {
        match command {
            Command::Read {
                offset_bytes,
                length_bytes,
            } => {
                let (start, end) = range(*offset_bytes, u64::from(*length_bytes));
                if end as u64 > BAD_FROM {
                    return Answer::Failed(Errno::Io);
                }
                let blocks = &self.is_hole[start / BLOCK_BYTES..end / BLOCK_BYTES];
                if blocks.iter().all(|is_hole| *is_hole) {
                    return Answer::Hole;
                }
                Answer::Data(self.bytes[start..end].to_vec())
            }
            Command::Write {
                offset_bytes, data, ..
            } => {
                self.allocate(*offset_bytes, data.len() as u64, false)
                    .copy_from_slice(data);
                Answer::Done
            }
            Command::WriteZeroes { fast: true, .. } => Answer::Failed(Errno::NotSup),
            Command::WriteZeroes {
                offset_bytes,
                length_bytes,
                may_unmap: is_hole,
                ..
            } => {
                self.allocate(*offset_bytes, *length_bytes, *is_hole)
                    .fill(0);
                Answer::Done
            }
            Command::Trim {
                offset_bytes,
                length_bytes,
                ..
            } => {
                self.allocate(*offset_bytes, *length_bytes, true).fill(0);
                Answer::Done
            }
            Command::Flush | Command::Cache { .. } => Answer::Done,
            Command::BlockStatus { offset_bytes, .. } => {
                let first = range(*offset_bytes, 0).0 / BLOCK_BYTES;
                let runs = self.is_hole[first..].chunk_by(|one, next| one == next);
                Answer::Status(
                    runs.map(|run| Extent {
                        length_bytes: (run.len() * BLOCK_BYTES) as u64,
                        is_hole: run[0],
                        reads_zero: run[0],
                    })
                    .collect(),
                )
            }
        }
    }
}

fn range(offset_bytes: u64, length_bytes: u64) -> (usize, usize) {
    let end_bytes = offset_bytes + length_bytes;
    (offset_bytes as usize, end_bytes as usize)
}

/// Gives an answer.
pub(super) fn answer(server: &mut Server, request: &Request, answer: &Answer) {
    let reply = match answer {
        Answer::Done => Ok(Reply::Done),
        Answer::Data(data) => Ok(Reply::Data(data)),
        Answer::Hole => Ok(Reply::Hole),
        Answer::Status(extents) => Ok(Reply::Status(extents)),
        Answer::Failed(errno) => Err(*errno),
    };
    server.reply(request.id, reply);
}
