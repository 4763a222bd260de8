//! Strings: integers as integers, short strings in place, the rest in a box of exact size; a string that
//! is changed in place gets room to grow.

use std::borrow::Cow;

use punctual_resp::decimal::parse_i64;

/// Longest string that is kept in place.
pub const INLINE_MAX: usize = 22;
/// Longest string that Redis calls `embstr`.
const EMBSTR_MAX: usize = 44;
/// A string that grows beyond this many bytes no longer doubles its room.
const DOUBLES_MAX: usize = 1 << 20;
/// Longest text that can be a 64-bit integer.
const INT_TEXT_MAX: usize = 20;

/// A string value, in 24 bytes.
///
/// Text that is the canonical form of an `i64` is kept as `Int`, but as in Redis not if the string was last
/// changed in place (APPEND, SETRANGE: `Grown`) or is a sum of floats ([`Str::plain`]).
#[derive(Clone, Debug)]
pub enum Str {
    /// A 64-bit integer.
    Int(i64),
    /// Up to [`INLINE_MAX`] bytes in place.
    Inline {
        /// How many of the bytes count.
        len: u8,
        /// The bytes.
        bytes: [u8; INLINE_MAX],
    },
    /// A longer string, of exact size.
    Boxed(Box<[u8]>),
    /// A string with room to grow. (Boxed once more so that every value stays within 24 bytes.)
    #[allow(clippy::box_collection)]
    Grown(Box<Vec<u8>>),
}

const _: () = assert!(size_of::<Str>() == 24);

impl Str {
    /// The best form for `bytes`. O(length).
    #[inline]
    pub fn new(bytes: &[u8]) -> Self {
        if bytes.len() <= INT_TEXT_MAX
            && let Some(int) = parse_i64(bytes)
        {
            return Self::Int(int);
        }
        Self::plain(bytes)
    }

