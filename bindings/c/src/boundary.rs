//! Calls on nullable objects, which return a status.

use crate::Status;
pub(crate) use punctual_c_boundary::guarded;

/// Calls `body` with the object behind a nullable pointer. Returns an error for NULL and for a
/// panic.
#[inline]
pub(crate) fn on<T>(object: Option<T>, body: impl FnOnce(T) -> Status) -> Status {
    match object {
        Some(object) => guarded(Status::Panicked, || body(object)),
        None => Status::Null,
    }
}
