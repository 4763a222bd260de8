//! Tests of the futures on several executors, on the real clock and on a virtual clock.
//! `src/future/tests` tests the details.

use std::future::pending;
use std::time::{Duration, Instant};

use futures_core::Stream;
use punctual::future::{DelayQueue, Elapsed, interval, sleep, sleep_until, timeout, timeout_at};
use punctual::time::{VirtualTime, now};

const MS: Duration = Duration::from_millis(1);
/// Maximum time by which a busy machine may delay a thread.
const LATENESS_MAX: Duration = Duration::from_secs(60);

async fn next<S: Stream + Unpin>(stream: &mut S) -> Option<S::Item> {
    use std::pin::Pin;
    std::future::poll_fn(|cx| Pin::new(&mut *stream).poll_next(cx)).await
}

/// Uses each future once. Needs no particular executor.
async fn all() {
    let start = Instant::now();
    sleep(2 * MS).await;
    sleep_until(start + 4 * MS).await;
    assert!(start.elapsed() >= 4 * MS);

    assert_eq!(timeout(Duration::from_secs(60), sleep(MS)).await, Ok(()));
    assert_eq!(timeout(MS, pending::<()>()).await, Err(Elapsed));
    assert_eq!(timeout_at(start, pending::<()>()).await, Err(Elapsed));

    let mut ticks = interval(MS).unwrap();
    let first = ticks.tick().await;
    let second = next(&mut ticks).await.unwrap();
    assert!(second >= first + MS && Instant::now() >= second);

    let mut queue = DelayQueue::new();
    let begun = Instant::now();
    queue.insert_at('b', begun + 2 * MS);
    queue.insert_at('a', begun + MS);
    let late = queue.insert('c', Duration::from_secs(60));
    assert_eq!(next(&mut queue).await.unwrap().value, 'a');
    assert_eq!(queue.next().await.unwrap().value, 'b');
    assert_eq!(timeout(MS, queue.next()).await, Err(Elapsed));
    assert_eq!(queue.remove(late), Some('c'));
    assert_eq!(queue.next().await, None);
}

#[test]
fn on_tokio_without_its_timers() {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.build().unwrap().block_on(all());
}

#[test]
fn on_tokios_threads() {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).build().unwrap();
    let tasks: Vec<_> = (0..50).map(|_| runtime.spawn(all())).collect();
    for task in tasks {
        runtime.block_on(task).unwrap();
    }
}

#[test]
fn on_smol() {
    let tasks: Vec<_> = (0..10).map(|_| smol::spawn(all())).collect();
    smol::block_on(async {
        all().await;
        for task in tasks {
            task.await;
        }
    });
}

#[test]
fn on_futures() {
    futures::executor::block_on(all());
    let mut pool = futures::executor::LocalPool::new();
    let spawner = pool.spawner();
    for _ in 0..10 {
        use futures::task::LocalSpawnExt;
        spawner.spawn_local(all()).unwrap();
    }
    pool.run();
}

/// A `select!` in a loop drops futures again and again: no tick and no value is lost.
#[test]
fn in_select() {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.build().unwrap().block_on(async {
        let mut ticks = interval(MS).unwrap();
        let mut queue = DelayQueue::new();
        for n in 0..5 {
            queue.insert(n, MS * n);
        }
        let (mut ticked, mut expired) = (Vec::new(), Vec::new());
        while ticked.len() < 10 || expired.len() < 5 {
            tokio::select! {
                instant = ticks.tick() => ticked.push(instant),
                Some(one) = queue.next(), if !queue.is_empty() => expired.push(one.value),
                () = sleep(LATENESS_MAX) => panic!("a future is lost: {ticked:?}, {expired:?}"),
            }
        }
        assert_eq!(expired, [0, 1, 2, 3, 4]);
        for pair in ticked.windows(2) {
            let apart = pair[1] - pair[0];
            assert_eq!(
                apart.as_nanos() % MS.as_nanos(),
                0,
                "{apart:?} is not a multiple of the period"
            );
        }
    });
}

const HOUR: Duration = Duration::from_secs(3600);

/// Tasks of tokio and then of smol sleep on a clock that advances by itself.
#[test]
fn tasks_of_tokio_and_smol_on_a_virtual_clock() {
    async fn naps() -> Duration {
        let start = now();
        sleep(HOUR).await;
        assert_eq!(timeout(HOUR, pending::<()>()).await, Err(Elapsed));
        now() - start
    }
    let time = VirtualTime::new();
    let start = time.now();
    let local = tokio::task::LocalSet::new();
    time.block_on(local.run_until(async {
        let tasks = [(); 10].map(|()| tokio::task::spawn_local(naps()));
        for task in tasks {
            assert_eq!(task.await.unwrap(), 2 * HOUR);
        }
    }));
    assert_eq!(time.now() - start, 2 * HOUR);

    let executor = smol::LocalExecutor::new();
    time.block_on(executor.run(async {
        let tasks = [(); 10].map(|()| executor.spawn(naps()));
        for task in tasks {
            assert_eq!(task.await, 2 * HOUR);
        }
    }));
    assert_eq!((time.now() - start, time.pending()), (4 * HOUR, 0));
}

/// A runtime that ends drops its tasks, which disarms their alarms.
#[test]
fn a_runtime_that_ends_leaves_nothing_armed() {
    const TASKS: usize = 1_000;
    let time = VirtualTime::new();
    let started = || {
        let time = time.clone();
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .on_thread_start(move || std::mem::forget(time.enter()))
            .build()
            .unwrap()
    };
    let waiting = || {
        let runtime = started();
        for _ in 0..TASKS {
            runtime.spawn(async {
                let mut ticks = interval(HOUR).unwrap();
                let mut queue = DelayQueue::new();
                queue.insert((), HOUR);
                tokio::select! {
                    _ = ticks.tick() => {}
                    _ = queue.next() => {}
                }
            });
        }
        time.wait_for_pending(2 * TASKS);
        runtime
    };
    drop(waiting());
    assert_eq!(time.pending(), 0);
    waiting().shutdown_timeout(Duration::from_secs(10));
    assert_eq!(time.pending(), 0);
    // A runtime that is dropped while its tasks are woken.
    let runtime = waiting();
    time.advance(HOUR);
    drop(runtime);
    assert_eq!(time.pending(), 0);
}
