//! The libraries of scripts that are not Lua's own.

pub(crate) mod cjson;

use crate::raw::Stack;

/// Adds the libraries to the table at the top of the stack.
pub(crate) fn fill(stack: &mut Stack<'_>) {
    cjson::push(stack);
    stack.raw_set_field(-2, b"cjson");
}
