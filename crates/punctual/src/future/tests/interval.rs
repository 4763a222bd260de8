//! Ticks: on the beat, whoever is late.

use futures_core::Stream;

use super::*;

#[test]
fn an_interval_skips_and_does_not_drift() {
    let time = VirtualTime::new();
    let _entered = time.enter();
    let task = Task::new();
    let start = now();
    let mut ticks = interval(10 * MS).unwrap();
    assert!(task.poll(&mut ticks.tick()).is_pending());
    time.advance(12 * MS);
    assert_eq!(task.woken(), 1);
    assert_eq!(task.poll(&mut ticks.tick()), Poll::Ready(start + 10 * MS));
    assert_eq!(ticks.deadline(), start + 20 * MS, "not 22");
    time.advance(33 * MS);
    // The receiver slept through 20, 30 and 40.
    assert_eq!(task.poll(&mut ticks.tick()), Poll::Ready(start + 40 * MS));
    assert!(task.poll(&mut ticks.tick()).is_pending());
    time.advance(5 * MS);
    let next = Pin::new(&mut ticks).poll_next(&mut task.cx());
    assert_eq!(next, Poll::Ready(Some(start + 50 * MS)));
    time.advance(7 * MS);
    ticks.reset();
    assert_eq!(ticks.deadline(), start + 67 * MS);
    drop(ticks);
    assert_eq!(armed(), 0);
}

#[test]
fn an_interval_may_start_at_once_or_never_tick() {
    let time = VirtualTime::new();
    let _entered = time.enter();
    let task = Task::new();
    let start = now();
    time.advance(25 * MS);
    let mut ticks = interval_at(start, 10 * MS).unwrap();
    assert_eq!(task.poll(&mut ticks.tick()), Poll::Ready(start + 20 * MS));
    assert!(task.poll(&mut ticks.tick()).is_pending());
    let mut rare = interval(Duration::MAX).unwrap();
    assert!(task.poll(&mut rare.tick()).is_pending());
    time.advance(Duration::from_secs(1 << 33));
    assert!(task.poll(&mut rare.tick()).is_pending());
    assert!(interval(Duration::ZERO).is_err());
    assert!(interval_at(start, Duration::ZERO).is_err());
}
