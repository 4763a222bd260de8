//! Rounds that return freed memory to the system, and the worker that frees large values.
//!
//! The allocator keeps freed pages: `free` never returns them to the system, because that would
//! stall the calling loop. Instead, a loop that has freed [`round_threshold_bytes`] sets a timer of
//! the server's clock, which begins a *round*. In a round each loop collects its own pages whose
//! blocks other threads have freed. The last loop to finish submits [`Job::Purge`], and the worker
//! thread `punctual-free` returns all free pages to the system, and makes huge pages of memory that
//! is in full use. So a loop that has allocated much begins a round as well. No loop waits for the
//! worker.
//!
//! The worker exists while its queue has jobs. It also drops flushed databases and large values.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use punctual_store::Discarded;

use crate::config::HugePages;
use crate::memory::reclaim::{Job, Reclaim, Share};
use crate::node::Shared;
use crate::node::order::Order;
use crate::world::process;

/// Minimum number of freed bytes that start a round, over all loops.
const FREED_MIN: u64 = 1 << 20;
/// Minimum number of allocated bytes that start a round, over all loops.
const GROWN_MIN: u64 = 16 << 20;
/// Pause after each new huge page. In the pause, the loops that waited for its memory go on.
const PAUSE: Duration = Duration::from_millis(1);
/// Divisor of the resident memory: in a large server, `resident / RESIDENT_PART` bytes start a
/// round.
const RESIDENT_PART: u64 = 16;
/// Maximum number of keys and elements that a loop drops itself, which takes well under a
/// millisecond.
const DROPPED_AT_ONCE: usize = 10_000;

impl Shared {
    /// Sets the allocator's functions, and the policy for huge pages.
    pub(crate) fn set_allocator(&mut self, reclaim: Option<Reclaim>, huge_pages: HugePages) {
        self.reclaim = reclaim;
        if let Some(reclaim) = reclaim {
            (reclaim.set_huge_pages)(huge_pages);
            self.worker.merges = huge_pages == HugePages::Merged;
        }
    }
}

/// Drops flushed databases and large values; the worker drops them if they have many elements.
pub(crate) fn discard(shared: &Arc<Shared>, discarded: Discarded) {
    if discarded.elements_to_free() > DROPPED_AT_ONCE {
        let objects = discarded.objects() as u64;
        let dropping = &shared.memory.dropping;
        dropping.fetch_add(discarded.evicted_bytes() as u64, Ordering::Relaxed);
        let pending = &shared.worker.pending_objects;
        pending.fetch_add(objects, Ordering::Relaxed);
        submit(shared, Job::Drop(discarded));
    } else {
        let freed = &shared.worker.freed_objects;
        freed.fetch_add(discarded.values() as u64, Ordering::Relaxed);
    }
}

/// Reports to loop 0 the bytes that the calling thread, which is not a loop, has freed since its
/// count was `before`.
pub(crate) fn report_freed(shared: &Shared, before: u64) {
    if let Some(reclaim) = shared.reclaim {
        let bytes = (reclaim.freed_bytes)() - before;
        shared.mailboxes[0].order(Order::Freed(bytes));
    }
}

/// Returns the number of bytes that one loop must free before it begins a round.
pub(crate) fn round_threshold_bytes(shared: &Shared) -> u64 {
    let resident = shared.worker.resident.load(Ordering::Relaxed);
    (resident / RESIDENT_PART).max(FREED_MIN) / shared.mailboxes.len() as u64
}

/// Returns the number of bytes by which one loop must grow before it begins a round, so that the
/// round merges them into huge pages.
pub(crate) fn growth_threshold_bytes(shared: &Shared) -> i64 {
    if !shared.worker.merges {
        return i64::MAX;
    }
    let resident = shared.worker.resident.load(Ordering::Relaxed);
    (resident / RESIDENT_PART).max(GROWN_MIN) as i64 / shared.mailboxes.len() as i64
}

/// Begins a round. Returns false if one is already in progress.
pub(crate) fn begin_round(shared: &Arc<Shared>) -> bool {
    if shared.worker.in_round.swap(true, Ordering::AcqRel) {
        return false;
    }
    let share = Share::default();
    for mailbox in &shared.mailboxes {
        mailbox.order(Order::Collect(Arc::clone(&share)));
    }
    end_share(shared, share);
    true
}

/// Ends a loop's part of a round. After the last part, the worker returns the memory to the system.
pub(crate) fn end_share(shared: &Arc<Shared>, share: Share) {
    if Arc::into_inner(share).is_some() {
        submit(shared, Job::Purge);
    }
}

fn submit(shared: &Arc<Shared>, job: Job) {
    let mut queue = shared.worker.queue.lock();
    queue.jobs.push_back(job);
    if std::mem::replace(&mut queue.has_thread, true) {
        return;
    }
    drop(queue);
    let worker = Arc::clone(shared);
    let thread = shared.world.spawn("punctual-free", move || work(&worker));
    if thread.is_err() {
        // No thread can be started, so the calling thread does the work.
        work(shared);
    }
}

/// Runs the jobs in the queue until it is empty.
fn work(shared: &Shared) {
    let worker = &shared.worker;
    loop {
        let mut queue = worker.queue.lock();
        let Some(job) = queue.jobs.pop_front() else {
            queue.has_thread = false;
            return;
        };
        drop(queue);
        match (job, shared.reclaim) {
            (Job::Drop(discarded), reclaim) => {
                let objects = discarded.objects() as u64;
                let before = reclaim.map_or(0, |reclaim| (reclaim.freed_bytes)());
                let evicted = discarded.evicted_bytes() as u64;
                drop(discarded);
                shared.memory.dropping.fetch_sub(evicted, Ordering::Relaxed);
                worker.pending_objects.fetch_sub(objects, Ordering::Relaxed);
                worker.freed_objects.fetch_add(objects, Ordering::Relaxed);
                report_freed(shared, before);
            }
            (Job::Purge, reclaim) => {
                if let Some(reclaim) = reclaim {
                    (reclaim.purge)();
                    (reclaim.merge)(&|| shared.world.sleep(PAUSE));
                }
                worker
                    .resident
                    .store(process::memory().0, Ordering::Relaxed);
                worker.in_round.store(false, Ordering::Release);
            }
        }
    }
}
