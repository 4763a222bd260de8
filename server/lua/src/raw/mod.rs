//! Lua's C API behind safe types. All `unsafe` of the crate is in this folder.
//!
//! Ground rules, on which the proofs rest:
//!
//! - **An error of Lua is a jump** (`longjmp`) over stack frames, whose destructors do not run.
//!   Only three places raise an error: Lua's own C code, and [`function::trampoline`] and the hook
//!   in [`state`], after everything with a destructor is dropped.
//! - **No function of [`Stack`] raises an error.** Functions that allocate cannot run out of
//!   memory, because the allocator ignores the limit while Rust code runs (see [`state`]). There
//!   are no functions that call metamethods. Functions that write to a table are for tables that
//!   the caller has made and that are not read-only, and the key must not be nil or NaN.
//! - **The caller makes room on the stack** with [`Stack::ensure`] before it pushes values. A
//!   native function starts with room for 20 values. Debug builds assert that there is room.
//! - A string borrows the stack, so values cannot be popped while it is in use; values can be
//!   pushed.

pub(crate) mod arguments;
pub(crate) mod function;
pub(crate) mod state;
pub(crate) mod tables;

use std::ffi::{c_char, c_int, c_void};
use std::marker::PhantomData;
use std::slice;

use mlua_sys as ffi;

use function::Raise;

unsafe extern "C-unwind" {
    /// Makes the table at `idx` read-only, or writable if `on` is 0. Added by `lua/edits.rs`.
    fn punctual_setreadonly(state: *mut ffi::lua_State, idx: c_int, on: c_int);
    /// Returns whether the value at `idx` is a read-only table. Added by `lua/edits.rs`.
    fn punctual_isreadonly(state: *mut ffi::lua_State, idx: c_int) -> c_int;
    /// Returns whether the running function may push `n` more values.
    fn punctual_hasroom(state: *mut ffi::lua_State, n: c_int) -> c_int;
}

/// Type of a Lua value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// No value: the index is above the top.
    None,
    Nil,
    Boolean,
    LightUserdata,
    Number,
    String,
    Table,
    Function,
    Userdata,
    Thread,
}

/// The stack of a running Lua thread. Indices are Lua's: from 1 at the bottom, from -1 at the top.
pub(crate) struct Stack<'l> {
    state: *mut ffi::lua_State,
    lua: PhantomData<&'l mut ffi::lua_State>,
}

