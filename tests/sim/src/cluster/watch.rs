//! What the bus shows: a copy of each packet of the simulated network, and the rules that hold at
//! every step.
//!
//! - In one configuration epoch, a slot has one owner. There may be two for a while only if one of
//!   them has its epoch without votes, as in Redis: by SETSLOT NODE, by CLUSTER FAILOVER TAKEOVER,
//!   or because another node had the same epoch.
//! - A node votes for one candidate in an epoch, also after a restart.
//! - A node's file has the votes and epochs that the node has revealed.
//!
//! The owner of a slot with the largest epoch that any packet has claimed is the *rightful* owner:
//! what it acknowledges must stay.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use punctual_cluster::NodeId as Name;
use punctual_cluster::packet::{Body, Header, Packet, frame};
use punctual_cluster::slot::{SLOTS, SlotSet};
use punctual_rdb::crc64;

use crate::kernel::NodeId;
use crate::kernel::streams::EndId;
use crate::{verdict, world};

/// Slots with a new rightful owner.
#[derive(Clone, Debug)]
pub struct Taken {
    pub slots: SlotSet,
    pub from: NodeId,
    pub by: NodeId,
    /// The new owner was a replica of the old one, with its data.
    pub elected: bool,
    /// The new owner was another replica.
    pub stolen: bool,
    /// Both owners claim the slots in the same epoch.
    pub shared: bool,
}

/// State that a node has revealed on the bus.
#[derive(Clone, Debug, Default)]
struct Shown {
    name: Option<Name>,
    primary: Option<Name>,
    config_epoch: u64,
    slots: SlotSet,
    /// Largest epoch of a vote.
    voted: u64,
}

/// The observer of the bus.
pub struct Watch {
    inputs: BTreeMap<EndId, Vec<u8>>,
    nodes: Vec<Shown>,
    votes: BTreeMap<(Name, u64), NodeId>,
    /// The rightful owner of each slot, and the epoch of its claim.
    owners: Vec<Option<(NodeId, u64)>>,
    /// Number of slots of each node as the rightful owner.
    owned: Vec<usize>,
    taken: Vec<Taken>,
    /// Replicas that were told to take over. They may do so without any vote, and also when nobody
    /// sees their packets.
    told: BTreeSet<NodeId>,
    /// Nodes that may have an epoch without votes.
    unvoted: BTreeSet<NodeId>,
    /// The primary whose data a node has, as far as WAIT has shown it.
    synced: RefCell<BTreeMap<NodeId, NodeId>>,
    /// Nodes that took over. They may lack their primary's last changes, also those by which the
    /// keys of a slot left it.
    foreign: BTreeSet<NodeId>,
    /// Nodes that may have a new ID, after CLUSTER RESET HARD.
    renamed: BTreeSet<NodeId>,
    /// Owners that moves have named.
    pub named: BTreeMap<u16, NodeId>,
    pub packets: u64,
    pub elections: u64,
    pub takeovers: u64,
}

impl Watch {
    pub fn new(nodes: usize) -> Self {
        Self {
            inputs: BTreeMap::new(),
            nodes: vec![Shown::default(); nodes + 1],
            votes: BTreeMap::new(),
            owners: vec![None; usize::from(SLOTS)],
            owned: vec![0; nodes + 1],
            taken: Vec::new(),
            told: BTreeSet::new(),
            unvoted: BTreeSet::new(),
            synced: RefCell::default(),
            foreign: BTreeSet::new(),
            renamed: BTreeSet::new(),
            named: BTreeMap::new(),
            packets: 0,
            elections: 0,
            takeovers: 0,
        }
    }

    /// Reads the packets since the last call. Returns the slots with new owners.
    pub fn look(&mut self) -> Vec<Taken> {
        for (end, bytes) in world::with(|kernel| std::mem::take(&mut kernel.network.tap.taken)) {
            let mut input = self.inputs.remove(&end).unwrap_or_default();
            input.extend_from_slice(&bytes);
            let mut used = 0;
            while let Ok(Some(length)) = frame(&input[used..])
                && input.len() - used >= length
            {
                match Packet::decode(&input[used..used + length]) {
                    Ok(packet) => self.packet(end, packet),
                    Err(error) => verdict::stop(&format!("a packet cannot be read: {error}")),
                }
                used += length;
            }
            input.drain(..used);
            if !input.is_empty() {
                self.inputs.insert(end, input);
            }
        }
        std::mem::take(&mut self.taken)
    }

