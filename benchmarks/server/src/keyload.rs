//! Fast loading of many keys: one connection and batches of commands, two of them in flight.

use std::time::{Duration, Instant};

use punctual_resp::encode_command;

use crate::client::Client;
use crate::clock::unix_micros;
use crate::error::{Error, Result};
use crate::workload::{key_name, write_digits};

/// Number of commands per batch: large enough that system calls cost little, and small enough that
/// the replies fit into a socket's buffer.
const BATCH: u64 = 512;

/// The value of loaded keys: 16 bytes.
pub(crate) const VALUE: &[u8] = b"0123456789abcdef";

/// Sends `count` commands, whose bytes `encode` appends, and blocks until all replies have arrived.
///
/// Returns the first error reply as an `Err`, with the command's `name`.
pub(crate) fn load(
    client: &mut Client,
    count: u64,
    name: &str,
    mut encode: impl FnMut(u64, &mut Vec<u8>),
) -> Result<()> {
    let mut bytes = Vec::new();
    let mut unanswered = 0;
    let mut next = 0;
    while next < count {
        let end = count.min(next + BATCH);
        bytes.clear();
        for index in next..end {
            encode(index, &mut bytes);
        }
        client.send(&bytes)?;
        let answered = client.replies(unanswered, name);
        unanswered = (end - next) as usize;
        if answered.is_err() {
            // Receives the replies of the last batch, so that the connection stays usable.
            let _ = client.replies(unanswered, name);
            return answered;
        }
        next = end;
    }
    client.replies(unanswered, name)
}

/// Sets `count` keys, from `key:000000000000` on.
pub(crate) fn set_keys(client: &mut Client, count: u64) -> Result<()> {
    load(client, count, "SET", |index, out| {
        encode_command(out, &[b"SET", &key_name(index)[..], VALUE]);
    })
}

/// Length of the name of a key with a deadline: `pb:`, 13 digits of unix milliseconds, `:`, 9
/// digits.
pub(crate) const DUE_NAME: usize = 26;

/// Returns a key's name, which contains its deadline in unix milliseconds and its number.
pub(crate) fn due_name(deadline_ms: u64, index: u64) -> [u8; DUE_NAME] {
    let mut name = *b"pb:0000000000000:000000000";
    write_digits(&mut name[3..16], deadline_ms);
    write_digits(&mut name[17..26], index);
    name
}

/// Appends a SET of a key whose name contains its deadline.
pub(crate) fn set_due(deadline_ms: u64, index: u64, out: &mut Vec<u8>) {
    let (name, at) = (due_name(deadline_ms, index), deadline_ms.to_string());
    encode_command(out, &[b"SET", &name[..], VALUE, b"PXAT", at.as_bytes()]);
}

/// Number of keys that are loaded in a trial, to measure the server's speed.
const PROBES: u64 = 20_000;

/// Loads keys with deadlines, and checks that loading ends before the first deadline. Calls
/// `encode` with the first deadline in Unix milliseconds and an index for each key.
///
/// The time until the first deadline is two seconds plus twice the expected time for loading. The
/// function first loads [`PROBES`] keys to measure the time for one key, and expects each of the
/// `count` entries to take `weight` times as long. Returns the first deadline.
pub(crate) fn load_due(
    client: &mut Client,
    count: u64,
    weight: u32,
    name: &str,
    mut encode: impl FnMut(u64, u64, &mut Vec<u8>),
) -> Result<u64> {
    let begun = Instant::now();
    load(client, PROBES, "SET", |index, out| {
        set_due(4_000_000_000_000, index, out)
    })?;
    let speed = begun.elapsed().div_f64(PROBES as f64);
    load(client, PROBES, "UNLINK", |index, out| {
        encode_command(out, &[b"UNLINK", &due_name(4_000_000_000_000, index)[..]]);
    })?;
    let lead = speed.mul_f64(2.0 * f64::from(weight) * count as f64) + Duration::from_secs(2);
    let first_ms = unix_micros() / 1000 + lead.as_millis() as u64;
    load(client, count, name, |index, out| {
        encode(first_ms, index, out)
    })?;
    if unix_micros() / 1000 + 50 < first_ms {
        return Ok(first_ms);
    }
    Err(Error::Invalid(
        "loading took longer than expected: the first deadline is over".into(),
    ))
}
