//! Growing a short array in pieces, and freeing the memory of a long one in pieces.

use alloc::vec::Vec;
use core::mem::size_of;

/// How the allocator shrinks a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pieces {
    /// It shrinks the block in place, as far as is known.
    Freed,
    /// It copies the rest to another block, which in total takes longer than freeing the array at
    /// once.
    Copied,
}

/// Size in bytes that is copied in negligible time.
const SHORT: usize = 64 << 10;

/// Returns the number of elements by which a full array grows. A short one grows by few elements,
/// so that it wastes little memory.
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

/// Truncates an array to `to` elements and frees the memory after them, in time proportional to
/// that piece. If the allocator turns out to copy the rest, the memory is kept until only `least`
/// elements are left.
pub(super) fn shorten<E>(array: &mut Vec<E>, to: usize, least: usize, pieces: &mut Pieces) {
    array.truncate(to);
    if *pieces == Pieces::Freed || to <= least {
        let before = array.as_ptr();
        array.shrink_to(to);
        if array.as_ptr() != before && to * size_of::<E>() > SHORT {
            *pieces = Pieces::Copied;
        }
    }
}
