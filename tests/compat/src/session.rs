//! Sorts the frames (replies and messages) of a pub/sub session where their order is undefined.
//!
//! The frames of a session are compared as a sequence, because their number per command depends on
//! the subscriptions. The order is undefined in three cases. Messages through several matching
//! patterns, and the channels of an UNSUBSCRIBE without arguments, have the order of a hash table
//! with a random seed. In RESP3, a message that a connection publishes to itself may come before or
//! after the reply of PUBLISH.

use punctual_resp::Value;

use crate::events::Message;

/// Returns the frames in canonical order, without `expired` events: equal results mean equal
/// sessions.
pub fn canonical(frames: Vec<Value>) -> Vec<Value> {
    let (mut pushes, replies): (Vec<Value>, Vec<Value>) = frames
        .into_iter()
        // A server may publish an `expired` event at any time.
        .filter(|frame| !Message::of(frame).is_some_and(|message| message.is_expired()))
        .partition(|frame| matches!(frame, Value::Push(_)));
    pushes.extend(replies);
    let mut start = 0;
    while start < pushes.len() {
        let run = Run::of(&pushes[start]);
        let length = 1 + pushes[start + 1..]
            .iter()
            .take_while(|frame| run.is_some() && Run::of(frame) == run)
            .count();
        let frames = &mut pushes[start..start + length];
        match run {
            Some(Run::Delivery { .. }) => frames.sort_by_key(|frame| format!("{frame:?}")),
            Some(Run::Unsubscribing { .. }) => sort_channels(frames),
            None => {}
        }
        start += length;
    }
    pushes
}

/// A run of adjacent frames whose order is undefined.
#[derive(PartialEq, Eq)]
enum Run {
    /// The same message, through several patterns.
    Delivery { channel: Vec<u8>, payload: Vec<u8> },
    /// Confirmations of unsubscribing from channels or patterns.
    Unsubscribing { kind: Vec<u8> },
}

impl Run {
    fn of(frame: &Value) -> Option<Run> {
        if let Some(message) = Message::of(frame) {
            return (message.kind == b"pmessage").then(|| Run::Delivery {
                channel: message.channel.to_vec(),
                payload: message.payload.to_vec(),
            });
        }
        let (Value::Array(parts) | Value::Push(parts)) = frame else {
            return None;
        };
        let [kind, _, Value::Int(_)] = &parts[..] else {
            return None;
        };
        let kind = kind.as_bytes()?;
        kind.ends_with(b"unsubscribe").then(|| Run::Unsubscribing {
            kind: kind.to_vec(),
        })
    }
}

/// Sorts the channels of the confirmations, but not the numbers of remaining subscriptions in them.
fn sort_channels(frames: &mut [Value]) {
    let mut channels: Vec<Value> = frames
        .iter_mut()
        .filter_map(|frame| match frame {
            Value::Array(parts) | Value::Push(parts) => {
                Some(std::mem::replace(&mut parts[1], Value::Null))
            }
            _ => None,
        })
        .collect();
    channels.sort_by_key(|channel| format!("{channel:?}"));
    for (frame, channel) in frames.iter_mut().zip(channels) {
        if let Value::Array(parts) | Value::Push(parts) = frame {
            parts[1] = channel;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unsubscribing(channel: &str, left: i64) -> Value {
        Value::Push(vec![
            Value::bulk("unsubscribe"),
            Value::bulk(channel),
            Value::Int(left),
        ])
    }

    fn pmessage(pattern: &str, payload: &str) -> Value {
        Value::Array(
            ["pmessage", pattern, "ch", payload]
                .iter()
                .map(Value::bulk)
                .collect(),
        )
    }

    #[test]
    fn the_order_of_unsubscribing_is_ignored_but_not_the_counts() {
        let one = canonical(vec![unsubscribing("a", 1), unsubscribing("b", 0)]);
        assert_eq!(
            one,
            canonical(vec![unsubscribing("b", 1), unsubscribing("a", 0)])
        );
        assert_ne!(
            one,
            canonical(vec![unsubscribing("a", 0), unsubscribing("b", 1)])
        );
        assert_ne!(
            one,
            canonical(vec![unsubscribing("a", 1), unsubscribing("c", 0)])
        );
    }

    #[test]
    fn the_order_of_patterns_is_ignored_but_not_that_of_messages() {
        let one = canonical(vec![
            pmessage("*", "1"),
            pmessage("c*", "1"),
            pmessage("*", "2"),
        ]);
        assert_eq!(
            one,
            canonical(vec![
                pmessage("c*", "1"),
                pmessage("*", "1"),
                pmessage("*", "2")
            ])
        );
        assert_ne!(
            one,
            canonical(vec![
                pmessage("*", "2"),
                pmessage("c*", "1"),
                pmessage("*", "1")
            ])
        );
    }

    #[test]
    fn pushes_and_replies_are_two_sequences() {
        let push = unsubscribing("a", 0);
        assert_eq!(
            canonical(vec![Value::Int(1), push.clone()]),
            canonical(vec![push.clone(), Value::Int(1)])
        );
        assert_ne!(
            canonical(vec![Value::Int(1), Value::Int(2)]),
            canonical(vec![Value::Int(2), Value::Int(1)])
        );
    }
}
