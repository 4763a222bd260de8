//! The source of a reader's bytes.

/// A buffer of input bytes that the reader consumes and the implementation fills.
///
/// There are two implementations: `&[u8]` has all bytes buffered, and [`Blocks`] calls a function
/// that reads the next bytes.
pub trait Source {
    /// The error of reading bytes.
    type Error;

    /// Returns the buffered bytes that are not consumed yet.
    fn buffered(&self) -> &[u8];

    /// Buffers at least `want` bytes, or all remaining bytes if there are fewer.
    ///
    /// If [`remaining`](Self::remaining) returns `None`, `want` may come from a damaged length, so
    /// memory must grow with the bytes that arrive. Otherwise `want` is at most `remaining`.
    ///
    /// # Errors
    ///
    /// The error of the underlying source.
    fn fill(&mut self, want: usize) -> Result<(), Self::Error>;

    /// Consumes the first `count` buffered bytes, which must exist.
    fn consume(&mut self, count: usize);

    /// Returns the number of bytes not consumed yet, buffered or not, if known.
    fn remaining(&self) -> Option<u64>;
}

impl Source for &[u8] {
    type Error = std::convert::Infallible;

    fn buffered(&self) -> &[u8] {
        self
    }

    fn fill(&mut self, _want: usize) -> Result<(), Self::Error> {
        Ok(())
    }

    fn consume(&mut self, count: usize) {
        *self = &self[count..];
    }

    fn remaining(&self) -> Option<u64> {
        Some(self.len() as u64)
    }
}

/// A source over a function that fills a slice with the next bytes and returns their number, 0 at
/// the end.
///
/// The source reads blocks. The buffer grows for a string longer than a block, and shrinks later.
pub struct Blocks<F> {
    fetch: F,
    /// Number of bytes to fetch at a time.
    block: usize,
    buffer: Vec<u8>,
    /// Start of the unconsumed bytes in `buffer`.
    start: usize,
    /// End of the fetched bytes in `buffer`.
    end: usize,
    /// Number of bytes not fetched yet, if known.
    unfetched: Option<u64>,
    /// Whether `fetch` has returned 0.
    ended: bool,
}

impl<F> Blocks<F> {
    /// Returns a source that fetches `block` bytes at a time (256 KiB is a good size). `len` is the
    /// length of the whole input, if known: the reader then refuses lengths beyond it at once.
    pub fn new(block: usize, len: Option<u64>, fetch: F) -> Self {
        Blocks {
            fetch,
            block: block.max(1),
            buffer: Vec::new(),
            start: 0,
            end: 0,
            unfetched: len,
            ended: false,
        }
    }
}

impl<F, E> Source for Blocks<F>
where
    F: FnMut(&mut [u8]) -> Result<usize, E>,
{
    type Error = E;

    fn buffered(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    fn fill(&mut self, want: usize) -> Result<(), E> {
        if self.end - self.start >= want {
            return Ok(());
        }
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        while self.end < want && !self.ended {
            // The buffer at most doubles with the bytes that have arrived, because `want` may come
            // from a damaged length.
            let room = want.max(self.block).min(2 * self.end.max(self.block));
            if self.buffer.len() < room {
                self.buffer.resize(room, 0);
            } else if self.end == 0 && self.buffer.len() > 4 * room {
                self.buffer = vec![0; room];
            }
            let place = &mut self.buffer[self.end..];
            let fetched = (self.fetch)(place)?.min(place.len());
            self.end += fetched;
            self.ended = fetched == 0;
            if let Some(unfetched) = &mut self.unfetched {
                *unfetched = unfetched.saturating_sub(fetched as u64);
            }
        }
        Ok(())
    }

    fn consume(&mut self, count: usize) {
        self.start = (self.start + count).min(self.end);
    }

    fn remaining(&self) -> Option<u64> {
        Some(self.unfetched? + (self.end - self.start) as u64)
    }
}