    /// The best form for `bytes` but `Int`. O(length).
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
        Self::Boxed(bytes.into())
    }

    /// Becomes `bytes`, in the memory it has if that is of just this size. O(length).
    #[inline]
    pub fn set(&mut self, bytes: &[u8]) {
        match self {
            Self::Boxed(old) if old.len() == bytes.len() => old.copy_from_slice(bytes),
            _ => *self = Self::new(bytes),
        }
    }

    /// The integer, if the string is the canonical text of one. O(1) for integers, O(length) at most 20.
    #[inline]
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(int) => Some(*int),
            Self::Inline { len, bytes } => parse_i64(&bytes[..usize::from(*len).min(INLINE_MAX)]),
            // Too long for an integer.
            Self::Boxed(_) => None,
            Self::Grown(bytes) => parse_i64(bytes),
        }
    }

    /// The bytes, without a copy: integers are written into `buffer`. O(1), O(digits) for integers.
    #[inline]
    pub fn text<'a>(&'a self, buffer: &'a mut itoa::Buffer) -> &'a [u8] {
        match self {
            Self::Int(int) => buffer.format(*int).as_bytes(),
            Self::Inline { len, bytes } => &bytes[..usize::from(*len).min(INLINE_MAX)],
            Self::Boxed(bytes) => bytes,
            Self::Grown(bytes) => bytes,
        }
    }

    /// The bytes; integers become text. O(1), O(digits) for integers.
    #[inline]
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Int(int) => Cow::Owned(itoa::Buffer::new().format(*int).as_bytes().to_vec()),
            Self::Inline { len, bytes } => {
                Cow::Borrowed(&bytes[..usize::from(*len).min(INLINE_MAX)])
            }
            Self::Boxed(bytes) => Cow::Borrowed(bytes),
            Self::Grown(bytes) => Cow::Borrowed(bytes),
        }
    }

    /// Length in bytes. O(1).
    pub fn len(&self) -> usize {
        match self {
            Self::Int(int) => itoa::Buffer::new().format(*int).len(),
            Self::Inline { len, .. } => usize::from(*len),
            Self::Boxed(bytes) => bytes.len(),
            Self::Grown(bytes) => bytes.len(),
        }
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends `bytes`; the string is `raw` from here on. O(length of `bytes`) amortised.
    pub fn append(&mut self, bytes: &[u8]) {
        self.grown(bytes.len()).extend_from_slice(bytes);
    }

    /// Writes `bytes` at `offset`, with zeros in between if the string was shorter; it is `raw` from here on.
    /// O(length of `bytes`) amortised, and the zeros.
    pub fn overwrite(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        self.at_least(end)[offset..end].copy_from_slice(bytes);
    }

    /// A string of `len` zeros with room to grow, `raw`. O(length), less where the system hands out zeroed memory.
    pub fn zeros(len: usize) -> Self {
        Self::from_vec(vec![0; len])
    }

    /// A string with room to grow, `raw`: the vector itself. O(1).
    pub fn from_vec(bytes: Vec<u8>) -> Self {
        Self::Grown(Box::new(bytes))
    }

    /// The bytes to be changed in place, at least `len` of them: zeros follow if the string was shorter; it is `raw`
    /// from here on. O(zeros) amortised, O(length) the first time.
    pub fn at_least(&mut self, len: usize) -> &mut [u8] {
        let more = len.saturating_sub(self.len());
        let grown = self.grown(more);
        if more > 0 {
            grown.resize(len, 0);
        }
        grown
    }

    /// The bytes as a vector to be changed in place; the string is `raw` from here on. O(1) if it already was, else
    /// O(length).
    pub fn raw(&mut self) -> &mut Vec<u8> {
        self.grown(0)
    }

    /// The bytes as a vector with room for `more`; the string is `raw` from here on.
    /// O(1) amortised if it already was, else O(length).
    fn grown(&mut self, more: usize) -> &mut Vec<u8> {
        if !matches!(self, Self::Grown(_)) {
            let mut buffer = itoa::Buffer::new();
            let text = self.text(&mut buffer);
            let mut bytes = Vec::with_capacity(text.len() + more);
            bytes.extend_from_slice(text);
            *self = Self::Grown(Box::new(bytes));
        }
        let Self::Grown(bytes) = self else {
            unreachable!("made so above");
        };
        let len = bytes.len() + more;
        if len > bytes.capacity() && len > DOUBLES_MAX {
            // Large strings do not double: they get an eighth to spare.
            bytes.reserve_exact(more + len / 8);
        }
        bytes
    }

    /// A byte of what lies outside of the 24. Means nothing.
    #[inline]
    pub(crate) fn warm(&self) -> u8 {
        match self {
            Self::Boxed(bytes) => bytes.first().copied().unwrap_or(0),
            _ => 0,
        }
    }

    /// Redis's name for the form.
    pub fn encoding(&self) -> &'static str {
        match self {
            Self::Int(_) => "int",
            Self::Grown(_) => "raw",
            _ if self.len() <= EMBSTR_MAX => "embstr",
            _ => "raw",
        }
    }

    /// Bytes outside of the 24.
    pub fn heap_bytes(&self) -> usize {
        match self {
            Self::Int(_) | Self::Inline { .. } => 0,
            Self::Boxed(bytes) => bytes.len(),
            Self::Grown(bytes) => size_of::<Vec<u8>>() + bytes.capacity(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_large_string_keeps_little_to_spare() {
        let mut s = Str::new(&[b'x'; DOUBLES_MAX]);
        for _ in 0..1000 {
            s.append(&[b'y'; 1000]);
        }
        assert_eq!(s.len(), DOUBLES_MAX + 1_000_000);
        assert!(s.heap_bytes() < s.len() * 5 / 4);
    }

    proptest! {
        #[test]
        fn bytes_come_back(bytes in proptest::collection::vec(any::<u8>(), 0..80), other in proptest::collection::vec(any::<u8>(), 0..80)) {
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
        fn changes_in_place_are_those_of_a_vector(
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
        fn integers_are_integers(int in any::<i64>()) {
            let s = Str::new(int.to_string().as_bytes());
            prop_assert!(matches!(s, Str::Int(i) if i == int));
            prop_assert_eq!(s.len(), int.to_string().len());
        }
    }

    #[test]
    fn near_integers_stay_text() {
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
