//! Promises of WAIT: a write that all other nodes have acknowledged is there after each promotion.
//! Each keeper has a key, writes ascending numbers to it, and waits for the replicas.

use punctual_resp::Value;

use crate::kernel::draws::Draws;
use crate::kernel::{MILLI, Nanos, NodeId, SECOND};
use crate::link::{Link, Prepared};
use crate::party::{Common, Party};
use crate::registers::has_error;
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

/// Reads a keeper's key, and whether the set of all its values has the key's value. Only a primary
/// runs GETEX.
const READ: &str = "local value = redis.call('GETEX', KEYS[1]) \
    return {value, redis.call('SISMEMBER', KEYS[2], value or '')}";

/// What a keeper has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Read,
    /// Sets the key and adds the value to the set, in a transaction.
    Write,
    /// The same, and WAIT.
    Promise,
}

#[derive(Debug)]
struct Sent {
    step: Step,
    at: Nanos,
    /// Number of replies, and the replies so far.
    count: usize,
    replies: Vec<Value>,
}

/// A client with a key of its own, and a set with all values that the key had. The set keeps
/// what a later write of the key would hide.
pub struct Keeper {
    number: usize,
    replicas: usize,
    link: Link,
    sent: Option<Sent>,
    last: u64,
    promised: u64,
    kept: bool,
    done: u64,
}

impl Keeper {
    pub fn new(number: usize, nodes: usize) -> Self {
        Self {
            number,
            replicas: nodes - 1,
            link: Link::new(nodes),
            sent: None,
            last: 0,
            promised: 0,
            kept: false,
            done: 0,
        }
    }

    /// Sends the commands of a step.
    fn send(&mut self, step: Step, draws: &mut Draws) {
        let (key, set) = (
            format!("kept:{}", self.number),
            format!("seen:{}", self.number),
        );
        self.last += u64::from(step != Step::Read);
        let (value, replicas) = (self.last.to_string(), self.replicas.to_string());
        let mut lines = match step {
            Step::Read => vec![vec!["EVAL", READ, "2", &key, &set]],
            Step::Write | Step::Promise => vec![
                vec!["MULTI"],
                vec!["SET", &key, &value],
                vec!["SADD", &set, &value],
                vec!["EXEC"],
            ],
        };
        if step == Step::Promise {
            // With a short time, a keeper often writes while the node is frozen.
            lines.push(vec!["WAIT", &replicas, draws.one_of(&["30", "30", "300"])]);
        }
        lines.iter().for_each(|line| self.link.push(line));
        self.sent = Some(Sent {
            step,
            at: world::now(),
            count: lines.len(),
            replies: Vec::new(),
        });
        self.link.flush();
    }

    fn check(&self, reply: &Value) {
        let (value, in_set) = match reply {
            Value::Array(parts) => (parts.first(), parts.get(1)),
            _ => (None, None),
        };
        let value = match value {
            Some(Value::Bulk(bytes)) => std::str::from_utf8(bytes).ok(),
            _ => None,
        };
        let value = value.and_then(|text| text.parse().ok()).unwrap_or(0);
        if !(self.promised..=self.last).contains(&value) {
            verdict::stop(&format!(
                "the key of keeper {} at node {} has {value}, which is not between {} (promised) and {}",
                self.number, self.link.node, self.promised, self.last
            ));
        }
        if value > 0 && in_set != Some(&Value::Int(1)) {
            verdict::stop(&format!(
                "node {} has half of a transaction of keeper {}: {value}",
                self.link.node, self.number
            ));
        }
    }

    /// Handles the replies of a step.
    fn ended(&mut self, sent: &Sent, common: &Common) {
        let number = self.number;
        world::with(|kernel| kernel.trace.tell(|| format!("k{number} {sent:?}")));
        self.done += sent.count as u64;
        // The role may change between the transaction and WAIT.
        let (exec, wait) = match sent.step {
            Step::Promise => (&sent.replies[sent.count - 2], sent.replies.last()),
            _ => (&sent.replies[sent.count - 1], None),
        };
        if has_error(exec) {
            return;
        }
        if sent.step == Step::Read {
            return self.check(exec);
        }
        if common.promises.must_refuse(self.link.node, sent.at) {
            verdict::stop(&format!(
                "node {} without replicas accepts a write",
                self.link.node
            ));
        }
        if matches!(wait, Some(Value::Int(count)) if *count >= self.replicas as i64) {
            self.promised = self.last;
            self.kept |= common.drains;
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
            Prepared::Ready { .. } if self.sent.is_none() => {}
            _ => return None,
        }
        // While WAIT waits, a keeper sends nothing that a frozen node could find later.
        let step = draws.one_of(&[Step::Read, Step::Write, Step::Write, Step::Promise]);
        self.send(step, draws);
        None
    }

    fn changed(&mut self, common: &mut Common, _draws: &mut Draws) -> bool {
        let arrived = self.link.read();
        let mut ended = false;
        for reply in arrived.replies {
            let Some(sent) = &mut self.sent else {
                verdict::stop(&format!("a reply without a command: {reply:.200?}"));
            };
            match (sent.step, sent.replies.len()) {
                // WAIT at a replica is an error of another kind.
                (Step::Promise, 4) => self.link.note_place(&reply),
                _ => drop(self.link.is_refused(&reply, &"keeper")),
            }
            sent.replies.push(reply);
            if sent.replies.len() == sent.count
                && let Some(sent) = self.sent.take()
            {
                ended = true;
                self.ended(&sent, common);
            }
        }
        if arrived.lost || self.sent.is_none() && self.link.moves() {
            self.lose();
        }
        arrived.lost || arrived.connected || ended
    }

    fn lose(&mut self) {
        self.link.lose();
        self.sent = None;
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
