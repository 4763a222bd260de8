//! Trims: removal of the oldest entries.

use super::{Id, Stream};

/// The entries that a trim keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// At most this number of entries, the newest.
    Len(u64),
    /// Entries with this ID or a greater one.
    MinId(Id),
}

/// A trim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trim {
    /// The entries to keep.
    pub bound: Bound,
    /// Removes only whole blocks.
    pub approximate: bool,
    /// Maximum number of entries to remove; 0 for no limit.
    pub limit: u64,
}

impl Stream {
    /// Removes the oldest entries. Returns their number. O(removed blocks + entries of a block).
    pub fn trim(&mut self, trim: Trim) -> u64 {
        let mut removed = 0;
        while let Some(block) = self.blocks.front() {
            let live = block.live() as u64;
            let goes = match trim.bound {
                Bound::Len(max) if self.totals.length <= max => break,
                Bound::Len(max) => self.totals.length - live >= max,
                Bound::MinId(id) => block.last_id() < id,
            };
            if trim.limit > 0 && removed + live > trim.limit {
                break;
            }
            if goes {
                self.remove_block(0);
                self.totals.length -= live;
                removed += live;
                continue;
            }
            if !trim.approximate {
                removed += self.trim_first_block(trim.bound);
            }
            break;
        }
        if removed > 0 {
            self.renew_first_id();
        }
        removed
    }

    /// Deletes the entries of the first block that are outside of the bound. Returns their number.
    fn trim_first_block(&mut self, bound: Bound) -> u64 {
        self.before_change(0);
        let Some(block) = self.blocks.front_mut() else {
            return 0;
        };
        let len = self.totals.length;
        let leaves = |(number, id): (u64, Id)| match bound {
            Bound::Len(max) => len - number > max,
            Bound::MinId(min) => id < min,
        };
        let live = block.entries().filter(|entry| !entry.deleted);
        let places: Vec<usize> = (0u64..)
            .zip(live)
            .take_while(|(number, entry)| leaves((*number, entry.id)))
            .map(|(_, entry)| entry.at)
            .collect();
        for at in &places {
            block.delete(*at);
        }
        if block.live() == 0 {
            self.remove_block(0);
        }
        self.totals.length -= places.len() as u64;
        places.len() as u64
    }
}
