//! Status codes, which most functions return.

use std::ffi::{CStr, c_char, c_int};

/// The result of a call. 0 is success. PUNCTUAL_IDLE, PUNCTUAL_BUSY and PUNCTUAL_STALE are ordinary
/// results; all other numbers are errors.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Success.
    Ok = 0,
    /// Nothing is due, or no timer is armed.
    Idle = 1,
    /// The budget is used up; more timers may be due.
    Busy = 2,
    /// The key's timer has fired or was removed, or the key was never valid.
    Stale = 3,
    /// A required pointer is NULL.
    Null = 4,
    /// The timer is armed. It must first be stopped or fire.
    Armed = 5,
    /// A callback called a function of the object that runs the callback, or would sleep on the
    /// virtual clock that runs it. This is not allowed.
    Reentered = 6,
    /// A defect of the library, which has printed a message to stderr. The only allowed use of the
    /// object is to free it.
    Panicked = 7,
    /// The timer belongs to the parent process, of which this process is a fork.
    Forked = 8,
}

impl Status {
    const ALL: [(Status, &'static CStr); 9] = [
        (Status::Ok, c"done"),
        (Status::Idle, c"nothing is due"),
        (Status::Busy, c"the budget is exhausted; call again"),
        (
            Status::Stale,
            c"the key is stale: its timer has fired or was removed",
        ),
        (Status::Null, c"a required pointer is NULL"),
        (
            Status::Armed,
            c"the timer is armed; must be stopped or expired",
        ),
        (
            Status::Reentered,
            c"a callback used the object that called it",
        ),
        (
            Status::Panicked,
            c"a defect of the library, described on stderr; only free the object",
        ),
        (
            Status::Forked,
            c"this process is a fork, and has no timers on the real clock",
        ),
    ];
}

/// Returns the description of a status as a static string, which is never NULL. Do not free it.
/// Accepts any number.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_strerror(status: c_int) -> *const c_char {
    Status::ALL
        .iter()
        .find(|(known, _)| *known as c_int == status)
        .map_or(c"unknown status", |(_, words)| *words)
        .as_ptr()
}

#[cfg(test)]
mod tests {
    use super::{Status, punctual_strerror};
    use std::ffi::CStr;

    #[test]
    fn every_status_has_a_description_and_no_other_number_has() {
        let words = |status| {
            // SAFETY: the function returns C strings with static lifetime.
            unsafe { CStr::from_ptr(punctual_strerror(status)) }.to_bytes()
        };
        for (number, (status, text)) in Status::ALL.iter().enumerate() {
            assert_eq!(*status as usize, number);
            assert_eq!(words(number as i32), text.to_bytes());
        }
        assert_eq!(words(-1), b"unknown status");
        assert_eq!(words(Status::ALL.len() as i32), words(-1));
    }
}
