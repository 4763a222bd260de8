//! Errors of commands. Commands of Redis have the texts that Redis replies with.

use std::borrow::Cow;

/// Error of a command. [`Error::bytes`] returns the line of the reply, including the code word
/// (`ERR`); for a command of Redis it is exactly Redis's line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The key holds another type.
    #[error("WRONGTYPE Operation against a key holding the wrong kind of value")]
    WrongType,
    /// Unknown or incompatible options.
    #[error("ERR syntax error")]
    Syntax,
    /// An argument or a value is not a 64-bit integer.
    #[error("ERR value is not an integer or out of range")]
    NotInteger,
    /// An argument or a value is not a float.
    #[error("ERR value is not a valid float")]
    NotFloat,
    /// A count, a position or another number is out of the command's range.
    #[error("ERR value is out of range")]
    OutOfRange,
    /// The key (or the job, for JOB commands of the log) does not exist, and the command requires
    /// it.
    #[error("ERR no such key")]
    NoSuchKey,
    /// A database number that is not below `databases`.
    #[error("ERR DB index is out of range")]
    DbRange,
    /// An offset that is negative or too large.
    #[error("ERR offset is out of range")]
    OffsetRange,
    /// The value would exceed `proto-max-bulk-len`.
    #[error("ERR string exceeds maximum allowed size (proto-max-bulk-len)")]
    TooLong,
    /// An expire time that is not positive or overflows, with the command's name.
    #[error("ERR invalid expire time in '{0}' command")]
    ExpireTime(&'static str),
    /// Too few or too many arguments, with the command's name.
    #[error("ERR wrong number of arguments for '{0}' command")]
    Arity(Cow<'static, str>),
    /// Any other text, including the code word.
    #[error("{0}")]
    Text(Cow<'static, str>),
    /// A text that repeats bytes of an argument, which need not be UTF-8.
    #[error("{}", String::from_utf8_lossy(.0))]
    Bytes(Box<[u8]>),
}

impl Error {
    /// Creates an error from a fixed text that includes the code word (`"ERR ..."`).
    pub const fn fixed(text: &'static str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }

    /// Creates an error that repeats an argument between two texts; `before` starts with the code
    /// word. As in Redis, the argument ends at its first NUL.
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

    /// Returns the line of the reply, without the leading `-` and the line end. Line ends in a
    /// repeated argument are not escaped.
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Text(Cow::Borrowed(text)) => Cow::Borrowed(text.as_bytes()),
            Self::Bytes(text) => Cow::Borrowed(text),
            other => Cow::Owned(other.to_string().into_bytes()),
        }
    }
}

/// Returns the bytes of an argument before its first NUL, as C reads strings.
pub fn c_string(argument: &[u8]) -> &[u8] {
    argument.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Returns at most 128 bytes of a name, up to its first NUL: the part that Redis repeats in some
/// errors.
pub fn brief(name: &[u8]) -> &[u8] {
    let name = c_string(name);
    &name[..name.len().min(128)]
}
