//! `Timer`: a timer that fires once, unless it is stopped before.

use core::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, never};

use super::alarm::{Alarm, Callback};
use super::timeline::Timeline;
use crate::driver::Handle;

/// A timer that fires once: it sends to a channel or calls a function.
///
/// Any thread may stop or reset it. Dropping a timer disarms it; a [detached](Self::detach) timer
/// stays armed.
///
/// ```
/// use std::time::Duration;
/// use punctual::time::{Timer, now};
///
/// let timer = Timer::new(Duration::from_millis(1));
/// let due = timer.c().recv().unwrap();
/// assert!(now() >= due);
///
/// timer.reset(Duration::from_secs(3600)).unwrap(); // it has fired, so it can be reset
/// assert!(timer.stop()); // it had not fired
/// ```
#[must_use = "a timer that is dropped is disarmed; `detach` lets it run on"]
pub struct Timer {
    timeline: Timeline,
    action: Action,
    /// The channel of a timer that sends. It has room for one value, and has a value only while the
    /// timer is not armed.
    receiver: Receiver<Instant>,
    /// The handle of the last arming. Stops and resets take the lock; a firing timer does not.
    handle: Mutex<Option<Handle>>,
}

enum Action {
    Send(Sender<Instant>),
    Call(Callback),
}

/// The error of [`Timer::reset`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResetError {
    /// The timer is armed. After a reset it would be unclear which of the two armings a value comes
    /// from.
    Armed,
}

impl fmt::Display for ResetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ResetError::Armed => "Timer.reset: the timer is armed; must be stopped or expired",
        })
    }
}

impl core::error::Error for ResetError {}

impl Timer {
    /// Returns a timer that sends its deadline to its [channel](Self::c) `delay` from now. O(1).
    ///
    /// # Panics
    ///
    /// If the timer thread does not run yet and cannot be started.
    ///
    /// ```
    /// use std::time::Duration;
    /// use punctual::time::{Timer, select};
    ///
    /// let (sender, jobs) = crossbeam_channel::unbounded();
    /// (1..=3).for_each(|job| sender.send(job).unwrap());
    ///
    /// let closing_time = Timer::new(Duration::from_millis(5));
    /// let mut done = 0;
    /// loop {
    ///     select! {
    ///         recv(jobs) -> job => done += job.unwrap(),
    ///         recv(closing_time.c()) -> _ => break,
    ///     }
    /// }
    /// assert_eq!(done, 6);
    /// ```
    pub fn new(delay: Duration) -> Timer {
        let (sender, receiver) = bounded(1);
        Self::armed(delay, Action::Send(sender), receiver)
    }

    fn armed(delay: Duration, action: Action, receiver: Receiver<Instant>) -> Timer {
        let timer = Timer {
            timeline: Timeline::current(),
            action,
            receiver,
            handle: Mutex::new(None),
        };
        timer.arm(&mut timer.lock(), delay);
        timer
    }

    /// Returns the timer's channel. The channel stays connected as long as the timer lives. The
    /// channel of a timer with a function stays empty.
    ///
    /// Other threads can use clones of the channel; each value goes to one receiver.
    ///
    /// ```
    /// use std::time::Duration;
    /// use punctual::time::Timer;
    /// let timer = Timer::new(Duration::from_secs(3600));
    /// assert!(timer.c().try_recv().is_err());
    /// ```
    pub fn c(&self) -> &Receiver<Instant> {
        &self.receiver
    }

    /// Disarms the timer. Returns true if the timer was armed, and false if it has fired or was
    /// stopped before. O(1).
    ///
    /// In both cases the channel is empty afterwards: a value that was not received is dropped. A
    /// function that has started continues; `stop` does not wait for it.
    ///
    /// ```
    /// use std::time::Duration;
    /// use punctual::time::{Timer, VirtualTime};
    ///
    /// let time = VirtualTime::new();
    /// let _entered = time.enter();
    /// let timer = Timer::new(Duration::from_secs(1));
    /// time.advance(Duration::from_secs(1)); // it fires, and the value is not received
    /// assert!(!timer.stop());
    /// assert!(timer.c().is_empty());
    /// ```
    pub fn stop(&self) -> bool {
        let mut handle = self.lock();
        let disarmed = handle
            .take()
            .and_then(|handle| self.timeline.disarm(handle));
        if disarmed.is_none() {
            self.drain();
        }
        disarmed.is_some()
    }

