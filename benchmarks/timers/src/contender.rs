//! `Contender`: the operations of a queue in the comparison. All times are in microseconds since
//! the start.

use fastrand::Rng;
use punctual::{Heap, Wheel};

use crate::clock::Pace;
use crate::exactness::{self, Verdict};
use crate::ours::Instants;
use crate::peers::{Delayed, Floor, IntrusiveWheel, LazyHeap, LinearScan, SortedSlots, Tree};
use crate::results::Sample;
use crate::workload::Workload;

/// Origin of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// One of Punctual's queues.
    Ours,
    /// A queue of another library or design.
    Peer,
    /// A peer without a queue, which scans all connections for the next deadline. It takes part
    /// only in the workloads `connections`, `drain`, `quic` and `quic-on`.
    Scan,
    /// Not a queue: it only accesses the memory that any queue needs, and so shows the cost of the
    /// benchmark itself.
    Floor,
}

/// A queue in the comparison. `default` returns an empty queue at time 0.
pub trait Contender: Default + 'static {
    /// Name of the queue in tables.
    const NAME: &'static str;
    /// Origin of the queue.
    const ROLE: Role = Role::Peer;
    /// Length of a tick in microseconds: 1 for exact queues. A timer is late by less than a tick.
    const TICK: u64 = 1;
    /// Maximum number of timers with which the queue is measured, because it is too slow with more.
    /// Tables note the numbers of timers that were not measured.
    const MAX_TIMERS: usize = usize::MAX;
    /// A handle to a timer, which the caller stores.
    type Handle: Copy;

    /// Arms a timer.
    fn arm(&mut self, deadline: u64, payload: u64) -> Self::Handle;
    /// Cancels a timer. Returns whether it was armed.
    fn cancel(&mut self, handle: Self::Handle) -> bool;
    /// Changes the deadline of an armed timer. Some peers cancel the timer and arm another.
    fn rearm(&mut self, handle: &mut Self::Handle, deadline: u64);
    /// Fires all timers due at `now`, in the queue's order: calls `out` with each payload.
    fn fire(&mut self, now: u64, out: &mut impl FnMut(u64));
    /// Returns the earliest deadline, rounded up to a tick.
    fn next_deadline(&mut self) -> Option<u64>;
    /// Returns a cheap lower bound of the earliest deadline, if the queue has one.
    fn next_wakeup(&mut self) -> Option<u64> {
        self.next_deadline()
    }
}

/// A function that runs one round of a workload. It returns `None` if the preparation took too
/// long.
type Round = fn(Workload, usize, &mut Rng, &Pace) -> Option<Vec<Sample>>;

/// A contender as a value, with functions that are instantiated for its type.
#[derive(Clone, Copy)]
pub struct Entry {
    pub name: &'static str,
    pub role: Role,
    pub tick: u64,
    pub max_timers: usize,
    pub round: Round,
    pub check: fn(u64, usize) -> Verdict,
}

impl Entry {
    /// Returns the entry for a contender's type.
    pub fn of<C: Contender>() -> Self {
        Entry {
            name: C::NAME,
            role: C::ROLE,
            tick: C::TICK,
            max_timers: C::MAX_TIMERS,
            round: |workload, size, random, pace| workload.round::<C>(size, random, pace),
            check: exactness::check::<C>,
        }
    }

    /// Returns all contenders: Punctual's queues, the peers, and the floor.
    pub fn all() -> Vec<Self> {
        vec![
            Self::of::<Wheel<u64>>(),
            Self::of::<Instants>(),
            Self::of::<Heap<u64, 4>>(),
            Self::of::<IntrusiveWheel>(),
            Self::of::<Delayed>(),
            Self::of::<LazyHeap>(),
            Self::of::<Tree>(),
            Self::of::<SortedSlots>(),
            Self::of::<LinearScan>(),
            Self::of::<Floor>(),
        ]
    }
}
