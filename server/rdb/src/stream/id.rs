//! The arithmetic and the text of IDs.

use punctual_resp::decimal;

use super::StreamId;

/// Maximum length in bytes of an ID's text, as in Redis. A longer text is refused.
const TEXT_MAX: usize = 127;

impl StreamId {
    /// Returns the ID `ms-seq`.
    pub const fn new(ms: u64, seq: u64) -> Self {
        Self { ms, seq }
    }

    /// Returns the next ID, or `None` after [`MAX`](StreamId::MAX).
    #[must_use]
    pub fn next(self) -> Option<Self> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(Self::new(self.ms, seq)),
            None => Some(Self::new(self.ms.checked_add(1)?, 0)),
        }
    }

    /// Returns the ID before this one, or `None` before [`MIN`](StreamId::MIN).
    #[must_use]
    pub fn prev(self) -> Option<Self> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(Self::new(self.ms, seq)),
            None => Some(Self::new(self.ms.checked_sub(1)?, u64::MAX)),
        }
    }

    /// Returns true if the ID is 0-0.
    pub fn is_zero(self) -> bool {
        self == Self::MIN
    }

    /// Parses `ms-seq`, or `ms` alone, for which the sequence number is `missing`. As in Redis, the
    /// text ends at its first NUL.
    ///
    /// ```
    /// use punctual_rdb::stream::StreamId;
    ///
    /// assert_eq!(StreamId::parse(b"5-3", 0), Some(StreamId::new(5, 3)));
    /// assert_eq!(StreamId::parse(b"5", u64::MAX), Some(StreamId::new(5, u64::MAX)));
    /// assert_eq!(StreamId::parse(b"-", 0), None);
    /// ```
    pub fn parse(text: &[u8], missing: u64) -> Option<Self> {
        let (ms, seq) = Self::parts(text)?;
        let seq = match seq {
            None => missing,
            Some(seq) => number(seq)?,
        };
        Some(Self::new(ms, seq))
    }

    /// Parses `ms-*`. Returns the milliseconds.
    pub fn parse_ms(text: &[u8]) -> Option<u64> {
        match Self::parts(text)? {
            (ms, Some(b"*")) => Some(ms),
            _ => None,
        }
    }

    fn parts(text: &[u8]) -> Option<(u64, Option<&[u8]>)> {
        if text.len() > TEXT_MAX {
            return None;
        }
        let text = text.split(|byte| *byte == 0).next()?;
        match text.iter().position(|byte| *byte == b'-') {
            None => Some((number(text)?, None)),
            Some(at) => Some((number(&text[..at])?, Some(&text[at + 1..]))),
        }
    }

    /// Appends `ms-seq`.
    pub fn write(self, out: &mut Vec<u8>) {
        let mut buffer = itoa::Buffer::new();
        out.extend_from_slice(buffer.format(self.ms).as_bytes());
        out.push(b'-');
        out.extend_from_slice(buffer.format(self.seq).as_bytes());
    }

    /// Returns `ms-seq`.
    pub fn text(self) -> Vec<u8> {
        let mut text = Vec::with_capacity(24);
        self.write(&mut text);
        text
    }
}

/// Parses a number as Redis does: a canonical `u64`, or a text with leading spaces, a sign or
/// leading zeros as C's `strtoull` parses it. A canonical negative number is refused.
fn number(text: &[u8]) -> Option<u64> {
    if let Some(number) = decimal::parse_u64(text) {
        return Some(number);
    }
    if decimal::parse_i64(text).is_some() {
        return None;
    }
    let text = text.trim_ascii_start();
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] | digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits.iter().try_fold(0u64, |value, digit| {
        value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    })?;
    Some(if negative {
        value.wrapping_neg()
    } else {
        value
    })
}
