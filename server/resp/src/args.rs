//! The arguments of one command.
//!
//! A span is a pair of offsets into one buffer, both below 4 GiB, with start ≤ end ≤ the buffer's
//! length. Only the parser and `OwnedArgs` create spans, so a span never reaches outside of its
//! buffer.

use std::fmt;
use std::iter::FusedIterator;
use std::ops::Index;

use thiserror::Error;

/// The range of one argument in its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Span {
    #[inline]
    fn of(self, buf: &[u8]) -> &[u8] {
        &buf[self.start as usize..self.end as usize]
    }
}

/// The arguments of one command, its name first: slices of the buffer into which they were read.
///
/// The type is `Copy`, has four words, and borrows the buffer. To keep arguments longer, copy them
/// into [`OwnedArgs`].
///
/// ```
/// use punctual_resp::{Limits, Parser};
///
/// let mut parser = Parser::new();
/// let buf = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n";
/// let command = parser.parse(buf, &Limits::default()).unwrap().unwrap();
/// let args = command.args;
/// assert_eq!(args.len(), 3);
/// assert_eq!(&args[0], b"SET");
/// assert_eq!(args.get(3), None);
/// assert_eq!(args.skip(1).iter().collect::<Vec<_>>(), [b"k", b"v"]);
/// ```
#[derive(Clone, Copy)]
pub struct Args<'a> {
    buf: &'a [u8],
    spans: &'a [Span],
}

impl<'a> Args<'a> {
    /// Combines a buffer and its spans, which must lie within `buf`.
    #[inline]
    pub(crate) fn new(buf: &'a [u8], spans: &'a [Span]) -> Self {
        debug_assert!(
            spans
                .iter()
                .all(|s| s.start <= s.end && s.end as usize <= buf.len())
        );
        Args { buf, spans }
    }

    /// No arguments.
    pub const EMPTY: Args<'static> = Args {
        buf: &[],
        spans: &[],
    };

    /// Returns the number of arguments, including the command's name. **O(1)**.
    #[inline]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Returns true if there is no argument, not even a name, as in the empty command `*0`.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Returns argument `i`, or `None` if there are at most `i` arguments. **O(1)**.
    #[inline]
    pub fn get(&self, i: usize) -> Option<&'a [u8]> {
        self.spans.get(i).map(|span| span.of(self.buf))
    }

    /// Returns argument `i` with the lifetime of the buffer, unlike `args[i]`. **O(1)**.
    ///
    /// # Panics
    ///
    /// If `i` is not below [`len`](Args::len). Commands check their arity first.
    #[inline]
    pub fn at(&self, i: usize) -> &'a [u8] {
        self.spans[i].of(self.buf)
    }

    /// Returns the arguments after the first `n`; empty if there are at most `n`. **O(1)**.
    #[inline]
    pub fn skip(&self, n: usize) -> Args<'a> {
        Args {
            buf: self.buf,
            spans: self.spans.get(n..).unwrap_or_default(),
        }
    }

    /// Returns the first `n` arguments, or all if there are fewer. **O(1)**.
    #[inline]
    pub fn take(&self, n: usize) -> Args<'a> {
        Args {
            buf: self.buf,
            spans: self.spans.get(..n).unwrap_or(self.spans),
        }
    }

    /// Returns the bytes of the command in the buffer, without copying, if they are exactly the
    /// bytes that [`encode_command`](crate::encode_command) writes. Returns `None` for other bytes,
    /// such as an inline command. **O(arguments)**.
    ///
    /// ```
    /// use punctual_resp::{Limits, Parser};
    ///
    /// let (limits, mut parser) = (Limits::default(), Parser::new());
    /// let args = parser.parse(b"*1\r\n$4\r\nPING\r\nnext", &limits).unwrap().unwrap().args;
    /// assert_eq!(args.encoded(), Some(&b"*1\r\n$4\r\nPING\r\n"[..]));
    /// let args = parser.parse(b"PING\r\n", &limits).unwrap().unwrap().args;
    /// assert_eq!(args.encoded(), None);
    /// ```
    pub fn encoded(&self) -> Option<&'a [u8]> {
        let first = self.spans.first()?;
        let headers = header_len(self.len()) + header_len((first.end - first.start) as usize);
        let start = (first.start as usize).checked_sub(headers)?;
        let mut at = start + checked_header(self.buf, start, b'*', self.len())?;
        for span in self.spans {
            let len = (span.end - span.start) as usize;
            at += checked_header(self.buf, at, b'$', len)?;
            if at != span.start as usize || self.buf.get(at + len..at + len + 2)? != b"\r\n" {
                return None;
            }
            at += len + 2;
        }
        Some(&self.buf[start..at])
    }

    /// Iterates over the arguments in order.
    #[inline]
    pub fn iter(&self) -> ArgsIter<'a> {
        ArgsIter {
            buf: self.buf,
            spans: self.spans.iter(),
        }
    }
}

