//! MAXCOUNT and MAXSIZE of XREAD and XREADGROUP (Redis 8.10), which limit the entries of all
//! streams together.
//!
//! MAXSIZE counts the bytes of the reply as they are sent. The first entry is returned even if it
//! is larger, so that a reader makes progress. The reply ends before the first other entry that
//! would exceed the limit.

use punctual_resp::Reply;

/// What is left for the rest of a reply.
pub(super) struct Budget {
    entries: usize,
    /// Length of the reply at which no further entry fits.
    end: usize,
    /// Whether the reply has an entry.
    begun: bool,
}

impl Budget {
    /// Returns the budget of a reply that begins at the end of `reply`.
    pub(super) fn new(reply: &Reply, max_count: usize, max_size: usize) -> Self {
        Self {
            entries: max_count,
            end: reply.len().saturating_add(max_size),
            begun: false,
        }
    }

    /// Returns the number of entries that may follow; 0 once an entry did not fit.
    pub(super) const fn entries(&self) -> usize {
        self.entries
    }

    /// Writes an entry. Returns false, and removes what `write` has written, if the entry exceeds
    /// the budget.
    #[inline]
    pub(super) fn add(&mut self, reply: &mut Reply, write: impl FnOnce(&mut Reply)) -> bool {
        let start = reply.len();
        if self.entries > 0 {
            write(reply);
        }
        if self.begun && reply.len() > self.end {
            reply.truncate(start);
            self.entries = 0;
        }
        let fits = self.entries > 0;
        self.entries -= usize::from(fits);
        self.begun |= fits;
        fits
    }
}
