//! The clock in force on a thread: the process's real clock, or the virtual clock that the thread
//! has entered.
//!
//! A process has one real driver, created when it is first needed. A virtual driver belongs to a
//! [`VirtualTime`](super::VirtualTime). Ticks have the same meaning on all drivers, nanoseconds
//! since the real driver's origin, so instants and ticks convert without the driver, and alarms
//! need no reference to it.

use core::cell::{Cell, RefCell};
use core::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use std::vec::Vec;

use crossbeam_channel::Sender;

use super::alarm::{Alarm, Callback, Job};
use crate::driver::{Driver, Handle, Jobs, Runner, Workers, catch_panics};
use crate::tick::TickScale;

/// The driver of a timer. Cloning the real one costs nothing.
#[derive(Clone, Debug)]
pub(crate) enum Timeline {
    Real,
    Virtual(Arc<Simulation>),
}

/// A virtual driver, and a condition variable for threads that wait for an arming.
#[derive(Debug)]
pub(crate) struct Simulation {
    driver: Driver<Alarm>,
    /// Serialises the threads that advance the clock.
    advance_lock: Mutex<()>,
    watchers: AtomicUsize,
    watch: Mutex<()>,
    armed: Condvar,
}

std::thread_local! {
    /// Number of virtual clocks that the thread has entered and not left. Nearly always 0, which is
    /// quick to check.
    static ENTERED: Cell<usize> = const { Cell::new(0) };
    /// These clocks, the one in force last, each with a unique number.
    static STACK: RefCell<Vec<(usize, Arc<Simulation>)>> = const { RefCell::new(Vec::new()) };
    /// Whether the thread is inside `advance`.
    static ADVANCING: Cell<bool> = const { Cell::new(false) };
}

impl Timeline {
    /// Returns the timeline in force on this thread. Takes a nanosecond for the real one.
    #[inline]
    pub(crate) fn current() -> Timeline {
        if ENTERED.get() == 0 {
            return Timeline::Real;
        }
        Self::entered()
    }

    #[cold]
    fn entered() -> Timeline {
        // While a thread ends, its stack may be destroyed before its timers.
        let top = STACK.try_with(|stack| stack.borrow().last().map(|(_, top)| top.clone()));
        top.ok().flatten().map_or(Timeline::Real, Timeline::Virtual)
    }

    #[inline]
    fn driver(&self) -> &Driver<Alarm> {
        match self {
            Timeline::Real => real(),
            Timeline::Virtual(simulation) => &simulation.driver,
        }
    }

    /// Returns the clock's tick.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.driver().now()
    }

    /// Returns the tick of `delay` from now, or `u64::MAX`, which is never due, if that is too far
    /// away.
    #[inline]
    pub(crate) fn deadline_after(&self, delay: Duration) -> u64 {
        self.driver().deadline_after(delay)
    }

    #[inline(always)]
    pub(crate) fn arm(&self, deadline: u64, alarm: Alarm) -> Handle {
        match self {
            Timeline::Real => real().arm(deadline, alarm),
            Timeline::Virtual(simulation) => {
                let handle = simulation.driver.arm(deadline, alarm);
                simulation.notify_watchers();
                handle
            }
        }
    }

    /// Disarms an alarm. Returns `None` if it was disarmed before, or has fired; then its firing
    /// has completed.
    #[inline]
    pub(crate) fn disarm(&self, handle: Handle) -> Option<Alarm> {
        self.driver().disarm(handle)
    }

    /// Re-arms an alarm. Returns false if it has fired or was disarmed.
    #[cfg_attr(not(feature = "async"), allow(dead_code))]
    #[inline]
    pub(crate) fn rearm(&self, handle: Handle, deadline: u64) -> bool {
        match self {
            Timeline::Real => real().rearm(handle, deadline),
            Timeline::Virtual(simulation) => {
                let armed = simulation.driver.rearm(handle, deadline);
                simulation.notify_watchers();
                armed
            }
        }
    }

    /// Returns true if a virtual clock has passed a deadline that the caller has just armed; the
    /// arming may then have been too late for the thread that advanced the clock. If false, the
    /// deadline will fire.
    ///
    /// Always false for the real driver, whose thread checks by itself.
    #[inline]
    pub(crate) fn has_passed(&self, deadline: u64) -> bool {
        match self {
            Timeline::Real => false,
            Timeline::Virtual(simulation) => simulation.has_passed(deadline),
        }
    }

    /// Calls `f` under the shard's lock: it must not block, drop a waker or a callback, or call the
    /// driver.
    #[inline]
    pub(crate) fn with<R>(&self, handle: Handle, f: impl FnOnce(&mut Alarm) -> R) -> Option<R> {
        self.driver().with(handle, f)
    }
}

