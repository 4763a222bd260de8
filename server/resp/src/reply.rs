//! Writing replies in the protocol of the connection.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memchr2;

use crate::chunks::{CHUNK, Chunks};
use crate::decimal;
use crate::error::ProtocolError;
use crate::value::Value;

/// The protocol of a connection: RESP2 until the client sends `HELLO 3`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Protocol {
    /// RESP2: status, error, integer, bulk, array.
    #[default]
    Resp2,
    /// RESP3: also null, double, boolean, map, set, push, big number, verbatim text, attributes.
    Resp3,
}

/// A writer that appends replies to an output buffer.
///
/// Every method for a value writes the whole value, or the head of an aggregate whose elements the
/// caller writes next. The time is proportional to the bytes written.
///
/// ```
/// use punctual_resp::{Protocol, Reply};
///
/// let write = |protocol| {
///     let mut out = Vec::new();
///     let mut reply = Reply::new(&mut out, protocol);
///     reply.map(1);
///     reply.bulk(b"ratio");
///     reply.double(0.5);
///     String::from_utf8(out).unwrap()
/// };
/// assert_eq!(write(Protocol::Resp2), "*2\r\n$5\r\nratio\r\n$3\r\n0.5\r\n");
/// assert_eq!(write(Protocol::Resp3), "%1\r\n$5\r\nratio\r\n,0.5\r\n");
/// ```
#[derive(Debug)]
pub struct Reply<'o> {
    out: &'o mut Vec<u8>,
    /// Output that precedes `out`, in full buffers.
    chunks: Option<&'o mut Chunks>,
    /// Length of the output in bytes from which on values are dropped; see [`Reply::chunked`].
    max: usize,
    protocol: Protocol,
}

impl<'o> Reply<'o> {
    /// Returns a writer that appends to `out`.
    #[inline]
    pub fn new(out: &'o mut Vec<u8>, protocol: Protocol) -> Self {
        Reply::chunked(out, None, usize::MAX, protocol)
    }

    /// Returns a writer that appends to `out`, which follows the bytes in `chunks`. If a long `out`
    /// has no room for a bulk string, a status or an error, the writer moves `out` to `chunks`
    /// instead of copying it to a larger buffer.
    ///
    /// The writer also checks the limit `max` at this moment. If the output is longer than `max`
    /// bytes, the writer discards the contents of `out`, and [`Chunks::take_cut`] returns true. So
    /// the output may exceed the limit by about a buffer. Without `chunks` there is no limit.
    ///
    /// ```
    /// use punctual_resp::{Chunks, Protocol, Reply};
    ///
    /// let (mut out, mut chunks) = (Vec::new(), Chunks::default());
    /// let mut reply = Reply::chunked(&mut out, Some(&mut chunks), 1_000_000, Protocol::Resp2);
    /// for _ in 0..30 {
    ///     reply.bulk(&[b'v'; 100_000]);
    /// }
    /// assert!(reply.len() < 1_200_000);
    /// assert!(chunks.take_cut());
    /// ```
    #[inline]
    pub fn chunked(
        out: &'o mut Vec<u8>,
        chunks: Option<&'o mut Chunks>,
        max: usize,
        protocol: Protocol,
    ) -> Self {
        Reply {
            out,
            chunks,
            max,
            protocol,
        }
    }

    /// Removes the limit on the length of the output.
    pub fn lift_limit(&mut self) {
        self.max = usize::MAX;
    }

    /// Returns the protocol.
    #[inline]
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Changes the protocol from the next value on. HELLO uses it, because its reply is already in
    /// the protocol that it selects.
    pub fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    /// Returns the output buffer, to append bytes that are already RESP. The value that was written
    /// last is in this buffer, and not in the chunks before it.
    #[inline]
    pub fn out(&mut self) -> &mut Vec<u8> {
        self.out
    }