/// Returns the length of a header with the number `n`.
#[inline]
fn header_len(n: usize) -> usize {
    let digits = match n {
        ..10 => 1,
        10..100 => 2,
        n => n.ilog10() as usize + 1,
    };
    b"$\r\n".len() + digits
}

/// Returns the length of the header with the type byte `kind` and the number `n`, or `None` if
/// other bytes are at `at`.
#[inline]
fn checked_header(buf: &[u8], at: usize, kind: u8, n: usize) -> Option<usize> {
    if n < 10 {
        let header = buf.get(at..at + 4)?;
        return (header == [kind, b'0' + n as u8, b'\r', b'\n']).then_some(4);
    }
    let len = header_len(n);
    let header = buf.get(at..at + len)?;
    let mut rest = n;
    let same = header[1..len - 2].iter().rev().all(|digit| {
        let last = b'0' + (rest % 10) as u8;
        rest /= 10;
        *digit == last
    });
    (same && header[0] == kind && header.ends_with(b"\r\n")).then_some(len)
}

impl Index<usize> for Args<'_> {
    type Output = [u8];

    /// Returns argument `i`; panics if there is no such argument, like [`Args::at`].
    #[inline]
    fn index(&self, i: usize) -> &[u8] {
        self.at(i)
    }
}

impl<'a> IntoIterator for Args<'a> {
    type Item = &'a [u8];
    type IntoIter = ArgsIter<'a>;

    fn into_iter(self) -> ArgsIter<'a> {
        self.iter()
    }
}

impl<'a> IntoIterator for &Args<'a> {
    type Item = &'a [u8];
    type IntoIter = ArgsIter<'a>;

    fn into_iter(self) -> ArgsIter<'a> {
        self.iter()
    }
}

impl PartialEq for Args<'_> {
    fn eq(&self, other: &Args<'_>) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Args<'_> {}

impl fmt::Debug for Args<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.iter().map(|arg| arg.escape_ascii().to_string()))
            .finish()
    }
}

/// An iterator over the arguments of a command, created by [`Args::iter`].
#[derive(Clone, Debug)]
pub struct ArgsIter<'a> {
    buf: &'a [u8],
    spans: std::slice::Iter<'a, Span>,
}

impl<'a> Iterator for ArgsIter<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        self.spans.next().map(|span| span.of(self.buf))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.spans.size_hint()
    }

    #[inline]
    fn nth(&mut self, n: usize) -> Option<&'a [u8]> {
        self.spans.nth(n).map(|span| span.of(self.buf))
    }
}

impl<'a> DoubleEndedIterator for ArgsIter<'a> {
    #[inline]
    fn next_back(&mut self) -> Option<&'a [u8]> {
        self.spans.next_back().map(|span| span.of(self.buf))
    }
}

impl ExactSizeIterator for ArgsIter<'_> {}
impl FusedIterator for ArgsIter<'_> {}

/// The error of arguments that together exceed 4 GiB, the range of their 32-bit offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the arguments of one command are longer than 4 GiB together; split the command")]
pub struct ArgsTooLarge;

/// Arguments in a buffer of their own: for queued commands (MULTI), scripts and tests.
///
/// ```
/// use punctual_resp::OwnedArgs;
///
/// let owned = OwnedArgs::from_iter(["SET", "key", "value"]);
/// assert_eq!(&owned.as_args()[2], b"value");
/// let copy = OwnedArgs::from(owned.as_args());
/// assert_eq!(copy, owned);
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct OwnedArgs {
    buf: Vec<u8>,
    spans: Vec<Span>,
}

impl OwnedArgs {
    /// Returns empty arguments; allocates nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends one argument. Amortised **O(n)** in its bytes.
    ///
    /// # Errors
    ///
    /// [`ArgsTooLarge`] if all arguments together would exceed 4 GiB. In this case nothing is
    /// appended.
    ///
    /// ```
    /// # use punctual_resp::OwnedArgs;
    /// let mut owned = OwnedArgs::new();
    /// owned.push(b"GET")?;
    /// owned.push(b"key")?;
    /// assert_eq!(owned.as_args().len(), 2);
    /// # Ok::<(), punctual_resp::ArgsTooLarge>(())
    /// ```
    pub fn push(&mut self, arg: &[u8]) -> Result<(), ArgsTooLarge> {
        let start = self.buf.len();
        let end = start
            .checked_add(arg.len())
            .and_then(|end| u32::try_from(end).ok());
        let end = end.ok_or(ArgsTooLarge)?;
        self.buf.extend_from_slice(arg);
        // `start` ≤ `end`, which fits in 32 bits.
        self.spans.push(Span {
            start: start as u32,
            end,
        });
        Ok(())
    }

