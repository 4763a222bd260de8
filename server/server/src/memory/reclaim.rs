//! State for the return of freed memory to the system (the work is done in `reclaim/`).
//!
//! - A worker thread drops large objects one after the other.
//! - A loop that has freed much memory arms a timer. When the timer fires, a round begins: every
//!   loop collects its own pages whose blocks other threads have freed, and the last loop makes the
//!   worker return the free pages of all threads.
//! - No loop blocks while the system takes memory back, except the loop that runs MEMORY PURGE.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use parking_lot::Mutex;
use punctual_store::Discarded;

use crate::config::HugePages;

/// Time for which freed memory stays with the allocator for new values, in ms.
pub(crate) const DELAY_MS: u64 = 1_000;

/// Functions of an allocator that returns memory to the system on request.
#[derive(Clone, Copy, Debug)]
pub struct Reclaim {
    /// Bytes that the calling thread has freed since it started.
    pub freed_bytes: fn() -> u64,
    /// Frees the pages of the calling thread whose last blocks other threads have freed. Event
    /// loops call this function, so it must be fast.
    pub collect: fn(),
    /// Returns the free pages of all threads to the system. O(free pages).
    pub purge: fn(),
    /// Sets the process's policy for huge pages.
    pub set_huge_pages: fn(HugePages),
    /// With [`HugePages::Merged`], makes huge pages of memory that is in full use, and splits huge
    /// pages of which a part was returned. Calls its argument after each huge page, to let other
    /// threads run. O(pages of the process).
    pub merge: fn(&dyn Fn()),
    /// Returns the allocator's statistics as text.
    pub statistics: fn() -> String,
}

/// A loop's share of a round. The loop that drops the last share ends the round.
pub(crate) type Share = Arc<()>;

pub(crate) enum Job {
    Drop(Discarded),
    Purge,
}

/// State of the worker thread, which exists only while there are jobs.
#[derive(Default)]
pub(crate) struct Worker {
    pub(crate) queue: Mutex<Queue>,
    /// Number of objects that the worker has yet to drop.
    pub(crate) pending_objects: AtomicU64,
    /// Number of dropped objects: objects that the worker has dropped, and large values that loops
    /// have dropped at the end of a turn.
    pub(crate) freed_objects: AtomicU64,
    /// A round is in progress.
    pub(crate) in_round: AtomicBool,
    /// True if each round makes huge pages ([`HugePages::Merged`]).
    pub(crate) merges: bool,
    /// Resident bytes after the last round.
    pub(crate) resident: AtomicU64,
}

#[derive(Default)]
pub(crate) struct Queue {
    pub(crate) jobs: VecDeque<Job>,
    pub(crate) has_thread: bool,
}
