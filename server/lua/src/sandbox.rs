//! The global variables of scripts.

use crate::api;
use crate::errors;
use crate::libs;
use crate::random;
use crate::raw::arguments::c_string;
use crate::raw::function::{Native, Raise};
use crate::raw::state::{Library, State};
use crate::raw::{Kind, Stack};

/// Functions of Lua's base library that scripts do not have. They read files, write to standard
/// output, could break the sandbox, or need libraries that are missing.
const WITHHELD: &[&str] = &[
    "dofile", "loadfile", "newproxy", "print", "getfenv", "setfenv", "module", "require",
];

/// Fills the globals of a new state.
pub(crate) fn fill(state: &mut State, version: &str) {
    for library in [
        Library::Base,
        Library::Table,
        Library::String,
        Library::Math,
        Library::Os,
    ] {
        state.open(library);
    }
    let stack = &mut state.stack();
    stack.push_globals();
    for name in WITHHELD {
        stack.push_nil();
        stack.raw_set_field(-2, name.as_bytes());
    }
    stack.push_library(api::FUNCTIONS);
    for (name, value) in api::NUMBERS {
        stack.push_number(*value);
        stack.raw_set_field(-2, name.as_bytes());
    }
    stack.push_bytes(version.as_bytes());
    stack.raw_set_field(-2, b"REDIS_VERSION");
    // The number has one byte for each part of the version.
    let number = |before: u32, part: &str| before << 8 | part.parse::<u32>().unwrap_or(0);
    stack.push_number(version.split('.').fold(0, number).into());
    stack.raw_set_field(-2, b"REDIS_VERSION_NUM");
    stack.raw_set_field(-2, b"redis");
    libs::fill(stack);
    stack.push_function(errors::describe_error);
    stack.raw_set_field(-2, b"__redis__err__handler");
    stack.raw_get_field(-1, b"math");
    for (name, function) in [
        ("random", random::random as Native),
        ("randomseed", random::random_seed),
    ] {
        stack.push_function(function);
        stack.raw_set_field(-2, name.as_bytes());
    }
    stack.pop(1);
    refuse_missing(stack);
    protect(stack, 0);
    stack.pop(1);
    // All strings share a metatable, which must be read-only as well.
    stack.push_bytes(b"");
    if stack.push_metatable(-1) {
        stack.set_read_only(-1, true);
        stack.pop(1);
    }
    stack.pop(1);
}

/// Makes the read of a missing field of the table at the top an error.
pub(crate) fn refuse_missing(stack: &mut Stack<'_>) {
    stack.push_library(&[("__index", missing_global)]);
    stack.set_read_only(-1, true);
    stack.set_metatable(-2);
}

/// Makes the table at the top, its metatable and all tables in it read-only.
fn protect(stack: &mut Stack<'_>, depth: u32) {
    const DEPTH: u32 = 4;
    stack.set_read_only(-1, true);
    if stack.push_metatable(-1) {
        stack.set_read_only(-1, true);
        stack.pop(1);
    }
    stack.push_nil();
    while stack.next(-2) {
        // The globals contain themselves.
        if stack.kind(-1) == Kind::Table && depth < DEPTH && !stack.raw_equal(-1, -3) {
            protect(stack, depth + 1);
        }
        stack.pop(1);
    }
}

/// The metamethod `__index` of the globals, and of the table `redis` while a library is loaded.
fn missing_global(stack: &mut Stack<'_>) -> Result<i32, Raise> {
    if stack.top() != 2 {
        return Err(Raise::message(
            "Wrong number of arguments to luaProtectedTableError",
        ));
    }
    let Some(name) = stack.coerced(2) else {
        return Err(Raise::message(
            "Second argument to luaProtectedTableError must be a string or number",
        ));
    };
    let mut text = b"Script attempted to access nonexistent global variable '".to_vec();
    text.extend_from_slice(c_string(&name));
    text.push(b'\'');
    Err(Raise::Message(text))
}
