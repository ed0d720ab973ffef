//! A table with keys that are not reused.

/// Identifies an entry of a [`Table`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    place: u32,
    /// Number of earlier entries at this index, modulo 2^30.
    generation: u32,
}

const GENERATION_MASK: u32 = (1 << 30) - 1;

impl Key {
    /// The index.
    pub(crate) fn place(self) -> usize {
        self.place as usize
    }

    /// As a 62-bit number.
    pub(crate) fn number(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.place)
    }

    /// The key of that number.
    pub(crate) fn from_number(number: u64) -> Key {
        Key {
            place: number as u32,
            generation: (number >> 32) as u32,
        }
    }
}

#[derive(Debug)]
struct Place<T> {
    generation: u32,
    thing: Option<Box<T>>,
}

/// Entries by key. An index is reused; an old key finds nothing there.
#[derive(Debug)]
pub(crate) struct Table<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Table {
            places: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Table<T> {
    /// Adds an entry.
    ///
    /// # Panics
    /// With 2^32 entries.
    pub(crate) fn insert(&mut self, thing: T) -> Key {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place {
                generation: 0,
                thing: None,
            });
            u32::try_from(self.places.len() - 1).expect("fewer than 2^32 descriptors")
        });
        let slot = &mut self.places[place as usize];
        slot.thing = Some(Box::new(thing));
        Key {
            place,
            generation: slot.generation,
        }
    }

    /// The entry with that key, if it still exists.
    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        let place = self.places.get(key.place as usize)?;
        let is_it = place.generation == key.generation;
        place.thing.as_deref().filter(|_| is_it)
    }

    /// The same, mutable.
    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let place = self.places.get_mut(key.place as usize)?;
        let is_it = place.generation == key.generation;
        place.thing.as_deref_mut().filter(|_| is_it)
    }

    /// Removes an entry.
    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        self.get_mut(key)?;
        let place = &mut self.places[key.place as usize];
        place.generation = (place.generation + 1) & GENERATION_MASK;
        self.free.push(key.place);
        place.thing.take().map(|thing| *thing)
    }

    /// All entries, mutable.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        let things = self.places.iter_mut();
        things.filter_map(|place| place.thing.as_deref_mut())
    }

    /// The first entry at that index or later.
    pub(crate) fn next(&self, place: usize) -> Option<(Key, &T)> {
        self.from(place).next()
    }

    fn from(&self, place: usize) -> impl Iterator<Item = (Key, &T)> {
        let slots = self.places.get(place..).unwrap_or_default();
        (place as u32..).zip(slots).filter_map(|(place, slot)| {
            let key = Key {
                place,
                generation: slot.generation,
            };
            slot.thing.as_deref().map(|thing| (key, thing))
        })
    }

    /// Whether it is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.free.len() == self.places.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_key_finds_nothing() {
        let mut table = Table::default();
        let first = table.insert('a');
        assert_eq!(table.remove(first), Some('a'));
        let second = table.insert('b');
        assert_eq!(table.get_mut(first), None);
        assert_eq!(table.get(first), None);
        assert_eq!(table.get(second), Some(&'b'));
        assert_eq!(table.remove(first), None);
        assert_eq!(table.get_mut(second), Some(&mut 'b'));
        assert_eq!(Key::from_number(second.number()), second);
        assert!(table.from(0).map(|(key, _)| key).eq([second]));
        table.remove(second);
        assert!(table.is_empty());
    }

    #[test]
    fn one_after_the_other_is_all_things() {
        let mut table = Table::default();
        let keys: Vec<Key> = (0..5).map(|number| table.insert(number)).collect();
        table.remove(keys[0]);
        table.remove(keys[3]);
        let mut place = 0;
        let mut numbers = Vec::new();
        while let Some((key, number)) = table.next(place) {
            place = key.place() + 1;
            numbers.push(*number);
        }
        assert_eq!(numbers, [1, 2, 4]);
    }
}
