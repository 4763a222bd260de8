//! Tests of `VirtualTime::block_on`, which advances its clock while its future waits.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::thread;

use futures::channel::oneshot;
use futures::future::join_all;
use futures::stream::{FuturesUnordered, StreamExt};

use super::*;
use crate::time;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn sleeps_are_woken_in_order() {
    let clock = VirtualTime::new();
    let start = clock.now();
    let order = clock.block_on(async {
        let naps = [30, 10, 20, 10].map(|seconds| async move {
            sleep(seconds * SECOND).await;
            (seconds, now() - start)
        });
        let naps: FuturesUnordered<_> = naps.into_iter().collect();
        naps.collect::<Vec<_>>().await
    });
    let expected = [10, 10, 20, 30].map(|seconds| (seconds, seconds * SECOND));
    assert_eq!(order, expected);
    assert_eq!((clock.now() - start, clock.pending()), (30 * SECOND, 0));
}

#[test]
fn many_sleeps_wake_at_once() {
    let crowd = if cfg!(miri) { 50 } else { 100_000 };
    let clock = VirtualTime::new();
    let start = clock.now();
    clock.block_on(async {
        join_all((0..crowd).map(|number| sleep(number % 1_000 * MS))).await;
    });
    assert_eq!(clock.now() - start, (crowd - 1).min(999) * MS);
    assert_eq!(clock.pending(), 0);
}

#[test]
fn ready_futures_do_not_advance_the_clock() {
    let clock = VirtualTime::new();
    let start = clock.now();
    let _armed = clock.enter();
    let _timer = time::Timer::new(SECOND);
    assert_eq!(clock.block_on(ready(7)), 7);
    assert_eq!(clock.now(), start);
    // A future that wakes itself is polled again before the clock advances.
    let mut turns = 0;
    clock.block_on(core::future::poll_fn(|cx| {
        turns += 1;
        cx.waker().wake_by_ref();
        if turns == 5 {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }));
    assert_eq!(clock.now(), start);
}

#[test]
fn timers_of_threads_and_of_futures_are_on_one_clock() {
    let clock = VirtualTime::new();
    let start = clock.now();
    let (sender, receiver) = oneshot::channel();
    let answer = clock.block_on(async {
        let sender = Mutex::new(Some(sender));
        time::after_func(3600 * SECOND, move || {
            let sender = sender.lock().unwrap().take().unwrap();
            sender.send(now()).unwrap(); // wakes the future from a callback
        })
        .detach();
        timeout(7200 * SECOND, receiver).await.unwrap()
    });
    assert_eq!(answer, Ok(start + 3600 * SECOND));
}

/// No timer is armed, so `block_on` blocks in real time until another thread wakes the future or
/// arms a timer.
#[test]
fn another_thread_may_wake_it_or_sleep_on_its_clock() {
    let clock = VirtualTime::new();
    let start = clock.now();
    for naps in 0..if cfg!(miri) { 3 } else { 200 } {
        let (sender, receiver) = oneshot::channel();
        let thread = thread::spawn({
            let clock = clock.clone();
            move || {
                let _entered = clock.enter();
                for _ in 0..naps % 3 {
                    time::sleep(SECOND);
                }
                sender.send(now()).unwrap();
            }
        });
        assert_eq!(clock.block_on(receiver), Ok(clock.now()));
        thread.join().unwrap();
    }
    let seconds = clock.now() - start;
    assert!(seconds.subsec_nanos() == 0 && seconds >= 2 * SECOND);
}

#[test]
fn it_ends_with_a_panic_of_its_future_and_may_be_nested() {
    let clock = VirtualTime::new();
    let result = catch_unwind(AssertUnwindSafe(|| {
        clock.block_on(async {
            sleep(SECOND).await;
            std::panic::resume_unwind(Box::new("as this test wants it"));
        })
    }));
    assert!(result.is_err());
    // The thread has left the clock, and the clock still works.
    assert!(matches!(Timeline::current(), Timeline::Real));
    let start = clock.now();
    clock.block_on(async {
        sleep(SECOND).await;
        clock.block_on(sleep(SECOND));
        VirtualTime::new().block_on(async { sleep(SECOND).await }); // another clock
        sleep(SECOND).await;
    });
    assert_eq!(clock.now() - start, 3 * SECOND);
}

#[test]
fn two_threads_may_run_futures_on_one_clock() {
    let clock = VirtualTime::new();
    let start = clock.now();
    let rounds = if cfg!(miri) { 3 } else { 500 };
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                clock.block_on(async {
                    for _ in 0..rounds {
                        let before = now();
                        sleep(SECOND).await;
                        assert!(now() - before >= SECOND);
                    }
                });
            });
        }
    });
    let took = clock.now() - start;
    assert!(
        took >= rounds * SECOND && took <= 2 * rounds * SECOND,
        "{took:?}"
    );
    assert_eq!(clock.pending(), 0);
}
