//! Entries of a stream that workers read in a group with a lease: an entry is delivered to one
//! worker at a time, and not again after its acknowledgement.

use std::collections::BTreeMap;

use punctual_resp::Value;

use crate::kernel::Nanos;
use crate::model::Span;
use crate::verdict;

/// Lease of the group.
pub const LEASE_MS: u64 = 300;

/// Returns whether a lease that began within the span may be over at a time.
type Over<'a> = &'a dyn Fn(Span, Nanos) -> bool;

#[derive(Debug, Default)]
struct Entry {
    known: bool,
    /// Time of the reply to the acknowledgement.
    acknowledged: Option<Nanos>,
    /// An acknowledgement has no reply.
    maybe_done: bool,
    delivery: Option<Span>,
}

/// Everything that the workers know about the stream.
#[derive(Debug, Default)]
pub struct Entries {
    /// Number of commands that have prepared the group: its creation, and its lease.
    pub prepared: usize,
    entries: BTreeMap<u64, Entry>,
    /// Number of open entries.
    open: usize,
}

impl Entry {
    /// Returns whether the entry must still be delivered and acknowledged.
    fn is_open(&self) -> bool {
        self.known && self.acknowledged.is_none() && !self.maybe_done
    }
}

fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Bulk(bytes) => std::str::from_utf8(bytes).ok()?.parse().ok(),
        _ => None,
    }
}

fn parts(value: &Value) -> Option<&[Value]> {
    match value {
        Value::Array(parts) => Some(parts),
        _ => None,
    }
}

/// Returns the ID of the entry in a reply of XREADGROUP, and its number.
fn entry_of(reply: &Value) -> Option<(String, u64)> {
    let stream = parts(parts(reply)?.first()?)?;
    let [id, fields] = parts(parts(stream.get(1)?)?.first()?)? else {
        return None;
    };
    let Value::Bulk(id) = id else { return None };
    let id = String::from_utf8_lossy(id).into_owned();
    Some((id, number(parts(fields)?.get(1)?)?))
}

impl Entries {
    /// Notes that XADD was sent.
    pub fn sent(&mut self, id: u64) {
        self.entries.insert(id, Entry::default());
    }

    /// Notes the reply of XADD.
    pub fn added(&mut self, id: u64) {
        self.change(id, |entry| entry.known = true);
    }

    /// Changes an entry, if it exists, and counts it if it is open.
    fn change(&mut self, number: u64, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.entries.get_mut(&number) {
            self.open -= usize::from(entry.is_open());
            change(entry);
            self.open += usize::from(entry.is_open());
        }
    }

    /// Checks a reply of XREADGROUP. Returns the ID of the entry and its number.
    pub fn read(
        &mut self,
        reply: &Value,
        span: Span,
        is_certain: bool,
        may_be_over: Over,
    ) -> Option<(String, u64)> {
        let (id, number) = entry_of(reply)?;
        let Some(entry) = self.entries.get_mut(&number) else {
            verdict::stop(&format!("an entry that nobody added: {number}"));
        };
        if entry.acknowledged.is_some_and(|at| at < span.sent) {
            verdict::stop(&format!(
                "an entry comes back after its acknowledgement: {number}, {entry:?}, {span:?}"
            ));
        }
        if let Some(other) = entry.delivery {
            let (sent, done) = (other.sent.min(span.sent), other.done.max(span.done));
            // Either may have been first, unless one came after the other's end.
            let first = match other.done < span.sent {
                true => other,
                false => Span { sent, done },
            };
            if !may_be_over(first, done) {
                verdict::stop(&format!(
                    "an entry is delivered to two: {number}, {entry:?}, {span:?}"
                ));
            }
        }
        if is_certain {
            entry.delivery = Some(span);
        }
        Some((id, number))
    }

    /// Notes the reply of XACK; `None` if it was lost.
    pub fn acknowledged(&mut self, number: u64, reply: Option<(&Value, Nanos)>) {
        self.change(number, |entry| match reply {
            Some((Value::Int(1), at)) => entry.acknowledged = Some(at),
            _ => entry.maybe_done = true,
        });
    }

    /// Returns the number of entries that must still be delivered and acknowledged.
    pub fn missing(&self) -> usize {
        self.open
    }
}
