//! Status codes, and the message of each thread's last error.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::fmt::Display;

use punctual_c_boundary::guarded;
use punctual_server::{CallError, MoveError, StartError};

/// The result of a call. 0 is success, and PUNCTUAL_SERVER_IDLE is an ordinary result; all other
/// numbers are errors, and punctual_server_error() describes them.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Success. An error that a command replies is success, too: the reply has the kind
    /// PUNCTUAL_SERVER_KIND_ERROR.
    Ok = 0,
    /// There was no message within the time.
    Idle = 1,
    /// A required pointer is NULL.
    Null = 2,
    /// An option or an argument of a start is invalid.
    Option = 3,
    /// The server cannot start: an address is in use, a file cannot be loaded, or the system
    /// refuses a resource.
    Start = 4,
    /// The server has stopped, perhaps before it ran the command.
    Stopped = 5,
    /// The server has closed the client: by QUIT or CLIENT KILL, or because the client did not take
    /// its messages.
    Closed = 6,
    /// The server has as many clients as the option `maxclients` allows.
    TooManyClients = 7,
    /// The command cannot be called: it has no name, or it changes the form of later replies
    /// (HELLO, RESET, CLIENT REPLY, MONITOR, SYNC, PSYNC, REPLCONF), or its reply is nested more
    /// than 128 levels deep.
    Command = 8,
    /// The clock cannot be moved: it is not virtual, the time is out of range, or timers keep
    /// creating timers that are due at once.
    Clock = 9,
    /// The server belongs to the parent process, of which this process is a fork.
    Forked = 10,
    /// A defect of the library, which has printed a message to stderr. The only allowed use of the
    /// object is to free it.
    Panicked = 11,
}

/// A status with its message.
pub(crate) struct Failure {
    status: Status,
    message: String,
}

impl Failure {
    pub(crate) fn new(status: Status, message: impl Display) -> Self {
        Self {
            status,
            message: message.to_string(),
        }
    }

    pub(crate) fn null(pointer: &str) -> Self {
        Self::new(Status::Null, format_args!("`{pointer}` is NULL"))
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        let status = match error {
            CallError::Stopped => Status::Stopped,
            CallError::Closed => Status::Closed,
            CallError::TooManyClients => Status::TooManyClients,
            _ => Status::Command,
        };
        Self::new(status, error)
    }
}

impl From<MoveError> for Failure {
    fn from(error: MoveError) -> Self {
        let status = match error {
            MoveError::Stopped => Status::Stopped,
            _ => Status::Clock,
        };
        Self::new(status, error)
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        let status = match error {
            StartError::Config(_) => Status::Option,
            _ => Status::Start,
        };
        Self::new(status, error)
    }
}

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

/// Runs `body` and returns its status. Converts panics, and keeps the message of an error.
pub(crate) fn answer(body: impl FnOnce() -> Result<Status, Failure>) -> Status {
    let panicked = || {
        let message = "a defect of the library, described on stderr; only free the object";
        Err(Failure::new(Status::Panicked, message))
    };
    let result = guarded(None, || Some(body())).unwrap_or_else(panicked);
    result.unwrap_or_else(|Failure { status, message }| {
        let bytes = message.replace('\0', "\u{fffd}").into_bytes();
        // A thread that ends has no message any more.
        let _ = LAST_ERROR.try_with(|last| {
            last.replace(CString::new(bytes).unwrap_or_default());
        });
        status
    })
}

/// Returns the message of this thread's last error, or an empty string before the first error. The
/// message is valid until the next error of this thread, or until the thread ends. Never returns
/// NULL. Do not free it.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_server_error() -> *const c_char {
    LAST_ERROR
        .try_with(|last| last.borrow().as_ptr())
        .unwrap_or(c"".as_ptr())
}

#[cfg(test)]
mod tests {
    use super::{Failure, Status, answer, punctual_server_error};
    use std::ffi::CStr;

    fn message() -> String {
        // SAFETY: the message is valid until the next error of this thread.
        let message = unsafe { CStr::from_ptr(punctual_server_error()) };
        message.to_string_lossy().into_owned()
    }

    #[test]
    fn errors_and_panics_leave_a_message_in_their_thread() {
        assert_eq!(message(), "");
        let refused = answer(|| Err(Failure::new(Status::Option, "no\0body")));
        assert_eq!(
            (refused, message()),
            (Status::Option, "no\u{fffd}body".to_owned())
        );
        assert_eq!(
            answer(|| panic!("not across the boundary")),
            Status::Panicked
        );
        assert!(message().starts_with("a defect of the library"));
        assert_eq!(answer(|| Ok(Status::Idle)), Status::Idle);
        assert!(message().starts_with("a defect of the library"));
        let other = std::thread::spawn(message).join();
        assert_eq!(other.expect("the thread does not panic"), "");
    }
}
