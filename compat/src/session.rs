//! A pub/sub session's frames, brought into an order that two servers can agree on.
//!
//! Frames are compared as sequences, since how many a command causes depends on what is subscribed. Three things
//! have no order of their own: which of several matching patterns delivers first and which channel an UNSUBSCRIBE
//! of everything leaves first (both follow a hash table with a random seed), and, in RESP3, whether a message a
//! connection publishes to itself comes before or after the reply.

use punctual_resp::Value;

use crate::events::Message;

/// The frames in canonical order: equal sequences mean the same session.
pub fn canonical(frames: Vec<Value>) -> Vec<Value> {
    let (mut pushes, replies): (Vec<Value>, Vec<Value>) = frames
        .into_iter()
        // When an expiry is told is the server's business.
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
            Some(Run::Leaving { .. }) => sort_channels(frames),
            None => {}
        }
        start += length;
    }
    pushes
}

/// What makes neighbouring frames one run whose order means nothing.
#[derive(PartialEq, Eq)]
enum Run {
    /// One message through several patterns.
    Delivery { channel: Vec<u8>, payload: Vec<u8> },
    /// Confirmations of leaving channels or patterns.
    Leaving { kind: Vec<u8> },
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
        kind.ends_with(b"unsubscribe").then(|| Run::Leaving {
            kind: kind.to_vec(),
        })
    }
}

/// Sorts the channels of confirmations and leaves the counts where they are.
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

    fn leaving(channel: &str, left: i64) -> Value {
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
    fn the_order_of_leaving_does_not_count_but_the_counts_do() {
        let one = canonical(vec![leaving("a", 1), leaving("b", 0)]);
        assert_eq!(one, canonical(vec![leaving("b", 1), leaving("a", 0)]));
        assert_ne!(one, canonical(vec![leaving("a", 0), leaving("b", 1)]));
        assert_ne!(one, canonical(vec![leaving("a", 1), leaving("c", 0)]));
    }

    #[test]
    fn the_order_of_patterns_does_not_count_but_that_of_messages_does() {
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
        let push = leaving("a", 0);
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
