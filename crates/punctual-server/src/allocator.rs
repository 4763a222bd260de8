//! The binary's allocator, and how memory goes back to the system.
//!
//! mimalloc has no headers on small blocks. It gives freed memory back a little later, while it is being used; a server
//! that has just lost a million keys and falls idle must ask for it.

#![allow(unsafe_code)]

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Gives memory that this thread has freed back to the system. O(pages of the heap).
pub(crate) fn purge() {
    // SAFETY: the function takes no pointer and may be called by any thread at any time; it touches only the calling
    // thread's own heap and pages without live blocks.
    unsafe { libmimalloc_sys::mi_collect(true) }
}
