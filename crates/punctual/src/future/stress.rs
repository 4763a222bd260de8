//! Tests of the futures on the real clock, with threads that poll, wake and drop them.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::Wake;
use std::thread;
use std::time::Instant;

use futures::executor::block_on;

use super::*;

/// A minimal executor: a queue of woken tasks, which any number of threads poll.
struct Executor {
    ready: Mutex<VecDeque<Arc<Task>>>,
    changed: Condvar,
    left: AtomicUsize,
}

type Spawned = Pin<Box<dyn Future<Output = ()> + Send>>;

struct Task {
    future: Mutex<Option<Spawned>>,
    executor: Arc<Executor>,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        let executor = self.executor.clone();
        executor.ready.lock().unwrap().push_back(self);
        executor.changed.notify_one();
    }
}

impl Executor {
    /// Polls woken tasks until all tasks are done.
    fn work(&self) {
        loop {
            let mut ready = self.ready.lock().unwrap();
            let task = loop {
                if self.left.load(Ordering::SeqCst) == 0 {
                    return;
                }
                match ready.pop_front() {
                    Some(task) => break task,
                    None => ready = self.changed.wait(ready).unwrap(),
                }
            };
            drop(ready);
            let waker = Waker::from(task.clone());
            let mut future = task.future.lock().unwrap();
            let Some(running) = future.as_mut() else {
                continue; // woken again after its end
            };
            if running
                .as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_ready()
            {
                *future = None;
                // Counts under the lock: otherwise a thread that has just checked `left` would miss
                // the notification.
                let ready = self.ready.lock().unwrap();
                self.left.fetch_sub(1, Ordering::SeqCst);
                drop(ready);
                self.changed.notify_all();
            }
        }
    }
}

fn run_all(threads: usize, futures: impl Iterator<Item = Spawned>) {
    let executor = Arc::new(Executor {
        ready: Mutex::default(),
        changed: Condvar::new(),
        left: AtomicUsize::new(0),
    });
    for future in futures {
        executor.left.fetch_add(1, Ordering::SeqCst);
        Arc::new(Task {
            future: Mutex::new(Some(future)),
            executor: executor.clone(),
        })
        .wake();
    }
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| executor.work());
        }
    });
    assert!(
        executor
            .ready
            .lock()
            .unwrap()
            .iter()
            .all(|task| task.future.lock().unwrap().is_none())
    );
}

/// A future that is ready at the second poll, so that other tasks run before.
struct Yield(bool);