/// Returns the process's driver.
fn real() -> &'static Driver<Alarm> {
    static REAL: OnceLock<Driver<Alarm>> = OnceLock::new();
    REAL.get_or_init(|| Driver::new(RealRunner::new()))
}

/// Returns the instant of a tick of any timeline, or one a century away if `Instant` cannot
/// represent it.
pub(crate) fn instant(tick: u64) -> Instant {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
    let origin = real().origin();
    origin
        .checked_add(TickScale::NANOSECOND.time(tick))
        .unwrap_or_else(|| origin + CENTURY)
}

/// Returns the tick of an instant; 0 before the origin.
pub(crate) fn tick(instant: Instant) -> u64 {
    let since = instant.saturating_duration_since(real().origin());
    TickScale::NANOSECOND.deadline(since)
}

/// Returns true if this thread runs a callback of a virtual clock, which must not wait for that
/// clock.
pub(crate) fn is_advancing() -> bool {
    ADVANCING.get()
}

/// Runs the jobs of the real driver: wakes on the driver's thread, calls on workers.
struct RealRunner {
    workers: Workers<Callback>,
    calls: Vec<Callback>,
}

impl RealRunner {
    fn new() -> Self {
        RealRunner {
            workers: Workers::new(|calls: &mut Jobs<'_, Callback>| {
                for call in calls {
                    call();
                }
            }),
            calls: Vec::new(),
        }
    }
}

impl Runner<Job> for RealRunner {
    fn run(&mut self, jobs: &mut Vec<Job>) {
        for job in jobs.drain(..) {
            match job {
                Job::Call(callback) => self.calls.push(callback),
                Job::Wake(waker) => catch_panics(move || waker.wake()),
                Job::Keep(_) => {}
            }
        }
        self.workers.run(&mut self.calls);
    }

    fn recheck(&mut self) -> Option<Duration> {
        self.workers.recheck()
    }
}

/// Runs the jobs of a virtual driver one after the other, on the thread that advances it.
#[derive(Default)]
struct VirtualRunner {
    /// Senders that keep the channels of finished timers connected.
    kept: Vec<Sender<Instant>>,
}

impl Runner<Job> for VirtualRunner {
    fn run(&mut self, jobs: &mut Vec<Job>) {
        for job in jobs.drain(..) {
            match job {
                Job::Call(callback) => catch_panics(move || callback()),
                Job::Wake(waker) => catch_panics(move || waker.wake()),
                Job::Keep(sender) => self.kept.push(sender),
            }
        }
    }
}

impl Simulation {
    /// Returns a virtual clock that starts at the real clock's time.
    pub(crate) fn new() -> Arc<Self> {
        let driver = Driver::virtual_clock(VirtualRunner::default());
        driver.advance(TickScale::NANOSECOND.time(real().now()));
        Self::of(driver)
    }

    fn of(driver: Driver<Alarm>) -> Arc<Self> {
        Arc::new(Simulation {
            driver,
            advance_lock: Mutex::new(()),
            watchers: AtomicUsize::new(0),
            watch: Mutex::new(()),
            armed: Condvar::new(),
        })
    }

    /// Returns a clock that runs by itself, and the body of its thread, for a loom model.
    #[cfg(all(test, loom))]
    pub(crate) fn modelled() -> (Arc<Self>, impl FnOnce() + 'static) {
        let (driver, thread) = Driver::modelled(VirtualRunner::default());
        (Self::of(driver), thread)
    }

    /// Returns a clock at 0 that a loom model advances by [`step`](Self::step).
    #[cfg(all(test, loom))]
    pub(crate) fn standing() -> Arc<Self> {
        Self::of(Driver::virtual_clock(VirtualRunner::default()))
    }

    /// Advances the clock without entering it: all threads of a model share one timeline.
    #[cfg(all(test, loom))]
    pub(crate) fn step(&self, by: Duration) {
        self.driver.advance(by);
    }

    pub(crate) fn now(&self) -> u64 {
        self.driver.now()
    }

