//! Errors of commands, and the one place where they become Redis's texts.

use std::borrow::Cow;

/// Why a command was refused. [`Error::text`] gives Redis's exact line, code word included.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The key holds another type.
    #[error("WRONGTYPE Operation against a key holding the wrong kind of value")]
    WrongType,
    /// Options that do not go together or are not known.
    #[error("ERR syntax error")]
    Syntax,
    /// An argument or a value is not a 64-bit integer.
    #[error("ERR value is not an integer or out of range")]
    NotInteger,
    /// An argument or a value is not a float.
    #[error("ERR value is not a valid float")]
    NotFloat,
    /// A count or a position outside of what the command takes.
    #[error("ERR value is out of range")]
    OutOfRange,
    /// The named key does not exist, where the command needs it.
    #[error("ERR no such key")]
    NoSuchKey,
    /// A database number outside of `databases`.
    #[error("ERR DB index is out of range")]
    DbRange,
    /// An offset that is negative or too large.
    #[error("ERR offset is out of range")]
    OffsetRange,
    /// The value would pass `proto-max-bulk-len`.
    #[error("ERR string exceeds maximum allowed size (proto-max-bulk-len)")]
    TooLong,
    /// An expire time that is not positive, or overflows; names the command.
    #[error("ERR invalid expire time in '{0}' command")]
    ExpireTime(&'static str),
    /// Too few or too many arguments; names the command.
    #[error("ERR wrong number of arguments for '{0}' command")]
    Arity(Cow<'static, str>),
    /// Any other of Redis's texts, with its code word.
    #[error("{0}")]
    Text(Cow<'static, str>),
}

impl Error {
    /// An error with a fixed text, code word included (`"ERR ..."`).
    pub const fn fixed(text: &'static str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }

    /// Redis's line for this error, without the leading `-` and the line end.
    pub fn text(&self) -> String {
        self.to_string()
    }
}
