//! A shard: a queue of alarms under its own lock, and the earliest deadline in an atomic.
//!
//! A thread always arms in the same shard, so two threads rarely contend for a lock. The driver's
//! thread takes the lock only when an alarm of the shard may be due. `next` is written under the
//! lock and read without it.

use core::cell::Cell;
use core::mem::ManuallyDrop;
use std::sync::atomic::AtomicU32;
use std::vec::Vec;

use super::sync::{AtomicU64, Mutex, MutexGuard, Ordering, lock, try_lock};
use super::{Alarm, Fired, Handle};
use crate::queue::wheel::Wheel;
use crate::queue::{Polled, TimerKey};

/// Maximum number of entries that [`Shard::fire`] pops or moves while it holds the lock once.
const BATCH: usize = 64;

/// Number of times that the driver's thread yields the processor to let a waiting thread take the
/// lock. Together these yields usually take less than a tenth of a millisecond.
const YIELDS_MAX: u32 = 100;

/// Maximum number of entries, including dead entries, for which the driver finds the exact earliest
/// deadline. With more entries it uses a lower bound: to find the exact deadline, the wheel may
/// have to open a slot with nearly all entries, while arming threads wait for the lock. The lower
/// bound costs a few more wake-ups per hour, each of which moves one batch.
const EXACT_MAX: usize = 1_000;

/// Aligned to two cache lines, because processors fetch cache lines in pairs.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Shard<A> {
    /// A lower bound of the earliest deadline, or `u64::MAX` if the queue is known to be empty.
    /// After an alarm was disarmed, the bound may be too early, which costs the driver one useless
    /// check.
    next: AtomicU64,
    queue: Mutex<Wheel<A>>,
    /// Number of threads that wait for the lock. The driver's thread reads it to yield the lock.
    waiting: AtomicU64,
}

impl<A: Alarm> Shard<A> {
    pub(super) fn new() -> Self {
        Shard {
            next: AtomicU64::new(u64::MAX),
            queue: Mutex::new(Wheel::new()),
            waiting: AtomicU64::new(0),
        }
    }

