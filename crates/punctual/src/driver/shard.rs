//! A shard: a queue of alarms under its own lock, with the earliest deadline in an atomic.
//!
//! A thread always arms in the same shard, so two threads rarely contend for a lock. The driver
//! takes the lock only when an alarm of the shard is due. `next` is written under the lock and read
//! without it.

use core::cell::Cell;
use core::mem::ManuallyDrop;
use std::sync::atomic::AtomicU32;
use std::vec::Vec;

use super::sync::{AtomicU64, Mutex, MutexGuard, Ordering, lock, try_lock};
use super::{Alarm, Fired, Handle};
use crate::queue::wheel::Wheel;
use crate::queue::{Polled, TimerKey};

/// Number of entries that are popped or moved under one lock.
const BATCH: usize = 64;

/// Number of checks by the driver's thread whether a waiting thread got the lock: a tenth of a
/// millisecond at most.
const PATIENCE: u32 = 100;

/// Number of entries, dead ones included, above which the driver uses a lower bound of the earliest
/// deadline. The exact deadline may require a wheel to open a slot with nearly all of them, while
/// arming threads wait for the lock. The bound costs a few more wake-ups per hour, each of which
/// moves one batch.
const EXACT: usize = 1_000;

/// Two cache lines: processors fetch them in pairs.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Shard<A> {
    /// A lower bound of the earliest deadline; `u64::MAX` if the queue is known to be empty. After
    /// a timer was disarmed it may be too early, which costs the driver one useless check.
    next: AtomicU64,
    queue: Mutex<Wheel<A>>,
    /// Number of threads that wait for the lock. A hint for the driver's thread, which yields to
    /// them.
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

    /// Locks the queue, and counts the thread as waiting if that blocks.
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

    /// Yields the lock to a waiting thread. Without this, the driver's thread would relock before
    /// the waiting thread wakes up, and that thread would wait until all due alarms have fired.
    pub(super) fn yield_lock(&self) {
        // Models do not need it.
        if cfg!(all(test, loom)) {
            return;
        }
        let waiting = self.waiting.load(Ordering::Relaxed);
        for _ in 0..PATIENCE {
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

    /// Arms an alarm. Returns its handle, and true if it is the earliest, so that the driver may
    /// need to be woken.
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

    /// Disarms an alarm for which no thread could be started, and resets `next` if the queue is
    /// empty.
    pub(super) fn withdraw(&self, key: TimerKey) -> Option<A> {
        let mut queue = lock(&self.queue);
        let alarm = queue.remove(key);
        if queue.is_empty() {
            self.next.store(u64::MAX, Ordering::Relaxed);
        }
        alarm
    }

    /// Re-arms an alarm. Returns whether it is the earliest now, or `None` if the key is stale.
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

    /// Fires due alarms, at most a batch. Returns false if more may be due.
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
                // The queue freed a piece of memory, and more is waiting.
                Polled::Idle if queue.has_memory_to_free() => return false,
                Polled::Idle => {
                    let next = if queue.entries() <= EXACT {
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

    /// Fires the first due alarm. Returns false if none is due.
    pub(super) fn fire_one(&self, shard: u32, now: u64, jobs: &mut Vec<A::Job>) -> bool {
        let mut queue = lock(&self.queue);
        let Some(expired) = queue.pop_due(now) else {
            return false;
        };
        let (due, alarm) = (expired.deadline, expired.value);
        fire(&mut queue, shard, due, now, alarm, jobs);
        true
    }

    /// Lowers `next` to `deadline`, under the lock. Returns whether it changed.
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
        // A later tick than `now`, or the batch would never end.
        Fired::Again(deadline) => {
            insert(queue, shard, deadline.max(now.saturating_add(1)), alarm);
        }
    }
}

/// Returns the number of the calling thread, assigned in sequence; it selects the thread's shard.
#[inline]
pub(super) fn thread_number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    const NONE: u32 = u32::MAX;
    std::thread_local! {
        static NUMBER: Cell<u32> = const { Cell::new(NONE) };
    }
    NUMBER.with(|number| {
        if number.get() == NONE {
            // May wrap after four billion threads; then two threads share a shard.
            number.set(NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % NONE);
        }
        number.get()
    })
}
