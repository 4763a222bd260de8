//! Tests of the time API on the real clock, end to end. The tests in `src/time` use a virtual
//! clock.
//!
//! No wait may end early. The bound on lateness is loose, because the machine may be busy.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use punctual::time::{
    Ticker, Timer, after, after_func, crossbeam_channel, now, select, sleep, sleep_until, tick,
};

const MS: Duration = Duration::from_millis(1);
/// Maximum time by which a busy machine may delay a thread.
const LATENESS_MAX: Duration = Duration::from_secs(10);

/// Checks that `what` takes at least `expected`, and at most [`LATENESS_MAX`] more.
fn takes<R>(expected: Duration, what: impl FnOnce() -> R) -> R {
    let start = now();
    let result = what();
    let took = now() - start;
    assert!(
        took >= expected && took < expected + LATENESS_MAX,
        "{took:?} instead of {expected:?}"
    );
    result
}

#[test]
fn waits_last_as_long_as_they_should() {
    takes(5 * MS, || sleep(5 * MS));
    takes(5 * MS, || sleep_until(now() + 5 * MS));
    takes(5 * MS, || after(5 * MS).recv().unwrap());
    takes(5 * MS, || Timer::new(5 * MS).c().recv().unwrap());
    takes(15 * MS, || tick(5 * MS).iter().take(3).count());
    takes(5 * MS, || {
        let (sender, receiver) = crossbeam_channel::bounded(1);
        let _timer = after_func(5 * MS, move || sender.send(()).unwrap());
        receiver.recv().unwrap();
    });
}

#[test]
fn a_timer_sends_the_instant_it_was_due_at() {
    let before = now();
    let timer = Timer::new(3 * MS);
    let after = now();
    let due = timer.c().recv().unwrap();
    assert!(due >= before + 3 * MS && due <= after + 3 * MS);
}

#[test]
fn a_ticker_keeps_to_its_multiples() {
    let before = now();
    let ticker = Ticker::new(4 * MS).unwrap();
    let after = now();
    let first = ticker.c().recv().unwrap();
    assert!(first >= before + 4 * MS && first <= after + 4 * MS);
    for turn in 0..5 {
        // A receiver that is sometimes slow.
        if turn % 2 == 0 {
            sleep(9 * MS);
        }
        let tick = ticker.c().recv().unwrap();
        assert!(tick > first && tick <= now());
        assert_eq!((tick - first).as_nanos() % (4 * MS).as_nanos(), 0);
    }
    ticker.stop();
    assert!(ticker.c().is_empty());
}

#[test]
fn select_waits_for_timers_and_others() {
    let timeout = Timer::new(5 * MS);
    let (_sender, messages) = crossbeam_channel::bounded::<()>(1);
    select! {
        recv(messages) -> _ => panic!("nobody sends"),
        recv(timeout.c()) -> due => assert!(due.unwrap() <= Instant::now()),
        recv(after(LATENESS_MAX)) -> _ => panic!("the timer did not fire"),
    }
}

#[test]
fn a_callback_that_blocks_delays_nothing() {
    let (release, wait) = crossbeam_channel::bounded::<()>(0);
    let blocked: Vec<Timer> = (0..8)
        .map(|_| {
            let wait = wait.clone();
            after_func(Duration::ZERO, move || {
                let _ = wait.recv(); // until the test ends
            })
        })
        .collect();
    let (sender, receiver) = crossbeam_channel::bounded(1);
    after_func(MS, move || sender.send(()).unwrap()).detach();
    receiver
        .recv_timeout(LATENESS_MAX)
        .expect("it does not wait for callbacks that block");
    Timer::new(MS)
        .c()
        .recv_timeout(LATENESS_MAX)
        .expect("this timer does not wait either");
    assert!(blocked.iter().all(|timer| !timer.stop()));
    drop(release);
}

#[test]
fn a_callback_that_panics_has_no_other_effect() {
    let (sender, receiver) = crossbeam_channel::bounded(10);
    for number in 0..10 {
        let sender = sender.clone();
        after_func(MS, move || {
            if number % 2 == 0 {
                std::panic::resume_unwind(Box::new("a callback panics"));
            }
            sender.send(number).unwrap();
        })
        .detach();
    }
    let mut numbers: Vec<i32> = receiver.iter().take(5).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 3, 5, 7, 9]);
}

/// Threads stop timers while these fire. Each timer is either stopped or fires, and its channel is
/// empty after the stop.
#[test]
fn either_a_stop_or_a_firing_wins() {
    const TIMERS: u32 = 500;
    let called = Arc::new(AtomicUsize::new(0));
    let not_stopped: usize = thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut not_stopped = 0;
                    for number in 0..TIMERS {
                        let delay = Duration::from_micros(u64::from(number % 100));
                        let called = called.clone();
                        let func = after_func(delay, move || {
                            called.fetch_add(1, Ordering::SeqCst);
                        });
                        let timer = Timer::new(delay);
                        let due = now() + delay;
                        while now() < due {
                            std::hint::spin_loop();
                        }
                        timer.stop();
                        assert!(timer.c().is_empty());
                        not_stopped += usize::from(!func.stop());
                        assert!(!func.stop() && timer.c().is_empty());
                    }
                    not_stopped
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    // Callbacks of fired timers run soon after.
    let deadline = now() + LATENESS_MAX;
    while called.load(Ordering::SeqCst) < not_stopped && now() < deadline {
        thread::yield_now();
    }
    assert_eq!(called.load(Ordering::SeqCst), not_stopped);
}

#[test]
fn many_threads_arm_and_all_fire() {
    const EACH: u32 = 500;
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let timers: Vec<(Instant, Timer)> = (0..EACH)
                    .map(|number| {
                        let delay = Duration::from_micros(u64::from(number * 37 % 10_000));
                        (now() + delay, Timer::new(delay))
                    })
                    .collect();
                for (earliest, timer) in timers {
                    let due = timer.c().recv_timeout(LATENESS_MAX).expect("it fires");
                    assert!(due >= earliest && due <= now());
                }
            });
        }
    });
}
