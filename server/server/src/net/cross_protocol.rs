//! Protection against cross-protocol scripting.
//!
//! A malicious web page can make a browser send an HTTP request to the server. The request's body
//! may contain inline commands. Such a request begins with `POST` or contains a `Host:` line; the
//! server closes the connection at that line, before it parses the body.

use std::sync::atomic::{AtomicU64, Ordering};

use punctual_store::Now;
use punctual_store::error::c_string;

use crate::log::{self, Logger};

/// Minimum time between two warnings in the log, because a page can open many connections.
const QUIET_MS: u64 = 60_000;

/// Returns true if `word` is the first word of a line of an HTTP request.
pub(crate) fn is_http(word: &[u8]) -> bool {
    let word = c_string(word);
    word.eq_ignore_ascii_case(b"post") || word.eq_ignore_ascii_case(b"host:")
}

/// Writes the warning to the log, at most once per [`QUIET_MS`].
#[derive(Default)]
pub(crate) struct HttpWarning {
    /// Time of the last warning in unix ms; 0 before the first warning.
    warned_ms: AtomicU64,
}

impl HttpWarning {
    pub(crate) fn warn(&self, logger: &Logger, now: Now, addr: &str) {
        let (now_ms, warned_ms) = (now.read_ms(), self.warned_ms.load(Ordering::Relaxed));
        if warned_ms != 0 && now_ms.abs_diff(warned_ms) <= QUIET_MS {
            return;
        }
        self.warned_ms.store(now_ms.max(1), Ordering::Relaxed);
        log::warning!(
            logger,
            "Possible SECURITY ATTACK detected. It looks like somebody is sending POST or Host: commands to Redis. This is likely due to an attacker attempting to use Cross Protocol Scripting to compromise your Redis instance. Connection from {addr} aborted."
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_first_words_of_http_count() {
        for word in [&b"POST"[..], b"post", b"Host:", b"HOST:", b"post\0x"] {
            assert!(is_http(word), "{word:?}");
        }
        for word in [&b""[..], b"GET", b"host", b"poster", b"\0post"] {
            assert!(!is_http(word), "{word:?}");
        }
    }
}
