//! The libraries of scripts that are not Lua's own.

use crate::raw::Stack;

/// Adds the libraries to the table at the top of the stack.
pub(crate) fn fill(_stack: &mut Stack<'_>) {}
