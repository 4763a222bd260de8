//! Prefetches memory: requests it before it is needed, so that the wait overlaps with other work.

#![allow(unsafe_code, reason = "the hint is an intrinsic on a raw pointer")]

/// Hints that `value` will be read soon. O(size in cache lines).
#[inline(always)]
pub fn prefetch<T>(value: &T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let start = core::ptr::from_ref(value).cast::<i8>();
        // SAFETY: a prefetch has no effect that the program can observe, and cannot fault. The
        // address is within `value`.
        let fetch = |offset| unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(offset)) };
        for offset in (0..size_of::<T>()).step_by(64) {
            fetch(offset);
        }
        // A value that does not begin at a cache line may end in one more line.
        fetch(size_of::<T>().saturating_sub(1));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = value;
}
