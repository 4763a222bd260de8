//! How large the pieces of a list become: Redis's `list-max-listpack-size`, with Redis's way of counting.

/// A listpack around the entries takes so many bytes more.
const AROUND_ENTRIES: usize = 7;

/// What Redis reckons for an entry besides its text.
const AROUND_TEXT: usize = 8;

/// Where only elements are counted, pieces of several elements stay within so many bytes.
const BYTES_WHEN_COUNTED: usize = 8192;

/// The largest piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieceSize {
    /// As a whole listpack, header included.
    bytes: usize,
    /// `usize::MAX` where only bytes count.
    count: usize,
}

impl PieceSize {
    /// From the directive: so many elements if positive, else 4 KiB for -1 to 64 KiB for -5.
    #[inline]
    pub const fn of(directive: i64) -> Self {
        if directive >= 0 {
            let count = if directive == 0 {
                1
            } else {
                directive as usize
            };
            Self {
                bytes: BYTES_WHEN_COUNTED,
                count,
            }
        } else {
            let doublings = if directive < -5 { 4 } else { -1 - directive };
            Self {
                bytes: 4096 << doublings,
                count: usize::MAX,
            }
        }
    }

    /// Bytes that a piece takes at most.
    #[inline]
    pub const fn bytes(self) -> usize {
        self.bytes
    }

    /// Whether a text of this length is a piece of its own.
    #[inline]
    pub const fn is_large(self, text_len: usize) -> bool {
        text_len > self.bytes
    }

    /// Whether so many entries, of so many bytes together, are a piece.
    #[inline]
    pub const fn holds(self, entries_len: usize, count: usize) -> bool {
        entries_len.saturating_add(AROUND_ENTRIES) <= self.bytes && count <= self.count
    }

    /// Whether so many entries, of so many bytes together, are at most half a piece. Where elements are counted, bytes
    /// are not.
    #[inline]
    pub const fn half_holds(self, entries_len: usize, count: usize) -> bool {
        if self.count == usize::MAX {
            entries_len.saturating_add(AROUND_ENTRIES) <= self.bytes / 2
        } else {
            count <= self.count / 2
        }
    }

    /// Whether a piece of so many entries, of so many bytes together, takes another text of this length.
    #[inline]
    pub const fn takes(self, entries_len: usize, count: usize, text_len: usize) -> bool {
        !self.is_large(text_len) && self.holds(entries_len + text_len + AROUND_TEXT, count + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directive_counts_elements_or_bytes() {
        let bytes = [-1, -2, -3, -4, -5, -6, i64::MIN].map(|n| PieceSize::of(n).bytes());
        assert_eq!(bytes, [4096, 8192, 16384, 32768, 65536, 65536, 65536]);
        assert!(PieceSize::of(0).holds(100, 1) && !PieceSize::of(0).holds(100, 2));
        assert!(PieceSize::of(128).holds(8185, 128));
        assert!(!PieceSize::of(128).holds(8186, 1) && !PieceSize::of(128).holds(1, 129));
        assert!(PieceSize::of(-2).holds(8185, 4000) && !PieceSize::of(-2).holds(8186, 1));
        assert!(PieceSize::of(-2).half_holds(4089, 9) && !PieceSize::of(-2).half_holds(4090, 9));
        assert!(PieceSize::of(8).half_holds(9000, 4) && !PieceSize::of(8).half_holds(1, 5));
        assert!(PieceSize::of(-2).takes(8000, 9, 177) && !PieceSize::of(-2).takes(8000, 9, 178));
    }
}
