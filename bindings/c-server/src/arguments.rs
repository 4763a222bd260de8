//! Arrays of the caller: arguments of commands, and options.

use std::ffi::{CStr, c_char};

use crate::status::Failure;

/// Returns the `count` values at `array`.
///
/// # Safety
///
/// `array` is NULL or has `count` values that do not change during `'a`.
pub(crate) unsafe fn array<'a, T>(
    array: *const T,
    count: usize,
    name: &str,
) -> Result<&'a [T], Failure> {
    match (array.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Failure::null(name)),
        // SAFETY: the caller guarantees the array, and it is not NULL.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(array, count) }),
    }
}

/// Returns the bytes of the arguments of a command.
///
/// # Safety
///
/// `args` is NULL or has `count` pointers. `lengths` is NULL or has `count` lengths. Each pointer
/// is NULL or has as many bytes as its length says; without lengths, it is a string. No argument
/// changes during `'a`.
pub(crate) unsafe fn command<'a>(
    count: usize,
    args: *const *const c_char,
    lengths: *const usize,
) -> Result<Vec<&'a [u8]>, Failure> {
    // SAFETY: the caller guarantees the array.
    let args = unsafe { array(args, count, "args") }?;
    if lengths.is_null() {
        let bytes = args.iter().map(|arg| {
            // SAFETY: the caller guarantees the strings.
            unsafe { string(*arg, "args[i]") }.map(CStr::to_bytes)
        });
        return bytes.collect();
    }
    // SAFETY: the caller guarantees the array.
    let lengths = unsafe { array(lengths, count, "lengths") }?;
    let bytes = args.iter().zip(lengths).map(|(arg, length)| {
        // SAFETY: the caller guarantees the bytes.
        unsafe { array(arg.cast(), *length, "args[i]") }
    });
    bytes.collect()
}

/// Returns the names and values of a NULL-terminated array of strings.
///
/// # Safety
///
/// `options` is NULL, or an array of strings that ends with NULL. No string changes during the
/// call.
pub(crate) unsafe fn options(
    mut options: *const *const c_char,
) -> Result<Vec<(String, String)>, Failure> {
    let mut strings = Vec::new();
    // SAFETY: the caller guarantees that the array has a NULL at its end.
    while !options.is_null() && !unsafe { *options }.is_null() {
        // SAFETY: the caller guarantees the strings.
        let text = unsafe { string(*options, "options[i]") }?;
        strings.push(text.to_string_lossy().into_owned());
        // SAFETY: this element is not the last one.
        options = unsafe { options.add(1) };
    }
    let mut pairs = Vec::with_capacity(strings.len() / 2);
    let mut strings = strings.into_iter();
    while let Some(name) = strings.next() {
        let missing = || Failure::new(crate::Status::Option, format_args!("`{name}` has no value"));
        let value = strings.next().ok_or_else(missing)?;
        pairs.push((name, value));
    }
    Ok(pairs)
}

/// # Safety
///
/// `text` is NULL or a string that does not change during `'a`.
unsafe fn string<'a>(text: *const c_char, name: &str) -> Result<&'a CStr, Failure> {
    if text.is_null() {
        return Err(Failure::null(name));
    }
    // SAFETY: the caller guarantees the string, and it is not NULL.
    Ok(unsafe { CStr::from_ptr(text) })
}
