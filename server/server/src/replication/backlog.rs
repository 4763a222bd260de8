//! The last part of the replication stream, in blocks of [`BLOCK_BYTES`].
//!
//! The stream of a primary consists of the effects that event loops append to the log of changes,
//! of PINGs, and of requests for acknowledgements. The stream of a replica consists of the bytes of
//! its primary. The bytes are stored once for all replicas. The backlog keeps at least its
//! configured size, and all bytes that a replica still needs. Full blocks are shared by reference,
//! so they are sent without a lock. Only the last block changes, so its bytes are copied for a
//! reader. Blocks without readers are reused, so an append usually only copies its bytes.
//!
//! This module uses no socket, clock or lock. Offsets are defined in [`crate::replication::state`]:
//! the first byte of a history has offset 1.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Size of a block in bytes.
pub(crate) const BLOCK_BYTES: usize = 16 << 10;
/// Maximum number of blocks that one call of [`Backlog::trim`] removes. A replica that disconnects
/// may leave many blocks.
const TRIMMED_MAX: usize = 64;

/// A range of bytes of a full block, to be sent.
#[derive(Debug)]
pub(crate) struct BlockRange {
    block: Arc<Vec<u8>>,
    range: Range<usize>,
}

impl BlockRange {
    /// Returns the bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.block[self.range.clone()]
    }
}

/// The last part of the replication stream.
#[derive(Debug)]
pub(crate) struct Backlog {
    /// Full blocks, oldest first; each has [`BLOCK_BYTES`].
    full: VecDeque<Arc<Vec<u8>>>,
    /// The last block, which is not full.
    last: Vec<u8>,
    /// An empty block to be reused; its capacity is 0 if there is no such block.
    spare: Vec<u8>,
    /// Offset of the first byte that is kept.
    first: u64,
    /// Number of bytes to keep (`repl-backlog-size`).
    size: u64,
}

impl Backlog {
    /// Creates an empty backlog whose first byte will have offset `next`.
    pub(crate) fn new(next: u64, size: u64) -> Self {
        Self {
            full: VecDeque::new(),
            last: Vec::with_capacity(BLOCK_BYTES),
            spare: Vec::new(),
            first: next,
            size,
        }
    }

    /// Returns the offset of the first byte that is kept.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// Returns the offset of the next byte that will be appended.
    pub(crate) fn end(&self) -> u64 {
        self.first + (self.full.len() * BLOCK_BYTES + self.last.len()) as u64
    }

    /// Returns the number of bytes that are kept.
    pub(crate) fn len(&self) -> u64 {
        self.end() - self.first
    }

    /// Returns the capacity of the blocks in bytes.
    pub(crate) fn memory(&self) -> usize {
        (self.full.len() + 1) * BLOCK_BYTES + self.spare.capacity()
    }

    /// Returns the number of bytes by which the blocks exceed the size to keep.
    pub(crate) fn beyond(&self) -> u64 {
        (self.memory() as u64).saturating_sub(self.size)
    }

    /// Returns true if all bytes from `offset` on are kept. `offset` may be the end.
    pub(crate) fn reaches(&self, offset: u64) -> bool {
        (self.first..=self.end()).contains(&offset)
    }

    /// Sets the number of bytes to keep.
    pub(crate) fn set_size(&mut self, size: u64) {
        self.size = size;
    }

    /// Appends bytes. Returns true if a block became full; then the caller should call
    /// [`Backlog::trim`].
    pub(crate) fn append(&mut self, mut bytes: &[u8]) -> bool {
        let blocks = self.full.len();
        while !bytes.is_empty() {
            let (head, rest) = bytes.split_at(bytes.len().min(BLOCK_BYTES - self.last.len()));
            self.last.extend_from_slice(head);
            bytes = rest;
            if self.last.len() == BLOCK_BYTES {
                let mut next = std::mem::take(&mut self.spare);
                next.clear();
                next.reserve_exact(BLOCK_BYTES);
                let full = std::mem::replace(&mut self.last, next);
                self.full.push_back(Arc::new(full));
            }
        }
        self.full.len() > blocks
    }

    /// Removes old blocks. Keeps at least the configured size, and all bytes from offset `needed`
    /// on.
    pub(crate) fn trim(&mut self, needed: u64) {
        let keep = needed.min(self.end().saturating_sub(self.size));
        for _ in 0..TRIMMED_MAX {
            if self.first + BLOCK_BYTES as u64 > keep {
                break;
            }
            let Some(block) = self.full.pop_front() else {
                break;
            };
            self.first += BLOCK_BYTES as u64;
            if self.spare.capacity() == 0 {
                // If a reader still sends the block, the reader frees it.
                self.spare = Arc::try_unwrap(block).unwrap_or_default();
            }
        }
    }

