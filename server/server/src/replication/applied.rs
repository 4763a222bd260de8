//! What a session has applied of its primary's stream.

/// Memory that is kept for the bytes of the stream.
const KEPT_BYTES: usize = 1 << 20;

/// How much of the stream is in the append-only file, and synced.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InFile {
    /// Offset of the stream up to which everything is synced.
    synced: u64,
    /// Position in the file, and the offset that is reached when the file is synced up to there.
    next: Option<(u64, u64)>,
}

impl InFile {
    /// Returns the offset up to which everything is synced, when the file has `end` bytes for
    /// `offset`, and `synced` of them are on the device.
    pub(crate) fn look(&mut self, end: u64, offset: u64, synced: u64) -> u64 {
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
    /// Generation of the link; see [`Upstream`](crate::replication::upstream::Upstream).
    pub(crate) generation: u64,
    /// Bytes of the stream that are not passed on yet.
    bytes: Vec<u8>,
    /// Number of them up to the end of the last command outside of a transaction.
    complete: usize,
    pub(crate) in_file: InFile,
    /// The link ends because a command cannot be applied.
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

    /// Adds a command that has run, or that waits in a transaction.
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

    /// Removes these bytes.
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
        assert_eq!(file.look(100, 1_000, 40), 0);
        assert_eq!(file.look(300, 3_000, 99), 0);
        assert_eq!(file.look(300, 3_000, 100), 1_000);
        assert_eq!(file.look(300, 3_000, 299), 1_000);
        assert_eq!(file.look(500, 5_000, 300), 3_000);
        assert_eq!(file.look(500, 5_000, 500), 5_000);
        assert_eq!(file.look(500, 5_100, 500), 5_100, "what is not in a file");
    }
}
