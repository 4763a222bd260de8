//! Output that a connection has set aside, and input that it holds.
//!
//! A peer that reads slowly may have many megabytes of output, and a client that waits may send as much. In one buffer that doubles,
//! the bytes would be copied again and again, and the old buffers would leave as many bytes to the allocator. So a long buffer is set
//! aside, and a new one begins.

use std::collections::VecDeque;

/// Buffers of this size are set aside. Smaller ones are kept for the next client when they are written.
pub(crate) const KEPT_OUTPUT: usize = 256 << 10;
/// Appended bytes extend a chunk up to this size, so that short reads share a chunk.
const SHARED_CHUNK: usize = 16 << 10;

/// Bytes in several buffers, in order.
#[derive(Default)]
pub(crate) struct Chunks {
    chunks: VecDeque<Vec<u8>>,
    len: usize,
    capacity: usize,
}

impl Chunks {
    /// Takes `out` if it is long. Returns the number of bytes taken.
    #[inline]
    pub(crate) fn take_long(&mut self, out: &mut Vec<u8>) -> usize {
        if out.len() < KEPT_OUTPUT {
            return 0;
        }
        self.push(std::mem::take(out))
    }

    #[cold]
    fn push(&mut self, chunk: Vec<u8>) -> usize {
        let len = chunk.len();
        self.len += len;
        self.capacity += chunk.capacity();
        self.chunks.push_back(chunk);
        len
    }

    /// Copies `bytes` to the end.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        match self.chunks.back_mut() {
            Some(last) if last.len() + bytes.len() <= SHARED_CHUNK => {
                let before = last.capacity();
                last.extend_from_slice(bytes);
                self.len += bytes.len();
                self.capacity += last.capacity() - before;
            }
            _ => {
                self.push(bytes.to_vec());
            }
        }
    }

    /// Removes the first chunk.
    pub(crate) fn pop(&mut self) -> Option<Vec<u8>> {
        let chunk = self.chunks.pop_front()?;
        self.len -= chunk.len();
        self.capacity -= chunk.capacity();
        Some(chunk)
    }

    /// Returns the first chunk.
    #[inline]
    pub(crate) fn first(&self) -> Option<&Vec<u8>> {
        self.chunks.front()
    }

    /// Returns true if there are no chunks.
    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Returns the size of the buffers.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns the number of bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}
