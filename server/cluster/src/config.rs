//! `nodes.conf`, the file in which a node keeps its table, in Redis's format.
//!
//! A line of a node is: ID, `host:port@bus-port,hostname,name=value,...`, flags, primary or `-`,
//! times of ping and pong, epoch, `connected` or `disconnected`, slots. The own node's line ends
//! with slots that are migrating `[slot->-ID]` or importing `[slot-<-ID]`. The last line is
//! `vars currentEpoch N lastVoteEpoch N`. Redis 7.0 writes the hostname only if it is set, and no
//! `name=value`; [`Style`] selects the form.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::str::FromStr;

use crate::NodeId;
use crate::nodes::{Address, Flags, Node, Nodes};
use crate::packet::{is_host, is_name};
use crate::slot::{SLOTS, SlotSet};

/// Form of the addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Without `name=value`: Redis 7.0's file, and CLUSTER NODES of every version.
    Plain,
    /// With `tls-port` or `tcp-port`, `nodename` and `shard-id`: files since Redis 7.2.
    Named,
}

/// Contents of the file.
#[derive(Clone, Debug)]
pub struct Config {
    /// All nodes.
    pub nodes: Nodes,
    /// The largest epoch that this node has seen.
    pub current_epoch: u64,
    /// Epoch of this node's last vote.
    pub last_vote_epoch: u64,
    /// Slots that leave, each with the node that gets it.
    pub migrating: BTreeMap<u16, NodeId>,
    /// Slots that arrive, each with the node that has it.
    pub importing: BTreeMap<u16, NodeId>,
    /// Whether the first port is the one with TLS, so that the second one is `tcp-port`.
    pub tls: bool,
}

/// Error of a file that is not in Redis's format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of nodes.conf: {reason}")]
pub struct ConfigError {
    /// Number of the line, from 1 on.
    pub line: usize,
    /// What is wrong.
    pub reason: &'static str,
}

const NAMES: [(Flags, &str); 9] = [
    (Flags::MYSELF, "myself"),
    (Flags::PRIMARY, "master"),
    (Flags::REPLICA, "slave"),
    (Flags::PFAIL, "fail?"),
    (Flags::FAIL, "fail"),
    (Flags::HANDSHAKE, "handshake"),
    (Flags::NOADDR, "noaddr"),
    (Flags::NOFAILOVER, "nofailover"),
    (Flags::MIGRATE_TO, "migrate_to"),
];

/// Returns the names of flags as CLUSTER NODES shows them.
pub fn flag_names(flags: Flags) -> String {
    let shown = NAMES[..8].iter().filter(|(flag, _)| flags.has(*flag));
    let names: Vec<&str> = shown.map(|(_, name)| *name).collect();
    if names.is_empty() {
        "noflags".into()
    } else {
        names.join(",")
    }
}

impl Config {
    /// Creates the contents for a node that has no file yet: a primary without slots.
    pub fn of_new_node(id: NodeId, shard: NodeId) -> Self {
        let mut own = Node::new(id, Flags::PRIMARY, 0);
        own.shard = Some(shard);
        Self {
            nodes: Nodes::new(own),
            current_epoch: 0,
            last_vote_epoch: 0,
            migrating: BTreeMap::new(),
            importing: BTreeMap::new(),
            tls: false,
        }
    }

    /// Returns the file's text. Nodes in a handshake are left out.
    pub fn text(&self, style: Style) -> String {
        let mut text = String::new();
        for node in self.nodes.iter() {
            if !node.flags.has(Flags::HANDSHAKE) {
                self.line(node, style, true, &mut text);
            }
        }
        let (current, vote) = (self.current_epoch, self.last_vote_epoch);
        let _ = writeln!(text, "vars currentEpoch {current} lastVoteEpoch {vote}");
        text
    }