    fn packet(&mut self, end: EndId, packet: Packet) {
        self.packets += 1;
        let Some(header) = packet.header else {
            return;
        };
        let node_of = |end: EndId| world::with(|kernel| kernel.end_ref(end).address.node);
        let (sender, receiver) = (node_of(end), node_of(end.peer()));
        if packet.body == Body::AuthAck {
            self.note_vote(sender, receiver, &header);
        }
        self.note_name(sender, header.sender);
        let shown = &mut self.nodes[sender];
        let was = shown.primary;
        shown.primary = header.primary;
        if header.primary.is_some() {
            self.foreign.remove(&sender);
            return;
        }
        let epoch = header.config_epoch;
        if shown.config_epoch == epoch && shown.slots == header.slots {
            return;
        }
        let news = header.slots.clone();
        let mut given_up = std::mem::replace(&mut shown.slots, header.slots);
        given_up.subtract(&news);
        let is_new = std::mem::replace(&mut shown.config_epoch, epoch) != epoch;
        let has_data = self.note_epoch(sender, epoch, is_new, was);
        self.give_up(sender, &given_up);
        self.claim(sender, epoch, &news, (was, has_data));
    }

    /// Checks that a node keeps its ID, unless it was reset. A new ID has no votes and no epochs.
    fn note_name(&mut self, node: NodeId, name: Name) {
        let shown = &mut self.nodes[node];
        if shown.name == Some(name) {
            return;
        }
        if let Some(old) = shown.name
            && !self.renamed.contains(&node)
        {
            verdict::stop(&format!("node {node} had the ID {old}, and now has {name}"));
        }
        *shown = Shown {
            name: Some(name),
            ..Shown::default()
        };
    }

    /// The operator resets a node: it forgets all others, and its data if it is a replica. Its
    /// epoch may be another node's. After a hard reset it has a new ID.
    pub fn resets(&mut self, node: NodeId, hard: bool) {
        self.needs_no_votes(node);
        self.killed(node);
        if hard {
            self.renamed.insert(node);
        }
    }

    /// A node has this ID from now on.
    pub fn named(&mut self, node: NodeId, name: &str) {
        if let Ok(name) = name.parse() {
            self.note_name(node, name);
            self.renamed.remove(&node);
        }
    }

    /// Returns the nodes that follow another one.
    pub fn replicas(&self) -> Vec<NodeId> {
        let all = self.nodes.iter().enumerate();
        all.filter(|(_, shown)| shown.primary.is_some())
            .map(|(node, _)| node)
            .collect()
    }

    /// Notes whether a primary has its epoch without votes. Returns false if it has taken over and
    /// may not have the data of `was`, the primary that it followed before.
    fn note_epoch(&mut self, node: NodeId, epoch: u64, is_new: bool, was: Option<Name>) -> bool {
        let has_vote = self.has_vote(node, epoch);
        let mut has_data = true;
        if is_new && has_vote {
            self.unvoted.remove(&node);
        }
        if !has_vote && was.is_some() && self.told.remove(&node) {
            self.takeovers += 1;
            self.unvoted.insert(node);
            // TAKEOVER does not ask for data, as in Redis.
            let synced = self.synced.borrow().get(&node).copied();
            has_data = synced.is_some_and(|primary| self.nodes[primary].name == was);
            self.foreign.insert(node);
            let tell = || format!("node {node} took over in {epoch}, has data: {has_data}");
            world::with(|kernel| kernel.trace.tell(tell));
        }
        // One of two primaries with the same epoch takes a new one without votes.
        let all = self.nodes.iter().enumerate();
        let has_same = |shown: &Shown| shown.primary.is_none() && shown.config_epoch == epoch;
        let same: Vec<NodeId> = all
            .filter(|(_, shown)| shown.name.is_some() && has_same(shown))
            .map(|(node, _)| node)
            .collect();
        if same.iter().any(|node| self.unvoted.contains(node)) {
            self.unvoted.extend(same);
        }
        has_data
    }

    /// The operator tells a node to take over.
    pub fn tell(&mut self, node: NodeId) {
        self.told.insert(node);
    }

    /// Returns whether a replica may have taken over without anybody knowing it.
    pub fn may_take_over(&self, node: NodeId) -> bool {
        self.told.contains(&node) && self.nodes[node].primary.is_some()
    }

    /// A node takes an epoch without votes.
    pub fn needs_no_votes(&mut self, node: NodeId) {
        self.unvoted.insert(node);
    }

