//! The operations that the comparison needs of a queue. All times are microseconds since the start.

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

/// A queue in the comparison.
pub trait Contender: Sized + 'static {
    /// Name of the queue in tables and plots.
    const NAME: &'static str;
    /// Length of a tick in microseconds, and so the greatest lateness. 1 for exact queues.
    const TICK: u64 = 1;
    /// Whether the queue returns the exact next deadline and not only a lower bound.
    const EXACT_NEXT: bool = true;
    /// Origin of the queue.
    const ROLE: Role = Role::Peer;
    /// Greatest number of timers with a bearable cost; tables name this limit.
    const MAX_TIMERS: usize = usize::MAX;
    /// Whether the handle of a fired or cancelled timer is refused forever.
    const REFUSES_STALE: bool = false;
    /// A handle to a timer: the caller's data per timer.
    type Handle: Copy;

    /// Returns an empty queue at time 0.
    fn new() -> Self;
    /// Arms a timer with a u64 payload.
    fn arm(&mut self, deadline: u64, payload: u64) -> Self::Handle;
    /// Cancels a timer. Returns whether it was armed (stale handles: the peer's answer).
    fn cancel(&mut self, handle: Self::Handle) -> bool;
    /// Re-arms a timer to an earlier or later deadline; some peers cancel and arm. The payload stays.
    fn rearm(&mut self, handle: &mut Self::Handle, deadline: u64);
    /// Fires all timers due at `now`, in the queue's order, with their payloads. Returns their number.
    fn fire(&mut self, now: u64, out: &mut impl FnMut(u64)) -> usize;
    /// Returns the next deadline (a lower bound without `EXACT_NEXT`), or None if empty.
    fn next_deadline(&mut self) -> Option<u64>;
    /// Returns a cheap lower bound of the next deadline, if the queue has a separate one.
    fn next_wakeup(&mut self) -> Option<u64> {
        self.next_deadline()
    }
    /// Removes the earliest timer, due or not, like the pop of a priority queue. Returns the number of
    /// removed timers: by default the clock advances to the next deadline and all due timers fire;
    /// queues that can pop a single timer override this.
    fn pop_earliest(&mut self, out: &mut impl FnMut(u64)) -> usize {
        while let Some(at) = self.next_deadline() {
            // A lower bound, or a coarse tick, may need more than one step.
            let mut fired = self.fire(at, out);
            if fired == 0 {
                fired = self.fire(at + Self::TICK, out);
            }
            if fired > 0 {
                return fired;
            }
        }
        0
    }
    /// Returns the number of bytes that no Rust allocator counts.
    fn extra_memory(&self) -> usize {
        0
    }
}

/// A visitor of every contender in a list.
pub trait Visitor {
    /// Visits the contender `C`.
    fn visit<C: Contender>(&mut self);
}
