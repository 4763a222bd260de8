//! Printing to standard output, which may be a closed pipe, as in `punctual-bench ... | head`.

use std::fmt;
use std::io::{self, Write as _};

use signal_hook::consts::SIGPIPE;

use crate::cleanup;

/// Prints a line to standard output, like `println!`. If the pipe is closed, ends the run.
macro_rules! say {
    () => {
        $crate::output::line(format_args!(""))
    };
    ($($text:tt)+) => {
        $crate::output::line(format_args!($($text)+))
    };
}

pub(crate) fn line(text: fmt::Arguments<'_>) {
    if writeln!(io::stdout(), "{text}").is_err() {
        cleanup::end(128 + SIGPIPE);
    }
}

/// Prints a line to standard error, if it is still open.
pub(crate) fn print_error(text: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{text}");
}