    /// Appends the line of a node, as in CLUSTER NODES.
    pub fn line(&self, node: &Node, style: Style, connected: bool, text: &mut String) {
        let Address {
            host,
            port,
            other_port,
            bus_port,
            hostname,
            name,
        } = &node.address;
        let _ = write!(text, "{} {host}:{port}@{bus_port}", node.id);
        match style {
            Style::Plain if hostname.is_empty() => {}
            Style::Plain => {
                let _ = write!(text, ",{hostname}");
            }
            Style::Named => {
                let kind = if self.tls { "tcp" } else { "tls" };
                let _ = write!(text, ",{hostname},{kind}-port={other_port}");
                if !name.is_empty() {
                    let _ = write!(text, ",nodename={name}");
                }
                if let Some(shard) = node.shard {
                    let _ = write!(text, ",shard-id={shard}");
                }
            }
        }
        let primary = node.primary.map_or_else(|| "-".into(), |id| id.to_string());
        let (ping, pong) = (node.ping_sent_ms, node.pong_received_ms);
        let epoch = node
            .primary
            .and_then(|id| self.nodes.get(id))
            .unwrap_or(node);
        let link = if connected {
            "connected"
        } else {
            "disconnected"
        };
        let flags = flag_names(node.flags);
        let epoch = epoch.config_epoch;
        let _ = write!(text, " {flags} {primary} {ping} {pong} {epoch} {link}");
        for (first, last) in node.slots.ranges() {
            let _ = write!(text, " {first}");
            if last > first {
                let _ = write!(text, "-{last}");
            }
        }
        if node.flags.has(Flags::MYSELF) {
            let migrating = self.migrating.iter().map(|(slot, id)| (slot, '>', id));
            let importing = self.importing.iter().map(|(slot, id)| (slot, '<', id));
            let mut moving: Vec<_> = migrating.chain(importing).collect();
            moving.sort_unstable();
            for (slot, direction, id) in moving {
                let _ = write!(text, " [{slot}-{direction}-{id}]");
            }
        }
        text.push('\n');
    }
}

/// A file while it is read.
#[derive(Default)]
struct Loading {
    own: Option<Node>,
    others: Vec<Node>,
    taken: SlotSet,
    epochs: (u64, u64),
    migrating: BTreeMap<u16, NodeId>,
    importing: BTreeMap<u16, NodeId>,
    tls: bool,
}

impl FromStr for Config {
    type Err = ConfigError;

    /// Reads the file's text. The times of pings are forgotten, as Redis forgets them.
    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let mut loading = Loading::default();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if !line.is_empty() {
                loading.line(line).map_err(|reason| ConfigError {
                    line: index + 1,
                    reason,
                })?;
            }
        }
        let own = loading.own.ok_or(ConfigError {
            line: text.lines().count(),
            reason: "no line has the flag myself",
        })?;
        let mut nodes = Nodes::new(own);
        loading
            .others
            .into_iter()
            .for_each(|node| nodes.insert(node));
        let greatest = nodes.iter().map(|node| node.config_epoch).max();
        Ok(Self {
            nodes,
            current_epoch: loading.epochs.0.max(greatest.unwrap_or(0)),
            last_vote_epoch: loading.epochs.1,
            migrating: loading.migrating,
            importing: loading.importing,
            tls: loading.tls,
        })
    }
}