    fn has_passed(&self, deadline: u64) -> bool {
        // A clock in a model may run by itself.
        self.driver.is_virtual() && deadline <= self.now()
    }

    pub(crate) fn pending(&self) -> usize {
        self.driver.len()
    }

    /// Returns the earliest deadline other than `u64::MAX`.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        self.driver.next_deadline().filter(|&tick| tick != u64::MAX)
    }

    /// Advances the clock. Callbacks run on this thread and see this timeline.
    ///
    /// # Panics
    ///
    /// If a callback calls it.
    pub(crate) fn advance(self: &Arc<Self>, by: Duration) {
        let by = TickScale::NANOSECOND.deadline(by);
        self.advance_by(|_| Some(by));
    }

    /// Advances the clock to the next deadline. Returns false if there is none, or if `unless`
    /// returns true, which is called when no other thread advances the clock. Panics like
    /// `advance`.
    pub(crate) fn advance_to_next(self: &Arc<Self>, unless: impl FnOnce() -> bool) -> bool {
        self.advance_by(|now| {
            let next = self.next_deadline()?;
            (!unless()).then(|| next.saturating_sub(now))
        })
    }

    /// Advances the clock by the ticks that `by` returns for the current tick, which no other
    /// thread changes meanwhile.
    fn advance_by(self: &Arc<Self>, by: impl FnOnce(u64) -> Option<u64>) -> bool {
        struct ResetAdvancing;
        impl Drop for ResetAdvancing {
            fn drop(&mut self) {
                ADVANCING.set(false);
            }
        }
        assert!(
            !ADVANCING.replace(true),
            "VirtualTime::advance: called by a callback that it runs itself; arm a timer instead"
        );
        let _advanced = ResetAdvancing;
        let _turn = self
            .advance_lock
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let now = self.now();
        let Some(by) = by(now) else {
            return false;
        };
        let _entered = self.enter();
        // The clock never reaches `u64::MAX`.
        let by = by.min((u64::MAX - 1).saturating_sub(now));
        self.driver.advance(TickScale::NANOSECOND.time(by));
        true
    }

    /// Makes this the timeline of the thread until the returned guard is dropped.
    pub(crate) fn enter(self: &Arc<Self>) -> Entry {
        STACK.with_borrow_mut(|stack| {
            let number = stack.last().map_or(0, |(number, _)| number + 1);
            stack.push((number, self.clone()));
            ENTERED.set(stack.len());
            Entry {
                number,
                here: PhantomData,
            }
        })
    }

    /// Blocks until `count` alarms are armed.
    pub(crate) fn wait_for_pending(&self, count: usize) {
        self.watch_until(|| self.pending() >= count);
    }

    /// Blocks until `woken` returns true or an alarm with a reachable deadline is armed. A thread
    /// that makes `woken` true must then call [`notify_watchers`](Self::notify_watchers).
    #[cfg(feature = "async")]
    pub(crate) fn wait_for_deadline_or(&self, woken: impl Fn() -> bool) {
        self.watch_until(|| woken() || self.next_deadline().is_some());
    }

    fn watch_until(&self, condition: impl Fn() -> bool) {
        self.watchers.fetch_add(1, Ordering::SeqCst);
        let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        while !condition() {
            watch = self
                .armed
                .wait(watch)
                .unwrap_or_else(PoisonError::into_inner);
        }
        drop(watch);
        self.watchers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Wakes the watchers after an arming. A watcher counts itself, then checks the alarms; this
    /// checks the count after the arming. So either the watcher sees the alarm, or this sees the
    /// watcher.
    pub(crate) fn notify_watchers(&self) {
        if self.watchers.load(Ordering::SeqCst) > 0 {
            let _watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
            self.armed.notify_all();
        }
    }
}

/// A thread's use of a virtual timeline. Guards may be dropped in any order: the latest live one is
/// in force.
#[derive(Debug)]
pub(crate) struct Entry {
    number: usize,
    /// Makes the guard `!Send`: the thread that entered must drop it.
    here: PhantomData<*const ()>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        // Dropped outside the borrow: the last owner of a simulation drops its alarms, which may
        // run any code.
        let left = STACK.try_with(|stack| {
            let mut stack = stack.borrow_mut();
            let place = stack.iter().rposition(|&(number, _)| number == self.number);
            let left = place.map(|place| stack.remove(place));
            ENTERED.set(stack.len());
            left
        });
        drop(left);
    }
}
