//! Which clock is in force: the process's real one, or the virtual one that a thread has entered.
//!
//! There is one real driver in a process, made when it is first needed. A virtual one belongs to a
//! [`VirtualTime`](super::VirtualTime). Ticks mean the same on all of them: nanoseconds since the real driver's origin. So
//! an instant is a tick and a tick an instant without asking whose, and alarms need not know their driver.

use core::cell::{Cell, RefCell};
use core::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use std::vec::Vec;

use crossbeam_channel::Sender;

use super::alarm::{Alarm, Callback, Job};
use crate::driver::{Driver, Handle, Jobs, Runner, Workers, unharmed};
use crate::tick::TickScale;

/// The driver that a timer belongs to. Cloning the real one costs nothing.
#[derive(Clone, Debug)]
pub(crate) enum Timeline {
    Real,
    Virtual(Arc<Simulation>),
}

/// A virtual driver, and those who wait for something to be armed.
#[derive(Debug)]
pub(crate) struct Simulation {
    driver: Driver<Alarm>,
    /// Makes those who move the clock take turns.
    turn: Mutex<()>,
    watchers: AtomicUsize,
    watch: Mutex<()>,
    armed: Condvar,
}

std::thread_local! {
    /// How many virtual clocks the thread has entered and not left: nearly always none, and that is all to know.
    static ENTERED: Cell<usize> = const { Cell::new(0) };
    /// Those, the one in force last, each with a number of its own.
    static STACK: RefCell<Vec<(usize, Arc<Simulation>)>> = const { RefCell::new(Vec::new()) };
    /// The thread is inside of `advance`.
    static ADVANCING: Cell<bool> = const { Cell::new(false) };
}

impl Timeline {
    /// The one in force on this thread. A nanosecond if it is the real one.
    #[inline]
    pub(crate) fn current() -> Timeline {
        if ENTERED.get() == 0 {
            return Timeline::Real;
        }
        Self::entered()
    }

    #[cold]
    fn entered() -> Timeline {
        // While a thread ends, its stack may be gone before its timers are.
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

    /// The tick it shows.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.driver().now()
    }

    /// The tick of `delay` from now; `u64::MAX`, which never comes, if that is too far away.
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
                simulation.tell_watchers();
                handle
            }
        }
    }

    /// `None`: it has fired, and its firing has completed, or it was disarmed before.
    #[inline]
    pub(crate) fn disarm(&self, handle: Handle) -> Option<Alarm> {
        self.driver().disarm(handle)
    }

    /// `false`: it has fired or was disarmed.
    #[cfg_attr(not(feature = "async"), allow(dead_code))]
    #[inline]
    pub(crate) fn rearm(&self, handle: Handle, deadline: u64) -> bool {
        match self {
            Timeline::Real => real().rearm(handle, deadline),
            Timeline::Virtual(simulation) => {
                let armed = simulation.driver.rearm(handle, deadline);
                simulation.tell_watchers();
                armed
            }
        }
    }

    /// Whether a virtual clock has passed a deadline that the caller has just armed. If this says no, the deadline fires
    /// when it comes; else it may have been armed too late for whoever moved the clock meanwhile.
    ///
    /// The real driver looks by itself.
    #[inline]
    pub(crate) fn has_passed(&self, deadline: u64) -> bool {
        match self {
            Timeline::Real => false,
            Timeline::Virtual(simulation) => simulation.has_passed(deadline),
        }
    }

    /// Under the shard's lock: `f` must not block, drop a waker or a callback, or call the driver.
    #[inline]
    pub(crate) fn with<R>(&self, handle: Handle, f: impl FnOnce(&mut Alarm) -> R) -> Option<R> {
        self.driver().with(handle, f)
    }
}

/// The process's driver.
fn real() -> &'static Driver<Alarm> {
    static REAL: OnceLock<Driver<Alarm>> = OnceLock::new();
    REAL.get_or_init(|| Driver::new(Deeds::new()))
}

/// The instant of a tick, of any timeline. One that `Instant` cannot tell is a century away instead.
pub(crate) fn instant(tick: u64) -> Instant {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
    let origin = real().origin();
    origin
        .checked_add(TickScale::NANOSECOND.time(tick))
        .unwrap_or_else(|| origin + CENTURY)
}

/// The tick of an instant; 0 if it lies before the origin.
pub(crate) fn tick(instant: Instant) -> u64 {
    let since = instant.saturating_duration_since(real().origin());
    TickScale::NANOSECOND.deadline(since)
}

/// Whether this thread runs a callback of a virtual clock: what waits for that clock would wait for ever.
pub(crate) fn is_advancing() -> bool {
    ADVANCING.get()
}

/// Does the jobs of the real driver: wakes on its thread, calls on workers.
struct Deeds {
    workers: Workers<Callback>,
    calls: Vec<Callback>,
}

impl Deeds {
    fn new() -> Self {
        Deeds {
            workers: Workers::new(|calls: &mut Jobs<'_, Callback>| {
                for call in calls {
                    call();
                }
            }),
            calls: Vec::new(),
        }
    }
}

impl Runner<Job> for Deeds {
    fn run(&mut self, jobs: &mut Vec<Job>) {
        for job in jobs.drain(..) {
            match job {
                Job::Call(callback) => self.calls.push(callback),
                Job::Wake(waker) => unharmed(move || waker.wake()),
                Job::Keep(_) => {}
            }
        }
        self.workers.run(&mut self.calls);
    }

    fn recheck(&mut self) -> Option<Duration> {
        self.workers.recheck()
    }
}

/// Does the jobs of a virtual driver, on the thread that advances it, one after the other.
#[derive(Default)]
struct InTurn {
    /// Of channels that have got all that will ever come, and must not seem to be closed.
    kept: Vec<Sender<Instant>>,
}

