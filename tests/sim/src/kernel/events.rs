//! What will happen, in the order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::descriptors::ObjectId;
use super::network::LinkEvent;
use super::threads::Tid;
use super::{Kernel, Nanos, NodeId};

/// Something that happens at an instant.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// The wait of a thread may be over.
    Timeout(Tid),
    /// A timer fires, if it was not set again.
    Timer { object: ObjectId, setting: u64 },
    /// Something reaches the end of a connection.
    Link(LinkEvent),
    /// The threads of a frozen node go on.
    Thaw(NodeId),
}

/// Place of an event: its time, and a number that orders events of one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Due(pub Nanos, u64);

/// Events by their time; equal times in the order in which they were added.
#[derive(Debug, Default)]
pub struct Events {
    heap: BinaryHeap<Reverse<(Due, Event)>>,
    added: u64,
}

impl Events {
    /// Adds an event. O(log n).
    pub fn add(&mut self, at: Nanos, event: Event) {
        let due = self.reserve(at);
        self.file(due, event);
    }

    /// Returns the place of an event that is perhaps filed later.
    pub fn reserve(&mut self, at: Nanos) -> Due {
        self.added += 1;
        Due(at, self.added)
    }

    /// Adds an event at its place. O(log n).
    pub fn file(&mut self, due: Due, event: Event) {
        self.heap.push(Reverse((due, event)));
    }

    /// Returns the time of the next event.
    pub fn next_at(&self) -> Option<Nanos> {
        self.heap.peek().map(|next| next.0.0.0)
    }

    /// Removes the next event if it is due. O(log n).
    pub fn take_due(&mut self, now: Nanos) -> Option<(Due, Event)> {
        if self.next_at()? > now {
            return None;
        }
        self.heap.pop().map(|next| next.0)
    }
}

impl Kernel {
    /// Carries out an event.
    pub fn handle(&mut self, due: Due, event: Event) {
        match event {
            Event::Timeout(tid) => self.time_out(tid, due),
            Event::Timer { object, setting } => self.fire_timer(object, setting),
            Event::Link(event) => self.arrive(event),
            Event::Thaw(node) => self.thaw(node),
        }
    }
}
