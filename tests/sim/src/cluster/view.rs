//! A node's view of the cluster, from its replies to CLUSTER NODES and CLUSTER SLOTS.

use std::collections::{BTreeMap, BTreeSet};

use punctual_cluster::slot::SlotSet;
use punctual_resp::Value;

use super::operator::text_of;

/// A line of CLUSTER NODES, without times and links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub flags: BTreeSet<String>,
    pub primary: Option<String>,
    /// Epoch of a primary with slots, else 0. A replica shows its primary's epoch. Other nodes keep
    /// that when a power cut undoes that the node became a replica, as in Redis.
    pub epoch: u64,
    pub slots: SlotSet,
}

/// All lines by the IDs of the nodes, and the own node's ID and slots that move.
#[derive(Clone, Debug, Default)]
pub struct View {
    pub own: String,
    pub lines: BTreeMap<String, Line>,
    /// Slots that arrive or leave.
    pub moving: BTreeSet<u16>,
}

impl View {
    /// Reads a reply. Returns `None` if it is not a reply to CLUSTER NODES.
    pub fn read(text: &str) -> Option<Self> {
        let mut view = Self::default();
        for line in text.lines().filter(|line| !line.is_empty()) {
            let words: Vec<&str> = line.split(' ').collect();
            let [id, _, flags, primary, _, _, epoch, _, slots @ ..] = &words[..] else {
                return None;
            };
            let mut flags: BTreeSet<String> = flags.split(',').map(str::to_owned).collect();
            if flags.remove("myself") {
                view.own = (*id).to_owned();
            }
            let mut owned = SlotSet::default();
            for word in slots {
                if let Some(moving) = word.strip_prefix('[') {
                    view.moving.insert(moving.split('-').next()?.parse().ok()?);
                    continue;
                }
                let (first, last) = word.split_once('-').unwrap_or((word, word));
                let range = first.parse::<u16>().ok()?..=last.parse().ok()?;
                range.for_each(|slot| owned.insert(slot));
            }
            let primary = (*primary != "-").then(|| (*primary).to_owned());
            let epoch = epoch.parse().ok()?;
            let counts = primary.is_none() && !owned.is_empty();
            let line = Line {
                flags,
                epoch: if counts { epoch } else { 0 },
                primary,
                slots: owned,
            };
            view.lines.insert((*id).to_owned(), line);
        }
        Some(view)
    }

    /// Returns the own node's line.
    pub fn own_line(&self) -> Option<&Line> {
        self.lines.get(&self.own)
    }

    /// Returns the slots of each node.
    pub fn all(&self) -> impl Iterator<Item = &SlotSet> {
        self.lines.values().map(|line| &line.slots)
    }

    /// Forgets the owners of slots. A primary without other slots has no epoch that counts.
    pub fn leave_out(&mut self, slots: &SlotSet) {
        for line in self.lines.values_mut() {
            line.slots.subtract(slots);
            if line.slots.is_empty() {
                line.epoch = 0;
            }
        }
    }

    /// Returns whether no node seems to fail or is only half known.
    pub fn is_calm(&self) -> bool {
        self.failing().next().is_none()
    }

    /// Returns the IDs of nodes that seem to fail or are only half known.
    pub fn failing(&self) -> impl Iterator<Item = &String> {
        let odd = ["fail", "fail?", "handshake", "noaddr"];
        let lines = self.lines.iter();
        lines
            .filter(move |(_, line)| odd.iter().any(|flag| line.flags.contains(*flag)))
            .map(|(name, _)| name)
    }

    /// Returns a line about each node that another view shows differently.
    pub fn difference(&self, other: &Self) -> String {
        let shown = |line: Option<&Line>| {
            line.map(|line| {
                let (flags, primary, epoch) = (&line.flags, &line.primary, line.epoch);
                format!("{flags:?} {primary:?} {epoch} {:?}", line.slots.ranges())
            })
        };
        let ids: BTreeSet<&String> = self.lines.keys().chain(other.lines.keys()).collect();
        let differ = ids.into_iter().filter_map(|id| {
            let (a, b) = (self.lines.get(id), other.lines.get(id));
            (a != b).then(|| format!("{id:.8}: {:?} and {:?}", shown(a), shown(b)))
        });
        differ.collect::<Vec<_>>().join("; ")
    }
}

/// Returns the ranges of a reply to CLUSTER SLOTS, each with the IDs of its nodes: the primary
/// first, and the replicas in order.
pub fn ranges(reply: &Value) -> Vec<(i64, i64, Vec<String>)> {
    let id = |node: &Value| match node {
        Value::Array(parts) => parts.get(2).map(text_of),
        _ => None,
    };
    let range = |range: &Value| {
        let Value::Array(parts) = range else {
            return None;
        };
        let [Value::Int(first), Value::Int(last), nodes @ ..] = &parts[..] else {
            return None;
        };
        let mut nodes: Vec<String> = nodes.iter().filter_map(id).collect();
        nodes.get_mut(1..)?.sort_unstable();
        Some((*first, *last, nodes))
    };
    let mut all: Vec<_> = match reply {
        Value::Array(all) => all.iter().filter_map(range).collect(),
        _ => Vec::new(),
    };
    all.sort_unstable();
    all
}
