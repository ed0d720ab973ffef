//! A list that grows without moving its items.

use std::iter::Flatten;
use std::ops::{Index, IndexMut};
use std::slice;

/// Items per piece. The first piece grows as needed, as most connections are short.
const PIECE: usize = 1024;

/// Items in order, in pieces of which all but the last are full.
#[derive(Debug)]
pub(super) struct Pieces<T>(Vec<Vec<T>>);

impl<T> Default for Pieces<T> {
    fn default() -> Pieces<T> {
        Pieces(Vec::new())
    }
}

impl<T> Pieces<T> {
    pub(super) fn push(&mut self, item: T) {
        match self.0.last_mut() {
            Some(last) if last.len() < PIECE => last.push(item),
            Some(_) => {
                let mut next = Vec::with_capacity(PIECE);
                next.push(item);
                self.0.push(next);
            }
            None => self.0.push(vec![item]),
        }
    }

    pub(super) fn len(&self) -> usize {
        match &self.0[..] {
            [] => 0,
            [full @ .., last] => full.len() * PIECE + last.len(),
        }
    }

    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        self.0.get_mut(at / PIECE)?.get_mut(at % PIECE)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        IntoIterator::into_iter(self)
    }

    pub(super) fn into_iter(self) -> impl Iterator<Item = T> {
        self.0.into_iter().flatten()
    }
}

impl<T> Index<usize> for Pieces<T> {
    type Output = T;

    fn index(&self, at: usize) -> &T {
        &self.0[at / PIECE][at % PIECE]
    }
}

impl<T> IndexMut<usize> for Pieces<T> {
    fn index_mut(&mut self, at: usize) -> &mut T {
        &mut self.0[at / PIECE][at % PIECE]
    }
}

impl<'a, T> IntoIterator for &'a Pieces<T> {
    type Item = &'a T;
    type IntoIter = Flatten<slice::Iter<'a, Vec<T>>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter().flatten()
    }
}

impl<T> Extend<T> for Pieces<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        items.into_iter().for_each(|item| self.push(item));
    }
}

impl<T> FromIterator<T> for Pieces<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Pieces<T> {
        let mut pieces = Pieces::default();
        pieces.extend(items);
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_where_they_were_put() {
        const COUNT: usize = 2 * PIECE + 3;
        let mut pieces: Pieces<usize> = (0..COUNT).collect();
        assert_eq!(pieces.len(), COUNT);
        pieces[PIECE] += 1;
        assert_eq!(pieces.get_mut(COUNT), None);
        let items: Vec<usize> = pieces.iter().copied().collect();
        assert_eq!((items[PIECE - 1], items[PIECE]), (PIECE - 1, PIECE + 1));
        assert!(pieces.into_iter().eq(items));
    }
}
