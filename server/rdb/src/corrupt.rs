//! Errors in compact encodings.

use thiserror::Error;

/// The error of a compact encoding (listpack, ziplist, intset, ...) that is inconsistent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{reason} at byte {offset}")]
pub struct Corrupt {
    /// Offset in bytes from the start of the encoding.
    pub offset: usize,
    /// The flaw at that offset.
    pub reason: Flaw,
}

impl Corrupt {
    pub(crate) const fn new(offset: usize, reason: Flaw) -> Self {
        Corrupt { offset, reason }
    }
}

/// A flaw of a compact encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Flaw {
    /// The encoding is too short for its header.
    #[error("header cut short")]
    Header,
    /// The header's length, or an intset's number of members, does not fit the length of the
    /// encoding; or the listpack of a ziplist would exceed 4 GiB.
    #[error("length field does not match the data")]
    Length,
    /// The header's number of entries is not the number of entries.
    #[error("count field does not match the entries")]
    Count,
    /// The offset of the last entry in a ziplist's header is not the start of the last entry.
    #[error("tail offset does not point at the last entry")]
    Tail,
    /// The final byte is missing or misplaced.
    #[error("end mark missing or misplaced")]
    End,
    /// The first byte of an entry is not a known encoding, or the width of an intset is unknown.
    #[error("unknown entry encoding")]
    Encoding,
    /// An entry exceeds the remaining bytes.
    #[error("entry longer than the data")]
    Entry,
    /// The length stored for walking backwards over an entry is not the entry's length.
    #[error("length for walking backwards does not match the entry")]
    Backlen,
    /// The numbers of an intset are not ascending.
    #[error("members out of order")]
    Order,
    /// The first elements of a stream's block are not a master entry (see [`crate::stream`]).
    #[error("bad master entry")]
    Master,
    /// An entry of a stream has the wrong form.
    #[error("bad stream entry")]
    StreamEntry,
    /// The IDs of a stream's entries do not ascend.
    #[error("stream entries out of order")]
    StreamOrder,
    /// Compressed data does not expand to the stated length.
    #[error("compressed data is damaged")]
    Compression,
}
