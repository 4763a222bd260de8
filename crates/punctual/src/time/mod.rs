//! Timers, tickers and sleeps with the semantics of Go's `time` package: [`sleep`], [`Timer`],
//! [`Ticker`], [`after`], [`tick`] and [`after_func`].
//!
//! A timer sends to a `crossbeam-channel` channel, so [`select!`] can wait for timers and other
//! channels together:
//!
//! ```
//! use std::time::Duration;
//! use punctual::time::{after, select};
//!
//! let (sender, replies) = crossbeam_channel::bounded(1);
//! std::thread::spawn(move || sender.send("pong"));
//!
//! select! {
//!     recv(replies) -> reply => assert_eq!(reply, Ok("pong")),
//!     recv(after(Duration::from_secs(5))) -> _ => panic!("no reply within five seconds"),
//! }
//! ```
//!
//! | Go | here | |
//! |---|---|---|
//! | `time.Now`, `time.Sleep` | [`now`], [`sleep`], [`sleep_until`] | |
//! | `time.NewTimer`, `t.C` | [`Timer::new`], [`Timer::c`] | |
//! | `t.Stop` | [`Timer::stop`] | the channel is empty afterwards |
//! | `t.Reset` | [`Timer::reset`] | an error if the timer is armed |
//! | `time.AfterFunc` | [`after_func`] | dropping it disarms it; see [`Timer::detach`] |
//! | `time.NewTicker` | [`Ticker::new`] | |
//! | its `t.Stop`, `t.Reset` | [`Ticker::stop`], [`Ticker::reset`] | |
//! | `time.After`, `time.Tick` | [`after`], [`tick`] | |
//!
//! # Guarantees
//!
//! - No timer fires early. After its deadline, a timer fires as soon as the system wakes a thread:
//!   some tens of microseconds later on a machine that is not busy.
//! - The value that a timer sends is its deadline. [`now`] minus the deadline is the lateness.
//! - After [`Timer::stop`] has returned, the channel is empty and stays empty: no late value comes,
//!   and the caller need not drain it. If `stop` returns true, the timer has not fired. If a timer
//!   is stopped while it fires, either it fires or `stop` returns true, never both.
//! - A [`Ticker`] ticks at multiples of its period from its start. Ticks that are not received in
//!   time are skipped, not queued, and a late tick does not delay later ticks.
//! - Callbacks run on worker threads, as many as needed: a callback that blocks delays no timer and
//!   no other callback. Callbacks with equal deadlines may run at the same time. The panic hook
//!   reports a panic in a callback, which has no other effect.
//! - Dropping a timer or a ticker disarms it.
//! - A timer with a deadline more than about 584 years (2^64 ns) after the start of the process
//!   never fires.
//!
//! # Cost
//!
//! All timers of a process share one thread, which starts when the first timer is armed and sleeps
//! exactly until the next deadline. Arming a timer wakes this thread only if the timer is due
//! before all other timers. Arming and stopping are O(1) and take about a tenth of a microsecond;
//! threads that arm timers rarely wait for each other. A stopped timer leaves no memory in use.
//!
//! A channel costs more than a timer. The channel doubles the time to create a [`Timer`], and takes
//! nearly all of the kilobyte that a `Timer` takes. A timer of [`after_func`] takes about 130
//! bytes. On the real clock, [`sleep`] and [`after`] need no timer: the waiting thread itself
//! sleeps.
//!
//! # Tests
//!
//! On a thread that has [entered](VirtualTime::enter) a [`VirtualTime`], this module uses a clock
//! that the test advances. A timeout of a month takes no time, and timers fire in order:
//!
//! ```
//! use std::time::Duration;
//! use punctual::time::{Timer, VirtualTime};
//!
//! const DAY: Duration = Duration::from_secs(24 * 3600);
//! let time = VirtualTime::new();
//! let _entered = time.enter();
//! let trial = Timer::new(30 * DAY);
//! time.advance(29 * DAY);
//! assert!(trial.c().is_empty());
//! time.advance(DAY);
//! assert!(trial.c().try_recv().is_ok());
//! ```
//!
//! # Fork
//!
//! A child process that was created by `fork` without `exec` has no timer thread, and must not use
//! this module.

pub(crate) mod alarm;
mod ticker;
pub(crate) mod timeline;
mod timer;
mod virtual_time;

#[cfg(all(test, not(loom)))]
mod model;
#[cfg(all(test, not(loom)))]
mod races;
#[cfg(all(test, not(loom)))]
mod tests;

use std::time::{Duration, Instant};

