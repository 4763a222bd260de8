//! Clients: each has keys of its own, sends pipelines of commands, and checks the replies.

use std::collections::{BTreeSet, VecDeque};

use punctual_resp::Value;

use crate::kernel::draws::Draws;
use crate::kernel::{MILLI, Nanos};
use crate::link::{Link, Prepared};
use crate::model::{Key, Op, Span};
use crate::{recording, verdict, world};

/// Port of all servers.
pub const PORT: u16 = 6379;

/// How clients behave.
#[derive(Clone, Debug)]
pub struct Habits {
    pub keys: usize,
    /// Maximum number of commands of a pipeline.
    pub pipeline: u64,
    /// Maximum pause between pipelines.
    pub pause: Nanos,
    /// Maximum time to live.
    pub ttl_ms: u64,
    forms: [Form; 4],
    /// Whether writes and syncs of files fail.
    pub files_fail: bool,
    /// The command that reads. GETEX counts as a write, which only a primary runs.
    pub get: &'static str,
}

impl Habits {
    /// Draws the habits of all clients of a run.
    pub fn draw(draws: &mut Draws, files_fail: bool, failovers: bool) -> Self {
        let plain = [Form::Plain; 4];
        let mixed = [Form::Plain, Form::Plain, Form::Transaction, Form::Script];
        Self {
            keys: draws.between(1, 20) as usize,
            pipeline: draws.one_of(&[1, 4, 16]),
            pause: draws.one_of(&[5 * MILLI, 50 * MILLI, 500 * MILLI]),
            ttl_ms: draws.one_of(&[50, 1_000, 20_000]),
            files_fail,
            get: if failovers { "GETEX" } else { "GET" },
            forms: if draws.chance(500_000) { plain } else { mixed },
        }
    }
}

/// How a command is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Plain,
    /// A reply before the command's own one: to MULTI, or to the command that waits for EXEC.
    Before,
    /// Within MULTI and EXEC.
    Transaction,
    Script,
}

struct Sent {
    key: usize,
    op: Op,
    form: Form,
    at: Nanos,
}

/// A client with one connection at a time.
pub struct Client {
    number: usize,
    pub link: Link,
    /// Commands of the lost connection that have no reply.
    unknown: VecDeque<Sent>,
    waiting: VecDeque<Sent>,
    keys: Vec<Key>,
    /// Keys that the next connection reads first.
    uncertain: BTreeSet<usize>,
    get: &'static str,
    next_value: u64,
    /// Number of commands with a reply.
    pub done: u64,
    /// Number of commands that were refused with an error.
    pub refused: u64,
}

impl Client {
    pub fn new(number: usize, nodes: usize, habits: &Habits) -> Self {
        Self {
            number,
            link: Link::new(nodes),
            unknown: VecDeque::new(),
            waiting: VecDeque::new(),
            keys: vec![Key::absent(habits.files_fail); habits.keys],
            uncertain: BTreeSet::new(),
            get: habits.get,
            next_value: 1,
            done: 0,
            refused: 0,
        }
    }

    fn key_name(&self, key: usize) -> String {
        format!("c{}:k{key}", self.number)
    }

    /// Does the next thing. Returns the time after which to call this again; `None` if replies
    /// are missing.
    pub fn act(&mut self, draws: &mut Draws, habits: &Habits) -> Option<Nanos> {
        let prepared = self.link.prepare();
        if let Prepared::Ready { settled: true } | Prepared::Connecting { settled: true } = prepared
        {
            self.settle_unknown();
        }
        match prepared {
            Prepared::Later(pause) => return Some(pause),
            Prepared::Ready { .. } if self.waiting.is_empty() => {}
            _ => return None,
        }
        // What the lost connection has left open is known after a read.
        for key in std::mem::take(&mut self.uncertain) {
            self.push(key, Op::Get, Form::Plain);
        }
        let count = draws.between(1, habits.pipeline);
        let count = if self.waiting.is_empty() { count } else { 0 };
        for _ in 0..count {
            let key = draws.index(self.keys.len());
            let op = self.draw(draws, habits);
            let form = draws.one_of(&habits.forms);
            self.push(key, op, form);
        }
        self.link.flush();
        None
    }

    /// Sends GET for every key. Returns false if the client cannot send now.
    pub fn ask_all(&mut self) -> bool {
        if !self.link.ready || !self.waiting.is_empty() {
            return false;
        }
        for key in 0..self.keys.len() {
            self.push(key, Op::Get, Form::Plain);
        }
        self.link.flush();
        true
    }

