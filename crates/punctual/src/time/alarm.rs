//! The actions of the timers of the time API and the futures.
//!
//! An alarm sends to a channel when it fires, under the lock of its driver's shard. An action that
//! may run code of the program (calling a callback, waking a task, dropping a callback or a waker)
//! is a [`Job`], which runs with no lock held. For example, a waker may be the last owner of a
//! task, and the task may own a timer of the same shard.

use core::fmt;
use core::mem;
use core::task::Waker;
use std::boxed::Box;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crossbeam_channel::{Sender, TrySendError};

use super::timeline;
use crate::driver::{self, Fired, Handle};
use crate::tick::next_tick;

/// A callback of [`after_func`](super::after_func).
pub(crate) type Callback = Arc<dyn Fn() + Send + Sync>;

pub(crate) enum Alarm {
    /// Sends its deadline.
    Send(Sender<Instant>),
    /// Sends its deadline, and gives the sender to the driver's [`Runner`](driver::Runner), which
    /// keeps it so that the channel stays connected.
    SendAndKeep(Sender<Instant>),
    /// Sends the deadline of each tick, if the channel has room.
    Tick(Box<Tick>),
    Call(Callback),
    #[cfg_attr(not(feature = "async"), allow(dead_code))]
    Wake(Waker),
    /// The alarm has fired, and its job has its contents.
    Empty,
}

/// Work that is done after the shard is unlocked.
pub(crate) enum Job {
    Call(Callback),
    Wake(Waker),
    Keep(Sender<Instant>),
}

pub(crate) struct Tick {
    pub(crate) sender: Sender<Instant>,
    /// Period in ticks of the driver, at least 1.
    pub(crate) period: u64,
    /// The alarm stores its handle here for its [`Ticker`](super::Ticker), because the handle
    /// changes with every tick.
    pub(crate) current_handle: Option<Arc<CurrentHandle>>,
}

/// The current handle of a periodic alarm. Its lock is held only to copy the handle, and may be
/// taken under a shard's lock.
#[derive(Default)]
pub(crate) struct CurrentHandle(Mutex<Option<Handle>>);

impl CurrentHandle {
    pub(crate) fn get(&self) -> Option<Handle> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set(&self, handle: Option<Handle>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = handle;
    }
}

impl driver::Alarm for Alarm {
    type Job = Job;

    fn fire(&mut self, due: u64, now: u64) -> Fired<Job> {
        match mem::replace(self, Alarm::Empty) {
            Alarm::Send(sender) => {
                // The channel has room, or no receiver is left: no error to handle.
                let _ = sender.try_send(timeline::instant(due));
                Fired::Done
            }
            Alarm::SendAndKeep(sender) => {
                let _ = sender.try_send(timeline::instant(due));
                Fired::Do(Job::Keep(sender))
            }
            Alarm::Tick(tick) => {
                let sent = tick.sender.try_send(timeline::instant(due));
                if let Err(TrySendError::Disconnected(_)) = sent {
                    return Fired::Done; // no receiver is left
                }
                let next = next_tick(due, tick.period, now);
                *self = Alarm::Tick(tick);
                Fired::Again(next)
            }
            Alarm::Call(callback) => Fired::Do(Job::Call(callback)),
            Alarm::Wake(waker) => Fired::Do(Job::Wake(waker)),
            Alarm::Empty => Fired::Done,
        }
    }

    fn armed(&mut self, handle: Handle) {
        if let Alarm::Tick(tick) = self
            && let Some(current_handle) = &tick.current_handle
        {
            current_handle.set(Some(handle));
        }
    }
}

impl fmt::Debug for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Alarm::Send(_) | Alarm::SendAndKeep(_) => "Send",
            Alarm::Tick(_) => "Tick",
            Alarm::Call(_) => "Call",
            Alarm::Wake(_) => "Wake",
            Alarm::Empty => "Empty",
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::driver::Alarm as _;
    use crossbeam_channel::bounded;

    fn ticker(period: u64) -> (Alarm, crossbeam_channel::Receiver<Instant>) {
        let (sender, receiver) = bounded(1);
        let tick = Tick {
            sender,
            period,
            current_handle: None,
        };
        (Alarm::Tick(Box::new(tick)), receiver)
    }

    #[test]
    fn a_late_tick_skips_and_keeps_to_its_multiples() {
        let (mut alarm, receiver) = ticker(10);
        for (due, now, next) in [
            (10, 10, 20),
            (20, 29, 30),
            (30, 40, 50),
            (50, 85, 90),
            (90, 80, 100), // a clock that stepped back
        ] {
            assert!(
                matches!(alarm.fire(due, now), Fired::Again(again) if again == next),
                "due {due}, fired at {now}"
            );
        }
        // No tick was received, so the first tick is in the channel and the other ticks were
        // skipped.
        assert_eq!(receiver.try_recv(), Ok(timeline::instant(10)));
        assert!(receiver.try_recv().is_err());
    }

    #[test]
    fn a_tick_too_far_away_never_comes() {
        let (mut alarm, _receiver) = ticker(u64::MAX - 1);
        assert!(matches!(alarm.fire(5, 5), Fired::Again(u64::MAX)));
    }

    #[test]
    fn a_tick_that_nobody_can_receive_is_the_last() {
        let (mut alarm, receiver) = ticker(10);
        drop(receiver);
        assert!(matches!(alarm.fire(10, 10), Fired::Done));
    }

    #[test]
    fn an_alarm_is_small() {
        assert!(size_of::<Alarm>() <= 24, "{}", size_of::<Alarm>());
    }
}
