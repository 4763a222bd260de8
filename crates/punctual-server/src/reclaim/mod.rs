//! Freed memory on its way back to the system.
//!
//! - A worker drops what takes long to drop, one thing after another.
//! - A loop that has freed much arms a timer. When it fires, a round begins: every loop collects its free pages, a
//!   bounded step, and the last one asks the worker to return the free pages of all threads.
//! - No loop waits while the system takes memory back. Only MEMORY PURGE does that where it runs.

pub(crate) mod rounds;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use parking_lot::Mutex;
use punctual_store::Discarded;

/// How long freed memory stays with the allocator, for the next values.
pub(crate) const DELAY_MS: u64 = 1_000;

/// An allocator that returns memory to the system when it is asked to.
#[derive(Clone, Copy, Debug)]
pub struct Reclaim {
    /// Bytes that the calling thread has freed since it started.
    pub freed_bytes: fn() -> u64,
    /// Makes the calling thread's pages free in which other threads have freed the last blocks. Event loops call it, so
    /// it must take little time.
    pub collect: fn(),
    /// Returns the free pages of all threads to the system. O(free pages).
    pub purge: fn(),
}

/// A loop's part in a round.
pub(crate) type Share = Arc<()>;

pub(crate) enum Job {
    Drop(Discarded),
    Purge,
}

/// A thread that exists while there are jobs.
#[derive(Default)]
pub(crate) struct Worker {
    pub(super) queue: Mutex<Queue>,
    /// Objects that wait to be dropped.
    pub(crate) pending_objects: AtomicU64,
    /// Objects that the worker has dropped.
    pub(crate) freed_objects: AtomicU64,
    /// A round has begun and has not ended.
    pub(super) in_round: AtomicBool,
    /// Resident bytes after the last round.
    pub(super) resident: AtomicU64,
}

#[derive(Default)]
pub(crate) struct Queue {
    pub(super) jobs: VecDeque<Job>,
    pub(super) has_thread: bool,
}
