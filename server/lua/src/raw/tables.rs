//! Operations on tables that are faster than the general functions of Lua's API, by the functions
//! in `lua/punctual.c`.

use std::ffi::c_int;

use mlua_sys as ffi;

use super::Stack;

unsafe extern "C-unwind" {
    fn punctual_setelement(state: *mut ffi::lua_State) -> c_int;
    fn punctual_append(state: *mut ffi::lua_State, n: c_int) -> c_int;
    fn punctual_next(state: *mut ffi::lua_State, at: c_int) -> c_int;
    fn punctual_arraykeys(state: *mut ffi::lua_State, max: *mut c_int, items: *mut c_int) -> c_int;
}

/// A position in a table, in the order of `next`.
#[derive(Clone, Copy, Default)]
pub(crate) struct Place(c_int);

impl Stack<'_> {
    /// Pops a value and the key below it, which is a string, and sets them in the table below them.
    pub(crate) fn set_element(&mut self) {
        // SAFETY: the function checks the values; the allocator does not fail.
        let done = unsafe { punctual_setelement(self.state) };
        assert!(done != 0, "a table, a string and a value");
    }

    /// Pops a value and sets it as element `n` of the table below it, which has the elements 1 to
    /// `n - 1`.
    pub(crate) fn append(&mut self, n: i32) {
        // SAFETY: as above.
        let done = unsafe { punctual_append(self.state, n) };
        assert!(done != 0, "a table and a value");
    }

    /// Does the same as [`Stack::next`] for the table below the key at the top. It takes the
    /// position from `place`, so it does not search for the key.
    pub(crate) fn next_pair(&mut self, place: &mut Place) -> bool {
        self.check_room(1);
        // SAFETY: the caller has made room; the function checks the values, and a place beyond the
        // table is its end.
        let next = unsafe { punctual_next(self.state, place.0) };
        assert!(next >= 0, "a table and a key");
        place.0 = next;
        next > 0
    }

    /// Returns the greatest key and the number of elements of the table at the top, or `None`
    /// unless all keys are integers above 0. A key above [`i32::MAX`] sets the greatest key so far
    /// to [`i32::MIN`]. **O(n)** in the slots of the table.
    pub(crate) fn array_keys(&self) -> Option<(i32, i32)> {
        let (mut max, mut items) = (0, 0);
        // SAFETY: the function checks the value and writes both numbers.
        let array = unsafe { punctual_arraykeys(self.state, &raw mut max, &raw mut items) };
        (array != 0).then_some((max, items))
    }
}