impl Future for Yield {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if core::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Every task awaits futures with timeouts: some futures are ready in time, some are late, and some
/// are dropped while they wait.
#[test]
fn many_tasks_with_timeouts_on_two_threads() {
    let tasks = if cfg!(miri) { 4 } else { 400 };
    let rounds = if cfg!(miri) { 3 } else { 100 };
    let done = Arc::new(AtomicUsize::new(0));
    let (in_time, late) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let task = |number: u64| {
        let (done, in_time, late) = (done.clone(), in_time.clone(), late.clone());
        Box::pin(async move {
            for round in 0..rounds {
                let micros = Duration::from_micros((number * 7 + round * 13) % 50);
                match (number + round) % 4 {
                    0 => timeout(Duration::from_secs(600), Yield(false))
                        .await
                        .expect("ten minutes"),
                    // Both outcomes are correct, and each round must have one.
                    1 => match timeout(micros, sleep(Duration::from_micros(25))).await {
                        Ok(()) => drop(in_time.fetch_add(1, Ordering::Relaxed)),
                        Err(Elapsed) => drop(late.fetch_add(1, Ordering::Relaxed)),
                    },
                    2 => {
                        let start = Instant::now();
                        sleep(micros).await;
                        assert!(start.elapsed() >= micros, "early");
                    }
                    _ => {
                        let mut dropped = sleep(micros);
                        let _ = timeout(Duration::ZERO, &mut dropped).await;
                        Yield(false).await;
                    }
                }
            }
            done.fetch_add(1, Ordering::Relaxed);
        }) as Spawned
    };
    run_all(2, (0..tasks).map(task));
    assert_eq!(done.load(Ordering::Relaxed), tasks as usize);
    let outcomes = in_time.load(Ordering::Relaxed) + late.load(Ordering::Relaxed);
    assert_eq!(outcomes as u64, tasks * rounds / 4);
}

/// One thread polls the queue; another thread inserts values that are due before the queue's last
/// value.
#[test]
fn a_queue_wakes_its_task_when_another_thread_inserts() {
    let values = if cfg!(miri) { 5 } else { 200 };
    let queue = Mutex::new(DelayQueue::new());
    let hour = Duration::from_secs(3600);
    let last = queue.lock().unwrap().insert(u32::MAX, hour);
    thread::scope(|scope| {
        let queue = &queue;
        scope.spawn(move || {
            for value in 0..values {
                queue
                    .lock()
                    .unwrap()
                    .insert(value, Duration::from_micros(100));
                if value % 3 == 0 {
                    thread::yield_now();
                }
            }
        });
        let mut seen = 0;
        while seen < values {
            let expired = block_on(core::future::poll_fn(|cx| {
                queue.lock().unwrap().poll_expired(cx)
            }));
            assert_eq!(expired.unwrap().value, seen);
            seen += 1;
        }
        // The removal of the last value wakes the thread that waits for it.
        scope.spawn(move || {
            block_on(sleep(Duration::from_millis(1)));
            queue.lock().unwrap().remove(last);
        });
        let end = block_on(core::future::poll_fn(|cx| {
            queue.lock().unwrap().poll_expired(cx)
        }));
        assert_eq!(end, None);
    });
}

/// The driver's thread continues after the panic and fires later timers.
#[test]
fn a_waker_that_panics_does_not_stop_the_driver() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a waker that panics, as this test wants it");
        }
    }
    let waker = Waker::from(Arc::new(Panics));
    let mut sleep_of_panics = sleep(Duration::from_micros(100));
    let _ = Pin::new(&mut sleep_of_panics).poll(&mut Context::from_waker(&waker));
    for _ in 0..3 {
        block_on(sleep(Duration::from_millis(1)));
    }
    assert!(sleep_of_panics.is_elapsed());
    block_on(sleep_of_panics);
}

#[test]
fn a_sleep_may_move_between_threads() {
    let mut cx = Context::from_waker(Waker::noop());
    // On a busy machine the first sleeps may be ready before they are polled.
    let moved = (1..15)
        .map(|doublings| sleep(Duration::from_millis(1 << doublings)))
        .find_map(|mut one| Pin::new(&mut one).poll(&mut cx).is_pending().then_some(one))
        .unwrap();
    let deadline = moved.deadline();
    thread::spawn(move || block_on(moved)).join().unwrap();
    assert!(Instant::now() >= deadline);
}

/// One thread arms timeouts and another drops them near their deadlines. In the end no clone of the
/// waker is left.
#[test]
fn timeouts_dropped_by_another_thread_leave_nothing() {
    struct Nothing;
    impl Wake for Nothing {
        fn wake(self: Arc<Self>) {}
    }
    let task = Arc::new(Nothing);
    let waker = Waker::from(task.clone());
    let (sender, receiver) = std::sync::mpsc::channel();
    let dropping = thread::spawn(move || receiver.into_iter().for_each(drop));
    for number in 0..if cfg!(miri) { 20 } else { 50_000 } {
        let time = Duration::from_nanos(number * 61 % 3_000);
        let mut bounded = timeout(time, core::future::pending::<()>());
        let _ = Pin::new(&mut bounded).poll(&mut Context::from_waker(&waker));
        sender.send(bounded).unwrap();
    }
    drop(sender);
    dropping.join().unwrap();
    // The driver may not have woken the last tasks yet.
    let give_up_at = Instant::now() + Duration::from_secs(10);
    while Arc::strong_count(&task) > 2 {
        assert!(Instant::now() < give_up_at, "a waker is left");
        thread::yield_now();
    }
}
