//! The binary's allocator, and how memory goes back to the system.
//!
//! mimalloc has no headers on small blocks. Left alone it returns free pages a second later, inside some call of
//! `free`, and never if no such call comes: both are wrong for a server, which would pause or keep the memory. Here it
//! returns nothing by itself; the server asks for it ([`RECLAIM`]), on a thread that serves nobody.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ffi::c_long;

use libmimalloc_sys::{mi_option_set_default, mi_option_t};
use mimalloc::MiMalloc;
use punctual_server::Reclaim;

/// `mi_option_purge_delay`: milliseconds until a call of `free` returns free pages to the system.
const PURGE_DELAY: mi_option_t = 15;
/// `mi_option_page_max_reclaim`: pages of a size class that a thread takes back for itself when it frees blocks in them.
const PAGE_MAX_RECLAIM: mi_option_t = 41;

/// Eleven days.
const NEVER_MS: c_long = 1_000_000_000;
/// Bounds [`collect`], which walks the blocks that other threads freed in this thread's pages: without a limit the pages
/// of a fragmented heap all become one thread's. 16 pages of 64 KiB are walked in a millisecond.
const PAGES_MAX: c_long = 16;
/// Calls of `mi_collect` after which a page that is kept for the next block of its size is free too.
const RETIRE_CYCLES: usize = 16;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    /// Bytes that this thread has freed. It needs no destructor, so it is there as long as the thread allocates.
    static FREED_BYTES: Cell<u64> = const { Cell::new(0) };
}

/// What the server is told about this allocator.
pub(crate) const RECLAIM: Reclaim = Reclaim {
    freed_bytes,
    collect,
    purge,
};

/// Leaves it to the server when memory goes back. Environment variables of mimalloc take precedence.
pub(crate) fn configure() {
    // SAFETY: the functions take no pointer, and only store a number that other threads may read meanwhile.
    unsafe {
        mi_option_set_default(PURGE_DELAY, NEVER_MS);
        mi_option_set_default(PAGE_MAX_RECLAIM, PAGES_MAX);
    }
}

fn freed_bytes() -> u64 {
    FREED_BYTES.get()
}

/// Frees this thread's pages whose blocks other threads have freed. O(blocks in [`PAGES_MAX`] pages a size class).
fn collect() {
    for _ in 0..RETIRE_CYCLES {
        // SAFETY: the function takes no pointer and may be called by any thread at any time; it touches only the
        // calling thread's own heap and pages without live blocks.
        unsafe { libmimalloc_sys::mi_collect(false) }
    }
}

/// Returns the free pages of all threads to the system. O(free pages), about 0.1 ms a MiB.
fn purge() {
    // SAFETY: as in `collect`; besides, it returns pages to the system that hold no block of any thread. It does nothing
    // on a thread that has not allocated yet, so the thread is made known first, as an allocation would do.
    unsafe {
        libmimalloc_sys::mi_thread_init();
        libmimalloc_sys::mi_collect(true);
    }
}

/// mimalloc, with freed bytes counted.
struct Counting;

impl Counting {
    #[inline]
    fn count(size: usize) {
        FREED_BYTES.set(FREED_BYTES.get().wrapping_add(size as u64));
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
        // It may stay where it is; then this counts too much, which makes memory go back a little sooner.
        Self::count(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { MiMalloc.realloc(ptr, layout, new_size) }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use libmimalloc_sys::{_mi_option_last, mi_option_get};

    use super::*;

    const MIB: u64 = 1 << 20;

    fn resident_mib() -> u64 {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: u64 = text.split(' ').nth(1).unwrap().parse().unwrap();
        pages * 4096 / MIB
    }

    /// Another version of mimalloc may number its options anew. One test, because all of it is about the whole process.
    #[test]
    fn the_last_block_of_a_page_may_be_freed_by_any_thread() {
        assert_eq!(_mi_option_last, 47);
        // SAFETY: the function takes no pointer.
        let of = |option| unsafe { mi_option_get(option) };
        assert_eq!((of(PURGE_DELAY), of(PAGE_MAX_RECLAIM)), (1000, -1));
        configure();
        assert_eq!(
            (of(PURGE_DELAY), of(PAGE_MAX_RECLAIM)),
            (NEVER_MS, PAGES_MAX)
        );

        let start = resident_mib();
        let mut values: Vec<Box<[u8; 100]>> = (0..400_000).map(|_| Box::new([1; 100])).collect();
        // One block of each page goes, so this thread takes back as many pages as it may.
        for value in values.iter_mut().step_by(300) {
            drop(std::mem::replace(value, Box::new([2; 100])));
        }
        let full = resident_mib();
        assert!(full - start > 35, "{full} MiB");
        let freed = thread::spawn(move || {
            drop(values);
            purge();
            freed_bytes()
        });
        assert!(freed.join().unwrap() > 40_000_000);
        // What stays is in pages of this thread: a few, whatever its heap was.
        let left = resident_mib();
        assert!(left <= start + 6, "{start} MiB, {full} MiB, {left} MiB");
        collect();
        thread::spawn(purge).join().unwrap();
        let end = resident_mib();
        assert!(end <= left, "{left} MiB, {end} MiB");
    }
}
