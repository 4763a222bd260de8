//! The slow log: the commands that took longest, newest first.

use std::collections::VecDeque;

use parking_lot::Mutex;
use punctual_resp::Args;
use punctual_store::Now;

use crate::client::registry::ClientInfo;
use crate::dispatch::table::Entry;
use crate::observe::redact::redacted;

/// Arguments that are kept of a command.
const ARGS_MAX: usize = 32;
/// Bytes that are kept of an argument.
const ARG_MAX: usize = 128;

/// A command that took long.
pub(crate) struct Slow<'a> {
    pub(crate) now: Now,
    pub(crate) nanos: u64,
    pub(crate) info: &'a ClientInfo,
    pub(crate) entry: &'static Entry,
    pub(crate) args: Args<'a>,
}

/// What the log keeps of a slow command.
#[derive(Clone, Debug)]
pub struct SlowEntry {
    /// Grows by one with each entry.
    pub id: u64,
    /// When, unix seconds.
    pub at_s: u64,
    /// How long, in µs.
    pub micros: u64,
    /// The arguments, cut as Redis cuts them.
    pub args: Vec<Vec<u8>>,
    /// The client's address.
    pub addr: String,
    /// The client's name.
    pub name: Vec<u8>,
}

/// The log.
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
    /// Adds a command; keeps the newest `max`.
    pub(crate) fn add(&self, slow: &Slow<'_>, max: usize) {
        let mut inner = self.inner.lock();
        let id = inner.next_id;
        inner.next_id += 1;
        inner.entries.push_front(SlowEntry {
            id,
            at_s: slow.now.micros() / 1_000_000,
            micros: slow.nanos / 1000,
            args: cut(redacted(slow.entry, slow.args), slow.args.len()),
            addr: slow.info.addr.clone(),
            name: slow.info.names.lock().name.clone(),
        });
        inner.entries.truncate(max);
    }

    /// The newest `count`.
    pub fn newest(&self, count: usize) -> Vec<SlowEntry> {
        self.inner
            .lock()
            .entries
            .iter()
            .take(count)
            .cloned()
            .collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.inner.lock().entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets all; numbers go on.
    pub fn reset(&self) {
        self.inner.lock().entries.clear();
    }
}

/// The first arguments of `count`, and the beginnings of long ones.
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
