//! Counters of the bytes that the program's allocator has handed out.
//!
//! Ground rules: the allocator calls [`add`] for each block, with the size of the block's class.
//! Each event loop owns a counter, which it alone writes, so that counting costs a load and a
//! store; all other threads share some counters. A block may be freed by another thread than the
//! one that has allocated it, so a counter alone means nothing; the sum of all is the bytes in use.
//! A counter keeps its value when its thread ends.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};

/// Counters that threads without one of their own share.
const SHARED: u32 = 8;
/// Number of counters.
const COUNTERS: usize = 256;

/// A counter on cache lines of its own; processors fetch them in pairs.
#[repr(align(128))]
struct Counter {
    bytes: AtomicI64,
    owned: AtomicBool,
}

static ALL: [Counter; COUNTERS] = [const {
    Counter {
        bytes: AtomicI64::new(0),
        owned: AtomicBool::new(false),
    }
}; COUNTERS];
/// Number of counters that have been used.
static USED: AtomicU32 = AtomicU32::new(SHARED);
/// The next shared counter.
static NEXT: AtomicU32 = AtomicU32::new(0);
/// Whether the program's allocator counts.
static COUNTS: AtomicBool = AtomicBool::new(false);

/// The thread has no counter yet.
const NONE: u32 = u32::MAX;

thread_local! {
    /// Number of the thread's counter. It has no destructor, so it exists as long as the thread
    /// allocates.
    static OWN: Cell<u32> = const { Cell::new(NONE) };
}

/// Adds to the bytes in use; `bytes` is negative for a block that is freed.
#[inline]
pub fn add(bytes: i64) {
    let number = OWN.get();
    if (SHARED..COUNTERS as u32).contains(&number) {
        let counter = &ALL[number as usize].bytes;
        counter.store(
            counter.load(Ordering::Relaxed).wrapping_add(bytes),
            Ordering::Relaxed,
        );
    } else {
        add_shared(number, bytes);
    }
}

#[cold]
#[inline(never)]
fn add_shared(mut number: u32, bytes: i64) {
    if number == NONE {
        number = NEXT.fetch_add(1, Ordering::Relaxed) % SHARED;
        OWN.set(number);
    }
    ALL[number as usize]
        .bytes
        .fetch_add(bytes, Ordering::Relaxed);
}

/// Declares that the program's allocator counts. Called before the server starts.
pub fn enable() {
    COUNTS.store(true, Ordering::Relaxed);
}

/// Returns the bytes in use, or `None` if the allocator does not count. O(loops).
pub fn used() -> Option<u64> {
    if !COUNTS.load(Ordering::Relaxed) {
        return None;
    }
    let used = &ALL[..USED.load(Ordering::Relaxed) as usize];
    let bytes: i64 = used.iter().map(|c| c.bytes.load(Ordering::Relaxed)).sum();
    // A block may be counted where it is freed before it is counted where it was allocated.
    Some(u64::try_from(bytes).unwrap_or(0))
}

/// A counter of the current thread's own, until this is dropped.
pub(crate) struct OwnCounter(&'static Counter);

impl OwnCounter {
    /// Takes a counter for the current thread, or shares one if all are taken.
    pub(crate) fn take() -> Option<Self> {
        let free = |counter: &&Counter| !counter.owned.swap(true, Ordering::Relaxed);
        let mut own = (0..).zip(&ALL).skip(SHARED as usize);
        let (number, counter) = own.find(|(_, counter)| free(counter))?;
        USED.fetch_max(number + 1, Ordering::Relaxed);
        OWN.set(number);
        Some(Self(counter))
    }
}

impl Drop for OwnCounter {
    fn drop(&mut self) {
        OWN.set(NONE);
        // The next owner sees the last value.
        self.0.owned.store(false, Ordering::Release);
    }
}

/// Returns the value of the current thread's counter, which grows with what the thread allocates.
#[inline]
pub(crate) fn own() -> i64 {
    let number = OWN.get() as usize;
    ALL.get(number)
        .map_or(0, |counter| counter.bytes.load(Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_right_whoever_frees() {
        // No allocator counts in this program, and no other test calls `add`.
        let before: i64 = ALL.iter().map(|c| c.bytes.load(Ordering::Relaxed)).sum();
        std::thread::scope(|scope| {
            for n in 0..12 {
                scope.spawn(move || {
                    let own = (n % 2 == 0).then(OwnCounter::take);
                    for _ in 0..1_000 {
                        add(100);
                        add(-60);
                    }
                    drop(own);
                    add(1);
                });
            }
        });
        add(-12 * 40_000);
        let after: i64 = ALL.iter().map(|c| c.bytes.load(Ordering::Relaxed)).sum();
        assert_eq!(after - before, 12);
    }
}
