//! Clients of a cluster. Each has hash tags of its own, follows redirections, and gives up a
//! connection that does not reply.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use punctual_resp::Value;

use super::redirect::Redirect;
use super::tag::Tag;
use super::{Rights, TIMEOUT};
use crate::kernel::draws::Draws;
use crate::kernel::streams::EndId;
use crate::kernel::{MILLI, Nanos, NodeId, SECOND};
use crate::link::{Link, Prepared};
use crate::{verdict, world};

/// Sets all keys to a number, unless they have the number or a greater one: such a write may come
/// late. Tells whether it has changed them.
const RAISE: &str = "local old = redis.call('GET', KEYS[1]) \
     old = old and tonumber(string.match(old, '%d+')) or 0 \
     if old < tonumber(string.match(ARGV[1], '%d+')) then \
     for _, key in ipairs(KEYS) do redis.call('SET', key, ARGV[1]) end return 'OK' end \
     return 'KEPT'";

/// How an operation is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Read,
    /// MGET at a replica, between READONLY and READWRITE.
    ReplicaRead,
    /// MSET.
    Write,
    /// MULTI, SET, EXEC.
    Transaction,
    /// A script that never lowers the number.
    Raise,
}

/// An operation, which is sent until a node carries it out.
struct Op {
    tag: usize,
    form: Form,
    value: u64,
    node: NodeId,
    asking: bool,
    sent: Option<Sent>,
    replies: Vec<Value>,
    attempts: u32,
    /// Time of the next attempt, and the time at which this attempt is given up.
    at: Nanos,
    until: Nanos,
}

struct Sent {
    /// Number of replies.
    count: usize,
    /// Whether WAIT and ROLE are the last commands.
    waits: bool,
    rightful: bool,
    /// Whether the node may see itself as the owner of the slot.
    may_own: bool,
    /// Nodes that can be elected instead of the node.
    heirs: BTreeSet<NodeId>,
}

pub struct Client {
    pub tags: Vec<Tag>,
    nodes: usize,
    /// Reads from replicas. A replica of a node that a slot leaves has some of the keys, because
    /// only the node knows that the slot moves.
    reads_replicas: bool,
    padding: String,
    links: BTreeMap<NodeId, Link>,
    routes: BTreeMap<u16, NodeId>,
    op: Option<Op>,
    /// Lost connections on which commands may still run.
    ghosts: Vec<EndId>,
    /// Operations of the time without faults: the tag, and whether the operation is a write.
    last: Option<VecDeque<(usize, bool)>>,
    /// Whether no further operation begins before the last ones.
    stops: bool,
    /// Number of operations that were carried out, and of redirections.
    pub done: u64,
    pub redirected: u64,
}

impl Client {
    pub fn new(number: usize, nodes: usize, shape: &super::plan::Shape, files_fail: bool) -> Self {
        let tag = |tag| Tag::new(format!("c{number}t{tag}"), shape.keys, files_fail);
        Self {
            tags: (0..shape.tags).map(tag).collect(),
            nodes,
            reads_replicas: !shape.moves,
            padding: "x".repeat(shape.padding),
            links: BTreeMap::new(),
            routes: BTreeMap::new(),
            op: None,
            ghosts: Vec::new(),
            last: None,
            stops: false,
            done: 0,
            redirected: 0,
        }
    }

    pub fn owns(&self, end: EndId) -> bool {
        self.links.values().any(|link| link.owns(end))
    }

    /// Returns the number of a connection.
    pub fn connection(&self, draws: &mut Draws) -> Option<usize> {
        let open: Vec<usize> = self.links.values().filter_map(Link::connection).collect();
        (!open.is_empty()).then(|| open[draws.index(open.len())])
    }

    /// Begins the last operations: reads, writes and reads each tag.
    pub fn begin_last(&mut self) {
        let tags = 0..self.tags.len();
        self.last = Some(
            tags.flat_map(|tag| [(tag, false), (tag, true), (tag, false)])
                .collect(),
        );
    }

