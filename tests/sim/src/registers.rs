//! Registers: pairs of keys that several clients write and read. Each write gives both keys of a
//! pair the same value in one step, so each read must find the same value in both, and the history
//! of each register must be linearizable ([`crate::linear`]), over kills and failovers.

use punctual_resp::Value;

use crate::kernel::Nanos;
use crate::kernel::draws::Draws;
use crate::kernel::{MICRO, MILLI};
use crate::linear::{Action, OPERATIONS_MAX, Operation, ends};
use crate::link::{Link, Prepared};
use crate::party::{Common, Party};
use crate::{verdict, world};

/// Number of registers.
const COUNT: usize = 3;

/// A register's history since an instant at which no operation ran.
#[derive(Debug)]
struct Register {
    starts: Vec<u64>,
    history: Vec<Operation>,
    /// Number of operations that run.
    running: usize,
}

/// All registers.
#[derive(Debug)]
pub struct Registers {
    registers: Vec<Register>,
    next_value: u64,
    /// While its file cannot be written, a server answers reads with changes that a crash can
    /// lose, so reads prove nothing.
    ignores_reads: bool,
    /// Whether reads are commands that only a primary runs.
    reads_of_primary: bool,
}

impl Registers {
    pub fn new(files_fail: bool, failovers: bool) -> Self {
        let new = || Register {
            starts: vec![0],
            history: Vec::new(),
            running: 0,
        };
        Self {
            registers: (0..COUNT).map(|_| new()).collect(),
            next_value: 0,
            ignores_reads: files_fail,
            reads_of_primary: failovers,
        }
    }

    /// Returns a register on which one more operation may run.
    fn free(&mut self, draws: &mut Draws) -> Option<usize> {
        let at = draws.index(COUNT);
        let register = &mut self.registers[at];
        // The history ends when no operation runs, so sometimes no new one may begin.
        let full = register.history.len() + register.running >= OPERATIONS_MAX / 2;
        if full && register.running > 0 {
            return None;
        }
        register.running += 1;
        Some(at)
    }

    /// Ends an operation, with its action if it may have had an effect.
    fn end(&mut self, at: usize, operation: Option<Operation>) {
        let register = &mut self.registers[at];
        register.running -= 1;
        let is_read = |operation: &Operation| matches!(operation.action, Action::Read(_));
        let ignores = self.ignores_reads;
        let known = operation.filter(|operation| !(ignores && is_read(operation)));
        register.history.extend(known);
        if register.running > 0 {
            return;
        }
        let found = ends(&register.starts, &register.history);
        if found.is_empty() {
            verdict::stop(&format!(
                "register {at} is not linearizable: from {:?}, {:?}",
                register.starts, register.history
            ));
        }
        register.starts = found;
        register.history.clear();
    }
}

/// What a member has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Read,
    Write(u64),
    /// WATCH and a read, before a swap.
    Look,
    Swap(u64, u64),
}

#[derive(Debug)]
struct Sent {
    register: usize,
    step: Step,
    at: Nanos,
    /// Number of replies, and the replies so far.
    count: usize,
    replies: Vec<Value>,
}

/// A client that uses registers.
pub struct Member {
    link: Link,
    sent: Option<Sent>,
    unknown: Option<Sent>,
    /// Register and value for the next step, a swap.
    looked: Option<(usize, u64)>,
    done: u64,
    /// Whether it has used a register in the time without faults.
    drained: bool,
}

fn read_number(value: &Value) -> Option<u64> {
    match value {
        Value::Bulk(bytes) => std::str::from_utf8(bytes).ok()?.parse().ok(),
        Value::NullBulk => Some(0),
        _ => None,
    }
}

/// Returns whether a reply, or a reply within it, is an error.
pub fn has_error(reply: &Value) -> bool {
    match reply {
        Value::Error(_) => true,
        Value::Array(parts) => parts.iter().any(has_error),
        _ => false,
    }
}

impl Member {
    pub fn new(nodes: usize) -> Self {
        Self {
            link: Link::new(nodes),
            sent: None,
            unknown: None,
            looked: None,
            done: 0,
            drained: false,
        }
    }

    /// Sends the commands of a step.
    fn send(&mut self, register: usize, step: Step, of_primary: bool, draws: &mut Draws) {
        let keys = [format!("reg:{register}"), format!("twin:{register}")];
        let [a, b] = keys.each_ref().map(String::as_str);
        let read = match of_primary && step == Step::Read {
            true => vec![
                vec!["MULTI"],
                vec!["GETEX", a],
                vec!["GETEX", b],
                vec!["EXEC"],
            ],
            false => vec![vec!["MGET", a, b]],
        };
        let new = match step {
            Step::Write(new) | Step::Swap(_, new) => new.to_string(),
            _ => String::new(),
        };
        // A long write in the middle, so that a torn file often ends between the two keys.
        let pad = "x".repeat(3_000);
        let sets = match draws.below(3) {
            0 => vec![
                vec!["SET", a, &new],
                vec!["SET", "pad", &pad],
                vec!["SET", b, &new],
            ],
            _ => vec![vec!["MSET", a, &new, b, &new]],
        };
        let script =
            "redis.call('SET', KEYS[1], ARGV[1]) redis.call('SET', KEYS[2], ARGV[1]) return 1";
        let lines: Vec<Vec<&str>> = match step {
            Step::Read => read,
            Step::Look => [vec![vec!["WATCH", a, b]], read].concat(),
            Step::Write(_) if draws.chance(200_000) => {
                vec![vec!["EVAL", script, "2", a, b, &new]]
            }
            Step::Write(_) if sets.len() == 1 => sets,
            _ => [vec![vec!["MULTI"]], sets, vec![vec!["EXEC"]]].concat(),
        };
        lines.iter().for_each(|line| self.link.push(line));
        self.sent = Some(Sent {
            register,
            step,
            at: world::now(),
            count: lines.len(),
            replies: Vec::new(),
        });
        self.link.flush();
    }

