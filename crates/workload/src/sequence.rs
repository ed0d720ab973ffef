//! The load generator's workload: a seeded sequence of I/Os.

use std::sync::Arc;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

use crate::load::LoadConfig;

/// Reads, writes or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// Reads only.
    Read,
    /// Writes only.
    Write,
    /// Seven reads to three writes, drawn at random.
    Mix,
}

/// The positions of the I/Os.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// One block after another, from 0, wrapping at the end.
    Sequential,
    /// Uniformly random over the whole LUN.
    Random,
}

/// One I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// A write, or else a read.
    pub write: bool,
    /// The piece of the LUN, in units of the workload's block size, from 0.
    pub piece: u64,
    /// Length in bytes; the I/O starts at the beginning of the piece.
    pub bytes: u32,
}

/// A recorded I/O: direction and length, without position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listed {
    /// A write, or else a read.
    pub write: bool,
    /// Its length in bytes.
    pub bytes: u32,
}

/// Seven of ten I/Os of [`Operation::Mix`] are reads.
const MIX_READS_OF_TEN: u64 = 7;

/// A seeded sequence of I/Os: the same seed gives the same sequence.
#[derive(Debug)]
pub struct Workload {
    operation: Operation,
    pattern: Pattern,
    pieces: u64,
    block_bytes: u32,
    /// I/Os to submit cyclically instead of those given by operation and block size; empty for none.
    listed: Arc<[Listed]>,
    turn: usize,
    next: u64,
    random: Pcg64Mcg,
}

impl Workload {
    /// A workload over `pieces` pieces (at least 1).
    #[must_use]
    pub fn new(config: &LoadConfig, pieces: u64) -> Self {
        Workload {
            operation: config.operation,
            pattern: config.pattern,
            pieces,
            block_bytes: config.block_bytes,
            listed: config.listed.clone(),
            turn: 0,
            next: 0,
            random: Pcg64Mcg::seed_from_u64(config.seed),
        }
    }

    /// The next I/O.
    pub fn next_request(&mut self) -> Request {
        let Listed { write, bytes } = self.next_listed().unwrap_or_else(|| Listed {
            write: match self.operation {
                Operation::Read => false,
                Operation::Write => true,
                Operation::Mix => self.below(10) >= MIX_READS_OF_TEN,
            },
            bytes: self.block_bytes,
        });
        let piece = match self.pattern {
            Pattern::Sequential => {
                let piece = self.next;
                self.next = (self.next + 1) % self.pieces;
                piece
            }
            Pattern::Random => self.below(self.pieces),
        };
        Request {
            write,
            piece,
            bytes,
        }
    }

    fn next_listed(&mut self) -> Option<Listed> {
        let listed = self.listed.get(self.turn).copied();
        self.turn = (self.turn + 1) % self.listed.len().max(1);
        listed
    }

    /// Uniform in `0..bound`: the high half of a 128-bit product (Lemire 2019), with a bias below 2^-32 for any LUN of
    /// less than 2^32 pieces.
    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.random.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::tests::config;

    fn workload(operation: Operation, pattern: Pattern, pieces: u64, seed: u64) -> Workload {
        let config = LoadConfig {
            operation,
            pattern,
            seed,
            ..config()
        };
        Workload::new(&config, pieces)
    }

    #[test]
    fn sequential_wraps() {
        let mut workload = workload(Operation::Read, Pattern::Sequential, 3, 0);
        let pieces: Vec<u64> = (0..5).map(|_| workload.next_request().piece).collect();
        assert_eq!(pieces, [0, 1, 2, 0, 1]);
    }

    #[test]
    fn random_is_seeded_and_reaches_every_piece() {
        let draw = |seed| {
            let mut workload = workload(Operation::Mix, Pattern::Random, 16, seed);
            (0..1000)
                .map(|_| workload.next_request())
                .collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        let drawn = draw(3);
        assert!((0..16).all(|piece| drawn.iter().any(|request| request.piece == piece)));
        let writes = drawn.iter().filter(|request| request.write).count();
        assert!((200..400).contains(&writes), "{writes}");
    }

    #[test]
    fn listed_ios_come_in_turn() {
        let [read, write] =
            [(false, 512), (true, 1024)].map(|(write, bytes)| Listed { write, bytes });
        let config = LoadConfig {
            listed: [read, write, write].into(),
            ..config()
        };
        let mut workload = Workload::new(&config, 8);
        let asked: Vec<Listed> = (0..4)
            .map(|_| workload.next_request())
            .map(|request| Listed {
                write: request.write,
                bytes: request.bytes,
            })
            .collect();
        assert_eq!(asked, [read, write, write, read]);
    }
}
