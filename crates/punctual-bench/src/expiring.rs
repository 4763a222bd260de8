//! The data of `bench expiry`: keys, or (`--fields`) fields of hashes, or (`--timers`) timers.
//!
//! A field's event contains only the hash's name. So the name contains the deadline of the first field, and the other
//! fields are due at equal intervals after it: the n-th event of a hash belongs to its n-th field.

use punctual_resp::encode_command;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::client::Client;
use crate::error::{Error, Result};
use crate::events::{Expected, key_name};
use crate::keyload;
use crate::lateness::millis_of;
use crate::launch::{self, Server};
use crate::options::ExpiryOptions;

/// Number of fields per hash.
const FIELDS: u8 = 10;

/// Returns the name of the plot's file.
pub(crate) fn plot_name(options: &ExpiryOptions) -> &'static str {
    if options.fields {
        "field-expiry-lateness.svg"
    } else if options.timers {
        "timer-lateness.svg"
    } else {
        "expiry-lateness.svg"
    }
}

/// Returns a description of the entries that expire.
pub(crate) fn what(options: &ExpiryOptions) -> &'static str {
    if options.fields {
        "fields of hashes"
    } else if options.timers {
        "timers"
    } else {
        "keys"
    }
}

/// Returns the setting of the events that the server must publish.
pub(crate) fn setting(options: &ExpiryOptions) -> (&'static str, &'static str) {
    if options.fields {
        launch::FIELD_EVENTS
    } else if options.timers {
        launch::TIMER_EVENTS
    } else {
        launch::EVENTS
    }
}

/// Returns the expected events.
pub(crate) fn expected(options: &ExpiryOptions) -> Expected {
    if options.fields {
        Expected {
            event: "hexpired",
            names: options.keys().div_ceil(u64::from(FIELDS)),
            each: FIELDS,
            step_ms: (millis_of(options.spread()) / u64::from(FIELDS)).max(1),
        }
    } else {
        Expected {
            event: if options.timers { "timer" } else { "expired" },
            names: options.keys(),
            each: 1,
            step_ms: 0,
        }
    }
}

/// The counter that the commands of timers increment.
pub(crate) const COUNTER: &str = "pb:timers";

/// Returns the name of the command that loads an entry.
pub(crate) fn command(options: &ExpiryOptions) -> &'static str {
    if options.timers { "TIMER SET" } else { "SET" }
}

/// Appends the command for a key with a deadline, or for a timer.
pub(crate) fn write_key(options: &ExpiryOptions, name: &[u8], deadline_ms: u64, out: &mut Vec<u8>) {
    let at = deadline_ms.to_string();
    if options.timers {
        let words = ["AT", &at, "DO", "INCR", COUNTER].map(str::as_bytes);
        let words: Vec<&[u8]> = [&b"TIMER"[..], b"SET", name]
            .into_iter()
            .chain(words)
            .collect();
        encode_command(out, &words);
    } else {
        let words = [b"SET", name, keyload::VALUE, b"PXAT", at.as_bytes()];
        encode_command(out, &words);
    }
}

/// Removes servers that do not support deadlines of fields, or timers.
pub(crate) fn remove_unsupported(
    options: &ExpiryOptions,
    servers: &mut Vec<Server>,
    notes: &mut Vec<String>,
) -> Result<()> {
    let (probe, what, needed) = if options.timers {
        (
            &["TIMER", "GET", "pb:probe"][..],
            "timers",
            "no server has TIMER",
        )
    } else if options.fields {
        let needed = "no server has HPEXPIREAT, which came with Redis 7.4";
        let probe = &["HPTTL", "pb:probe", "FIELDS", "1", "f"][..];
        (probe, "deadlines of fields", needed)
    } else {
        return Ok(());
    };
    let mut able = Vec::new();
    for server in servers.drain(..) {
        let answer = server.client()?.command(probe)?;
        if answer.is_error() {
            notes.push(format!(
                "{} does not support {what} and is skipped",
                server.product
            ));
        } else {
            able.push(server);
        }
    }
    *servers = able;
    if servers.is_empty() {
        return Err(Error::Invalid(needed.into()));
    }
    Ok(())
}

/// Loads the keys, or the hashes and the deadlines of their fields.
pub(crate) fn load(
    options: &ExpiryOptions,
    client: &mut Client,
    first_ms: u64,
    round: u32,
    bar: &indicatif::ProgressBar,
) -> Result<()> {
    let expected = expected(options);
    let mut rng = ChaCha8Rng::seed_from_u64(u64::from(round));
    if !options.fields {
        let spread_ms = millis_of(options.spread()).max(1);
        return keyload::load(
            client,
            expected.names,
            command(options),
            bar,
            |index, out| {
                let deadline = first_ms + rng.random_range(0..spread_ms);
                write_key(options, &key_name(deadline, index), deadline, out);
            },
        );
    }
    let commands = u64::from(FIELDS) + 1;
    let mut deadline = 0;
    keyload::load(
        client,
        expected.names * commands,
        "HSET or HPEXPIREAT",
        bar,
        |index, out| {
            let (hash, nth) = (index / commands, index % commands);
            if nth == 0 {
                deadline = first_ms + rng.random_range(0..expected.step_ms);
            }
            let name = key_name(deadline, hash);
            let field = |n: u64| [b'f', b'0' + n as u8];
            let Some(nth) = nth.checked_sub(1) else {
                let fields: Vec<[u8; 2]> = (0..u64::from(FIELDS)).map(field).collect();
                let pairs = fields.iter().flat_map(|f| [&f[..], keyload::VALUE]);
                let words: Vec<&[u8]> = [b"HSET", &name[..]].into_iter().chain(pairs).collect();
                return encode_command(out, &words);
            };
            let at = (deadline + nth * expected.step_ms).to_string();
            encode_command(
                out,
                &[
                    b"HPEXPIREAT",
                    &name[..],
                    at.as_bytes(),
                    b"FIELDS",
                    b"1",
                    &field(nth),
                ],
            );
        },
    )
}