use crossbeam_channel::{bounded, never};

pub use crossbeam_channel::{self, Receiver, select};
pub use ticker::{PeriodError, Ticker, tick};
pub use timer::{ResetError, Timer, after_func};
pub use virtual_time::{Entered, VirtualTime};

use alarm::Alarm;
use timeline::Timeline;

/// Returns the time: [`Instant::now`], or the time of the virtual clock that this thread has
/// entered. O(1).
///
/// ```
/// use std::time::Duration;
/// use punctual::time::{VirtualTime, now};
///
/// let time = VirtualTime::new();
/// let _entered = time.enter();
/// let before = now();
/// time.advance(Duration::from_secs(60));
/// assert_eq!(now() - before, Duration::from_secs(60));
/// ```
pub fn now() -> Instant {
    match Timeline::current() {
        Timeline::Real => Instant::now(),
        timeline => timeline::instant(timeline.now()),
    }
}

/// Blocks for at least `delay`. O(1).
///
/// On the real clock, this is the system's sleep. On a virtual clock, this blocks until another
/// thread has advanced the clock by `delay`.
///
/// # Panics
///
/// In a callback of a virtual clock. The callback runs on the thread that advances the clock, so it
/// would wait for itself.
///
/// ```
/// use std::time::Duration;
/// use punctual::time::{VirtualTime, now, sleep};
///
/// let time = VirtualTime::new();
/// let nap = std::thread::spawn({
///     let time = time.clone();
///     move || {
///         let _entered = time.enter();
///         let before = now();
///         sleep(Duration::from_secs(3600));
///         now() - before
///     }
/// });
/// time.wait_for_pending(1); // the thread sleeps
/// time.advance(Duration::from_secs(3600));
/// assert_eq!(nap.join().unwrap(), Duration::from_secs(3600));
/// ```
pub fn sleep(delay: Duration) {
    match Timeline::current() {
        Timeline::Real => std::thread::sleep(delay),
        timeline => sleep_on(&timeline, timeline.deadline_after(delay)),
    }
}

/// Blocks until `instant`. Returns at once if that has passed. Panics like [`sleep`]. O(1).
///
/// ```
/// use std::time::Duration;
/// use punctual::time::{now, sleep_until};
///
/// let start = now();
/// for turn in 1..=3 {
///     sleep_until(start + turn * Duration::from_millis(1)); // regardless of the time per turn
/// }
/// assert!(now() - start >= Duration::from_millis(3));
/// ```
pub fn sleep_until(instant: Instant) {
    match Timeline::current() {
        Timeline::Real => std::thread::sleep(instant.saturating_duration_since(Instant::now())),
        timeline => sleep_on(&timeline, timeline::tick(instant)),
    }
}

/// Sleeps on a virtual timeline.
fn sleep_on(timeline: &Timeline, deadline: u64) {
    if deadline <= timeline.now() {
        return;
    }
    assert!(
        !timeline::is_advancing(),
        "punctual::time::sleep: called by a callback of a virtual clock, which would wait for its own \
         thread to advance the clock; arm a timer instead"
    );
    let (sender, receiver) = bounded(1);
    let handle = timeline.arm(deadline, Alarm::Send(sender));
    if timeline.has_passed(deadline) {
        timeline.disarm(handle);
        return;
    }
    // Fails only if the clock is dropped; `timeline` keeps the clock alive.
    let _ = receiver.recv();
}

/// Returns a channel that receives one value, the instant `delay` from now, at that instant. O(1).
///
/// After that the channel is empty but not disconnected. To stop waiting, drop the channel. On the
/// real clock this is `crossbeam_channel::after`, which creates no timer. A virtual clock keeps the
/// channels that have received their value, about a kilobyte each, until the clock is dropped.
///
/// ```
/// use std::time::Duration;
/// use punctual::time::{VirtualTime, after, now};
///
/// let time = VirtualTime::new();
/// let _entered = time.enter();
/// let timeout = after(Duration::from_secs(10));
/// time.advance(Duration::from_secs(10));
/// assert_eq!(timeout.recv(), Ok(now()));
/// ```
pub fn after(delay: Duration) -> Receiver<Instant> {
    match Timeline::current() {
        Timeline::Real => crossbeam_channel::after(delay),
        timeline => {
            let deadline = timeline.deadline_after(delay);
            if deadline == u64::MAX {
                return never();
            }
            let (sender, receiver) = bounded(1);
            timeline.arm(deadline, Alarm::SendAndKeep(sender));
            receiver
        }
    }
}
