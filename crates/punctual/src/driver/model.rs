//! Loom models of the driver, run by `scripts/loom`. Loom tries every interleaving of the threads.
//!
//! Time does not pass in a model: the clock is far beyond tick 1, so a deadline of 1 is due, and a
//! sleep never times out. So a lost wake-up is a deadlock, which loom reports.

use std::boxed::Box;
use std::sync::Arc;
use std::vec::Vec;

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use super::drive::Shared;
use super::{Alarm, Fired, Handle, Runner};

const DUE: u64 = 1;
const NEVER: u64 = u64::MAX - 1;

/// Counts the alarms that have fired.
struct Count(Arc<AtomicUsize>);

impl Alarm for Count {
    type Job = ();

    fn fire(&mut self, _due: u64, _now: u64) -> Fired<()> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Fired::Done
    }
}

struct Nothing;

impl Runner<()> for Nothing {
    fn run(&mut self, _jobs: &mut Vec<()>) {}
}

type Driver = Arc<Shared<Count>>;

fn check(shards: usize, body: impl Fn(&Driver) + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    // The number of forced switches between threads. A higher bound takes longer and found no more
    // errors.
    model.preemption_bound = Some(3);
    model.check(move || {
        let driver = Arc::new(Shared::with_shards(Box::new(Nothing), shards));
        let thread = thread::spawn({
            let driver = driver.clone();
            move || driver.drive()
        });
        body(&driver);
        driver.stop();
        thread.join().unwrap();
    });
}

/// Waits until `count` alarms have fired. Yielding lets the driver's thread run; if that thread
/// sleeps forever, loom reports a deadlock.
fn until_fired(count: &AtomicUsize, times: usize) {
    while count.load(Ordering::Relaxed) < times {
        thread::yield_now();
    }
}

#[test]
fn a_deadline_armed_while_the_thread_falls_asleep_is_not_missed() {
    check(1, |driver| {
        let fired = Arc::new(AtomicUsize::new(0));
        driver.arm(DUE, Count(fired.clone()));
        until_fired(&fired, 1);
    });
}

#[test]
fn an_earlier_deadline_cuts_a_sleep_short() {
    check(1, |driver| {
        let fired = Arc::new(AtomicUsize::new(0));
        driver.arm(NEVER, Count(fired.clone()));
        driver.arm(DUE, Count(fired.clone()));
        until_fired(&fired, 1);
    });
}

#[test]
fn two_threads_arm_and_both_timers_fire() {
    check(2, |driver| {
        let fired = Arc::new(AtomicUsize::new(0));
        let other = thread::spawn({
            let (driver, fired) = (driver.clone(), fired.clone());
            move || {
                driver.arm_in(1, DUE, Count(fired));
            }
        });
        driver.arm_in(0, DUE, Count(fired.clone()));
        other.join().unwrap();
        until_fired(&fired, 2);
    });
}

#[test]
fn a_timer_rearmed_earlier_by_another_thread_fires() {
    check(1, |driver| {
        let fired = Arc::new(AtomicUsize::new(0));
        let handle = driver.arm(NEVER, Count(fired.clone()));
        let other = thread::spawn({
            let driver = driver.clone();
            move || driver.rearm(handle, DUE)
        });
        assert!(other.join().unwrap());
        until_fired(&fired, 1);
    });
}

#[test]
fn a_timer_is_disarmed_or_has_fired() {
    check(1, |driver| {
        let fired = Arc::new(AtomicUsize::new(0));
        let handle: Handle = driver.arm(DUE, Count(fired.clone()));
        match driver.shard(handle).unwrap().disarm(handle.key()) {
            Some(_) => assert_eq!(fired.load(Ordering::Relaxed), 0),
            None => assert_eq!(fired.load(Ordering::Relaxed), 1),
        }
    });
}
