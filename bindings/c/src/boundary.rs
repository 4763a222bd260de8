//! Stops panics before they unwind into C.

use crate::Status;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Returns the result of `body`, or `refusal` if `body` panics. The panic hook prints the message.
///
/// After a panic the state may be wrong, but it is sound, because the queues are safe Rust.
#[inline]
pub(crate) fn guarded<R>(refusal: R, body: impl FnOnce() -> R) -> R {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(refusal)
}

/// Calls `body` with the object behind a nullable pointer. Returns an error for NULL and for a
/// panic.
#[inline]
pub(crate) fn on<T>(object: Option<T>, body: impl FnOnce(T) -> Status) -> Status {
    match object {
        Some(object) => guarded(Status::Panicked, || body(object)),
        None => Status::Null,
    }
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
