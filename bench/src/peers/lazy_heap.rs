//! The crate `dary_heap` 0.3 with lazy deletion over a slab with generations: the fastest of the usual
//! designs, written with care.
//!
//! - The heap is 4-ary and holds 16-byte entries: (deadline, index, generation).
//! - A record is 16 bytes in a slab. Cancelling increments its generation and leaves a dead entry in the
//!   heap, which is dropped when it reaches the top.
//! - Re-arming increments the generation and pushes another entry.
//! - When dead entries outnumber live timers (and a floor for small heaps), the heap is swept and
//!   rebuilt in O(n).
//!
//! Exact, no tick; equal deadlines fire in any order. Handles are (index, generation), so stale ones are
//! refused until the generation wraps after 2^32 uses of one record.

use std::cmp::Ordering;
use std::mem;

use dary_heap::{PeekMut, QuaternaryHeap};

use crate::contender::Contender;

/// Number of dead entries that do not justify a sweep.
const DEAD_AT_REST: usize = 64;
/// The end of the list of free records.
const NONE: u32 = u32::MAX;

/// A heap entry.
#[derive(Clone, Copy)]
struct Entry {
    deadline: u64,
    index: u32,
    generation: u32,
}

// The heap's top is its greatest entry: the earliest deadline.
impl Ord for Entry {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        other.deadline.cmp(&self.deadline)
    }
}

impl PartialOrd for Entry {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.deadline == other.deadline
    }
}

impl Eq for Entry {}

/// A timer's record.
struct Record {
    payload: u64,
    generation: u32,
    /// The next free record while this one is free.
    next_free: u32,
}

/// Handle of a timer: its record and the record's generation at arming.
#[derive(Clone, Copy)]
pub struct Handle {
    index: u32,
    generation: u32,
}

/// The heap and its records.
pub struct LazyHeap {
    heap: QuaternaryHeap<Entry>,
    records: Vec<Record>,
    free: u32,
    live: usize,
}

impl LazyHeap {
    /// Number of entries in the heap, including dead ones.
    #[cfg(test)]
    pub fn entries(&self) -> usize {
        self.heap.len()
    }

    /// Frees a record, which invalidates its handles and entries.
    #[inline]
    fn release(&mut self, index: u32) -> u64 {
        let record = &mut self.records[index as usize];
        record.generation = record.generation.wrapping_add(1);
        record.next_free = self.free;
        self.free = index;
        self.live -= 1;
        record.payload
    }

    /// Sweeps if the dead entries outnumber the live ones.
    #[inline]
    fn bound_garbage(&mut self) {
        if self.heap.len() > 2 * self.live + DEAD_AT_REST {
            self.sweep();
        }
    }

    #[cold]
    #[inline(never)]
    fn sweep(&mut self) {
        let mut entries = mem::take(&mut self.heap).into_vec();
        entries.retain(|entry| entry.generation == self.records[entry.index as usize].generation);
        self.heap = entries.into();
    }

    /// Drops dead entries from the top and returns the earliest deadline.
    #[inline]
    fn settle_top(&mut self) -> Option<u64> {
        loop {
            let top = self.heap.peek_mut()?;
            if self.records[top.index as usize].generation == top.generation {
                return Some(top.deadline);
            }
            PeekMut::pop(top);
        }
    }
}

impl Contender for LazyHeap {
    const NAME: &'static str = "dary_heap lazy";
    const REFUSES_STALE: bool = true;
    type Handle = Handle;

    fn new() -> Self {
        LazyHeap {
            heap: QuaternaryHeap::new(),
            records: Vec::new(),
            free: NONE,
            live: 0,
        }
    }

    #[inline]
    fn arm(&mut self, deadline: u64, payload: u64) -> Handle {
        let (index, generation) = if self.free != NONE {
            let index = self.free;
            let record = &mut self.records[index as usize];
            self.free = record.next_free;
            record.payload = payload;
            (index, record.generation)
        } else {
            let index = self.records.len() as u32;
            self.records.push(Record {
                payload,
                generation: 0,
                next_free: NONE,
            });
            (index, 0)
        };
        self.live += 1;
        self.heap.push(Entry {
            deadline,
            index,
            generation,
        });
        Handle { index, generation }
    }

    #[inline]
    fn cancel(&mut self, handle: Handle) -> bool {
        if self.records[handle.index as usize].generation != handle.generation {
            return false;
        }
        self.release(handle.index);
        self.bound_garbage();
        true
    }

    #[inline]
    fn rearm(&mut self, handle: &mut Handle, deadline: u64) {
        let record = &mut self.records[handle.index as usize];
        if record.generation != handle.generation {
            return;
        }
        record.generation = record.generation.wrapping_add(1);
        handle.generation = record.generation;
        self.heap.push(Entry {
            deadline,
            index: handle.index,
            generation: handle.generation,
        });
        self.bound_garbage();
    }

    #[inline]
    fn fire(&mut self, now: u64, out: &mut impl FnMut(u64)) -> usize {
        let mut fired = 0;
        loop {
            let Some(top) = self.heap.peek_mut() else {
                break;
            };
            if top.deadline > now {
                break;
            }
            let Entry {
                index, generation, ..
            } = PeekMut::pop(top);
            if self.records[index as usize].generation == generation {
                let payload = self.release(index);
                out(payload);
                fired += 1;
            }
        }
        if fired > 0 {
            self.bound_garbage();
        }
        fired
    }

    #[inline]
    fn next_deadline(&mut self) -> Option<u64> {
        self.settle_top()
    }

    #[inline]
    fn next_wakeup(&mut self) -> Option<u64> {
        self.heap.peek().map(|top| top.deadline)
    }

    #[inline]
    fn pop_earliest(&mut self, out: &mut impl FnMut(u64)) -> usize {
        if self.settle_top().is_none() {
            return 0;
        }
        let Some(top) = self.heap.pop() else {
            return 0;
        };
        let payload = self.release(top.index);
        self.bound_garbage();
        out(payload);
        1
    }
}
