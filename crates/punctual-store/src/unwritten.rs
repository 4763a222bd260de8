//! The items of [pages](crate::pages) that a snapshot has still to write.

/// Indices that were taken when the snapshot began and are not written yet. The snapshot goes through them in ascending order; an item that
/// changes before its turn is written early. One bit an item.
#[derive(Debug)]
pub(crate) struct Unwritten {
    /// Items below this index are written.
    next: u32,
    /// Items from this index on were added after the snapshot began.
    end: u32,
    /// Bit i: item i was written early, or was added after the snapshot began.
    done: Vec<u64>,
}

impl Unwritten {
    /// Starts with all items of pages that end at `end`.
    pub(crate) fn new(end: u32) -> Self {
        Self {
            next: 0,
            end,
            done: vec![0; (end as usize).div_ceil(64)],
        }
    }

    /// Returns whether the item is still to be written, if it exists.
    #[inline]
    pub(crate) fn contains(&self, id: u32) -> bool {
        (self.next..self.end).contains(&id) && self.done[id as usize / 64] >> (id % 64) & 1 == 0
    }

    /// Takes an item out of turn: it was written early, or added.
    #[inline]
    pub(crate) fn remove(&mut self, id: u32) {
        if id < self.end {
            self.done[id as usize / 64] |= 1 << (id % 64);
        }
    }

    /// Takes the next index, and whether its item is still to be written. `None` at the end.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<(u32, bool)> {
        if self.next == self.end {
            return None;
        }
        let id = self.next;
        let unwritten = self.contains(id);
        self.next += 1;
        Some((id, unwritten))
    }
}
