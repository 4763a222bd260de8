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
    /// The wait of a thread ends, if it is still this wait.
    Timeout { tid: Tid, wait: u64 },
    /// A timer fires, if it was not set again.
    Timer { object: ObjectId, setting: u64 },
    /// Something reaches the end of a connection.
    Link(LinkEvent),
    /// The threads of a frozen node go on.
    Thaw(NodeId),
}

/// Events by their time; equal times in the order in which they were added.
#[derive(Debug, Default)]
pub struct Events {
    heap: BinaryHeap<Reverse<(Nanos, u64, Event)>>,
    added: u64,
}

impl Events {
    /// Adds an event. O(log n).
    pub fn add(&mut self, at: Nanos, event: Event) {
        self.added += 1;
        self.heap.push(Reverse((at, self.added, event)));
    }

    /// Returns the time of the next event.
    pub fn next_at(&self) -> Option<Nanos> {
        self.heap.peek().map(|next| next.0.0)
    }

    /// Removes the next event if it is due. O(log n).
    pub fn take_due(&mut self, now: Nanos) -> Option<Event> {
        if self.next_at()? > now {
            return None;
        }
        self.heap.pop().map(|next| next.0.2)
    }
}

impl Kernel {
    /// Carries out an event.
    pub fn handle(&mut self, event: Event) {
        match event {
            Event::Timeout { tid, wait } => self.time_out(tid, wait),
            Event::Timer { object, setting } => self.fire_timer(object, setting),
            Event::Link(event) => self.arrive(event),
            Event::Thaw(node) => self.thaw(node),
        }
    }
}
