//! Objects of the extension's own classes.
//!
//! magnus checks the type of such an object at each use, inside `rb_protect`. `Own` checks the type
//! once and raises no exception, which halves the time of a short method.

#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::from_ref;

use magnus::rb_sys::AsRawValue;
use magnus::typed_data::Obj;
use magnus::value::ReprValue;
use magnus::{Error, IntoValue, Ruby, TryConvert, TypedData, Value};
use rb_sys::rb_data_type_t;

/// A Ruby object with a `T` in it. It must stay on the stack, where the garbage collector finds it.
pub(crate) struct Own<T> {
    value: Value,
    data: PhantomData<*const T>,
}

impl<T> Clone for Own<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Own<T> {}

impl<T: TypedData> Own<T> {
    #[inline]
    pub(crate) fn value(self) -> Value {
        self.value
    }

    /// Calls the garbage collector's write barrier after this object has stored `value`. Immediate
    /// values (small integers, symbols, nil) need no barrier, and Ruby's own barrier does not
    /// accept them.
    #[inline]
    pub(crate) fn stored(self, value: Value) {
        if !rb_sys::SPECIAL_CONST_P(value.as_raw()) {
            // SAFETY: both are objects, on the stack.
            unsafe { rb_sys::rb_gc_writebarrier(self.value.as_raw(), value.as_raw()) }
        }
    }

    /// # Errors
    /// `FrozenError` if the object is frozen.
    #[inline]
    pub(crate) fn check_frozen(self) -> Result<(), Error> {
        if self.value.is_frozen() {
            return self.value.check_frozen();
        }
        Ok(())
    }
}

impl<T: TypedData> From<Obj<T>> for Own<T> {
    #[inline]
    fn from(object: Obj<T>) -> Self {
        Own {
            value: object.as_value(),
            data: PhantomData,
        }
    }
}

impl<T: TypedData> TryConvert for Own<T> {
    #[inline]
    fn try_convert(value: Value) -> Result<Self, Error> {
        let raw = value.as_raw();
        // `DataType` is a transparent wrapper.
        let expected = from_ref(T::data_type()).cast::<rb_data_type_t>();
        // SAFETY: `raw` is a live object on the stack; each check makes sure that the next one may
        // read the object.
        let matches = unsafe {
            !rb_sys::SPECIAL_CONST_P(raw)
                && rb_sys::RB_BUILTIN_TYPE(raw) == rb_sys::ruby_value_type::RUBY_T_DATA
                && rb_sys::RTYPEDDATA_P(raw)
                && rb_sys::RTYPEDDATA_TYPE(raw) == expected
        };
        if matches {
            Ok(Own {
                value,
                data: PhantomData,
            })
        } else {
            // Returns the error with magnus's message.
            Obj::try_convert(value).map(Own::from)
        }
    }
}

impl<T: TypedData> IntoValue for Own<T> {
    #[inline]
    fn into_value_with(self, _ruby: &Ruby) -> Value {
        self.value
    }
}

impl<T: TypedData> Deref for Own<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the object's type was checked. Ruby frees the data together with the object,
        // which is alive because it is on the stack.
        unsafe { &*rb_sys::RTYPEDDATA_GET_DATA(self.value.as_raw()).cast::<T>() }
    }
}
