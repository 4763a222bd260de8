//! No queue: only records on doubly linked lists, as list wheels have them.
//!
//! Arming puts a record at the head of the list of its deadline's millisecond; cancelling unlinks it,
//! which writes two neighbours. Every list wheel does at least that, so arm, cancel and re-arm here are
//! the floor for list wheels. Firing and finding the next deadline read every record: correct and in
//! order, but O(n).

use std::mem;

use crate::contender::{Contender, Role};

/// Index that ends a list.
const NONE: u32 = u32::MAX;
/// Number of lists: each holds one millisecond in 65.
const LISTS: usize = 65_536;
/// Width of a list, in microseconds.
const GRANULARITY: u64 = 1_000;

struct Record {
    deadline: u64,
    payload: u64,
    previous: u32,
    next: u32,
    armed: bool,
}

/// The records and the heads of their lists.
pub struct Neighbours {
    records: Vec<Record>,
    free: Vec<u32>,
    heads: Vec<u32>,
    due: Vec<(u64, u32)>,
}

impl Neighbours {
    #[inline]
    fn list(deadline: u64) -> usize {
        (deadline / GRANULARITY) as usize % LISTS
    }

    #[inline]
    fn link(&mut self, index: u32) {
        let head = &mut self.heads[Self::list(self.records[index as usize].deadline)];
        let next = mem::replace(head, index);
        if next != NONE {
            self.records[next as usize].previous = index;
        }
        let record = &mut self.records[index as usize];
        record.previous = NONE;
        record.next = next;
    }

    #[inline]
    fn unlink(&mut self, index: u32) {
        let Record {
            deadline,
            previous,
            next,
            ..
        } = self.records[index as usize];
        if previous == NONE {
            self.heads[Self::list(deadline)] = next;
        } else {
            self.records[previous as usize].next = next;
        }
        if next != NONE {
            self.records[next as usize].previous = previous;
        }
    }
}

impl Contender for Neighbours {
    const NAME: &'static str = "floor: and two neighbours";
    const ROLE: Role = Role::Floor;
    type Handle = u32;

    fn new() -> Self {
        Neighbours {
            records: Vec::new(),
            free: Vec::new(),
            heads: vec![NONE; LISTS],
            due: Vec::new(),
        }
    }

    #[inline]
    fn arm(&mut self, deadline: u64, payload: u64) -> u32 {
        let record = Record {
            deadline,
            payload,
            previous: NONE,
            next: NONE,
            armed: true,
        };
        let index = match self.free.pop() {
            Some(index) => {
                self.records[index as usize] = record;
                index
            }
            None => {
                self.records.push(record);
                self.records.len() as u32 - 1
            }
        };
        self.link(index);
        index
    }

    #[inline]
    fn cancel(&mut self, handle: u32) -> bool {
        if !mem::replace(&mut self.records[handle as usize].armed, false) {
            return false;
        }
        self.unlink(handle);
        self.free.push(handle);
        true
    }

    #[inline]
    fn rearm(&mut self, handle: &mut u32, deadline: u64) {
        self.unlink(*handle);
        self.records[*handle as usize].deadline = deadline;
        self.link(*handle);
    }

    fn fire(&mut self, now: u64, out: &mut impl FnMut(u64)) -> usize {
        let mut due = mem::take(&mut self.due);
        for (record, index) in self.records.iter().zip(0..) {
            if record.armed && record.deadline <= now {
                due.push((record.deadline, index));
            }
        }
        due.sort_unstable();
        let fired = due.len();
        for (_, index) in due.drain(..) {
            self.cancel(index);
            out(self.records[index as usize].payload);
        }
        self.due = due;
        fired
    }

    fn next_deadline(&mut self) -> Option<u64> {
        let armed = self.records.iter().filter(|record| record.armed);
        armed.map(|record| record.deadline).min()
    }
}
