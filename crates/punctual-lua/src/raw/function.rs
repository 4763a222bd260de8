//! Native functions: Rust functions that scripts call.

use std::any::Any;
use std::cell::Cell;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use mlua_sys as ffi;

use super::state::Context;
use super::{Kind, Stack};

/// A function that scripts call: arguments are on the stack from 1 on, results at its top, and their number is returned.
pub(crate) type Native = fn(&mut Stack<'_>) -> Result<i32, Raise>;

/// Numbers that the functions of one library table share, in memory of Lua.
pub(crate) type Settings = [Cell<i32>; 9];

/// A Lua error to raise.
pub(crate) enum Raise {
    /// A message, preceded by the place of the call in the script, as `error` of Lua does.
    Message(Vec<u8>),
    /// The value at the top of the stack.
    Top,
    /// A panic, which continues when Lua has returned.
    Panic(Box<dyn Any + Send>),
}

impl Raise {
    /// Creates an error with a message.
    pub(crate) fn message(text: impl Into<Vec<u8>>) -> Self {
        Self::Message(text.into())
    }
}

impl Stack<'_> {
    /// Pushes a native function.
    pub(crate) fn push_function(&self, function: Native) {
        // SAFETY: the caller has made room; `trampoline` reads the address back as what it is.
        unsafe {
            ffi::lua_pushlightuserdata(self.state, function as *mut _);
            ffi::lua_pushcclosure(self.state, trampoline, 1);
        }
    }

    /// Pushes new settings, for [`Stack::push_function_with`].
    pub(crate) fn push_settings(&self, values: [i32; size_of::<Settings>() / size_of::<i32>()]) {
        // SAFETY: the caller has made room; the allocator does not fail; Lua aligns the memory for any number.
        unsafe {
            let memory = ffi::lua_newuserdata(self.state, size_of::<Settings>());
            memory.cast::<Settings>().write(values.map(Cell::new));
        }
    }

    /// Pushes a native function, which reads the settings at `at` by [`Stack::settings`]. Scripts never get hold of them.
    pub(crate) fn push_function_with(&self, function: Native, at: i32) {
        assert_eq!(self.kind(at), Kind::Userdata);
        // SAFETY: as in `push_function`.
        unsafe {
            ffi::lua_pushvalue(self.state, at);
            ffi::lua_pushlightuserdata(self.state, function as *mut _);
            ffi::lua_insert(self.state, -2);
            ffi::lua_pushcclosure(self.state, trampoline, 2);
        }
    }

    /// Returns the settings of the running function, which was pushed with some.
    pub(crate) fn settings(&self) -> &Settings {
        let at = ffi::lua_upvalueindex(2);
        assert_eq!(self.kind(at), Kind::Userdata);
        // SAFETY: `push_settings` makes the only userdata of the interpreter, and scripts can neither make nor change one.
        // The running function keeps it alive.
        unsafe { &*ffi::lua_touserdata(self.state, at).cast::<Settings>() }
    }

    /// Returns the context of the interpreter.
    pub(crate) fn context(&self) -> &Context {
        // SAFETY: the state is that of an interpreter, whose context outlives it.
        unsafe { Context::of(self.state) }
    }
}

/// Calls the native function whose address is the first upvalue.
unsafe extern "C-unwind" fn trampoline(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: Lua calls this with a valid state, whose closure has the address of a `Native`, put there by `push_function`.
    let results = unsafe {
        let address = ffi::lua_touserdata(state, ffi::lua_upvalueindex(1));
        let function = std::mem::transmute::<*mut std::ffi::c_void, Native>(address);
        call(state, function)
    };
    match results {
        Some(results) => results,
        // SAFETY: `call` has pushed the value to raise, and nothing in this frame has a destructor.
        None => unsafe { ffi::lua_error(state) },
    }
}

/// Runs a native function; returns the number of its results, or `None` after it has pushed an error.
///
/// # Safety
/// As [`trampoline`].
unsafe fn call(state: *mut ffi::lua_State, function: Native) -> Option<c_int> {
    // SAFETY: the state is valid.
    let context = unsafe { Context::of(state) };
    let _running = context.enter_native();
    // SAFETY: nothing else uses the stack until the function returns, and the allocator does not fail meanwhile.
    let mut stack = unsafe { Stack::new(state) };
    let result = catch_unwind(AssertUnwindSafe(|| function(&mut stack)));
    let raise = match result {
        Ok(Ok(results)) => return Some(results),
        Ok(Err(raise)) => raise,
        Err(panic) => Raise::Panic(panic),
    };
    if !stack.has_room(3) {
        // The function has filled the stack; its values are not needed any more.
        stack.set_top(stack.top().min(1));
    }
    match raise {
        Raise::Top => {}
        Raise::Message(text) => {
            // SAFETY: there is room; the function pushes the place of the running Lua function, or an empty string.
            unsafe { ffi::luaL_where(state, 1) };
            let text = [stack.bytes(-1).unwrap_or_default(), &text].concat();
            stack.push_bytes(&text);
        }
        Raise::Panic(panic) => {
            context.keep_panic(panic);
            stack.push_bytes(b"internal error");
        }
    }
    None
}