    /// Appends to `shared` the bytes from `offset` on, at most `max` full blocks, and to `copied`
    /// the bytes of the last block if it follows. Appends nothing if the bytes are not kept or do
    /// not exist yet.
    pub(crate) fn read(
        &self,
        offset: u64,
        max: usize,
        shared: &mut Vec<BlockRange>,
        copied: &mut Vec<u8>,
    ) {
        if !self.reaches(offset) {
            return;
        }
        let at = (offset - self.first) as usize;
        let (block, mut within) = (at / BLOCK_BYTES, at % BLOCK_BYTES);
        for full in self.full.iter().skip(block).take(max) {
            shared.push(BlockRange {
                block: Arc::clone(full),
                range: within..BLOCK_BYTES,
            });
            within = 0;
        }
        if block + max > self.full.len() {
            copied.extend_from_slice(&self.last[within..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns all bytes from `offset` on.
    fn rest(backlog: &Backlog, mut offset: u64, max: usize) -> Vec<u8> {
        let mut all = Vec::new();
        loop {
            let (mut shared, mut copied) = (Vec::new(), Vec::new());
            backlog.read(offset, max, &mut shared, &mut copied);
            assert!(shared.len() <= max);
            let before = all.len();
            shared
                .iter()
                .for_each(|run| all.extend_from_slice(run.bytes()));
            all.extend_from_slice(&copied);
            if all.len() == before {
                return all;
            }
            offset += (all.len() - before) as u64;
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Append(usize),
        Trim(u64),
        Size(u64),
        Read(u64, usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => (0..3_000_usize).prop_map(Step::Append),
            1 => (0..100_000_usize).prop_map(Step::Append),
            3 => (0..200_000_u64).prop_map(Step::Trim),
            1 => (1..100_000_u64).prop_map(Step::Size),
            3 => (0..200_000_u64, 1..5_usize).prop_map(|(back, max)| Step::Read(back, max)),
        ];
        proptest::collection::vec(step, 0..60)
    }

    proptest! {
        #[test]
        fn what_is_kept_reads_back(start in 1..1_000_000_u64, steps in steps()) {
            let mut size = 20_000;
            let mut backlog = Backlog::new(start, size);
            let mut stream: Vec<u8> = Vec::new();
            for step in steps {
                let end = start + stream.len() as u64;
                match step {
                    Step::Append(count) => {
                        let from = stream.len();
                        stream.extend((from..from + count).map(|n| (n % 251) as u8));
                        backlog.append(&stream[from..]);
                    }
                    Step::Trim(back) => {
                        let needed = end.saturating_sub(back).max(backlog.first());
                        backlog.trim(needed);
                        let kept = needed.min(end.saturating_sub(size).max(start));
                        prop_assert!(backlog.first() <= kept, "{} > {kept}", backlog.first());
                    }
                    Step::Size(bytes) => {
                        size = bytes.min(backlog.len().max(1));
                        backlog.set_size(size);
                    }
                    Step::Read(back, max) => {
                        let offset = end.saturating_sub(back).max(1);
                        let read = rest(&backlog, offset, max);
                        if backlog.reaches(offset) {
                            prop_assert_eq!(&read[..], &stream[(offset - start) as usize..]);
                        } else {
                            prop_assert!(offset < backlog.first());
                            prop_assert!(read.is_empty());
                        }
                    }
                }
                prop_assert_eq!(backlog.end(), start + stream.len() as u64);
                prop_assert_eq!(backlog.len(), backlog.end() - backlog.first());
            }
        }
    }

    #[test]
    fn a_trimmed_backlog_is_little_longer_than_its_size() {
        let mut backlog = Backlog::new(1, 100_000);
        for _ in 0..1_000 {
            if backlog.append(&[b'x'; 1_000]) {
                backlog.trim(u64::MAX);
            }
        }
        assert_eq!(backlog.end(), 1_000_001);
        assert!((100_000..100_000 + 2 * BLOCK_BYTES as u64).contains(&backlog.len()));
        assert!(backlog.memory() < 100_000 + 4 * BLOCK_BYTES);
        assert!(!backlog.reaches(backlog.first() - 1));
        assert!(backlog.reaches(backlog.end()));
        assert!(!backlog.reaches(backlog.end() + 1));
    }

    #[test]
    fn a_block_that_is_being_sent_stays_as_it_is() {
        let mut backlog = Backlog::new(1, 1);
        backlog.append(&[b'a'; BLOCK_BYTES]);
        let (mut shared, mut copied) = (Vec::new(), Vec::new());
        backlog.read(1, 8, &mut shared, &mut copied);
        for byte in b'b'..b'f' {
            backlog.append(&[byte; BLOCK_BYTES]);
            backlog.trim(u64::MAX);
        }
        assert_eq!(shared[0].bytes(), [b'a'; BLOCK_BYTES]);
        assert!(copied.is_empty());
    }
}
