//! The crate `nexus-timer` 1.5: a hierarchical wheel of doubly linked lists over a slab, with a
//! bitmap of occupied slots and the least deadline kept for each slot.
//!
//! Its tick is a setting. Two are compared:
//!
//! - `nexus-timer`: ticks of 1 µs, the unit of this comparison, so every deadline falls on a tick and
//!   none fires early. Six levels, each 32 times as wide as the one before, reach 36 minutes; they
//!   were faster than the eight levels of factor 8 that the crate takes by default (arm + cancel at
//!   1,000 timers 29 ns for 35).
//! - `nexus-timer 1ms`: the crate's defaults. It rounds deadlines *down* to its tick, so it fires up to
//!   one tick early. (A caller who adds a tick first would see it late instead.)
//!
//! Within one call timers fire by level and slot, not by deadline. It only has a lower bound of the next
//! deadline; with ticks of 1 µs the bound is at least one tick too low, because it multiplies by a
//! truncated reciprocal of the tick.
//!
//! Its slab grows by chunks and searches the chunk of each record that it frees, so chunks are large here:
//! with 4,096 records, arm + cancel at 1M took twice as long as with 65,536. Its documentation expects the
//! number of timers in advance; at 10M there are still 153 chunks.
//!
//! Each handle must be given back exactly once, by cancelling or freeing, even after its timer has fired:
//! until then the record stays. Using a handle twice is undefined behaviour. Re-arming a fired timer
//! panics.

use std::marker::PhantomData;
use std::mem::{self, ManuallyDrop};
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use nexus_timer::{TimerHandle, Wheel, WheelBuilder};

use crate::contender::Contender;

/// Number of records by which the slab grows.
const CHUNK: usize = 65_536;

/// Settings of the wheel.
pub trait Setting: 'static {
    /// Name in tables.
    const NAME: &'static str;
    /// Length of a tick, in microseconds.
    const TICK: u64;
    /// Levels of 64 slots.
    const LEVELS: usize;
    /// Binary logarithm of the ratio of the widths of two adjacent levels.
    const SHIFT: u32;
}

/// Ticks of a microsecond.
pub enum Micro {}

impl Setting for Micro {
    const NAME: &'static str = "nexus-timer";
    const TICK: u64 = 1;
    const LEVELS: usize = 6;
    const SHIFT: u32 = 5;
}

/// The crate's default settings.
pub enum Default {}

impl Setting for Default {
    const NAME: &'static str = "nexus-timer 1ms";
    const TICK: u64 = 1_000;
    const LEVELS: usize = 7;
    const SHIFT: u32 = 3;
}

/// A handle of the crate as a value that can be copied; the crate's own type cannot.
#[derive(Clone, Copy)]
pub struct Handle(NonNull<()>);

impl Handle {
    #[inline]
    fn hold(handle: TimerHandle<u64>) -> Self {
        // SAFETY: a `TimerHandle` is one pointer to a record, never null (its size is checked
        // here), and moving it into another type of the same size runs no destructor.
        Handle(unsafe { mem::transmute::<TimerHandle<u64>, NonNull<()>>(handle) })
    }

    /// # Safety
    /// Each handle is given back at most once.
    #[inline]
    unsafe fn give_back(self) -> TimerHandle<u64> {
        // SAFETY: these bits came from a `TimerHandle` in `hold`; the caller uses them once.
        unsafe { mem::transmute::<NonNull<()>, TimerHandle<u64>>(self.0) }
    }
}

/// The wheel, and its instant zero.
pub struct Nexus<S: Setting> {
    wheel: ManuallyDrop<Wheel<u64>>,
    epoch: Instant,
    fired: Vec<u64>,
    setting: PhantomData<S>,
}

impl<S: Setting> Nexus<S> {
    #[inline]
    fn instant(&self, at: u64) -> Instant {
        self.epoch + Duration::from_micros(at)
    }
}

impl<S: Setting> Contender for Nexus<S> {
    const NAME: &'static str = S::NAME;
    const TICK: u64 = S::TICK;
    const EXACT_NEXT: bool = false;
    type Handle = Handle;

    fn new() -> Self {
        // Only differences to it matter: nothing reads a clock after this.
        let epoch = Instant::now();
        let mut wheel = WheelBuilder::new()
            .tick_duration(Duration::from_micros(S::TICK))
            .num_levels(S::LEVELS)
            .clk_shift(S::SHIFT)
            .unbounded(CHUNK)
            .build(epoch)
            .expect("these settings are within the crate's limits");
        // Allocates the first chunk before the first timer is armed.
        let first = wheel.schedule(epoch, 0);
        wheel.cancel(first);
        Nexus {
            wheel: ManuallyDrop::new(wheel),
            epoch,
            fired: Vec::new(),
            setting: PhantomData,
        }
    }

    #[inline]
    fn arm(&mut self, deadline: u64, payload: u64) -> Handle {
        let deadline = self.instant(deadline);
        Handle::hold(self.wheel.schedule(deadline, payload))
    }

    /// Cancels a timer. For a fired timer it only gives the handle back and returns false.
    #[inline]
    fn cancel(&mut self, handle: Handle) -> bool {
        // SAFETY: a contender without `REFUSES_STALE` is given each handle once.
        let handle = unsafe { handle.give_back() };
        self.wheel.cancel(handle).is_some()
    }

    #[inline]
    fn rearm(&mut self, handle: &mut Handle, deadline: u64) {
        let deadline = self.instant(deadline);
        // SAFETY: as in `cancel`; the returned handle replaces the old one.
        let old = unsafe { handle.give_back() };
        *handle = Handle::hold(self.wheel.reschedule(old, deadline));
    }

    #[inline]
    fn fire(&mut self, now: u64, out: &mut impl FnMut(u64)) -> usize {
        let now = self.instant(now);
        let fired = self.wheel.poll_and_rebalance(now, &mut self.fired);
        for payload in self.fired.drain(..) {
            out(payload);
        }
        fired
    }

    #[inline]
    fn next_deadline(&mut self) -> Option<u64> {
        let at = self.wheel.next_deadline()?;
        Some(at.duration_since(self.epoch).as_micros() as u64)
    }
}

impl<S: Setting> Drop for Nexus<S> {
    fn drop(&mut self) {
        // With debug assertions the crate's slab panics over records that were not given back. The comparison
        // does not give back the handles of fired timers, which only saves this peer work; so tests leak the
        // wheel.
        if !cfg!(debug_assertions) {
            // SAFETY: the wheel is dropped only here, and not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.wheel) };
        }
    }
}
