//! Fast loading of many keys: one connection and batches of commands, two of them in flight.

use std::io::Write;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use punctual_resp::encode_command;

use crate::client::Client;
use crate::error::Result;

/// Commands per batch: enough to make system calls negligible, few enough for the replies to fit into a socket's
/// buffer.
const BATCH: u64 = 512;

/// Sends `count` commands, whose bytes `encode` appends, and blocks until all replies have arrived.
///
/// Returns the first error reply as an `Err`, with the command's `name`.
pub(crate) fn load(
    client: &mut Client,
    count: u64,
    name: &str,
    bar: &ProgressBar,
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
            // Receive the replies of the last batch, so that the connection stays usable.
            let _ = client.replies(unanswered, name);
            return answered;
        }
        bar.inc(end - next);
        next = end;
    }
    client.replies(unanswered, name)
}

/// Number of keys loaded to measure the server's speed.
const PROBES: u64 = 20_000;

/// Returns the time to reserve for the loading of `count` keys before the first deadline: two seconds plus twice the
/// time at the speed of a small trial.
pub(crate) fn lead(client: &mut Client, count: u64) -> Result<Duration> {
    let bar = ProgressBar::hidden();
    let mut name = Vec::new();
    let mut probe = |index: u64| {
        name.clear();
        write!(name, "pb:probe:{index:017}").expect("a Vec takes everything");
        name.clone()
    };
    let begun = Instant::now();
    load(client, PROBES, "SET", &bar, |index, out| {
        let name = probe(index);
        encode_command(out, &[b"SET", name.as_slice(), VALUE, b"PX", b"60000"]);
    })?;
    let speed = begun.elapsed().div_f64(PROBES as f64);
    load(client, PROBES, "UNLINK", &bar, |index, out| {
        let name = probe(index);
        encode_command(out, &[b"UNLINK", name.as_slice()]);
    })?;
    Ok(speed.mul_f64(2.0 * count as f64) + Duration::from_secs(2))
}

/// The value of loaded keys: 16 bytes.
pub(crate) const VALUE: &[u8] = b"0123456789abcdef";
