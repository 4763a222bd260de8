//! What functions answer that have more to say than a value.

use std::ffi::{CStr, c_char, c_int};

/// What a call came to. 0 is success; the others say why not, and some are everyday answers.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Done.
    Ok = 0,
    /// Nothing is due, or there is nothing of the kind that was asked for.
    Idle = 1,
    /// The budget is used up; there may be more to do now.
    Busy = 2,
    /// The key's timer has fired or was removed, or the key was never one.
    Stale = 3,
    /// A pointer that must not be NULL was.
    Null = 4,
    /// The timer is armed; it must be stopped or expired.
    Armed = 5,
    /// The object was used by one of its own callbacks, which must not.
    Reentered = 6,
    /// A defect of the library, whose message went to stderr. Free the object and do nothing else with it.
    Panicked = 7,
    /// The timer is that of the process that this one is a fork of.
    Forked = 8,
}

impl Status {
    const ALL: [(Status, &'static CStr); 9] = [
        (Status::Ok, c"done"),
        (Status::Idle, c"nothing is due"),
        (Status::Busy, c"the budget is used up; call again"),
        (
            Status::Stale,
            c"the key is stale: its timer has fired or was removed",
        ),
        (Status::Null, c"a pointer that must not be NULL is NULL"),
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

/// A status in words: a static string, never NULL, not to be freed. Any number may be asked for.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_strerror(status: c_int) -> *const c_char {
    Status::ALL
        .iter()
        .find(|(known, _)| *known as c_int == status)
        .map_or(c"no status of this library", |(_, words)| *words)
        .as_ptr()
}

#[cfg(test)]
mod tests {
    use super::{Status, punctual_strerror};
    use std::ffi::CStr;

    #[test]
    fn every_status_has_its_words_and_no_other_number_has() {
        let words = |status| {
            // SAFETY: the function answers with C strings that live as long as the program.
            unsafe { CStr::from_ptr(punctual_strerror(status)) }.to_bytes()
        };
        for (number, (status, text)) in Status::ALL.iter().enumerate() {
            assert_eq!(*status as usize, number);
            assert_eq!(words(number as i32), text.to_bytes());
        }
        assert_eq!(words(-1), b"no status of this library");
        assert_eq!(words(Status::ALL.len() as i32), words(-1));
    }
}
