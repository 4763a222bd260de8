//! A network of machines in memory: one thread, one clock, one seed.
//!
//! A connection that a partition cuts loses its bytes. When the partition has healed, the next
//! bytes on it end the connection on both sides, as a reset does. Dials across a partition get no
//! answer. A restarted machine has the last synced `nodes.conf`.

use std::collections::{BTreeMap, BTreeSet};

use punctual_cluster::NodeId;
use punctual_cluster::config::{Config, Style};
use punctual_cluster::packet::{Body, Packet};
use punctual_cluster::slot::{SLOTS, SlotSet};
use punctual_cluster::state::{LinkId, Machine, Output, Replication, Settings};
use punctual_harness::Random;

pub const TIMEOUT_MS: u64 = 2_000;
const START_MS: u64 = 1_000_000_000;
/// Interval at which replicas get their primary's stream.
const STREAM_MS: u64 = 100;

type End = (usize, LinkId);

enum Event {
    Dialed(End, usize),
    Bytes(End, Vec<u8>),
    Closed(End),
    Stream,
}

pub struct Member {
    pub machine: Machine,
    pub id: NodeId,
    pub alive: bool,
    pub frozen_until_ms: u64,
    pub replication: Replication,
    pub promotions: usize,
    pub ticks: u64,
    deadline_ms: u64,
    file: String,
}

pub struct Net {
    pub now_ms: u64,
    pub members: Vec<Member>,
    pub random: Random,
    /// Group of each member. Members of different groups do not reach each other.
    pub groups: Vec<usize>,
    settings: Settings,
    peers: BTreeMap<End, End>,
    broken: BTreeSet<End>,
    busy_until: BTreeMap<End, u64>,
    events: BTreeMap<(u64, u64), Event>,
    count: u64,
    votes: BTreeMap<(NodeId, u64), NodeId>,
}

impl Net {
    /// Starts primaries that share all slots, each with this number of replicas, and waits until
    /// all serve.
    pub fn cluster(seed: u64, primaries: usize, replicas: usize) -> Self {
        let settings = Settings {
            node_timeout_ms: TIMEOUT_MS,
            ..Settings::default()
        };
        let mut random = Random::new(seed);
        let count = primaries * (1 + replicas);
        let mut net = Self {
            now_ms: START_MS,
            members: Vec::new(),
            groups: vec![0; count],
            settings,
            peers: BTreeMap::new(),
            broken: BTreeSet::new(),
            busy_until: BTreeMap::new(),
            events: BTreeMap::new(),
            count: 0,
            votes: BTreeMap::new(),
            random: Random::new(seed ^ 1),
        };
        for at in 0..count {
            let id = NodeId::random(|| random.bits());
            let mut config = Config::of_new_node(id, NodeId::random(|| random.bits()));
            let own = config.nodes.own_mut();
            own.address.host = format!("10.0.0.{at}");
            (own.address.port, own.address.bus_port) = (at as u16 + 1, at as u16 + 1);
            if at < primaries {
                let each = usize::from(SLOTS).div_ceil(primaries) as u16;
                let slots = (0..SLOTS).filter(|slot| usize::from(slot / each) == at);
                own.slots = SlotSet::from_iter(slots);
                own.config_epoch = at as u64 + 1;
                config.current_epoch = at as u64 + 1;
            }
            net.add(id, config);
        }
        net.at(START_MS, Event::Stream);
        for at in 1..count {
            let machine = &mut net.members[at].machine;
            machine.meet("10.0.0.0", 1, 1, START_MS).unwrap();
        }
        net.run(4_000);
        for at in primaries..count {
            let primary = net.members[at % primaries].id;
            net.members[at]
                .machine
                .replicate(primary, net.now_ms)
                .unwrap();
            net.carry_out(at);
        }
        net.run(2 * TIMEOUT_MS + 4_000);
        net.assert_converged();
        net
    }

    fn add(&mut self, id: NodeId, config: Config) {
        let file = config.text(Style::Named);
        let mut numbers = Random::new(self.random.bits());
        let random = Box::new(move || numbers.bits());
        self.members.push(Member {
            machine: Machine::new(self.settings, config, random, self.now_ms),
            id,
            alive: true,
            frozen_until_ms: 0,
            replication: Replication::default(),
            promotions: 0,
            ticks: 0,
            deadline_ms: self.now_ms,
            file,
        });
    }

    fn at(&mut self, time_ms: u64, event: Event) {
        self.count += 1;
        self.events.insert((time_ms, self.count), event);
    }

    fn index(&self, id: NodeId) -> usize {
        self.members
            .iter()
            .position(|member| member.id == id)
            .unwrap()
    }

    pub fn reaches(&self, a: usize, b: usize) -> bool {
        self.groups[a] == self.groups[b]
    }

    fn is_running(&self, at: usize) -> bool {
        self.members[at].alive && self.members[at].frozen_until_ms <= self.now_ms
    }

