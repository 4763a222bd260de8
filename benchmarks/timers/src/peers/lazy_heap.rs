//! The crate `dary_heap` 0.3 with lazy deletion, over a slab with generations: an optimised form of
//! the usual `BinaryHeap` that keeps cancelled entries.
//!
//! The heap is 4-ary. An entry is one number of 16 bytes: deadline, index, generation. Cancelling
//! increments the generation of the timer's record, so the timer's entry is dead; it is dropped
//! when it reaches the top. Re-arming does the same and pushes another entry. When there are more
//! dead entries than live timers plus [`DEAD_AT_REST`], the dead entries are removed and the heap
//! is rebuilt in O(n).
//!
//! The queue is exact. Timers with equal deadlines fire in any order. Stale handles are refused
//! until the generation wraps around.

use std::cmp::Reverse;
use std::mem;

use dary_heap::QuaternaryHeap;

use crate::contender::Contender;

/// Number of dead entries that are kept in addition to one for each live timer.
const DEAD_AT_REST: usize = 64;

#[derive(Clone, Copy)]
pub struct Handle {
    index: u32,
    generation: u32,
}

/// Returns a heap entry. Its high half is the deadline.
fn entry(deadline: u64, handle: Handle) -> Reverse<u128> {
    let low = u64::from(handle.index) << 32 | u64::from(handle.generation);
    Reverse(u128::from(deadline) << 64 | u128::from(low))
}

/// Returns the deadline and the handle of a heap entry.
fn parts(entry: Reverse<u128>) -> (u64, Handle) {
    let handle = Handle {
        index: (entry.0 >> 32) as u32,
        generation: entry.0 as u32,
    };
    ((entry.0 >> 64) as u64, handle)
}

struct Record {
    payload: u64,
    generation: u32,
}

#[derive(Default)]
pub struct LazyHeap {
    heap: QuaternaryHeap<Reverse<u128>>,
    records: Vec<Record>,
    free: Vec<u32>,
}

impl LazyHeap {
    fn is_live(&self, handle: Handle) -> bool {
        self.records[handle.index as usize].generation == handle.generation
    }

    /// Frees a record, which invalidates its handles and entries.
    fn release(&mut self, index: u32) -> u64 {
        let record = &mut self.records[index as usize];
        record.generation = record.generation.wrapping_add(1);
        self.free.push(index);
        record.payload
    }

    /// Removes the dead entries if there are too many.
    fn bound_garbage(&mut self) {
        let live = self.records.len() - self.free.len();
        if self.heap.len() > 2 * live + DEAD_AT_REST {
            let mut entries = mem::take(&mut self.heap).into_vec();
            entries.retain(|&entry| self.is_live(parts(entry).1));
            self.heap = entries.into();
        }
    }
}

impl Contender for LazyHeap {
    const NAME: &'static str = "dary_heap lazy";
    type Handle = Handle;

    fn arm(&mut self, deadline: u64, payload: u64) -> Handle {
        let index = self.free.pop().unwrap_or_else(|| {
            self.records.push(Record {
                payload,
                generation: 0,
            });
            self.records.len() as u32 - 1
        });
        let record = &mut self.records[index as usize];
        record.payload = payload;
        let handle = Handle {
            index,
            generation: record.generation,
        };
        self.heap.push(entry(deadline, handle));
        handle
    }

    fn cancel(&mut self, handle: Handle) -> bool {
        let live = self.is_live(handle);
        if live {
            self.release(handle.index);
            self.bound_garbage();
        }
        live
    }

    fn rearm(&mut self, handle: &mut Handle, deadline: u64) {
        let record = &mut self.records[handle.index as usize];
        record.generation = record.generation.wrapping_add(1);
        handle.generation = record.generation;
        self.heap.push(entry(deadline, *handle));
        self.bound_garbage();
    }

    fn fire(&mut self, now: u64, out: &mut impl FnMut(u64)) {
        while let Some((deadline, handle)) = self.heap.peek().map(|&top| parts(top))
            && deadline <= now
        {
            self.heap.pop();
            if self.is_live(handle) {
                out(self.release(handle.index));
            }
        }
        self.bound_garbage();
    }

    fn next_deadline(&mut self) -> Option<u64> {
        loop {
            let (deadline, handle) = parts(*self.heap.peek()?);
            if self.is_live(handle) {
                return Some(deadline);
            }
            self.heap.pop();
        }
    }

    fn next_wakeup(&mut self) -> Option<u64> {
        self.heap.peek().map(|&top| parts(top).0)
    }
}
