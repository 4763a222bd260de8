//! What every queue in the comparison is asked to do. All times are microseconds since the start.

/// Whose queue it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// One of Punctual's.
    Ours,
    /// Somebody else's.
    Peer,
    /// No queue at all: it touches what any queue has to touch, and so shows what the harness costs.
    Floor,
}

/// A queue in the comparison.
pub trait Contender: Sized + 'static {
    /// Name in tables and plots.
    const NAME: &'static str;
    /// Ticks it works in, in microseconds: how late it may fire. 1 for exact queues.
    const TICK: u64 = 1;
    /// Whether it can tell the next deadline exactly (not only a lower bound).
    const EXACT_NEXT: bool = true;
    /// Whose it is.
    const ROLE: Role = Role::Peer;
    /// The most timers worth trying: beyond, its cost grows out of bounds, and the tables say so.
    const MAX_TIMERS: usize = usize::MAX;
    /// Whether a handle whose timer fired or was cancelled is refused for good.
    const REFUSES_STALE: bool = false;
    /// A handle to a timer. What the caller has to keep per timer.
    type Handle: Copy;

    /// An empty queue at time 0.
    fn new() -> Self;
    /// Arms a timer with a u64 payload.
    fn arm(&mut self, deadline: u64, payload: u64) -> Self::Handle;
    /// Cancels; whether it was still armed (stale handles: whatever the peer does).
    fn cancel(&mut self, handle: Self::Handle) -> bool;
    /// Arms anew, earlier or later; peers without it cancel and arm. The payload stays.
    fn rearm(&mut self, handle: &mut Self::Handle, deadline: u64);
    /// Takes out all timers due at `now`, in its own order, giving (payload); returns how many.
    fn fire(&mut self, now: u64, out: &mut impl FnMut(u64)) -> usize;
    /// The next deadline (or its best lower bound if !EXACT_NEXT); None when empty.
    fn next_deadline(&mut self) -> Option<u64>;
    /// A cheap lower bound for sleeping, if it has a separate one.
    fn next_wakeup(&mut self) -> Option<u64> {
        self.next_deadline()
    }
    /// Takes out the earliest timer whenever it is due, as a priority queue pops; returns how many
    /// were taken. By default the clock jumps to the next deadline and all due then come out;
    /// queues that can take out a single one say how.
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
    /// Bytes it holds that no Rust allocator sees.
    fn extra_memory(&self) -> usize {
        0
    }
}

/// Is shown every contender of a list.
pub trait Visitor {
    /// Looks at this one.
    fn visit<C: Contender>(&mut self);
}