    /// Runs for a time.
    pub fn run(&mut self, time_ms: u64) {
        let end_ms = self.now_ms + time_ms;
        loop {
            let event_ms = self.events.keys().next().map_or(u64::MAX, |key| key.0);
            let ticks = self.members.iter().map(|member| {
                if member.alive {
                    member.deadline_ms.max(member.frozen_until_ms)
                } else {
                    u64::MAX
                }
            });
            let next_ms = ticks.min().unwrap().min(event_ms).max(self.now_ms);
            if next_ms > end_ms {
                break;
            }
            self.now_ms = next_ms;
            while let Some(entry) = self.events.first_entry()
                && entry.key().0 <= self.now_ms
            {
                let event = entry.remove();
                self.handle(event);
            }
            for at in 0..self.members.len() {
                if self.is_running(at) && self.members[at].deadline_ms <= self.now_ms {
                    self.members[at].ticks += 1;
                    self.members[at].machine.tick(self.now_ms);
                    self.carry_out(at);
                }
            }
            self.assert_one_owner();
        }
        self.now_ms = end_ms;
    }

    fn handle(&mut self, event: Event) {
        let target = match &event {
            Event::Bytes(end, _) | Event::Closed(end) => Some(end.0),
            Event::Dialed(_, to) => Some(*to),
            Event::Stream => None,
        };
        // A frozen process reads its sockets later.
        if let Some(at) = target
            && self.members[at].alive
            && !self.is_running(at)
        {
            let thaw_ms = self.members[at].frozen_until_ms;
            return self.at(thaw_ms, event);
        }
        match event {
            Event::Dialed(from, to) => self.dialed(from, to),
            Event::Bytes(end, bytes) => {
                if self.peers.contains_key(&end) {
                    let machine = &mut self.members[end.0].machine;
                    machine.received(end.1, &bytes, self.now_ms);
                    self.carry_out(end.0);
                }
            }
            Event::Closed(end) => {
                self.members[end.0].machine.closed(end.1, self.now_ms);
                self.carry_out(end.0);
            }
            Event::Stream => {
                self.stream();
                self.at(self.now_ms + STREAM_MS, Event::Stream);
            }
        }
    }

    fn dialed(&mut self, from: End, to: usize) {
        if !self.members[from.0].alive || !self.reaches(from.0, to) {
            return;
        }
        if !self.members[to].alive {
            return self.at(self.now_ms + 1, Event::Closed(from));
        }
        let peer = format!("10.0.0.{}", from.0);
        let link = self.members[to].machine.accepted(&peer, "", self.now_ms);
        self.peers.insert(from, (to, link));
        self.peers.insert((to, link), from);
        self.members[from.0].machine.connected(from.1, self.now_ms);
        self.carry_out(from.0);
    }

    /// Carries out the orders of a machine.
    pub fn carry_out(&mut self, at: usize) {
        while let Some(output) = self.members[at].machine.poll() {
            let delay_ms = 1 + self.random.below(5);
            match output {
                Output::Connect { link, port, .. } => {
                    let to = usize::from(port) - 1;
                    self.at(self.now_ms + delay_ms, Event::Dialed((at, link), to));
                }
                Output::Send { link, bytes } => self.send((at, link), bytes, delay_ms),
                Output::Close(link) => self.close((at, link), delay_ms),
                Output::Save { sync } if sync || self.random.below(2) == 0 => {
                    let text = self.members[at].machine.config().text(Style::Named);
                    self.members[at].file = text;
                }
                Output::Pause(_) => self.members[at].machine.paused(self.now_ms),
                Output::Promoted => self.members[at].promotions += 1,
                Output::Follow(_) => self.members[at].replication.has_data = false,
                _ => {}
            }
        }
        self.members[at].deadline_ms = self.members[at].machine.deadline();
    }

    fn send(&mut self, from: End, bytes: Vec<u8>, delay_ms: u64) {
        self.note_vote(from, &bytes);
        let Some(to) = self.peers.get(&from).copied() else {
            return;
        };
        if !self.reaches(from.0, to.0) {
            self.broken.extend([from, to]);
            return;
        }
        if self.broken.contains(&from) {
            self.close(from, delay_ms);
            return self.at(self.now_ms + delay_ms, Event::Closed(from));
        }
        // Bytes of one direction arrive in their order.
        let busy_ms = self.busy_until.get(&from).copied().unwrap_or(0);
        let arrival_ms = busy_ms.max(self.now_ms + delay_ms);
        self.busy_until.insert(from, arrival_ms);
        self.at(arrival_ms, Event::Bytes(to, bytes));
    }

    fn close(&mut self, end: End, delay_ms: u64) {
        if let Some(to) = self.peers.remove(&end) {
            self.peers.remove(&to);
            if self.reaches(end.0, to.0) {
                self.at(self.now_ms + delay_ms, Event::Closed(to));
            }
        }
    }