    /// Returns the number of bytes in the output, including the chunks before the buffer.
    #[inline]
    pub fn len(&self) -> usize {
        self.chunks.as_ref().map_or(0, |chunks| chunks.len()) + self.out.len()
    }

    /// Returns true if the output is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Truncates the output to `len` bytes; does nothing if it is shorter.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        match &mut self.chunks {
            Some(chunks) => chunks.truncate(self.out, len),
            None => self.out.truncate(len),
        }
    }

    /// Returns the output from position `start` on. **O(1)**; **O(bytes)** if a part of the result
    /// is in chunks.
    pub fn since(&self, start: usize) -> Cow<'_, [u8]> {
        match &self.chunks {
            Some(chunks) if chunks.len() > start => Cow::Owned(chunks.since(self.out, start)),
            Some(chunks) => Cow::Borrowed(self.out.get(start - chunks.len()..).unwrap_or_default()),
            None => Cow::Borrowed(self.out.get(start..).unwrap_or_default()),
        }
    }

    /// Replaces the head of an aggregate; `place` is the range of the head in the output.
    pub fn replace_head(&mut self, place: Range<usize>, head: &[u8]) {
        let Range { start, end } = place;
        let before = self.chunks.as_ref().map_or(0, |chunks| chunks.len());
        if start >= before && end - before <= self.out.len() {
            self.out
                .splice(start - before..end - before, head.iter().copied());
        } else if let Some(chunks) = &mut self.chunks {
            chunks.replace(start, end, head);
        }
    }

    /// Reserves space for `more` bytes.
    #[inline]
    fn make_room(&mut self, more: usize) {
        if self.out.capacity() - self.out.len() < more {
            self.grow(more);
        }
    }

    #[cold]
    fn grow(&mut self, more: usize) {
        if let Some(chunks) = &mut self.chunks
            && self.out.len() >= CHUNK / 2
        {
            if chunks.len() + self.out.len() <= self.max {
                chunks.push(std::mem::take(self.out));
                // A buffer of CHUNK bytes for short values, of which less than a quarter is unused
                // when it is full; for a long value, a buffer of the value's length.
                let capacity = if more < CHUNK / 4 { CHUNK } else { more };
                return self.out.reserve_exact(capacity);
            }
            chunks.cut();
            self.out.clear();
        }
        self.out.reserve(more);
    }

    /// Writes `+OK`.
    #[inline]
    pub fn ok(&mut self) {
        self.out.extend_from_slice(b"+OK\r\n");
    }

    /// Writes a status. Each CR and LF in `text` becomes a space.
    #[inline]
    pub fn simple(&mut self, text: impl AsRef<[u8]>) {
        self.line(b'+', text.as_ref());
    }

    /// Writes an error. `text` starts with a code: `ERR no such key`. CR and LF at its end are
    /// dropped; others become spaces.
    #[inline]
    pub fn error(&mut self, text: impl AsRef<[u8]>) {
        self.line(b'-', without_line_ends(text.as_ref()));
    }

    /// Writes the error for bytes that are not a command.
    ///
    /// ```
    /// # use punctual_resp::{Protocol, ProtocolError, Reply};
    /// let mut out = Vec::new();
    /// Reply::new(&mut out, Protocol::Resp2).protocol_error(&ProtocolError::InvalidBulkLength);
    /// assert_eq!(out, b"-ERR Protocol error: invalid bulk length\r\n");
    /// ```
    pub fn protocol_error(&mut self, error: &ProtocolError) {
        self.out.extend_from_slice(b"-ERR ");
        error.write_to(self.out);
        self.out.extend_from_slice(b"\r\n");
    }

    /// Writes an integer.
    #[inline]
    pub fn int(&mut self, value: i64) {
        self.head(b':', value);
    }

    /// Writes a bulk string.
    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.make_room(bytes.len() + 16);
        self.head(b'$', bytes.len() as i64);
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    /// Writes an integer as a bulk string, as GET replies for a counter.
    #[inline]
    pub fn bulk_int(&mut self, value: i64) {
        let mut buffer = itoa::Buffer::new();
        self.bulk(buffer.format(value).as_bytes());
    }

    /// Writes null: `$-1` or `_`.
    #[inline]
    pub fn null(&mut self) {
        self.out.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"$-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// Writes a null array: `*-1` or `_`.
    #[inline]
    pub fn null_array(&mut self) {
        self.out.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"*-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// Opens an array of `n` elements.
    #[inline]
    pub fn array(&mut self, n: usize) {
        self.head(b'*', n as i64);
    }

    /// Opens a map of `n` pairs; in RESP2 an array of `2n` elements.
    #[inline]
    pub fn map(&mut self, n: usize) {
        match self.protocol {
            Protocol::Resp2 => self.head(b'*', n as i64 * 2),
            Protocol::Resp3 => self.head(b'%', n as i64),
        }
    }

    /// Opens a set of `n` elements; in RESP2 an array.
    #[inline]
    pub fn set(&mut self, n: usize) {
        self.resp3_head(b'~', n);
    }

    /// Opens a push message of `n` elements; in RESP2 an array.
    #[inline]
    pub fn push(&mut self, n: usize) {
        self.resp3_head(b'>', n);
    }

    /// Opens `n` attribute pairs, which precede the value that they describe. RESP2 has no
    /// attributes: for RESP2, this method writes nothing and returns false, and the caller must not
    /// write the pairs.
    #[must_use = "in RESP2 the pairs must not be written"]
    pub fn attribute(&mut self, n: usize) -> bool {
        if self.protocol == Protocol::Resp3 {
            self.head(b'|', n as i64);
        }
        self.protocol == Protocol::Resp3
    }

    /// Writes a double as [`decimal::write_f64`] prints it; in RESP2 as a bulk string.
    #[inline]
    pub fn double(&mut self, value: f64) {
        match self.protocol {
            Protocol::Resp2 => {
                // The longest text has 25 bytes, so its length has one or two digits. Two digits
                // are reserved, and one is removed if it is not needed.
                let head = self.out.len();
                self.out.extend_from_slice(b"$00\r\n");
                let start = self.out.len();
                decimal::write_f64(self.out, value);
                let len = (self.out.len() - start) as u8;
                if len < 10 {
                    self.out.remove(head + 1);
                    self.out[head + 1] = b'0' + len;
                } else {
                    self.out[head + 1] = b'0' + len / 10;
                    self.out[head + 2] = b'0' + len % 10;
                }
            }
            Protocol::Resp3 => {
                self.out.push(b',');
                decimal::write_f64(self.out, value);
            }
        }
        self.out.extend_from_slice(b"\r\n");
    }

    /// Writes a boolean; in RESP2 the integer 1 or 0.
    #[inline]
    pub fn boolean(&mut self, value: bool) {
        self.out.extend_from_slice(match (self.protocol, value) {
            (Protocol::Resp2, true) => b":1\r\n",
            (Protocol::Resp2, false) => b":0\r\n",
            (Protocol::Resp3, true) => b"#t\r\n",
            (Protocol::Resp3, false) => b"#f\r\n",
        });
    }

    /// Writes an integer of any size, as digits; in RESP2 as a bulk string.
    pub fn big_number(&mut self, digits: &str) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(digits.as_bytes()),
            Protocol::Resp3 => self.line(b'(', digits.as_bytes()),
        }
    }

    /// Writes a value. Types that RESP2 lacks are converted as Redis converts them: a map to an
    /// array of its keys and values, a double or verbatim text to a bulk string, a boolean to 1 or
    /// 0. **O(bytes)**.
    ///
    /// ```
    /// use punctual_resp::{Protocol, Reply, Value};
    ///
    /// let mut out = Vec::new();
    /// let value = Value::Set(vec![Value::Boolean(true)]);
    /// Reply::new(&mut out, Protocol::Resp2).value(&value);
    /// assert_eq!(out, b"*1\r\n:1\r\n");
    /// ```
    pub fn value(&mut self, value: &Value) {
        match value {
            Value::Simple(text) => self.simple(text),
            Value::Error(text) | Value::BulkError(text) => self.error(text),
            Value::Int(value) => self.int(*value),
            Value::Bulk(bytes) => self.bulk(bytes),
            Value::NullBulk | Value::Null => self.null(),
            Value::NullArray => self.null_array(),
            Value::Double(value) => self.double(*value),
            Value::Boolean(value) => self.boolean(*value),
            Value::BigNumber(digits) => self.big_number(&String::from_utf8_lossy(digits)),
            Value::Verbatim { format, text } => {
                self.verbatim(&String::from_utf8_lossy(format), text);
            }
            Value::Array(items) => {
                self.array(items.len());
                items.iter().for_each(|item| self.value(item));
            }
            Value::Set(items) => {
                self.set(items.len());
                items.iter().for_each(|item| self.value(item));
            }
            Value::Push(items) => {
                self.push(items.len());
                items.iter().for_each(|item| self.value(item));
            }
            Value::Map(pairs) => {
                self.map(pairs.len());
                self.pairs(pairs);
            }
            Value::Attribute { attributes, value } => {
                if self.attribute(attributes.len()) {
                    self.pairs(attributes);
                }
                self.value(value);
            }
        }
    }

    fn pairs(&mut self, pairs: &[(Value, Value)]) {
        for (key, value) in pairs {
            self.value(key);
            self.value(value);
        }
    }

    /// Writes text with its format, three letters (`txt`, `mkd`; longer ones are cut, shorter ones
    /// padded with spaces); in RESP2 a bulk string without the format.
    pub fn verbatim(&mut self, format: &str, text: &[u8]) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text),
            Protocol::Resp3 => {
                self.head(b'=', text.len() as i64 + 4);
                let letters = format.bytes().chain(std::iter::repeat(b' ')).take(3);
                self.out.extend(letters);
                self.out.push(b':');
                self.out.extend_from_slice(text);
                self.out.extend_from_slice(b"\r\n");
            }
        }
    }

    #[inline]
    fn resp3_head(&mut self, kind: u8, n: usize) {
        let kind = if self.protocol == Protocol::Resp3 {
            kind
        } else {
            b'*'
        };
        self.head(kind, n as i64);
    }

    /// Writes `kind`, a number and the line end. Most numbers in replies have one or two digits.
    #[inline]
    fn head(&mut self, kind: u8, n: i64) {
        match n {
            0..=9 => self
                .out
                .extend_from_slice(&[kind, b'0' + n as u8, b'\r', b'\n']),
            10..=99 => {
                let (tens, ones) = (n as u8 / 10, n as u8 % 10);
                self.out
                    .extend_from_slice(&[kind, b'0' + tens, b'0' + ones, b'\r', b'\n']);
            }
            _ => {
                self.out.push(kind);
                decimal::write_i64(self.out, n);
                self.out.extend_from_slice(b"\r\n");
            }
        }
    }

    #[inline]
    fn line(&mut self, kind: u8, text: &[u8]) {
        self.make_room(text.len() + 3);
        self.out.push(kind);
        if memchr2(b'\r', b'\n', text).is_none() {
            self.out.extend_from_slice(text);
        } else {
            self.out.extend(
                text.iter()
                    .map(|&b| if matches!(b, b'\r' | b'\n') { b' ' } else { b }),
            );
        }
        self.out.extend_from_slice(b"\r\n");
    }
}

#[inline]
fn without_line_ends(mut text: &[u8]) -> &[u8] {
    while let [rest @ .., b'\r' | b'\n'] = text {
        text = rest;
    }
    text
}
