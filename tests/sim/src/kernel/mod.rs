//! The simulated system: threads, clocks, descriptors, links and disks of all nodes.
//!
//! Ground rules: only the thread that has the baton uses the [`Kernel`] ([`crate::baton`]), so it
//! has no locks. Every choice comes from [`Kernel::draws`]. Nothing here blocks, reads a real clock
//! or depends on an address: collections that are iterated are ordered by numbers of their own.

pub mod descriptors;
pub mod disk;
pub mod draws;
pub mod events;
pub mod network;
pub mod nodes;
pub mod poll;
pub mod streams;
pub mod tap;
pub mod threads;
pub mod timers;
pub mod trace;

use std::collections::{BTreeMap, VecDeque};

use descriptors::Descriptors;
use disk::Disks;
use draws::Draws;
use events::Events;
use network::Network;
use nodes::Node;
use threads::{Thread, Tid};
use trace::Trace;

use crate::context::Context;

/// Number of a node. The driver, with its clients, is node 0.
pub type NodeId = usize;

/// The node of the driver.
pub const DRIVER: NodeId = 0;

/// Nanoseconds of the simulation.
pub type Nanos = u64;
pub const MICRO: Nanos = 1_000;
pub const MILLI: Nanos = 1_000_000;
pub const SECOND: Nanos = 1_000_000_000;

/// Simulated time of one call.
const CALL_TIME: Nanos = 300;
/// Simulated time of one reading of a clock.
const READING_TIME: Nanos = 60;

/// How a seed mistreats the servers. Rates are per million.
#[derive(Clone, Debug, Default)]
pub struct Weather {
    /// Rate of handovers at calls that do not wait.
    pub preempts: u64,
    /// Rate of writes to sockets that take only a part of the bytes.
    pub short_writes: u64,
    /// Usual latency of links, and the largest addition to it.
    pub latency: Nanos,
    pub jitter: Nanos,
    /// Usual time of a sync, and the largest addition to it.
    pub sync_time: Nanos,
    pub sync_jitter: Nanos,
    /// Rates of failed writes and syncs.
    pub failed_writes: u64,
    pub failed_syncs: u64,
    /// Largest error of a node's clocks, in millionths.
    pub drift_ppm: u64,
    pub lie: Option<Lie>,
}

impl Weather {
    /// Returns whether writes or syncs fail.
    pub fn fails_files(&self) -> bool {
        self.failed_writes + self.failed_syncs > 0
    }
}

/// A lie of the simulated system, which the checks must find: a test of the checks themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// Syncs make nothing durable.
    Sync,
    /// Wall clocks go 2 % too slowly.
    SlowClock,
    /// Wall clocks go 2 % too fast.
    FastClock,
    /// Some bytes of a write to a file are changed.
    File,
    /// Some bytes of a connection are lost.
    Stream,
}

impl Lie {
    pub const ALL: [Self; 5] = [
        Self::Sync,
        Self::SlowClock,
        Self::FastClock,
        Self::File,
        Self::Stream,
    ];
}

/// Error of a wrong clock, in thousandths.
const LIE_RATE: i64 = 20;

/// State of the simulated system.
pub struct Kernel {
    pub draws: Draws,
    /// True time since the start of the run.
    pub now: Nanos,
    pub weather: Weather,
    pub trace: Trace,
    pub nodes: Vec<Node>,
    pub threads: Vec<Thread>,
    /// Threads that can run, without the threads of frozen nodes.
    pub runnable: Vec<Tid>,
    pub events: Events,
    /// Threads that wait at an address, oldest first.
    pub futexes: BTreeMap<usize, VecDeque<Tid>>,
    pub descriptors: Descriptors,
    pub network: Network,
    pub disks: Disks,
    /// Nodes whose server could not start, or has ended by itself.
    pub ended_servers: Vec<NodeId>,
    /// The context of a thread that has just handed the baton over for the last time.
    pub ended: Option<&'static Context>,
    /// Number of calls and handovers.
    pub calls: u64,
    pub handovers: u64,
}

impl Kernel {
    /// Creates a system with these nodes besides the driver's.
    pub fn new(seed: u64, nodes: usize, weather: Weather) -> Self {
        let mut draws = Draws::new(seed);
        let drift = weather.drift_ppm;
        let mut rate = || draws.between(0, 2 * drift) as i64 - drift as i64;
        let nodes = (0..=nodes).map(|_| Node::new(rate())).collect();
        Self {
            draws,
            now: 0,
            weather,
            trace: Trace::default(),
            nodes,
            threads: Vec::new(),
            runnable: Vec::new(),
            events: Events::default(),
            futexes: BTreeMap::new(),
            descriptors: Descriptors::default(),
            network: Network::default(),
            disks: Disks::default(),
            ended_servers: Vec::new(),
            ended: None,
            calls: 0,
            handovers: 0,
        }
    }

    /// Ends all faults. Slow disks become fast, so that workers finish the works of a fast time.
    pub fn calm_down(&mut self) {
        self.trace.note("calm", [self.now, 0, 0]);
        self.weather.failed_writes = 0;
        self.weather.failed_syncs = 0;
        self.weather.sync_time = self.weather.sync_time.min(MILLI);
        self.weather.sync_jitter = self.weather.sync_jitter.min(MILLI);
        self.nodes.iter_mut().for_each(|node| node.full_until = 0);
        let down = std::mem::take(&mut self.network.down);
        for (from, to) in down {
            self.deliver_held(from, to);
        }
    }

    /// Counts a call, which takes time.
    pub fn count_call(&mut self) {
        self.calls += 1;
        self.now += CALL_TIME;
    }

    /// Reads a clock of a node: its wall clock in Unix time, or its stopwatch.
    pub fn read_clock(&mut self, node: NodeId, wall: bool) -> Nanos {
        self.now += READING_TIME;
        let rate = match (node, self.weather.lie) {
            (1.., Some(Lie::SlowClock)) => -LIE_RATE,
            (1.., Some(Lie::FastClock)) => LIE_RATE,
            _ => 0,
        };
        let node = &self.nodes[node];
        match wall {
            true => node.wall(
                self.now
                    .saturating_add_signed(self.now as i64 / 1_000 * rate),
            ),
            false => node.stopwatch(self.now),
        }
    }

    /// Chooses the thread that runs next. If no thread can run, time jumps to the next event.
    /// Returns `None` if nothing will ever happen again.
    pub fn schedule(&mut self) -> Option<Tid> {
        loop {
            while let Some((due, event)) = self.events.take_due(self.now) {
                self.handle(due, event);
            }
            if !self.runnable.is_empty() {
                let at = self.draws.index(self.runnable.len());
                let tid = self.runnable.swap_remove(at);
                self.handovers += 1;
                self.trace.note("run", [tid as u64, self.now, self.calls]);
                return Some(tid);
            }
            self.now = self.now.max(self.events.next_at()?);
        }
    }
}
