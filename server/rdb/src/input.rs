//! Reads lengths, strings and numbers from a source, and tracks the offset and the checksum.
//!
//! An *item* is one entry of a value, such as a field with its value: the strings that are needed
//! together. Strings borrow from the source's buffer, or from `unpacked` if they were compressed or
//! converted. While an item is read, its strings are [`Span`]s, which stay valid when the buffer
//! moves. Once all strings of the item are read, [`Input::element`] converts the spans to slices.

use punctual_resp::decimal;

use crate::corrupt::Corrupt;
use crate::crc64::Sum;
use crate::error::{Error, Failure, Reason};
use crate::kind::string;
use crate::listpack::Element;
use crate::lzf;
use crate::source::Source;

/// Maximum capacity in bytes of `unpacked` that is kept for the next item.
const UNPACKED_KEPT_MAX: usize = 1 << 20;

pub(crate) type Fallible<T, S> = Result<T, Failure<<S as Source>::Error>>;

/// The place of a string of the current item.
#[derive(Clone, Copy)]
pub(crate) enum Span {
    /// The decimal text of this integer.
    Int(i64),
    /// Bytes in the source's buffer; `from` counts from the start of the item.
    Buffered { from: usize, len: usize },
    /// Bytes in `unpacked`.
    Unpacked { from: usize, len: usize },
}

/// A length, or the code of a string's special encoding (see [`string`]).
enum Length {
    Plain(u64),
    Encoded(u8),
}

/// A source with the position in it.
pub(crate) struct Input<S> {
    source: S,
    /// Offset of the first buffered byte from the start of the input.
    base: u64,
    /// Start of the current item within the buffered bytes.
    item: usize,
    /// Position of the next byte within the buffered bytes.
    at: usize,
    /// Checksum of the consumed bytes; `None` if it is not computed.
    sum: Option<Sum>,
    /// Decompressed and converted strings of the current item.
    unpacked: Vec<u8>,
    /// Whether to make the expensive checks: for duplicates, and for scores in listpacks that are
    /// not numbers.
    pub(crate) deep: bool,
}

impl<S: Source> Input<S> {
    pub(crate) fn new(source: S) -> Self {
        Input {
            source,
            base: 0,
            item: 0,
            at: 0,
            sum: None,
            unpacked: Vec::new(),
            deep: false,
        }
    }

    pub(crate) fn start_checksum(&mut self) {
        self.sum = Some(Sum::new());
    }

    /// Returns the checksum of all bytes read since `start_checksum`, and stops computing it.
    pub(crate) fn finish_checksum(&mut self) -> Option<u64> {
        self.item = self.at;
        self.consume_before_item();
        self.sum.take().map(|sum| sum.value())
    }

    pub(crate) fn into_source(mut self) -> S {
        self.source.consume(self.at);
        self.source
    }

    #[inline]
    pub(crate) fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// Returns the number of unread bytes, if the source knows it.
    pub(crate) fn remaining(&self) -> Option<u64> {
        self.source
            .remaining()
            .map(|all| all.saturating_sub(self.at as u64))
    }

    #[cold]
    pub(crate) fn error(&self, offset: u64, reason: Reason) -> Failure<S::Error> {
        Failure::Format(Error { offset, reason })
    }

    /// Starts a new item; the strings of the previous one become invalid.
    #[inline]
    pub(crate) fn start_item(&mut self) {
        self.item = self.at;
        if !self.unpacked.is_empty() {
            self.clear_unpacked();
        }
    }

    #[cold]
    fn clear_unpacked(&mut self) {
        if self.unpacked.capacity() > UNPACKED_KEPT_MAX {
            self.unpacked = Vec::new();
        }
        self.unpacked.clear();
    }

    /// Adds the bytes before the item to the checksum and removes them from the source.
    fn consume_before_item(&mut self) {
        if let Some(sum) = &mut self.sum {
            sum.feed(&self.source.buffered()[..self.item]);
        }
        self.source.consume(self.item);
        self.base += self.item as u64;
        self.at -= self.item;
        self.item = 0;
    }

