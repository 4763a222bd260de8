//! A function of the caller's with its argument, called by threads of the library.
//!
//! `"C-unwind"`: an exception that comes out of one ends the process with a message, where it meets `catch_unwind`. Through
//! `"C"` its way would be undefined.

use std::ffi::c_void;

/// A function that gets the argument it was given with.
pub type Function = Option<unsafe extern "C-unwind" fn(argument: *mut c_void)>;

/// A function, its argument, and what destroys the argument when nobody will call any more.
pub(crate) struct Callback {
    function: unsafe extern "C-unwind" fn(*mut c_void),
    argument: *mut c_void,
    destroy: Function,
}

// SAFETY: whoever made it promised that the function and `destroy` may be called by any thread, and the
// argument is only handed to them.
unsafe impl Send for Callback {}
// SAFETY: as above; the functions that take a callback say whether calls of it may overlap.
unsafe impl Sync for Callback {}

impl Callback {
    /// `None` if there is no function; the argument is destroyed then.
    ///
    /// # Safety
    ///
    /// Until `destroy` is called, `function` may be called with `argument` by any thread; `destroy` may be
    /// called with it by any thread, once.
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
                // SAFETY: the caller gave it for this argument, and nobody else will use that.
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
            // SAFETY: promised to `new`; nobody can call any more.
            unsafe { destroy(self.argument) }
        }
    }
}
