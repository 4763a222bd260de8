//! A queue for the bytes of a primary's snapshot, from loop 0 to the thread that loads the
//! snapshot.
//!
//! The loop adds the bytes that it reads, and stops reading at [`CAPACITY`]. The thread waits for
//! bytes, or for the end that the loop has set. No other lock is taken under the mutex, which is
//! held only to copy bytes.

use std::collections::VecDeque;
use std::io;

use parking_lot::{Condvar, Mutex};

/// Maximum number of bytes in the queue.
const CAPACITY: usize = 4 << 20;

/// A queue of bytes with one reader.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    blocks: VecDeque<Vec<u8>>,
    /// Number of bytes of the first block that have been read.
    read: usize,
    len: usize,
    /// Reason for which no more bytes follow.
    end: Option<io::ErrorKind>,
    /// The loop has stopped reading until there is room.
    full: bool,
}

impl State {
    /// Moves bytes to `place` and returns their number.
    fn take(&mut self, place: &mut [u8]) -> usize {
        let mut count = 0;
        while let Some(block) = self.blocks.front()
            && count < place.len()
        {
            let rest = &block[self.read..];
            let part = rest.len().min(place.len() - count);
            place[count..count + part].copy_from_slice(&rest[..part]);
            count += part;
            self.read += part;
            if self.read == block.len() {
                self.blocks.pop_front();
                self.read = 0;
            }
        }
        self.len -= count;
        count
    }
}

impl Incoming {
    /// Adds a block of bytes.
    pub(crate) fn push(&self, block: Vec<u8>) {
        let mut state = self.state.lock();
        if !block.is_empty() {
            state.len += block.len();
            state.blocks.push_back(block);
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Returns the number of bytes that the loop may add. If the number is 0, [`Incoming::read`]
    /// calls its `resume` when more than half of the capacity is free.
    pub(crate) fn room(&self) -> usize {
        let mut state = self.state.lock();
        let room = CAPACITY.saturating_sub(state.len);
        state.full = room == 0;
        room
    }

    /// Ends the queue: no more bytes follow. Only the first call has an effect.
    pub(crate) fn end(&self, why: io::ErrorKind) {
        self.state.lock().end.get_or_insert(why);
        self.changed.notify_one();
    }

    /// Reads some bytes. Blocks until there are bytes or the queue has ended, unless `place` is
    /// empty. Calls `resume` if the loop has stopped reading and more than half of the capacity is
    /// free again.
    ///
    /// # Errors
    /// Returns the reason of the end after all bytes are read.
    pub(crate) fn read(&self, place: &mut [u8], resume: impl FnOnce()) -> io::Result<usize> {
        let mut state = self.state.lock();
        while state.len == 0 && !place.is_empty() {
            if let Some(why) = state.end {
                return Err(why.into());
            }
            self.changed.wait(&mut state);
        }
        let count = state.take(place);
        if state.full && state.len < CAPACITY / 2 {
            state.full = false;
            drop(state);
            resume();
        }
        Ok(count)
    }

    /// Returns the bytes that have not been read.
    pub(crate) fn take_rest(&self) -> Vec<u8> {
        let mut state = self.state.lock();
        let mut rest = vec![0; state.len];
        state.take(&mut rest);
        rest
    }
}
