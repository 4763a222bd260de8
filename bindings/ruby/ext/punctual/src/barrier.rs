//! The garbage collector's write barrier.

use magnus::rb_sys::AsRawValue;
use magnus::typed_data::{Obj, Writebarrier};
use magnus::{TypedData, Value};

/// Tells the collector that `owner` has stored `value`. Immediate values (small integers, symbols, nil) are no objects, and
/// Ruby's own barrier does not accept them.
#[inline]
pub(crate) fn stored<T: TypedData>(owner: Obj<T>, value: Value) {
    if !rb_sys::SPECIAL_CONST_P(value.as_raw()) {
        owner.writebarrier(value);
    }
}
