//! Loss of listed packets.

use std::sync::Arc;

/// An invalid list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ListedError {
    /// Packets are numbered from 1.
    #[error("the list of lost packets names packet 0: packets are numbered from 1")]
    Zero,
    /// The list is too long.
    #[error("the list of lost packets has {0} entries, more than {max}", max = Listed::MAX_PACKETS)]
    TooMany(usize),
}

/// The packets with these numbers are lost. The first packet at the element is number 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed(Arc<[u64]>);

impl Listed {
    /// Most numbers in a list.
    pub const MAX_PACKETS: usize = 1 << 20;

    /// A list in any order; duplicates count once.
    ///
    /// # Errors
    /// [`ListedError`] when it contains 0 or more than [`Listed::MAX_PACKETS`] numbers.
    pub fn new(mut numbers: Vec<u64>) -> Result<Self, ListedError> {
        if numbers.len() > Listed::MAX_PACKETS {
            return Err(ListedError::TooMany(numbers.len()));
        }
        if numbers.contains(&0) {
            return Err(ListedError::Zero);
        }
        numbers.sort_unstable();
        numbers.dedup();
        Ok(Listed(numbers.into()))
    }

    /// The numbers, in order, each once.
    #[must_use]
    pub fn numbers(&self) -> &[u64] {
        &self.0
    }

    pub(super) fn contains(&self, number: u64) -> bool {
        self.0.binary_search(&number).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::{Loss, LossModel};

    #[test]
    fn drops_those_and_no_others() {
        let list = Listed::new(vec![500, 10, 11, 10]).unwrap();
        let mut loss = Loss::new(LossModel::Listed(list), 0);
        let lost: Vec<u64> = (1..=1_000).filter(|_| loss.drops()).collect();
        assert_eq!(lost, [10, 11, 500]);
    }

    #[test]
    fn packets_count_from_one() {
        assert_eq!(Listed::new(vec![3, 0]), Err(ListedError::Zero));
        let many = vec![1; Listed::MAX_PACKETS + 1];
        assert!(matches!(Listed::new(many), Err(ListedError::TooMany(_))));
    }
}
