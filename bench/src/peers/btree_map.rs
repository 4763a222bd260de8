//! The standard library's `BTreeMap`, keyed by (deadline, order of arming).
//!
//! Many programs begin with it. Exact to the microsecond, in order, equal deadlines in the order of
//! arming; no tick. It cannot move a key, so re-arming removes and inserts, which also moves a timer
//! behind those of equal deadlines. A handle is the key itself (16 bytes) and is never reused.

use std::collections::BTreeMap;

use crate::contender::Contender;

/// A map from (deadline, sequence number) to payload.
pub struct Tree {
    timers: BTreeMap<(u64, u64), u64>,
    armed: u64,
}

impl Contender for Tree {
    const NAME: &'static str = "BTreeMap";
    const REFUSES_STALE: bool = true;
    type Handle = (u64, u64);

    fn new() -> Self {
        Tree {
            timers: BTreeMap::new(),
            armed: 0,
        }
    }

    #[inline]
    fn arm(&mut self, deadline: u64, payload: u64) -> Self::Handle {
        let key = (deadline, self.armed);
        self.armed += 1;
        self.timers.insert(key, payload);
        key
    }

    #[inline]
    fn cancel(&mut self, handle: Self::Handle) -> bool {
        self.timers.remove(&handle).is_some()
    }

    #[inline]
    fn rearm(&mut self, handle: &mut Self::Handle, deadline: u64) {
        if let Some(payload) = self.timers.remove(handle) {
            *handle = self.arm(deadline, payload);
        }
    }

    #[inline]
    fn fire(&mut self, now: u64, out: &mut impl FnMut(u64)) -> usize {
        let mut fired = 0;
        while let Some(first) = self.timers.first_entry() {
            if first.key().0 > now {
                break;
            }
            out(first.remove());
            fired += 1;
        }
        fired
    }

    #[inline]
    fn next_deadline(&mut self) -> Option<u64> {
        self.timers.first_key_value().map(|(key, _)| key.0)
    }

    #[inline]
    fn pop_earliest(&mut self, out: &mut impl FnMut(u64)) -> usize {
        match self.timers.pop_first() {
            Some((_, payload)) => {
                out(payload);
                1
            }
            None => 0,
        }
    }
}
