//! State of the connection to the primary: the part of the stream that was applied.

/// Maximum capacity in bytes that the empty buffer of stream bytes keeps.
const KEPT_BYTES: usize = 1 << 20;

/// The part of the stream that is synced in this server's append-only file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InFile {
    /// Offset of the stream up to which everything is synced.
    synced: u64,
    /// A position in the file, and the stream offset that is synced when the file is synced up to
    /// the position.
    next: Option<(u64, u64)>,
}

impl InFile {
    /// Updates and returns the offset up to which everything is synced. The file's `end` bytes
    /// contain the stream up to `offset`; its first `synced` bytes are on the device.
    pub(crate) fn update(&mut self, end: u64, offset: u64, synced: u64) -> u64 {
        if let Some((position, reached)) = self.next
            && synced >= position
        {
            self.synced = reached;
            self.next = None;
        }
        if synced >= end {
            self.synced = offset;
        } else if self.next.is_none() {
            self.next = Some((end, offset));
        }
        self.synced
    }
}

/// State of the primary's connection.
pub(crate) struct Applied {
    /// Generation of the link (number of changes of the primary) to which the connection belongs.
    pub(crate) generation: u64,
    /// Applied bytes of the stream that are not yet passed on to the server's own replicas.
    bytes: Vec<u8>,
    /// Number of these bytes up to the end of the last command outside of a transaction.
    complete: usize,
    pub(crate) in_file: InFile,
    /// The link will be closed because a command cannot be applied.
    pub(crate) refused: bool,
    /// Number of unknown commands that were skipped.
    pub(crate) skipped: u64,
}

impl Applied {
    pub(crate) fn new(generation: u64) -> Self {
        Self {
            generation,
            bytes: Vec::new(),
            complete: 0,
            in_file: InFile::default(),
            refused: false,
            skipped: 0,
        }
    }

    /// Adds the bytes of a command that has run, or that was queued in a transaction.
    #[inline]
    pub(crate) fn note(&mut self, bytes: &[u8], in_transaction: bool) {
        self.bytes.extend_from_slice(bytes);
        if !in_transaction {
            self.complete = self.bytes.len();
        }
    }

    /// Returns the bytes up to the end of the last command outside of a transaction.
    pub(crate) fn complete(&self) -> &[u8] {
        &self.bytes[..self.complete]
    }

    /// Removes the bytes that [`Applied::complete`] returns.
    pub(crate) fn forget_complete(&mut self) {
        self.bytes.drain(..self.complete);
        self.bytes.shrink_to(KEPT_BYTES);
        self.complete = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_command_leaves_no_memory() {
        let mut applied = Applied::new(1);
        applied.note(&vec![0; 8 * KEPT_BYTES], false);
        applied.forget_complete();
        applied.note(b"next", true);
        assert!(applied.bytes.capacity() <= KEPT_BYTES);
    }

    #[test]
    fn the_file_is_never_ahead_of_its_device() {
        let mut file = InFile::default();
        assert_eq!(file.update(100, 1_000, 40), 0);
        assert_eq!(file.update(300, 3_000, 99), 0);
        assert_eq!(file.update(300, 3_000, 100), 1_000);
        assert_eq!(file.update(300, 3_000, 299), 1_000);
        assert_eq!(file.update(500, 5_000, 300), 3_000);
        assert_eq!(file.update(500, 5_000, 500), 5_000);
        let same_file = file.update(500, 5_100, 500);
        assert_eq!(same_file, 5_100, "the stream grows, the file does not");
    }
}
