//! The sources of commands. The source decides which checks a command passes and whether it may
//! block.

/// Where the commands of a turn come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// A client.
    #[default]
    Client,
    /// The queue of a transaction.
    Exec,
    /// A script or a function.
    Script,
    /// A timer of the keyspace.
    Timer,
    /// The stream of a primary.
    Stream,
    /// An append-only file.
    File,
}

impl Source {
    /// Returns whether the commands come from a log of changes. The log itself says which keys have
    /// expired.
    pub const fn is_log(self) -> bool {
        matches!(self, Self::Stream | Self::File)
    }

    /// Returns whether the commands run within another one, or within the firing of a timer.
    pub const fn is_nested(self) -> bool {
        matches!(self, Self::Exec | Self::Script | Self::Timer)
    }
}
