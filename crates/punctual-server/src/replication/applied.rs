//! What a session has applied of its primary's stream.

/// State of the primary's connection.
pub(crate) struct Applied {
    /// Generation of the link; see [`Upstream`](super::upstream::Upstream).
    pub(crate) generation: u64,
    /// Bytes of the stream that are not passed on yet.
    bytes: Vec<u8>,
    /// Number of them up to the end of the last command outside of a transaction.
    complete: usize,
}

impl Applied {
    pub(crate) fn new(generation: u64) -> Self {
        Self {
            generation,
            bytes: Vec::new(),
            complete: 0,
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
        self.complete = 0;
    }
}
