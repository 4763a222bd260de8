//! The size limit of a list's pieces: Redis's `list-max-listpack-size`, with Redis's way to count
//! bytes.

/// Bytes of a listpack around its entries.
const LISTPACK_OVERHEAD: usize = 7;

/// Redis's estimate of an entry's bytes beyond its text.
const ENTRY_OVERHEAD: usize = 8;

/// Limit of a piece in bytes when the directive limits the number of elements.
const COUNTED_BYTES_MAX: usize = 8192;

/// The size limit of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieceSize {
    /// Limit in bytes of the listpack, including its header.
    bytes: usize,
    /// Limit in elements; `usize::MAX` if the limit is in bytes.
    count: usize,
}

impl PieceSize {
    /// Creates the limit from the directive. A negative number is a limit in bytes, from 4 KiB for
    /// -1 to 64 KiB for -5. Other numbers limit the elements; 0 stands for 1.
    #[inline]
    pub const fn of(directive: i64) -> Self {
        if directive >= 0 {
            let count = if directive == 0 {
                1
            } else {
                directive as usize
            };
            Self {
                bytes: COUNTED_BYTES_MAX,
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

    /// Returns the limit in bytes.
    #[inline]
    pub const fn bytes(self) -> usize {
        self.bytes
    }

    /// Returns true if a text of this length gets a piece of its own.
    #[inline]
    pub const fn is_large(self, text_len: usize) -> bool {
        text_len > self.bytes
    }

    /// Returns true if `count` entries of `entries_len` bytes in total fit into a piece.
    #[inline]
    pub const fn holds(self, entries_len: usize, count: usize) -> bool {
        entries_len.saturating_add(LISTPACK_OVERHEAD) <= self.bytes && count <= self.count
    }

    /// Returns true if `count` entries of `entries_len` bytes in total are at most half the limit.
    /// If the directive limits the number of elements, the bytes are ignored.
    #[inline]
    pub const fn half_holds(self, entries_len: usize, count: usize) -> bool {
        if self.count == usize::MAX {
            entries_len.saturating_add(LISTPACK_OVERHEAD) <= self.bytes / 2
        } else {
            count <= self.count / 2
        }
    }

    /// Returns true if a piece of `count` entries and `entries_len` bytes has room for another text
    /// of this length.
    #[inline]
    pub const fn takes(self, entries_len: usize, count: usize, text_len: usize) -> bool {
        !self.is_large(text_len) && self.holds(entries_len + text_len + ENTRY_OVERHEAD, count + 1)
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
