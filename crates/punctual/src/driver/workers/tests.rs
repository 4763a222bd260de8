//! Tests of the workers with real threads. Channels and barriers order the threads. Time is passed
//! in as an argument or does not matter.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Instant;

use super::*;

type Job = Box<dyn FnOnce() + Send>;

fn workers(cores: usize) -> Workers<Job> {
    Workers::of_pool(Pool::new(cores, IDLE_LIMIT), |jobs| {
        for job in jobs {
            job();
        }
    })
}

/// Calls `run` repeatedly, like the driver's thread, until `done` returns true.
fn drive(workers: &mut Workers<Job>, done: impl Fn() -> bool) {
    while !done() {
        workers.run(&mut Vec::new());
        thread::yield_now();
    }
}

/// Returns a job that reports its start and then blocks, and a sender that releases the job when it
/// is dropped.
fn blocking(begun: &Sender<usize>, number: usize) -> (Job, Sender<()>) {
    let begun = begun.clone();
    let (release, wait): (Sender<()>, Receiver<()>) = channel();
    let job = move || {
        begun.send(number).unwrap();
        let _ = wait.recv();
    };
    (Box::new(job), release)
}

#[test]
fn all_jobs_are_done_once() {
    let count = if cfg!(miri) { 200 } else { 20_000 };
    let done: Arc<[AtomicUsize]> = (0..count).map(|_| AtomicUsize::new(0)).collect();
    let left = Arc::new(AtomicUsize::new(count));
    let mut workers = workers(2);
    let mut jobs: Vec<Job> = Vec::new();
    for number in 0..count {
        let (done, left) = (done.clone(), left.clone());
        jobs.push(Box::new(move || {
            done[number].fetch_add(1, Ordering::Relaxed);
            left.fetch_sub(1, Ordering::Release);
        }));
        if number % 70 == 0 {
            workers.run(&mut jobs);
            assert!(jobs.is_empty());
        }
    }
    workers.run(&mut jobs);
    drive(&mut workers, || left.load(Ordering::Acquire) == 0);
    assert!(done.iter().all(|times| times.load(Ordering::Relaxed) == 1));
}

#[test]
fn one_worker_does_jobs_in_their_order() {
    let (sender, order) = channel();
    let mut workers = workers(1);
    // The jobs wait before the worker starts, so the worker takes several into its local queue.
    let count = 100;
    let mut jobs: Vec<Job> = (0..count)
        .map(|number| {
            let sender = sender.clone();
            Box::new(move || sender.send(number).unwrap()) as Job
        })
        .collect();
    // No time passes, so no second worker is started.
    let now = Instant::now();
    workers.run_at(&mut jobs, || now);
    assert!(order.iter().take(count).eq(0..count));
    assert_eq!(workers.count(), 1);
}

#[test]
fn a_job_that_blocks_delays_no_other() {
    let count = if cfg!(miri) { 4 } else { 50 };
    let mut workers = workers(2);
    // Each job waits for all jobs, so all of them must run at once.
    let all = Arc::new(Barrier::new(count));
    let left = Arc::new(AtomicUsize::new(count));
    let mut jobs: Vec<Job> = (0..count)
        .map(|_| {
            let (all, left) = (all.clone(), left.clone());
            Box::new(move || {
                all.wait();
                left.fetch_sub(1, Ordering::Release);
            }) as Job
        })
        .collect();
    workers.run(&mut jobs);
    drive(&mut workers, || left.load(Ordering::Acquire) == 0);
    assert_eq!(workers.count(), count);
}

#[test]
fn a_stall_adds_one_worker_and_progress_none() {
    let (begun_sender, begun) = channel();
    let mut workers = workers(1);
    let mut now = Instant::now();
    let mut blocked = Vec::new();
    let mut jobs = Vec::new();
    for number in 0..3 {
        let (job, release) = blocking(&begun_sender, number);
        jobs.push(job);
        blocked.push(release);
    }
    workers.run_at(&mut jobs, || now);
    assert_eq!(begun.recv(), Ok(0));
    // Too early for another worker.
    now += STALL / 2;
    workers.run_at(&mut jobs, || now);
    assert_eq!(workers.count(), 1);
    // The worker has taken a job since the first check.
    now += STALL / 2;
    workers.run_at(&mut jobs, || now);
    assert_eq!(workers.count(), 1);
    // Now it is stuck.
    now += STALL;
    workers.run_at(&mut jobs, || now);
    assert_eq!(workers.count(), 2);
    assert_eq!(begun.recv(), Ok(1));
    // Progress again: the second worker has started and taken a job.
    now += STALL;
    workers.run_at(&mut jobs, || now);
    assert_eq!(workers.count(), 2);
    now += STALL;
    workers.run_at(&mut jobs, || now);
    assert_eq!(workers.count(), 3);
    assert_eq!(begun.recv(), Ok(2));
    // No job waits any more.
    now += STALL;
    workers.run_at(&mut jobs, || now);
    assert_eq!((workers.count(), workers.recheck()), (3, None));
}

