//! Loom models of the pool, run by `scripts/loom`. Idle workers do not time out in a model, so a
//! lost wake-up is a deadlock, which loom reports.

use std::sync::Arc;
use std::vec::Vec;

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use super::pool::{Pool, Worker};
use super::{IDLE_LIMIT, Jobs};

fn check(body: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(body);
}

/// Starts a worker that counts its jobs in `done` and ends when the pool is closed.
fn worker(pool: &Arc<Pool<u32>>, done: &Arc<AtomicUsize>) -> thread::JoinHandle<()> {
    let (pool, done) = (pool.clone(), done.clone());
    thread::spawn(move || {
        let worker = Arc::new(Worker::new());
        loop {
            for _ in Jobs::new(&pool, &worker) {
                done.fetch_add(1, Ordering::Relaxed);
            }
            if !pool.wait(&worker) {
                return;
            }
        }
    })
}

fn until_done(done: &AtomicUsize, jobs: usize) {
    while done.load(Ordering::Relaxed) < jobs {
        thread::yield_now();
    }
}

#[test]
fn a_job_handed_over_while_the_worker_falls_idle_is_done() {
    check(|| {
        let pool = Arc::new(Pool::new(1, IDLE_LIMIT));
        let done = Arc::new(AtomicUsize::new(0));
        assert_eq!(pool.add(&mut vec![1]), (true, true));
        let thread = worker(&pool, &done);
        let (_, start) = pool.add(&mut vec![2]);
        assert!(!start);
        until_done(&done, 2);
        pool.close();
        thread.join().unwrap();
        assert_eq!(pool.workers(), 0);
    });
}

#[test]
fn two_workers_do_each_job_once() {
    check(|| {
        let pool = Arc::new(Pool::new(2, IDLE_LIMIT));
        let done = Arc::new(AtomicUsize::new(0));
        assert_eq!(pool.add(&mut vec![1]), (true, true));
        let first = worker(&pool, &done);
        let second = pool.check_progress().then(|| worker(&pool, &done));
        pool.add(&mut vec![2, 3]);
        until_done(&done, 3);
        pool.close();
        first.join().unwrap();
        if let Some(second) = second {
            second.join().unwrap();
        }
        assert_eq!((pool.workers(), done.load(Ordering::Relaxed)), (0, 3));
    });
}

#[test]
fn taking_back_a_local_queue_neither_loses_nor_repeats_jobs() {
    check(|| {
        let pool = Arc::new(Pool::new(1, IDLE_LIMIT));
        let done = Arc::new(AtomicUsize::new(0));
        // The worker takes one job and moves two to its local queue, which `check_progress` may
        // take back at any moment.
        assert_eq!(pool.add(&mut vec![1, 2, 3, 4, 5]), (true, true));
        let thread = worker(&pool, &done);
        let mut others = Vec::new();
        if pool.check_progress() {
            others.push(worker(&pool, &done));
        }
        until_done(&done, 5);
        pool.close();
        thread.join().unwrap();
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(done.load(Ordering::Relaxed), 5);
    });
}
