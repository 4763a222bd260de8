//! Native functions: Rust functions that scripts call.

use std::any::Any;
use std::cell::Cell;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use mlua_sys as ffi;

use super::arguments::c_string;
use super::state::Context;
use super::{Kind, Stack};

/// A function that scripts call. It finds its arguments on the stack from index 1 on, pushes its
/// results, and returns their number.
pub(crate) type Native = fn(&mut Stack<'_>) -> Result<i32, Raise>;

/// Numbers that the functions of one library table share, such as the options of `cjson`. Lua
/// allocates and frees them.
pub(crate) type Settings = [Cell<i32>; 9];

/// A Lua error that a native function raises.
pub(crate) enum Raise {
    /// A message. The place of the call in the script is put before it, as Lua's `error` does.
    Message(Vec<u8>),
    /// A message in a table with the field `err` and without a place, as the functions in the table
    /// `redis` raise it.
    Refusal(&'static str),
    /// A message without a place, as Lua's core raises it in native functions.
    Plain(&'static str),
    /// The value at the top of the stack.
    Top,
    /// A panic of the native function. It continues after Lua has returned.
    Panic(Box<dyn Any + Send>),
}

impl Raise {
    /// Creates an error with a message.
    pub(crate) fn message(text: impl Into<Vec<u8>>) -> Self {
        Self::Message(text.into())
    }

    /// Creates an error of a function in the table `redis`, whose code is ERR.
    pub(crate) fn refusal(text: &'static str) -> Self {
        Self::Refusal(text)
    }
}

impl Stack<'_> {
    /// Pushes a native function.
    pub(crate) fn push_function(&self, function: Native) {
        self.check_room(1);
        // SAFETY: the caller has made room, and `trampoline` converts the address back to `Native`.
        unsafe {
            ffi::lua_pushlightuserdata(self.state, function as *mut _);
            ffi::lua_pushcclosure(self.state, trampoline, 1);
        }
    }

    /// Pushes new settings, for [`Stack::push_function_with`].
    pub(crate) fn push_settings(&self, values: [i32; size_of::<Settings>() / size_of::<i32>()]) {
        self.check_room(1);
        // SAFETY: the caller has made room; the allocator does not fail; Lua aligns the memory for
        // any number.
        unsafe {
            let memory = ffi::lua_newuserdata(self.state, size_of::<Settings>());
            memory.cast::<Settings>().write(values.map(Cell::new));
        }
    }

    /// Pushes a native function that reads the settings at `at` with [`Stack::settings`]. Scripts
    /// have no access to the settings.
    pub(crate) fn push_function_with(&self, function: Native, at: i32) {
        assert_eq!(self.kind(at), Kind::Userdata);
        self.check_room(2);
        // SAFETY: as in `push_function`.
        unsafe {
            ffi::lua_pushvalue(self.state, at);
            ffi::lua_pushlightuserdata(self.state, function as *mut _);
            ffi::lua_insert(self.state, -2);
            ffi::lua_pushcclosure(self.state, trampoline, 2);
        }
    }

    /// Returns the settings of the running function.
    ///
    /// # Panics
    /// If the function was not pushed with [`Stack::push_function_with`].
    pub(crate) fn settings(&self) -> &Settings {
        let at = ffi::lua_upvalueindex(2);
        assert_eq!(self.kind(at), Kind::Userdata);
        // SAFETY: `push_settings` makes the only userdata of the interpreter, and scripts can
        // neither make nor change one. The running function keeps it alive.
        unsafe { &*ffi::lua_touserdata(self.state, at).cast::<Settings>() }
    }

    /// Pushes a table of functions.
    pub(crate) fn push_library(&mut self, functions: &[(&str, Native)]) {
        self.push_table(0, functions.len());
        for (name, function) in functions {
            self.push_function(*function);
            self.raw_set_field(-2, name.as_bytes());
        }
    }

    /// Pushes a table with the field `err`. If `text` starts with `-` and has a space, its first
    /// word is the error code; otherwise the code is `ERR`. Needs room for three values.
    pub(crate) fn push_error(&mut self, text: &[u8]) {
        // As in C, the text ends at its first NUL.
        let text = c_string(text);
        let (code, message) = match text.strip_prefix(b"-") {
            None => (&b"ERR"[..], text),
            Some(text) => match text.iter().position(|&byte| byte == b' ') {
                Some(space) => (&text[..space], &text[space + 1..]),
                None => (&b"ERR"[..], text),
            },
        };
        let end = |byte: &u8| matches!(byte, b'\r' | b'\n');
        let start = message.iter().take_while(|byte| end(byte)).count();
        let message = &message[start..];
        let trailing = message.iter().rev().take_while(|byte| end(byte)).count();
        let message = &message[..message.len() - trailing];
        self.push_table(0, 1);
        self.push_bytes(&[code, b" ", message].concat());
        self.raw_set_field(-2, b"err");
    }

    /// Returns the context of the interpreter.
    pub(crate) fn context(&self) -> &Context {
        // SAFETY: `State::new` has made the state, and the context outlives the state.
        unsafe { Context::of(self.state) }
    }
}

/// Calls the native function whose address is the first upvalue.
unsafe extern "C-unwind" fn trampoline(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: Lua calls this with a valid state, whose closure has the address of a `Native`, put
    // there by `push_function`.
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

/// Runs a native function; returns the number of its results, or `None` after it has pushed an
/// error.
///
/// # Safety
/// `state` is valid and belongs to the running closure of `function`.
unsafe fn call(state: *mut ffi::lua_State, function: Native) -> Option<c_int> {
    // SAFETY: the state is valid.
    let context = unsafe { Context::of(state) };
    let _running = context.enter_native();
    // SAFETY: nothing else uses the stack until the function returns, and until then the allocator
    // does not fail.
    let mut stack = unsafe { Stack::new(state) };
    let result = catch_unwind(AssertUnwindSafe(|| function(&mut stack)));
    let raise = match result {
        Ok(Ok(results)) => return Some(results),
        Ok(Err(raise)) => raise,
        Err(panic) => Raise::Panic(panic),
    };
    if !matches!(raise, Raise::Top) && !stack.has_room(3) {
        // The function has filled the stack, and its values are no longer needed.
        stack.set_top(stack.top().min(1));
    }
    match raise {
        Raise::Top => {}
        Raise::Message(text) => {
            // SAFETY: there is room for the place of the running Lua function, or an empty string.
            unsafe { ffi::luaL_where(state, 1) };
            let text = [stack.bytes(-1).unwrap_or_default(), &text].concat();
            stack.push_bytes(&text);
        }
        Raise::Refusal(text) => stack.push_error(text.as_bytes()),
        Raise::Plain(text) => stack.push_bytes(text.as_bytes()),
        Raise::Panic(panic) => {
            context.keep_panic(panic);
            stack.push_bytes(b"internal error");
        }
    }
    None
}
