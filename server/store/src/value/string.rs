//! Strings: integers as `i64`, short strings inline, longer strings in a box of exact size. A
//! string that is changed in place gets room to grow.

use std::borrow::Cow;

use punctual_rdb::{Encoder, Kind};
use punctual_resp::decimal::parse_i64;

use super::content::{Content, Facts};
use super::digest::Digest;
use super::float::Float;
use crate::unaligned::{UnalignedBox, UnalignedI64};

/// Maximum length in bytes of an inline string.
pub const INLINE_MAX: usize = 18;
/// Maximum length in bytes of a string that OBJECT ENCODING calls `embstr`.
const EMBSTR_MAX: usize = 44;
/// Strings that grow beyond this many bytes no longer double their capacity.
const DOUBLING_MAX: usize = 1 << 20;
/// Maximum length in bytes of the text of a 64-bit integer.
const INT_TEXT_MAX: usize = 20;

/// A string value, in 20 bytes.
///
/// The canonical text of an `i64` is stored as `Int`. As in Redis, a string that was changed in
/// place (APPEND, SETRANGE: `Grown`) and the result of INCRBYFLOAT ([`Str::plain`]) stay texts.
#[derive(Clone, Debug)]
pub enum Str {
    /// A 64-bit integer.
    Int(UnalignedI64),
    /// Up to [`INLINE_MAX`] bytes inline.
    Inline {
        /// Number of bytes in use.
        len: u8,
        /// The string's bytes, followed by unused bytes.
        bytes: [u8; INLINE_MAX],
    },
    /// A longer string, of exact size.
    Boxed(UnalignedBox<[u8]>),
    /// A string with room to grow. The vector is boxed because a value has only 20 bytes.
    Grown(UnalignedBox<Vec<u8>>),
}

const _: () = assert!(size_of::<Str>() == 20);

impl Str {
    /// Creates a string in the best form for `bytes`. O(length).
    #[inline]
    pub fn new(bytes: &[u8]) -> Self {
        if bytes.len() <= INT_TEXT_MAX
            && let Some(int) = parse_i64(bytes)
        {
            return Self::Int(int.into());
        }
        Self::plain(bytes)
    }

    /// Creates a string in the best form for `bytes` other than `Int`. O(length).
    #[inline]
    pub fn plain(bytes: &[u8]) -> Self {
        if bytes.len() <= INLINE_MAX {
            let mut inline = [0; INLINE_MAX];
            inline[..bytes.len()].copy_from_slice(bytes);
            return Self::Inline {
                len: bytes.len() as u8,
                bytes: inline,
            };
        }
        Self::Boxed(Box::<[u8]>::from(bytes).into())
    }

    /// Replaces the content with `bytes`. Reuses the memory of a `Boxed` string of equal length.
    /// O(length).
    #[inline]
    pub fn set(&mut self, bytes: &[u8]) {
        match self {
            // A text of this length is not an integer.
            Self::Boxed(old) if old.len() == bytes.len() && bytes.len() > INT_TEXT_MAX => {
                old.copy_from_slice(bytes);
            }
            _ => *self = Self::new(bytes),
        }
    }

