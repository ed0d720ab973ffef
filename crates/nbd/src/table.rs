//! Open requests.

/// Values by keys that are never given twice while anybody may still use the first.
///
/// A key names a slot, and how many values the table has had: whoever holds a key of a value that was removed does not
/// find the next one in its slot.
#[derive(Debug)]
pub(crate) struct Table<T> {
    slots: Vec<Option<(u64, T)>>,
    /// Empty slots.
    free: Vec<u32>,
    inserted: u32,
}

impl<T> Table<T> {
    pub(crate) fn new() -> Self {
        Table {
            slots: Vec::new(),
            free: Vec::new(),
            inserted: 0,
        }
    }

    /// Keeps a value, and returns its key.
    pub(crate) fn insert(&mut self, value: T) -> u64 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as u32
        });
        let key = u64::from(self.inserted) << 32 | u64::from(slot);
        self.inserted = self.inserted.wrapping_add(1);
        self.slots[slot as usize] = Some((key, value));
        key
    }

    /// The value with that key.
    pub(crate) fn get_mut(&mut self, key: u64) -> Option<&mut T> {
        let (found, value) = self.slots.get_mut(slot(key))?.as_mut()?;
        (*found == key).then_some(value)
    }

    /// Removes the value with that key.
    pub(crate) fn remove(&mut self, key: u64) -> Option<T> {
        let place = self.slots.get_mut(slot(key))?;
        let (_, value) = place.take_if(|(found, _)| *found == key)?;
        self.free.push(slot(key) as u32);
        Some(value)
    }

    /// How many values there are.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

/// Where a key's value is.
const fn slot(key: u64) -> usize {
    key as u32 as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_keys_find_nothing() {
        let mut table = Table::new();
        let first = table.insert('a');
        let second = table.insert('b');
        assert_eq!(table.remove(first), Some('a'));
        assert_eq!(table.remove(first), None);
        let third = table.insert('c');
        assert_eq!(table.get_mut(first), None);
        assert_eq!(table.get_mut(second), Some(&mut 'b'));
        assert_eq!(table.get_mut(third), Some(&mut 'c'));
        assert_eq!(table.get_mut(u64::MAX), None);
        assert_eq!(table.len(), 2);
        assert_eq!(table.slots.len(), 2);
    }
}