    /// Returns whether a node may have its epoch without votes.
    pub fn may_be_unvoted(&self, node: NodeId) -> bool {
        self.unvoted.contains(&node)
    }

    /// Replicas have acknowledged all that their primary has.
    pub fn have_data(&self, replicas: &[NodeId], primary: NodeId) {
        let pairs = replicas.iter().map(|replica| (*replica, primary));
        self.synced.borrow_mut().extend(pairs);
    }

    /// A node was killed, or gets another primary. Earlier replies to WAIT do not count for it.
    pub fn killed(&mut self, node: NodeId) {
        self.synced.borrow_mut().remove(&node);
    }

    /// Returns whether a node took over, so that it may have keys that had left its primary.
    pub fn has_foreign_keys(&self, node: NodeId) -> bool {
        self.foreign.contains(&node)
    }

    /// Considers slots that a primary no longer claims. If another node claims them in the same
    /// epoch, it is their owner; also in an earlier one if the operator has named it. SETSLOT NODE
    /// gives a node an epoch after all that it knows, but it may not know the old owner's.
    fn give_up(&mut self, node: NodeId, slots: &SlotSet) {
        for slot in slots.iter() {
            let Some((owner, epoch)) = self.owners[usize::from(slot)] else {
                continue;
            };
            let named = self.named.get(&slot).copied();
            let claims = |other: &NodeId| {
                let has_right = self.nodes[*other].config_epoch == epoch || named == Some(*other);
                *other != node && has_right && self.announces(*other, slot)
            };
            if owner == node
                && let Some(by) = (1..self.nodes.len()).find(claims)
            {
                let own = self.nodes[by].config_epoch;
                self.owners[usize::from(slot)] = Some((by, own));
                self.owned[node] -= 1;
                self.owned[by] += 1;
                self.note_given(slot, node, by, own == epoch);
            }
        }
    }

    /// Notes a new owner of a slot whose epoch is not a later one: `shared` tells whether it is the
    /// same.
    fn note_given(&mut self, slot: u16, from: NodeId, by: NodeId, shared: bool) {
        self.taken.push(Taken {
            slots: SlotSet::from_iter([slot]),
            from,
            by,
            elected: false,
            stolen: true,
            shared,
        });
    }

    /// Returns whether a node was given a vote in an epoch.
    fn has_vote(&self, node: NodeId, epoch: u64) -> bool {
        let mut votes = self.votes.iter();
        votes.any(|((_, voted), candidate)| *voted == epoch && *candidate == node)
    }

    /// Checks that a node votes for one candidate in an epoch.
    fn note_vote(&mut self, voter: NodeId, candidate: NodeId, header: &Header) {
        let epoch = header.current_epoch;
        let first = *self
            .votes
            .entry((header.sender, epoch))
            .or_insert(candidate);
        if first != candidate {
            verdict::stop(&format!(
                "node {voter} votes twice in epoch {epoch}, for {first} and {candidate}"
            ));
        }
        let voted = &mut self.nodes[voter].voted;
        *voted = epoch.max(*voted);
    }

    /// Takes a primary's claim. `was` is the primary that it followed before, and whether it has
    /// that primary's data.
    fn claim(&mut self, node: NodeId, epoch: u64, slots: &SlotSet, was: (Option<Name>, bool)) {
        let (was, has_data) = was;
        let mut lost: BTreeMap<NodeId, SlotSet> = BTreeMap::new();
        for slot in slots.iter() {
            match self.owners[usize::from(slot)] {
                Some((other, known)) if other != node && known == epoch => {
                    if self.has_vote(node, epoch) && self.has_vote(other, epoch) {
                        verdict::stop(&format!(
                            "slot {slot} has two owners in epoch {epoch}: {other} and {node}"
                        ));
                    }
                    self.owned[other] -= 1;
                    self.owned[node] += 1;
                    self.owners[usize::from(slot)] = Some((node, epoch));
                    self.note_given(slot, other, node, true);
                }
                Some((_, known)) if known > epoch => {}
                other => {
                    if let Some((other, _)) = other {
                        self.owned[other] -= 1;
                        if other != node {
                            lost.entry(other).or_default().insert(slot);
                        }
                    }
                    self.owned[node] += 1;
                    self.owners[usize::from(slot)] = Some((node, epoch));
                }
            }
        }
        for (from, slots) in lost {
            let elected = was.is_some() && was == self.nodes[from].name;
            self.elections += u64::from(elected);
            let elected = elected && has_data;
            let count = slots.len();
            world::with(|kernel| {
                let trace = &kernel.trace;
                trace.tell(|| format!("taken {count} slots from {from} by {node} in {epoch}"));
            });
            self.taken.push(Taken {
                slots,
                from,
                by: node,
                elected,
                stolen: was.is_some() && !elected,
                shared: false,
            });
        }
    }

