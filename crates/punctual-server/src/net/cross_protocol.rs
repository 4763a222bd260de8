//! Browsers led here by a malicious page speak HTTP: their requests begin with `POST` or get to a `Host:` line, and the
//! page's own commands would follow as inline requests. Such a connection is closed before they come.

use std::sync::atomic::{AtomicU64, Ordering};

use punctual_store::Now;
use punctual_store::error::c_string;

use crate::log::{self, Logger};

/// Between two lines about it in the log: a page can open many connections.
const QUIET_MS: u64 = 60_000;

/// Whether a request with this first word is one of HTTP.
pub(crate) fn is_http(word: &[u8]) -> bool {
    let word = c_string(word);
    word.eq_ignore_ascii_case(b"post") || word.eq_ignore_ascii_case(b"host:")
}

/// Tells the log, once a minute at most.
#[derive(Default)]
pub(crate) struct HttpWarning {
    /// When it told it last, unix ms; 0: never.
    told_ms: AtomicU64,
}

impl HttpWarning {
    pub(crate) fn tell(&self, logger: &Logger, now: Now, addr: &str) {
        let (now_ms, told_ms) = (now.read_ms(), self.told_ms.load(Ordering::Relaxed));
        if told_ms != 0 && now_ms.abs_diff(told_ms) <= QUIET_MS {
            return;
        }
        self.told_ms.store(now_ms.max(1), Ordering::Relaxed);
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
