//! Errors of reading a snapshot.

use std::convert::Infallible;

use thiserror::Error;

use crate::corrupt::Corrupt;

/// The error of a snapshot or DUMP payload that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{reason} (offset {offset})")]
pub struct Error {
    /// Offset in bytes, from the start of the input, of the flaw or of the string that contains it.
    pub offset: u64,
    /// The reason.
    pub reason: Reason,
}

/// The reason for which a snapshot is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Reason {
    /// The snapshot does not start with `REDIS` and four digits, or `VALKEY` and three.
    #[error("wrong signature")]
    Signature,
    /// The version of the format is unknown.
    #[error("format version {0} is not supported")]
    Version(u32),
    /// The input ends before the snapshot does, or an announced length exceeds the rest of the
    /// input.
    #[error("unexpected end of data")]
    Truncated,
    /// The type of a record is unknown, or the value in a payload is a module's.
    #[error("unknown record type {0}")]
    Type(u8),
    /// The record can neither be read nor skipped without the module that wrote it.
    #[error("record of type {0} can be read by a module only")]
    Module(u8),
    /// The byte at the offset does not start a length, or does not start the expected part of a
    /// module's value.
    #[error("bad length")]
    Length,
    /// The encoding of a string is unknown.
    #[error("unknown string encoding {0}")]
    StringEncoding(u8),
    /// A compact encoding is inconsistent. [`Corrupt::offset`] is an offset within the encoding.
    #[error("bad compact encoding: {0}")]
    Compact(Corrupt),
    /// The number of entries does not fit the type: a field has no value, or a member no score.
    #[error("entries that do not pair up")]
    Pairing,
    /// A score is not a number.
    #[error("bad score")]
    Score,
    /// An expiry time is out of range.
    #[error("bad expiry time")]
    Expiry,
    /// A field or member occurs twice.
    #[error("duplicate fields or members")]
    Duplicate,
    /// A list's node is neither plain nor packed, or is plain and empty.
    #[error("bad list node")]
    Node,
    /// The parts of a stream do not fit together.
    #[error("bad stream: {0}")]
    Stream(StreamFlaw),
    /// The checksum at the end differs from the checksum of the data.
    #[error("CRC error: {stored:#018x} is stored, {computed:#018x} computed")]
    Checksum {
        /// The checksum at the end of the data.
        stored: u64,
        /// The checksum computed from the data.
        computed: u64,
    },
}

/// A flaw of a stream, outside of its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StreamFlaw {
    /// The key of a block is not an ID.
    #[error("the key of a block is not an ID")]
    BlockId,
    /// IDs that must ascend do not ascend.
    #[error("IDs do not ascend")]
    Order,
    /// The length, the last ID or a counter contradicts the entries or another counter.
    #[error("counters or IDs contradict the entries")]
    Totals,
    /// Two groups have the same name.
    #[error("Duplicate stream group detected")]
    GroupName,
    /// Two consumers of a group have the same name.
    #[error("Duplicate stream consumer detected")]
    ConsumerName,
    /// A pending entry of a group does not have exactly one consumer, or a consumer's pending entry
    /// is not a pending entry of the group.
    #[error("pending entries of group and consumers differ")]
    Owner,
}

/// The error of reading: wrong bytes, or a failed [`Source`](crate::Source).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Failure<E> {
    /// The bytes are wrong.
    #[error(transparent)]
    Format(#[from] Error),
    /// The source failed.
    #[error("{0}")]
    Source(E),
}

impl From<Failure<Infallible>> for Error {
    fn from(failure: Failure<Infallible>) -> Self {
        match failure {
            Failure::Format(error) => error,
            Failure::Source(never) => match never {},
        }
    }
}
