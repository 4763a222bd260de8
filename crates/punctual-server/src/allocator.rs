//! The binary's allocator, and how memory goes back to the system.
//!
//! mimalloc has no headers on small blocks. It gives freed memory back a little later, while it is being used; a server
//! that has just lost a million keys, or one value of a gigabyte, and falls idle must ask for it. Large blocks are
//! counted here as they are freed, because buffers and values end in many places; small ones are estimated by the
//! event loops.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicU64, Ordering};

use mimalloc::MiMalloc;
use punctual_server::Reclaim;

/// Blocks from this size on are counted.
const LARGE: usize = 64 << 10;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes in large blocks that have been freed since the start.
static FREED_BYTES: AtomicU64 = AtomicU64::new(0);

/// What the server is told about this allocator.
pub(crate) const RECLAIM: Reclaim = Reclaim { freed_bytes, purge };

fn freed_bytes() -> u64 {
    FREED_BYTES.load(Ordering::Relaxed)
}

/// Gives memory that this thread has freed back to the system. O(pages of the heap).
fn purge() {
    // SAFETY: the function takes no pointer and may be called by any thread at any time; it touches only the calling
    // thread's own heap and pages without live blocks.
    unsafe { libmimalloc_sys::mi_collect(true) }
}

/// mimalloc, with large blocks counted.
struct Counting;

impl Counting {
    #[inline]
    fn count(size: usize) {
        if size >= LARGE {
            FREED_BYTES.fetch_add(size as u64, Ordering::Relaxed);
        }
    }
}

// SAFETY: every call goes to mimalloc with the arguments it came with, so its contract is kept; counting allocates
// nothing and cannot panic.
unsafe impl GlobalAlloc for Counting {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are passed on.
        unsafe { MiMalloc.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are passed on.
        unsafe { MiMalloc.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        Self::count(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { MiMalloc.dealloc(ptr, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // It may stay where it is; then this counts too much, which costs one purge.
        Self::count(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { MiMalloc.realloc(ptr, layout, new_size) }
    }
}
