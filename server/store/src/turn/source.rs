//! The source of a turn's commands.

use super::Turn;
use crate::source::Source;

/// The source that a turn returns to; see [`Turn::enter`].
#[derive(Debug)]
#[must_use = "the turn must leave the source again"]
pub struct OuterSource {
    source: Source,
    replays: bool,
}

impl Turn<'_> {
    /// Begins commands of another source, which may run within a command of the current source.
    pub fn enter(&mut self, source: Source) -> OuterSource {
        let outer = OuterSource {
            source: self.source,
            replays: self.replays,
        };
        self.source = source;
        self.replays |= source.is_log();
        outer
    }

    /// Returns to the source before [`Turn::enter`].
    pub fn leave(&mut self, outer: OuterSource) {
        (self.source, self.replays) = (outer.source, outer.replays);
    }

    /// Returns the source of the running commands.
    #[inline]
    pub const fn source(&self) -> Source {
        self.source
    }

    /// Returns whether the commands come from a log of changes, or run within such a command. A
    /// read-only store accepts them.
    #[inline]
    pub const fn replays(&self) -> bool {
        self.replays
    }

    /// Returns whether commands may wait. Only a command of a client may. A command of another
    /// source replies that it found nothing.
    #[inline]
    pub const fn may_wait(&self) -> bool {
        matches!(self.source, Source::Client)
    }
}
