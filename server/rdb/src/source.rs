//! The source of a reader's bytes.

/// A buffer that the reader consumes and the implementation fills.
///
/// The implementation decides on blocks and files. `&[u8]` is a source with all bytes buffered, and
/// [`Blocks`] reads from a function.
pub trait Source {
    /// The error of reading bytes.
    type Error;

    /// Returns the buffered bytes that are not consumed yet.
    fn buffered(&self) -> &[u8];

    /// Buffers at least `want` bytes, or all remaining ones if they are fewer.
    ///
    /// The reader asks for more than [`remaining`](Self::remaining) only if that is unknown; then
    /// memory must grow with the bytes that arrive, not with `want`.
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
/// Reads blocks; a string longer than a block makes the buffer grow while it is needed.
pub struct Blocks<F> {
    fetch: F,
    block: usize,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Number of bytes not fetched yet, if known.
    unfetched: Option<u64>,
    ended: bool,
}

impl<F> Blocks<F> {
    /// Returns a source that fetches `block` bytes at a time (256 KiB is a good number). `len` is
    /// the length of the whole input, if known: it allows absurd lengths to be refused at once.
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
            // Memory doubles as bytes arrive; `want` alone does not justify more.
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
