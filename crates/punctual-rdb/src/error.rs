//! Why a snapshot is refused, and where.

use std::convert::Infallible;

use thiserror::Error;

use crate::corrupt::Corrupt;

/// A snapshot or DUMP payload that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{reason} (offset {offset})")]
pub struct Error {
    /// Where, in bytes from the start: of what cannot be read, or of the string that holds it.
    pub offset: u64,
    /// What is wrong there.
    pub reason: Reason,
}

/// What is wrong with a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Reason {
    /// The first bytes are not those of a snapshot.
    #[error("wrong signature")]
    Signature,
    /// A version of the format that is not known.
    #[error("format version {0} is not supported")]
    Version(u32),
    /// The input ends here, before the snapshot does; or what is here tells of more than is left.
    #[error("unexpected end of data")]
    Truncated,
    /// A record of a type that is not known.
    #[error("unknown record type {0}")]
    Type(u8),
    /// A record that cannot be read, nor skipped: only the module that wrote it could.
    #[error("record of type {0} can be read by a module only")]
    Module(u8),
    /// Something other than a length in the place of a length.
    #[error("bad length")]
    Length,
    /// A string in an encoding that is not known.
    #[error("unknown string encoding {0}")]
    StringEncoding(u8),
    /// A compact encoding that does not hold together, with the offset in it.
    #[error("bad compact encoding: {0}")]
    Compact(Corrupt),
    /// A field without a value, a member without a score.
    #[error("entries that do not pair up")]
    Pairing,
    /// A score that is no number.
    #[error("bad score")]
    Score,
    /// A time that cannot be.
    #[error("bad expiry time")]
    Expiry,
    /// A field or member twice.
    #[error("duplicate fields or members")]
    Duplicate,
    /// A list's node that is neither plain nor packed.
    #[error("bad list node")]
    Node,
    /// The checksum at the end is not that of the data.
    #[error("wrong checksum: {stored:#018x} is stored, {computed:#018x} computed")]
    Checksum {
        /// At the end of the data.
        stored: u64,
        /// Of the data.
        computed: u64,
    },
}

/// Reading failed: the bytes are wrong, or could not be had.
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
