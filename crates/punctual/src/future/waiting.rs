//! A task that waits for a deadline in a driver.
//!
//! The alarm holds the task's waker. While the alarm's handle is valid, the alarm has not fired.
//! When the handle is stale, the driver has taken the waker, and has woken the task or does so
//! soon. So the task and the driver share no flag and allocate nothing. `model.rs` checks all
//! interleavings of a poll and the deadline with loom.

use core::mem;
use core::task::Waker;

use crate::driver::Handle;
use crate::time::alarm::Alarm;
use crate::time::timeline::Timeline;

/// An armed waker. The owner must [stop](Self::stop) it, or the task is woken spuriously.
#[derive(Debug)]
pub(super) struct Waiting(Handle);

impl Waiting {
    #[inline(always)]
    pub(super) fn start(timeline: &Timeline, deadline: u64, waker: &Waker) -> Self {
        Waiting(timeline.arm(deadline, Alarm::Wake(waker.clone())))
    }

    /// Returns true if the alarm has not fired. The driver then wakes `waker`, not an earlier
    /// waker.
    #[inline]
    pub(super) fn is_pending(&self, timeline: &Timeline, waker: &Waker) -> bool {
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
        // Swaps the wakers, so that the old waker is dropped here, after the lock is released.
        let swap = |alarm: &mut Alarm| {
            if let Alarm::Wake(known) = alarm {
                mem::swap(known, &mut waker);
            }
        };
        timeline.with(self.0, swap).is_some()
    }

    /// Changes the deadline. Returns false if the alarm has fired.
    #[inline]
    pub(super) fn rearm(&self, timeline: &Timeline, deadline: u64) -> bool {
        timeline.rearm(self.0, deadline)
    }

    /// Disarms the waker and returns it, or `None` if the driver has taken it to wake the task.
    #[inline]
    pub(super) fn stop(self, timeline: &Timeline) -> Option<Waker> {
        match timeline.disarm(self.0)? {
            Alarm::Wake(waker) => Some(waker),
            _ => None, // unreachable: `start` arms only wakers
        }
    }
}
