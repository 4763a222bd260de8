//! What is done with timeouts, on every thread of a runtime at once.
//!
//! What is timed is the CPU time of the whole process: the tasks', and that of whatever thread fires the timers.
//! Futures are polled by hand within one poll of a task, so that no scheduler stands between two polls.

use std::future::{Future, poll_fn};
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Runtime;
use tokio::task::yield_now;

use super::contenders::Contender;
use crate::random::Random;

/// Operations between two polls of a task: runtimes stop a task that does too much in one.
const AT_ONCE: usize = 64;

/// The time a future has.
const LIMIT: Duration = Duration::from_secs(1);

/// How long a timeout lives where it is given some time to.
const LIFE: Duration = Duration::from_millis(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// `timeout` around a future that is ready.
    Ready,
    /// `timeout` around a future that is ready when it is polled for the second time.
    PendingOnce,
    /// `sleep`, polled once and dropped, beside so many others that wait.
    ArmAndDrop { live: usize },
    /// So many timeouts a second for so long, each pending and dropped a millisecond later.
    Rate { per_second: usize, millis: u32 },
}

/// What a round took.
#[derive(Clone, Copy, Debug)]
pub struct Took {
    /// CPU time of the process.
    pub cpu: Duration,
    pub wall: Duration,
    pub operations: usize,
}

impl Took {
    /// CPU nanoseconds an operation.
    pub fn nanos(&self) -> f64 {
        self.cpu.as_nanos() as f64 / self.operations as f64
    }

    /// Processors in use, 1 for one all the time.
    pub fn processors(&self) -> f64 {
        self.cpu.as_secs_f64() / self.wall.as_secs_f64()
    }
}

/// Not ready when polled for the first time; nobody is going to wake it.
struct PendingOnce(bool);

impl Future for PendingOnce {
    type Output = u32;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<u32> {
        if self.0 {
            return Poll::Ready(black_box(1));
        }
        self.0 = true;
        Poll::Pending
    }
}

/// One round of a workload: `operations` on each of `threads` tasks, and what that took.
pub fn round<C: Contender>(
    workload: Workload,
    runtime: &Runtime,
    threads: usize,
    operations: usize,
    seed: u64,
) -> Took {
    let ended = Arc::new(AtomicBool::new(false));
    // Nobody's queue is empty, and every driver has a deadline it will wake up for before those that are armed: a
    // server has that, and without it tokio would write to an eventfd at each arming.
    let ticker = runtime.spawn({
        let ended = ended.clone();
        async move {
            while C::NAME != super::contenders::Nothing::NAME && !ended.load(Ordering::Relaxed) {
                C::sleep(Duration::from_millis(20)).await;
            }
        }
    });
    let took = match workload {
        Workload::Ready => on_threads(runtime, threads, operations, |_| ready::<C>(operations)),
        Workload::PendingOnce => on_threads(runtime, threads, operations, |_| {
            pending_once::<C>(operations)
        }),
        Workload::ArmAndDrop { live } => {
            arm_and_drop::<C>(runtime, threads, operations, live, seed)
        }
        Workload::Rate { per_second, millis } => {
            let share = (per_second / threads / 1_000).max(1);
            on_threads(runtime, threads, share * millis as usize, |_| {
                at_rate::<C>(share, millis)
            })
        }
    };
    ended.store(true, Ordering::Relaxed);
    runtime.block_on(ticker).expect("the ticker ends");
    took
}