impl Runner<Job> for InTurn {
    fn run(&mut self, jobs: &mut Vec<Job>) {
        for job in jobs.drain(..) {
            match job {
                Job::Call(callback) => unharmed(move || callback()),
                Job::Wake(waker) => unharmed(move || waker.wake()),
                Job::Keep(sender) => self.kept.push(sender),
            }
        }
    }
}

impl Simulation {
    /// A clock that shows what the real one shows now, and stands.
    pub(crate) fn new() -> Arc<Self> {
        let driver = Driver::virtual_clock(InTurn::default());
        driver.advance(TickScale::NANOSECOND.time(real().now()));
        Arc::new(Simulation {
            driver,
            turn: Mutex::new(()),
            watchers: AtomicUsize::new(0),
            watch: Mutex::new(()),
            armed: Condvar::new(),
        })
    }

    /// One that goes on by itself, and what its thread does, for a model to run on one of loom's.
    #[cfg(all(test, loom))]
    pub(crate) fn modelled() -> (Arc<Self>, impl FnOnce() + 'static) {
        let (driver, thread) = Driver::modelled(InTurn::default());
        let simulation = Simulation {
            driver,
            turn: Mutex::new(()),
            watchers: AtomicUsize::new(0),
            watch: Mutex::new(()),
            armed: Condvar::new(),
        };
        (Arc::new(simulation), thread)
    }

    /// One whose clock stands at 0, for a model to [move](Self::step).
    #[cfg(all(test, loom))]
    pub(crate) fn standing() -> Arc<Self> {
        Arc::new(Simulation {
            driver: Driver::virtual_clock(InTurn::default()),
            turn: Mutex::new(()),
            watchers: AtomicUsize::new(0),
            watch: Mutex::new(()),
            armed: Condvar::new(),
        })
    }

    /// `advance` without this thread's timeline, which all threads of a model share.
    #[cfg(all(test, loom))]
    pub(crate) fn step(&self, by: Duration) {
        self.driver.advance(by);
    }

    pub(crate) fn now(&self) -> u64 {
        self.driver.now()
    }

    fn has_passed(&self, deadline: u64) -> bool {
        // One in a model goes on by itself.
        self.driver.is_virtual() && deadline <= self.now()
    }

    pub(crate) fn pending(&self) -> usize {
        self.driver.len()
    }

    /// The earliest deadline that ever comes.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        self.driver.next_deadline().filter(|&tick| tick != u64::MAX)
    }

    /// Moves the clock; callbacks run here, and see this timeline.
    ///
    /// # Panics
    ///
    /// If a callback calls it.
    pub(crate) fn advance(self: &Arc<Self>, by: Duration) {
        let by = TickScale::NANOSECOND.deadline(by);
        self.advance_by(|_| Some(by));
    }

    /// Moves the clock to the next deadline; `false` if there is none that ever comes, or `unless` says so when nobody
    /// else moves it. Panics as `advance` does.
    pub(crate) fn advance_to_next(self: &Arc<Self>, unless: impl FnOnce() -> bool) -> bool {
        self.advance_by(|now| {
            let next = self.next_deadline()?;
            (!unless()).then(|| next.saturating_sub(now))
        })
    }

    /// `by` how many ticks, seeing what the clock shows; nobody else moves it meanwhile.
    fn advance_by(self: &Arc<Self>, by: impl FnOnce(u64) -> Option<u64>) -> bool {
        struct Advanced;
        impl Drop for Advanced {
            fn drop(&mut self) {
                ADVANCING.set(false);
            }
        }
        assert!(
            !ADVANCING.replace(true),
            "VirtualTime::advance: called by a callback that it runs itself; arm a timer instead"
        );
        let _advanced = Advanced;
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.now();
        let Some(by) = by(now) else {
            return false;
        };
        let _entered = self.enter();
        // It never gets to "never".
        let by = by.min((u64::MAX - 1).saturating_sub(now));
        self.driver.advance(TickScale::NANOSECOND.time(by));
        true
    }

    /// Makes this the timeline of the thread, until what it returns is dropped.
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

    /// Waits until so many alarms are armed.
    pub(crate) fn wait_for_pending(&self, count: usize) {
        self.watch_until(|| self.pending() >= count);
    }

    /// Waits until `woken` says so, or something is armed that the clock can be moved to. Whoever makes `woken` true calls
    /// [`tell_watchers`](Self::tell_watchers) afterwards.
    #[cfg(feature = "async")]
    pub(crate) fn wait_for_deadline_or(&self, woken: impl Fn() -> bool) {
        self.watch_until(|| woken() || self.next_deadline().is_some());
    }

    fn watch_until(&self, seen: impl Fn() -> bool) {
        self.watchers.fetch_add(1, Ordering::SeqCst);
        let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        while !seen() {
            watch = self
                .armed
                .wait(watch)
                .unwrap_or_else(PoisonError::into_inner);
        }
        drop(watch);
        self.watchers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Something was armed. A watcher counts itself, then looks at the alarms; this looks after arming. So either the
    /// watcher sees the alarm, or it is seen here.
    pub(crate) fn tell_watchers(&self) {
        if self.watchers.load(Ordering::SeqCst) > 0 {
            let _watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
            self.armed.notify_all();
        }
    }
}

/// A thread's stay on a virtual timeline. Entries may end in any order: the latest of those that last is in force.
#[derive(Debug)]
pub(crate) struct Entry {
    number: usize,
    /// It must be dropped by the thread that entered.
    here: PhantomData<*const ()>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        // Dropped outside of the borrow: the last owner of a simulation drops its alarms, which may be anything.
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
