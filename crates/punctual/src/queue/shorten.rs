//! Grows a short array by few elements at a time, and frees the memory of a long array in pieces.

use alloc::vec::Vec;
use core::mem::size_of;

/// How the allocator shrinks a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShrinkMode {
    /// The allocator shrinks blocks in place, as far as calls of [`shorten`] have seen.
    InPlace,
    /// The allocator copies the remaining elements to another block. To copy them for each freed
    /// piece takes longer than to free the array at once.
    Copies,
}

/// Number of bytes that are copied in negligible time.
const SHORT: usize = 64 << 10;

/// Returns the number of elements by which a full array grows. A short array grows by few elements,
/// so that it wastes little memory; a long array doubles.
#[inline]
pub(super) fn growth(len: usize) -> usize {
    match len {
        ..1024 => len.clamp(4, 64),
        _ => len,
    }
}

/// Makes room for one more element.
#[inline]
pub(super) fn lengthen<E>(array: &mut Vec<E>) {
    if array.len() == array.capacity() {
        array.reserve_exact(growth(array.len()));
    }
}

/// Truncates an array to `to` elements and frees the memory after them, in time proportional to the
/// freed piece. If the allocator turns out to copy the remaining elements, later calls keep the
/// memory until only `min_len` elements are left.
pub(super) fn shorten<E>(array: &mut Vec<E>, to: usize, min_len: usize, mode: &mut ShrinkMode) {
    array.truncate(to);
    if *mode == ShrinkMode::InPlace || to <= min_len {
        let before = array.as_ptr();
        array.shrink_to(to);
        if array.as_ptr() != before && to * size_of::<E>() > SHORT {
            *mode = ShrinkMode::Copies;
        }
    }
}
