//! Tests of documented behaviour that no example shows, on a virtual clock.

use std::panic;
use std::string::String;
use std::sync::{Arc, Mutex};
use std::vec::Vec;

use crossbeam_channel::{RecvError, TryRecvError, unbounded};

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn on_virtual_time(test: impl FnOnce(&VirtualTime)) {
    let time = VirtualTime::new();
    let _entered = time.enter();
    test(&time);
}

#[test]
fn equal_deadlines_fire_in_arming_order() {
    on_virtual_time(|time| {
        let (sender, order) = unbounded();
        for number in 0..100 {
            let sender = sender.clone();
            after_func(SECOND, move || sender.send(number).unwrap()).detach();
        }
        time.advance(SECOND);
        assert!(order.try_iter().eq(0..100));
    });
}

#[test]
fn a_callback_that_panics_has_no_other_effect() {
    on_virtual_time(|time| {
        let (sender, calls) = unbounded();
        for panics in [false, true, false] {
            let sender = sender.clone();
            after_func(SECOND, move || {
                if panics {
                    // Does not call the panic hook.
                    panic::resume_unwind(Box::new("a callback panics"));
                }
                sender.send(()).unwrap();
            })
            .detach();
        }
        time.advance(SECOND);
        assert_eq!(calls.len(), 2);
    });
}

/// Runs a callback on a virtual clock and returns the message with which it panics.
fn panic_message(callback: impl Fn(&VirtualTime) + Send + Sync + 'static) -> String {
    let time = VirtualTime::new();
    let _entered = time.enter();
    let message = Arc::new(Mutex::new(String::new()));
    let (inner, recorded) = (time.clone(), message.clone());
    after_func(SECOND, move || {
        let panicked = panic::catch_unwind(panic::AssertUnwindSafe(|| callback(&inner)));
        let payload = panicked.expect_err("a panic");
        *recorded.lock().unwrap() = payload.downcast_ref::<&str>().copied().unwrap().into();
    })
    .detach();
    time.advance(SECOND);
    // The clock still works.
    let timer = Timer::new(SECOND);
    time.advance(SECOND);
    assert!(!timer.stop());
    message.lock().unwrap().clone()
}

#[test]
fn callbacks_cannot_wait_for_their_own_clock() {
    assert!(panic_message(|_| sleep(SECOND)).contains("sleep: called by a callback"));
    assert!(
        panic_message(|time| sleep_until(time.now() + SECOND)).contains("called by a callback")
    );
    assert!(panic_message(|time| time.advance(SECOND)).contains("advance: called by a callback"));
    assert!(panic_message(|_| VirtualTime::new().advance(SECOND)).contains("called by a callback"));
}

#[test]
fn a_callback_need_not_wait() {
    on_virtual_time(|time| {
        let (sender, times) = unbounded();
        after_func(SECOND, move || {
            sleep(Duration::ZERO);
            sleep_until(now());
            sender.send(now()).unwrap();
        })
        .detach();
        time.advance(2 * SECOND);
        assert_eq!(times.try_recv(), Ok(time.now() - SECOND));
    });
}

#[test]
fn callbacks_see_the_clock_that_runs_them() {
    // The advancing thread has not entered the clock.
    let time = VirtualTime::new();
    let other = VirtualTime::new();
    let _other = other.enter();
    let (sender, times) = unbounded();
    {
        let _entered = time.enter();
        after_func(SECOND, move || {
            let sender = sender.clone();
            after_func(SECOND, move || sender.send(now()).unwrap()).detach();
        })
        .detach();
    }
    time.advance(3 * SECOND);
    assert_eq!(times.try_recv(), Ok(time.now() - SECOND));
    assert_eq!((other.pending(), now()), (0, other.now()));
}

#[test]
fn guards_may_be_dropped_in_any_order() {
    let [first, second] = [VirtualTime::new(), VirtualTime::new()];
    first.advance(3600 * SECOND);
    second.advance(7200 * SECOND);
    let outer = first.enter();
    let inner = second.enter();
    assert_eq!(now(), second.now());
    drop(outer);
    assert_eq!(now(), second.now());
    let again = first.enter();
    assert_eq!(now(), first.now());
    drop(again);
    assert_eq!(now(), second.now());
    drop(inner);
    assert!(now() < first.now()); // the real clock, less than an hour later
}

