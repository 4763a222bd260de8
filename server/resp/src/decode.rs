//! The client side: commands to bytes, replies to values.
//!
//! [`ReplyScan`] measures a reply without recursion, and the reply is decoded once it is complete.
//! Measuring checks types, lengths and line ends. Decoding also checks the text inside lines and
//! that the nesting is not deeper than [`MAX_DEPTH`]. Memory is proportional to the bytes received,
//! not to the lengths that headers announce.

use memchr::memchr;

use crate::decimal;
use crate::error::DecodeError;
use crate::value::Value;

/// Maximum nesting depth of arrays, maps and sets in a reply that is decoded.
pub const MAX_DEPTH: usize = 128;

/// Appends a command as clients send it: an array of bulk strings.
///
/// ```
/// let mut out = Vec::new();
/// punctual_resp::encode_command(&mut out, &["GET", "key"]);
/// assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n");
/// ```
pub fn encode_command(out: &mut Vec<u8>, args: &[impl AsRef<[u8]>]) {
    let mut reply = crate::Reply::new(out, crate::Protocol::Resp2);
    reply.array(args.len());
    for arg in args {
        reply.bulk(arg.as_ref());
    }
}

/// Measures the length of one reply. The scan resumes where it stopped, so input that arrives byte
/// by byte costs no more than whole input.
///
/// ```
/// use punctual_resp::ReplyScan;
///
/// let mut scan = ReplyScan::new();
/// assert_eq!(scan.advance(b"*2\r\n:1\r\n$3\r\nab").unwrap(), None);
/// assert_eq!(scan.advance(b"*2\r\n:1\r\n$3\r\nabc\r\n+next\r\n").unwrap(), Some(17));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ReplyScan {
    /// Number of bytes measured so far, from the start of the reply.
    pos: usize,
    /// Number of bytes from `pos` on that are known to contain no line end.
    scanned: usize,
    /// Number of values that are still missing.
    pending: u64,
}

impl ReplyScan {
    /// Returns a scan at the start of a reply.
    pub fn new() -> Self {
        ReplyScan {
            pos: 0,
            scanned: 0,
            pending: 1,
        }
    }

    /// Returns the length of the reply that starts at `buf[0]` if it is complete, and prepares the
    /// scan for the next reply. Returns `None` for an incomplete reply: call again with the same
    /// bytes and more after them.
    ///
    /// # Errors
    ///
    /// A [`DecodeError`] if the bytes are not RESP. The text inside lines is not checked.
    #[inline]
    pub fn advance(&mut self, buf: &[u8]) -> Result<Option<usize>, DecodeError> {
        while self.pending > 0 {
            let rest = buf.get(self.pos..).unwrap_or_default();
            let Some(head) = Head::read(rest, self.pos, &mut self.scanned)? else {
                return Ok(None);
            };
            let mut len = head.len;
            self.pending -= 1;
            match head.kind {
                Kind::Line => {}
                Kind::Bulk(size) => {
                    len += size + 2;
                    if rest.len() < len {
                        self.pending += 1;
                        return Ok(None);
                    }
                    line_end(&rest[len - 2..len], self.pos + len - 2)?;
                }
                Kind::Values(count) => {
                    let at = self.pos;
                    self.pending = self
                        .pending
                        .checked_add(count)
                        .ok_or(DecodeError::InvalidLength { at })?;
                }
            }
            self.pos += len;
            self.scanned = 0;
        }
        let len = self.pos;
        *self = ReplyScan::new();
        Ok(Some(len))
    }
}

