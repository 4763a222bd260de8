//! A caller's function with its argument, called on threads of the library.
//!
//! `"C-unwind"`: a C++ exception from a callback reaches `catch_unwind`, which ends the process
//! with a message. Through `"C"` unwinding would be undefined.

use std::ffi::c_void;

/// A function that is called with its argument.
pub type Function = Option<unsafe extern "C-unwind" fn(argument: *mut c_void)>;

/// A function, its argument, and the destructor that runs after the last call.
pub(crate) struct Callback {
    function: unsafe extern "C-unwind" fn(*mut c_void),
    argument: *mut c_void,
    destroy: Function,
}

// SAFETY: the caller of `new` promised that any thread may call the function and `destroy`, and the
// argument is only passed to them.
unsafe impl Send for Callback {}
// SAFETY: as above; each function that takes a callback documents whether calls may overlap.
unsafe impl Sync for Callback {}

impl Callback {
    /// Returns `None` without a function, after destroying the argument.
    ///
    /// # Safety
    ///
    /// Until `destroy` is called, any thread may call `function` with `argument`. Any thread may
    /// call `destroy` with it, once.
    pub(crate) unsafe fn new(
        function: Function,
        argument: *mut c_void,
        destroy: Function,
    ) -> Option<Self> {
        match (function, destroy) {
            (Some(function), destroy) => Some(Callback {
                function,
                argument,
                destroy,
            }),
            (None, Some(destroy)) => {
                // SAFETY: the caller passed it for this argument, which nothing else uses.
                unsafe { destroy(argument) };
                None
            }
            (None, None) => None,
        }
    }

    pub(crate) fn call(&self) {
        // SAFETY: promised to `new`.
        unsafe { (self.function)(self.argument) }
    }
}

impl Drop for Callback {
    fn drop(&mut self) {
        if let Some(destroy) = self.destroy {
            // SAFETY: promised to `new`; no further call is possible.
            unsafe { destroy(self.argument) }
        }
    }
}