    /// Returns the integer if the string is the canonical text of an `i64`. O(1).
    #[inline]
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(int) => Some(int.get()),
            Self::Inline { len, bytes } => parse_i64(&bytes[..usize::from(*len).min(INLINE_MAX)]),
            Self::Boxed(bytes) => parse_i64(bytes),
            Self::Grown(bytes) => parse_i64(bytes),
        }
    }

    /// Returns the number if INCRBYFLOAT can parse the string. O(1) for integers, otherwise the
    /// time of [`Float::parse`].
    pub fn as_float(&self) -> Option<Float> {
        match self {
            Self::Int(int) => Some(Float::from(int.get())),
            text => Float::parse(&text.bytes()),
        }
    }

    /// Returns the bytes without a copy; an integer is formatted into `buffer`. O(1).
    #[inline]
    pub fn text<'a>(&'a self, buffer: &'a mut itoa::Buffer) -> &'a [u8] {
        match self {
            Self::Int(int) => buffer.format(int.get()).as_bytes(),
            Self::Inline { len, bytes } => &bytes[..usize::from(*len).min(INLINE_MAX)],
            Self::Boxed(bytes) => bytes,
            Self::Grown(bytes) => bytes,
        }
    }

    /// Returns the bytes; an integer becomes text. O(1).
    #[inline]
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Int(int) => Cow::Owned(itoa::Buffer::new().format(int.get()).as_bytes().to_vec()),
            Self::Inline { len, bytes } => {
                Cow::Borrowed(&bytes[..usize::from(*len).min(INLINE_MAX)])
            }
            Self::Boxed(bytes) => Cow::Borrowed(bytes),
            Self::Grown(bytes) => Cow::Borrowed(bytes),
        }
    }

    /// Returns the length in bytes. O(1).
    pub fn len(&self) -> usize {
        match self {
            Self::Int(int) => itoa::Buffer::new().format(int.get()).len(),
            Self::Inline { len, .. } => usize::from(*len),
            Self::Boxed(bytes) => bytes.len(),
            Self::Grown(bytes) => bytes.len(),
        }
    }

    /// Returns true if the length is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends `bytes` and makes the string `raw`. O(length of `bytes`) amortised, O(length of the
    /// result) the first time.
    pub fn append(&mut self, bytes: &[u8]) {
        self.grown(bytes.len()).extend_from_slice(bytes);
    }

    /// Writes `bytes` at `offset`, after zeros if the string is shorter, and makes it `raw`.
    /// O(length of `bytes` and zeros) amortised, O(length of the result) the first time.
    pub fn overwrite(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        self.at_least(end)[offset..end].copy_from_slice(bytes);
    }

    /// Creates a `raw` string of `len` zeros. O(length), O(1) if the system provides zeroed memory.
    pub fn zeros(len: usize) -> Self {
        Self::from_vec(vec![0; len])
    }

    /// Creates a `raw` string from a vector. O(1).
    pub fn from_vec(bytes: Vec<u8>) -> Self {
        Self::Grown(Box::new(bytes).into())
    }

    /// Returns the bytes for changes in place, padded with zeros to at least `len`, and makes the
    /// string `raw`. O(zeros) amortised, O(length) the first time.
    pub fn at_least(&mut self, len: usize) -> &mut [u8] {
        let more = len.saturating_sub(self.len());
        let grown = self.grown(more);
        if more > 0 {
            grown.resize(len, 0);
        }
        grown
    }

    /// Returns the bytes as a vector for changes in place and makes the string `raw`. O(1) if it
    /// already is, otherwise O(length).
    pub fn raw(&mut self) -> &mut Vec<u8> {
        self.grown(0)
    }

    /// Returns the bytes as a vector with room for `more` and makes the string `raw`. O(1)
    /// amortised if it already is, otherwise O(length).
    fn grown(&mut self, more: usize) -> &mut Vec<u8> {
        if !matches!(self, Self::Grown(_)) {
            let mut buffer = itoa::Buffer::new();
            let text = self.text(&mut buffer);
            let mut bytes = Vec::with_capacity(text.len() + more);
            bytes.extend_from_slice(text);
            *self = Self::Grown(Box::new(bytes).into());
        }
        let Self::Grown(bytes) = self else {
            unreachable!("converted above");
        };
        let len = bytes.len() + more;
        if len > bytes.capacity() && len > DOUBLING_MAX {
            // Large strings get an eighth of spare capacity instead of doubling.
            bytes.reserve_exact(more + len / 8);
        }
        bytes
    }
}

impl Content for Str {
    #[inline]
    fn facts(&self) -> Facts {
        Facts::new("string", 0, 0)
    }

