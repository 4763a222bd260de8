//! A contender without a queue. It shows the cost of the harness (random numbers and the array of handles)
//! and of one access to a record of 24 bytes, which every queue needs.

use crate::contender::{Contender, Role};

/// The least state of a timer.
struct Record {
    deadline: u64,
    payload: u64,
    armed: bool,
}

/// Records without order: timers can be armed, cancelled and re-armed, but never fire.
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
