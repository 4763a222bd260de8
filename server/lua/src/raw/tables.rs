//! Tables without the price of Lua's general functions: by the additions of `lua/punctual.c`.

use std::ffi::c_int;

use mlua_sys as ffi;

use super::Stack;

unsafe extern "C-unwind" {
    fn punctual_setelement(state: *mut ffi::lua_State) -> c_int;
    fn punctual_append(state: *mut ffi::lua_State, n: c_int) -> c_int;
    fn punctual_next(state: *mut ffi::lua_State, at: c_int) -> c_int;
    fn punctual_arraykeys(state: *mut ffi::lua_State, max: *mut c_int, items: *mut c_int) -> c_int;
}

/// A place in a table, in the order of `next`.
#[derive(Clone, Copy, Default)]
pub(crate) struct Place(c_int);

impl Stack<'_> {
    /// Pops a value and a key below it, a string, and sets it in the table below them.
    pub(crate) fn set_element(&mut self) {
        // SAFETY: the function checks the values; the allocator does not fail.
        let done = unsafe { punctual_setelement(self.state) };
        assert!(done != 0, "a table, a string and a value");
    }

    /// Pops a value and sets it as element `n` of the table below it, which has the `n - 1`
    /// elements before.
    pub(crate) fn append(&mut self, n: i32) {
        // SAFETY: as above.
        let done = unsafe { punctual_append(self.state, n) };
        assert!(done != 0, "a table and a value");
    }

    /// As [`Stack::next`], for the table below the key at the top: with a place in the table, of
    /// which the key is not asked for.
    pub(crate) fn next_pair(&mut self, place: &mut Place) -> bool {
        self.check_room(1);
        // SAFETY: the caller has made room; the function checks the values, and a place beyond the
        // table is its end.
        let next = unsafe { punctual_next(self.state, place.0) };
        assert!(next >= 0, "a table and a key");
        place.0 = next;
        next > 0
    }

    /// Returns the greatest key and the number of elements of the table at the top, if all keys are
    /// integers above 0. A key beyond an `i32` counts as the least. O(n).
    pub(crate) fn array_keys(&self) -> Option<(i32, i32)> {
        let (mut max, mut items) = (0, 0);
        // SAFETY: the function checks the value and writes both numbers.
        let array = unsafe { punctual_arraykeys(self.state, &raw mut max, &raw mut items) };
        (array != 0).then_some((max, items))
    }
}