impl Default for ReplyScan {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the length of the reply that starts at `buf[0]`, or `None` if it is incomplete.
/// Allocates nothing and reads no bulk body. Each call starts again at `buf[0]`; for replies that
/// arrive in many pieces, use [`ReplyScan`].
///
/// # Errors
///
/// A [`DecodeError`] if the bytes are not RESP.
///
/// ```
/// use punctual_resp::reply_len;
///
/// assert_eq!(reply_len(b"$5\r\nhello\r\n+OK\r\n").unwrap(), Some(11));
/// assert_eq!(reply_len(b"$5\r\nhel").unwrap(), None);
/// ```
#[inline]
pub fn reply_len(buf: &[u8]) -> Result<Option<usize>, DecodeError> {
    ReplyScan::new().advance(buf)
}

/// Decodes the reply that starts at `buf[0]`. Returns the value and its length, or `None` if it is
/// incomplete.
///
/// # Errors
///
/// A [`DecodeError`] if the bytes are not RESP, or the reply is nested deeper than [`MAX_DEPTH`].
///
/// ```
/// use punctual_resp::{Value, decode};
///
/// let (value, len) = decode(b"*2\r\n:1\r\n$-1\r\n").unwrap().unwrap();
/// assert_eq!(value, Value::Array(vec![Value::Int(1), Value::NullBulk]));
/// assert_eq!(len, 13);
/// ```
pub fn decode(buf: &[u8]) -> Result<Option<(Value, usize)>, DecodeError> {
    match reply_len(buf)? {
        None => Ok(None),
        Some(len) => decode_measured(&buf[..len]).map(|value| Some((value, len))),
    }
}

/// Decodes a stream of replies that arrives in pieces of any size. Total time is **O(bytes)**.
///
/// ```
/// use punctual_resp::{Decoder, Value};
///
/// let mut decoder = Decoder::new();
/// decoder.feed(b"+OK\r\n$5\r\nhe");
/// assert_eq!(decoder.next_value().unwrap(), Some(Value::Simple(b"OK".to_vec())));
/// assert_eq!(decoder.next_value().unwrap(), None);
/// decoder.feed(b"llo\r\n");
/// assert_eq!(decoder.next_value().unwrap(), Some(Value::bulk("hello")));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    buf: Vec<u8>,
    /// Number of bytes of `buf` already decoded.
    start: usize,
    scan: ReplyScan,
}

impl Decoder {
    /// Returns a decoder at the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds received bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        // The undecoded bytes are moved to the front only if there are at least as many decoded
        // bytes before them, so the total time of all moves is O(bytes).
        if self.start > 0 && self.start >= self.buf.len() - self.start {
            self.buf.drain(..self.start);
            self.start = 0;
        }
        self.buf.extend_from_slice(bytes);
    }

    /// Returns the next reply, or `None` if it is incomplete.
    ///
    /// # Errors
    ///
    /// A [`DecodeError`]; the stream cannot be decoded further.
    pub fn next_value(&mut self) -> Result<Option<Value>, DecodeError> {
        let rest = &self.buf[self.start..];
        let Some(len) = self.scan.advance(rest)? else {
            return Ok(None);
        };
        let value = decode_measured(&rest[..len]);
        self.start += len;
        value.map(Some)
    }

    /// Returns the number of bytes fed and not decoded yet.
    pub fn pending(&self) -> usize {
        self.buf.len() - self.start
    }
}

/// The data after a value's first line.
#[derive(Clone, Copy)]
enum Kind {
    /// No data: the line is the whole value.
    Line,
    /// The given number of bytes, and a line end.
    Bulk(usize),
    /// The given number of values. For attributes, the number includes the value they describe.
    Values(u64),
}

/// The first line of a value.
struct Head {
    /// Length of the line, including the type byte and the line end.
    len: usize,
    kind: Kind,
}

impl Head {
    /// Reads the line at the start of `rest`; `at` is its offset in the reply. Returns `None` if
    /// the line is incomplete, and stores in `scanned` how many bytes of it have no line end.
    #[inline]
    fn read(rest: &[u8], at: usize, scanned: &mut usize) -> Result<Option<Head>, DecodeError> {
        let Some(&byte) = rest.first() else {
            return Ok(None);
        };
        if !b"+-:$*_,#(%~>|!=".contains(&byte) {
            return Err(DecodeError::UnknownType { at, byte });
        }
        let from = (*scanned).max(1);
        let Some(cr) = memchr(b'\r', rest.get(from..).unwrap_or_default()).map(|i| i + from) else {
            *scanned = rest.len();
            return Ok(None);
        };
        *scanned = cr;
        match rest.get(cr + 1) {
            None => return Ok(None),
            Some(b'\n') => {}
            Some(_) => return Err(DecodeError::MissingLineEnd { at: at + cr }),
        }
        let invalid = DecodeError::InvalidLength { at: at + 1 };
        let text = &rest[1..cr];
        let count = || match (byte, decimal::parse_i64(text)) {
            (b'$' | b'*', Some(-1)) => Ok(None),
            (_, Some(count @ 0..)) => Ok(Some(count as u64)),
            _ => Err(invalid),
        };
        let kind = match byte {
            b'$' | b'!' | b'=' => match count()? {
                None => Kind::Line,
                // At most half of the range, so adding the line's length and offset cannot
                // overflow.
                Some(size) if size <= (isize::MAX / 2) as u64 => Kind::Bulk(size as usize),
                Some(_) => return Err(invalid),
            },
            b'*' | b'~' | b'>' => count()?.map_or(Kind::Line, Kind::Values),
            b'%' | b'|' => {
                // The count fits in an `i64`, so doubling it and adding one fits.
                let pairs = count()?.unwrap_or(0);
                Kind::Values(pairs * 2 + u64::from(byte == b'|'))
            }
            _ => Kind::Line,
        };
        Ok(Some(Head { len: cr + 2, kind }))
    }
}

