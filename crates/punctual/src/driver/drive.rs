//! The state that a [`Driver`](super::Driver) shares with its thread, the loop of the thread, and
//! the advance of a virtual clock.
//!
//! The driver's thread takes `runner` out of its mutex for as long as the thread lives. A virtual
//! driver has no thread; there `advance` locks the mutex and uses the runner.

use core::fmt;
use core::mem::ManuallyDrop;
use std::boxed::Box;
use std::io;
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::{Duration, Instant};
use std::vec::Vec;

use super::shard::{Shard, thread_number};
use super::signals;
use super::sleeper::Sleeper;
use super::sync::{AtomicBool, AtomicU64, Mutex, Ordering, lock};
use super::{Alarm, Handle, Runner};
use crate::queue::TimerKey;
use crate::tick::TickScale;

/// The source of [`Shared::now`].
#[derive(Debug)]
enum Time {
    Real,
    Virtual(AtomicU64),
}

pub(super) struct Shared<A: Alarm> {
    shards: Box<[Shard<A>]>,
    sleeper: Sleeper,
    origin: Instant,
    time: Time,
    /// Set when the driver is dropped.
    stopped: AtomicBool,
    runner: Mutex<Option<Box<dyn Runner<A::Job>>>>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
    /// The thread that is advancing the virtual clock now.
    advancing: Mutex<Option<ThreadId>>,
}

impl<A: Alarm> Shared<A> {
    pub(super) fn real(runner: Box<dyn Runner<A::Job>>) -> Self {
        Self::new(Time::Real, day_ago(), runner, shard_count())
    }

    /// Returns the state of a driver with a real clock and `shards` shards, which is a power of
    /// two.
    #[cfg(all(test, loom))]
    pub(super) fn with_shards(runner: Box<dyn Runner<A::Job>>, shards: usize) -> Self {
        Self::new(Time::Real, day_ago(), runner, shards)
    }

    /// Returns the state of a driver with a virtual clock. It has one shard, so alarms due at the
    /// same tick fire in the order of arming.
    pub(super) fn simulated(runner: Box<dyn Runner<A::Job>>) -> Self {
        Self::new(Time::Virtual(AtomicU64::new(0)), Instant::now(), runner, 1)
    }

    fn new(time: Time, origin: Instant, runner: Box<dyn Runner<A::Job>>, shards: usize) -> Self {
        Shared {
            shards: (0..shards).map(|_| Shard::new()).collect(),
            sleeper: Sleeper::new(),
            origin,
            time,
            stopped: AtomicBool::new(false),
            runner: Mutex::new(Some(runner)),
            thread: Mutex::new(None),
            advancing: Mutex::new(None),
        }
    }

    #[inline]
    pub(super) fn now(&self) -> u64 {
        match &self.time {
            Time::Real => TickScale::NANOSECOND.reading(self.origin.elapsed()),
            Time::Virtual(now) => now.load(Ordering::Acquire),
        }
    }

    pub(super) fn origin(&self) -> Instant {
        self.origin
    }

    pub(super) fn is_virtual(&self) -> bool {
        matches!(self.time, Time::Virtual(_))
    }

    pub(super) fn shards(&self) -> &[Shard<A>] {
        &self.shards
    }

    /// Returns the shard of a handle, or `None` if the handle belongs to a driver with more shards.
    #[inline]
    pub(super) fn shard(&self, handle: Handle) -> Option<&Shard<A>> {
        self.shards.get(handle.shard as usize)
    }

    /// Returns the shard of the calling thread.
    #[inline]
    fn current_shard(&self) -> u32 {
        // The number of shards is a power of two.
        thread_number() & (self.shards.len() as u32 - 1)
    }

    #[inline(always)]
    pub(super) fn arm(self: &Arc<Self>, deadline: u64, alarm: A) -> Handle {
        self.arm_in(self.current_shard(), deadline, alarm)
    }

    #[inline(always)]
    pub(super) fn arm_in(self: &Arc<Self>, number: u32, deadline: u64, alarm: A) -> Handle {
        // Nothing panics before the insertion. `ManuallyDrop` spares the copy that the compiler
        // would keep for a drop while unwinding.
        let alarm = ManuallyDrop::new(alarm);
        let shard = &self.shards[number as usize];
        let (handle, earliest) = shard.arm(number, deadline, alarm);
        if earliest {
            let undo = Undo(shard, handle.key());
            self.wake_for(deadline);
            core::mem::forget(undo);
        }
        handle
    }

    #[inline]
    pub(super) fn rearm(self: &Arc<Self>, handle: Handle, deadline: u64) -> bool {
        let Some(earliest) = self
            .shard(handle)
            .and_then(|shard| shard.rearm(handle.key(), deadline))
        else {
            return false;
        };
        if earliest {
            self.wake_for(deadline);
        }
        true
    }

    #[inline]
    fn wake_for(self: &Arc<Self>, deadline: u64) {
        if matches!(self.time, Time::Real) {
            self.sleeper.wake_for(deadline, || self.start());
        }
    }

    /// Starts the thread unless it was started before.
    fn start(self: &Arc<Self>) -> io::Result<()> {
        // A model starts the thread itself, as a loom thread.
        if cfg!(all(test, loom)) {
            return Ok(());
        }
        let mut thread = lock(&self.thread);
        // A thread that was started already checks the shards before it sleeps for the first time.
        if thread.is_none() {
            let shared = Arc::clone(self);
            let started = signals::with_signals_blocked(|mask| {
                std::thread::Builder::new()
                    .name("punctual-driver".into())
                    .spawn(move || {
                        mask.keep();
                        shared.drive();
                    })
            });
            *thread = Some(started?);
        }
        Ok(())
    }

