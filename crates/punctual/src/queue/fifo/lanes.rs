//! Lanes: runs that take entries at their end only, and a heap over their heads.
//!
//! - `ends[l]` is the deadline of the last entry of lane `l`; 0 if it is empty, so that it takes
//!   anything, after all others that do.
//! - `heads` has one entry for each lane that is not empty: its first, with the lane for an index.
//! - `rest` is a heap of what fitted behind no lane.

use crate::queue::run::{Entry, Run};
use alloc::collections::BinaryHeap;
use alloc::collections::binary_heap::PeekMut;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::mem::size_of;
use core::num::NonZeroU32;

/// The most lanes.
const MOST: usize = 64;

#[derive(Debug)]
pub(super) struct Lanes {
    ends: Vec<u64>,
    runs: Vec<Run<Entry>>,
    heads: BinaryHeap<Reverse<Entry>>,
    rest: BinaryHeap<Reverse<Entry>>,
    entries: usize,
    /// The lane of the last entry.
    last: usize,
}

impl Lanes {
    pub(super) const fn new() -> Self {
        Lanes {
            ends: Vec::new(),
            runs: Vec::new(),
            heads: BinaryHeap::new(),
            rest: BinaryHeap::new(),
            entries: 0,
            last: 0,
        }
    }

    /// All entries, dead ones included.
    #[inline]
    pub(super) fn entries(&self) -> usize {
        self.entries
    }

    /// Whether something that is due at `deadline` may go to the end of `lane`.
    #[inline]
    pub(super) fn fits(&self, lane: usize, deadline: u64) -> bool {
        self.ends.get(lane).is_some_and(|&end| end <= deadline)
    }

    /// Files an entry, armed after all others, behind the latest it may be behind; tells the lane,
    /// if it is in one. O(lanes).
    #[inline]
    pub(super) fn file(&mut self, entry: Entry) -> Option<usize> {
        let (mut latest, mut lane) = (0, usize::MAX);
        for (at, &end) in self.ends.iter().enumerate() {
            // No branch: nearly every one would be a surprise.
            if end <= entry.deadline && end >= latest {
                (latest, lane) = (end, at);
            }
        }
        if lane == usize::MAX {
            lane = self.open(entry)?;
        }
        self.push(lane, entry);
        Some(lane)
    }

    /// No lane will do: opens one, or puts the entry to the rest.
    #[cold]
    fn open(&mut self, entry: Entry) -> Option<usize> {
        if self.runs.len() < MOST {
            self.ends.push(0);
            self.runs.push(Run::new());
            return Some(self.runs.len() - 1);
        }
        self.entries += 1;
        self.last = usize::MAX;
        self.rest.push(Reverse(entry));
        None
    }

    /// Appends an entry, armed after all others, to a lane that it fits behind. O(1) amortised.
    #[inline]
    pub(super) fn push(&mut self, lane: usize, entry: Entry) {
        let run = &mut self.runs[lane];
        if run.is_empty() {
            self.heads.push(Reverse(head(entry, lane)));
        }
        run.push(entry);
        self.ends[lane] = entry.deadline;
        self.entries += 1;
        self.last = lane;
    }

    /// An entry is dead: takes it out if it is the last one filed and not a head. O(1).
    #[inline]
    pub(super) fn forget(&mut self, entry: &Entry) {
        if let Some(run) = self.runs.get_mut(self.last)
            && run.len() > 1
            && run.last() == Some(entry)
        {
            run.pop_last();
            self.entries -= 1;
            self.ends[self.last] = run.last().map_or(0, |last| last.deadline);
        }
    }

    /// The earliest entry, perhaps a dead one; in a lane it has the lane's number for an index.
    #[inline]
    fn earliest(&self) -> Option<(Entry, bool)> {
        let head = self.heads.peek().map(|&Reverse(head)| head);
        let rest = self.rest.peek().map(|&Reverse(rest)| rest);
        match (head, rest) {
            (Some(head), None) => Some((head, true)),
            (None, rest) => Some((rest?, false)),
            (Some(head), Some(rest)) => Some(
                // No two have the same order.
                if (head.deadline, head.order) < (rest.deadline, rest.order) {
                    (head, true)
                } else {
                    (rest, false)
                },
            ),
        }
    }

    /// The earliest entry, perhaps a dead one. O(1).
    #[inline]
    pub(super) fn first(&self) -> Option<Entry> {
        match self.earliest()? {
            (head, true) => self.runs.get(head.index as usize)?.first().copied(),
            (rest, false) => Some(rest),
        }
    }

