//! An allocator that counts the bytes of allocated blocks, and their maximum.
//!
//! During measurements of time the counting is off; an allocation then only checks a flag in
//! addition.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering::Relaxed};

static COUNTING: AtomicBool = AtomicBool::new(false);
static LIVE: AtomicIsize = AtomicIsize::new(0);
static PEAK: AtomicIsize = AtomicIsize::new(0);

/// The system's allocator, with counters.
pub struct Counted;

/// Returns the number of bytes that glibc's malloc uses for a block: the block and a header of 8
/// bytes, rounded up to a multiple of 16, and at least 32.
fn taken(size: usize) -> isize {
    (size + 8).next_multiple_of(16).max(32) as isize
}

fn count(bytes: isize) {
    if COUNTING.load(Relaxed) {
        let live = LIVE.fetch_add(bytes, Relaxed) + bytes;
        PEAK.fetch_max(live, Relaxed);
    }
}

// SAFETY: every call is passed to `System` unchanged.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(taken(layout.size()));
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(taken(layout.size()));
        // SAFETY: the caller upholds the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(-taken(layout.size()));
        // SAFETY: the caller upholds the contract of `dealloc`.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(taken(new_size) - taken(layout.size()));
        // SAFETY: the caller upholds the contract of `realloc`.
        unsafe { System.realloc(block, layout, new_size) }
    }
}

/// Sets the counters to zero, and starts or stops counting.
pub fn set_counting(on: bool) {
    LIVE.store(0, Relaxed);
    PEAK.store(0, Relaxed);
    COUNTING.store(on, Relaxed);
}

/// Returns the number of bytes that were allocated since counting started, and not freed.
pub fn live() -> usize {
    LIVE.load(Relaxed).max(0) as usize
}

/// Returns the maximum number of allocated bytes since the last call.
pub fn take_peak() -> usize {
    PEAK.swap(LIVE.load(Relaxed), Relaxed).max(0) as usize
}
