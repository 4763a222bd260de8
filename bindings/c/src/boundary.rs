//! Stops panics at the C boundary.

use crate::Status;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Returns the result of `body`, or `refusal` if it panics, after the panic's message was printed.
///
/// State left behind by a panic may be wrong but is sound: the queues are safe Rust.
#[inline]
pub(crate) fn guarded<R>(refusal: R, body: impl FnOnce() -> R) -> R {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(refusal)
}

/// Returns the result of `body` for an object behind a nullable pointer.
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
