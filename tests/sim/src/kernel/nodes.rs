//! Nodes: their clocks, freezes and kills.

use super::descriptors::Object;
use super::events::Event;
use super::threads::{State, Tid};
use super::{Kernel, Nanos, NodeId, SECOND};
use crate::limits::Evicts;
use crate::usage::Owner;

/// Unix time at which a run starts: 1 January 2030.
const START: Nanos = 1_893_456_000 * SECOND;
/// Reading of the stopwatch at the start of a run.
const UPTIME: Nanos = 10_000 * SECOND;

/// The clocks and the state of a simulated machine.
#[derive(Debug)]
pub struct Node {
    /// Changes of the wall clock against true time: time of the change, and the difference since.
    jumps: Vec<(Nanos, i64)>,
    /// Error of the clocks, in millionths.
    drift_ppm: i64,
    /// Threads that can run once the node is no longer frozen. `None` unless it is frozen.
    pub frozen: Option<Vec<Tid>>,
    /// End of the last freeze.
    pub thaws_at: Nanos,
    /// Without power the node answers nothing.
    pub has_power: bool,
    /// The node's life since its last start, which owns its memory.
    pub life: Owner,
    /// What the node may evict.
    pub evicts: Evicts,
    /// Time until which the disk is full: no file can grow.
    pub full_until: Nanos,
    /// Whether a write or a sync has failed since the last start.
    pub has_failed: bool,
}

impl Node {
    pub fn new(drift_ppm: i64) -> Self {
        Self {
            jumps: vec![(0, 0)],
            drift_ppm,
            frozen: None,
            thaws_at: 0,
            has_power: true,
            life: 0,
            evicts: Evicts::Unlimited,
            full_until: 0,
            has_failed: false,
        }
    }

    fn offset(&self) -> i64 {
        self.jumps.last().map_or(0, |jump| jump.1)
    }

    /// Returns the time since the start of the run as the node's clocks measure it.
    fn measured(&self, now: Nanos) -> Nanos {
        // In two parts, so that no product needs 128 bits.
        let (millions, rest) = ((now / 1_000_000) as i64, (now % 1_000_000) as i64);
        let drift = millions * self.drift_ppm + rest * self.drift_ppm / 1_000_000;
        now.saturating_add_signed(drift)
    }

    /// Returns the first true time at which the node's clocks have measured a time.
    fn true_at(&self, measured: Nanos) -> Nanos {
        let rate = 1_000_000_u64.saturating_add_signed(self.drift_ppm);
        let mut now = measured / rate * 1_000_000 + measured % rate * 1_000_000 / rate;
        while self.measured(now) < measured {
            now += 1;
        }
        now
    }

    /// Returns the Unix time of the node's wall clock.
    pub fn wall(&self, now: Nanos) -> Nanos {
        (START + self.measured(now)).saturating_add_signed(self.offset())
    }

    /// Returns the reading of the node's stopwatch.
    pub fn stopwatch(&self, now: Nanos) -> Nanos {
        UPTIME + self.measured(now)
    }

    /// Returns the true time at which the wall clock shows `wall`, unless it jumps.
    pub fn true_time(&self, wall: Nanos) -> Nanos {
        let measured = wall.saturating_add_signed(-self.offset());
        self.true_at(measured.saturating_sub(START))
    }

    /// Returns the lowest and the highest reading of the wall clock between two true times.
    pub fn wall_range(&self, from: Nanos, to: Nanos) -> (Nanos, Nanos) {
        let at =
            |now: Nanos, offset: i64| (START + self.measured(now)).saturating_add_signed(offset);
        let before = self.jumps.iter().rev().find(|jump| jump.0 <= from);
        let first = before.map_or(0, |jump| jump.1);
        let (mut low, mut high) = (at(from, first), at(from, first));
        let mut offset = first;
        for (when, next) in self
            .jumps
            .iter()
            .filter(|jump| jump.0 > from && jump.0 <= to)
        {
            high = high.max(at(*when, offset));
            low = low.min(at(*when, *next));
            high = high.max(at(*when, *next));
            offset = *next;
        }
        (low, high.max(at(to, offset)))
    }
}