    /// Locks the queue. Counts the thread as waiting if the lock blocks it.
    #[inline]
    fn enter(&self) -> MutexGuard<'_, Wheel<A>> {
        match try_lock(&self.queue) {
            Some(queue) => queue,
            None => self.wait(),
        }
    }

    #[cold]
    fn wait(&self) -> MutexGuard<'_, Wheel<A>> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let queue = lock(&self.queue);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        queue
    }

    /// Yields the processor, at most [`YIELDS_MAX`] times, until a waiting thread has taken the
    /// lock. Otherwise the driver's thread would lock again before the waiting thread wakes up, and
    /// that thread would wait until all due alarms have fired.
    pub(super) fn yield_lock(&self) {
        // Loom models need no fairness.
        if cfg!(all(test, loom)) {
            return;
        }
        let waiting = self.waiting.load(Ordering::Relaxed);
        for _ in 0..YIELDS_MAX {
            if self.waiting.load(Ordering::Relaxed) != waiting || waiting == 0 {
                return;
            }
            std::thread::yield_now();
        }
    }

    /// Returns a lower bound of the earliest deadline.
    pub(super) fn next(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// Arms an alarm. Returns its handle, and whether the alarm is the earliest of the shard, so
    /// that the caller may have to wake the driver's thread.
    #[inline(always)]
    pub(super) fn arm(&self, shard: u32, deadline: u64, alarm: ManuallyDrop<A>) -> (Handle, bool) {
        let mut queue = self.enter();
        let alarm = ManuallyDrop::into_inner(alarm);
        let handle = insert(&mut queue, shard, deadline, alarm);
        (handle, self.publish(deadline))
    }

    #[inline]
    pub(super) fn disarm(&self, key: TimerKey) -> Option<A> {
        self.enter().remove(key)
    }

    /// Disarms an alarm for which the driver's thread could not be started, and resets `next` if
    /// the queue is empty.
    pub(super) fn withdraw(&self, key: TimerKey) -> Option<A> {
        let mut queue = lock(&self.queue);
        let alarm = queue.remove(key);
        if queue.is_empty() {
            self.next.store(u64::MAX, Ordering::Relaxed);
        }
        alarm
    }

    /// Re-arms an alarm. Returns whether the alarm is the earliest of the shard now, or `None` if
    /// the key is stale.
    #[inline]
    pub(super) fn rearm(&self, key: TimerKey, deadline: u64) -> Option<bool> {
        let mut queue = self.enter();
        queue.reset(key, deadline).then(|| self.publish(deadline))
    }

    #[inline]
    pub(super) fn with<R>(&self, key: TimerKey, f: impl FnOnce(&mut A) -> R) -> Option<R> {
        self.enter().get_mut(key).map(f)
    }

    pub(super) fn len(&self) -> usize {
        self.enter().len()
    }

    pub(super) fn next_deadline(&self) -> Option<u64> {
        self.enter().next_deadline()
    }

    /// Fires due alarms, at most a batch. Returns false if more alarms may be due, or if the queue
    /// has more memory to free.
    pub(super) fn fire(&self, shard: u32, now: u64, jobs: &mut Vec<A::Job>) -> bool {
        let mut queue = lock(&self.queue);
        let mut budget = BATCH;
        loop {
            match queue.poll_due(now, &mut budget) {
                Polled::Due(expired) => {
                    let (due, alarm) = (expired.deadline, expired.value);
                    fire(&mut queue, shard, due, now, alarm, jobs);
                }
                Polled::Busy => return false,
                // The queue freed a piece of memory, and has more to free.
                Polled::Idle if queue.has_memory_to_free() => return false,
                Polled::Idle => {
                    let next = if queue.entries() <= EXACT_MAX {
                        queue.next_deadline()
                    } else {
                        queue.next_wakeup()
                    };
                    self.next.store(next.unwrap_or(u64::MAX), Ordering::Relaxed);
                    return true;
                }
            }
        }
    }

    /// Fires the first due alarm. Returns false if no alarm is due.
    pub(super) fn fire_one(&self, shard: u32, now: u64, jobs: &mut Vec<A::Job>) -> bool {
        let mut queue = lock(&self.queue);
        let Some(expired) = queue.pop_due(now) else {
            return false;
        };
        let (due, alarm) = (expired.deadline, expired.value);
        fire(&mut queue, shard, due, now, alarm, jobs);
        true
    }

    /// Lowers `next` to `deadline` if that is earlier, and returns whether it is. The caller holds
    /// the lock.
    fn publish(&self, deadline: u64) -> bool {
        let earliest = deadline < self.next.load(Ordering::Relaxed);
        if earliest {
            self.next.store(deadline, Ordering::Relaxed);
        }
        earliest
    }
}

#[inline(always)]
fn insert<A: Alarm>(queue: &mut Wheel<A>, shard: u32, deadline: u64, alarm: A) -> Handle {
    let key = queue.insert(deadline, alarm);
    let handle = Handle::new(key, shard);
    if let Some(alarm) = queue.get_mut(key) {
        alarm.armed(handle);
    }
    handle
}

fn fire<A: Alarm>(
    queue: &mut Wheel<A>,
    shard: u32,
    due: u64,
    now: u64,
    mut alarm: A,
    jobs: &mut Vec<A::Job>,
) {
    match alarm.fire(due, now) {
        Fired::Done => {}
        Fired::Do(job) => jobs.push(job),
        // The tick must be later than `now`, or the batch would never end.
        Fired::Again(deadline) => {
            insert(queue, shard, deadline.max(now.saturating_add(1)), alarm);
        }
    }
}

/// Returns the number of the calling thread, which selects the thread's shard. Threads are numbered
/// in the order of their first calls.
#[inline]
pub(super) fn thread_number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    const NONE: u32 = u32::MAX;
    std::thread_local! {
        static NUMBER: Cell<u32> = const { Cell::new(NONE) };
    }
    NUMBER.with(|number| {
        if number.get() == NONE {
            // After four billion threads the numbers repeat, which only makes threads share a
            // shard.
            number.set(NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % NONE);
        }
        number.get()
    })
}
