//! malloc, counted: the bytes it really gave, and the most at any time.
//!
//! Counting is off while something is timed; then an allocation costs one look at a flag more.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering::Relaxed};

/// What glibc's malloc keeps before each block.
const HEADER: isize = 8;

static COUNTING: AtomicBool = AtomicBool::new(false);
static LIVE: AtomicIsize = AtomicIsize::new(0);
static MOST: AtomicIsize = AtomicIsize::new(0);

/// The system's allocator, counted.
pub struct Counted;

#[cold]
fn add(bytes: isize) {
    let live = LIVE.fetch_add(bytes, Relaxed) + bytes;
    MOST.fetch_max(live, Relaxed);
}

/// The bytes that a block takes.
fn size(block: *mut u8) -> isize {
    if block.is_null() {
        return 0;
    }
    // SAFETY: the block is live and comes from malloc: `Counted` gets all blocks from `System`, which on
    // unix is malloc and its kin.
    let usable = unsafe { libc::malloc_usable_size(block.cast()) };
    usable as isize + HEADER
}

// SAFETY: every call is handed on to `System` as it came.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps to the contract of `alloc`.
        let block = unsafe { System.alloc(layout) };
        if COUNTING.load(Relaxed) {
            add(size(block));
        }
        block
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps to the contract of `alloc_zeroed`.
        let block = unsafe { System.alloc_zeroed(layout) };
        if COUNTING.load(Relaxed) {
            add(size(block));
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if COUNTING.load(Relaxed) {
            add(-size(block));
        }
        // SAFETY: the caller keeps to the contract of `dealloc`.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let counting = COUNTING.load(Relaxed);
        let before = if counting { size(block) } else { 0 };
        // SAFETY: the caller keeps to the contract of `realloc`.
        let moved = unsafe { System.realloc(block, layout, new_size) };
        if counting && !moved.is_null() {
            add(size(moved) - before);
        }
        moved
    }
}

/// Counts from zero from now on.
pub fn start() {
    LIVE.store(0, Relaxed);
    MOST.store(0, Relaxed);
    COUNTING.store(true, Relaxed);
}

/// Counts no longer.
pub fn stop() {
    COUNTING.store(false, Relaxed);
}

/// Bytes allocated since the start and not freed.
pub fn live() -> usize {
    LIVE.load(Relaxed).max(0) as usize
}

/// The most that was live since the last call.
pub fn take_most() -> usize {
    MOST.swap(LIVE.load(Relaxed), Relaxed).max(0) as usize
}
