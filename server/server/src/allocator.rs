//! The binary's allocator: mimalloc, with a count of the bytes in use. It returns free memory to
//! the system only on request.
//!
//! A block counts with the size class that mimalloc gives it. The class is computed from the size,
//! which is known when a block is allocated and freed. So the allocator looks nothing up. A block
//! that was shrunk in place counts with the class of its new size.
//!
//! By default mimalloc returns free pages a second later, inside a call of `free`, and never
//! without such a call. A server would pause in that call, or keep the memory while it is idle. So
//! the delay is set to [`NEVER_MS`], and the server requests the return of memory ([`RECLAIM`]) on
//! a thread that serves no clients.

#![allow(unsafe_code)]

#[cfg(target_os = "linux")]
mod huge_pages;
#[cfg(not(target_os = "linux"))]
#[path = "allocator/no_huge_pages.rs"]
mod huge_pages;

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_long, c_void};

use libmimalloc_sys::{
    mi_malloc, mi_option_set_default, mi_option_t, mi_stats_print_out, mi_zalloc,
};
use mimalloc::MiMalloc;
use punctual_server::Reclaim;
use punctual_server::config::HugePages;
use punctual_server::memory::counters;

/// `mi_option_purge_delay`: milliseconds until a call of `free` returns free pages to the system.
const PURGE_DELAY: mi_option_t = 15;
/// `mi_option_page_max_reclaim`: maximum number of pages per size class that a thread adopts when
/// it frees blocks in them.
const PAGE_MAX_RECLAIM: mi_option_t = 41;

/// Eleven days: mimalloc never returns pages by itself.
const NEVER_MS: c_long = 1_000_000_000;
/// The value for [`PAGE_MAX_RECLAIM`]. It bounds the time of [`collect`], which walks the blocks
/// that other threads freed in this thread's pages: 16 pages of 64 KiB take less than a
/// millisecond. Without a limit, one thread adopts all pages of a fragmented heap.
const PAGES_MAX: c_long = 16;
/// Number of calls of `mi_collect` after which mimalloc frees an empty page that it keeps for new
/// blocks.
const RETIRE_CYCLES: usize = 16;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    /// Number of bytes that this thread has freed. The variable has no destructor, so it exists as
    /// long as the thread allocates.
    static FREED_BYTES: Cell<u64> = const { Cell::new(0) };
}

/// The allocator's functions for the server.
pub(crate) const RECLAIM: Reclaim = Reclaim {
    freed_bytes,
    collect,
    purge,
    set_huge_pages: huge_pages::set_policy,
    merge: huge_pages::merge,
    statistics,
};

/// Enables the byte counters, configures mimalloc to return memory only on request, and forbids
/// huge pages for now. mimalloc's environment variables take precedence.
pub(crate) fn configure() {
    counters::enable();
    // The policy follows when the server has read its configuration.
    huge_pages::set_policy(HugePages::Never);
    // SAFETY: the functions take no pointer, and only store a number that other threads may read at
    // the same time.
    unsafe {
        mi_option_set_default(PURGE_DELAY, NEVER_MS);
        mi_option_set_default(PAGE_MAX_RECLAIM, PAGES_MAX);
    }
}

fn freed_bytes() -> u64 {
    FREED_BYTES.get()
}

/// Frees this thread's pages whose blocks other threads have freed. O(blocks in [`PAGES_MAX`] pages
/// per size class).
fn collect() {
    for _ in 0..RETIRE_CYCLES {
        // SAFETY: the function takes no pointer and may be called by any thread at any time; it
        // touches only the calling thread's own heap and pages without live blocks.
        unsafe { libmimalloc_sys::mi_collect(false) }
    }
}

/// Returns the free pages of all threads to the system. O(free pages), about 0.1 ms per MiB.
fn purge() {
    // SAFETY: as in `collect`; besides, the function only returns pages without live blocks of any
    // thread. It does nothing on a thread that has not allocated yet, so the thread is registered
    // first, as an allocation does.
    unsafe {
        libmimalloc_sys::mi_thread_init();
        libmimalloc_sys::mi_collect(true);
    }
}

/// Returns mimalloc's statistics as text.
fn statistics() -> String {
    unsafe extern "C" fn append(text: *const c_char, out: *mut c_void) {
        // SAFETY: mimalloc passes a string that ends with a NUL, and the pointer that it was given.
        // Nothing else uses the pointer's string during the call.
        unsafe { (*out.cast::<String>()).push_str(&CStr::from_ptr(text).to_string_lossy()) }
    }
    let mut text = String::with_capacity(16 << 10);
    // SAFETY: `append` is called with this pointer before the function returns, and never later.
    unsafe { mi_stats_print_out(Some(append), (&raw mut text).cast()) }
    text
}

/// mimalloc, with a count of the bytes in use.
struct Counting;

/// Maximum size of a block that shares a page with blocks of its size class.
const CLASS_MAX: usize = 512 << 10;

/// Returns the number of bytes that a block for `size` bytes occupies.
#[inline]
fn class(size: usize) -> i64 {
    let bytes = if size <= 8 {
        8
    } else if size <= 64 {
        (size + 15) & !15
    } else if size <= CLASS_MAX {
        // Four classes for each power of two.
        let shift = (size - 1).ilog2() - 2;
        ((size - 1) >> shift).wrapping_add(1) << shift
    } else {
        size.wrapping_add(4095) & !4095
    };
    bytes as i64
}

/// Returns true if mimalloc gives every block of this size the layout's alignment. mimalloc's
/// aligned functions request `align - 1` more bytes, so a block of exactly a class's size above 4
/// KiB would take the next class.
#[inline]
const fn is_aligned_anyway(layout: Layout) -> bool {
    layout.align() <= size_of::<usize>() && layout.align() <= layout.size()
}

