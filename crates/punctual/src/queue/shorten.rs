//! Giving back the memory of a long array, a piece at a time.

use alloc::vec::Vec;
use core::mem::size_of;

/// Whether the allocator gives pieces back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pieces {
    /// It shortens a block where it lies, as far as is known.
    Freed,
    /// It copies what is left to another block, which takes longer than freeing all of it in the end.
    Copied,
}

/// What is copied in no time to speak of.
const SHORT: usize = 64 << 10;

/// Drops what is in an array from `to` on, and gives the memory back, which takes as long as the piece is. If the
/// allocator turns out to copy what is left, it is not asked again before all but `least` elements are dropped.
pub(super) fn shorten<E>(array: &mut Vec<E>, to: usize, least: usize, pieces: &mut Pieces) {
    array.truncate(to);
    if *pieces == Pieces::Freed || to <= least {
        let lies = array.as_ptr();
        array.shrink_to(to);
        if array.as_ptr() != lies && to * size_of::<E>() > SHORT {
            *pieces = Pieces::Copied;
        }
    }
}