    /// Arms the timer again, to fire `delay` from now, on the clock on which it was created. A
    /// value of the last firing that was not received is dropped. O(1).
    ///
    /// # Errors
    ///
    /// [`ResetError::Armed`] if the timer is armed. [`stop`](Self::stop) it first.
    ///
    /// # Panics
    ///
    /// In the same case as [`new`](Self::new).
    ///
    /// A function may reset its own timer:
    ///
    /// ```
    /// use std::sync::{Arc, Weak};
    /// use std::time::Duration;
    /// use punctual::time::{Timer, VirtualTime, after_func};
    ///
    /// let time = VirtualTime::new();
    /// let _entered = time.enter();
    /// let (sender, attempts) = crossbeam_channel::unbounded();
    /// // A strong reference would keep the timer alive forever.
    /// let retry = Arc::new_cyclic(|retry: &Weak<Timer>| {
    ///     let retry = retry.clone();
    ///     after_func(Duration::from_secs(1), move || {
    ///         sender.send("another attempt").unwrap();
    ///         if let Some(retry) = retry.upgrade() {
    ///             let _ = retry.reset(Duration::from_secs(2));
    ///         }
    ///     })
    /// });
    /// time.advance(Duration::from_secs(6)); // fires at 1, 3 and 5
    /// assert_eq!(attempts.len(), 3);
    /// assert!(retry.stop());
    /// ```
    pub fn reset(&self, delay: Duration) -> Result<(), ResetError> {
        let mut handle = self.lock();
        if self.is_current(*handle) {
            return Err(ResetError::Armed);
        }
        self.drain();
        self.arm(&mut handle, delay);
        Ok(())
    }

    /// Returns true if the timer has neither fired nor been stopped. O(1).
    ///
    /// ```
    /// use std::time::Duration;
    /// use punctual::time::Timer;
    /// let timer = Timer::new(Duration::from_secs(3600));
    /// assert!(timer.is_armed());
    /// timer.stop();
    /// assert!(!timer.is_armed());
    /// ```
    pub fn is_armed(&self) -> bool {
        self.is_current(*self.lock())
    }

    /// Drops the timer without disarming it: the timer fires, and can no longer be stopped. Its
    /// channel is disconnected after the value. O(1).
    ///
    /// ```
    /// use std::time::Duration;
    /// use punctual::time::after_func;
    ///
    /// let (sender, receiver) = crossbeam_channel::bounded(1);
    /// after_func(Duration::from_millis(1), move || sender.send("done").unwrap()).detach();
    /// assert_eq!(receiver.recv(), Ok("done"));
    /// ```
    pub fn detach(self) {
        self.lock().take();
    }

    fn is_current(&self, handle: Option<Handle>) -> bool {
        handle.is_some_and(|handle| self.timeline.with(handle, |_| ()).is_some())
    }

    fn arm(&self, handle: &mut Option<Handle>, delay: Duration) {
        let alarm = match &self.action {
            Action::Send(sender) => Alarm::Send(sender.clone()),
            Action::Call(callback) => Alarm::Call(callback.clone()),
        };
        let deadline = self.timeline.deadline_after(delay);
        *handle = Some(self.timeline.arm(deadline, alarm));
    }

    /// Empties the channel. The timer must not be armed, so that no further value can come.
    fn drain(&self) {
        let _ = self.receiver.try_recv();
    }

    fn lock(&self) -> MutexGuard<'_, Option<Handle>> {
        self.handle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Calls `callback` `delay` from now, on a worker thread. On a virtual clock, calls it on the
/// thread that advances the clock. O(1).
///
/// The timer can be reset, so `callback` may run again, even before its last call has returned.
///
/// Callbacks with equal deadlines may run at the same time.
///
/// # Panics
///
/// In the same case as [`Timer::new`].
///
/// ```
/// use std::time::Duration;
/// use punctual::time::after_func;
///
/// let (sender, receiver) = crossbeam_channel::bounded(1);
/// let timer = after_func(Duration::from_millis(1), move || sender.send("called").unwrap());
/// assert_eq!(receiver.recv(), Ok("called"));
/// assert!(!timer.stop()); // it has fired
/// ```
pub fn after_func(delay: Duration, callback: impl Fn() + Send + Sync + 'static) -> Timer {
    Timer::armed(delay, Action::Call(Arc::new(callback)), never())
}

impl Drop for Timer {
    fn drop(&mut self) {
        if let Some(handle) = self.lock().take() {
            self.timeline.disarm(handle);
        }
    }
}

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timer")
            .field("armed", &self.is_armed())
            .field("calls", &matches!(self.action, Action::Call(_)))
            .finish_non_exhaustive()
    }
}
