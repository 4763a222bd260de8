//! Tests with threads that stop and reset timers, receive and sleep while the timers fire. Other
//! threads advance a virtual clock, so only the interleaving of the threads matters, not real time.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::vec::Vec;

use super::*;

const ROUNDS: usize = if cfg!(miri) { 5 } else { 2_000 };
const TICK: Duration = Duration::from_nanos(1);

/// Runs many rounds. In each round, two threads start at once: one advances the clock by a tick,
/// the other calls `other` with the value of `make`. Then `check` checks the value and the result
/// of `other`.
fn race<T: Sync>(
    make: impl Fn() -> T,
    other: impl Fn(&T) -> bool + Sync,
    mut check: impl FnMut(&T, bool),
) {
    let time = VirtualTime::new();
    let _entered = time.enter();
    for _ in 0..ROUNDS {
        let made = make();
        let begin = Barrier::new(2);
        let result = thread::scope(|scope| {
            let racer = scope.spawn(|| {
                begin.wait();
                other(&made)
            });
            begin.wait();
            time.advance(TICK);
            racer.join().unwrap()
        });
        check(&made, result);
    }
    assert_eq!(time.pending(), 0);
}

#[test]
fn a_stopped_timer_sends_nothing_afterwards() {
    race(
        || Timer::new(TICK),
        |timer| {
            let stopped = timer.stop();
            assert!(timer.c().is_empty());
            stopped
        },
        |timer, _| assert!(timer.c().is_empty() && !timer.stop()),
    );
}

#[test]
fn a_timer_is_stopped_or_calls() {
    let calls = Arc::new(AtomicUsize::new(0));
    let mut before = 0;
    race(
        || {
            let calls = calls.clone();
            after_func(TICK, move || {
                calls.fetch_add(1, Ordering::SeqCst);
            })
        },
        Timer::stop,
        |_, stopped| {
            let now = calls.load(Ordering::SeqCst);
            assert_eq!(now - before, usize::from(!stopped));
            before = now;
        },
    );
}

#[test]
fn a_value_is_received_or_drained() {
    race(
        || Timer::new(TICK),
        |timer| {
            // Another thread receives from the channel meanwhile.
            let receiver = timer.c().clone();
            thread::scope(|scope| {
                let receiving = scope.spawn(move || receiver.try_recv().is_ok());
                let stopped = timer.stop();
                assert!(!(receiving.join().unwrap() && stopped));
                stopped
            })
        },
        |timer, _| assert!(timer.c().is_empty()),
    );
}

#[test]
fn a_timer_is_reset_or_was_armed() {
    race(
        || Timer::new(TICK),
        |timer| timer.reset(TICK).is_ok(),
        |timer, reset| {
            // A timer that could be reset had fired, and the reset dropped the value of that
            // firing.
            assert_eq!((timer.is_armed(), timer.c().is_empty()), (reset, reset));
            timer.stop();
        },
    );
}

#[test]
fn a_stopped_ticker_is_silent() {
    race(
        || Ticker::new(TICK).unwrap(),
        |ticker| {
            ticker.stop();
            ticker.c().is_empty()
        },
        |ticker, silent| {
            assert!(silent && ticker.c().is_empty());
            // The ticker's alarm is disarmed, so no further tick can come.
            assert!(format!("{ticker:?}").contains("ticks: false"), "{ticker:?}");
        },
    );
}

#[test]
fn a_ticker_reset_while_it_ticks_is_armed_once() {
    let time = VirtualTime::new();
    let _entered = time.enter();
    let ticker = Ticker::new(TICK).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let resetting: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..25 * ROUNDS {
                        ticker.reset(TICK).unwrap();
                    }
                })
            })
            .collect();
        let advancing = scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                time.advance(TICK);
            }
        });
        resetting.into_iter().for_each(|one| one.join().unwrap());
        done.store(true, Ordering::Release);
        advancing.join().unwrap();
    });
    assert_eq!(time.pending(), 1);
    drop(ticker);
    assert_eq!(time.pending(), 0);
}

#[test]
fn sleepers_wake_at_their_time() {
    let time = VirtualTime::new();
    let start = time.now();
    let count = if cfg!(miri) { 3 } else { 20 };
    thread::scope(|scope| {
        let sleepers: Vec<_> = (1..=count)
            .map(|turn| {
                let time = &time;
                scope.spawn(move || {
                    let _entered = time.enter();
                    sleep(turn * TICK);
                    sleep(Duration::ZERO); // returns at once
                    sleep_until(start); // in the past
                    now() - start
                })
            })
            .collect();
        time.wait_for_pending(count as usize);
        for (turn, sleeper) in (1..).zip(sleepers) {
            time.advance(TICK);
            assert_eq!(sleeper.join().unwrap(), turn * TICK);
        }
    });
}

#[test]
fn two_threads_that_advance_do_so_in_turn() {
    let time = VirtualTime::new();
    let start = time.now();
    let _entered = time.enter();
    let inside = Arc::new(AtomicUsize::new(0));
    for _ in 0..ROUNDS {
        let inside = inside.clone();
        after_func(TICK, move || {
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
            thread::yield_now();
            inside.fetch_sub(1, Ordering::SeqCst);
        })
        .detach();
    }
    thread::scope(|scope| {
        scope.spawn(|| time.advance(TICK));
        scope.spawn(|| time.advance(TICK));
    });
    assert_eq!((time.pending(), inside.load(Ordering::SeqCst)), (0, 0));
    assert_eq!(time.now() - start, 2 * TICK);
}