    /// Checks that a node votes at most once in an epoch.
    fn note_vote(&mut self, from: End, bytes: &[u8]) {
        let packet = Packet::decode(bytes).unwrap();
        if packet.body != Body::AuthAck {
            return;
        }
        let header = packet.header.unwrap();
        let Some(to) = self.peers.get(&from) else {
            return;
        };
        let candidate = self.members[to.0].id;
        let key = (header.sender, header.current_epoch);
        let first = *self.votes.entry(key).or_insert(candidate);
        assert_eq!(
            first, candidate,
            "two votes of {} in epoch {}",
            key.0, key.1
        );
    }

    /// Primaries write; replicas that reach their primary get its stream.
    fn stream(&mut self) {
        for at in 0..self.members.len() {
            let own = self.members[at].machine.nodes().own();
            let (is_primary, primary) = (own.is_primary(), own.primary);
            let mut state = self.members[at].replication;
            if is_primary {
                state.offset += self.random.below(100);
                (state.last_input_ms, state.has_data) = (self.now_ms, true);
            } else if let Some(from) = primary.map(|id| self.index(id))
                && self.reaches(at, from)
                && self.is_running(from)
                && self.members[from].machine.nodes().own().is_primary()
            {
                state.offset = self.members[from].replication.offset;
                (state.last_input_ms, state.has_data) = (self.now_ms, true);
            }
            self.members[at].replication = state;
            self.members[at].machine.set_replication(state);
            self.members[at].deadline_ms = self.members[at].machine.deadline();
        }
    }

    /// Kills a process.
    pub fn kill(&mut self, at: usize) {
        self.members[at].alive = false;
        let ends: Vec<End> = self
            .peers
            .keys()
            .filter(|end| end.0 == at)
            .copied()
            .collect();
        ends.into_iter().for_each(|end| self.close(end, 1));
    }

    /// Starts a killed process with its last synced file.
    pub fn restart(&mut self, at: usize) {
        let config: Config = self.members[at].file.parse().unwrap();
        let mut numbers = Random::new(self.random.bits());
        let random = Box::new(move || numbers.bits());
        let machine = Machine::new(self.settings, config, random, self.now_ms);
        let member = &mut self.members[at];
        member.deadline_ms = self.now_ms;
        member.machine = machine;
        member.alive = true;
        member.replication.has_data = true;
        self.events.retain(|_, event| match event {
            Event::Bytes(end, _) | Event::Closed(end) | Event::Dialed(end, _) => end.0 != at,
            Event::Stream => true,
        });
    }

    /// Ends all partitions and freezes, and starts all killed processes.
    pub fn heal(&mut self) {
        self.groups.fill(0);
        for at in 0..self.members.len() {
            self.members[at].frozen_until_ms = 0;
            if !self.members[at].alive {
                self.restart(at);
            }
        }
    }

    /// Checks that no two primaries own a slot in the same epoch.
    fn assert_one_owner(&self) {
        let owners = self
            .members
            .iter()
            .map(|member| member.machine.nodes().own());
        let owners: Vec<_> = owners.filter(|own| own.is_voter()).collect();
        for (at, a) in owners.iter().enumerate() {
            for b in &owners[at + 1..] {
                let same = a.config_epoch == b.config_epoch;
                assert!(
                    !same || a.slots.common(&b.slots).is_empty(),
                    "{} and {} own slots in epoch {}",
                    a.id,
                    b.id,
                    a.config_epoch
                );
            }
        }
    }

    /// Returns whether each slot is served, and no machine refuses commands.
    pub fn serves_all(&self) -> bool {
        let mut served = SlotSet::default();
        for member in self.members.iter().filter(|member| member.alive) {
            if member.machine.nodes().own().is_primary() && member.machine.is_ok() {
                served.add(&member.machine.nodes().own().slots);
            }
        }
        served.len() == usize::from(SLOTS)
    }

    /// Returns one machine's table as text, without times and links.
    pub fn view(&self, at: usize) -> String {
        let nodes = self.members[at].machine.nodes();
        let line = |node: &punctual_cluster::nodes::Node| {
            let flags = node.flags.0 & 0b0010_1111;
            let epoch = if node.is_primary() {
                node.config_epoch
            } else {
                0
            };
            let (id, primary, slots) = (node.id, node.primary, node.slots.ranges());
            format!("{id} {flags} {primary:?} {epoch} {slots:?}\n")
        };
        nodes.iter().map(line).collect()
    }

    /// Checks that all running machines have the same view, in which nothing has failed.
    pub fn assert_converged(&self) {
        assert!(
            self.serves_all(),
            "not all slots are served:\n{}",
            self.view(0)
        );
        let first = self.view(0);
        for at in 1..self.members.len() {
            assert_eq!(self.view(at), first, "views of 0 and {at}");
        }
        assert_eq!(first.lines().count(), self.members.len());
        assert!(
            self.members[0]
                .machine
                .nodes()
                .iter()
                .all(|node| node.flags.0 & 0b1100 == 0)
        );
    }
}
