//! Bytes in several buffers (*chunks*): long output that waits to be sent, or input that waits to
//! be parsed.
//!
//! A single buffer would copy all its bytes whenever it grows. So a full output buffer becomes a
//! chunk, and later output goes to a new buffer.

use std::collections::VecDeque;

/// Minimum length in bytes of a buffer that [`Chunks::take_long`] takes.
pub const CHUNK: usize = 256 << 10;
/// Maximum length in bytes to which [`Chunks::append`] extends the last chunk.
const SHARED_CHUNK: usize = 16 << 10;

/// Bytes in several buffers, in order.
///
/// ```
/// use punctual_resp::Chunks;
///
/// let mut chunks = Chunks::default();
/// let mut out = vec![b'a'; 300_000];
/// assert_eq!(chunks.take_long(&mut out), 300_000);
/// chunks.append(b"b");
/// assert_eq!(chunks.len(), 300_001);
/// assert_eq!(chunks.pop().map(|chunk| chunk.len()), Some(300_000));
/// ```
#[derive(Debug, Default)]
pub struct Chunks {
    chunks: VecDeque<Vec<u8>>,
    /// Sum of the chunks' lengths.
    len: usize,
    /// Sum of the chunks' capacities.
    capacity: usize,
    /// Whether a `Reply` has dropped bytes at its limit.
    is_cut: bool,
}

impl Chunks {
    /// Moves `out` into a new last chunk if it has at least [`CHUNK`] bytes. Returns the number of
    /// bytes moved. **O(1)**.
    #[inline]
    pub fn take_long(&mut self, out: &mut Vec<u8>) -> usize {
        if out.len() < CHUNK {
            return 0;
        }
        self.push(std::mem::take(out))
    }

    /// Adds a chunk at the end. Returns the number of its bytes. **O(1)**.
    #[cold]
    pub fn push(&mut self, chunk: Vec<u8>) -> usize {
        let len = chunk.len();
        self.len += len;
        self.capacity += chunk.capacity();
        self.chunks.push_back(chunk);
        len
    }

    /// Copies `bytes` to the end. **O(bytes)**.
    pub fn append(&mut self, bytes: &[u8]) {
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

    /// Removes the first chunk and returns it. **O(1)**.
    pub fn pop(&mut self) -> Option<Vec<u8>> {
        let chunk = self.chunks.pop_front()?;
        self.len -= chunk.len();
        self.capacity -= chunk.capacity();
        Some(chunk)
    }

    /// Truncates the sequence of the chunks and `out`, which follows them, to `len` bytes. Does
    /// nothing if the sequence is shorter.
    pub fn truncate(&mut self, out: &mut Vec<u8>, len: usize) {
        if len >= self.len {
            return out.truncate(len - self.len);
        }
        out.clear();
        while self.len > len
            && let Some(mut last) = self.chunks.pop_back()
        {
            self.len -= last.len();
            self.capacity -= last.capacity();
            if self.len < len {
                last.truncate(len - self.len);
                self.push(last);
            }
        }
    }

    /// Moves all chunks into `out`, before its bytes. **O(bytes)**; **O(1)** without chunks.
    pub fn join(&mut self, out: &mut Vec<u8>) {
        if self.chunks.is_empty() {
            return;
        }
        let mut all = Vec::with_capacity(self.len + out.len());
        while let Some(chunk) = self.pop() {
            all.extend_from_slice(&chunk);
        }
        all.append(out);
        *out = all;
    }

    /// Returns the bytes from position `start` on in the sequence of the chunks and `out`.
    pub(crate) fn since(&self, out: &[u8], start: usize) -> Vec<u8> {
        let (mut at, mut bytes) = (0, Vec::new());
        for chunk in self.chunks.iter().map(Vec::as_slice).chain([out]) {
            if at + chunk.len() > start {
                bytes.extend_from_slice(&chunk[start.saturating_sub(at)..]);
            }
            at += chunk.len();
        }
        bytes
    }

    /// Replaces the bytes from `start` to `end`. Does nothing if they are not all in one chunk.
    pub(crate) fn replace(&mut self, start: usize, end: usize, bytes: &[u8]) {
        let mut at = self.len;
        for chunk in self.chunks.iter_mut().rev() {
            at -= chunk.len();
            if at <= start {
                if end - at <= chunk.len() {
                    let (len, capacity) = (chunk.len(), chunk.capacity());
                    chunk.splice(start - at..end - at, bytes.iter().copied());
                    self.len = self.len - len + chunk.len();
                    self.capacity = self.capacity - capacity + chunk.capacity();
                }
                return;
            }
        }
    }

    /// Records that a [`Reply`](crate::Reply) has dropped bytes at its limit.
    pub(crate) fn cut(&mut self) {
        self.is_cut = true;
    }

    /// Returns true if a [`Reply`](crate::Reply) has dropped bytes at its limit, and clears this
    /// flag.
    pub fn take_cut(&mut self) -> bool {
        std::mem::take(&mut self.is_cut)
    }

    /// Returns the first chunk.
    #[inline]
    pub fn first(&self) -> Option<&Vec<u8>> {
        self.chunks.front()
    }

    /// Returns true if there are no chunks.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Returns the number of bytes allocated for the chunks. **O(1)**.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns the number of bytes in the chunks. **O(1)**.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }
}
