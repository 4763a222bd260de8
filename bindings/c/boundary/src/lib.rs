//! Shared by the C libraries: stops panics before they unwind into C, and notices forks.

use std::panic::{AssertUnwindSafe, catch_unwind};

pub mod fork;

/// Returns the result of `body`, or `refusal` if `body` panics. The panic hook prints the message.
///
/// After a panic the state may be wrong, but it is sound if `body` is safe Rust.
#[inline]
pub fn guarded<R>(refusal: R, body: impl FnOnce() -> R) -> R {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(refusal)
}

#[cfg(test)]
mod tests {
    use super::guarded;

    #[test]
    fn a_panic_becomes_the_refusal() {
        assert_eq!(guarded(7, || panic!("not across the boundary")), 7);
        assert_eq!(guarded(7, || 8), 8);
    }
}
