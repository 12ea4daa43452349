//! Table of objects with deterministic indices.
//!
//! Equal sequences of calls assign equal indices, so a replay gives the program equal handles.

use std::collections::BTreeSet;

/// Objects by index; the lowest freed index is reused first.
#[derive(Clone, Debug, bincode::Encode, bincode::Decode)]
pub struct Slots<T> {
    entries: Vec<Option<T>>,
    free: BTreeSet<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Slots::NONE
    }
}

impl<T> Slots<T> {
    pub const NONE: Slots<T> = Slots {
        entries: Vec::new(),
        free: BTreeSet::new(),
    };

    /// Adds an object and returns its index.
    pub fn insert(&mut self, object: T) -> u32 {
        match self.free.pop_first() {
            Some(index) => {
                self.entries[index as usize] = Some(object);
                index
            }
            None => {
                self.entries.push(Some(object));
                self.entries.len() as u32 - 1
            }
        }
    }

    /// Returns the object with this index.
    pub fn get(&self, index: u32) -> Option<&T> {
        self.entries.get(index as usize)?.as_ref()
    }

    /// Returns the object with this index, to change it.
    pub fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.entries.get_mut(index as usize)?.as_mut()
    }

    /// Removes the object; its index may be reused.
    pub fn remove(&mut self, index: u32) -> Option<T> {
        let object = self.entries.get_mut(index as usize)?.take()?;
        self.free.insert(index);
        Some(object)
    }

    /// Iterates over all objects in the order of their indices.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.entries
            .iter()
            .enumerate()
            .filter_map(|(index, entry)| Some((index as u32, entry.as_ref()?)))
    }

    /// Iterates over all objects in the order of their indices, to change them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        self.entries
            .iter_mut()
            .enumerate()
            .filter_map(|(index, entry)| Some((index as u32, entry.as_mut()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::Slots;

    #[test]
    fn freed_indices_are_reused_lowest_first() {
        let mut slots = Slots::default();
        assert_eq!(
            (0..4).map(|value| slots.insert(value)).collect::<Vec<_>>(),
            [0, 1, 2, 3]
        );
        assert_eq!(
            (slots.remove(2), slots.remove(0), slots.remove(0)),
            (Some(2), Some(0), None)
        );
        assert_eq!(
            (slots.insert(7), slots.insert(8), slots.insert(9)),
            (0, 2, 4)
        );
        assert_eq!(
            slots
                .iter()
                .map(|(index, &value)| (index, value))
                .collect::<Vec<_>>(),
            [(0, 7), (1, 1), (2, 8), (3, 3), (4, 9)]
        );
    }
}
