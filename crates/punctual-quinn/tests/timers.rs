//! The timers alone, on tokio's clock, which is paused and jumps to the next deadline.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use punctual_quinn::PunctualRuntime;
use quinn::{AsyncTimer, Runtime};
use tokio::runtime::Handle;
use tokio::time::{Instant, advance, timeout};

const MS: Duration = Duration::from_millis(1);

/// tokio's timers, on which the driver sleeps, have ticks of a millisecond.
const LATENESS_MAX: Duration = Duration::from_millis(2);

fn runtime() -> PunctualRuntime {
    PunctualRuntime::new(Handle::current())
}

async fn fired(timer: &mut Pin<Box<dyn AsyncTimer>>) {
    poll_fn(|cx| timer.as_mut().poll(cx)).await;
}

async fn is_pending(timer: &mut Pin<Box<dyn AsyncTimer>>) -> bool {
    poll_fn(|cx| Poll::Ready(timer.as_mut().poll(cx).is_pending())).await
}

fn at(instant: Instant) -> std::time::Instant {
    instant.into_std()
}

#[tokio::test(start_paused = true)]
async fn timers_fire_on_time_and_never_early() {
    let runtime = runtime();
    let start = Instant::now();
    // Deadlines between tokio's ticks and between ours, from now to eleven days ahead.
    for nanos in [0, 1, 999, 1_001, 999_999, 1_000_001, 123_456_789, 1 << 50] {
        let deadline = Instant::now() + Duration::from_nanos(nanos);
        let mut timer = runtime.new_timer(at(deadline));
        fired(&mut timer).await;
        let lateness = Instant::now().checked_duration_since(deadline);
        assert!(
            lateness.is_some_and(|lateness| lateness <= LATENESS_MAX),
            "due {nanos} ns on, fired {lateness:?} late"
        );
        assert!(!is_pending(&mut timer).await, "the timer stays fired");
    }
    assert!(start.elapsed() >= Duration::from_nanos(1 << 50));
    assert_eq!(runtime.stats().fires, 8);
}

#[tokio::test(start_paused = true)]
async fn an_earlier_deadline_shortens_the_drivers_sleep() {
    let runtime = runtime();
    let start = Instant::now();
    let mut timer = runtime.new_timer(at(start + 60_000 * MS));
    assert!(timeout(10 * MS, fired(&mut timer)).await.is_err());
    let before = runtime.stats();
    timer.as_mut().reset(at(start + 20 * MS));
    fired(&mut timer).await;
    assert!((20 * MS..=20 * MS + LATENESS_MAX).contains(&start.elapsed()));
    assert_eq!(runtime.stats().since(before).hurries, 1);
}

#[tokio::test(start_paused = true)]
async fn a_later_deadline_holds() {
    let runtime = runtime();
    let start = Instant::now();
    let mut timer = runtime.new_timer(at(start + 10 * MS));
    assert!(is_pending(&mut timer).await);
    timer.as_mut().reset(at(start + 500 * MS));
    fired(&mut timer).await;
    assert!((500 * MS..=500 * MS + LATENESS_MAX).contains(&start.elapsed()));
    let stats = runtime.stats();
    assert_eq!((stats.rearms, stats.fires), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_fired_timer_is_armed_again_and_again() {
    let runtime = runtime();
    let mut timer = runtime.new_timer(at(Instant::now()));
    for round in 0..100 {
        fired(&mut timer).await;
        let deadline = Instant::now() + round * MS;
        timer.as_mut().reset(at(deadline));
        fired(&mut timer).await;
        assert!(Instant::now() >= deadline);
    }
    assert_eq!(runtime.stats().fires, 101);
}

#[tokio::test(start_paused = true)]
async fn dropping_disarms() {
    let runtime = runtime();
    let mut timer = runtime.new_timer(at(Instant::now() + 5 * MS));
    let task = tokio::spawn(async move {
        assert!(is_pending(&mut timer).await);
        drop(timer);
    });
    task.await.unwrap();
    advance(1_000 * MS).await;
    tokio::task::yield_now().await;
    let stats = runtime.stats();
    assert_eq!((stats.arms, stats.disarms, stats.fires), (1, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn timers_outlive_the_runtime_they_came_from() {
    let runtime = runtime();
    let mut timer = runtime.new_timer(at(Instant::now() + 5 * MS));
    drop(runtime);
    fired(&mut timer).await;
}

#[tokio::test(start_paused = true)]
async fn the_driver_ends_with_the_last_timer() {
    let before = Handle::current().metrics().num_alive_tasks();
    let runtime = runtime();
    let timer = runtime.new_timer(at(Instant::now() + 5 * MS));
    tokio::task::yield_now().await;
    assert_eq!(Handle::current().metrics().num_alive_tasks(), before + 1);
    drop(runtime);
    drop(timer);
    tokio::task::yield_now().await;
    tokio::task::yield_now().await;
    assert_eq!(Handle::current().metrics().num_alive_tasks(), before);
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_due_at_once_all_fire() {
    let runtime = runtime();
    let deadline = Instant::now() + 5 * MS;
    let tasks: Vec<_> = (0..10_000)
        .map(|_| {
            let mut timer = runtime.new_timer(at(deadline));
            tokio::spawn(async move { fired(&mut timer).await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert!((5 * MS..=5 * MS + LATENESS_MAX).contains(&(Instant::now() - deadline + 5 * MS)));
    assert_eq!(runtime.stats().fires, 10_000);
}

#[test]
#[should_panic(expected = "timers are disabled")]
fn a_runtime_without_timers_is_refused_at_once() {
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .unwrap();
    PunctualRuntime::new(tokio.handle().clone());
}

/// Timers re-armed by several threads all fire, and none early.
#[test]
fn threads_share_the_timers() {
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()
        .unwrap();
    let runtime = PunctualRuntime::new(tokio.handle().clone());
    let tasks: Vec<_> = (0..64u32)
        .map(|task| {
            let runtime = runtime.clone();
            tokio.spawn(async move {
                let mut timer = runtime.new_timer(runtime.now());
                for round in 0..40 {
                    let deadline =
                        runtime.now() + Duration::from_micros((task * round % 997).into());
                    timer.as_mut().reset(deadline + 5 * MS);
                    timer.as_mut().reset(deadline);
                    fired(&mut timer).await;
                    assert!(runtime.now() >= deadline, "early");
                }
            })
        })
        .collect();
    tokio.block_on(async {
        for task in tasks {
            task.await.unwrap();
        }
    });
    let stats = runtime.stats();
    assert_eq!(stats.arms, stats.fires + stats.disarms);
}
