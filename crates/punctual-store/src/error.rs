//! Errors of commands, and the one place where they become Redis's texts.

use std::borrow::Cow;

/// Why a command was refused. [`Error::bytes`] gives Redis's exact line, code word included.
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
    /// A text of Redis's that repeats what the client sent, byte for byte.
    #[error("{}", String::from_utf8_lossy(.0))]
    Bytes(Box<[u8]>),
}

impl Error {
    /// An error with a fixed text, code word included (`"ERR ..."`).
    pub const fn fixed(text: &'static str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }

    /// An error that repeats an argument between two texts, the first beginning with the code word. As Redis does,
    /// it repeats nothing from the first NUL on.
    ///
    /// ```
    /// use punctual_store::Error;
    ///
    /// let error = Error::repeating("ERR No such user '", b"a\xff\0b", "'");
    /// assert_eq!(&*error.bytes(), b"ERR No such user 'a\xff'");
    /// ```
    pub fn repeating(before: &str, argument: &[u8], after: &str) -> Self {
        Self::Bytes(
            [before.as_bytes(), c_string(argument), after.as_bytes()]
                .concat()
                .into(),
        )
    }

    /// Redis's line for this error, without the leading `-` and the line end. Line ends that came with a repeated
    /// argument are still in it.
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Text(Cow::Borrowed(text)) => Cow::Borrowed(text.as_bytes()),
            Self::Bytes(text) => Cow::Borrowed(text),
            other => Cow::Owned(other.to_string().into_bytes()),
        }
    }
}

/// An argument up to its first NUL, where C's strings end.
pub fn c_string(argument: &[u8]) -> &[u8] {
    argument.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// As much of a name as Redis repeats where it repeats names only in part: 128 bytes.
pub fn brief(name: &[u8]) -> &[u8] {
    let name = c_string(name);
    &name[..name.len().min(128)]
}
