//! A sorted collection of small records with unique keys, for keys that mostly grow: a sequence of
//! pieces of sorted records.
//!
//! Records are added at the end and removed at the start in O(1). Appending fills each piece
//! completely. Any other change moves at most half a piece; a change of the number of pieces also
//! shifts the headers of up to half of the pieces. A seek is a binary search over the pieces and
//! another one in a piece.

use std::collections::VecDeque;

use punctual_rdb::stream::StreamId as Id;

use crate::check::Check;

/// Maximum number of records in a piece.
const PIECE_MAX: usize = 128;

/// A record that contains its key.
pub trait Identified: Copy {
    /// The type of keys.
    type Key: Ord + Copy;
    /// Returns the record's key.
    fn id(&self) -> Self::Key;
}

impl Identified for Id {
    type Key = Self;

    fn id(&self) -> Id {
        *self
    }
}

/// Records in the order of their keys, which are unique.
#[derive(Clone, Debug)]
pub struct Sorted<T> {
    /// No piece is empty.
    pieces: VecDeque<VecDeque<T>>,
    len: usize,
}

impl<T> Default for Sorted<T> {
    fn default() -> Self {
        Self {
            pieces: VecDeque::new(),
            len: 0,
        }
    }
}

impl<T: Identified> Sorted<T> {
    /// Returns the number of records. O(1).
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there are no records.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the first record. O(1).
    pub fn first(&self) -> Option<&T> {
        self.pieces.front()?.front()
    }

    /// Returns the last record. O(1).
    pub fn last(&self) -> Option<&T> {
        self.pieces.back()?.back()
    }

    /// Returns the number of the piece that contains `id`, or into which it would be inserted.
    fn piece_of(&self, id: T::Key) -> usize {
        let ends_before = |piece: &VecDeque<T>| piece.back().is_some_and(|last| last.id() < id);
        // IDs that have just been added, or will be removed next, are at the ends.
        match self.pieces.front() {
            Some(piece) if !ends_before(piece) => 0,
            _ => self.pieces.partition_point(ends_before),
        }
    }

    fn find(&self, id: T::Key) -> Result<(usize, usize), (usize, usize)> {
        let at = self.piece_of(id);
        let Some(piece) = self.pieces.get(at) else {
            return Err((at, 0));
        };
        match piece.binary_search_by_key(&id, Identified::id) {
            Ok(number) => Ok((at, number)),
            Err(number) => Err((at, number)),
        }
    }

    /// Returns the record with `id`. O(log n).
    pub fn get(&self, id: T::Key) -> Option<&T> {
        let (at, number) = self.find(id).ok()?;
        self.pieces.get(at)?.get(number)
    }

    /// Returns the record with `id` for changes, which must not change the ID. O(log n).
    pub fn get_mut(&mut self, id: T::Key) -> Option<&mut T> {
        let (at, number) = self.find(id).ok()?;
        self.pieces.get_mut(at)?.get_mut(number)
    }

    /// Adds a record, or replaces the record with the same ID. Returns the replaced record. O(1)
    /// amortised at the end, otherwise O(log n) and a move of at most half a piece, plus O(pieces)
    /// if a full piece splits.
    pub fn insert(&mut self, record: T) -> Option<T> {
        let id = record.id();
        if self.last().is_none_or(|last| last.id() < id) {
            self.push(record);
            return None;
        }
        match self.find(id) {
            Ok((at, number)) => Some(std::mem::replace(&mut self.pieces[at][number], record)),
            Err((at, number)) => {
                self.len += 1;
                let piece = &mut self.pieces[at];
                if piece.len() < PIECE_MAX {
                    piece.insert(number, record);
                    return None;
                }
                let mut rest = piece.split_off(PIECE_MAX / 2);
                match number.checked_sub(PIECE_MAX / 2) {
                    Some(number) if number > 0 => rest.insert(number, record),
                    _ => piece.insert(number, record),
                }
                self.pieces.insert(at + 1, rest);
                None
            }
        }
    }

