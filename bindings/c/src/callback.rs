//! A function of the program with its argument, which threads of the library call.
//!
//! The functions have the ABI `"C-unwind"`: a C++ exception that a callback throws reaches
//! `catch_unwind`, which ends the process with a message. With the ABI `"C"`, unwinding would be
//! undefined behaviour.

use std::ffi::c_void;

/// A function that is called with its argument.
pub type Function = Option<unsafe extern "C-unwind" fn(argument: *mut c_void)>;

/// A function, its argument, and the destructor of the argument, which runs after the last call.
pub(crate) struct Callback {
    function: unsafe extern "C-unwind" fn(*mut c_void),
    argument: *mut c_void,
    destroy: Function,
}

// SAFETY: the caller of `new` guarantees that any thread may call the function and `destroy`, and
// only these use the argument.
unsafe impl Send for Callback {}
// SAFETY: as above. Each exported function that takes a callback documents whether calls may
// overlap.
unsafe impl Sync for Callback {}

impl Callback {
    /// Returns the callback. If `function` is NULL, destroys the argument and returns `None`.
    ///
    /// # Safety
    ///
    /// Until `destroy` is called, any thread may call `function` with `argument`. Any thread may
    /// call `destroy` with `argument`, once.
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
                // SAFETY: the caller passed `destroy` for this argument, which nothing else uses.
                unsafe { destroy(argument) };
                None
            }
            (None, None) => None,
        }
    }

    pub(crate) fn call(&self) {
        // SAFETY: the caller of `new` guarantees this.
        unsafe { (self.function)(self.argument) }
    }
}

impl Drop for Callback {
    fn drop(&mut self) {
        if let Some(destroy) = self.destroy {
            // SAFETY: the caller of `new` guarantees this, and no further call is possible.
            unsafe { destroy(self.argument) }
        }
    }
}
