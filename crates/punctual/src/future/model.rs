//! Models for loom, which tries every order of a poll, a reset or a drop and the deadline: `scripts/loom` runs them.
//!
//! Time does not pass in a model: deadline 1 has come, and a sleep never ends by itself. So a wake-up that gets
//! lost is a deadlock.

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

    /// Waits as an executor does: a yield lets the driver's thread go on, and if that sleeps for ever, loom sees it.
    fn until_woken(&self) {
        while !self.woken.0.load(Ordering::Acquire) {
            thread::yield_now();
        }
    }

    /// Whether nobody else has a waker of it.
    fn is_let_go(&self) -> bool {
        Arc::strong_count(&self.woken) == 2
    }
}

fn in_every_order(body: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    // Every order in which at most this many switches are forced: more changes nothing but the time it takes.
    model.preemption_bound = Some(3);
    model.check(body);
}

fn check(body: impl Fn(Timeline) + Sync + Send + 'static) {
    in_every_order(move || {
        let (driver, drive) = Simulation::modelled();
        let thread = thread::spawn(drive);
        body(Timeline::Virtual(driver)); // and ends it, by dropping the driver
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
            assert!(first.is_let_go());
            second.until_woken();
            assert!(second.polls(&mut sleep));
        }
    });
}

#[test]
fn a_deadline_that_is_put_off_wakes_nobody_or_has_come() {
    check(|timeline| {
        let task = Task::new();
        let mut sleep = Sleep::waiting(timeline, DUE, &task.waker);
        sleep.put(NEVER);
        if !sleep.is_waiting() {
            task.until_woken();
            assert!(!task.polls(&mut sleep));
        }
        assert!(!task.is_let_go());
        drop(sleep);
        assert!(task.is_let_go());
    });
}

#[test]
fn a_sleep_that_is_left_gives_its_waker_back_or_has_woken() {
    check(|timeline| {
        let task = Task::new();
        let mut sleep = Sleep::waiting(timeline, DUE, &task.waker);
        match sleep.leave() {
            Some(waker) => {
                drop(waker);
                assert!(task.is_let_go());
                assert!(!task.woken.0.load(Ordering::Acquire));
            }
            None => task.until_woken(),
        }
    });
}

/// Who polls looks at a virtual clock, arms, and looks again; who moves it looks for alarms again when it has arrived.
#[test]
fn a_clock_that_is_moved_meanwhile_is_noticed_or_wakes() {
    in_every_order(|| {
        let clock = Simulation::standing();
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

/// The same for one that waits already, and is put off.
#[test]
fn a_clock_that_is_moved_during_a_reset_is_noticed_or_wakes() {
    in_every_order(|| {
        let clock = Simulation::standing();
        let task = Task::new();
        let mut sleep = Sleep::new(Timeline::Virtual(clock.clone()), 2 * DUE);
        assert!(!task.polls(&mut sleep));
        let moving = thread::spawn(move || clock.step(Duration::from_nanos(DUE)));
        sleep.put(DUE);
        moving.join().unwrap();
        assert!(task.polls(&mut sleep) && task.woken.0.load(Ordering::Acquire));
    });
}