/// Runs a task for each thread and times them all.
fn on_threads<F: Future<Output = ()> + Send + 'static>(
    runtime: &Runtime,
    threads: usize,
    operations: usize,
    mut task: impl FnMut(usize) -> F,
) -> Took {
    // Each task holds its worker until all are there: so each has a worker of its own.
    let gathered = Arc::new(AtomicUsize::new(0));
    let (cpu, wall) = (process_cpu(), Instant::now());
    let tasks: Vec<_> = (0..threads)
        .map(|number| {
            let (work, gathered) = (task(number), gathered.clone());
            runtime.spawn(async move {
                gathered.fetch_add(1, Ordering::AcqRel);
                while gathered.load(Ordering::Acquire) < threads {
                    std::thread::yield_now();
                }
                work.await;
            })
        })
        .collect();
    for task in tasks {
        runtime.block_on(task).expect("no task panics");
    }
    Took {
        cpu: process_cpu() - cpu,
        wall: wall.elapsed(),
        operations: operations * threads,
    }
}

async fn ready<C: Contender>(operations: usize) {
    for _ in 0..operations / AT_ONCE {
        for _ in 0..AT_ONCE {
            let output = C::timeout(black_box(LIMIT), async { black_box(1) }).await;
            assert!(output.is_ok());
        }
        yield_now().await;
    }
}

async fn pending_once<C: Contender>(operations: usize) {
    for _ in 0..operations / AT_ONCE {
        poll_fn(|cx| {
            for _ in 0..AT_ONCE {
                let mut bounded = pin!(C::timeout(black_box(LIMIT), PendingOnce(false)));
                assert!(bounded.as_mut().poll(cx).is_pending());
                assert!(bounded.as_mut().poll(cx).is_ready());
            }
            Poll::Ready(())
        })
        .await;
        yield_now().await;
    }
}

/// A time from 1 s to 60 s.
fn some_time(random: &mut Random) -> Duration {
    Duration::from_micros(1_000_000 + random.below(59_000_000))
}

fn arm_and_drop<C: Contender>(
    runtime: &Runtime,
    threads: usize,
    operations: usize,
    live: usize,
    seed: u64,
) -> Took {
    let each = live / threads;
    // Armed by the threads that go on arming.
    let waiting: Vec<_> = (0..threads as u64)
        .map(|thread| {
            let mut random = Random::new(seed ^ thread);
            runtime.spawn(async move {
                let mut waiting = Vec::with_capacity(each);
                for _ in 0..each {
                    // Later than those that come and go.
                    let time = some_time(&mut random) + Duration::from_secs(60);
                    let mut sleep = Box::pin(C::sleep(time));
                    poll_fn(|cx| {
                        assert!(sleep.as_mut().poll(cx).is_pending());
                        Poll::Ready(())
                    })
                    .await;
                    waiting.push(sleep);
                    if waiting.len() % AT_ONCE == 0 {
                        yield_now().await;
                    }
                }
                waiting
            })
        })
        .collect();
    let waiting: Vec<_> = waiting
        .into_iter()
        .map(|task| runtime.block_on(task).expect("no task panics"))
        .collect();
    let took = on_threads(runtime, threads, operations, |thread| {
        let mut random = Random::new(seed ^ (thread as u64) << 8);
        async move {
            for _ in 0..operations / AT_ONCE {
                poll_fn(|cx| {
                    for _ in 0..AT_ONCE {
                        let mut sleep = pin!(C::sleep(some_time(&mut random)));
                        assert!(sleep.as_mut().poll(cx).is_pending());
                    }
                    Poll::Ready(())
                })
                .await;
                yield_now().await;
            }
        }
    });
    runtime.block_on(async { drop(waiting) });
    took
}

/// Arms a millisecond's share, sleeps as a thread that waits for its sockets does, and drops it.
async fn at_rate<C: Contender>(share: usize, millis: u32) {
    let mut pending: Vec<_> = (0..share).map(|_| None).collect();
    let start = Instant::now();
    for turn in 1..=millis {
        poll_fn(|cx| {
            for place in &mut pending {
                // The one that was there is dropped.
                let bounded = place.insert(Box::pin(C::timeout(LIMIT, PendingOnce(false))));
                assert!(bounded.as_mut().poll(cx).is_pending());
            }
            Poll::Ready(())
        })
        .await;
        let next = start + LIFE * turn;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

/// CPU time of all threads.
fn process_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
