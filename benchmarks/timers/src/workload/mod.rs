//! The workloads. Each round builds a new queue, so that all rounds are alike and only one queue is
//! in memory. The time for building the queue and for warming it up is not measured.
//!
//! Deadlines are uniformly distributed from 1 ms to 60 s unless the workload says otherwise. An
//! operation on a random timer also costs a random number and an access to the array of handles, as
//! the row "floor" shows.

mod drain;
mod memory;
mod passing;
mod sections;
mod turns;

use fastrand::Rng;

use crate::clock::{Pace, cpu};
use crate::contender::{Contender, Role};
use crate::results::{Figure, Sample};

/// Microseconds of a millisecond.
const MS: u64 = 1_000;
/// Maximum deadline in most workloads, in microseconds.
const SPAN: u64 = 60_000 * MS;
/// Microseconds of an hour.
const HOUR: u64 = 60 * SPAN;

/// Number of timers of a small program. The memory of so many timers is measured in every run.
pub const FEW_HUNDRED: usize = 300;

/// Numbers of connections of the workload `connections`.
const CONNECTIONS: [usize; 5] = [1, 10, 100, 1_000, 10_000];

/// A workload with N timers.
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
    /// Query the next deadline, and the next wake-up
    Next,
    /// Query the next deadline of N timers in one far millisecond
    FarSlot,
    /// Cancel and arm the earliest timer, and query the next deadline each time
    Churn,
    /// A QUIC endpoint with N connections
    Quic,
    /// A QUIC endpoint with 1 to 10,000 connections, as time goes on
    Connections,
    /// Like steady, as time goes on
    SteadyOn,
    /// Like later, as time goes on
    LaterOn,
    /// Like earlier, as time goes on
    EarlierOn,
    /// Like churn, as time goes on
    ChurnOn,
    /// Like quic, as time goes on
    QuicOn,
    /// Fire eight timers one by one, and ask an empty queue
    Drain,
    /// Memory of N timers, and its maximum under churn
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
            Workload::Next => &[Figure::Next, Figure::Wakeup],
            Workload::FarSlot => &[Figure::NextFarSlot],
            Workload::Churn => &[Figure::NextChurn],
            Workload::Quic => &[Figure::Quic],
            Workload::Connections => &[Figure::Connections],
            Workload::SteadyOn => &[Figure::ArmCancelOn],
            Workload::LaterOn => &[Figure::RearmLaterOn],
            Workload::EarlierOn => &[Figure::RearmEarlierOn],
            Workload::ChurnOn => &[Figure::NextChurnOn],
            Workload::QuicOn => &[Figure::QuicOn],
            Workload::Drain => &[Figure::Drain, Figure::DrainEmpty],
            Workload::Memory => &[Figure::Memory, Figure::MemoryPeak],
        }
    }

    /// Returns the numbers of timers for this workload, if the user requested `asked`.
    pub fn sizes(self, asked: &[usize]) -> Vec<usize> {
        match self {
            Workload::Connections => CONNECTIONS.to_vec(),
            Workload::Drain => vec![drain::TIMERS],
            Workload::Memory => {
                // With few timers, the figure would mostly be the size of an empty queue.
                let many = asked.iter().copied().filter(|&size| size >= 1_000);
                [FEW_HUNDRED].into_iter().chain(many).collect()
            }
            _ => asked.to_vec(),
        }
    }

    /// Returns true if a contender of this role takes part in the workload.
    pub fn has(self, role: Role) -> bool {
        use Workload::{Arm, Connections, Drain, Earlier, Later, Quic, QuicOn, Steady};
        match role {
            Role::Ours | Role::Peer => true,
            Role::Scan => matches!(self, Connections | Drain | Quic | QuicOn),
            // The floor does not fire due timers.
            Role::Floor => matches!(self, Arm | Steady | Later | Earlier),
        }
    }

    /// Runs one round. Returns `None` if the preparation took too long.
    pub fn round<C: Contender>(
        self,
        size: usize,
        random: &mut Rng,
        pace: &Pace,
    ) -> Option<Vec<Sample>> {
        match self {
            Workload::Arm => sections::arm::<C>(size, random, pace),
            Workload::Steady => turns::steady::<C>(size, random, pace),
            Workload::Later => turns::later::<C>(size, random, pace),
            Workload::Earlier => turns::earlier::<C>(size, random, pace),
            Workload::Fire => sections::fire::<C>(size, random, pace),
            Workload::Next => turns::next::<C>(size, random, pace),
            Workload::FarSlot => turns::far_slot::<C>(size, random, pace),
            Workload::Churn => turns::churn::<C>(size, random, pace),
            Workload::Quic => turns::quic::<C>(size, random, pace),
            Workload::Connections | Workload::QuicOn => {
                passing::quic::<C>(self.figures()[0], size, random, pace)
            }
            Workload::SteadyOn => passing::steady::<C>(size, random, pace),
            Workload::LaterOn => passing::later::<C>(size, random, pace),
            Workload::EarlierOn => passing::earlier::<C>(size, random, pace),
            Workload::ChurnOn => passing::churn::<C>(size, random, pace),
            Workload::Drain => drain::round::<C>(pace),
            Workload::Memory => memory::round::<C>(size, random, pace),
        }
    }
}

/// Returns a deadline with the distribution of most workloads.
fn uniform(random: &mut Rng) -> u64 {
    random.u64(MS..SPAN)
}

/// A queue with timers. Timer n has the payload n, the handle `handles[n]` and the deadline
/// `deadlines[n]`.
struct Filled<C: Contender> {
    queue: C,
    handles: Vec<C::Handle>,
    deadlines: Vec<u64>,
}

impl<C: Contender> Filled<C> {
    /// Returns a queue with `size` timers, or `None` if arming them took too long. The time for
    /// arming is not measured.
    fn with(size: usize, pace: &Pace, mut deadline: impl FnMut() -> u64) -> Option<Self> {
        let start = cpu();
        let mut filled = Filled {
            queue: C::default(),
            handles: Vec::with_capacity(size),
            deadlines: Vec::with_capacity(size),
        };
        for payload in 0..size {
            if payload.is_multiple_of(1024) && cpu() - start > pace.patience {
                return None;
            }
            let at = deadline();
            filled.handles.push(filled.queue.arm(at, payload as u64));
            filled.deadlines.push(at);
        }
        Some(filled)
    }

    /// Returns 1 if the queue is exact but returns a wrong next deadline, and 0 otherwise.
    fn wrong_next(&mut self) -> usize {
        let earliest = self.deadlines.iter().min().copied();
        usize::from(C::TICK == 1 && self.queue.next_deadline() != earliest)
    }
}
