//! A shard: a queue of alarms under a lock of its own, and the earliest deadline for all to see.
//!
//! A thread arms in the shard it was given, so two threads hardly ever want the same lock; the driver takes it only
//! when something of the shard is due. `next` is written under the lock and read without.

use core::cell::Cell;
use core::mem::ManuallyDrop;
use std::sync::atomic::AtomicU32;
use std::vec::Vec;

use super::sync::{AtomicU64, Mutex, MutexGuard, Ordering, lock, try_lock};
use super::{Alarm, Fired, Handle};
use crate::queue::{Adaptive, DeadlineQueue, Polled, TimerKey};

/// How many entries are popped or moved while the lock is held.
const BATCH: usize = 64;

/// How often the driver's thread looks whether somebody who waits for the lock has got it: a tenth of a millisecond
/// at most.
const PATIENCE: u32 = 100;

/// With more entries than these, of alarms and of such as were disarmed, the driver goes by a bound of the earliest
/// deadline: to know it exactly, a wheel may have to open a slot, which may hold nearly all of them, while whoever arms
/// waits for the lock. The bound costs some wake-ups more in an hour, and each moves a batch at a time.
const EXACT: usize = 1_000;

/// Two cache lines: processors fetch them in pairs.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Shard<A> {
    /// No later than the earliest deadline of the queue; `u64::MAX` if it is known to be empty. It may be too early
    /// after a timer was disarmed: the driver then looks once for nothing.
    next: AtomicU64,
    queue: Mutex<Adaptive<A>>,
    /// Threads that wait for the lock. Only a hint for the driver's thread, which gives way to them.
    waiting: AtomicU64,
}

impl<A: Alarm> Shard<A> {
    pub(super) fn new() -> Self {
        Shard {
            next: AtomicU64::new(u64::MAX),
            queue: Mutex::new(Adaptive::new()),
            waiting: AtomicU64::new(0),
        }
    }

    /// Locks the queue for a thread of the program.
    #[inline]
    fn enter(&self) -> MutexGuard<'_, Adaptive<A>> {
        match try_lock(&self.queue) {
            Some(queue) => queue,
            None => self.wait(),
        }
    }

    #[cold]
    fn wait(&self) -> MutexGuard<'_, Adaptive<A>> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let queue = lock(&self.queue);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        queue
    }

    /// Lets one of those who wait for the lock have it. Whoever has just unlocked has it again before a thread that
    /// sleeps is awake: without this, a thread would wait for its turn until all that is due has fired.
    pub(super) fn give_way(&self) {
        // A model has no need of it, and no time.
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

    /// When the driver must look here.
    pub(super) fn next(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// Arms an alarm; `true` beside its handle if it is the earliest, so that the driver may have to be woken.
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

    /// Disarms what there is no thread for. If that was all, the next one to arm is the earliest again.
    pub(super) fn withdraw(&self, key: TimerKey) -> Option<A> {
        let mut queue = lock(&self.queue);
        let alarm = queue.remove(key);
        if queue.is_empty() {
            self.next.store(u64::MAX, Ordering::Relaxed);
        }
        alarm
    }

    /// Arms anew; `None` if the key is stale, else whether it is the earliest now.
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

    /// Fires what is due at `now`, at most a batch. `false` if something may be left.
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
                // It has given back a little of what a crowd has left, and there is more.
                Polled::Idle if queue.is_untidy() => return false,
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

    /// Fires the first that is due at `now`; `false` if none is.
    pub(super) fn fire_one(&self, shard: u32, now: u64, jobs: &mut Vec<A::Job>) -> bool {
        let mut queue = lock(&self.queue);
        let Some(expired) = queue.pop_due(now) else {
            return false;
        };
        let (due, alarm) = (expired.deadline, expired.value);
        fire(&mut queue, shard, due, now, alarm, jobs);
        true
    }

    /// Under the lock. A deadline of "never" needs no look.
    fn publish(&self, deadline: u64) -> bool {
        let earliest = deadline < self.next.load(Ordering::Relaxed);
        if earliest {
            self.next.store(deadline, Ordering::Relaxed);
        }
        earliest
    }
}

#[inline(always)]
fn insert<A: Alarm>(queue: &mut Adaptive<A>, shard: u32, deadline: u64, alarm: A) -> Handle {
    let key = queue.insert(deadline, alarm);
    let handle = Handle::new(key, shard);
    if let Some(alarm) = queue.get_mut(key) {
        alarm.armed(handle);
    }
    handle
}

fn fire<A: Alarm>(
    queue: &mut Adaptive<A>,
    shard: u32,
    due: u64,
    now: u64,
    mut alarm: A,
    jobs: &mut Vec<A::Job>,
) {
    match alarm.fire(due, now) {
        Fired::Done => {}
        Fired::Do(job) => jobs.push(job),
        // Not `now` or before, or the batch would never end.
        Fired::Again(deadline) => {
            insert(queue, shard, deadline.max(now.saturating_add(1)), alarm);
        }
    }
}

/// The number of the calling thread, given out in turn: shards are chosen by it.
#[inline]
pub(super) fn thread_number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    const NONE: u32 = u32::MAX;
    std::thread_local! {
        static NUMBER: Cell<u32> = const { Cell::new(NONE) };
    }
    NUMBER.with(|number| {
        if number.get() == NONE {
            // It may wrap after four billion threads: then two share a shard sooner.
            number.set(NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % NONE);
        }
        number.get()
    })
}
