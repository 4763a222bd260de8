//! Parsing of client bytes into commands.
//!
//! Ground rules:
//! - `buf[0]` is always the first byte of the command being read; all stored offsets count from it.
//! - No byte is scanned twice: a call that runs out of bytes stores where it stopped (`pos`,
//!   `scanned`, `bulk_end`) and the spans found so far.
//! - Only the CR after a header is checked. The byte after the CR, and the two bytes after a bulk,
//!   are skipped without a check, as in Redis. A wrong length shows up when the next header is
//!   read, with the same error as in Redis.
//! - Memory is proportional to the bytes received, not to the lengths that headers announce.

mod inline;

use memchr::memchr;

use crate::args::{Args, Span};
use crate::decimal;
use crate::error::ProtocolError;
use crate::limits::Limits;

/// Capacity in spans that is kept between commands; a larger command's memory is freed.
const SPANS_KEPT: usize = 512;
/// Capacity in bytes for inline commands that is kept between commands.
const INLINE_BYTES_KEPT: usize = 1024;

/// The maximum offset in a span. On 32-bit targets it is lower, so that the sum of two offsets
/// cannot overflow.
const OFFSET_MAX: usize = if usize::BITS > 32 {
    u32::MAX as usize
} else {
    1 << 30
};

/// Length of the shortest argument on the wire: `$0\r\n\r\n`.
const ARG_BYTES_MIN: usize = 6;

/// One complete command, borrowed from the read buffer. (An inline command borrows from the
/// parser.)
///
/// ```
/// use punctual_resp::{Limits, Parser};
///
/// let mut parser = Parser::new();
/// let buf = b"\r\nGET 'my key'\r\nPING\r\n";
/// let command = parser.parse(buf, &Limits::default()).unwrap().unwrap();
/// assert_eq!(&command.args[1], b"my key");
/// assert_eq!(command.consumed, 16); // including the blank line, without PING
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Command<'a> {
    /// The arguments, the command's name first. They are empty if the bytes contain only commands
    /// without arguments (`*0`, `*-1`, a blank line), which Redis ignores. The caller consumes
    /// these bytes and continues.
    pub args: Args<'a>,
    /// Number of bytes of the command, including empty commands before it. The caller passes the
    /// buffer without these bytes to the next call.
    pub consumed: usize,
}

/// Parses the commands of one connection.
///
/// The caller keeps the received bytes in a buffer and calls [`parse`](Parser::parse) with all
/// bytes that are not consumed yet. If the result is `None`, the caller appends more bytes and
/// calls again with the longer buffer, which may have moved in memory.
///
/// ```
/// use punctual_resp::{Limits, Parser};
///
/// let (mut parser, limits) = (Parser::new(), Limits::default());
/// let stream = b"*1\r\n$4\r\nPING\r\nECHO \"two words\"\r\n*2\r\n$3\r\nGET\r\n$1";
/// let (mut at, mut seen) = (0, Vec::new());
/// while let Some(command) = parser.parse(&stream[at..], &limits).unwrap() {
///     seen.push(format!("{:?}", command.args));
///     at += command.consumed;
/// }
/// assert_eq!(seen, [r#"["PING"]"#, r#"["ECHO", "two words"]"#]);
/// assert_eq!(&stream[at..], b"*2\r\n$3\r\nGET\r\n$1"); // incomplete
/// ```
#[derive(Debug, Default)]
pub struct Parser {
    /// Complete arguments of the current command.
    spans: Vec<Span>,
    /// Arguments of the last inline command, with quotes and escapes resolved.
    inline: Vec<u8>,
    /// Offset of the first unparsed byte: a header, or the body of the bulk that ends at
    /// `bulk_end`.
    pos: usize,
    /// Offset up to which the line at `pos` is known to contain no line end. Ignored if it is
    /// before `pos`.
    scanned: usize,
    /// End of the body at `pos`; 0 if a header is at `pos`.
    bulk_end: usize,
    /// Number of missing arguments; 0 if the command's first line has not been read.
    missing: usize,
}

