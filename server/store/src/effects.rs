//! The changes of a turn ([`Effects`]) as commands that lead to the same keyspace when they are
//! replayed. `turn/effects.rs` has the rules.

use punctual_resp::{Protocol, Reply};

use crate::planted::Bug;

const MULTI: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";
const EXEC: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";
/// Maximum capacity in bytes that an emptied buffer keeps.
const KEPT: usize = 1 << 20;

/// Commands in the order in which they changed the keyspace, in RESP.
#[derive(Debug, Default)]
pub struct Effects {
    pub(crate) bytes: Vec<u8>,
    /// Databases of the first and of the last effect.
    dbs: Option<(usize, usize)>,
    /// Ranges of `bytes` that are for replicas only: published messages.
    pub(crate) for_replicas: Vec<(usize, usize)>,
    pub(crate) frame: Frame,
}

/// Effects that MULTI and EXEC will surround.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    /// Number of open frames, one inside the other. Only the outermost is surrounded.
    pub(crate) depth: u32,
    pub(crate) start: usize,
    pub(crate) commands: u32,
}

impl Effects {
    /// Returns true if there are no effects.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the database that must be selected before the effects, and the database that is
    /// selected after them. `None` if there are no effects.
    pub fn dbs(&self) -> Option<(usize, usize)> {
        self.dbs
    }

    /// Returns all effects, for replicas.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the parts for a file: all effects except published messages, in order.
    pub fn parts_for_files(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.for_replicas.iter().map(|part| part.1));
        let ends = self.for_replicas.iter().map(|part| part.0);
        let ends = ends.chain(std::iter::once(self.bytes.len()));
        starts
            .zip(ends)
            .map(|(start, end)| &self.bytes[start..end])
            .filter(|part| !part.is_empty())
    }

    #[inline]
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT);
        self.dbs = None;
        self.for_replicas.clear();
        self.frame.start = 0;
        self.frame.commands = 0;
    }

    #[inline]
    pub(crate) fn select(&mut self, db: usize) {
        match &mut self.dbs {
            None => self.dbs = Some((db, db)),
            Some((_, last)) if *last == db => {}
            Some((_, last)) => {
                *last = db;
                write_select(&mut self.bytes, db);
            }
        }
    }

    pub(crate) fn push<W: AsRef<[u8]>>(&mut self, words: impl ExactSizeIterator<Item = W>) {
        Reply::new(&mut self.bytes, Protocol::Resp2).array(words.len());
        self.push_words(words);
    }

    pub(crate) fn push_words<W: AsRef<[u8]>>(&mut self, words: impl Iterator<Item = W>) {
        let mut reply = Reply::new(&mut self.bytes, Protocol::Resp2);
        words.for_each(|word| reply.bulk(word.as_ref()));
    }

    #[inline]
    pub(crate) fn end_frame(&mut self) {
        self.frame.depth -= 1;
        if self.frame.depth == 0 {
            self.surround();
        }
    }

    /// Surrounds the effects of the frame by MULTI and EXEC if there are several. Later effects of
    /// the frame are surrounded separately.
    pub(crate) fn surround(&mut self) {
        if self.frame.commands < 2 || Bug::TornTransaction.is_active() {
            return;
        }
        self.frame.commands = 0;
        let start = self.frame.start;
        self.bytes.splice(start..start, MULTI.iter().copied());
        for part in self.for_replicas.iter_mut().filter(|p| p.0 >= start) {
            part.0 += MULTI.len();
            part.1 += MULTI.len();
        }
        self.bytes.extend_from_slice(EXEC);
    }
}

/// Appends the command SELECT.
pub fn write_select(out: &mut Vec<u8>, db: usize) {
    let mut buffer = itoa::Buffer::new();
    punctual_resp::encode_command(out, &["SELECT", buffer.format(db)]);
}
