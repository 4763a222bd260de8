//! Tests of intervals whose task is late.

use futures_core::{FusedStream, Stream};

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
    // The task missed 20, 30 and 40.
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

/// Checks the table in the documentation of `MissedTickBehavior`.
#[test]
fn missed_ticks_are_skipped_or_delivered_in_a_burst_or_delayed() {
    let seen = |behavior: MissedTickBehavior, count: usize| {
        let time = VirtualTime::new();
        time.block_on(async {
            let start = now();
            let mut ticks = interval(10 * MS).unwrap();
            ticks.set_missed_tick_behavior(behavior);
            let mut seen = vec![(ticks.tick().await - start, now() - start)];
            sleep(25 * MS).await;
            for _ in 1..count {
                seen.push((ticks.tick().await - start, now() - start));
            }
            seen
        })
    };
    let pairs = |pairs: &[(u32, u32)]| -> Vec<_> {
        let pairs = pairs.iter().map(|&(tick, at)| (MS * tick, MS * at));
        pairs.collect()
    };
    let skip = pairs(&[(10, 10), (30, 35), (40, 40), (50, 50)]);
    assert_eq!(seen(MissedTickBehavior::Skip, 4), skip);
    let burst = pairs(&[(10, 10), (20, 35), (30, 35), (40, 40), (50, 50)]);
    assert_eq!(seen(MissedTickBehavior::Burst, 5), burst);
    let delay = pairs(&[(10, 10), (20, 35), (45, 45), (55, 55)]);
    assert_eq!(seen(MissedTickBehavior::Delay, 4), delay);
}

#[test]
fn an_interval_restarts_when_it_is_reset() {
    let time = VirtualTime::new();
    let _entered = time.enter();
    let (task, start) = (Task::new(), now());
    let mut ticks = interval(10 * MS).unwrap();
    assert!(task.poll(&mut ticks.tick()).is_pending());
    ticks.reset_after(3 * MS);
    time.advance(3 * MS);
    assert_eq!(task.woken(), 1, "the waiting task is woken");
    assert_eq!(task.poll(&mut ticks.tick()), Poll::Ready(start + 3 * MS));
    assert_eq!(ticks.deadline(), start + 13 * MS);
    ticks.reset_at(start + 100 * MS);
    time.advance(96 * MS);
    assert!(task.poll(&mut ticks.tick()).is_pending());
    ticks.reset_after(Duration::ZERO);
    assert_eq!(task.woken(), 1, "it is due");
    assert_eq!(task.poll(&mut ticks.tick()), Poll::Ready(start + 99 * MS));
    assert!(!ticks.is_terminated());
}