    /// Removes all arguments and keeps the memory.
    pub fn clear(&mut self) {
        self.buf.clear();
        self.spans.clear();
    }

    /// Borrows the arguments as [`Args`], the type that command handlers take. **O(1)**.
    pub fn as_args(&self) -> Args<'_> {
        Args::new(&self.buf, &self.spans)
    }

    /// Returns the number of allocated bytes.
    pub fn memory(&self) -> usize {
        self.buf.capacity() + self.spans.capacity() * size_of::<Span>()
    }
}

impl From<&Args<'_>> for OwnedArgs {
    fn from(args: &Args<'_>) -> Self {
        let bytes = args.iter().map(<[u8]>::len).sum();
        let mut owned = OwnedArgs {
            buf: Vec::with_capacity(bytes),
            spans: Vec::with_capacity(args.len()),
        };
        for arg in args.iter() {
            let start = owned.buf.len() as u32;
            owned.buf.extend_from_slice(arg);
            // The arguments are disjoint slices of one buffer below 4 GiB, so their sum is below
            // 4 GiB as well.
            owned.spans.push(Span {
                start,
                end: owned.buf.len() as u32,
            });
        }
        owned
    }
}

impl From<Args<'_>> for OwnedArgs {
    fn from(args: Args<'_>) -> Self {
        OwnedArgs::from(&args)
    }
}

impl<T: AsRef<[u8]>> FromIterator<T> for OwnedArgs {
    /// # Panics
    ///
    /// If the arguments together exceed 4 GiB; [`OwnedArgs::push`] returns an error instead.
    fn from_iter<I: IntoIterator<Item = T>>(args: I) -> Self {
        let mut owned = OwnedArgs::new();
        for arg in args {
            owned.push(arg.as_ref()).expect("arguments below 4 GiB");
        }
        owned
    }
}

impl fmt::Debug for OwnedArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_args().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, Parser, encode_command};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bytes_in_the_buffer_equal_the_encoding(
            words in prop::collection::vec(
                prop::collection::vec(prop::sample::select(b"a*$019\r\n".to_vec()), 0..14),
                1..12,
            ),
            skipped in 0_usize..4,
            taken in 1_usize..12,
        ) {
            let mut bytes = Vec::new();
            encode_command(&mut bytes, &words);
            let mut parser = Parser::new();
            let args = parser.parse(&bytes, &Limits::default()).unwrap().unwrap().args;
            prop_assert_eq!(args.encoded(), Some(&bytes[..]));
            let owned = OwnedArgs::from(args);
            for args in [args, owned.as_args()] {
                let part = args.skip(skipped).take(taken);
                if let Some(found) = part.encoded() {
                    let mut expected = Vec::new();
                    encode_command(&mut expected, &part.iter().collect::<Vec<_>>());
                    prop_assert_eq!(found, expected);
                }
            }
        }
    }

    #[test]
    fn skip_and_take_saturate() {
        let owned = OwnedArgs::from_iter(["a", "b", "c"]);
        let args = owned.as_args();
        assert_eq!(args.skip(2).iter().collect::<Vec<_>>(), [b"c"]);
        assert!(args.skip(3).is_empty());
        assert!(args.skip(usize::MAX).is_empty());
        assert_eq!(args.take(2).len(), 2);
        assert_eq!(args.take(99).len(), 3);
    }

    #[test]
    fn iterates_from_both_ends() {
        let owned = OwnedArgs::from_iter(["a", "", "c"]);
        let mut iter = owned.as_args().iter();
        assert_eq!(iter.len(), 3);
        assert_eq!(iter.next_back(), Some(&b"c"[..]));
        assert_eq!(iter.clone().next(), Some(&b"a"[..]));
        assert_eq!(iter.nth(1), Some(&b""[..]));
        assert_eq!(iter.next(), None);
        assert_eq!(iter.next_back(), None);
    }

    #[test]
    fn a_copy_has_only_its_own_bytes() {
        let owned = OwnedArgs::from_iter(["a long first argument", "x", "y"]);
        let tail = OwnedArgs::from(owned.as_args().skip(1));
        assert_eq!(tail.buf, b"xy");
        assert_eq!(tail.as_args(), owned.as_args().skip(1));
        assert_eq!(format!("{tail:?}"), r#"["x", "y"]"#);
    }
}