    /// Begins no further operations. Returns whether no operation runs.
    pub fn stop(&mut self) -> bool {
        self.stops = true;
        self.op.is_none()
    }

    /// Returns whether the last operations are done.
    pub fn has_ended(&self) -> bool {
        self.op.is_none() && self.last.as_ref().is_some_and(VecDeque::is_empty)
    }

    fn some_node(&self, draws: &mut Draws) -> NodeId {
        draws.between(1, self.nodes as u64) as NodeId
    }

    /// Draws the next operation.
    fn draw(&mut self, rights: &Rights, draws: &mut Draws) -> Option<Op> {
        let (tag, writes) = match &mut self.last {
            Some(last) => last.pop_front()?,
            None if self.stops => return None,
            None => (draws.index(self.tags.len()), draws.chance(600_000)),
        };
        self.ghosts.retain(|end| world::gone_since(*end).is_none());
        let mut form = match writes {
            false => Form::Read,
            true if !self.ghosts.is_empty() => Form::Raise,
            true => draws.one_of(&[Form::Write, Form::Write, Form::Transaction, Form::Raise]),
        };
        let slot = self.tags[tag].slot;
        // Some commands go to a wrong node, which must not carry them out.
        let mut node = self.routes.get(&slot).copied();
        if self.last.is_none() && draws.chance(50_000) {
            node = rights.target(slot).filter(|_| draws.chance(700_000));
        }
        if !writes && self.last.is_none() && self.reads_replicas {
            let replicas = rights.watch.replicas();
            if !replicas.is_empty() && draws.chance(300_000) {
                form = Form::ReplicaRead;
                node = Some(replicas[draws.index(replicas.len())]);
            }
        }
        let now = world::now();
        Some(Op {
            tag,
            form,
            value: if writes { self.tags[tag].next() } else { 0 },
            node: node.unwrap_or_else(|| self.some_node(draws)),
            asking: false,
            sent: None,
            replies: Vec::new(),
            attempts: 0,
            at: now,
            until: now + TIMEOUT,
        })
    }

    /// Does the next thing. Returns the time at which to call this again; `None` after the last
    /// operation.
    pub fn act(&mut self, rights: &Rights, draws: &mut Draws) -> Option<Nanos> {
        let now = world::now();
        if self.op.is_none() {
            self.op = Some(self.draw(rights, draws)?);
        }
        let op = self.op.as_mut()?;
        if now >= op.until {
            let node = op.node;
            self.lose(node);
            self.turn_away(draws, 0);
        }
        let op = self.op.as_ref()?;
        if op.sent.is_none() && now >= op.at {
            self.send(rights, draws);
        }
        let op = self.op.as_ref()?;
        Some(match op.sent {
            None if op.at > now => op.at,
            _ => op.until,
        })
    }

    /// Sends the operation to another node, after a pause.
    fn turn_away(&mut self, draws: &mut Draws, pause: Nanos) {
        let node = self.some_node(draws);
        if let Some(op) = &mut self.op {
            let slot = self.tags[op.tag].slot;
            self.routes.remove(&slot);
            op.again(node, false, pause);
        }
    }