    fn encoding(&self) -> &'static str {
        match self {
            Self::Int(_) => "int",
            Self::Grown(_) => "raw",
            _ if self.len() <= EMBSTR_MAX => "embstr",
            _ => "raw",
        }
    }

    /// O(1).
    fn heap_bytes(&self) -> usize {
        match self {
            Self::Int(_) | Self::Inline { .. } => 0,
            Self::Boxed(bytes) => bytes.len(),
            Self::Grown(bytes) => size_of::<Vec<u8>>() + bytes.capacity(),
        }
    }

    #[inline]
    fn warm(&self) -> u8 {
        match self {
            Self::Boxed(bytes) => bytes.first().copied().unwrap_or(0),
            _ => 0,
        }
    }

    fn kind(&self) -> Kind {
        Kind::String
    }

    fn write(&self, to: &mut Encoder, out: &mut Vec<u8>) {
        match self {
            Self::Int(int) => to.int(out, int.get()),
            string => to.string(out, string.text(&mut itoa::Buffer::new())),
        }
    }

    fn digest(&self, to: &mut Digest) {
        to.chain(&self.bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_large_string_keeps_little_spare_capacity() {
        let mut s = Str::new(&[b'x'; DOUBLING_MAX]);
        for _ in 0..1000 {
            s.append(&[b'y'; 1000]);
        }
        assert_eq!(s.len(), DOUBLING_MAX + 1_000_000);
        assert!(s.heap_bytes() < s.len() * 5 / 4);
    }

    proptest! {
        #[test]
        fn bytes_round_trip(bytes in proptest::collection::vec(any::<u8>(), 0..80), other in proptest::collection::vec(any::<u8>(), 0..80)) {
            let mut s = Str::new(&bytes);
            prop_assert_eq!(&*s.bytes(), &bytes[..]);
            prop_assert_eq!(s.len(), bytes.len());
            s.set(&other);
            prop_assert_eq!(&*s.bytes(), &other[..]);
            s.append(b"!");
            prop_assert_eq!(s.len(), other.len() + 1);
            prop_assert_eq!(s.encoding(), "raw");
        }

        #[test]
        fn changes_in_place_equal_those_of_a_vector(
            start in proptest::collection::vec(b'0'..=b'9', 0..40),
            changes in proptest::collection::vec((0..100usize, proptest::collection::vec(any::<u8>(), 1..40)), 1..10),
        ) {
            let mut s = Str::new(&start);
            let mut model = start;
            for (offset, bytes) in changes {
                if offset % 3 == 0 {
                    s.append(&bytes);
                    model.extend_from_slice(&bytes);
                } else {
                    s.overwrite(offset, &bytes);
                    model.resize(model.len().max(offset + bytes.len()), 0);
                    model[offset..offset + bytes.len()].copy_from_slice(&bytes);
                }
                let mut buffer = itoa::Buffer::new();
                prop_assert_eq!(s.text(&mut buffer), &model[..]);
            }
        }

        #[test]
        fn plain_text_of_an_integer_counts_as_one(int in any::<i64>()) {
            let s = Str::plain(int.to_string().as_bytes());
            prop_assert_eq!(s.as_int(), Some(int));
            prop_assert_eq!(s.encoding(), "embstr");
        }

        #[test]
        fn canonical_integers_are_kept_as_int(int in any::<i64>()) {
            let s = Str::new(int.to_string().as_bytes());
            prop_assert!(matches!(s, Str::Int(i) if i.get() == int));
            prop_assert_eq!(s.len(), int.to_string().len());
            // The same holds if the integer replaces a text of the same length.
            let mut set = Str::new("x".repeat(s.len()).as_bytes());
            set.set(int.to_string().as_bytes());
            prop_assert_eq!(set.as_int(), Some(int));
            prop_assert!(matches!(set, Str::Int(_)));
        }
    }

    #[test]
    fn non_canonical_integers_stay_text() {
        for text in [
            "01",
            "-0",
            "+1",
            " 1",
            "1 ",
            "",
            "9223372036854775808",
            "1.0",
        ] {
            assert!(Str::new(text.as_bytes()).as_int().is_none(), "{text:?}");
        }
    }
}
