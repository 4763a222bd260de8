//! Counters of the bytes that the program's allocator has handed out.
//!
//! Ground rules: the allocator calls [`add`] for each block, with the block's size rounded up as
//! the allocator does. Each event loop owns a counter that only one thread writes at a time, so
//! counting costs one load and one store. (A thread that runs the loop's work instead of the loop
//! has the counter as `Borrowed`.) All other threads share a few counters. One thread may free a
//! block that another thread has allocated, so a single counter has no meaning; the sum of all
//! counters is the number of bytes in use. A counter keeps its value when its thread ends.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};

/// Number of counters for threads without their own counter, which share them.
const SHARED: u32 = 8;
/// Total number of counters.
const COUNTERS: usize = 256;

/// A counter on its own pair of cache lines, because processors fetch lines in pairs.
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
/// Number of counters at the start of [`ALL`] that have been used.
static USED: AtomicU32 = AtomicU32::new(SHARED);
/// Number of threads that were given a shared counter.
static NEXT: AtomicU32 = AtomicU32::new(0);
/// True if the program's allocator calls [`add`].
static COUNTS: AtomicBool = AtomicBool::new(false);

/// Replaces the sum of the counters if several servers with counts of their own share a process.
static SOURCE: OnceLock<fn() -> u64> = OnceLock::new();

/// Value of [`OWN`] for a thread without a counter.
const NONE: u32 = u32::MAX;

thread_local! {
    /// Number of the thread's counter. The variable has no destructor, so it exists as long as the
    /// thread allocates.
    static OWN: Cell<u32> = const { Cell::new(NONE) };
}

/// Adds to the bytes in use. `bytes` is negative for a block that is freed.
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

/// Declares that the program's allocator counts. Must be called before the server starts.
pub fn enable() {
    COUNTS.store(true, Ordering::Relaxed);
}

/// Same as [`enable`], for a process with several servers: `used` returns the bytes in use by the
/// server to which the calling thread belongs. The first call counts.
pub fn enable_with(used: fn() -> u64) {
    let _ = SOURCE.set(used);
    enable();
}

/// Returns the bytes in use, or `None` if the allocator does not count. O(counters in use).
pub fn used() -> Option<u64> {
    if !COUNTS.load(Ordering::Relaxed) {
        return None;
    }
    if let Some(source) = SOURCE.get() {
        return Some(source());
    }
    let used = &ALL[..USED.load(Ordering::Relaxed) as usize];
    let bytes: i64 = used.iter().map(|c| c.bytes.load(Ordering::Relaxed)).sum();
    // The sum may be negative for a moment: this thread may see that a block was freed before it
    // sees that the block was allocated.
    Some(u64::try_from(bytes).unwrap_or(0))
}

/// Reserves a counter for the current thread, until this value is dropped.
pub(crate) struct OwnCounter(&'static Counter);

impl OwnCounter {
    /// Reserves a counter for the current thread. Returns `None` if all are reserved; then the
    /// thread uses a shared counter.
    pub(crate) fn take() -> Option<Self> {
        // Pairs with the release of the last owner, so that `add` continues from its last value.
        let free = |counter: &&Counter| !counter.owned.swap(true, Ordering::Acquire);
        let mut own = (0..).zip(&ALL).skip(SHARED as usize);
        let (number, counter) = own.find(|(_, counter)| free(counter))?;
        USED.fetch_max(number + 1, Ordering::Relaxed);
        OWN.set(number);
        Some(Self(counter))
    }

    /// Returns the number of the counter, for [`Borrowed`].
    pub(crate) fn number(&self) -> u32 {
        OWN.get()
    }
}

impl Drop for OwnCounter {
    fn drop(&mut self) {
        OWN.set(NONE);
        self.0.owned.store(false, Ordering::Release);
    }
}

/// Makes the current thread count on the counter with this number, until this value is dropped. The
/// counter's own thread must not allocate meanwhile.
pub(crate) struct Borrowed(u32);

impl Borrowed {
    pub(crate) fn new(number: u32) -> Self {
        Self(OWN.replace(number))
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        OWN.set(self.0);
    }
}

/// Returns the value of the current thread's counter.
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
        // The allocator of this test program does not call `add`, and neither do other tests.
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