    fn send(&mut self, rights: &Rights, draws: &mut Draws) {
        let Some(op) = &mut self.op else {
            return;
        };
        let link = self.links.entry(op.node).or_insert_with(|| {
            let mut link = Link::new(1);
            link.node = op.node;
            link
        });
        if !matches!(link.prepare(), Prepared::Ready { .. }) {
            return;
        }
        // A later attempt may overtake an earlier one.
        if op.writes() && !self.ghosts.is_empty() {
            op.form = Form::Raise;
        }
        let tag = &self.tags[op.tag];
        let mut lines: Vec<Vec<String>> = Vec::new();
        let word = |text: &str| text.to_owned();
        if op.asking {
            lines.push(vec![word("ASKING")]);
        }
        let value = format!("{}:{}", op.value, self.padding);
        let pairs = |keys: &[String]| -> Vec<String> {
            let pairs = keys.iter().map(|key| [key.clone(), value.clone()]);
            pairs.flatten().collect()
        };
        match op.form {
            Form::Read => lines.push([vec![word("MGET")], tag.keys.clone()].concat()),
            Form::ReplicaRead => {
                let read = [vec![word("MGET")], tag.keys.clone()].concat();
                lines.extend([vec![word("READONLY")], read, vec![word("READWRITE")]]);
            }
            Form::Write => lines.push([vec![word("MSET")], pairs(&tag.keys)].concat()),
            Form::Transaction => {
                lines.push(vec![word("MULTI")]);
                for key in &tag.keys {
                    lines.push(vec![word("SET"), key.clone(), value.clone()]);
                }
                lines.push(vec![word("EXEC")]);
            }
            Form::Raise => {
                let count = tag.keys.len().to_string();
                let head = vec![word("EVAL"), word(RAISE), count];
                lines.push([head, tag.keys.clone(), vec![value.clone()]].concat());
            }
        }
        let heirs = rights.watch.heirs(op.node);
        let waits = op.writes() && !heirs.is_empty() && draws.chance(700_000);
        if waits {
            let time = draws.one_of(&["30", "300"]);
            lines.push(vec![word("WAIT"), heirs.len().to_string(), word(time)]);
            lines.push(vec![word("ROLE")]);
        }
        lines.iter().for_each(|line| link.push(line));
        op.sent = Some(Sent {
            count: lines.len(),
            waits,
            rightful: rights.may(tag.slot, op.node, op.asking),
            may_own: rights.may_own(tag.slot, op.node),
            heirs,
        });
        link.flush();
    }

    /// Handles a change of a connection. Returns true if the client can act again.
    pub fn changed(&mut self, end: EndId, rights: &Rights, draws: &mut Draws) -> bool {
        let Some((node, link)) = self.links.iter_mut().find(|(_, link)| link.owns(end)) else {
            return false;
        };
        let (node, arrived) = (*node, link.read());
        for reply in arrived.replies {
            let op = self.op.as_mut().filter(|op| op.node == node);
            let Some(op) = op.filter(|op| op.sent.is_some()) else {
                verdict::stop(&format!("a reply without a command: {reply:.200?}"));
            };
            op.replies.push(reply);
            if op
                .sent
                .as_ref()
                .is_some_and(|sent| sent.count == op.replies.len())
            {
                self.ended(rights, draws);
            }
        }
        if arrived.lost {
            self.lose(node);
            if self.op.as_ref().is_some_and(|op| op.node == node) {
                self.turn_away(draws, 20 * MILLI);
            }
        }
        true
    }

    /// Closes a connection on which commands may still run.
    fn lose(&mut self, node: NodeId) {
        if let Some(mut link) = self.links.remove(&node)
            && let Some(connection) = link.connection()
        {
            link.lose();
            self.ghosts.push(EndId {
                connection,
                side: 0,
            });
        }
    }

