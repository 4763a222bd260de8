//! The form of large sorted sets, which OBJECT ENCODING calls `skiplist`: entries by name, and a B+
//! tree with their order. A slot of the tree holds an *ordinal*, a number with the order of the
//! score, and the entry's index. A *split* is a function that returns the number of slots before a
//! position; see [`tree`](crate::tree).

use std::collections::BTreeSet;
use std::ops::Range;

use smallvec::SmallVec;

use super::range::{LexRange, ScoreRange};
use super::{Scores, WARM_SCORES};
use crate::check::Check;
use crate::hash_table::{Hash, WARM_MAX};
use crate::tree::{Slot, Tree, TreeSlot as _, Walk, count_before};
use crate::value::deadlines::NO_SLOT;
use crate::value::keyed::{Element as _, Keyed, hash_of, timed_element};
use crate::value::text::Text;

/// A name and its score.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) score: f64,
    hash: u32,
    slot: u32,
    name: Text,
}

const _: () = assert!(size_of::<Option<Entry>>() == 40);

timed_element!(Entry, name);

/// The entries of a sorted set. Invariant: `order` has one slot for each entry, with the entry's
/// index in `entries` and the ordinal of its score.
#[derive(Clone, Default)]
pub(super) struct Table {
    entries: Keyed<Entry>,
    order: Tree<Slot>,
}

/// Maps a score to its ordinal: numbers with the same order as scores. -0 and 0 have the same
/// ordinal.
#[inline]
fn ordinal(score: f64) -> u64 {
    debug_assert!(!score.is_nan());
    let bits = (score + 0.0).to_bits();
    if bits >> 63 == 1 {
        !bits
    } else {
        bits | 1 << 63
    }
}

/// Returns the number of slots with this ordinal and a smaller name. The slots with this ordinal
/// are the first of `slots`.
#[inline]
fn smaller_names(entries: &Keyed<Entry>, slots: &[Slot], ordinal: u64, name: &[u8]) -> usize {
    let equal = match slots {
        [_, second, ..] if second.ordinal() == ordinal => {
            slots.partition_point(|slot| slot.ordinal() == ordinal)
        }
        _ => slots.len().min(1),
    };
    slots[..equal].partition_point(|slot| entries.get(slot.id).name() < name)
}

/// Returns a split at the position where a new name with this ordinal belongs. Compares names only
/// if ordinals are equal.
#[inline]
fn at_gap<'a>(
    entries: &'a Keyed<Entry>,
    ordinal: u64,
    name: &'a [u8],
) -> impl Fn(&[Slot]) -> usize + 'a {
    move |slots| {
        let start = count_before(slots, |other: Slot| other.ordinal() < ordinal);
        match slots.get(start) {
            Some(slot) if slot.ordinal() == ordinal => {
                start + smaller_names(entries, &slots[start..], ordinal, name)
            }
            _ => start,
        }
    }
}

/// Returns a split before an existing entry, or after it if `through`. In a leaf, the split
/// compares indices; in an inner node, it compares names of equal ordinals.
#[inline]
fn at_entry(
    entries: &Keyed<Entry>,
    id: u32,
    ordinal: u64,
    through: bool,
) -> impl Fn(&[Slot]) -> usize {
    move |slots| {
        let start = count_before(slots, |other: Slot| other.ordinal() < ordinal);
        let rest = &slots[start..];
        let mut run = rest.iter().take_while(|slot| slot.ordinal() == ordinal);
        match run.position(|slot| slot.id == id) {
            Some(at) => start + at + usize::from(through),
            None if rest.first().is_some_and(|slot| slot.ordinal() == ordinal) => {
                start + smaller_names(entries, rest, ordinal, entries.get(id).name())
            }
            None => start,
        }
    }
}

/// Returns a split before the entries of a score, or after them if `through`.
#[inline]
fn at_score(score: f64, through: bool) -> impl Fn(&[Slot]) -> usize {
    let ordinal = ordinal(score);
    move |slots| {
        if through {
            count_before(slots, |other: Slot| other.ordinal() <= ordinal)
        } else {
            count_before(slots, |other: Slot| other.ordinal() < ordinal)
        }
    }
}

