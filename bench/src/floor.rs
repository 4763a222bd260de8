//! No queue at all: what every queue has to touch. Its row shows how much of a figure is the harness
//! (the random numbers, the array of handles) and one look at a record of 24 bytes.

use crate::contender::{Contender, Role};

/// Deadline, payload, and whether it is armed: what a timer is at least.
struct Record {
    deadline: u64,
    payload: u64,
    armed: bool,
}

/// Records without an order. It can arm, cancel and re-arm, and never fires.
pub struct Floor {
    records: Vec<Record>,
    free: Vec<u32>,
}

impl Contender for Floor {
    const NAME: &'static str = "floor: touch a record";
    const EXACT_NEXT: bool = false;
    const ROLE: Role = Role::Floor;
    type Handle = u32;

    fn new() -> Self {
        Floor {
            records: Vec::new(),
            free: Vec::new(),
        }
    }

    fn arm(&mut self, deadline: u64, payload: u64) -> u32 {
        let record = Record {
            deadline,
            payload,
            armed: true,
        };
        match self.free.pop() {
            Some(index) => {
                self.records[index as usize] = record;
                index
            }
            None => {
                self.records.push(record);
                self.records.len() as u32 - 1
            }
        }
    }

    fn cancel(&mut self, handle: u32) -> bool {
        self.free.push(handle);
        std::mem::replace(&mut self.records[handle as usize].armed, false)
    }

    fn rearm(&mut self, handle: &mut u32, deadline: u64) {
        self.records[*handle as usize].deadline = deadline;
    }

    fn fire(&mut self, _now: u64, out: &mut impl FnMut(u64)) -> usize {
        for record in self.records.drain(..) {
            out(record.payload);
        }
        0
    }

    fn next_deadline(&mut self) -> Option<u64> {
        None
    }
}
