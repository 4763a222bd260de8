//! The operations that the comparison needs of a queue. All times are microseconds since the start.

use fastrand::Rng;
use punctual::{Heap, Wheel};

use crate::clock::Pace;
use crate::exactness::{self, Verdict};
use crate::peers::{Delayed, Floor, LazyHeap, SortedSlots, Tree};
use crate::results::Sample;
use crate::workload::Workload;

/// Origin of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// One of Punctual's queues.
    Ours,
    /// A queue of another library.
    Peer,
    /// No queue: it accesses the memory that any queue needs, and so shows the cost of the harness.
    Floor,
}

/// A queue in the comparison. `default` returns an empty queue at time 0.
pub trait Contender: Default + 'static {
    /// Name of the queue in tables.
    const NAME: &'static str;
    /// Origin of the queue.
    const ROLE: Role = Role::Peer;
    /// Length of a tick in microseconds, and so the greatest lateness. 1 for exact queues.
    const TICK: u64 = 1;
    /// Maximum number of timers with a bearable cost; tables name this limit.
    const MAX_TIMERS: usize = usize::MAX;
    /// A handle to a timer: the caller's data per timer.
    type Handle: Copy;

    /// Arms a timer.
    fn arm(&mut self, deadline: u64, payload: u64) -> Self::Handle;
    /// Cancels a timer. Returns whether it was armed.
    fn cancel(&mut self, handle: Self::Handle) -> bool;
    /// Changes the deadline of an armed timer; some peers cancel and arm.
    fn rearm(&mut self, handle: &mut Self::Handle, deadline: u64);
    /// Fires all timers due at `now`, in the queue's order.
    fn fire(&mut self, now: u64, out: &mut impl FnMut(u64));
    /// Returns the earliest deadline, rounded up to a tick.
    fn next_deadline(&mut self) -> Option<u64>;
    /// Returns a cheap lower bound of the earliest deadline, if the queue has one.
    fn next_wakeup(&mut self) -> Option<u64> {
        self.next_deadline()
    }
}

/// Runs one round of a workload; `None` if its preparation took too long.
type Round = fn(Workload, usize, &mut Rng, &Pace) -> Option<Vec<Sample>>;

/// A contender, with its functions instantiated for its type.
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
    /// Returns the entry of a contender.
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
            Self::of::<Heap<u64, 4>>(),
            Self::of::<Delayed>(),
            Self::of::<LazyHeap>(),
            Self::of::<Tree>(),
            Self::of::<SortedSlots>(),
            Self::of::<Floor>(),
        ]
    }
}