    /// Handles all replies of an attempt.
    fn ended(&mut self, rights: &Rights, draws: &mut Draws) {
        let Some(mut op) = self.op.take() else {
            return;
        };
        let Some(sent) = op.sent.take() else {
            return;
        };
        let tag = &mut self.tags[op.tag];
        let name = &tag.name;
        world::with(|kernel| {
            kernel.trace.tell(|| {
                let (form, value, node, asking) = (op.form, op.value, op.node, op.asking);
                let (rightful, replies) = (sent.rightful, &op.replies);
                format!("{name} {form:?} {value} at {node} {asking} {rightful}: {replies:.300?}")
            });
        });
        let main = op.replies.len() - 2 * usize::from(sent.waits);
        let waited = op.replies.split_off(main);
        if let Some(error) = op.replies.iter().find_map(error_in) {
            self.redirected += 1;
            let slot = tag.slot;
            let mut redirect = Redirect::of(&error, op.form == Form::Raise);
            let errors = op.replies.iter().filter_map(error_in);
            let asks = errors.filter(|error| error.starts_with("ASK ")).count();
            if op.form == Form::Transaction && (1..tag.keys.len()).contains(&asks) {
                // Some keys are still at the old owner. The new one may have copies of them, but
                // what it writes to these is gone if the operator has to repeat the transfer.
                redirect = Redirect::Later;
            }
            self.op = Some(op);
            self.redirect(redirect, slot, draws);
            return;
        }
        if op.form == Form::ReplicaRead {
            op.replies.pop();
        }
        let main = op.replies.last().cloned().unwrap_or(Value::NullBulk);
        // The script has only read, so WAIT had no write to wait for.
        let kept = main == Value::Bulk(b"KEPT".into());
        let rightful = sent.rightful && rights.may(tag.slot, op.node, op.asking);
        self.done += 1;
        if !op.asking && op.form != Form::ReplicaRead {
            rights.expect_owner(tag.slot, op.node, sent.may_own);
        }
        if !op.writes() {
            tag.check(op.node, &main, rightful);
        } else if tag.ignores_reads && self.last.is_none() && kept {
            // A read proves nothing.
        } else if rightful {
            tag.is_at_least(op.value);
            tag.is_saved(op.value);
            let all = !kept && rights.all_have(op.node, &sent.heirs, &waited);
            if all && !rights.moves(tag.slot) {
                tag.is_promised(op.value);
            }
            if self.last.is_some() {
                tag.settle(op.value);
            }
        } else if let Some(last) = &mut self.last {
            // In the time without faults, the write must be at the rightful owner.
            last.push_front((op.tag, true));
        }
    }

    /// Follows a redirection.
    fn redirect(&mut self, redirect: Redirect, slot: u16, draws: &mut Draws) {
        let node = self.some_node(draws);
        let Some(op) = &mut self.op else {
            return;
        };
        op.attempts += 1;
        let pause = match op.attempts {
            0..5 => 0,
            _ => draws.between(MILLI, 50 * MILLI),
        };
        let owner = self.routes.get(&slot).copied().unwrap_or(node);
        match redirect {
            Redirect::Moved(to) => {
                self.routes.insert(slot, to);
                op.again(to, false, pause);
            }
            Redirect::Ask(to) => op.again(to, true, pause),
            // A command that was refused after ASK begins at the owner again.
            Redirect::Later => op.again(owner, false, pause + 10 * MILLI),
            Redirect::Elsewhere => op.again(node, false, pause + 20 * MILLI),
        }
        // In an open slot, an operation may never succeed.
        if op.attempts > 100 && self.last.is_none() {
            self.op = None;
        }
    }

    /// Returns a text about the operation that has not ended.
    pub fn missing(&self) -> Option<String> {
        let op = self.op.as_ref().map(|op| {
            let (tag, form, node) = (&self.tags[op.tag].name, op.form, op.node);
            format!(
                "{form:?} of {tag} at node {node}, {} attempts, {:?}",
                op.attempts, op.replies
            )
        });
        match self.has_ended() {
            true => None,
            false => Some(op.unwrap_or_else(|| "the next operation".into())),
        }
    }
}

impl Op {
    fn writes(&self) -> bool {
        !matches!(self.form, Form::Read | Form::ReplicaRead)
    }

    /// Begins another attempt.
    fn again(&mut self, node: NodeId, asking: bool, pause: Nanos) {
        (self.node, self.asking, self.sent) = (node, asking, None);
        self.replies.clear();
        self.at = world::now() + pause;
        self.until = self.at + TIMEOUT;
    }
}

/// Returns the text of an error in a reply.
fn error_in(reply: &Value) -> Option<String> {
    match reply {
        Value::Error(text) => Some(String::from_utf8_lossy(text).into_owned()),
        Value::Array(parts) => parts.iter().find_map(error_in),
        _ => None,
    }
}

/// Maximum time of the last operations.
pub const LAST: Nanos = 30 * SECOND;
