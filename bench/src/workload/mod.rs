//! The workloads. Each round builds a new queue, so that rounds are alike and only one queue is in
//! memory. Building is not timed, and part of the work warms the queue up, untimed.
//!
//! Deadlines are uniform in 1 ms..60 s unless said otherwise. An operation on a random timer also costs a
//! random number and an access to the array of handles, as the row "floor" shows.

mod arm;
mod fire;
mod memory;
mod next;
mod priority;
mod quic;
mod rearm;
mod steady;

use std::iter;

use crate::clock::{Pace, Stopwatch};
use crate::contender::Contender;
use crate::figure::{Figure, GaveUp, Sample};
use crate::random::Random;

/// A millisecond.
pub const MS: u64 = 1_000;
/// A second.
pub const SECOND: u64 = 1_000 * MS;
/// An hour.
pub const HOUR: u64 = 3_600 * SECOND;
/// Farthest deadline of most workloads.
pub const SPAN: u64 = 60 * SECOND;

/// Something to do with N timers, and what it measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Workload {
    /// Arm N; cancel all in random order
    Arm,
    /// Cancel a random one of N, arm another
    Steady,
    /// Re-arm a random one of N to later
    Later,
    /// Re-arm a random one of N to earlier
    Earlier,
    /// Fire N as the clock passes
    Fire,
    /// Fire N that are all due
    FireAtOnce,
    /// Ask for the next deadline, and when to wake up
    Next,
    /// Ask for the next deadline of one far timer
    OneFar,
    /// Ask for the next deadline of N timers in one far millisecond
    FarSlot,
    /// Cancel and arm the earliest, asking
    Churn,
    /// A QUIC endpoint with N connections
    Quic,
    /// Push and pop, as priority queues are compared (d_heap's three)
    Priority,
    /// Memory of N timers, and the most under churn
    Memory,
}

impl Workload {
    /// Returns the figures that the workload measures.
    pub fn figures(self) -> &'static [Figure] {
        match self {
            Workload::Arm => &[Figure::Arm, Figure::CancelAll],
            Workload::Steady => &[Figure::ArmCancel],
            Workload::Later => &[Figure::RearmLater],
            Workload::Earlier => &[Figure::RearmEarlier],
            Workload::Fire => &[Figure::Fire],
            Workload::FireAtOnce => &[Figure::FireAtOnce],
            Workload::Next => &[Figure::NextUniform, Figure::Wakeup],
            Workload::OneFar => &[Figure::NextOneFar],
            Workload::FarSlot => &[Figure::NextFarSlot],
            Workload::Churn => &[Figure::NextChurn],
            Workload::Quic => &[Figure::Quic],
            Workload::Priority => &[Figure::PushN, Figure::PushNPopN, Figure::PushPop],
            Workload::Memory => &[Figure::Memory, Figure::HandleMemory, Figure::MemoryPeak],
        }
    }

    /// Returns the numbers of timers for this workload, if `asked` were requested.
    pub fn sizes(self, asked: &[usize], quick: bool) -> Vec<usize> {
        match self {
            Workload::OneFar => vec![1],
            // The sizes of d_heap's benchmarks.
            Workload::Priority if quick => vec![10, 31_623],
            Workload::Priority => vec![10, 31_623, 100_000, 3_162_278],
            // With few timers, only the size of the empty queue would count.
            Workload::Memory => {
                let many = asked.iter().copied().filter(|&n| n >= 1_000);
                iter::once(FEW_HUNDRED).chain(many).collect()
            }
            _ => asked.to_vec(),
        }
    }

    /// Returns whether the contender without a queue can run the workload.
    pub fn has_floor(self) -> bool {
        matches!(
            self,
            Workload::Arm | Workload::Steady | Workload::Later | Workload::Earlier
        )
    }

    /// Runs one round.
    pub fn round<C: Contender>(
        self,
        size: usize,
        random: &mut Random,
        pace: &Pace,
    ) -> Result<Vec<Sample>, GaveUp> {
        match self {
            Workload::Arm => arm::round::<C>(size, random, pace),
            Workload::Steady => steady::round::<C>(size, random, pace),
            Workload::Later => rearm::later::<C>(size, random, pace),
            Workload::Earlier => rearm::earlier::<C>(size, random, pace),
            Workload::Fire => fire::ticking::<C>(size, random, pace),
            Workload::FireAtOnce => fire::at_once::<C>(size, random, pace),
            Workload::Next => next::uniform_round::<C>(size, random, pace),
            Workload::OneFar => next::one_far::<C>(pace),
            Workload::FarSlot => next::far_slot::<C>(size, random, pace),
            Workload::Churn => next::churn::<C>(size, random, pace),
            Workload::Quic => quic::round::<C>(size, random, pace),
            Workload::Priority => priority::round::<C>(size, random, pace),
            Workload::Memory => memory::round::<C>(size, random, pace),
        }
    }
}

/// Number of timers that a small program has, whose memory is measured in every run.
pub const FEW_HUNDRED: usize = 300;

/// Returns a deadline with the distribution of most workloads.
#[inline]
pub fn uniform(random: &mut Random) -> u64 {
    MS + random.below(SPAN - MS)
}

/// A queue with timers in it. Timer n has payload n, handle n and deadline n.
pub struct Filled<C: Contender> {
    pub queue: C,
    pub handles: Vec<C::Handle>,
    pub deadlines: Vec<u64>,
}

/// Returns a queue with `size` timers; arming them is not timed.
pub fn filled<C: Contender>(
    size: usize,
    pace: &Pace,
    mut deadline: impl FnMut() -> u64,
) -> Result<Filled<C>, GaveUp> {
    let start = Stopwatch::start();
    let mut filled = Filled {
        queue: C::new(),
        handles: Vec::with_capacity(size),
        deadlines: Vec::with_capacity(size),
    };
    for payload in 0..size {
        if payload.is_multiple_of(1024) && start.elapsed() > pace.patience {
            return Err(GaveUp {
                doing: "arming the timers",
                seconds: pace.patience.as_secs(),
            });
        }
        let at = deadline();
        filled.handles.push(filled.queue.arm(at, payload as u64));
        filled.deadlines.push(at);
    }
    Ok(filled)
}

/// Number of operations that change one of N timers: at least N in a round, so that the round includes
/// deferred work of the queue (sweeping, compaction).
pub fn touching(size: usize, pace: &Pace) -> usize {
    pace.operations.max(size)
}