/// The result of one parsing step.
enum Step {
    /// Not enough bytes. The parser's fields say where the next call continues.
    Incomplete,
    /// A command without arguments, of this length.
    Empty(usize),
    /// A command of this length, whose `spans` refer to the read buffer.
    Multibulk(usize),
    /// A command of this length, whose `spans` refer to `inline`.
    Inline(usize),
}

impl Parser {
    /// Returns a parser at the start of a connection; allocates nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Parses the next command from `buf`, whose first byte is the first one not consumed yet.
    ///
    /// Returns `None` if the command is incomplete; its parsed part is kept, so call again with the
    /// same bytes and more after them. Commands without arguments are skipped; if nothing else is
    /// complete, they are returned as one [`Command`] with empty `args`, so that the caller can
    /// consume their bytes.
    ///
    /// **O(bytes not seen before)**; bulk bodies are not read at all.
    ///
    /// # Errors
    ///
    /// A [`ProtocolError`]; the connection cannot be resynchronised. Call [`reset`](Parser::reset)
    /// before the parser serves another connection.
    #[inline]
    pub fn parse<'a>(
        &'a mut self,
        buf: &'a [u8],
        limits: &Limits,
    ) -> Result<Option<Command<'a>>, ProtocolError> {
        let mut skipped = 0;
        loop {
            let rest = &buf[skipped..];
            if self.missing == 0 {
                self.begin();
            }
            match self.step(rest, limits)? {
                Step::Multibulk(len) => {
                    let args = Args::new(rest, &self.spans);
                    return Ok(Some(Command {
                        args,
                        consumed: skipped + len,
                    }));
                }
                Step::Inline(len) => {
                    let args = Args::new(&self.inline, &self.spans);
                    return Ok(Some(Command {
                        args,
                        consumed: skipped + len,
                    }));
                }
                Step::Empty(len) => skipped += len,
                // The parser's offsets already count from `skipped`, where the buffer of the next
                // call starts.
                Step::Incomplete if skipped > 0 => {
                    return Ok(Some(Command {
                        args: Args::EMPTY,
                        consumed: skipped,
                    }));
                }
                Step::Incomplete => return Ok(None),
            }
        }
    }

    /// Discards a half-read command, so that the parser can serve another connection.
    pub fn reset(&mut self) {
        self.reset_state();
        self.begin();
    }

    /// Returns the number of bytes, from the start of the command, with which the current bulk is
    /// complete, or `None` outside of a bulk. Until that many bytes have arrived,
    /// [`parse`](Parser::parse) returns `None`.
    ///
    /// The caller may reserve the bytes, but should do it in steps: a client may announce 512 MiB
    /// and send nothing.
    ///
    /// ```
    /// use punctual_resp::{Limits, Parser};
    ///
    /// let mut parser = Parser::new();
    /// assert!(parser.parse(b"*1\r\n$1000\r\nabc", &Limits::default()).unwrap().is_none());
    /// assert_eq!(parser.wanted(), Some(4 + 7 + 1000 + 2));
    /// ```
    pub fn wanted(&self) -> Option<usize> {
        (self.bulk_end != 0).then_some(self.bulk_end + 2)
    }

    /// Returns the number of bytes of the incomplete command that are parsed: headers and complete
    /// arguments.
    ///
    /// ```
    /// use punctual_resp::{Limits, Parser};
    ///
    /// let mut parser = Parser::new();
    /// assert!(parser.parse(b"*1\r\n$1000\r\nabc", &Limits::default()).unwrap().is_none());
    /// assert_eq!(parser.parsed(), 4 + 7);
    /// ```
    pub fn parsed(&self) -> usize {
        self.pos
    }

    /// Returns the number of allocated bytes. The memory of a giant command is freed by the next
    /// call of `parse`.
    pub fn memory(&self) -> usize {
        self.spans.capacity() * size_of::<Span>() + self.inline.capacity()
    }

    /// Prepares for the first byte of a command.
    #[inline]
    fn begin(&mut self) {
        self.spans.clear();
        if self.spans.capacity() > SPANS_KEPT || self.inline.capacity() > INLINE_BYTES_KEPT {
            self.shrink();
        }
    }

    #[cold]
    fn shrink(&mut self) {
        self.spans.shrink_to(SPANS_KEPT);
        self.inline.clear();
        self.inline.shrink_to(INLINE_BYTES_KEPT);
    }

    /// Resets the state after a command was complete or refused.
    #[inline]
    fn reset_state(&mut self) {
        self.pos = 0;
        self.scanned = 0;
        self.bulk_end = 0;
        self.missing = 0;
    }

    #[inline]
    fn step(&mut self, buf: &[u8], limits: &Limits) -> Result<Step, ProtocolError> {
        // Spans cannot address bytes beyond `OFFSET_MAX`, so the parser ignores these bytes.
        let buf = buf.get(..OFFSET_MAX).unwrap_or(buf);
        let (mut pos, mut missing) = (self.pos, self.missing);
        if missing == 0 {
            match buf.first() {
                None => return Ok(Step::Incomplete),
                Some(b'*') => {}
                Some(_) => return self.inline(buf, limits),
            }
            match self.count(buf, limits)? {
                None => return Ok(Step::Incomplete),
                Some((0, len)) => {
                    self.reset_state();
                    return Ok(Step::Empty(len));
                }
                Some((count, len)) => (missing, pos) = (count, len),
            }
            if missing > self.spans.capacity() {
                self.spans
                    .reserve(missing.min(buf.len() / ARG_BYTES_MIN + 1));
            }
        }
        self.arguments(buf, limits, pos, missing)
    }

    /// Reads `*COUNT`. Returns the count, 0 for any empty command, and the length of the line.
    #[inline]
    fn count(
        &mut self,
        buf: &[u8],
        limits: &Limits,
    ) -> Result<Option<(usize, usize)>, ProtocolError> {
        let (count, len) = match buf {
            [_, d @ b'0'..=b'9', b'\r', _, ..] => ((d - b'0') as i64, 4),
            _ => {
                let too_big = ProtocolError::TooBigMultibulkCount;
                let Some(end) = self.line(buf, limits.inline_max, b'\r', too_big)? else {
                    return Ok(None);
                };
                if buf.len() < end + 2 {
                    return Ok(None);
                }
                match decimal::parse_i64(&buf[1..end]) {
                    Some(count) if count <= i32::MAX as i64 => (count, end + 2),
                    _ => return Err(ProtocolError::InvalidMultibulkLength),
                }
            }
        };
        // A negative count is an empty command.
        let count = usize::try_from(count).unwrap_or(0);
        if !limits.authenticated && count > Limits::UNAUTHENTICATED_ARGS_MAX {
            return Err(ProtocolError::UnauthenticatedMultibulk);
        }
        if count > limits.args_max {
            return Err(ProtocolError::InvalidMultibulkLength);
        }
        Ok(Some((count, len)))
    }

    /// Reads arguments from `pos` on until the command is complete or the bytes end.
    #[inline]
    fn arguments(
        &mut self,
        buf: &[u8],
        limits: &Limits,
        mut pos: usize,
        mut missing: usize,
    ) -> Result<Step, ProtocolError> {
        let bulk_max = if limits.authenticated {
            limits.bulk_max
        } else {
            limits.bulk_max.min(Limits::UNAUTHENTICATED_BULK_MAX)
        };
        let mut bulk_end = std::mem::take(&mut self.bulk_end);
        loop {
            if bulk_end == 0 {
                let (len, body) = match short_header(buf, pos) {
                    Some(found) => found,
                    None => {
                        (self.pos, self.missing) = (pos, missing);
                        match self.header(buf, limits)? {
                            Some(found) => found,
                            None if buf.len() == OFFSET_MAX => {
                                return Err(ProtocolError::CommandTooBig);
                            }
                            None => return Ok(Step::Incomplete),
                        }
                    }
                };
                if len > bulk_max {
                    return Err(bulk_refused(len, limits));
                }
                pos = body;
                // No overflow: `body` and `len` are at most OFFSET_MAX.
                bulk_end = body + len;
            }
            if buf.len() < bulk_end + 2 {
                if bulk_end + 2 > OFFSET_MAX {
                    return Err(ProtocolError::CommandTooBig);
                }
                (self.pos, self.missing, self.bulk_end) = (pos, missing, bulk_end);
                return Ok(Step::Incomplete);
            }
            // Both offsets fit in 32 bits, because the buffer was cut to OFFSET_MAX.
            self.spans.push(Span {
                start: pos as u32,
                end: bulk_end as u32,
            });
            pos = bulk_end + 2;
            bulk_end = 0;
            missing -= 1;
            if missing == 0 {
                self.reset_state();
                return Ok(Step::Multibulk(pos));
            }
        }
    }

    /// Reads the `$LENGTH` at `self.pos` that [`short_header`] cannot read. Returns the length, at
    /// most `limits.bulk_max`, and the start of the body.
    #[inline(never)]
    fn header(
        &mut self,
        buf: &[u8],
        limits: &Limits,
    ) -> Result<Option<(usize, usize)>, ProtocolError> {
        let rest = buf.get(self.pos..).unwrap_or_default();
        let too_big = ProtocolError::TooBigBulkCount;
        let Some(end) = self.line(rest, limits.inline_max, b'\r', too_big)? else {
            return Ok(None);
        };
        if rest.len() < end + 2 {
            return Ok(None);
        }
        if rest[0] != b'$' {
            return Err(ProtocolError::ExpectedDollar(rest[0]));
        }
        // `end` is 0 only if the first byte is CR, which is not `$`.
        let len = decimal::parse_i64(&rest[1..end]).and_then(|len| usize::try_from(len).ok());
        match len {
            Some(len) if len <= limits.bulk_max && len < OFFSET_MAX => {
                Ok(Some((len, self.pos + end + 2)))
            }
            _ => Err(ProtocolError::InvalidBulkLength),
        }
    }

    /// Returns the position in `line` of its line end `end`, which must be among the first
    /// `max + 1` bytes, or `None` if the line is incomplete. Stores in `scanned` how far it
    /// searched. The result does not depend on how the input was split.
    fn line(
        &mut self,
        line: &[u8],
        max: usize,
        end: u8,
        too_big: ProtocolError,
    ) -> Result<Option<usize>, ProtocolError> {
        let window = line.get(..=max).unwrap_or(line);
        let seen = self.scanned.saturating_sub(self.pos);
        let unseen = window.get(seen..).unwrap_or_default();
        match memchr(end, unseen) {
            Some(i) => {
                self.scanned = self.pos + seen + i;
                Ok(Some(seen + i))
            }
            None if line.len() > max => Err(too_big),
            None => {
                self.scanned = self.pos + window.len();
                Ok(None)
            }
        }
    }

    fn inline(&mut self, buf: &[u8], limits: &Limits) -> Result<Step, ProtocolError> {
        let too_big = ProtocolError::TooBigInline;
        let Some(end) = self.line(buf, limits.inline_max, b'\n', too_big)? else {
            return Ok(Step::Incomplete);
        };
        self.reset_state();
        self.inline.clear();
        let line = &buf[..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        inline::split(line, &mut self.inline, &mut self.spans)?;
        Ok(if self.spans.is_empty() {
            Step::Empty(end + 1)
        } else {
            Step::Inline(end + 1)
        })
    }
}

