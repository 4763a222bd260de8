//! Promises of WAIT: a write that all other nodes have acknowledged is there after each promotion.
//! Each keeper has a key, writes ascending numbers to it, and waits for the replicas.

use punctual_resp::Value;

use crate::kernel::draws::Draws;
use crate::kernel::{MILLI, Nanos, NodeId, SECOND};
use crate::link::{Link, Prepared};
use crate::party::{Common, Party};
use crate::{verdict, world};

/// `min-replicas-max-lag`, and the time after which a primary without replicas must have noticed.
pub const MAX_LAG: Nanos = 2 * SECOND;
const NOTICES_AFTER: Nanos = 2 * SECOND;

/// A node that no other node can reach.
#[derive(Clone, Copy, Debug)]
pub struct Isolation {
    pub node: NodeId,
    pub since: Nanos,
    /// Begin and end of the time in which the node is frozen.
    pub frozen: Option<(Nanos, Nanos)>,
}

/// What the keepers know together.
#[derive(Debug, Default)]
pub struct Promises {
    pub isolated: Option<Isolation>,
    /// Whether servers refuse writes without replicas.
    pub min_replicas: bool,
}

impl Promises {
    /// Returns whether a node must refuse a write that was sent at this time.
    fn must_refuse(&self, node: NodeId, sent: Nanos) -> bool {
        let Some(isolation) = self.isolated.filter(|other| other.node == node) else {
            return false;
        };
        // A write that arrives at a frozen node runs when the node goes on.
        let frozen = isolation.frozen.filter(|frozen| sent > frozen.0);
        let runs = frozen.map_or(sent, |frozen| sent.max(frozen.1));
        self.min_replicas && runs > isolation.since + MAX_LAG + NOTICES_AFTER
    }
}

/// A client with a key of its own.
pub struct Keeper {
    number: usize,
    replicas: usize,
    link: Link,
    /// Number of missing replies, the time of sending, and whether the command is a write.
    waits: Option<(usize, Nanos, bool)>,
    last: u64,
    promised: u64,
    /// Whether the last write was refused, so that the reply of WAIT promises nothing.
    refused: bool,
    kept: bool,
    done: u64,
}

impl Keeper {
    pub fn new(number: usize, nodes: usize) -> Self {
        Self {
            number,
            replicas: nodes - 1,
            link: Link::new(nodes),
            waits: None,
            last: 0,
            promised: 0,
            refused: false,
            kept: false,
            done: 0,
        }
    }

    fn check(&self, reply: &Value) {
        let value = match reply {
            Value::Bulk(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        };
        let value = value.and_then(|text| text.parse().ok()).unwrap_or(0);
        if !(self.promised..=self.last).contains(&value) {
            verdict::stop(&format!(
                "the key of keeper {} at node {} has {value}, which is not between {} (promised) and {}",
                self.number, self.link.node, self.promised, self.last
            ));
        }
    }
}

impl Party for Keeper {
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }

    fn act(&mut self, _common: &mut Common, draws: &mut Draws) -> Option<Nanos> {
        match self.link.prepare() {
            Prepared::Later(pause) => return Some(pause),
            Prepared::Ready { .. } if self.waits.is_none() => {}
            _ => return None,
        }
        let key = format!("kept:{}", self.number);
        let writes = draws.chance(700_000);
        if writes {
            self.last += 1;
            let value = self.last.to_string();
            self.link.push(&["SET", &key, &value]);
            let replicas = self.replicas.to_string();
            // With a short time, a keeper often writes while the node is frozen.
            let time = draws.one_of(&["30", "30", "300"]);
            self.link.push(&["WAIT", &replicas, time]);
        } else {
            // Only a primary answers this read.
            self.link.push(&["GETEX", &key]);
        }
        let count = 1 + usize::from(writes);
        self.waits = Some((count, world::now(), writes));
        self.link.flush();
        None
    }

    fn changed(&mut self, common: &mut Common, _draws: &mut Draws) -> bool {
        let arrived = self.link.read();
        let mut ended = false;
        for reply in &arrived.replies {
            let Some((count, sent, writes)) = self.waits else {
                verdict::stop(&format!("a reply without a command: {reply:.200?}"));
            };
            self.done += 1;
            let (number, promised) = (self.number, self.promised);
            world::with(|kernel| {
                let trace = &kernel.trace;
                trace.tell(|| format!("k{number} {writes} {promised} {reply:?}"));
            });
            // The role may change between the two commands.
            self.link.note_place(reply);
            let refused = match (writes, count) {
                (true, 1) => matches!(reply, Value::Error(_)),
                _ => self.link.is_refused(reply, &"keeper"),
            };
            match (writes, count) {
                (false, _) if !refused => self.check(reply),
                (true, 2) => {
                    self.refused = refused;
                    if !refused && common.promises.must_refuse(self.link.node, sent) {
                        verdict::stop(&format!(
                            "node {} without replicas accepts a write",
                            self.link.node
                        ));
                    }
                }
                (true, _) if !refused && !self.refused => {
                    if matches!(reply, Value::Int(count) if *count >= self.replicas as i64) {
                        self.promised = self.last;
                        self.kept |= common.drains;
                    }
                }
                _ => {}
            }
            self.waits = (count > 1).then_some((count - 1, sent, writes));
            ended = self.waits.is_none();
        }
        if arrived.lost || self.waits.is_none() && self.link.moves() {
            self.lose();
        }
        arrived.lost || arrived.connected || ended
    }

    fn lose(&mut self) {
        self.link.lose();
        self.waits = None;
    }

    fn missing(&self) -> Option<String> {
        (!self.kept).then(|| format!("WAIT of keeper {}", self.number))
    }

    fn done(&self) -> u64 {
        self.done
    }
}

/// Shortest and longest time for which a node is isolated.
pub const ISOLATION: (Nanos, Nanos) = (500 * MILLI, 9 * SECOND);
