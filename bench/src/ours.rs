//! Punctual's own queues. One tick is one microsecond.

use std::marker::PhantomData;

use punctual::{DeadlineQueue, Heap, TimerKey, Wheel};

use crate::contender::{Contender, Role, Visitor};

/// Type of a queue and its name in tables.
pub trait Ours: 'static {
    /// The queue.
    type Queue: DeadlineQueue<u64> + 'static;
    /// Name of the queue in tables and plots.
    const NAME: &'static str;
    /// Returns an empty queue.
    fn empty() -> Self::Queue;
}

/// One of Punctual's queues as a contender.
pub struct Queue<O: Ours> {
    queue: O::Queue,
    which: PhantomData<O>,
}

impl<O: Ours> Contender for Queue<O> {
    const NAME: &'static str = O::NAME;
    const ROLE: Role = Role::Ours;
    const REFUSES_STALE: bool = true;
    type Handle = TimerKey;

    fn new() -> Self {
        Queue {
            queue: O::empty(),
            which: PhantomData,
        }
    }

    fn arm(&mut self, deadline: u64, payload: u64) -> TimerKey {
        self.queue.insert(deadline, payload)
    }

    fn cancel(&mut self, handle: TimerKey) -> bool {
        self.queue.remove(handle).is_some()
    }

    fn rearm(&mut self, handle: &mut TimerKey, deadline: u64) {
        self.queue.reset(*handle, deadline);
    }

    fn fire(&mut self, now: u64, out: &mut impl FnMut(u64)) -> usize {
        let mut fired = 0;
        while let Some(expired) = self.queue.pop_due(now) {
            out(expired.value);
            fired += 1;
        }
        fired
    }

    fn next_deadline(&mut self) -> Option<u64> {
        self.queue.next_deadline()
    }

    fn next_wakeup(&mut self) -> Option<u64> {
        self.queue.next_wakeup()
    }

    fn pop_earliest(&mut self, out: &mut impl FnMut(u64)) -> usize {
        // Advances the clock to the next deadline only, not to the end of time.
        let next = self.queue.next_deadline();
        match next.and_then(|at| self.queue.pop_due(at)) {
            Some(expired) => {
                out(expired.value);
                1
            }
            None => 0,
        }
    }
}

macro_rules! ours {
    ($($(#[$about:meta])* $tag:ident = $queue:ty, $name:literal;)*) => {
        $(
            $(#[$about])*
            pub enum $tag {}

            impl Ours for $tag {
                type Queue = $queue;
                const NAME: &'static str = $name;
                fn empty() -> Self::Queue {
                    <$queue>::default()
                }
            }
        )*

        /// Passes each of Punctual's queues to the visitor.
        pub fn for_each(visitor: &mut impl Visitor) {
            $(visitor.visit::<Queue<$tag>>();)*
        }
    };
}

ours! {
    /// The hierarchical timing wheel.
    TheWheel = Wheel<u64>, "Wheel";
    /// A heap with four children per entry.
    FourHeap = Heap<u64, 4>, "Heap<4>";
    /// A heap with eight children per entry.
    EightHeap = Heap<u64, 8>, "Heap<8>";
}
