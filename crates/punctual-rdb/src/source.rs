//! Where a reader's bytes come from.

/// A buffer that the reader reads and somebody fills.
///
/// Whoever implements it decides on blocks and files; `&[u8]` is a source that has everything already, and
/// [`Blocks`] one over a function.
pub trait Source {
    /// Why bytes could not be had.
    type Error;

    /// The bytes at hand that are not consumed yet.
    fn buffered(&self) -> &[u8];

    /// Makes at least `want` bytes be at hand, or all that are left if they are fewer.
    ///
    /// The reader asks for more than [`remaining`](Self::remaining) only if that is not known; then memory
    /// must grow with what arrives, not with `want`.
    ///
    /// # Errors
    ///
    /// What hinders it.
    fn fill(&mut self, want: usize) -> Result<(), Self::Error>;

    /// Lets go of the first `count` bytes at hand, of which there are as many.
    fn consume(&mut self, count: usize);

    /// How many bytes are not consumed yet, at hand or not, if that is known.
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

/// A source over a function that puts the next bytes into a slice and tells how many: 0 is the end.
///
/// Reads blocks; a string longer than a block makes the buffer grow for as long as it is needed.
pub struct Blocks<F> {
    fetch: F,
    block: usize,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// What was not fetched yet.
    unfetched: Option<u64>,
    ended: bool,
}

impl<F> Blocks<F> {
    /// Fetches `block` bytes at a time (256 KiB is a good number). `len` is that of the whole input, if known:
    /// it lets absurd lengths be refused at once.
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
            // The room doubles as bytes arrive; `want` alone justifies nothing.
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
