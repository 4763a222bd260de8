//! What can be wrong with a compact encoding.

use thiserror::Error;

/// A compact encoding (listpack, ziplist, intset, ...) that does not hold together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{reason} at byte {offset}")]
pub struct Corrupt {
    /// Where, in bytes from the start of the encoding.
    pub offset: usize,
    /// What is wrong there.
    pub reason: Flaw,
}

impl Corrupt {
    pub(crate) const fn new(offset: usize, reason: Flaw) -> Self {
        Corrupt { offset, reason }
    }
}

/// What is wrong with a compact encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Flaw {
    /// Too short for its own header.
    #[error("header cut short")]
    Header,
    /// The header's length in bytes is not the length of the encoding.
    #[error("length field does not match the data")]
    Length,
    /// The header's number of entries is not the number of entries.
    #[error("count field does not match the entries")]
    Count,
    /// A ziplist's offset of the last entry points elsewhere.
    #[error("tail offset does not point at the last entry")]
    Tail,
    /// The final byte is missing, or stands before the end.
    #[error("end mark missing or misplaced")]
    End,
    /// An entry starts with a byte that no encoding has.
    #[error("unknown entry encoding")]
    Encoding,
    /// An entry does not fit in what is left.
    #[error("entry longer than the data")]
    Entry,
    /// The length by which an entry is walked backwards is not its length.
    #[error("length for walking backwards does not match the entry")]
    Backlen,
    /// The numbers of an intset are not ascending.
    #[error("members out of order")]
    Order,
    /// Compressed data that does not expand to what it should.
    #[error("compressed data is damaged")]
    Compression,
}