    /// Returns the rightful owner of a slot.
    pub fn owner(&self, slot: u16) -> Option<NodeId> {
        self.owners[usize::from(slot)].map(|owner| owner.0)
    }

    /// Returns whether a node has announced last that it owns a slot.
    pub fn announces(&self, node: NodeId, slot: u16) -> bool {
        let shown = &self.nodes[node];
        shown.primary.is_none() && shown.slots.contains(slot)
    }

    /// Returns the nodes that own slots.
    pub fn owners(&self) -> BTreeSet<NodeId> {
        let all = self.owned.iter().enumerate();
        all.filter(|(_, slots)| **slots > 0)
            .map(|(node, _)| node)
            .collect()
    }

    /// Returns the nodes that can be elected instead of a node: those that follow it, and those
    /// that followed a node without slots, or one that still claims slots of this node, when they
    /// last sent a packet. After an election or a takeover, such a replica may not know the new
    /// owner yet, and be elected next. Redis promises nothing about a write that one of them has
    /// not acknowledged.
    pub fn heirs(&self, node: NodeId) -> BTreeSet<NodeId> {
        let claimed = &self.nodes[node].slots;
        let is_former = |other: NodeId| {
            self.owned[other] == 0 || !self.nodes[other].slots.common(claimed).is_empty()
        };
        let follows = |at: &usize| {
            let primary = self.nodes[*at].primary;
            let all = (1..self.nodes.len()).filter(|other| self.nodes[*other].name == primary);
            primary.is_some() && { all }.any(|other| other == node || is_former(other))
        };
        (1..self.nodes.len()).filter(follows).collect()
    }

    /// Checks the file of a node that is about to start: the node has revealed no vote and no
    /// epoch that it would forget.
    pub fn check_file(&self, node: NodeId) {
        let read = |name: &str| {
            let path = format!("/sim/{node}/{name}");
            let file = world::with(|kernel| kernel.disks.contents(&path));
            String::from_utf8_lossy(&file.unwrap_or_default()).into_owned()
        };
        let mut text = read("nodes.conf");
        let last = text.lines().next_back().unwrap_or_default();
        let is_whole = text.ends_with('\n') && last.starts_with("vars ") && !text.contains('\0');
        let number = |text: &str| text.trim_end().rsplit_once("saves ")?.1.parse::<u64>().ok();
        let copy = |name: &str| {
            let record = read(name);
            let (sum, copy) = record.split_once('\n')?;
            let copy = format!("{}\n", copy.trim_end());
            (sum == format!("{:016x}", crc64(copy.as_bytes()))).then_some(copy)
        };
        let names = [
            "nodes.conf.save-0",
            "nodes.conf.save-1",
            "nodes.conf.save-2",
        ];
        let copies = names.into_iter().filter_map(copy);
        let newest = copies.max_by_key(|copy| number(copy));
        if let Some(newest) = newest
            && (!is_whole || number(&newest) > number(&text))
        {
            text = newest;
        }
        let shown = &self.nodes[node];
        let own = text.lines().find(|line| line.contains("myself"));
        let words: Vec<&str> = own.unwrap_or_default().split(' ').collect();
        if words[0].parse().ok() != shown.name {
            // A node with a new ID has no votes.
            if self.renamed.contains(&node) {
                return;
            }
            verdict::stop(&format!("the file of node {node} has another ID: {own:?}"));
        }
        let vote = text.lines().find_map(|line| {
            let vote = line.strip_prefix("vars ")?.split_once("lastVoteEpoch ")?.1;
            vote.split_whitespace().next()?.parse::<u64>().ok()
        });
        if vote.unwrap_or(0) < shown.voted {
            verdict::stop(&format!(
                "the file of node {node} has the vote {vote:?}, but the node has voted in {}",
                shown.voted
            ));
        }
        let is_primary = words.get(3) == Some(&"-");
        let epoch: u64 = words.get(6).and_then(|word| word.parse().ok()).unwrap_or(0);
        if is_primary && shown.primary.is_none() && epoch < shown.config_epoch {
            verdict::stop(&format!(
                "the file of node {node} has the epoch {epoch}, but the node has announced {}",
                shown.config_epoch
            ));
        }
    }
}