impl Stack<'_> {
    /// # Safety
    /// `state` is valid, no other `Stack` of it is in use, and the allocator ignores the limit for
    /// the lifetime.
    unsafe fn new(state: *mut ffi::lua_State) -> Self {
        Self {
            state,
            lua: PhantomData,
        }
    }

    /// Asserts that a negative index is on the stack. Lua accepts any positive index.
    fn check(&self, at: i32) {
        debug_assert!(
            at > 0 || -at <= self.top() || at <= ffi::LUA_REGISTRYINDEX,
            "index {at} of {}",
            self.top()
        );
    }

    /// Asserts that the caller has made room for `n` more values.
    fn check_room(&self, n: i32) {
        // SAFETY: the state is valid.
        debug_assert!(unsafe { punctual_hasroom(self.state, n) != 0 }, "no room");
    }

    /// Returns the number of values on the stack.
    pub(crate) fn top(&self) -> i32 {
        // SAFETY: the state is valid.
        unsafe { ffi::lua_gettop(self.state) }
    }

    /// Removes the values above the first `top`.
    pub(crate) fn set_top(&mut self, top: i32) {
        debug_assert!(top >= 0 && top <= self.top());
        // SAFETY: the stack only shrinks.
        unsafe { ffi::lua_settop(self.state, top) }
    }

    /// Removes `n` values from the top.
    pub(crate) fn pop(&mut self, n: i32) {
        self.set_top(self.top() - n);
    }

    /// Makes room for `n` more values.
    ///
    /// # Errors
    /// `stack overflow` if the stack would exceed Lua's limit of 8,000 values for a function.
    pub(crate) fn ensure(&self, n: i32) -> Result<(), Raise> {
        if self.has_room(n) {
            Ok(())
        } else {
            Err(Raise::message("stack overflow"))
        }
    }

    /// Makes room for `n` more values. The error's message ends with `what`, as the message of C's
    /// `luaL_checkstack` does.
    pub(crate) fn ensure_for(&self, n: i32, what: &str) -> Result<(), Raise> {
        if self.has_room(n) {
            Ok(())
        } else {
            Err(Raise::message(format!("stack overflow ({what})")))
        }
    }

    /// Makes room for `n` more values. Returns false if the stack would exceed Lua's limit.
    pub(crate) fn has_room(&self, n: i32) -> bool {
        // SAFETY: the state is valid; the allocator does not fail.
        unsafe { ffi::lua_checkstack(self.state, n) != 0 }
    }

    /// Returns a value's type.
    pub(crate) fn kind(&self, at: i32) -> Kind {
        self.check(at);
        // SAFETY: Lua accepts positive indices above the top.
        match unsafe { ffi::lua_type(self.state, at) } {
            ffi::LUA_TNIL => Kind::Nil,
            ffi::LUA_TBOOLEAN => Kind::Boolean,
            ffi::LUA_TLIGHTUSERDATA => Kind::LightUserdata,
            ffi::LUA_TNUMBER => Kind::Number,
            ffi::LUA_TSTRING => Kind::String,
            ffi::LUA_TTABLE => Kind::Table,
            ffi::LUA_TFUNCTION => Kind::Function,
            ffi::LUA_TUSERDATA => Kind::Userdata,
            ffi::LUA_TTHREAD => Kind::Thread,
            _ => Kind::None,
        }
    }

    /// Returns the bytes of a string; `None` for all other types, including numbers.
    pub(crate) fn bytes(&self, at: i32) -> Option<&[u8]> {
        if self.kind(at) != Kind::String {
            return None;
        }
        let mut len = 0;
        // SAFETY: the value is a string, so nothing is converted. The string lives while it is on
        // the stack, from which nothing is removed while `self` is borrowed.
        unsafe {
            let start = ffi::lua_tolstring(self.state, at, &raw mut len);
            Some(slice::from_raw_parts(start.cast(), len))
        }
    }

    /// Returns a number; `None` for all other types, including strings.
    pub(crate) fn number(&self, at: i32) -> Option<f64> {
        (self.kind(at) == Kind::Number).then(|| self.to_number(at))
    }

    /// Returns a number, converting strings as Lua's arithmetic does; 0 for other types.
    pub(crate) fn to_number(&self, at: i32) -> f64 {
        self.check(at);
        // SAFETY: the conversion does not change the value.
        unsafe { ffi::lua_tonumber(self.state, at) }
    }

    /// Returns whether a value is a number, or a string that Lua converts to one.
    pub(crate) fn is_numeric(&self, at: i32) -> bool {
        self.check(at);
        // SAFETY: the state is valid.
        unsafe { ffi::lua_isnumber(self.state, at) != 0 }
    }

    /// Returns false for nil and false, and true for all other values.
    pub(crate) fn boolean(&self, at: i32) -> bool {
        self.check(at);
        // SAFETY: the state is valid.
        unsafe { ffi::lua_toboolean(self.state, at) != 0 }
    }

    /// Returns the address in a light userdata.
    pub(crate) fn light_userdata(&self, at: i32) -> Option<usize> {
        (self.kind(at) == Kind::LightUserdata).then(|| {
            // SAFETY: the value is a userdata.
            unsafe { ffi::lua_touserdata(self.state, at) as usize }
        })
    }

    /// Returns the length of a table as Lua's operator `#` computes it, without metamethods.
    pub(crate) fn raw_len(&self, at: i32) -> usize {
        self.check(at);
        // SAFETY: the state is valid.
        unsafe { ffi::lua_objlen(self.state, at) }
    }

    /// Pushes nil.
    pub(crate) fn push_nil(&self) {
        self.check_room(1);
        // SAFETY: the caller has made room.
        unsafe { ffi::lua_pushnil(self.state) }
    }

    /// Pushes a boolean.
    pub(crate) fn push_boolean(&self, value: bool) {
        self.check_room(1);
        // SAFETY: the caller has made room.
        unsafe { ffi::lua_pushboolean(self.state, value.into()) }
    }

    /// Pushes a number.
    pub(crate) fn push_number(&self, value: f64) {
        self.check_room(1);
        // SAFETY: the caller has made room.
        unsafe { ffi::lua_pushnumber(self.state, value) }
    }

    /// Pushes a string.
    pub(crate) fn push_bytes(&self, bytes: &[u8]) {
        self.check_room(1);
        let start = bytes.as_ptr().cast::<c_char>();
        // SAFETY: the caller has made room; Lua copies the bytes; the allocator does not fail.
        unsafe { ffi::lua_pushlstring_(self.state, start, bytes.len()) }
    }

    /// Pushes a light userdata: an address, which scripts can only compare.
    pub(crate) fn push_light_userdata(&self, address: usize) {
        self.check_room(1);
        // SAFETY: the caller has made room; no code dereferences the address.
        unsafe { ffi::lua_pushlightuserdata(self.state, address as *mut _) }
    }

    /// Pushes a copy of a value.
    pub(crate) fn push_value(&self, at: i32) {
        self.check(at);
        self.check_room(1);
        // SAFETY: the caller has made room.
        unsafe { ffi::lua_pushvalue(self.state, at) }
    }

    /// Pushes a new table. `array` and `hash` are the numbers of elements for which its array part
    /// and its hash part have room.
    pub(crate) fn push_table(&self, array: usize, hash: usize) {
        self.check_room(1);
        // For larger numbers, Lua would raise an error. The table grows when elements are added.
        const LARGEST: usize = 1 << 24;
        let [array, hash] = [array, hash].map(|n| n.min(LARGEST) as c_int);
        // SAFETY: the caller has made room; the allocator does not fail.
        unsafe { ffi::lua_createtable(self.state, array, hash) }
    }

    /// Moves the value at the top to index `at`. The values from `at` on move up by one.
    pub(crate) fn insert(&mut self, at: i32) {
        self.check(at);
        // SAFETY: the index is valid.
        unsafe { ffi::lua_insert(self.state, at) }
    }

    /// Pops a value and stores it at index `at`, in place of the value there.
    pub(crate) fn replace(&mut self, at: i32) {
        self.check(at);
        // SAFETY: the index is valid, and not a pseudo-index.
        unsafe { ffi::lua_replace(self.state, at) }
    }

    /// Pops a key and pushes its value in the table at `at`, without metamethods.
    pub(crate) fn raw_get(&mut self, at: i32) {
        self.assert_table(at);
        // SAFETY: the value is a table; a look-up in it does not raise.
        unsafe { ffi::lua_rawget_(self.state, at) }
    }

    /// Pushes element `n` of the table at `at`, without metamethods.
    pub(crate) fn raw_get_index(&self, at: i32, n: i32) {
        self.assert_table(at);
        self.check_room(1);
        // SAFETY: as above, and the caller has made room.
        unsafe { ffi::lua_rawgeti_(self.state, at, n) }
    }

    /// Pushes the value under a string in the table at `at`, without metamethods.
    pub(crate) fn raw_get_field(&mut self, at: i32, name: &[u8]) {
        self.push_bytes(name);
        self.raw_get(if at < 0 && at > ffi::LUA_REGISTRYINDEX {
            at - 1
        } else {
            at
        });
    }

    /// Pops a value and the key below it, and sets them in the table at `at`, without metamethods.
    ///
    /// # Panics
    /// If the key is nil or NaN.
    pub(crate) fn raw_set(&mut self, at: i32) {
        self.assert_table(at);
        let key = self.kind(-2);
        assert!(key != Kind::Nil && !self.number(-2).is_some_and(f64::is_nan));
        // SAFETY: the value is a table of the caller, the key is valid, the allocator does not
        // fail.
        unsafe { ffi::lua_rawset(self.state, at) }
    }

    /// Pops a value and sets it as element `n` of the table at `at`.
    pub(crate) fn raw_set_index(&mut self, at: i32, n: i32) {
        self.assert_table(at);
        // SAFETY: as above.
        unsafe { ffi::lua_rawseti_(self.state, at, n) }
    }

    /// Pops a value and sets it under a string in the table at `at`.
    pub(crate) fn raw_set_field(&mut self, at: i32, name: &[u8]) {
        self.push_bytes(name);
        self.insert(-2);
        self.raw_set(if at < 0 && at > ffi::LUA_REGISTRYINDEX {
            at - 1
        } else {
            at
        });
    }

    /// Pops a key, and pushes the next key of the table at `at` and its value. At the end, pushes
    /// nothing and returns false. An iteration starts with the key nil, and the table must not
    /// change during the iteration.
    pub(crate) fn next(&mut self, at: i32) -> bool {
        self.assert_table(at);
        self.check_room(1);
        // SAFETY: the key comes from the table, which has not changed, so it is found.
        unsafe { ffi::lua_next(self.state, at) != 0 }
    }

    /// Returns whether two values are the same, without metamethods.
    pub(crate) fn raw_equal(&self, a: i32, b: i32) -> bool {
        self.check(a);
        self.check(b);
        // SAFETY: the indices are valid.
        unsafe { ffi::lua_rawequal(self.state, a, b) != 0 }
    }

    /// Pops a table and makes it the metatable of the table at `at`.
    pub(crate) fn set_metatable(&mut self, at: i32) {
        self.check(at);
        self.assert_table(-1);
        // SAFETY: the popped value is a table, and the table at `at` is not read-only.
        unsafe {
            ffi::lua_setmetatable(self.state, at);
        }
    }

    /// Pushes the metatable of the value at `at`. If it has none, pushes nothing and returns false.
    pub(crate) fn push_metatable(&self, at: i32) -> bool {
        self.check(at);
        self.check_room(1);
        // SAFETY: the index is valid.
        unsafe { ffi::lua_getmetatable(self.state, at) != 0 }
    }

    /// Makes the table at `at` read-only if `on` is true, otherwise writable.
    pub(crate) fn set_read_only(&mut self, at: i32, on: bool) {
        self.assert_table(at);
        // SAFETY: the index is valid.
        unsafe { punctual_setreadonly(self.state, at, on.into()) }
    }

    /// Returns whether the table at `at` is read-only.
    pub(crate) fn is_read_only(&self, at: i32) -> bool {
        self.assert_table(at);
        // SAFETY: the index is valid.
        unsafe { punctual_isreadonly(self.state, at) != 0 }
    }

    /// Returns the address of a table, a function, a thread or a userdata.
    pub(crate) fn address(&self, at: i32) -> *const c_void {
        self.check(at);
        // SAFETY: the index is valid.
        unsafe { ffi::lua_topointer(self.state, at) }
    }

    /// Returns the text of a number as Lua writes it. The number on the stack does not change.
    fn number_text(&self, at: i32) -> Vec<u8> {
        self.check_room(1);
        let mut len = 0;
        // SAFETY: there is room for one more value. The conversion turns the pushed copy into a
        // string, whose bytes are copied before it is popped.
        unsafe {
            ffi::lua_pushvalue(self.state, at);
            let start = ffi::lua_tolstring(self.state, -1, &raw mut len);
            let text = slice::from_raw_parts(start.cast(), len).to_vec();
            ffi::lua_settop(self.state, -2);
            text
        }
    }

    fn assert_table(&self, at: i32) {
        assert_eq!(self.kind(at), Kind::Table);
    }
}
