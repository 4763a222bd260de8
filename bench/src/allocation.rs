//! An allocator that counts the bytes that malloc allocates, and their maximum.
//!
//! Counting is off during timing; an allocation then costs one more read of a flag.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering::Relaxed};

/// Size of the header that glibc's malloc keeps before each block.
const HEADER: isize = 8;

static COUNTING: AtomicBool = AtomicBool::new(false);
static LIVE: AtomicIsize = AtomicIsize::new(0);
static MOST: AtomicIsize = AtomicIsize::new(0);

/// The system's allocator with counts.
pub struct Counted;

#[cold]
fn add(bytes: isize) {
    let live = LIVE.fetch_add(bytes, Relaxed) + bytes;
    MOST.fetch_max(live, Relaxed);
}

/// Returns the number of bytes that a block takes.
fn size(block: *mut u8) -> isize {
    if block.is_null() {
        return 0;
    }
    // SAFETY: the block is live and comes from malloc: `Counted` gets all blocks from `System`, which on
    // unix uses malloc.
    let usable = unsafe { libc::malloc_usable_size(block.cast()) };
    usable as isize + HEADER
}

// SAFETY: every call is passed to `System` unchanged.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the contract of `alloc`.
        let block = unsafe { System.alloc(layout) };
        if COUNTING.load(Relaxed) {
            add(size(block));
        }
        block
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the contract of `alloc_zeroed`.
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
        // SAFETY: the caller upholds the contract of `dealloc`.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let counting = COUNTING.load(Relaxed);
        let before = if counting { size(block) } else { 0 };
        // SAFETY: the caller upholds the contract of `realloc`.
        let moved = unsafe { System.realloc(block, layout, new_size) };
        if counting && !moved.is_null() {
            add(size(moved) - before);
        }
        moved
    }
}

/// Starts counting from zero.
pub fn start() {
    LIVE.store(0, Relaxed);
    MOST.store(0, Relaxed);
    COUNTING.store(true, Relaxed);
}

/// Stops counting.
pub fn stop() {
    COUNTING.store(false, Relaxed);
}

/// Returns the number of bytes allocated since the start and not freed.
pub fn live() -> usize {
    LIVE.load(Relaxed).max(0) as usize
}

/// Returns the greatest number of live bytes since the last call.
pub fn take_most() -> usize {
    MOST.swap(LIVE.load(Relaxed), Relaxed).max(0) as usize
}
