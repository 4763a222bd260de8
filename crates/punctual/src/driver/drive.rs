//! The state of a driver, the loop of its thread, and a virtual clock's walk from deadline to deadline.
//!
//! `running` is held while jobs are done: by the thread for as long as it lives, or by whoever advances.

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

/// Where `now` comes from.
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
    /// The driver was dropped.
    stopped: AtomicBool,
    runner: Mutex<Option<Box<dyn Runner<A::Job>>>>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
    /// Who advances a virtual clock just now.
    advancing: Mutex<Option<ThreadId>>,
}

impl<A: Alarm> Shared<A> {
    pub(super) fn real(runner: Box<dyn Runner<A::Job>>) -> Self {
        Self::new(Time::Real, long_ago(), runner, shards_wanted())
    }

    /// A real clock and this many shards, a power of two.
    #[cfg(all(test, loom))]
    pub(super) fn of_shards(runner: Box<dyn Runner<A::Job>>, shards: usize) -> Self {
        Self::new(Time::Real, long_ago(), runner, shards)
    }

    /// One shard: alarms due at one tick go off in the order of arming, whoever armed them.
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

    /// `None` for a handle of a driver with more shards.
    #[inline]
    pub(super) fn shard(&self, handle: Handle) -> Option<&Shard<A>> {
        self.shards.get(handle.shard as usize)
    }

    /// The shard of the calling thread.
    #[inline]
    fn mine(&self) -> u32 {
        // A power of two.
        thread_number() & (self.shards.len() as u32 - 1)
    }

    #[inline(always)]
    pub(super) fn arm(self: &Arc<Self>, deadline: u64, alarm: A) -> Handle {
        self.arm_in(self.mine(), deadline, alarm)
    }

    #[inline(always)]
    pub(super) fn arm_in(self: &Arc<Self>, number: u32, deadline: u64, alarm: A) -> Handle {
        // Nothing panics on its way to the queue. Told so, the compiler keeps no copy to drop.
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

    /// Starts the thread, unless one runs.
    fn start(self: &Arc<Self>) -> io::Result<()> {
        // A model starts the thread itself, as one of loom's.
        if cfg!(all(test, loom)) {
            return Ok(());
        }
        let mut thread = lock(&self.thread);
        // If there is one, it has not entered yet, and looks before it sleeps.
        if thread.is_none() {
            let shared = Arc::clone(self);
            let started = signals::deaf(|heard| {
                std::thread::Builder::new()
                    .name("punctual-driver".into())
                    .spawn(move || {
                        heard.keep();
                        shared.drive();
                    })
            });
            *thread = Some(started?);
        }
        Ok(())
    }

    /// The thread's loop.
    pub(super) fn drive(&self) {
        let Some(mut runner) = lock(&self.runner).take() else {
            return;
        };
        self.sleeper.enter();
        be_woken_on_time();
        let mut jobs = Vec::new();
        let mut recheck = u64::MAX;
        while !self.stopped.load(Ordering::Acquire) {
            let now = self.now();
            let (all, mut next) = self.fire_due(now, &mut jobs);
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
            if !all {
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

    /// Fires a batch of every shard that has something due. Answers whether that was all, and when to look next.
    fn fire_due(&self, now: u64, jobs: &mut Vec<A::Job>) -> (bool, u64) {
        let (mut all, mut next) = (true, u64::MAX);
        for (number, shard) in (0..).zip(&self.shards) {
            if shard.next() <= now && !shard.fire(number, now, jobs) {
                all = false;
                shard.give_way();
            }
            next = next.min(shard.next());
        }
        (all, next)
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
        // Also if a job panics through its runner.
        let _done = Done(&self.advancing);

        let shard = &self.shards[0];
        let target = self
            .now()
            .saturating_add(TickScale::NANOSECOND.deadline(by));
        let mut jobs = Vec::new();
        let mut arrived = false;
        loop {
            // "Never" does not come, even if the clock stands at its end.
            let next = shard.next_deadline();
            let Some(due) = next.filter(|&due| due <= target && due != u64::MAX) else {
                if arrived {
                    break;
                }
                // Then one more look: a thread that reads the clock after arming either sees that it has come here,
                // or its alarm is seen.
                clock.store(target, Ordering::Release);
                arrived = true;
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

    /// Ends the thread and waits for it, unless it is the thread itself that drops its driver.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        // As if the earliest deadline of all were armed.
        self.sleeper.wake_for(1, || Ok(()));
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            // It ended by a panic of the runner: reported already.
            let _ = thread.join();
        }
    }
}

/// Takes an alarm out again for which no thread could be started: nobody has its handle.
struct Undo<'a, A: Alarm>(&'a Shard<A>, TimerKey);

impl<A: Alarm> Drop for Undo<'_, A> {
    #[cold]
    fn drop(&mut self) {
        drop(self.0.withdraw(self.1));
    }
}

struct Done<'a>(&'a Mutex<Option<ThreadId>>);

impl Drop for Done<'_> {
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

/// An origin that lies before the instants a program may have taken when it makes a driver, so that they have ticks.
fn long_ago() -> Instant {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let now = Instant::now();
    // Some systems count from their start, and know nothing before it.
    now.checked_sub(DAY).unwrap_or(now)
}

/// Enough for threads hardly ever to share one, few enough to be looked through at each wake-up.
fn shards_wanted() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    (4 * cores).next_power_of_two().clamp(4, 64)
}

/// Linux lets a thread sleep 50 µs longer than it asked for, to wake several at once. Not this one: whoever waits
/// for its timers would wait for that too. If the system refuses, timers are as late as usual there.
fn be_woken_on_time() {
    #[cfg(all(target_os = "linux", not(miri), not(loom)))]
    let _ = rustix::thread::set_current_timer_slack(core::num::NonZeroU64::new(1));
}