#[test]
fn a_worker_that_waits_for_a_lock_counts_as_starting() {
    let lock = Arc::new(std::sync::Mutex::new(()));
    let held = lock.lock().unwrap();
    let (sender, receiver) = channel();
    let mut workers = Workers::of_pool(Pool::new(4, IDLE_LIMIT), {
        let lock = lock.clone();
        move |jobs: &mut Jobs<'_, Job>| {
            let _held = lock.lock().unwrap();
            jobs.for_each(|job| job());
        }
    });
    let jobs = (0..10).map(|number| {
        let sender = sender.clone();
        Box::new(move || sender.send(number).unwrap()) as Job
    });
    let mut now = Instant::now();
    workers.run_at(&mut jobs.collect(), || now);
    for _ in 0..1_000 {
        now += STALL;
        workers.run_at(&mut Vec::new(), || now);
        assert_eq!(workers.count(), 1);
    }
    drop(held);
    assert!(receiver.iter().take(10).eq(0..10));
}

#[test]
fn the_stall_time_may_grow_with_the_number_of_workers() {
    let (begun_sender, begun) = channel();
    let mut workers = workers(1).with_stall(|workers| STALL * workers as u32);
    let (jobs, _release): (Vec<_>, Vec<_>) = (0..3).map(|n| blocking(&begun_sender, n)).unzip();
    let mut now = Instant::now();
    workers.run_at(&mut { jobs }, || now);
    for (number, checks) in [(1, 2), (2, 4)] {
        assert_eq!(begun.recv(), Ok(number - 1));
        for _ in 0..checks {
            assert_eq!(workers.count(), number);
            now += STALL;
            workers.run_at(&mut Vec::new(), || now);
        }
        assert_eq!(workers.count(), number + 1);
    }
    assert_eq!(begun.recv(), Ok(2));
}

#[test]
fn jobs_in_a_stuck_workers_local_queue_are_taken_back() {
    let (begun_sender, begun) = channel();
    let mut workers = workers(1);
    let (first, release) = blocking(&begun_sender, 0);
    let mut jobs = vec![first];
    for number in 1..=20 {
        let begun = begun_sender.clone();
        jobs.push(Box::new(move || begun.send(number).unwrap()));
    }
    let mut now = Instant::now();
    workers.run_at(&mut jobs, || now);
    assert_eq!(begun.recv(), Ok(0));
    // The first worker has ten jobs in its local queue. While it is blocked, other workers do these
    // jobs in order.
    while workers.count() == 1 {
        now += STALL;
        workers.run_at(&mut jobs, || now);
    }
    let numbers: Vec<usize> = begun.iter().take(20).collect();
    assert!(numbers.is_sorted(), "{numbers:?}");
    drop(release);
}

#[test]
fn an_idle_worker_is_called_before_another_is_started() {
    let mut workers = workers(4);
    for round in 0..if cfg!(miri) { 3 } else { 100 } {
        let (sender, receiver) = channel();
        workers.run(&mut vec![Box::new(move || sender.send(round).unwrap())]);
        assert_eq!(receiver.recv(), Ok(round));
        // The pool wakes the worker for the next job only if it is idle.
        while workers.pool.idle() == 0 {
            thread::yield_now();
        }
    }
    assert_eq!(workers.count(), 1);
}

#[test]
fn idle_workers_end() {
    let mut workers: Workers<Job> = Workers::of_pool(Pool::new(2, Duration::ZERO), |jobs| {
        for job in jobs {
            job();
        }
    });
    let (sender, receiver) = channel();
    for round in 0..3 {
        let sender = sender.clone();
        workers.run(&mut vec![Box::new(move || sender.send(round).unwrap())]);
        assert_eq!(receiver.recv(), Ok(round));
        while workers.count() > 0 {
            thread::yield_now();
        }
    }
}