    /// Buffers the next `count` bytes, or returns [`Reason::Truncated`] if the input ends before.
    #[inline]
    fn need(&mut self, count: usize) -> Fallible<(), S> {
        if self.source.buffered().len() - self.at >= count {
            return Ok(());
        }
        self.fill(count)
    }

    #[cold]
    fn fill(&mut self, count: usize) -> Fallible<(), S> {
        if self.remaining().is_some_and(|all| all < count as u64) {
            return Err(self.error(self.offset(), Reason::Truncated));
        }
        self.consume_before_item();
        let Some(want) = self.at.checked_add(count) else {
            return Err(self.error(self.offset(), Reason::Truncated));
        };
        self.source.fill(want).map_err(Failure::Source)?;
        if self.source.buffered().len() < want {
            let end = self.base + self.source.buffered().len() as u64;
            return Err(self.error(end, Reason::Truncated));
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn bytes<const N: usize>(&mut self) -> Fallible<[u8; N], S> {
        self.need(N)?;
        match self.source.buffered()[self.at..].first_chunk() {
            Some(bytes) => {
                self.at += N;
                Ok(*bytes)
            }
            None => Err(self.error(self.offset(), Reason::Truncated)),
        }
    }

    #[inline]
    pub(crate) fn byte(&mut self) -> Fallible<u8, S> {
        self.bytes().map(|[byte]| byte)
    }

    #[inline]
    fn length(&mut self) -> Fallible<Length, S> {
        let start = self.offset();
        let first = self.byte()?;
        Ok(Length::Plain(match first >> 6 {
            0 => u64::from(first),
            1 => u64::from(first & 0x3F) << 8 | u64::from(self.byte()?),
            2 => match first {
                0x80 => u64::from(u32::from_be_bytes(self.bytes()?)),
                0x81 => u64::from_be_bytes(self.bytes()?),
                _ => return Err(self.error(start, Reason::Length)),
            },
            _ => return Ok(Length::Encoded(first & 0x3F)),
        }))
    }

    /// Reads a length or any other number.
    #[inline]
    pub(crate) fn number(&mut self) -> Fallible<u64, S> {
        let start = self.offset();
        match self.length()? {
            Length::Plain(number) => Ok(number),
            Length::Encoded(_) => Err(self.error(start, Reason::Length)),
        }
    }

    /// Reads the number of items that follow. Refuses a number for which the rest of the input is
    /// too short, if every item has at least `item_len_min` bytes.
    pub(crate) fn count(&mut self, item_len_min: u64) -> Fallible<u64, S> {
        let start = self.offset();
        let count = self.number()?;
        if self
            .remaining()
            .is_some_and(|all| all / item_len_min < count)
        {
            return Err(self.error(start, Reason::Truncated));
        }
        Ok(count)
    }

    /// Reads a string.
    #[inline]
    pub(crate) fn string(&mut self) -> Fallible<Span, S> {
        let start = self.offset();
        match self.length()? {
            Length::Plain(len) => {
                let len = self.size(start, len)?;
                self.need(len)?;
                let from = self.at - self.item;
                self.at += len;
                Ok(Span::Buffered { from, len })
            }
            Length::Encoded(encoding) => self.encoded_string(start, encoding),
        }
    }

    fn size(&self, start: u64, len: u64) -> Fallible<usize, S> {
        usize::try_from(len).map_err(|_| self.error(start, Reason::Truncated))
    }

    fn encoded_string(&mut self, start: u64, encoding: u8) -> Fallible<Span, S> {
        Ok(Span::Int(match encoding {
            string::INT8 => i64::from(i8::from_le_bytes(self.bytes()?)),
            string::INT16 => i64::from(i16::from_le_bytes(self.bytes()?)),
            string::INT32 => i64::from(i32::from_le_bytes(self.bytes()?)),
            string::LZF => {
                let packed = self.number()?;
                let packed = self.size(start, packed)?;
                let len = self.number()?;
                let len = self.size(start, len)?;
                self.need(packed)?;
                let from = self.unpacked.len();
                let bytes = &self.source.buffered()[self.at..self.at + packed];
                if let Err(corrupt) = lzf::unpack(bytes, len, &mut self.unpacked) {
                    return Err(self.error(start, Reason::Compact(corrupt)));
                }
                self.at += packed;
                return Ok(Span::Unpacked { from, len });
            }
            _ => return Err(self.error(start, Reason::StringEncoding(encoding))),
        }))
    }

    /// Returns the contents of a string of the current item.
    #[inline]
    pub(crate) fn element(&self, span: Span) -> Element<'_> {
        match span {
            Span::Int(value) => Element::Int(value),
            Span::Buffered { from, len } => {
                let start = self.item + from;
                Element::Bytes(&self.source.buffered()[start..start + len])
            }
            Span::Unpacked { from, len } => Element::Bytes(&self.unpacked[from..from + len]),
        }
    }

    /// Returns the bytes of a string that contains a compact encoding. An integer has no bytes, and
    /// the check of the compact encoding refuses the empty slice.
    pub(crate) fn blob(&self, span: Span) -> &[u8] {
        match self.element(span) {
            Element::Bytes(bytes) => bytes,
            Element::Int(_) => &[],
        }
    }

    /// Converts the blob in `span` with `convert`, which appends a listpack to `unpacked`. Returns
    /// the span of the listpack.
    pub(crate) fn convert(
        &mut self,
        span: Span,
        convert: impl FnOnce(&[u8], &mut Vec<u8>) -> Result<(), Corrupt>,
    ) -> Result<Span, Corrupt> {
        // `convert` borrows the blob and writes to `unpacked`, so `unpacked` leaves `self` here.
        let mut unpacked = std::mem::take(&mut self.unpacked);
        let from = unpacked.len();
        let converted = match span {
            Span::Unpacked { from, len } => {
                let blob = unpacked[from..from + len].to_vec();
                convert(&blob, &mut unpacked)
            }
            _ => convert(self.blob(span), &mut unpacked),
        };
        let len = unpacked.len() - from;
        self.unpacked = unpacked;
        converted.map(|()| Span::Unpacked { from, len })
    }

    /// Reads a time in milliseconds.
    pub(crate) fn millis(&mut self) -> Fallible<i64, S> {
        self.bytes().map(i64::from_le_bytes)
    }

    /// Reads a binary score.
    #[inline]
    pub(crate) fn score(&mut self) -> Fallible<f64, S> {
        let start = self.offset();
        let score = f64::from_le_bytes(self.bytes()?);
        if score.is_nan() {
            return Err(self.error(start, Reason::Score));
        }
        Ok(score)
    }

    /// Reads a score that is stored as text.
    pub(crate) fn score_text(&mut self) -> Fallible<f64, S> {
        let start = self.offset();
        match self.byte()? {
            255 => Ok(f64::NEG_INFINITY),
            254 => Ok(f64::INFINITY),
            253 => Err(self.error(start, Reason::Score)),
            len => {
                let len = usize::from(len);
                self.need(len)?;
                let text = &self.source.buffered()[self.at..self.at + len];
                let score = decimal::parse_f64(text);
                self.at += len;
                score.ok_or_else(|| self.error(start, Reason::Score))
            }
        }
    }

    /// Skips `count` bytes, of which only one block at a time is buffered.
    pub(crate) fn skip(&mut self, mut count: u64) -> Fallible<(), S> {
        loop {
            let buffered = (self.source.buffered().len() - self.at) as u64;
            if count <= buffered {
                self.at += count as usize;
                return Ok(());
            }
            if self.remaining().is_some_and(|all| all < count) {
                return Err(self.error(self.offset(), Reason::Truncated));
            }
            count -= buffered;
            self.at = self.source.buffered().len();
            self.start_item();
            self.need(1)?;
        }
    }

    pub(crate) fn skip_string(&mut self) -> Fallible<(), S> {
        let start = self.offset();
        let len = match self.length()? {
            Length::Plain(len) => len,
            Length::Encoded(string::INT8) => 1,
            Length::Encoded(string::INT16) => 2,
            Length::Encoded(string::INT32) => 4,
            Length::Encoded(string::LZF) => {
                let packed = self.number()?;
                self.number()?;
                packed
            }
            Length::Encoded(encoding) => {
                return Err(self.error(start, Reason::StringEncoding(encoding)));
            }
        };
        self.skip(len)
    }
}
