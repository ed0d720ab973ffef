//! Choices determined by a seed.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// A source of choices determined by a seed.
#[derive(Debug, Clone)]
pub(crate) struct Random(Pcg64Mcg);

impl Random {
    /// The source of `seed`.
    pub(crate) fn new(seed: u64) -> Random {
        // Similar seeds give different streams only if their bits are spread first.
        let spread = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Random(Pcg64Mcg::seed_from_u64(spread))
    }

    /// Any 64 bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `bound`, which must not be 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.0.next_u64()) * bound as u128) >> 64) as usize
    }

    /// A number from `low` to `high`, inclusive.
    pub(crate) fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    /// True in `parts` of 1000 cases.
    pub(crate) fn per_mille(&mut self, parts: u16) -> bool {
        parts > 0 && self.below(1000) < usize::from(parts)
    }

    /// True in one of `cases` cases.
    pub(crate) fn one_in(&mut self, cases: usize) -> bool {
        self.below(cases) == 0
    }

    /// One of `choices`, which must not be empty.
    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}
