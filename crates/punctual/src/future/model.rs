//! Loom models of all interleavings of a poll, a reset or a drop with the deadline, run by
//! `scripts/loom`.
//!
//! Time does not pass in a model: the real clock is far beyond tick 1, so a deadline of 1 is due,
//! and a sleep never times out. So a lost wake-up is a deadlock, which loom reports.

use core::task::{Context, Waker};
use std::sync::Arc;
use std::task::Wake;
use std::time::Duration;

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

use super::Sleep;
use crate::time::timeline::{Simulation, Timeline};

const DUE: u64 = 1;
const NEVER: u64 = u64::MAX - 1;

/// A task's waker.
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

struct Task {
    woken: Arc<Woken>,
    waker: Waker,
}

impl Task {
    fn new() -> Self {
        let woken = Arc::new(Woken(AtomicBool::new(false)));
        let waker = woken.clone().into();
        Task { woken, waker }
    }

    fn polls(&self, sleep: &mut Sleep) -> bool {
        sleep
            .poll_elapsed(&mut Context::from_waker(&self.waker))
            .is_ready()
    }

    /// Waits until the task is woken, like an executor. Yielding lets the driver's thread run; if
    /// that thread sleeps forever, loom reports a deadlock.
    fn until_woken(&self) {
        while !self.woken.0.load(Ordering::Acquire) {
            thread::yield_now();
        }
    }

    /// Returns true if no other clone of the waker is left.
    fn is_released(&self) -> bool {
        Arc::strong_count(&self.woken) == 2
    }
}

fn in_every_interleaving(body: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    // The number of forced switches between threads. A higher bound takes longer and found no more
    // errors.
    model.preemption_bound = Some(3);
    model.check(body);
}

fn check(body: impl Fn(Timeline) + Sync + Send + 'static) {
    in_every_interleaving(move || {
        let (driver, drive) = Simulation::modelled();
        let thread = thread::spawn(drive);
        body(Timeline::Virtual(driver)); // drops the driver, which ends its thread
        thread.join().unwrap();
    });
}

#[test]
fn a_task_that_waits_is_woken() {
    check(|timeline| {
        let task = Task::new();
        let mut sleep = Sleep::waiting(timeline, DUE, &task.waker);
        if !task.polls(&mut sleep) {
            task.until_woken();
            assert!(task.polls(&mut sleep));
        }
    });
}

#[test]
fn the_task_that_polled_last_is_woken() {
    check(|timeline| {
        let (first, second) = (Task::new(), Task::new());
        let mut sleep = Sleep::waiting(timeline, DUE, &first.waker);
        if !second.polls(&mut sleep) {
            assert!(first.is_released());
            second.until_woken();
            assert!(second.polls(&mut sleep));
        }
    });
}

#[test]
fn a_postponed_deadline_does_not_wake_unless_it_has_passed() {
    check(|timeline| {
        let task = Task::new();
        let mut sleep = Sleep::waiting(timeline, DUE, &task.waker);
        sleep.set_deadline(NEVER);
        if !sleep.is_waiting() {
            task.until_woken();
            assert!(!task.polls(&mut sleep));
        }
        assert!(!task.is_released());
        drop(sleep);
        assert!(task.is_released());
    });
}

#[test]
fn a_stopped_sleep_returns_its_waker_or_has_woken_it() {
    check(|timeline| {
        let task = Task::new();
        let mut sleep = Sleep::waiting(timeline, DUE, &task.waker);
        match sleep.stop_waiting() {
            Some(waker) => {
                drop(waker);
                assert!(task.is_released());
                assert!(!task.woken.0.load(Ordering::Acquire));
            }
            None => task.until_woken(),
        }
    });
}

/// The poll checks the virtual clock, arms the alarm, and checks the clock again. The advancing
/// thread moves the clock to its target and then checks for alarms again.
#[test]
fn a_concurrent_advance_is_noticed_or_wakes() {
    in_every_interleaving(|| {
        let clock = Simulation::paused();
        let moving = thread::spawn({
            let clock = clock.clone();
            move || clock.step(Duration::from_nanos(DUE))
        });
        let task = Task::new();
        let mut sleep = Sleep::new(Timeline::Virtual(clock), DUE);
        let ready = task.polls(&mut sleep);
        moving.join().unwrap();
        assert!(ready || task.woken.0.load(Ordering::Acquire));
        assert!(task.polls(&mut sleep));
    });
}

/// Like the model above, with a reset of a waiting sleep instead of a poll.
#[test]
fn an_advance_during_a_reset_is_noticed_or_wakes() {
    in_every_interleaving(|| {
        let clock = Simulation::paused();
        let task = Task::new();
        let mut sleep = Sleep::new(Timeline::Virtual(clock.clone()), 2 * DUE);
        assert!(!task.polls(&mut sleep));
        let moving = thread::spawn(move || clock.step(Duration::from_nanos(DUE)));
        sleep.set_deadline(DUE);
        moving.join().unwrap();
        assert!(task.polls(&mut sleep) && task.woken.0.load(Ordering::Acquire));
    });
}