    /// The loop of the driver's thread.
    pub(super) fn drive(&self) {
        let Some(mut runner) = lock(&self.runner).take() else {
            return;
        };
        self.sleeper.mark_awake();
        disable_timer_slack();
        let mut jobs = Vec::new();
        let mut recheck = u64::MAX;
        while !self.stopped.load(Ordering::Acquire) {
            let now = self.now();
            let (all_fired, mut next) = self.fire_due(now, &mut jobs);
            if !jobs.is_empty() || recheck <= now {
                runner.run(&mut jobs);
                jobs.clear();
                recheck = match runner.recheck() {
                    Some(wait) => self
                        .now()
                        .saturating_add(TickScale::NANOSECOND.deadline(wait)),
                    None => u64::MAX,
                };
            }
            next = next.min(recheck);
            if !all_fired {
                continue;
            }
            let now = self.now();
            if next <= now {
                continue;
            }
            let timeout = Duration::from_nanos(next - now);
            self.sleeper.sleep(next, timeout, || {
                self.stopped.load(Ordering::Acquire)
                    || self.shards.iter().any(|shard| shard.next() < next)
            });
        }
    }

    /// Fires a batch of due alarms of each shard. Returns whether all due alarms have fired, and
    /// the next deadline.
    fn fire_due(&self, now: u64, jobs: &mut Vec<A::Job>) -> (bool, u64) {
        let (mut all_fired, mut next) = (true, u64::MAX);
        for (number, shard) in (0..).zip(&self.shards) {
            if shard.next() <= now && !shard.fire(number, now, jobs) {
                all_fired = false;
                shard.yield_lock();
            }
            next = next.min(shard.next());
        }
        (all_fired, next)
    }

    pub(super) fn advance(&self, by: Duration) {
        let Time::Virtual(clock) = &self.time else {
            panic!("advance: the clock of this driver is real, and cannot be moved");
        };
        let me = std::thread::current().id();
        assert!(
            *lock(&self.advancing) != Some(me),
            "advance: called by a job of the same virtual clock, which is being advanced already"
        );
        let mut runner = lock(&self.runner);
        let Some(runner) = runner.as_mut() else {
            return;
        };
        *lock(&self.advancing) = Some(me);
        // Resets `advancing` at the end, even if a job panics.
        let _done = ResetAdvancing(&self.advancing);

        let shard = &self.shards[0];
        let target = self
            .now()
            .saturating_add(TickScale::NANOSECOND.deadline(by));
        let mut jobs = Vec::new();
        let mut at_target = false;
        loop {
            // `u64::MAX` is never due, even if the clock is at its end.
            let next = shard.next_deadline();
            let Some(due) = next.filter(|&due| due <= target && due != u64::MAX) else {
                if at_target {
                    break;
                }
                // Move the clock to the target, and then check again. A thread that arms meanwhile
                // either reads this tick afterwards, or the check finds its alarm.
                clock.store(target, Ordering::Release);
                at_target = true;
                continue;
            };
            let now = self.now().max(due);
            clock.store(now, Ordering::Release);
            if shard.fire_one(0, now, &mut jobs) {
                runner.run(&mut jobs);
                jobs.clear();
            }
        }
    }

    /// Ends the thread and waits for it, unless the thread itself drops its driver.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        // 1 is the earliest tick, so this always wakes the thread.
        self.sleeper.wake_for(1, || Ok(()));
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            // If a panic of the runner ended the thread, the panic hook has reported it.
            let _ = thread.join();
        }
    }
}

/// A guard that disarms an alarm when it is dropped. `arm` panics if the driver's thread cannot be
/// started, and then returns no handle to the alarm.
struct Undo<'a, A: Alarm>(&'a Shard<A>, TimerKey);

impl<A: Alarm> Drop for Undo<'_, A> {
    #[cold]
    fn drop(&mut self) {
        drop(self.0.withdraw(self.1));
    }
}

struct ResetAdvancing<'a>(&'a Mutex<Option<ThreadId>>);

impl Drop for ResetAdvancing<'_> {
    fn drop(&mut self) {
        *lock(self.0) = None;
    }
}

impl<A: Alarm> fmt::Debug for Shared<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("now", &self.now())
            .field("virtual", &self.is_virtual())
            .finish_non_exhaustive()
    }
}

/// Returns an origin in the past, so that instants taken before the driver was created have ticks.
fn day_ago() -> Instant {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let now = Instant::now();
    // On some systems no instant is before the system's start.
    now.checked_sub(DAY).unwrap_or(now)
}

/// Returns the number of shards: large enough that threads rarely share a shard, and small enough
/// to scan all shards at each wake-up.
fn shard_count() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    (4 * cores).next_power_of_two().clamp(4, 64)
}

/// Disables timer slack, by which Linux lets a thread oversleep by 50 µs. If the system refuses,
/// timers fire that much later.
fn disable_timer_slack() {
    #[cfg(all(target_os = "linux", not(miri), not(loom)))]
    let _ = rustix::thread::set_current_timer_slack(core::num::NonZeroU64::new(1));
}
