//! The standard library's `BTreeMap`, keyed by (deadline, order of arming).
//!
//! Many programs use it as their first timer queue. It is exact to the microsecond. Timers fire in
//! order; timers with equal deadlines fire in the order of arming. The map cannot change a key, so
//! re-arming removes and inserts. A handle is the key itself (16 bytes) and is never reused.

use std::collections::BTreeMap;

use crate::contender::Contender;

#[derive(Default)]
pub struct Tree {
    timers: BTreeMap<(u64, u64), u64>,
    armed: u64,
}

impl Contender for Tree {
    const NAME: &'static str = "BTreeMap";
    type Handle = (u64, u64);

    fn arm(&mut self, deadline: u64, payload: u64) -> Self::Handle {
        let key = (deadline, self.armed);
        self.armed += 1;
        self.timers.insert(key, payload);
        key
    }

    fn cancel(&mut self, handle: Self::Handle) -> bool {
        self.timers.remove(&handle).is_some()
    }

    fn rearm(&mut self, handle: &mut Self::Handle, deadline: u64) {
        if let Some(payload) = self.timers.remove(handle) {
            *handle = self.arm(deadline, payload);
        }
    }

    fn fire(&mut self, now: u64, out: &mut impl FnMut(u64)) {
        while let Some(first) = self.timers.first_entry()
            && first.key().0 <= now
        {
            out(first.remove());
        }
    }

    fn next_deadline(&mut self) -> Option<u64> {
        self.timers.first_key_value().map(|(key, _)| key.0)
    }
}