impl Table {
    /// Creates a table. Returns `None` for a duplicate name. O(n log n), O(n) if the pairs are in
    /// order.
    pub(super) fn from_pairs(mut pairs: Vec<(Text, f64)>) -> Option<Self> {
        pairs.sort_by(|(a, x), (b, y)| {
            let names = || a.as_bytes().cmp(b.as_bytes());
            ordinal(*x).cmp(&ordinal(*y)).then_with(names)
        });
        let mut entries = Keyed::default();
        let mut slots = Vec::with_capacity(pairs.len());
        for (name, score) in pairs {
            let hash = hash_of(name.as_bytes());
            if entries.find(hash, name.as_bytes()).is_some() {
                return None;
            }
            let entry = Entry {
                score,
                hash: hash.place,
                slot: NO_SLOT,
                name,
            };
            slots.push(Slot::new(ordinal(score), entries.insert(hash, entry)));
        }
        Some(Self {
            entries,
            order: Tree::from_sorted(&slots),
        })
    }

    /// Checks that the tree has each entry once, in order.
    pub(super) fn check(&self, to: &mut Check) {
        self.entries.check(to);
        self.order.check(to);
        to.equal("slots of the tree", self.order.len(), self.entries.len());
        let slots = || self.order.walk(0..self.order.len(), false);
        let ids: BTreeSet<u32> = self.entries.iter().map(|(id, _)| id).collect();
        if !slots().all(|slot| ids.contains(&slot.id)) {
            return to.holds("the tree has only entries of the set", false);
        }
        let names = |slot: Slot| self.entries.get(slot.id).name();
        let fits = |slot: Slot| ordinal(self.entries.get(slot.id).score) == slot.ordinal();
        to.holds("the tree has the scores", slots().all(fits));
        let in_order =
            slots().is_sorted_by(|a, b| (a.ordinal(), names(*a)) < (b.ordinal(), names(*b)));
        to.holds("the tree is in order, and has no entry twice", in_order);
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn entries(&self) -> &Keyed<Entry> {
        &self.entries
    }

    /// Returns the entries for a snapshot's walk, and for changes of their deadlines.
    pub(super) fn entries_mut(&mut self) -> &mut Keyed<Entry> {
        &mut self.entries
    }

    /// Loads the cache lines that lookups of these names need. With `scores`, also loads the lines
    /// for tree searches of the names' current scores and of `scores`. Changes nothing.
    pub(super) fn warm(&self, names: &[&[u8]], scores: Option<&Scores>) {
        let hashes: SmallVec<[Hash; WARM_MAX]> = names.iter().map(|name| hash_of(name)).collect();
        let found = self.entries.warm(&hashes);
        let Some(scores) = scores else {
            return;
        };
        let scores = scores.iter().copied().chain(found.map(|entry| entry.score));
        let ordinals: SmallVec<[u64; WARM_SCORES]> = scores.map(ordinal).collect();
        // A search compares names if scores are equal, so it also needs the names' lines.
        let mut sum = 0;
        self.order.warm(&ordinals, |id| {
            sum ^= self.entries.get(id).name().first().copied().unwrap_or(0);
        });
        std::hint::black_box(sum);
    }

    fn find(&self, name: &[u8]) -> (Hash, Option<u32>) {
        let hash = hash_of(name);
        (hash, self.entries.find(hash, name))
    }

    pub(super) fn score(&self, name: &[u8]) -> Option<f64> {
        let id = self.find(name).1?;
        Some(self.entries.get(id).score)
    }

    /// Same as [`Zset::update`](super::Zset::update).
    pub(super) fn update(
        &mut self,
        name: &[u8],
        decide: impl FnOnce(Option<f64>) -> Option<f64>,
    ) -> Option<f64> {
        let (hash, found) = self.find(name);
        let old = found.map(|id| self.entries.get(id).score);
        let score = decide(old)?;
        let (before, after) = (old.map(ordinal), ordinal(score));
        let id = match found {
            Some(id) => {
                self.entries.get_mut(id).score = score;
                id
            }
            None => self.entries.insert(
                hash,
                Entry {
                    score,
                    hash: hash.place,
                    slot: NO_SLOT,
                    name: Text::new(name),
                },
            ),
        };
        if let Some(before) = before
            && (before == after
                || self
                    .order
                    .change(at_entry(&self.entries, id, before, true), after))
        {
            return Some(score);
        }
        let split = at_gap(&self.entries, after, name);
        self.order.insert(Slot::new(after, id), split);
        Some(score)
    }

    pub(super) fn remove(&mut self, name: &[u8]) -> Option<f64> {
        let id = self.find(name).1?;
        Some(self.remove_at(id).score)
    }

    /// Removes the entry at `id`.
    fn remove_at(&mut self, id: u32) -> Entry {
        let score = self.entries.get(id).score;
        let slot = self
            .order
            .remove(at_entry(&self.entries, id, ordinal(score), true));
        debug_assert_eq!(slot.id, id);
        self.entries.remove(id)
    }

    /// Removes the entry with the earliest deadline. Returns its name. O(log n).
    pub(super) fn take_first(&mut self) -> Option<Text> {
        let first = self.entries.deadlines()?.first()?;
        Some(self.remove_at(first).name)
    }

    /// Returns the deadline of a name, even if it has passed; `u64::MAX` without a deadline.
    pub(super) fn deadline(&self, name: &[u8]) -> Option<u64> {
        let id = self.find(name).1?;
        Some(self.entries.deadline_of(self.entries.get(id)))
    }

    /// Sets the deadline of an existing name, or removes it for `NEVER`.
    pub(super) fn set_deadline(&mut self, name: &[u8], deadline: u64) {
        if let Some(id) = self.find(name).1 {
            self.entries.set_deadline(id, deadline);
        }
    }

    pub(super) fn rank(&self, name: &[u8]) -> Option<(usize, f64)> {
        let id = self.find(name).1?;
        let score = self.entries.get(id).score;
        let split = at_entry(&self.entries, id, ordinal(score), false);
        Some((self.order.rank(split), score))
    }

    pub(super) fn ranks_by_score(&self, range: &ScoreRange) -> Range<usize> {
        let start = self
            .order
            .rank(at_score(range.min.score, range.min.exclusive));
        let end = self
            .order
            .rank(at_score(range.max.score, !range.max.exclusive));
        start..end.max(start)
    }

    pub(super) fn ranks_by_lex(&self, range: &LexRange<'_>) -> Range<usize> {
        let name = |slot: &Slot| self.entries.get(slot.id).name();
        let too_small = |slot: &Slot| !range.is_after_min(name(slot));
        let small_enough = |slot: &Slot| range.is_before_max(name(slot));
        let start = self.order.rank(|slots| slots.partition_point(too_small));
        let end = self.order.rank(|slots| slots.partition_point(small_enough));
        start..end.max(start)
    }

    pub(super) fn remove_ranks(&mut self, ranks: Range<usize>) {
        let entries = &self.entries;
        if ranks == (0..self.len()) && !entries.is_walked() && entries.deadlines().is_none() {
            *self = Self::default();
            return;
        }
        for _ in ranks.clone() {
            let slot = self.order.remove_at(ranks.start);
            self.entries.remove(slot.id);
        }
    }

    pub(super) fn nth(&self, rank: usize) -> Option<&Entry> {
        Some(self.entries.get(self.order.get(rank)?.id))
    }

    pub(super) fn walk(&self, ranks: Range<usize>, backwards: bool) -> TableWalk<'_> {
        TableWalk {
            entries: &self.entries,
            slots: self.order.walk(ranks, backwards),
        }
    }

    /// Returns the number of heap bytes. O(n).
    pub(super) fn heap_bytes(&self) -> usize {
        let names = self
            .entries
            .iter()
            .map(|(_, entry)| entry.name.heap_bytes());
        self.entries.memory() + self.order.memory() + names.sum::<usize>()
    }
}

/// Iterator over entries of consecutive ranks.
pub(super) struct TableWalk<'a> {
    entries: &'a Keyed<Entry>,
    slots: Walk<'a, Slot>,
}

impl<'a> Iterator for TableWalk<'a> {
    type Item = &'a Entry;

    #[inline]
    fn next(&mut self) -> Option<&'a Entry> {
        Some(self.entries.get(self.slots.next()?.id))
    }
}