impl Counting {
    #[inline]
    fn count(block: *mut u8, bytes: i64) {
        // The allocation may fail, for example for a huge size that a client requests.
        if !block.is_null() {
            counters::add(bytes);
        }
    }

    #[inline]
    fn count_freed(size: usize) {
        FREED_BYTES.set(FREED_BYTES.get().wrapping_add(size as u64));
    }
}

// SAFETY: every call passes its arguments to mimalloc unchanged, except for an alignment that every
// block has. So the contract holds. Counting allocates nothing and cannot panic.
unsafe impl GlobalAlloc for Counting {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the same contract; `mi_malloc` takes any size.
        let block = unsafe {
            if is_aligned_anyway(layout) {
                mi_malloc(layout.size()).cast()
            } else {
                MiMalloc.alloc(layout)
            }
        };
        Self::count(block, class(layout.size()));
        block
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the same contract; `mi_zalloc` takes any size.
        let block = unsafe {
            if is_aligned_anyway(layout) {
                mi_zalloc(layout.size()).cast()
            } else {
                MiMalloc.alloc_zeroed(layout)
            }
        };
        Self::count(block, class(layout.size()));
        block
    }

    #[inline]
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        Self::count_freed(layout.size());
        counters::add(-class(layout.size()));
        // SAFETY: the caller upholds the same contract.
        unsafe { MiMalloc.dealloc(ptr, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // A block that stays in place is counted as freed too, so memory is returned slightly
        // earlier.
        Self::count_freed(layout.size());
        // SAFETY: the caller upholds the same contract.
        let block = unsafe { MiMalloc.realloc(ptr, layout, new_size) };
        Self::count(block, class(new_size) - class(layout.size()));
        block
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

    fn classes_equal_those_of_mimalloc() {
        let mut sizes: Vec<usize> = (1..5_000).collect();
        sizes.extend((5_000..CLASS_MAX).step_by(977));
        sizes.extend((10..20).map(|bits| 1 << bits));
        for size in sizes {
            // SAFETY: the function takes no pointer.
            let bytes = unsafe { libmimalloc_sys::mi_good_size(size) };
            assert_eq!(class(size), bytes as i64, "{size}");
        }
    }

    /// Checks the count for live blocks against mimalloc's own figures, after many changes of
    /// sizes.
    fn the_count_is_near_mimallocs_count() {
        let (mut live, mut counted, mut random) = (Vec::new(), 0, 1_u64);
        for round in 0..300_000_usize {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let number = (random >> 33) as usize;
            let size = 1 << (3 + number % 12);
            let size = size + number / 16 % size;
            let align = if number.is_multiple_of(5) { 64 } else { 8 };
            let layout = Layout::from_size_align(size, align).unwrap();
            // SAFETY: each block is freed or changed once, with the layout that it has at that
            // time.
            unsafe {
                if live.len() < 2_000 || round % 3 == 0 {
                    counted += class(size);
                    live.push((MiMalloc.alloc(layout), layout));
                } else {
                    let at = number / 7 % live.len();
                    let (block, old): (*mut u8, Layout) = live.swap_remove(at);
                    counted -= class(old.size());
                    if round % 3 == 1 {
                        counted += class(size);
                        let layout = Layout::from_size_align(size, old.align()).unwrap();
                        live.push((MiMalloc.realloc(block, old, size), layout));
                    } else {
                        MiMalloc.dealloc(block, old);
                    }
                }
            }
        }
        // SAFETY: the blocks are live, and are freed with their layouts.
        let truth: i64 = live
            .iter()
            .map(|(block, _)| unsafe { libmimalloc_sys::mi_usable_size(block.cast()) as i64 })
            .sum();
        let off = (counted - truth).abs() as f64 / truth as f64;
        assert!(off < 0.03, "{counted} counted, {truth} in use");
        for (block, layout) in live {
            // SAFETY: as above.
            unsafe { MiMalloc.dealloc(block, layout) }
        }
    }

    /// The checks are one test, because two of them measure the memory of the whole process.
    #[test]
    fn memory_is_counted_and_returned() {
        memory_freed_by_another_thread_is_returned();
        classes_equal_those_of_mimalloc();
        the_count_is_near_mimallocs_count();
        #[cfg(target_os = "linux")]
        huge_pages::tests::full_ranges_become_huge_and_are_split_when_pages_are_returned();
    }

    /// Also checks the numbers of the options, which may change with mimalloc's version.
    fn memory_freed_by_another_thread_is_returned() {
        assert_eq!(_mi_option_last, 47);
        // SAFETY: the function takes no pointer.
        let value_of = |option| unsafe { mi_option_get(option) };
        assert_eq!(
            (value_of(PURGE_DELAY), value_of(PAGE_MAX_RECLAIM)),
            (1000, -1)
        );
        configure();
        assert_eq!(
            (value_of(PURGE_DELAY), value_of(PAGE_MAX_RECLAIM)),
            (NEVER_MS, PAGES_MAX)
        );

        let start = resident_mib();
        let mut values: Vec<Box<[u8; 100]>> = (0..400_000).map(|_| Box::new([1; 100])).collect();
        // Freeing blocks of all pages makes this thread adopt as many pages as the limit allows.
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
        // Only a few pages of this thread stay, for a heap of any size.
        let left = resident_mib();
        assert!(left <= start + 6, "{start} MiB, {full} MiB, {left} MiB");
        collect();
        thread::spawn(purge).join().unwrap();
        let end = resident_mib();
        assert!(end <= left, "{left} MiB, {end} MiB");
    }
}
