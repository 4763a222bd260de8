//! No queue at all: the connections are scanned for the earliest deadline. neqo (Mozilla's QUIC
//! library) replaced its wheel by such a scan.
//!
//! Each connection has its deadline in its own record. Arming, cancelling and re-arming write only
//! that record. Asking for the next deadline and firing scan all connections. Due timers fire in
//! the order of their deadlines. The queue is exact.
//!
//! A record is 64 bytes long: a scan over real connections reads at least one cache line of each.

use std::mem;

use crate::contender::{Contender, Role};

/// A connection, of which only the timer matters here.
#[repr(align(64))]
struct Connection {
    deadline: Option<u64>,
    payload: u64,
}

#[derive(Default)]
pub struct LinearScan {
    connections: Vec<Connection>,
    free: Vec<u32>,
    due: Vec<(u64, u32)>,
}

impl Contender for LinearScan {
    const NAME: &'static str = "linear scan";
    const ROLE: Role = Role::Scan;
    const MAX_TIMERS: usize = 10_000;
    type Handle = u32;

    fn arm(&mut self, deadline: u64, payload: u64) -> u32 {
        let connection = Connection {
            deadline: Some(deadline),
            payload,
        };
        if let Some(index) = self.free.pop() {
            self.connections[index as usize] = connection;
            return index;
        }
        self.connections.push(connection);
        self.connections.len() as u32 - 1
    }

    fn cancel(&mut self, handle: u32) -> bool {
        let armed = self.connections[handle as usize].deadline.take().is_some();
        if armed {
            self.free.push(handle);
        }
        armed
    }

    fn rearm(&mut self, handle: &mut u32, deadline: u64) {
        self.connections[*handle as usize].deadline = Some(deadline);
    }

    fn fire(&mut self, now: u64, out: &mut impl FnMut(u64)) {
        let mut due = mem::take(&mut self.due);
        for (index, connection) in self.connections.iter().enumerate() {
            if let Some(deadline) = connection.deadline
                && deadline <= now
            {
                due.push((deadline, index as u32));
            }
        }
        due.sort_unstable();
        for (_, index) in due.drain(..) {
            self.cancel(index);
            out(self.connections[index as usize].payload);
        }
        self.due = due;
    }

    fn next_deadline(&mut self) -> Option<u64> {
        let deadlines = self.connections.iter();
        deadlines.filter_map(|connection| connection.deadline).min()
    }
}