    /// Handles the replies of a step.
    fn ended(&mut self, sent: Sent, registers: &mut Registers) {
        let done = world::now();
        let operation = |action| Operation {
            action,
            sent: sent.at,
            done,
            maybe: false,
        };
        let shown = || format!("{sent:?}");
        world::with(|kernel| kernel.trace.tell(shown));
        let last = sent.replies.last().expect("a step has a reply");
        self.done += sent.count as u64;
        let refused = sent.replies.iter().any(has_error);
        let action = match (sent.step, last) {
            _ if refused => None,
            // The watch of a look whose read was refused also counts for the next transaction.
            (_, Value::NullArray | Value::NullBulk) => None,
            (Step::Read | Step::Look, Value::Array(pair)) => {
                let values: Vec<Option<u64>> = pair.iter().map(read_number).collect();
                let [Some(a), Some(b)] = values[..] else {
                    verdict::stop(&format!("a pair is not readable: {sent:?}"));
                };
                if a != b {
                    verdict::stop(&format!("a pair has two values: {sent:?}"));
                }
                if sent.step == Step::Look {
                    self.looked = Some((sent.register, a));
                }
                // A replica may read what is no longer the latest value.
                let stale = sent.step == Step::Look && registers.reads_of_primary;
                (!stale).then_some(Action::Read(a))
            }
            (Step::Write(value), _) => Some(Action::Write(value)),
            (Step::Swap(old, new), Value::Array(_)) => Some(Action::Swap(old, new)),
            _ => verdict::stop(&format!("an unexpected reply: {sent:?}")),
        };
        registers.end(sent.register, action.map(operation));
    }

    fn settle_unknown(&mut self, registers: &mut Registers) {
        let Some(sent) = self.unknown.take() else {
            return;
        };
        let action = match sent.step {
            Step::Read | Step::Look => None,
            Step::Write(value) => Some(Action::Write(value)),
            Step::Swap(old, new) => Some(Action::Swap(old, new)),
        };
        let operation = action.map(|action| Operation {
            action,
            sent: sent.at,
            done: world::now(),
            maybe: true,
        });
        registers.end(sent.register, operation);
    }
}

impl Party for Member {
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }

    fn act(&mut self, common: &mut Common, draws: &mut Draws) -> Option<Nanos> {
        let registers = &mut common.registers;
        let prepared = self.link.prepare();
        if let Prepared::Ready { settled: true } | Prepared::Connecting { settled: true } = prepared
        {
            self.settle_unknown(registers);
        }
        match prepared {
            Prepared::Later(pause) => return Some(pause),
            Prepared::Ready { .. } if self.sent.is_none() => {}
            _ => return None,
        }
        if self.drained {
            return Some(50 * MILLI);
        }
        registers.next_value += 1;
        let value = registers.next_value;
        if let Some((register, old)) = self.looked.take() {
            registers.registers[register].running += 1;
            self.send(register, Step::Swap(old, value), false, draws);
            return None;
        }
        let Some(register) = registers.free(draws) else {
            return Some(draws.between(10 * MICRO, 2 * MILLI));
        };
        let step = match draws.below(8) {
            _ if common.drains => Step::Read,
            0..3 => Step::Write(value),
            3..5 => Step::Look,
            _ => Step::Read,
        };
        let of_primary = registers.reads_of_primary;
        self.send(register, step, of_primary, draws);
        None
    }

    fn changed(&mut self, common: &mut Common, _draws: &mut Draws) -> bool {
        let arrived = self.link.read();
        let mut ended = false;
        for reply in arrived.replies {
            let Some(sent) = &mut self.sent else {
                verdict::stop(&format!("a reply without a command: {reply:.200?}"));
            };
            self.link.is_refused(&reply, &sent.step);
            sent.replies.push(reply);
            if sent.replies.len() == sent.count
                && let Some(sent) = self.sent.take()
            {
                ended = true;
                self.ended(sent, &mut common.registers);
            }
        }
        self.drained |= ended && common.drains;
        if arrived.lost || self.sent.is_none() && self.link.moves() {
            self.lose();
        }
        arrived.lost || arrived.connected || ended
    }

    fn lose(&mut self) {
        self.link.lose();
        self.looked = None;
        if let Some(sent) = self.sent.take() {
            self.unknown = Some(sent);
        }
    }

    fn missing(&self) -> Option<String> {
        (!self.drained).then(|| "a read of a register".into())
    }

    fn done(&self) -> u64 {
        self.done
    }
}
