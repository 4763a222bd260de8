//! The timeline of a thread: the process's real clock, or the latest virtual clock that the thread
//! has entered and not left.
//!
//! A process has one real driver, which is created when it is first needed. Each
//! [`VirtualTime`](super::VirtualTime) has a virtual driver. On all drivers, ticks are nanoseconds
//! since the real driver's origin. So code converts instants and ticks without the driver, and
//! alarms need no reference to it.

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

/// The clock and driver of a timer. To clone the real timeline costs nothing.
#[derive(Clone, Debug)]
pub(crate) enum Timeline {
    Real,
    Virtual(Arc<Simulation>),
}

/// A virtual driver, and a condition variable for *watchers*: threads that wait until an alarm is
/// armed.
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
    /// Number of virtual clocks that the thread has entered and not left. It is nearly always 0,
    /// which is quick to check.
    static ENTERED: Cell<usize> = const { Cell::new(0) };
    /// The virtual clocks that the thread has entered and not left, each with a unique number. The
    /// last clock is in force.
    static STACK: RefCell<Vec<(usize, Arc<Simulation>)>> = const { RefCell::new(Vec::new()) };
    /// Whether the thread is inside `advance`.
    static ADVANCING: Cell<bool> = const { Cell::new(false) };
}

impl Timeline {
    /// Returns the timeline in force on this thread. Takes a nanosecond if that is the real
    /// timeline.
    #[inline]
    pub(crate) fn current() -> Timeline {
        if ENTERED.get() == 0 {
            return Timeline::Real;
        }
        Self::entered()
    }

    #[cold]
    fn entered() -> Timeline {
        // While a thread ends, `STACK` may be destroyed before the thread's timers.
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

    /// Returns the tick that is `delay` from now, or `u64::MAX`, which is never due, if that is too
    /// far away.
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

    /// Disarms an alarm and returns it. Returns `None` if the alarm was disarmed before, or if it
    /// has fired and its `fire` has completed.
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

    /// Returns true if a virtual clock has passed a deadline that the caller has just armed. The
    /// thread that advanced the clock may then have missed the alarm. If false, the alarm fires
    /// later.
    ///
    /// Always false for the real driver, whose thread finds the alarm.
    #[inline]
    pub(crate) fn has_passed(&self, deadline: u64) -> bool {
        match self {
            Timeline::Real => false,
            Timeline::Virtual(simulation) => simulation.has_passed(deadline),
        }
    }

    /// Calls `f` with an armed alarm, under the shard's lock. `f` must not block, drop a waker or a
    /// callback, or call the driver.
    #[inline]
    pub(crate) fn with<R>(&self, handle: Handle, f: impl FnOnce(&mut Alarm) -> R) -> Option<R> {
        self.driver().with(handle, f)
    }
}

/// Returns the real driver of the process.
fn real() -> &'static Driver<Alarm> {
    static REAL: OnceLock<Driver<Alarm>> = OnceLock::new();
    REAL.get_or_init(|| Driver::new(RealRunner::new()))
}

/// Returns the instant of a tick of any timeline, or the instant a century after the origin if
/// `Instant` cannot represent the tick.
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

/// Returns true if this thread runs a callback of a virtual clock. The callback must not wait for
/// that clock.
pub(crate) fn is_advancing() -> bool {
    ADVANCING.get()
}

/// Runs the jobs of the real driver: wakes tasks on the driver's thread, and passes callbacks to
/// workers.
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

/// Runs the jobs of a virtual driver one after the other, on the thread that advances the clock.
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

    /// Returns a clock that runs by itself for a loom model, and the function that the model runs
    /// as the driver's thread.
    #[cfg(all(test, loom))]
    pub(crate) fn modelled() -> (Arc<Self>, impl FnOnce() + 'static) {
        let (driver, thread) = Driver::modelled(VirtualRunner::default());
        (Self::of(driver), thread)
    }

    /// Returns a clock at 0 that a loom model advances by [`step`](Self::step).
    #[cfg(all(test, loom))]
    pub(crate) fn paused() -> Arc<Self> {
        Self::of(Driver::virtual_clock(VirtualRunner::default()))
    }

    /// Advances the clock without entering it, for a loom model.
    #[cfg(all(test, loom))]
    pub(crate) fn step(&self, by: Duration) {
        self.driver.advance(by);
    }

    pub(crate) fn now(&self) -> u64 {
        self.driver.now()
    }

    fn has_passed(&self, deadline: u64) -> bool {
        // The clock of a loom model may be a real one.
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
    /// If a callback of a virtual clock calls it.
    pub(crate) fn advance(self: &Arc<Self>, by: Duration) {
        let by = TickScale::NANOSECOND.deadline(by);
        self.advance_by(|_| Some(by));
    }

    /// Advances the clock to the next deadline and returns true. Does nothing and returns false if
    /// no alarm has a reachable deadline, or if `unless` returns true. Calls `unless` when no other
    /// thread can advance the clock. Panics like `advance`.
    pub(crate) fn advance_to_next(self: &Arc<Self>, unless: impl FnOnce() -> bool) -> bool {
        self.advance_by(|now| {
            let next = self.next_deadline()?;
            (!unless()).then(|| next.saturating_sub(now))
        })
    }

    /// Advances the clock by the number of ticks that `by` returns for the current tick. No other
    /// thread advances the clock meanwhile.
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

    /// Blocks until `woken` returns true, or an alarm with a reachable deadline is armed. A thread
    /// that changes the result of `woken` to true must then call
    /// [`notify_watchers`](Self::notify_watchers).
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

    /// Wakes the watchers after an arming. A watcher counts itself and then checks the alarms; the
    /// arming thread arms and then reads the count. So either the watcher sees the alarm, or the
    /// arming thread sees the watcher.
    pub(crate) fn notify_watchers(&self) {
        if self.watchers.load(Ordering::SeqCst) > 0 {
            let _watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
            self.armed.notify_all();
        }
    }
}

/// A guard for a thread's use of a virtual timeline. Guards may be dropped in any order. The
/// timeline of the latest live guard is in force.
#[derive(Debug)]
pub(crate) struct Entry {
    number: usize,
    /// Makes the guard `!Send`, because the thread that entered must drop it.
    here: PhantomData<*const ()>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        // The simulation is dropped outside the borrow of `STACK`: the last owner of a simulation
        // drops its alarms, which may run any code.
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