    fn push(&mut self, record: T) {
        self.len += 1;
        match self.pieces.back_mut() {
            Some(piece) if piece.len() < PIECE_MAX => piece.push_back(record),
            _ => self.pieces.push_back(VecDeque::from([record])),
        }
    }

    /// Removes the record with `id`. O(1) for the first record, otherwise O(log n) and a move of at
    /// most half a piece, plus O(pieces) if a piece disappears.
    pub fn remove(&mut self, id: T::Key) -> Option<T> {
        let (at, number) = self.find(id).ok()?;
        let piece = &mut self.pieces[at];
        let removed = piece.remove(number)?;
        self.len -= 1;
        let len = piece.len();
        if len == 0 {
            self.pieces.remove(at);
            if self.pieces.is_empty() {
                self.pieces = VecDeque::new();
            }
        } else if at > 0 && len < PIECE_MAX / 4 {
            self.join(at);
        }
        Some(removed)
    }

    /// Joins a piece with the piece before it if the result is at most half full.
    fn join(&mut self, at: usize) {
        if self.pieces[at - 1].len() + self.pieces[at].len() <= PIECE_MAX / 2
            && let Some(mut piece) = self.pieces.remove(at)
        {
            self.pieces[at - 1].append(&mut piece);
        }
    }

    /// Iterates over the records from `start` on. O(log n), then O(1) for each.
    pub fn from(&self, start: T::Key) -> impl Iterator<Item = &T> {
        let (at, number) = match self.find(start) {
            Ok(place) | Err(place) => place,
        };
        let first = self.pieces.get(at).into_iter();
        let first = first.flat_map(move |piece| piece.range(number.min(piece.len())..));
        let rest = self.pieces.range((at + 1).min(self.pieces.len())..);
        first.chain(rest.flatten())
    }

    /// Iterates over all records.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.pieces.iter().flatten()
    }

    /// Checks the order, the number of records and the lengths of the pieces.
    pub(super) fn check(&self, to: &mut Check) {
        to.equal("records", self.len, self.iter().count());
        let ids = || self.iter().map(Identified::id);
        let in_order = ids().zip(ids().skip(1)).all(|(a, b)| a < b);
        to.holds("records are in order", in_order);
        let lengths = 1..=PIECE_MAX;
        let fit = self
            .pieces
            .iter()
            .all(|piece| lengths.contains(&piece.len()));
        to.holds("no piece is empty or too long", fit);
    }

    /// Returns the allocated bytes. O(pieces).
    pub fn heap_bytes(&self) -> usize {
        let records: usize = self.pieces.iter().map(VecDeque::capacity).sum();
        records * size_of::<T>() + self.pieces.capacity() * size_of::<VecDeque<T>>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behaves_as_a_set(steps in proptest::collection::vec((0..6u8, 0..700u64), 1..3000)) {
            let (mut sorted, mut model, mut next) = (Sorted::default(), BTreeSet::new(), 0);
            for (kind, pick) in steps {
                let id = Id::new(pick, 7);
                match kind {
                    0 | 1 => {
                        next += 1;
                        let id = Id::new(700 + next, 0);
                        prop_assert!(sorted.insert(id).is_none());
                        model.insert(id);
                    }
                    2 => prop_assert_eq!(sorted.insert(id).is_none(), model.insert(id)),
                    3 => {
                        let first = model.pop_first();
                        prop_assert_eq!(sorted.first().copied(), first);
                        if let Some(first) = first {
                            sorted.remove(first);
                        }
                    }
                    4 => prop_assert!(sorted.from(id).take(5).eq(model.range(id..).take(5))),
                    _ => prop_assert_eq!(sorted.remove(id).is_some(), model.remove(&id)),
                }
                prop_assert_eq!(sorted.len(), model.len());
                prop_assert_eq!(sorted.get(id).is_some(), model.contains(&id));
                prop_assert_eq!(sorted.last(), model.last());
            }
            prop_assert!(sorted.iter().eq(model.iter()));
            let mut found = Check::default();
            sorted.check(&mut found);
            found.assert_none();
        }
    }
}