#[test]
fn timers_keep_the_clock_they_were_created_on() {
    let time = VirtualTime::new();
    let timer = {
        let _entered = time.enter();
        Timer::new(SECOND)
    };
    time.advance(SECOND);
    assert_eq!(timer.c().try_recv(), Ok(time.now()));
    timer.reset(SECOND).unwrap();
    assert_eq!(time.pending(), 1);
    // The timer works after the `VirtualTime` is dropped.
    drop(time);
    assert!(timer.stop());
}

#[test]
fn timers_that_never_fire_can_be_stopped() {
    on_virtual_time(|time| {
        let timers = [Timer::new(Duration::MAX), after_func(Duration::MAX, || {})];
        let ticker = Ticker::new(Duration::MAX).unwrap();
        let (after, nothing) = (after(Duration::MAX), tick(Duration::ZERO));
        assert_eq!(time.pending(), 3);
        time.advance(Duration::MAX);
        assert!(!time.advance_to_next());
        assert!(ticker.c().is_empty());
        assert_eq!(after.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(nothing.try_recv(), Err(TryRecvError::Empty));
        for timer in timers {
            assert!(timer.c().is_empty() && timer.stop());
        }
        drop(ticker);
        assert_eq!(time.pending(), 0);
    });
}

#[test]
fn channels_stay_connected_while_a_value_may_come() {
    on_virtual_time(|time| {
        let timer = Timer::new(SECOND);
        let ticker = Ticker::new(SECOND).unwrap();
        let (after, func) = (after(SECOND), after_func(SECOND, || {}));
        let kept = timer.c().clone();
        time.advance(SECOND);
        ticker.stop();
        for receiver in [timer.c(), &after] {
            assert!(receiver.try_recv().is_ok());
        }
        for receiver in [timer.c(), ticker.c(), &after, func.c()] {
            assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        }
        // A channel whose timer was dropped is disconnected.
        drop(timer);
        assert_eq!(kept.recv(), Err(RecvError));
    });
}

#[test]
fn a_detached_timer_sends_its_value() {
    on_virtual_time(|time| {
        let timer = Timer::new(SECOND);
        let receiver = timer.c().clone();
        timer.detach();
        time.advance(SECOND);
        assert_eq!(receiver.recv(), Ok(time.now()));
        assert_eq!(receiver.recv(), Err(RecvError));
    });
}

#[test]
fn a_tick_without_receivers_ends() {
    on_virtual_time(|time| {
        let ticks = tick(SECOND);
        time.advance(SECOND);
        assert_eq!((ticks.len(), time.pending()), (1, 1));
        drop(ticks);
        time.advance(SECOND);
        assert_eq!(time.pending(), 0);
    });
}

#[test]
fn a_ticker_needs_a_period() {
    assert_eq!(Ticker::new(Duration::ZERO).err(), Some(PeriodError::Zero));
    on_virtual_time(|time| {
        let ticker = Ticker::new(SECOND).unwrap();
        assert_eq!(ticker.reset(Duration::ZERO), Err(PeriodError::Zero));
        time.advance(SECOND);
        assert_eq!(ticker.c().len(), 1); // the ticker is unchanged
    });
}

#[test]
fn errors_say_what_to_do() {
    let armed = "Timer.reset: the timer is armed; must be stopped or expired";
    assert_eq!(std::format!("{}", ResetError::Armed), armed);
    assert!(std::format!("{}", PeriodError::Zero).contains("at least 1 ns"));
}

#[test]
fn everything_can_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Timer>();
    shared::<Ticker>();
    shared::<VirtualTime>();
    shared::<Receiver<Instant>>();
}

#[test]
fn a_callback_resets_its_own_timer() {
    on_virtual_time(|time| {
        let log = Arc::new(Mutex::new(Vec::new()));
        let timer = Arc::new_cyclic(|timer: &std::sync::Weak<Timer>| {
            let (timer, log) = (timer.clone(), log.clone());
            after_func(SECOND, move || {
                log.lock().unwrap().push(now());
                let timer = timer.upgrade().unwrap();
                assert_eq!(timer.reset(SECOND), Ok(()));
                assert_eq!(timer.reset(SECOND), Err(ResetError::Armed));
            })
        });
        let start = now();
        time.advance(5 * SECOND);
        let expected: Vec<_> = (1..=5).map(|turn| start + turn * SECOND).collect();
        assert_eq!(*log.lock().unwrap(), expected);
        assert!(timer.stop());
        // The clock has dropped the disarmed alarm, so nothing else owns the timer.
        assert_eq!((time.pending(), Arc::strong_count(&timer)), (0, 1));
    });
}
