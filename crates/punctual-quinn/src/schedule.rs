//! The timers, without a clock, a thread or a runtime: `now` is passed in, and wakers are handed
//! out. What the driver and the handles do under the lock is all here, so tests jump through it.
//!
//! Ground rules, for whoever holds the lock:
//!
//! - No foreign code runs under it. Waking a task or dropping a waker may run a task's destructor,
//!   which drops timers, which takes the lock. So every waker leaves this module by value.
//! - `fired` is written here only, and read without the lock by the timer that owns it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use punctual::{DeadlineQueue, TimerKey};

use crate::stats::Stats;

/// The queue that holds the timers. Any [`DeadlineQueue`] will do.
pub(crate) type Queue = punctual::Wheel<Armed>;

/// How many timers one turn fires at most: how long the lock is held, and others wait.
pub(crate) const BATCH: usize = 64;

/// An armed timer, as the queue holds it.
#[derive(Debug)]
pub(crate) struct Armed {
    fired: Arc<AtomicBool>,
    waker: Option<Waker>,
}

/// What the driver does after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// There may be more to fire now.
    Turn,
    /// Nothing is due before this tick.
    SleepUntil(u64),
    /// No timer is armed.
    Sleep,
}

/// The driver sleeps at an earlier deadline's cost: call this, after unlocking.
#[must_use]
#[derive(Debug)]
pub(crate) struct WakeDriver(Option<Waker>);

impl WakeDriver {
    #[inline]
    pub(crate) fn wake(self) {
        if let Some(driver) = self.0 {
            driver.wake();
        }
    }

    #[cfg(test)]
    fn is_needed(&self) -> bool {
        self.0.is_some()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Schedule {
    queue: Queue,
    /// The driver looks at the queue at this tick or before. 0 while it is awake or on its way:
    /// it looks once more before it sleeps. `u64::MAX` while it sleeps for good.
    wakeup: u64,
    /// Woken if a deadline comes before `wakeup`. Taken by whoever wakes it.
    driver: Option<Waker>,
    pub(crate) stats: Stats,
}

impl Schedule {
    /// Arms a timer. O(1).
    #[inline]
    pub(crate) fn arm(
        &mut self,
        deadline: u64,
        fired: Arc<AtomicBool>,
        waker: Option<Waker>,
    ) -> (TimerKey, WakeDriver) {
        fired.store(false, Ordering::Relaxed);
        let key = self.queue.insert(deadline, Armed { fired, waker });
        self.stats.arms += 1;
        (key, self.hurry(deadline))
    }

    /// Arms a timer anew; `None` if it has fired. O(1), and a write to its record only if the new
    /// deadline is later.
    #[inline]
    pub(crate) fn rearm(&mut self, key: TimerKey, deadline: u64) -> Option<WakeDriver> {
        if !self.queue.reset(key, deadline) {
            return None;
        }
        self.stats.rearms += 1;
        Some(self.hurry(deadline))
    }

    /// Has `waker` woken when the timer fires. Gives the waker it replaces; the timer's own if it
    /// has fired already. O(1).
    pub(crate) fn register(&mut self, key: TimerKey, waker: Waker) -> Option<Waker> {
        match self.queue.get_mut(key) {
            Some(armed) => armed.waker.replace(waker),
            None => Some(waker),
        }
    }

    /// Disarms a timer; whatever it held is the caller's to drop, after unlocking. O(1).
    pub(crate) fn disarm(&mut self, key: TimerKey) -> Option<Armed> {
        let armed = self.queue.remove(key);
        self.stats.disarms += u64::from(armed.is_some());
        armed
    }

    /// Fires what is due at `now`, at most [`BATCH`] timers, and puts their wakers into `due`.
    pub(crate) fn turn(&mut self, now: u64, due: &mut Vec<Waker>) -> Next {
        let woken = self.wakeup == 0;
        let mut fires = 0;
        while fires < BATCH
            && let Some(expired) = self.queue.pop_due(now)
        {
            let Armed { fired, waker } = expired.value;
            // Pairs with the load in `Timer::poll`: who sees it fired sees all that came before.
            fired.store(true, Ordering::Release);
            due.extend(waker);
            fires += 1;
        }
        self.stats.turns += 1;
        self.stats.fires += fires as u64;
        self.stats.spurious += u64::from(fires == 0 && !woken);
        if fires == BATCH {
            self.wakeup = 0;
            return Next::Turn;
        }
        let next = self.queue.next_deadline();
        self.wakeup = next.unwrap_or(u64::MAX);
        next.map_or(Next::Sleep, Next::SleepUntil)
    }

    /// Before the driver sleeps: whom to wake. Gives the waker it replaces.
    pub(crate) fn sleep(&mut self, driver: &Waker) -> Option<Waker> {
        match &self.driver {
            Some(known) if known.will_wake(driver) => None,
            _ => self.driver.replace(driver.clone()),
        }
    }

    /// The driver, to be woken for good.
    pub(crate) fn take_driver(&mut self) -> Option<Waker> {
        self.driver.take()
    }

    /// Wakes the driver for a deadline that comes before it would look.
    #[inline]
    fn hurry(&mut self, deadline: u64) -> WakeDriver {
        if deadline >= self.wakeup {
            return WakeDriver(None);
        }
        self.wakeup = 0;
        self.stats.driver_wakes += 1;
        WakeDriver(self.driver.take())
    }
}
