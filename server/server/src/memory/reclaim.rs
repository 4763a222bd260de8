//! Return of freed memory to the system.
//!
//! - A worker thread drops large objects one after another.
//! - A loop that has freed much memory arms a timer. When it fires, a round begins: every loop
//!   collects its free pages in a bounded step, and the last one makes the worker return the free
//!   pages of all threads.
//! - No loop blocks while the system takes memory back, except the loop that runs MEMORY PURGE.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use parking_lot::Mutex;
use punctual_store::Discarded;

/// Time for which freed memory stays with the allocator for new values, in ms.
pub(crate) const DELAY_MS: u64 = 1_000;

/// Functions of an allocator that returns memory to the system on request.
#[derive(Clone, Copy, Debug)]
pub struct Reclaim {
    /// Bytes that the calling thread has freed since it started.
    pub freed_bytes: fn() -> u64,
    /// Frees the pages of the calling thread whose last blocks other threads have freed. Event
    /// loops call it, so it must be fast.
    pub collect: fn(),
    /// Returns the free pages of all threads to the system. O(free pages).
    pub purge: fn(),
    /// Returns the allocator's statistics as text.
    pub statistics: fn() -> String,
}

/// A loop's part in a round.
pub(crate) type Share = Arc<()>;

pub(crate) enum Job {
    Drop(Discarded),
    Purge,
}

/// State of the worker thread, which exists while there are jobs.
#[derive(Default)]
pub(crate) struct Worker {
    pub(crate) queue: Mutex<Queue>,
    /// Number of objects that wait to be dropped.
    pub(crate) pending_objects: AtomicU64,
    /// Number of objects that the worker has dropped, and of large values that the loops have
    /// dropped after a turn.
    pub(crate) freed_objects: AtomicU64,
    /// A round is in progress.
    pub(crate) in_round: AtomicBool,
    /// Resident bytes after the last round.
    pub(crate) resident: AtomicU64,
}

#[derive(Default)]
pub(crate) struct Queue {
    pub(crate) jobs: VecDeque<Job>,
    pub(crate) has_thread: bool,
}