    /// Takes out the earliest entry. O(log lanes), or O(log n) if it is of the rest.
    #[inline]
    pub(super) fn pop_first(&mut self) {
        let Some((earliest, is_head)) = self.earliest() else {
            return;
        };
        self.entries -= 1;
        if !is_head {
            self.rest.pop();
            return;
        }
        let lane = earliest.index as usize;
        let run = &mut self.runs[lane];
        run.pop_first();
        let Some(mut top) = self.heads.peek_mut() else {
            return;
        };
        match run.first() {
            Some(&next) => *top = Reverse(head(next, lane)),
            None => {
                PeekMut::pop(top);
                self.ends[lane] = 0;
            }
        }
    }

    /// Drops all entries but those that `keep`, and lanes that are not needed. O(entries).
    pub(super) fn retain(&mut self, keep: impl Fn(&Entry) -> bool) {
        for run in &mut self.runs {
            run.retain(&keep);
        }
        self.rest.retain(|Reverse(entry)| keep(entry));
        if self.rest.len() < self.rest.capacity() / 4 {
            self.rest.shrink_to(2 * self.rest.len());
        }
        while self.runs.len() > 1 && self.runs.last().is_some_and(Run::is_empty) {
            self.runs.pop();
        }
        self.reckon();
    }

    /// Gives every entry a new order; the sequence is the same. O(entries).
    pub(super) fn renumber(&mut self, order: impl Fn(&Entry) -> NonZeroU32) {
        for run in &mut self.runs {
            for entry in run.as_mut_slice() {
                entry.order = order(entry);
            }
        }
        let rest = core::mem::take(&mut self.rest).into_vec().into_iter();
        self.rest = rest
            .map(|Reverse(entry)| {
                Reverse(Entry {
                    order: order(&entry),
                    ..entry
                })
            })
            .collect();
        self.reckon();
    }

    /// Builds anew what follows from the runs.
    fn reckon(&mut self) {
        let ends = self
            .runs
            .iter()
            .map(|run| run.last().map_or(0, |last| last.deadline));
        self.ends.clear();
        self.ends.extend(ends);
        let firsts = self.runs.iter().enumerate();
        self.heads.clear();
        self.heads
            .extend(firsts.filter_map(|(lane, run)| Some(Reverse(head(*run.first()?, lane)))));
        self.entries = self.runs.iter().map(Run::len).sum::<usize>() + self.rest.len();
        self.last = usize::MAX;
    }

    /// O(lanes).
    pub(super) fn clear(&mut self) {
        for run in &mut self.runs {
            run.clear();
        }
        self.ends.fill(0);
        self.heads.clear();
        self.rest = BinaryHeap::new();
        self.entries = 0;
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.runs.iter_mut().for_each(Run::shrink_to_fit);
        self.rest.shrink_to_fit();
    }

    /// O(lanes).
    pub(super) fn memory(&self) -> usize {
        let runs: usize = self.runs.iter().map(Run::memory).sum();
        let heaps = self.heads.capacity() + self.rest.capacity();
        runs + self.runs.capacity() * size_of::<Run<Entry>>()
            + self.ends.capacity() * size_of::<u64>()
            + heaps * size_of::<Entry>()
    }
}

#[cfg(test)]
impl Lanes {
    pub(super) fn len(&self) -> usize {
        self.runs.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        let rest = self.rest.iter().map(|Reverse(entry)| entry);
        self.runs.iter().flat_map(Run::as_slice).chain(rest)
    }

    pub(super) fn check(&self) {
        assert!(self.runs.len() == self.ends.len() && self.runs.len() <= MOST);
        for (run, &end) in self.runs.iter().zip(&self.ends) {
            assert!(run.as_slice().is_sorted(), "a lane is sorted");
            assert_eq!(end, run.last().map_or(0, |last| last.deadline));
        }
        let mut heads: Vec<Entry> = self.heads.iter().map(|Reverse(head)| *head).collect();
        heads.sort_unstable_by_key(|head| head.index);
        let firsts = self.runs.iter().enumerate();
        let firsts = firsts.filter_map(|(lane, run)| Some(head(*run.first()?, lane)));
        assert_eq!(heads, firsts.collect::<Vec<_>>(), "the head of each lane");
        assert_eq!(self.entries, self.iter().count());
    }
}

/// The head of a lane.
#[inline]
fn head(first: Entry, lane: usize) -> Entry {
    Entry {
        index: lane as u32,
        ..first
    }
}
