//! Time for programs: [`sleep`], [`Timer`], [`Ticker`], [`after`], [`tick`] and [`after_func`], as Go's `time` has them.
//!
//! What a timer sends comes through a channel of `crossbeam-channel`, so [`select!`] waits for timers and for everything
//! else at once:
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
//! | `time.AfterFunc` | [`after_func`] | dropping its timer disarms it: [`Timer::detach`] |
//! | `time.NewTicker`, `t.Stop`, `t.Reset` | [`Ticker::new`], [`Ticker::stop`], [`Ticker::reset`] | |
//! | `time.After`, `time.Tick` | [`after`], [`tick`] | |
//!
//! # What holds
//!
//! - Nothing fires early. It fires as soon after its time as the system wakes a thread, some tens of microseconds if
//!   the machine is not busy.
//! - What a timer sends is the instant it was due at. How late it came is [`now`] minus that.
//! - When [`Timer::stop`] has returned, the channel is empty and stays so: no value comes late, and nothing has to be
//!   drained. When it says `true`, the timer had not fired; of a firing and a stop at the same moment, one wins.
//! - A [`Ticker`] ticks at multiples of its period from its start. Ticks that nobody has received in time are
//!   skipped, not queued, and late ones move no others.
//! - Callbacks run on threads of their own, of which there are as many as are needed: one that blocks delays neither
//!   timers nor other callbacks. Those that are due together may run at the same time. One that panics is reported by the
//!   panic hook, and nothing else happens.
//! - Timers and tickers that are dropped are disarmed.
//! - A delay too long to be told in nanoseconds since about the start of the process (584 years) never ends.
//!
//! # What it costs
//!
//! All timers of a process share one thread, which starts when the first one is armed and sleeps until exactly the next
//! deadline. It is woken in between only for a deadline earlier than all others. To arm or to stop is O(1), about a tenth
//! of a microsecond, and threads that do so at once do not wait for each other. What was stopped leaves nothing behind.
//!
//! A channel costs more than a timer: it takes a [`Timer`] twice that time to make one, and nearly all of its kilobyte. A
//! timer of [`after_func`] takes some 130 bytes. [`sleep`] and [`after`] need no timer at all: the thread that waits sleeps
//! by itself.
//!
//! # Tests
//!
//! On a thread that has [entered](VirtualTime::enter) a [`VirtualTime`], all of this keeps to a clock that the test moves by
//! hand. A timeout of a month takes no time, and everything fires in order:
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
//! A child process made by `fork` without `exec` has no timer thread, and must not use this module.

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

/// The time: [`Instant::now`], or what the virtual clock shows that this thread has entered. O(1).
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

/// Waits for `delay`, at least. On the real clock the system does that, as precisely as it can; on a virtual one, this
/// waits until another thread has advanced it so far. O(1).
///
/// # Panics
///
/// In a callback of a virtual clock, which runs while that clock is being advanced: it would wait for itself.
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
/// time.wait_for_pending(1); // it sleeps
/// time.advance(Duration::from_secs(3600));
/// assert_eq!(nap.join().unwrap(), Duration::from_secs(3600));
/// ```
pub fn sleep(delay: Duration) {
    match Timeline::current() {
        Timeline::Real => std::thread::sleep(delay),
        timeline => sleep_on(&timeline, timeline.deadline_after(delay)),
    }
}

/// Waits until `instant`; not at all if that has passed. As [`sleep`] otherwise, with the same panic. O(1).
///
/// ```
/// use std::time::Duration;
/// use punctual::time::{now, sleep_until};
///
/// let start = now();
/// for turn in 1..=3 {
///     sleep_until(start + turn * Duration::from_millis(1)); // however long each turn takes
/// }
/// assert!(now() - start >= Duration::from_millis(3));
/// ```
pub fn sleep_until(instant: Instant) {
    match Timeline::current() {
        Timeline::Real => std::thread::sleep(instant.saturating_duration_since(Instant::now())),
        timeline => sleep_on(&timeline, timeline::tick(instant)),
    }
}

/// On a virtual timeline.
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
    // It fails only if the clock goes away, which this thread keeps from going.
    let _ = receiver.recv();
}

/// A channel that gets one value, the instant `delay` from now, when that has come. After that it is empty for ever,
/// but does not become disconnected. It cannot be stopped, nor need it be: dropping it is enough. O(1).
///
/// On the real clock this is `crossbeam_channel::after`, which makes no timer at all. A virtual clock keeps the channel
/// of each one that has fired, about a kilobyte, until it is dropped itself.
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