#[inline]
fn line_end(found: &[u8], at: usize) -> Result<(), DecodeError> {
    if found == b"\r\n" {
        Ok(())
    } else {
        Err(DecodeError::MissingLineEnd { at })
    }
}

/// Decodes `buf`, which [`ReplyScan`] has found to be exactly one reply.
fn decode_measured(buf: &[u8]) -> Result<Value, DecodeError> {
    Cursor { buf, pos: 0 }.value(0)
}

struct Cursor<'b> {
    buf: &'b [u8],
    pos: usize,
}

impl Cursor<'_> {
    fn value(&mut self, depth: usize) -> Result<Value, DecodeError> {
        let at = self.pos;
        let rest = self.buf.get(at..).unwrap_or_default();
        let Some(head) = Head::read(rest, at, &mut 0)? else {
            return Err(DecodeError::InvalidLength { at });
        };
        let kind = rest[0];
        let line = &rest[1..head.len - 2];
        self.pos += head.len;
        match head.kind {
            Kind::Line => scalar(kind, line).ok_or(DecodeError::InvalidValue { at: at + 1 }),
            Kind::Bulk(size) => {
                let body = self.buf.get(self.pos..self.pos + size);
                let body = body.ok_or(DecodeError::InvalidLength { at })?;
                self.pos += size + 2;
                match (kind, body) {
                    (b'=', [a, b, c, b':', text @ ..]) => Ok(Value::Verbatim {
                        format: [*a, *b, *c],
                        text: text.to_vec(),
                    }),
                    (b'=', _) => Err(DecodeError::InvalidValue { at: at + head.len }),
                    (b'!', _) => Ok(Value::BulkError(body.to_vec())),
                    _ => Ok(Value::Bulk(body.to_vec())),
                }
            }
            Kind::Values(_) if depth == MAX_DEPTH => Err(DecodeError::TooDeep { at }),
            Kind::Values(count) => Ok(match kind {
                b'%' => Value::Map(self.pairs(count / 2, depth)?),
                b'|' => Value::Attribute {
                    attributes: self.pairs(count / 2, depth)?,
                    value: Box::new(self.value(depth + 1)?),
                },
                b'~' => Value::Set(self.values(count, depth)?),
                b'>' => Value::Push(self.values(count, depth)?),
                _ => Value::Array(self.values(count, depth)?),
            }),
        }
    }

    // The reply is complete, so it has `count` values of at least three bytes each, and the
    // memory that `collect` reserves is proportional to the received bytes.
    fn values(&mut self, count: u64, depth: usize) -> Result<Vec<Value>, DecodeError> {
        (0..count).map(|_| self.value(depth + 1)).collect()
    }

    fn pairs(&mut self, count: u64, depth: usize) -> Result<Vec<(Value, Value)>, DecodeError> {
        (0..count)
            .map(|_| Ok((self.value(depth + 1)?, self.value(depth + 1)?)))
            .collect()
    }
}

/// Decodes a value without data after its first line.
fn scalar(kind: u8, line: &[u8]) -> Option<Value> {
    Some(match (kind, line) {
        (b'+', _) => Value::Simple(line.to_vec()),
        (b'-', _) => Value::Error(line.to_vec()),
        (b':', _) => Value::Int(decimal::parse_i64(line)?),
        (b'$', _) => Value::NullBulk,
        (b'*', _) => Value::NullArray,
        (b'_', b"") => Value::Null,
        (b'#', b"t") => Value::Boolean(true),
        (b'#', b"f") => Value::Boolean(false),
        (b',', b"nan" | b"-nan") => Value::Double(f64::NAN),
        (b',', _) => Value::Double(decimal::parse_f64(line)?),
        (b'(', [b'+' | b'-', digits @ ..] | digits)
            if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) =>
        {
            Value::BigNumber(line.to_vec())
        }
        _ => return None,
    })
}
