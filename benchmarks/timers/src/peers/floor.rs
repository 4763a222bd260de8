//! Not a queue: shows the cost of the benchmark itself (random numbers and the array of handles)
//! and of one access to a record of 24 bytes, which every queue needs. It takes part only in
//! workloads that fire no timers.

use crate::contender::{Contender, Role};

/// The minimum state of a timer: deadline, payload, and true while it is armed.
type Record = (u64, u64, bool);

#[derive(Default)]
pub struct Floor {
    records: Vec<Record>,
    free: Vec<u32>,
}

impl Contender for Floor {
    const NAME: &'static str = "floor: touch a record";
    const ROLE: Role = Role::Floor;
    type Handle = u32;

    fn arm(&mut self, deadline: u64, payload: u64) -> u32 {
        let record = (deadline, payload, true);
        if let Some(index) = self.free.pop() {
            self.records[index as usize] = record;
            return index;
        }
        self.records.push(record);
        self.records.len() as u32 - 1
    }

    fn cancel(&mut self, handle: u32) -> bool {
        self.free.push(handle);
        std::mem::replace(&mut self.records[handle as usize].2, false)
    }

    fn rearm(&mut self, handle: &mut u32, deadline: u64) {
        self.records[*handle as usize].0 = deadline;
    }

    fn fire(&mut self, _now: u64, out: &mut impl FnMut(u64)) {
        self.records.drain(..).for_each(|record| out(record.1));
    }

    fn next_deadline(&mut self) -> Option<u64> {
        None
    }
}