#[test]
fn a_panic_loses_no_other_job() {
    struct Explosive;
    impl Drop for Explosive {
        fn drop(&mut self) {
            if !thread::panicking() {
                // The payload is leaked, but it is zero-sized, so Miri reports no leak.
                std::panic::resume_unwind(Box::new(()));
            }
        }
    }
    let mut workers = workers(1);
    let left = Arc::new(AtomicUsize::new(3));
    let ordinary = |left: &Arc<AtomicUsize>| -> Job {
        let left = left.clone();
        Box::new(move || {
            left.fetch_sub(1, Ordering::Release);
        })
    };
    // `resume_unwind` does not call the panic hook, which keeps the test's output clean.
    let mut jobs: Vec<Job> = vec![
        ordinary(&left),
        Box::new(|| std::panic::resume_unwind(Box::new("a job panics"))),
        ordinary(&left),
        Box::new(|| std::panic::resume_unwind(Box::new(Explosive))),
        ordinary(&left),
    ];
    let now = Instant::now();
    workers.run_at(&mut jobs, || now);
    while left.load(Ordering::Acquire) > 0 {
        thread::yield_now();
    }
    assert_eq!(workers.count(), 1);
}

#[test]
fn dropping_the_pool_drops_waiting_jobs() {
    struct ReportDrop(Sender<&'static str>);
    impl Drop for ReportDrop {
        fn drop(&mut self) {
            let _ = self.0.send("dropped");
        }
    }
    let (begun_sender, begun) = channel();
    let mut workers = workers(1);
    let (first, release) = blocking(&begun_sender, 0);
    let (sender, reports) = channel();
    let mut jobs = vec![first];
    for _ in 0..10 {
        let report = ReportDrop(sender.clone());
        jobs.push(Box::new(move || report.0.send("done").unwrap()));
    }
    drop(sender);
    workers.run(&mut jobs);
    assert_eq!(begun.recv(), Ok(0));
    let pool = workers.pool.clone();
    drop(workers);
    let reports: Vec<_> = reports.iter().collect();
    assert_eq!(reports, ["dropped"; 10]);
    // The running job may finish; then its thread ends.
    assert_eq!(pool.workers(), 1);
    drop(release);
    while pool.workers() > 0 {
        thread::yield_now();
    }
}

#[test]
fn dropping_the_pool_ends_idle_workers() {
    let mut workers = workers(1);
    let done = Arc::new(AtomicBool::new(false));
    let flag = done.clone();
    workers.run(&mut vec![Box::new(move || {
        flag.store(true, Ordering::Release)
    })]);
    drive(&mut workers, || done.load(Ordering::Acquire));
    let pool = workers.pool.clone();
    drop(workers);
    while pool.workers() > 0 {
        thread::yield_now();
    }
}

#[test]
fn workers_that_cannot_be_started_are_not_counted() {
    let pool: Pool<u32> = Pool::new(1, IDLE_LIMIT);
    assert_eq!(pool.add(&mut vec![1, 2]), (true, true));
    pool.not_started();
    assert_eq!(pool.workers(), 0);
    // The next check asks the caller again to start a worker.
    assert!(pool.check_progress());
    assert_eq!((pool.workers(), pool.check_progress()), (1, false));
    pool.mark_started();
    let worker = Arc::new(Worker::new());
    assert_eq!((pool.take(&worker), pool.take(&worker)), (Some(1), Some(2)));
}

/// Measures the cost of a job: `cargo test --release -p punctual --lib -- storm_of --ignored
/// --nocapture`.
#[test]
#[ignore = "a measurement"]
fn storm_of_tiny_jobs() {
    for round in 0..6 {
        let cores = if round % 2 == 0 { 1 } else { 2 };
        let count = 100_000_usize;
        let left = Arc::new(AtomicUsize::new(count));
        let done = left.clone();
        let mut workers: Workers<usize> =
            Workers::of_pool(Pool::new(cores, IDLE_LIMIT), move |jobs| {
                for _ in jobs {
                    done.fetch_sub(1, Ordering::Release);
                }
            });
        let begun = Instant::now();
        let mut jobs = Vec::new();
        for batch in 0..count / 50 {
            jobs.extend(batch * 50..(batch + 1) * 50);
            workers.run(&mut jobs);
        }
        let handed_over = begun.elapsed();
        while left.load(Ordering::Acquire) > 0 {
            workers.run(&mut jobs);
            thread::yield_now();
        }
        let all = begun.elapsed();
        println!(
            "{cores} cores, {} workers: {:.0} ns a job, {:.0} of it on the driver's thread",
            workers.count(),
            all.as_nanos() as f64 / count as f64,
            handed_over.as_nanos() as f64 / count as f64,
        );
    }
}
