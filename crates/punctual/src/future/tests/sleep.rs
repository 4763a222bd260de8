//! Tests of arming, readiness and resets of a sleep.

use std::time::Instant;

use futures_core::FusedFuture;

use super::*;

#[test]
fn a_sleep_is_armed_by_a_poll_and_disarmed_by_a_drop() {
    let time = VirtualTime::new();
    let _entered = time.enter();
    let task = Task::new();
    let mut one = sleep(10 * MS);
    assert_eq!(armed(), 0);
    assert!(task.poll(&mut one).is_pending());
    let mut two = sleep(20 * MS);
    assert!(task.poll(&mut two).is_pending());
    assert_eq!((armed(), task.waker_clones()), (2, 2));
    drop(two);
    assert_eq!((armed(), task.waker_clones()), (1, 1));
    time.advance(10 * MS);
    assert_eq!((armed(), task.waker_clones(), task.woken()), (0, 0, 1));
    assert_eq!(task.poll(&mut one), Poll::Ready(()));
    assert_eq!(task.poll(&mut one), Poll::Ready(()), "it stays ready");
    assert!(one.is_elapsed());
}

#[test]
fn a_sleep_counts_from_its_call() {
    let time = VirtualTime::new();
    let _entered = time.enter();
    let task = Task::new();
    let mut late = sleep(10 * MS);
    time.advance(4 * MS);
    let mut sooner = sleep(5 * MS);
    assert_eq!(late.deadline() - sooner.deadline(), MS);
    assert!(task.poll(&mut late).is_pending() && task.poll(&mut sooner).is_pending());
    time.advance(5 * MS);
    assert!(task.poll(&mut late).is_pending() && task.poll(&mut sooner).is_ready());
    time.advance(MS);
    assert!(task.poll(&mut late).is_ready());
    assert_eq!(task.woken(), 2);
}

#[test]
fn a_past_deadline_needs_no_driver() {
    let time = VirtualTime::new();
    let _entered = time.enter();
    let task = Task::new();
    let mut created = sleep(10 * MS);
    time.advance(10 * MS);
    assert!(task.poll(&mut created).is_ready());
    assert!(task.poll(&mut sleep(Duration::ZERO)).is_ready());
    let past = now() - MS;
    assert!(task.poll(&mut sleep_until(past)).is_ready());
    assert_eq!((armed(), task.woken()), (0, 0));
}

#[test]
fn a_deadline_beyond_the_clock_never_comes() {
    let time = VirtualTime::new();
    let _entered = time.enter();
    let task = Task::new();
    let mut never = sleep(Duration::MAX);
    assert!(task.poll(&mut never).is_pending());
    time.advance(Duration::from_secs(500 * 365 * 86_400));
    assert!(task.poll(&mut never).is_pending() && task.woken() == 0);
    assert!(never.deadline() > Instant::now());
}

#[test]
fn the_last_waker_is_woken_and_a_known_one_is_not_cloned() {
    let time = VirtualTime::new();
    let _entered = time.enter();
    let (first, second) = (Task::new(), Task::new());
    let mut moved = sleep(10 * MS);
    for _ in 0..3 {
        assert!(first.poll(&mut moved).is_pending());
        assert_eq!(first.waker_clones(), 1);
    }
    assert!(second.poll(&mut moved).is_pending());
    assert_eq!(
        (first.waker_clones(), second.waker_clones(), armed()),
        (0, 1, 1)
    );
    time.advance(10 * MS);
    assert_eq!((first.woken(), second.woken()), (0, 1));
}

#[test]
fn a_reset_moves_the_deadline_of_a_waiting_task() {
    let time = VirtualTime::new();
    let _entered = time.enter();
    let task = Task::new();
    let start = now();
    let mut idle = sleep(10 * MS);
    idle.reset(start + 5 * MS);
    assert_eq!(armed(), 0, "nobody waits");
    assert!(task.poll(&mut idle).is_pending());
    idle.reset(start + 20 * MS);
    time.advance(19 * MS);
    assert_eq!(task.woken(), 0);
    idle.reset(start + 30 * MS);
    idle.reset(start + 21 * MS);
    time.advance(2 * MS);
    assert_eq!(task.woken(), 1);
    // The sleep has fired, and was not polled since.
    idle.reset(start + 40 * MS);
    assert_eq!(armed(), 0);
    assert!(task.poll(&mut idle).is_pending() && armed() == 1);
    time.advance(19 * MS);
    assert!(task.poll(&mut idle).is_ready());
    // A sleep that is ready can be reset and used again.
    idle.reset(start + 50 * MS);
    assert!(!idle.is_elapsed());
    assert!(task.poll(&mut idle).is_pending());
    time.advance(10 * MS);
    assert!(task.poll(&mut idle).is_ready());
    // Reset to an instant in the past.
    idle.reset(start + 90 * MS);
    assert!(task.poll(&mut idle).is_pending());
    task.woken();
    idle.reset(start + 10 * MS);
    assert_eq!((task.woken(), armed()), (1, 0));
    assert!(task.poll(&mut idle).is_ready());
}

#[test]
fn a_sleep_is_terminated_from_its_end_to_its_reset() {
    let time = VirtualTime::new();
    let _entered = time.enter();
    let (task, start) = (Task::new(), now());
    let mut nap = sleep(10 * MS);
    assert!(task.poll(&mut nap).is_pending() && !nap.is_terminated());
    time.advance(10 * MS);
    assert!(!nap.is_terminated(), "no poll has returned ready yet");
    assert!(task.poll(&mut nap).is_ready() && nap.is_terminated());
    nap.reset_after(5 * MS);
    assert_eq!(nap.deadline(), start + 15 * MS);
    assert!(task.poll(&mut nap).is_pending() && !nap.is_terminated());
}

#[test]
fn the_last_tick_is_never_due() {
    let time = VirtualTime::new();
    let _entered = time.enter();
    let task = Task::new();
    time.advance(Duration::MAX);
    time.advance(Duration::MAX);
    let mut never = sleep(Duration::MAX);
    assert!(task.poll(&mut never).is_pending());
    time.advance(Duration::MAX);
    assert!(task.poll(&mut never).is_pending());
    let mut ticks = interval(Duration::MAX).unwrap();
    assert!(task.poll(&mut ticks.tick()).is_pending());
    assert_eq!(task.woken(), 0);
}
