//! Calls without the interpreter's lock (GVL).

#![allow(unsafe_code, reason = "magnus has no wrapper")]

use std::any::Any;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::null_mut;

use magnus::Ruby;

struct Call<F, R> {
    function: Option<F>,
    result: Option<Result<R, Box<dyn Any + Send>>>,
}

unsafe extern "C" fn run<F: FnOnce() -> R, R>(call: *mut c_void) -> *mut c_void {
    // SAFETY: `release` passes a `Call<F, R>` on its stack, and waits for this function.
    let call = unsafe { &mut *call.cast::<Call<F, R>>() };
    if let Some(function) = call.function.take() {
        // A panic must not unwind Ruby's frames, which are C.
        call.result = Some(catch_unwind(AssertUnwindSafe(function)));
    }
    null_mut()
}

unsafe extern "C" fn interrupt<U: Fn()>(unblock: *mut c_void) {
    // SAFETY: `release` passes a `U` that outlives the call; Ruby calls this during the call only.
    let unblock = unsafe { &*unblock.cast::<U>() };
    unblock();
}

/// Calls `function` without the interpreter's lock. `function` must not touch Ruby.
///
/// To interrupt the thread, Ruby calls `unblock` on any thread; `unblock` should make `function`
/// return. Returns `None` if the thread was interrupted before `function` began.
pub(crate) fn release<R, U: Fn() + Sync>(
    _ruby: &Ruby,
    function: impl FnOnce() -> R,
    unblock: &U,
) -> Option<R> {
    fn call<F: FnOnce() -> R, R>(
        function: F,
        unblock: rb_sys::rb_unblock_function_t,
        data: *mut c_void,
    ) -> Option<R> {
        let mut call = Call {
            function: Some(function),
            result: None,
        };
        // SAFETY: the thread has the lock, as `Ruby` proves. `call` and `data` outlive the call.
        // This variant raises no exception, which would jump over Rust's frames.
        unsafe {
            rb_sys::rb_thread_call_without_gvl2(
                Some(run::<F, R>),
                (&raw mut call).cast(),
                unblock,
                data,
            );
        }
        match call.result? {
            Ok(result) => Some(result),
            Err(panic) => resume_unwind(panic),
        }
    }
    call(
        function,
        Some(interrupt::<U>),
        std::ptr::from_ref(unblock).cast_mut().cast(),
    )
}
