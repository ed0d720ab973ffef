//! The load generator's workload: a seeded sequence of I/Os.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

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

/// Where the I/Os go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// One block after the other, from 0, wrapping at the end.
    Sequential,
    /// Blocks drawn evenly from the whole LUN.
    Random,
}

/// One I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// A write, else a read.
    pub write: bool,
    /// Which of the LUN's pieces of the workload's block size, from 0.
    pub piece: u64,
}

/// Seven of ten I/Os of [`Operation::Mix`] are reads.
const MIX_READS_OF_TEN: u64 = 7;

/// A seeded sequence of I/Os: the same seed gives the same sequence.
#[derive(Debug)]
pub struct Workload {
    operation: Operation,
    pattern: Pattern,
    pieces: u64,
    next: u64,
    random: Pcg64Mcg,
}

impl Workload {
    /// A workload over `pieces` pieces (at least 1).
    #[must_use]
    pub fn new(operation: Operation, pattern: Pattern, pieces: u64, seed: u64) -> Self {
        Workload {
            operation,
            pattern,
            pieces,
            next: 0,
            random: Pcg64Mcg::seed_from_u64(seed),
        }
    }

    /// The next I/O.
    pub fn next_request(&mut self) -> Request {
        let write = match self.operation {
            Operation::Read => false,
            Operation::Write => true,
            Operation::Mix => self.below(10) >= MIX_READS_OF_TEN,
        };
        let piece = match self.pattern {
            Pattern::Sequential => {
                let piece = self.next;
                self.next = (self.next + 1) % self.pieces;
                piece
            }
            Pattern::Random => self.below(self.pieces),
        };
        Request { write, piece }
    }

    /// Evenly from `0..bound`: the high half of a 128-bit product (Lemire 2019), whose bias is
    /// below 2^-32 for any LUN of less than 2^32 pieces.
    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.random.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequential_wraps() {
        let mut workload = Workload::new(Operation::Read, Pattern::Sequential, 3, 0);
        let pieces: Vec<u64> = (0..5).map(|_| workload.next_request().piece).collect();
        assert_eq!(pieces, [0, 1, 2, 0, 1]);
    }

    #[test]
    fn random_is_seeded_and_reaches_every_piece() {
        let draw = |seed| {
            let mut workload = Workload::new(Operation::Mix, Pattern::Random, 16, seed);
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
}
