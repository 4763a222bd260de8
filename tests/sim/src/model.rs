//! What a key may hold: the states that agree with all replies so far.
//!
//! Each key has one client, whose commands run in order, so the state is known exactly, except
//! after a connection is lost: then each command without a reply may or may not have run. A
//! deadline is known up to the time between a command's sending and its reply.

use punctual_resp::Value;

use crate::kernel::nodes::Node;
use crate::kernel::{MILLI, Nanos};
use crate::limits::Evicts;

/// A command on a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// SET, with a time to live in milliseconds.
    Set(u64, Option<u64>),
    Get,
    Del,
    Incr,
    /// PEXPIRE.
    Expire(u64),
    /// PEXPIREAT.
    ExpireAt(u64),
    Persist,
}

impl Op {
    /// Returns the command's words, with spaces between them. `get` is the command that reads.
    pub fn line(&self, key: &str, get: &str) -> String {
        match self {
            Self::Set(value, None) => format!("SET {key} {value}"),
            Self::Set(value, Some(ms)) => format!("SET {key} {value} PX {ms}"),
            Self::Get => format!("{get} {key}"),
            Self::Del => format!("DEL {key}"),
            Self::Incr => format!("INCR {key}"),
            Self::Expire(ms) => format!("PEXPIRE {key} {ms}"),
            Self::ExpireAt(ms) => format!("PEXPIREAT {key} {ms}"),
            Self::Persist => format!("PERSIST {key}"),
        }
    }

    /// Returns whether the command can change the key.
    pub fn writes(&self) -> bool {
        *self != Self::Get
    }
}

/// Earliest and latest time of a deadline, in nanoseconds of the node's wall clock.
type Deadline = Option<(Nanos, Nanos)>;

/// A state of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Absent,
    Holds {
        value: u64,
        deadline: Deadline,
        /// True time at which the deadline was set.
        since: Nanos,
    },
}

/// The true times between which a command ran.
#[derive(Clone, Copy, Debug, Default)]
pub struct Span {
    pub sent: Nanos,
    pub done: Nanos,
}

/// The possible states of a key.
#[derive(Clone, Debug)]
pub struct Key {
    states: Vec<State>,
    /// While its file cannot be written, a server answers reads with changes that a crash can
    /// lose. So a read does not tell which of the possible states survives.
    reads_prove_nothing: bool,
}

/// Returns whether a key in this state can be there, or not be there, for a command in this span.
fn seen(state: State, is_there: bool, span: Span, node: &Node) -> bool {
    let State::Holds {
        deadline, since, ..
    } = state
    else {
        return !is_there;
    };
    let Some((earliest, latest)) = deadline else {
        return is_there || node.evicts == Evicts::All;
    };
    match is_there {
        false if matches!(node.evicts, Evicts::Volatile | Evicts::All) => true,
        // A reading of the clock rounds down to a millisecond, and a deadline rounds up.
        true => node.wall_range(span.sent, span.done).0 < latest + MILLI,
        false => node.wall_range(since, span.done).1 >= earliest,
    }
}

fn deadline_in(ms: u64, span: Span, node: &Node) -> Deadline {
    let (low, high) = node.wall_range(span.sent, span.done);
    Some((low + ms * MILLI, high + ms * MILLI + MILLI))
}

/// Returns the state after a command whose effect is known.
fn after(state: State, op: &Op, was_there: bool, span: Span, node: &Node) -> State {
    let kept = match was_there {
        true => state,
        false => State::Absent,
    };
    match (op, kept) {
        (Op::Set(value, ttl), _) => State::Holds {
            value: *value,
            deadline: ttl.and_then(|ms| deadline_in(ms, span, node)),
            since: span.sent,
        },
        (Op::Del, _) => State::Absent,
        (Op::Get, kept) => kept,
        (Op::Incr, State::Absent) => State::Holds {
            value: 1,
            deadline: None,
            since: span.sent,
        },
        (
            Op::Incr,
            State::Holds {
                value,
                deadline,
                since,
            },
        ) => State::Holds {
            value: value + 1,
            deadline,
            since,
        },
        (_, State::Absent) => State::Absent,
        (Op::Expire(ms), State::Holds { value, .. }) => State::Holds {
            value,
            deadline: deadline_in(*ms, span, node),
            since: span.sent,
        },
        (Op::ExpireAt(ms), State::Holds { value, .. }) => State::Holds {
            value,
            deadline: Some((ms * MILLI, ms * MILLI)),
            since: span.sent,
        },
        (Op::Persist, State::Holds { value, since, .. }) => State::Holds {
            value,
            deadline: None,
            since,
        },
    }
}

/// Returns the state after a command, if the reply agrees with the state before.
fn step(state: State, op: &Op, reply: &Value, span: Span, node: &Node) -> Option<State> {
    let held = match state {
        State::Holds { value, .. } => Some(value),
        State::Absent => None,
    };
    let had_deadline = matches!(
        state,
        State::Holds {
            deadline: Some(_),
            ..
        }
    );
    let there = match (op, reply) {
        (Op::Set(..), Value::Simple(ok)) if ok == b"OK" => false,
        (Op::Get, Value::NullBulk) => false,
        (Op::Get, Value::Bulk(bytes)) => {
            let value = std::str::from_utf8(bytes).ok()?.parse().ok()?;
            (held == Some(value)).then_some(true)?
        }
        (Op::Incr, Value::Int(1)) if held != Some(0) => false,
        (Op::Incr, Value::Int(value)) => {
            let before = u64::try_from(*value).ok()?.checked_sub(1)?;
            (held == Some(before)).then_some(true)?
        }
        (Op::Del | Op::Expire(_) | Op::ExpireAt(_), Value::Int(count @ (0 | 1))) => *count == 1,
        (Op::Persist, Value::Int(1)) => had_deadline.then_some(true)?,
        (Op::Persist, Value::Int(0)) if held.is_some() && !had_deadline => true,
        (Op::Persist, Value::Int(0)) => false,
        _ => return None,
    };
    let looks = !matches!(op, Op::Set(..));
    (!looks || seen(state, there, span, node)).then(|| after(state, op, there, span, node))
}

impl Key {
    /// Returns a key that does not exist.
    pub fn absent(reads_prove_nothing: bool) -> Self {
        Self {
            states: vec![State::Absent],
            reads_prove_nothing,
        }
    }

    /// Applies a command and its reply.
    ///
    /// # Errors
    /// Returns the states before the command if none of them agrees with the reply.
    pub fn reply(&mut self, op: &Op, reply: &Value, span: Span, node: &Node) -> Result<(), String> {
        if let Value::Error(_) = reply {
            return Ok(());
        }
        let states = self.states.iter();
        let next = states.filter_map(|state| step(*state, op, reply, span, node));
        let mut next: Vec<State> = next.collect();
        next.dedup();
        if next.is_empty() {
            return Err(format!("{:?}", self.states));
        }
        if self.reads_prove_nothing && !op.writes() {
            return Ok(());
        }
        self.states = next;
        Ok(())
    }

    /// Applies a command that may have run without a reply.
    pub fn lost(&mut self, op: &Op, span: Span, node: &Node) {
        if !op.writes() {
            return;
        }
        for state in self.states.clone() {
            for was_there in [true, false] {
                if seen(state, was_there, span, node) || matches!(op, Op::Set(..)) {
                    let next = after(state, op, was_there, span, node);
                    if !self.states.contains(&next) {
                        self.states.push(next);
                    }
                }
            }
        }
    }
}
