//! One kind's records in bounded memory.

mod block;
mod merge;
mod predict;
mod supply;
mod words;

#[cfg(test)]
mod tests;

pub(crate) use block::BLOCK_BYTES;
use block::Block;
pub(crate) use merge::by_time;
pub(crate) use predict::GROUPS;
use predict::Predictor;
pub use supply::Budget;
pub(crate) use supply::Supply;
pub(crate) use words::Words;

/// Records of one kind in order of arrival, in blocks that never move.
#[derive(Debug)]
pub struct Log<T: Words> {
    enabled: bool,
    full: Vec<Block<T>>,
    open: Option<Block<T>>,
    /// Predicts the next record of the open block.
    predictor: Box<Predictor<T>>,
    /// The last record, for kinds whose last record may still grow.
    growing: Option<T>,
    dropped: u64,
}

impl<T: Words> Log<T> {
    pub(crate) fn new(enabled: bool) -> Self {
        Log {
            enabled,
            full: Vec::new(),
            open: None,
            predictor: Box::new(Predictor::new()),
            growing: None,
            dropped: 0,
        }
    }

    /// Adds a record, or counts it as dropped if memory is exhausted.
    #[inline(always)]
    pub(crate) fn push(&mut self, supply: &mut Supply, record: &T) {
        if !self.enabled {
            return;
        }
        let predictor = &mut *self.predictor;
        let mut push = |open: &mut Block<T>| open.push(predictor, record);
        let kept = self.open.as_mut().is_some_and(&mut push);
        if !kept {
            self.push_to_next(supply, record);
        }
    }

    /// Adds a record that may still grow. `finish` lets the last one absorb it, or returns the last one as it is.
    #[inline(always)]
    pub(crate) fn grow(
        &mut self,
        supply: &mut Supply,
        record: T,
        finish: impl FnOnce(&mut T) -> Option<T>,
    ) {
        if !self.enabled {
            return;
        }
        if let Some(last) = &mut self.growing {
            let Some(last) = finish(last) else { return };
            self.push(supply, &last);
        }
        self.growing = Some(record);
    }

    #[cold]
    fn push_to_next(&mut self, supply: &mut Supply, record: &T) {
        let Some(memory) = supply.take() else {
            self.dropped += record.unfold().count() as u64;
            return;
        };
        let mut next = Block::new(memory);
        *self.predictor = Predictor::new();
        next.push(&mut self.predictor, record);
        self.full.extend(self.open.replace(next));
    }

    fn blocks(&self) -> impl Iterator<Item = &Block<T>> {
        self.full.iter().chain(&self.open)
    }

    /// The records in order of arrival.
    pub fn iter(&self) -> impl Iterator<Item = T> {
        self.blocks().flat_map(Block::iter).chain(self.growing)
    }

    /// Number of records kept.
    #[must_use]
    pub fn len(&self) -> usize {
        let in_blocks: usize = self.blocks().map(Block::len).sum();
        in_blocks + usize::from(self.growing.is_some())
    }

    /// Whether no record is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether records of this kind are kept at all.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.enabled
    }

    /// Records dropped because the recorder's memory was exhausted.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}