impl Loading {
    fn line(&mut self, line: &str) -> Result<(), &'static str> {
        let mut words = line.split_ascii_whitespace();
        let mut next = || words.next().ok_or("a node's line has at least 8 words");
        let first = next()?;
        if first == "vars" {
            return self.vars(&line[4..]);
        }
        let id = first.parse().map_err(|_| "the ID is invalid")?;
        let mut node = Node::new(id, Flags::default(), 0);
        let address = next()?;
        self.address(&mut node, address)?;
        for name in next()?.split(',') {
            let known = NAMES.iter().find(|(_, known)| *known == name);
            match known {
                Some((flag, _)) => node.flags.set(*flag, true),
                None if name == "noflags" => {}
                None => return Err("a flag is unknown"),
            }
        }
        let primary = next()?;
        if primary != "-" {
            node.primary = Some(primary.parse().map_err(|_| "the primary's ID is invalid")?);
        }
        let mut number = || next()?.parse::<u64>().map_err(|_| "a number is invalid");
        let (_ping, _pong, epoch) = (number()?, number()?, number()?);
        node.config_epoch = epoch;
        next()?;
        for word in words {
            self.slots(word, &mut node)?;
        }
        let known = self
            .others
            .iter()
            .chain(&self.own)
            .any(|other| other.id == id);
        if known {
            return Err("the ID occurs twice");
        }
        if !node.flags.has(Flags::MYSELF) {
            if node.primary.is_some() {
                // The line has the primary's epoch. As a primary, the node may have a smaller one.
                node.config_epoch = 0;
            }
            self.others.push(node);
        } else if self.own.replace(node).is_some() {
            return Err("two lines have the flag myself");
        }
        Ok(())
    }

    fn vars(&mut self, rest: &str) -> Result<(), &'static str> {
        let words: Vec<&str> = rest.split_ascii_whitespace().collect();
        for pair in words.chunks(2) {
            let [name, value] = pair else {
                return Err("a variable has no value");
            };
            let value = value.parse().map_err(|_| "a variable is no number");
            match *name {
                "currentEpoch" => self.epochs.0 = value?,
                "lastVoteEpoch" => self.epochs.1 = value?,
                _ => {}
            }
        }
        Ok(())
    }

    fn address(&mut self, node: &mut Node, text: &str) -> Result<(), &'static str> {
        const BAD: &str = "the address is invalid";
        let mut parts = text.split(',');
        let (host, ports) = parts
            .next()
            .unwrap_or_default()
            .rsplit_once(':')
            .ok_or(BAD)?;
        let (port, bus_port) = ports.split_once('@').ok_or(BAD)?;
        let number = |text: &str| text.parse::<u16>().map_err(|_| BAD);
        let hostname = parts.next().unwrap_or_default();
        if !is_host(host.as_bytes()) || !is_name(hostname.as_bytes()) {
            return Err(BAD);
        }
        node.address = Address {
            host: host.into(),
            port: number(port)?,
            bus_port: number(bus_port)?,
            hostname: hostname.into(),
            ..Address::default()
        };
        for part in parts {
            let (name, value) = part.split_once('=').ok_or(BAD)?;
            match name {
                "nodename" if is_name(value.as_bytes()) => node.address.name = value.into(),
                "shard-id" => node.shard = Some(value.parse().map_err(|_| BAD)?),
                "tls-port" | "tcp-port" => {
                    self.tls |= name == "tcp-port";
                    node.address.other_port = number(value)?;
                }
                "nodename" => return Err(BAD),
                // Fields of later versions.
                _ => {}
            }
        }
        Ok(())
    }

    fn slots(&mut self, word: &str, node: &mut Node) -> Result<(), &'static str> {
        const BAD: &str = "a slot is invalid";
        let slot = |text: &str| match text.parse() {
            Ok(slot) if slot < SLOTS => Ok(slot),
            _ => Err(BAD),
        };
        if let Some(moving) = word.strip_prefix('[') {
            let moving = moving.strip_suffix(']').ok_or(BAD)?;
            let leaving = moving.split_once("->-");
            let (number, id) = leaving.or_else(|| moving.split_once("-<-")).ok_or(BAD)?;
            let id = id.parse().map_err(|_| BAD)?;
            let map = match leaving {
                Some(_) => &mut self.migrating,
                None => &mut self.importing,
            };
            map.insert(slot(number)?, id);
            return Ok(());
        }
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        for slot in slot(first)?..=slot(last)? {
            if self.taken.contains(slot) {
                return Err("a slot has two owners");
            }
            self.taken.insert(slot);
            node.slots.insert(slot);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sets the times of pings and pongs to 0, and sorts the lines.
    fn without_times(text: &str) -> Vec<String> {
        let line = |line: &str| {
            let mut words: Vec<&str> = line.split(' ').collect();
            if words[0] != "vars" {
                (words[4], words[5]) = ("0", "0");
            }
            words.join(" ")
        };
        let mut lines: Vec<String> = text.lines().map(line).collect();
        lines.sort();
        lines
    }

    #[test]
    fn files_of_real_nodes_come_back() {
        let files = [
            (include_str!("../tests/data/redis7.conf"), Style::Plain),
            (include_str!("../tests/data/redis8.conf"), Style::Named),
            (include_str!("../tests/data/valkey9.conf"), Style::Named),
        ];
        for (text, style) in files {
            let config: Config = text.parse().unwrap();
            assert_eq!(config.nodes.len(), 2);
            let own = config.nodes.own();
            assert_eq!(own.slots.ranges(), [(0, 99), (200, 201), (16_383, 16_383)]);
            assert_eq!(without_times(&config.text(style)), without_times(text));
        }
    }

    #[test]
    fn a_replica_does_not_keep_its_primarys_epoch() {
        let config: Config = include_str!("../tests/data/redis8.conf").parse().unwrap();
        let epochs: Vec<u64> = config
            .nodes
            .others()
            .map(|node| node.config_epoch)
            .collect();
        assert_eq!((config.nodes.own().config_epoch, epochs), (1, vec![0]));
    }

    #[test]
    fn damaged_files_are_refused() {
        let good = include_str!("../tests/data/redis8.conf");
        let cases = [
            ("myself,", "", "no line has the flag myself"),
            ("0-99", "0-16384", "a slot is invalid"),
            ("200-201", "99-201", "a slot has two owners"),
            (":7612@17612", ":7612", "the address is invalid"),
            ("slave", "slave,odd", "a flag is unknown"),
            (
                "currentEpoch 1",
                "currentEpoch x",
                "a variable is no number",
            ),
        ];
        for (from, to, reason) in cases {
            let error = good.replace(from, to).parse::<Config>().unwrap_err();
            assert_eq!(error.reason, reason);
        }
    }
}