impl Kernel {
    /// Moves the wall clock of a node.
    pub fn jump_clock(&mut self, node: NodeId, by: i64) {
        self.trace.note("jump", [node as u64, self.now, by as u64]);
        let offset = self.nodes[node].offset() + by;
        self.nodes[node].jumps.push((self.now, offset));
        self.reset_wall_timers(node);
    }

    /// Moves all wall clocks forward to the latest time that one of them has shown.
    pub fn catch_up(&mut self) {
        let jumps = self.nodes.iter().flat_map(|node| &node.jumps);
        let highest = jumps.map(|jump| jump.1).max().unwrap_or(0);
        for node in 1..self.nodes.len() {
            let by = highest - self.nodes[node].offset();
            self.jump_clock(node, by);
        }
    }

    /// Moves all wall clocks forward by a multiple of the greatest difference between two readings.
    pub fn skip(&mut self, times: u64) {
        let jumps = || self.nodes.iter().flat_map(|node| &node.jumps);
        let offsets = || jumps().map(|jump| jump.1);
        let most = offsets().max().unwrap_or(0) - offsets().min().unwrap_or(0);
        for node in 1..self.nodes.len() {
            self.jump_clock(node, most * times as i64);
        }
    }

    /// Stops all threads of a node for a time, as SIGSTOP does.
    pub fn freeze(&mut self, node: NodeId, time: Nanos) {
        if self.nodes[node].frozen.is_some() {
            return;
        }
        self.trace.note("freeze", [node as u64, self.now, time]);
        let threads = &self.threads;
        let stopped = self
            .runnable
            .extract_if(.., |tid| threads[*tid].node == node);
        let stopped = stopped.collect();
        let thaws_at = self.now + time;
        self.nodes[node].frozen = Some(stopped);
        self.nodes[node].thaws_at = thaws_at;
        self.events.add(thaws_at, Event::Thaw(node));
    }

    /// Lets the threads of a frozen node go on.
    pub fn thaw(&mut self, node: NodeId) {
        let stopped = self.nodes[node].frozen.take().unwrap_or_default();
        self.runnable.extend(stopped);
    }

    /// Ends all threads of a node at once, wherever they are, and closes its sockets and files. The
    /// threads themselves stay blocked until the process ends. With `power` the node has no power
    /// from now on, and its disk loses what is not durable.
    pub fn kill(&mut self, node: NodeId, power: bool) {
        self.trace
            .note("kill", [node as u64, self.now, u64::from(power)]);
        self.nodes[node].has_power = !power;
        match power {
            true => self.cut_power(node),
            false => self.disks.forgive(node),
        }
        self.nodes[node].frozen = None;
        self.ended_servers.retain(|ended| *ended != node);
        for thread in self.threads.iter_mut().filter(|thread| thread.node == node) {
            if thread.state != State::Ended {
                thread.state = State::Killed;
            }
        }
        let threads = &self.threads;
        self.runnable
            .retain(|tid| threads[*tid].state != State::Killed);
        for waiting in self.futexes.values_mut() {
            waiting.retain(|tid| threads[*tid].state != State::Killed);
        }
        for object in self.descriptors.of_node(node) {
            match self.descriptors.remove(object) {
                Some(Object::Stream(end)) => self.close_end(end),
                Some(Object::Listener(listener)) => self.close_listener(listener),
                _ => {}
            }
        }
    }
}

impl Kernel {
    /// Gives a node its power back. Its peers then learn that their connections are gone.
    pub fn give_power(&mut self, node: NodeId) {
        if !std::mem::replace(&mut self.nodes[node].has_power, true) {
            for other in 0..self.nodes.len() {
                self.deliver_held(other, node);
                self.deliver_held(node, other);
            }
        }
    }
}