    /// Returns whether no command is without a reply.
    pub fn is_idle(&self) -> bool {
        self.link.ready && self.waiting.is_empty() && self.unknown.is_empty()
    }

    fn draw(&mut self, draws: &mut Draws, habits: &Habits) -> Op {
        // Most times to live are short, so that many keys expire during a run.
        let ttl = draws.between(1, habits.ttl_ms);
        let ttl = draws.between(1, ttl);
        self.next_value += 10;
        match draws.below(16) {
            0..4 => Op::Set(self.next_value, None),
            4..7 => Op::Set(self.next_value, Some(ttl)),
            7 | 8 => Op::Incr,
            9 => Op::Del,
            10 => Op::Expire(ttl),
            11 if draws.chance(500_000) => Op::Persist,
            11 => {
                let node = self.link.node;
                let now = world::with(|kernel| kernel.nodes[node].wall(kernel.now));
                Op::ExpireAt(now / MILLI + ttl)
            }
            _ => Op::Get,
        }
    }

    fn push(&mut self, key: usize, op: Op, form: Form) {
        let name = self.key_name(key);
        let line = op.line(&name, self.get);
        let arguments: Vec<&str> = line.split(' ').collect();
        recording::note(&arguments);
        let out = &mut self.link.unsent;
        let at = world::now();
        match form {
            Form::Plain | Form::Before => punctual_resp::encode_command(out, &arguments),
            Form::Transaction => {
                punctual_resp::encode_command(out, &["MULTI"]);
                punctual_resp::encode_command(out, &arguments);
                punctual_resp::encode_command(out, &["EXEC"]);
                for _ in 0..2 {
                    let (op, form) = (Op::Get, Form::Before);
                    self.waiting.push_back(Sent { key, op, form, at });
                }
            }
            Form::Script => {
                let script = "return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))";
                let mut line = vec!["EVAL", script, "1", &name, arguments[0]];
                line.extend_from_slice(&arguments[2..]);
                punctual_resp::encode_command(out, &line);
            }
        }
        self.waiting.push_back(Sent { key, op, form, at });
    }

    /// Handles a change of the client's connection. Returns true if the client can act again.
    pub fn changed(&mut self) -> bool {
        let arrived = self.link.read();
        let done = world::now();
        for reply in &arrived.replies {
            self.take(reply, done);
        }
        let moves = self.waiting.is_empty() && self.link.moves();
        if arrived.lost || moves {
            self.lose();
        }
        let idle = self.waiting.is_empty() && !arrived.replies.is_empty();
        arrived.lost || arrived.connected || idle
    }

    fn take(&mut self, reply: &Value, done: Nanos) {
        let Some(sent) = self.waiting.pop_front() else {
            verdict::stop(&format!("a reply without a command: {reply:.200?}"));
        };
        self.refused += u64::from(self.link.is_refused(reply, &sent.op));
        if sent.form == Form::Before {
            return;
        }
        self.done += 1;
        let reply = match (sent.form, reply) {
            (Form::Transaction, Value::Array(replies)) if replies.len() == 1 => &replies[0],
            (_, reply) => reply,
        };
        let span = Span {
            sent: sent.at,
            done,
        };
        let (node, number, key) = (self.link.node, self.number, &mut self.keys[sent.key]);
        let agrees = world::with(|kernel| {
            let trace = &kernel.trace;
            trace.tell(|| format!("c{number}:k{} {:?} {reply:?} {span:?}", sent.key, sent.op));
            key.reply(&sent.op, reply, span, &kernel.nodes[node])
        });
        if let Err(states) = agrees {
            verdict::stop(&format!(
                "client {} key {} {:?} sent at {} got {reply:?} at {done}, expected {states}",
                self.number, sent.key, sent.op, sent.at,
            ));
        }
    }

    /// Gives up the connection.
    pub fn lose(&mut self) {
        self.link.lose();
        self.unknown.append(&mut self.waiting);
    }

    /// Considers the commands without a reply, now that none of them can still run.
    fn settle_unknown(&mut self) {
        let done = world::now();
        for lost in self.unknown.drain(..) {
            let span = Span {
                sent: lost.at,
                done,
            };
            self.uncertain.insert(lost.key);
            let (node, key) = (self.link.node, &mut self.keys[lost.key]);
            let number = self.number;
            world::with(|kernel| {
                let trace = &kernel.trace;
                trace.tell(|| format!("c{number}:k{} {:?} lost {span:?}", lost.key, lost.op));
                key.lost(&lost.op, span, &kernel.nodes[node]);
            });
        }
    }
}
