//! The slow log: the latest commands whose duration reached the threshold.

use std::collections::VecDeque;

use parking_lot::Mutex;
use punctual_resp::Args;
use punctual_store::Now;

use crate::client::registry::ClientInfo;
use crate::observe::redact::redacted;
use crate::table::Entry;
use crate::table::names::CommandNames;

/// Maximum number of arguments kept per command.
const ARGS_MAX: usize = 32;
/// Maximum number of bytes kept per argument.
const ARG_MAX: usize = 128;

/// A slow command, to be added to the log.
pub(crate) struct Slow<'a> {
    pub(crate) now: Now,
    pub(crate) nanos: u64,
    pub(crate) info: &'a ClientInfo,
    pub(crate) entry: &'static Entry,
    pub(crate) args: Args<'a>,
}

/// An entry of the slow log.
#[derive(Clone, Debug)]
pub struct SlowEntry {
    /// Sequence number, which grows by one with each entry.
    pub id: u64,
    /// Time of the command, unix seconds.
    pub at_s: u64,
    /// Duration, in µs.
    pub micros: u64,
    /// The arguments, truncated as in Redis.
    pub args: Vec<Vec<u8>>,
    /// The client's address.
    pub addr: String,
    /// The client's name.
    pub name: Vec<u8>,
}

/// Entries of the slow log, newest first.
#[derive(Default)]
pub struct SlowLog {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    entries: VecDeque<SlowEntry>,
    next_id: u64,
}

impl SlowLog {
    /// Adds a command, and removes old entries beyond the newest `max`.
    pub(crate) fn add(&self, names: &CommandNames, slow: &Slow<'_>, max: usize) {
        let mut inner = self.inner.lock();
        let id = inner.next_id;
        inner.next_id += 1;
        inner.entries.push_front(SlowEntry {
            id,
            at_s: slow.now.micros() / 1_000_000,
            micros: slow.nanos / 1000,
            args: cut(redacted(names, slow.entry, slow.args), slow.args.len()),
            addr: slow.info.addr.clone(),
            name: slow.info.names.lock().name.clone(),
        });
        inner.entries.truncate(max);
    }

    /// Returns the newest `count` entries, newest first.
    pub fn newest(&self, count: usize) -> Vec<SlowEntry> {
        self.inner
            .lock()
            .entries
            .iter()
            .take(count)
            .cloned()
            .collect()
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.inner.lock().entries.len()
    }

    /// Returns true if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all entries. The sequence numbers continue.
    pub fn reset(&self) {
        self.inner.lock().entries.clear();
    }
}

/// Truncates the list of `count` arguments and each long argument, as Redis does.
fn cut<'a>(args: impl Iterator<Item = &'a [u8]>, count: usize) -> Vec<Vec<u8>> {
    let shown = if count > ARGS_MAX {
        ARGS_MAX - 1
    } else {
        count
    };
    let mut all: Vec<Vec<u8>> = args
        .take(shown)
        .map(|arg| {
            if arg.len() <= ARG_MAX {
                return arg.to_vec();
            }
            let mut kept = arg[..ARG_MAX].to_vec();
            kept.extend_from_slice(format!("... ({} more bytes)", arg.len() - ARG_MAX).as_bytes());
            kept
        })
        .collect();
    if shown < count {
        all.push(format!("... ({} more arguments)", count - shown).into_bytes());
    }
    all
}
