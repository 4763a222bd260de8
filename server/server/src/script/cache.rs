//! The sources of scripts by SHA1. All loops share this cache.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use punctual_lua::{Random, ScriptFlags};

use crate::script::shebang;

/// SHA1 of a script's source.
pub(crate) type Sha = [u8; 20];

pub(crate) type BySha<T> = HashMap<Sha, T, ahash::RandomState>;

/// The sources of all scripts.
#[derive(Default)]
pub(crate) struct Cache {
    sources: Mutex<BySha<Arc<[u8]>>>,
    /// Number of flushes. A loop that sees a new number drops its compiled scripts.
    pub(crate) flushes: AtomicU64,
    /// Total bytes of the sources.
    bytes: AtomicUsize,
    /// Generator behind `math.random` in all loops, so that two loops never draw the same sequence.
    pub(crate) random: Random,
}

impl Cache {
    /// Returns the source of a script. O(1).
    pub(crate) fn get(&self, sha: &Sha) -> Option<Arc<[u8]>> {
        self.sources.lock().get(sha).cloned()
    }

    /// Returns the flags that a script declares in its shebang line. `script` is a source, or the
    /// SHA1 of a cached source.
    pub(crate) fn declared(&self, script: &[u8]) -> Option<ScriptFlags> {
        let flags = |code: &[u8]| shebang::parse(code).ok()?.0;
        match parse_sha(script) {
            Some(sha) => flags(&self.get(&sha)?),
            None => flags(script),
        }
    }

    /// Adds a script. O(length).
    pub(crate) fn add(&self, sha: Sha, code: &[u8]) {
        let added = self.sources.lock().insert(sha, code.into());
        if added.is_none() {
            self.bytes.fetch_add(code.len(), Ordering::Relaxed);
        }
    }

    /// Removes all scripts.
    pub(crate) fn flush(&self) {
        let mut sources = self.sources.lock();
        self.flushes.fetch_add(1, Ordering::Release);
        self.bytes.store(0, Ordering::Relaxed);
        sources.clear();
    }

    /// Returns the number of scripts and the total bytes of their sources.
    pub(crate) fn size(&self) -> (usize, usize) {
        let count = self.sources.lock().len();
        (count, self.bytes.load(Ordering::Relaxed))
    }
}

/// Number of hexadecimal digits of a SHA1.
pub(crate) const SHA_DIGITS: usize = 40;

/// Parses [`SHA_DIGITS`] hexadecimal digits of either case.
pub(crate) fn parse_sha(name: &[u8]) -> Option<Sha> {
    if name.len() != SHA_DIGITS {
        return None;
    }
    let digit = |byte: u8| (byte as char).to_digit(16);
    let mut sha = [0; 20];
    for (byte, pair) in sha.iter_mut().zip(name.chunks(2)) {
        *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
    }
    Some(sha)
}
