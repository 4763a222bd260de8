//! A task that waits in a driver for its deadline: beginning, going on, and giving up.
//!
//! The alarm is a waker. While its handle is good, the deadline has not come; once it is stale, the driver has taken
//! the waker, and has woken it or is about to. So no flag is shared with the driver, and nothing is allocated.
//! `model.rs` has loom try every order of a poll and the deadline.

use core::mem;
use core::task::Waker;

use crate::driver::Handle;
use crate::time::alarm::Alarm;
use crate::time::timeline::Timeline;

/// An armed waker. It must be [ended](Self::end), or the task is woken for nothing.
#[derive(Debug)]
pub(super) struct Waiting(Handle);

impl Waiting {
    #[inline(always)]
    pub(super) fn begin(timeline: &Timeline, deadline: u64, waker: &Waker) -> Self {
        Waiting(timeline.arm(deadline, Alarm::Wake(waker.clone())))
    }

    /// Whether the deadline is still to come; then `waker` is the one that will be woken.
    #[inline]
    pub(super) fn goes_on(&self, timeline: &Timeline, waker: &Waker) -> bool {
        let same =
            |alarm: &mut Alarm| matches!(alarm, Alarm::Wake(known) if known.will_wake(waker));
        match timeline.with(self.0, same) {
            Some(true) => true,
            Some(false) => self.replace(timeline, waker.clone()),
            None => false,
        }
    }

    #[cold]
    fn replace(&self, timeline: &Timeline, mut waker: Waker) -> bool {
        // By swapping: the old one is dropped here, when the lock is free.
        let swap = |alarm: &mut Alarm| {
            if let Alarm::Wake(known) = alarm {
                mem::swap(known, &mut waker);
            }
        };
        timeline.with(self.0, swap).is_some()
    }

    /// Moves the deadline. `false` if it has come already.
    #[inline]
    pub(super) fn put_off(&self, timeline: &Timeline, deadline: u64) -> bool {
        timeline.rearm(self.0, deadline)
    }

    /// Gives up. The waker, unless it was woken.
    #[inline]
    pub(super) fn end(self, timeline: &Timeline) -> Option<Waker> {
        match timeline.disarm(self.0)? {
            Alarm::Wake(waker) => Some(waker),
            _ => None, // it arms nothing else
        }
    }
}
