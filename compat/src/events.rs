//! Keyspace events and messages, as a connection that subscribes to everything sees them.
//!
//! Events must come in the same order on both servers, but for `expired`: when a server notices that a deadline has
//! passed is its own business (that ours notices at once is what it is for), so those are compared as a
//! multiset, and only once every lapsed key has been met by a command. Nor is there an order in what SORT looks up.

use std::collections::BTreeMap;

use punctual_resp::Value;

use crate::command::Command;
use crate::generate::{Protocol, SORT_PREFIXES};
use crate::link::{Addresses, LinkError, Pair};
use crate::report::{Finding, show};

/// Where the end of a stretch of events is announced.
const FENCE: &str = "compat:fence";

/// How many events before a difference a report shows.
const CONTEXT: usize = 4;

/// A message, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'v> {
    /// `message`, `pmessage`, `smessage`.
    pub kind: &'v [u8],
    /// Where it was published.
    pub channel: &'v [u8],
    /// What was published.
    pub payload: &'v [u8],
}

impl<'v> Message<'v> {
    /// The message in a frame, of either protocol, if it is one.
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

    /// Whether it tells that a key expired.
    pub fn is_expired(&self) -> bool {
        (self.channel.starts_with(b"__keyspace@") && self.payload == b"expired")
            || (self.channel.starts_with(b"__keyevent@") && self.channel.ends_with(b"__:expired"))
    }

    /// The key it is about, if it is a keyspace event.
    pub fn key(&self) -> Option<&'v [u8]> {
        if self.channel.starts_with(b"__keyevent@") {
            return Some(self.payload);
        }
        let rest = self.channel.strip_prefix(b"__keyspace@")?;
        let at = rest.windows(3).position(|three| three == b"__:")?;
        Some(&rest[at + 3..])
    }
}

/// A connection to each server that hears everything.
#[derive(Debug)]
pub struct Events {
    /// `None`: hears nothing.
    pair: Option<Pair>,
    fences: u64,
    /// How many more times A told an expiry than B did; only what is out of balance.
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

    /// Hears nothing, for servers that publish nothing: every stretch is empty.
    pub fn deaf() -> Self {
        Self {
            pair: None,
            fences: 0,
            expired: BTreeMap::new(),
        }
    }

    /// The command that, sent last on the connection whose events are compared, ends the stretch for [`Events::collect`].
    #[must_use]
    pub fn fence(&mut self) -> Command {
        self.fences += 1;
        let number = self.fences.to_string();
        match self.pair {
            Some(_) => Command::of(&["PUBLISH", FENCE, &number]),
            None => Command::of(&["ECHO", &number]),
        }
    }

    /// Takes everything up to the last fence and compares it; `Ok(None)`: the same.
    ///
    /// # Errors
    /// A [`LinkError`], `Silent` if the fence never comes.
    pub fn collect(&mut self) -> Result<Option<Finding>, LinkError> {
        let (a, b) = self.take()?;
        for (told, sign) in [(&a, 1), (&b, -1)] {
            for value in told.iter().filter(|value| is_expired(value)) {
                *self.expired.entry(show(value)).or_default() += sign;
            }
        }
        self.expired.retain(|_, balance| *balance != 0);
        let ordered = |told: Vec<Value>| -> Vec<Value> {
            let mut told: Vec<Value> = told
                .into_iter()
                .filter(|value| !is_expired(value))
                .collect();
            for run in
                told.chunk_by_mut(|one, next| is_missed_weight(one) && is_missed_weight(next))
            {
                run.sort_by_cached_key(show);
            }
            told
        };
        Ok(first_difference(&ordered(a), &ordered(b)))
    }

    /// Takes everything up to the last fence and forgets it.
    ///
    /// # Errors
    /// A [`LinkError`].
    pub fn discard(&mut self) -> Result<(), LinkError> {
        self.take().map(drop)
    }

    /// The expiries that only one side told so far; `None`: none.
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

    fn take(&mut self) -> Result<(Vec<Value>, Vec<Value>), LinkError> {
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

/// Whether it tells that SORT looked for a key in vain. The elements of sets come to it in any order, and so do these.
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

/// Where two sequences part.
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
        headline: format!("message {at} of a stretch of events"),
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
    fn messages_tell_their_keys() {
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
    fn sequences_part_at_the_first_difference_and_at_the_shorter_end() {
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
