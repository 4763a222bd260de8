//! Keyspace events and messages, received by a connection that subscribes to everything.
//!
//! Events must come in the same order on both servers, with two exceptions. A server may notice a
//! passed deadline at any time (ours notices it at once), so `expired` events are compared as a
//! multiset, after commands have accessed every expired key. The `keymiss` events of adjacent
//! lookups by SORT have no defined order.

use std::collections::BTreeMap;

use punctual_resp::Value;

use crate::command::Command;
use crate::generate::{Protocol, SORT_PREFIXES};
use crate::link::{Addresses, LinkError, Pair};
use crate::report::{Finding, show};

/// A message on this channel marks the end of a sequence of events.
const FENCE: &str = "compat:fence";

/// Number of events shown before a difference, and maximum number of unmatched `expired` events
/// shown for a server.
const CONTEXT: usize = 4;

/// The parts of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'v> {
    /// The type of the message: `message`, `pmessage` or `smessage`.
    pub kind: &'v [u8],
    /// The channel to which the message was published.
    pub channel: &'v [u8],
    /// The published bytes.
    pub payload: &'v [u8],
}

impl<'v> Message<'v> {
    /// Parses a frame of either protocol, if it is a message.
    pub fn of(value: &'v Value) -> Option<Self> {
        let parts = match value {
            Value::Array(parts) | Value::Push(parts) => parts,
            _ => return None,
        };
        let kind = parts.first()?.as_bytes()?;
        match (kind, &parts[..]) {
            (b"message" | b"smessage", [_, channel, payload])
            | (b"pmessage", [_, _, channel, payload]) => Some(Self {
                kind,
                channel: channel.as_bytes()?,
                payload: payload.as_bytes()?,
            }),
            _ => None,
        }
    }

    /// Returns true for an `expired` event.
    pub fn is_expired(&self) -> bool {
        (self.channel.starts_with(b"__keyspace@") && self.payload == b"expired")
            || (self.channel.starts_with(b"__keyevent@") && self.channel.ends_with(b"__:expired"))
    }

    /// Returns the key of a keyspace event.
    pub fn key(&self) -> Option<&'v [u8]> {
        if self.channel.starts_with(b"__keyevent@") {
            return Some(self.payload);
        }
        let rest = self.channel.strip_prefix(b"__keyspace@")?;
        let at = rest.windows(3).position(|three| three == b"__:")?;
        Some(&rest[at + 3..])
    }
}

/// A connection to each server that is subscribed to everything.
#[derive(Debug)]
pub struct Events {
    /// `None` if disabled.
    pair: Option<Pair>,
    fences: u64,
    /// For each `expired` event that one server has published more often: the number on A minus the
    /// number on B.
    expired: BTreeMap<String, i64>,
}

impl Events {
    /// Connects and subscribes to every channel.
    ///
    /// # Errors
    /// A [`LinkError`].
    pub fn subscribe(addresses: Addresses, protocol: Protocol) -> Result<Self, LinkError> {
        let mut pair = Pair::connect(addresses)?;
        pair.ask(&protocol.hello())?;
        pair.ask(&Command::of(&["PSUBSCRIBE", "*"]))?;
        Ok(Self {
            pair: Some(pair),
            fences: 0,
            expired: BTreeMap::new(),
        })
    }

    /// Returns a receiver without events, for servers that publish none: every sequence is empty.
    pub fn disabled() -> Self {
        Self {
            pair: None,
            fences: 0,
            expired: BTreeMap::new(),
        }
    }

    /// Returns the command that ends a sequence for [`Events::collect`]. Send it last on the
    /// connection whose events are compared.
    #[must_use]
    pub fn fence(&mut self) -> Command {
        self.fences += 1;
        let number = self.fences.to_string();
        match self.pair {
            Some(_) => Command::of(&["PUBLISH", FENCE, &number]),
            None => Command::of(&["ECHO", &number]),
        }
    }

    /// Reads and compares all messages up to the last fence. Returns `Ok(None)` if they are equal.
    ///
    /// # Errors
    /// A [`LinkError`]; `Silent` if the fence does not come.
    pub fn collect(&mut self) -> Result<Option<Finding>, LinkError> {
        let (a, b) = self.read_to_fence()?;
        for (messages, sign) in [(&a, 1), (&b, -1)] {
            for value in messages.iter().filter(|value| is_expired(value)) {
                *self.expired.entry(show(value)).or_default() += sign;
            }
        }
        self.expired.retain(|_, balance| *balance != 0);
        let ordered = |messages: Vec<Value>| -> Vec<Value> {
            let mut ordered: Vec<Value> = messages
                .into_iter()
                .filter(|value| !is_expired(value))
                .collect();
            for run in
                ordered.chunk_by_mut(|one, next| is_missed_weight(one) && is_missed_weight(next))
            {
                run.sort_by_cached_key(show);
            }
            ordered
        };
        Ok(first_difference(&ordered(a), &ordered(b)))
    }

