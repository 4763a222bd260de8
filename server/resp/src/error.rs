//! Errors in received bytes.

use std::fmt;

use thiserror::Error;

/// The error of client bytes that are not a command. The connection cannot be resynchronised: send
/// [`Reply::protocol_error`](crate::Reply::protocol_error) and close it.
///
/// `Display` prints the text that Redis sends after `-ERR `. A byte in
/// [`ExpectedDollar`](ProtocolError::ExpectedDollar) that is not ASCII prints as U+FFFD;
/// [`ProtocolError::write_to`] writes the byte itself.
///
/// ```
/// use punctual_resp::{Limits, Parser};
///
/// let error = Parser::new().parse(b"*1\r\n:4\r\nPING\r\n", &Limits::default()).unwrap_err();
/// assert_eq!(error.to_string(), "Protocol error: expected '$', got ':'");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProtocolError {
    /// The text after `*` is not a number, or the number is more than
    /// [`Limits::args_max`](crate::Limits::args_max).
    InvalidMultibulkLength,
    /// The text after `$` is not a number, or the number is negative, more than
    /// [`Limits::bulk_max`](crate::Limits::bulk_max), or 4 GiB and more.
    InvalidBulkLength,
    /// An argument starts with this byte instead of `$`.
    ExpectedDollar(u8),
    /// The line after `*` is longer than [`Limits::inline_max`](crate::Limits::inline_max).
    TooBigMultibulkCount,
    /// The line after `$` is longer than [`Limits::inline_max`](crate::Limits::inline_max).
    TooBigBulkCount,
    /// An inline command is longer than [`Limits::inline_max`](crate::Limits::inline_max).
    TooBigInline,
    /// An inline command opens a quote that it does not close, or has text directly after a closing
    /// quote.
    UnbalancedQuotes,
    /// A client that has not authenticated sends more than
    /// [`Limits::UNAUTHENTICATED_ARGS_MAX`](crate::Limits::UNAUTHENTICATED_ARGS_MAX) arguments.
    UnauthenticatedMultibulk,
    /// A client that has not authenticated sends an argument longer than
    /// [`Limits::UNAUTHENTICATED_BULK_MAX`](crate::Limits::UNAUTHENTICATED_BULK_MAX).
    UnauthenticatedBulk,
    /// The whole command would exceed 4 GiB, the range of the parser's 32-bit offsets. Redis has no
    /// text for this case: it closes the connection at `client-query-buffer-limit` (1 GiB by
    /// default), and a server should do the same.
    CommandTooBig,
}

impl ProtocolError {
    fn text(&self) -> &'static str {
        match self {
            ProtocolError::InvalidMultibulkLength => "Protocol error: invalid multibulk length",
            ProtocolError::InvalidBulkLength => "Protocol error: invalid bulk length",
            ProtocolError::ExpectedDollar(_) => "Protocol error: expected '$', got '",
            ProtocolError::TooBigMultibulkCount => "Protocol error: too big mbulk count string",
            ProtocolError::TooBigBulkCount => "Protocol error: too big bulk count string",
            ProtocolError::TooBigInline => "Protocol error: too big inline request",
            ProtocolError::UnbalancedQuotes => "Protocol error: unbalanced quotes in request",
            ProtocolError::UnauthenticatedMultibulk => {
                "Protocol error: unauthenticated multibulk length"
            }
            ProtocolError::UnauthenticatedBulk => "Protocol error: unauthenticated bulk length",
            ProtocolError::CommandTooBig => "Protocol error: too big request",
        }
    }

    /// Appends the text to `out`, with the offending byte as it was received; CR and LF become a
    /// space.
    ///
    /// ```
    /// use punctual_resp::ProtocolError;
    ///
    /// let mut out = Vec::new();
    /// ProtocolError::ExpectedDollar(0xfe).write_to(&mut out);
    /// assert_eq!(out, b"Protocol error: expected '$', got '\xfe'");
    /// ```
    pub fn write_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.text().as_bytes());
        if let ProtocolError::ExpectedDollar(byte) = self {
            // A CR or LF would end the reply's line, so Redis writes a space instead.
            out.push(if matches!(byte, b'\r' | b'\n') {
                b' '
            } else {
                *byte
            });
            out.push(b'\'');
        }
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::with_capacity(64);
        self.write_to(&mut text);
        f.write_str(&String::from_utf8_lossy(&text))
    }
}

impl std::error::Error for ProtocolError {}

/// The error of server bytes that are not a reply. `at` is an offset in bytes from the start of the
/// reply.
///
/// ```
/// use punctual_resp::{DecodeError, decode};
///
/// let error = decode(b"*2\r\n:1\r\nHTTP/1.1").unwrap_err();
/// assert_eq!(error, DecodeError::UnknownType { at: 8, byte: b'H' });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// No RESP type starts with this byte.
    #[error("byte {at} of the reply is {byte:#04x}, which starts no RESP type")]
    UnknownType {
        /// Offset of the type byte.
        at: usize,
        /// The byte at the offset.
        byte: u8,
    },
    /// A length or count is not a number, is negative without meaning null, or is too large.
    /// Streamed lengths (`?`) are refused as well, because no server sends them.
    #[error("byte {at} of the reply starts a length that is not a number or out of range")]
    InvalidLength {
        /// Offset of the length or of the value that it belongs to.
        at: usize,
    },
    /// The text of a number, double, boolean, null or verbatim format is malformed.
    #[error("byte {at} of the reply starts a value that its type does not allow")]
    InvalidValue {
        /// Offset of the text.
        at: usize,
    },
    /// A line or a bulk does not end in CR LF.
    #[error("byte {at} of the reply should be CR LF")]
    MissingLineEnd {
        /// Offset at which CR LF is expected.
        at: usize,
    },
    /// Arrays, maps and sets are nested deeper than [`MAX_DEPTH`](crate::MAX_DEPTH).
    #[error(
        "byte {at} of the reply opens one more level than the {} allowed",
        crate::MAX_DEPTH
    )]
    TooDeep {
        /// Offset of the value that is nested too deep.
        at: usize,
    },
}
