//! Workloads of the comparison of timeouts. A workload runs on all threads of a runtime at the same
//! time.
//!
//! The figure is the CPU time of the whole process, which includes the thread that fires timers.
//! Futures are polled by hand within one poll of a task, so that no scheduler runs between two
//! polls.

use std::future::{Future, poll_fn};
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use fastrand::Rng;
use rustix::time::ClockId;
use tokio::runtime::Runtime;
use tokio::task::yield_now;

use super::contenders::Contender;
use crate::clock::cpu_time;
use crate::table::number;

/// Number of operations in one poll of a task: runtimes limit the work of a task per poll.
const AT_ONCE: usize = 64;

/// Time limit of each timeout.
const LIMIT: Duration = Duration::from_secs(1);

/// Time from the arming to the drop of a timeout in [`Workload::Rate`].
const LIFE: Duration = Duration::from_millis(1);

/// A workload, which each thread runs.
#[derive(Clone, Copy, Debug)]
pub enum Workload {
    /// `timeout` around a future that is ready.
    Ready { operations: usize },
    /// `timeout` around a future that is ready when it is polled for the second time.
    PendingOnce { operations: usize },
    /// `sleep`, polled once and dropped, while `live` other sleeps wait.
    ArmAndDrop { operations: usize, live: usize },
    /// `per_second` timeouts per second, for `millis` milliseconds. Each timeout is polled once,
    /// and dropped after [`LIFE`].
    Rate { per_second: usize, millis: u32 },
}

impl Workload {
    /// Returns the figure of a round: CPU nanoseconds per operation, or processors in use at a
    /// fixed rate.
    pub fn figure(self, took: &Took) -> f64 {
        match self {
            Workload::Rate { .. } => took.cpu.as_secs_f64() / took.wall.as_secs_f64(),
            _ => took.nanos(took.cpu, 1),
        }
    }

    /// Returns the unit of the figure, and of the column "wall".
    pub fn unit(self) -> &'static str {
        match self {
            Workload::Rate { .. } => "processors in use; wall: ns of a thread an operation",
            _ => {
                "ns of CPU time an operation, all threads of the process; wall: ns of a thread, waits included"
            }
        }
    }

    /// Formats a figure.
    pub fn text(self, figure: f64) -> String {
        match self {
            Workload::Rate { .. } => format!("{figure:.3}"),
            _ => number(figure),
        }
    }
}

/// Result of a round.
#[derive(Clone, Copy, Debug)]
pub struct Took {
    /// CPU time of the process.
    pub cpu: Duration,
    pub wall: Duration,
    pub operations: usize,
}

impl Took {
    /// Returns the nanoseconds per operation if each of `threads` threads used `time`.
    pub fn nanos(&self, time: Duration, threads: usize) -> f64 {
        time.as_nanos() as f64 * threads as f64 / self.operations as f64
    }
}

/// A future that is pending at its first poll and registers no waker.
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

/// Runs one round of a workload on each of `threads` tasks.
pub fn round<C: Contender>(
    workload: Workload,
    runtime: &Runtime,
    threads: usize,
    seed: u64,
) -> Took {
    let ended = Arc::new(AtomicBool::new(false));
    // A ticker, so that every timer driver has a deadline before the measured timeouts, as in a
    // server. Otherwise tokio would write to an eventfd each time a timeout is armed.
    let ticker = runtime.spawn({
        let ended = ended.clone();
        async move {
            while C::NAME != super::contenders::Nothing::NAME && !ended.load(Ordering::Relaxed) {
                C::sleep(Duration::from_millis(20)).await;
            }
        }
    });
    let took = match workload {
        Workload::Ready { operations } => {
            on_threads(runtime, threads, operations, |_| ready::<C>(operations))
        }
        Workload::PendingOnce { operations } => on_threads(runtime, threads, operations, |_| {
            pending_once::<C>(operations)
        }),
        Workload::ArmAndDrop { operations, live } => {
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

/// Runs a task on each thread, and measures all of them together.
fn on_threads<F: Future<Output = ()> + Send + 'static>(
    runtime: &Runtime,
    threads: usize,
    operations: usize,
    mut task: impl FnMut(usize) -> F,
) -> Took {
    // Each task occupies its worker until all tasks are running, so each task has its own worker.
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

/// Returns a random time from 1 s to 60 s.
fn some_time(random: &mut Rng) -> Duration {
    Duration::from_micros(random.u64(1_000_000..60_000_000))
}

fn arm_and_drop<C: Contender>(
    runtime: &Runtime,
    threads: usize,
    operations: usize,
    live: usize,
    seed: u64,
) -> Took {
    let each = live / threads;
    // The threads of the measurement also arm the waiting timers.
    let waiting: Vec<_> = (0..threads as u64)
        .map(|thread| {
            let mut random = Rng::with_seed(seed ^ thread);
            runtime.spawn(async move {
                let mut waiting = Vec::with_capacity(each);
                for _ in 0..each {
                    // These deadlines are later than all deadlines of measured timers.
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
        let mut random = Rng::with_seed(seed ^ (thread as u64) << 8);
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

/// Arms the timeouts of one millisecond, sleeps for a millisecond like a thread that polls sockets,
/// and drops them; repeatedly.
async fn at_rate<C: Contender>(share: usize, millis: u32) {
    let mut pending: Vec<_> = (0..share).map(|_| None).collect();
    let start = Instant::now();
    for turn in 1..=millis {
        poll_fn(|cx| {
            for place in &mut pending {
                // The assignment drops the previous timeout.
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

/// Returns the CPU time of all threads.
fn process_cpu() -> Duration {
    cpu_time(ClockId::ProcessCPUTime)
}