    /// Reads and discards all messages up to the last fence.
    ///
    /// # Errors
    /// A [`LinkError`].
    pub fn discard(&mut self) -> Result<(), LinkError> {
        self.read_to_fence().map(drop)
    }

    /// Returns the `expired` events that only one server has published so far, or `None` if they
    /// published the same.
    pub fn unsettled(&self) -> Option<Finding> {
        if self.expired.is_empty() {
            return None;
        }
        let side = |sign: i64| {
            let events: Vec<&str> = self
                .expired
                .iter()
                .filter(|(_, balance)| **balance * sign > 0)
                .take(CONTEXT)
                .map(|(event, _)| event.as_str())
                .collect();
            if events.is_empty() {
                "nothing more".to_owned()
            } else {
                events.join("  ")
            }
        };
        Some(Finding {
            headline: "expired events that only one server published".to_owned(),
            command: None,
            a: side(1),
            b: side(-1),
            keys: Vec::new(),
            probes: None,
        })
    }

    fn read_to_fence(&mut self) -> Result<(Vec<Value>, Vec<Value>), LinkError> {
        let last = self.fences.to_string();
        let is_fence = |value: &Value| {
            Message::of(value).is_some_and(|message| {
                message.channel == FENCE.as_bytes() && message.payload == last.as_bytes()
            })
        };
        match &mut self.pair {
            Some(pair) => pair.read_until(is_fence),
            None => Ok((Vec::new(), Vec::new())),
        }
    }
}

fn is_expired(value: &Value) -> bool {
    Message::of(value).is_some_and(|message| message.is_expired())
}

/// Returns true for the `keymiss` event of a lookup by SORT. SORT looks keys up in the order of the
/// set's elements, which is undefined.
fn is_missed_weight(value: &Value) -> bool {
    let Some(message) = Message::of(value) else {
        return false;
    };
    let missed = message.payload == b"keymiss" || message.channel.ends_with(b"__:keymiss");
    missed
        && message.key().is_some_and(|key| {
            SORT_PREFIXES
                .iter()
                .any(|prefix| key.starts_with(prefix.as_bytes()))
        })
}

/// Returns the first difference between two sequences.
pub fn first_difference(a: &[Value], b: &[Value]) -> Option<Finding> {
    let at = (0..a.len().max(b.len())).find(|&at| a.get(at) != b.get(at))?;
    let around = |values: &[Value]| {
        let from = at.saturating_sub(CONTEXT);
        let shown: Vec<String> = values
            .iter()
            .skip(from)
            .take(at - from + 2)
            .map(show)
            .collect();
        format!(
            "{} (then {} more)",
            shown.join("  "),
            values.len().saturating_sub(at + 2)
        )
    };
    let keys = [a.get(at), b.get(at)]
        .into_iter()
        .flatten()
        .filter_map(|value| Message::of(value)?.key())
        .map(<[u8]>::to_vec)
        .collect();
    Some(Finding {
        headline: format!("message {at} of a sequence of events"),
        command: None,
        a: around(a),
        b: around(b),
        keys,
        probes: Some(Vec::new()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pmessage(channel: &str, payload: &str) -> Value {
        Value::Array(
            ["pmessage", "*", channel, payload]
                .iter()
                .map(Value::bulk)
                .collect(),
        )
    }

    #[test]
    fn messages_have_keys() {
        let value = pmessage("__keyspace@0__:a__:b", "set");
        assert_eq!(Message::of(&value).unwrap().key(), Some(&b"a__:b"[..]));
        let value = pmessage("__keyevent@12__:expired", "k");
        let message = Message::of(&value).unwrap();
        assert_eq!(
            (message.key(), message.is_expired()),
            (Some(&b"k"[..]), true)
        );
        assert!(Message::of(&Value::Int(1)).is_none());
    }

    #[test]
    fn sequences_differ_at_the_first_difference_or_the_shorter_end() {
        let set = pmessage("__keyevent@0__:set", "k");
        let del = pmessage("__keyevent@0__:del", "k");
        assert!(
            first_difference(&[set.clone(), del.clone()], &[set.clone(), del.clone()]).is_none()
        );
        let finding = first_difference(&[set.clone(), del], std::slice::from_ref(&set)).unwrap();
        assert_eq!(finding.keys, [b"k".to_vec()]);
        assert!(first_difference(&[], &[set]).is_some());
    }
}