/// Reads a `$LENGTH` header of one to three digits at `pos`. Returns the length and the start of
/// the body, or `None` for all other bytes, which [`Parser::header`] then reads.
#[inline(always)]
fn short_header(buf: &[u8], pos: usize) -> Option<(usize, usize)> {
    let &[dollar, a, b, c, d, _] = buf.get(pos..)?.first_chunk::<ARG_BYTES_MIN>()?;
    let digit = |byte: u8| byte.wrapping_sub(b'0') as usize;
    let (x, y, z) = (digit(a), digit(b), digit(c));
    if dollar != b'$' || x > 9 {
        return None;
    }
    if b == b'\r' {
        return Some((x, pos + 4));
    }
    // A leading zero is an error, which `Parser::header` reports.
    if y > 9 || x == 0 {
        return None;
    }
    if c == b'\r' {
        return Some((x * 10 + y, pos + 5));
    }
    (z <= 9 && d == b'\r').then_some((x * 100 + y * 10 + z, pos + 6))
}

#[cold]
fn bulk_refused(len: usize, limits: &Limits) -> ProtocolError {
    if len > limits.bulk_max {
        ProtocolError::InvalidBulkLength
    } else {
        ProtocolError::UnauthenticatedBulk
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits::default()
    }

    #[test]
    fn an_incomplete_line_is_not_scanned_twice() {
        let mut parser = Parser::new();
        for line in [&b"*123456789012"[..], b"an inline command"] {
            for end in 1..=line.len() {
                assert!(parser.parse(&line[..end], &limits()).unwrap().is_none());
                assert_eq!(parser.scanned, end);
            }
            parser.reset();
        }
    }

    #[test]
    fn an_incomplete_bulk_keeps_the_parsed_part() {
        let whole = b"*2\r\n$3\r\nGET\r\n$12\r\nabcdefghijkl\r\n";
        let mut parser = Parser::new();
        assert!(parser.parse(&whole[..20], &limits()).unwrap().is_none());
        assert_eq!((parser.missing, parser.pos, parser.bulk_end), (1, 18, 30));
        assert_eq!(parser.spans, [Span { start: 8, end: 11 }]);
        assert_eq!(parser.wanted(), Some(whole.len()));
        // Another call before the bulk is complete changes nothing.
        assert!(parser.parse(&whole[..31], &limits()).unwrap().is_none());
        assert_eq!((parser.missing, parser.pos, parser.bulk_end), (1, 18, 30));
        let command = parser.parse(whole, &limits()).unwrap().unwrap();
        assert_eq!(&command.args[1], b"abcdefghijkl");
        assert_eq!(parser.wanted(), None);
    }

    #[test]
    fn memory_is_proportional_to_the_bytes_received_and_freed() {
        let mut parser = Parser::new();
        assert_eq!(parser.memory(), 0);
        // A header alone reserves almost nothing.
        assert!(parser.parse(b"*1048576\r\n", &limits()).unwrap().is_none());
        assert!(parser.memory() < 100, "{} bytes", parser.memory());
        parser.reset();

        let mut giant = b"*100000\r\n".to_vec();
        giant.extend(b"$1\r\nx\r\n".repeat(100_000));
        let command = parser.parse(&giant, &limits()).unwrap().unwrap();
        assert_eq!(
            (command.args.len(), command.consumed),
            (100_000, giant.len())
        );
        assert!(parser.memory() >= 800_000);
        assert!(parser.parse(b"", &limits()).unwrap().is_none());
        assert!(
            parser.memory() <= SPANS_KEPT * size_of::<Span>(),
            "{} bytes",
            parser.memory()
        );

        let line = [&b"ECHO "[..], &b"x".repeat(50_000), b"\n"].concat();
        assert_eq!(
            parser.parse(&line, &limits()).unwrap().unwrap().args[1].len(),
            50_000
        );
        assert!(parser.parse(b"", &limits()).unwrap().is_none());
        assert!(parser.memory() <= SPANS_KEPT * size_of::<Span>() + INLINE_BYTES_KEPT);
    }

    #[test]
    fn a_buffer_that_shrank_is_incomplete() {
        let mut parser = Parser::new();
        assert!(
            parser
                .parse(b"*2\r\n$3\r\nGET\r\n$10", &limits())
                .unwrap()
                .is_none()
        );
        for shorter in [&b""[..], b"*", b"*2\r\n$3"] {
            assert!(parser.parse(shorter, &limits()).unwrap().is_none());
        }
    }

    /// The refused command is 4 GiB long. The parser does not read the zeroed body, so the buffer
    /// takes address space but no memory.
    #[test]
    #[ignore = "reserves 4 GiB of address space"]
    fn a_command_beyond_the_reach_of_spans_is_refused() {
        let limits = Limits {
            bulk_max: usize::MAX,
            ..Limits::default()
        };
        let mut buf = vec![0; OFFSET_MAX + 100];
        let head = format!("*2\r\n${}\r\n", OFFSET_MAX - 100);
        buf[..head.len()].copy_from_slice(head.as_bytes());
        let second = head.len() + OFFSET_MAX - 100 + 2;
        buf[second..second + 5].copy_from_slice(b"$90\r\n");
        let mut parser = Parser::new();
        assert!(parser.parse(&buf[..1000], &limits).unwrap().is_none());
        assert_eq!(
            parser.parse(&buf, &limits).unwrap_err(),
            ProtocolError::CommandTooBig
        );
    }
}
