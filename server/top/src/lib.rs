//! `punctual top`: shows the activity of a Redis-compatible server, and its next timers and jobs.
//! It uses an ordinary client connection.
//!
//! A [`Sample`] holds the replies to a few commands. If the server refuses a command, the command's
//! pane shows the reason. `panes` turns the last two samples into text, which `screen` draws and
//! `--once` prints. `app` has the threads, and `terminal` writes the changed lines.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod app;
mod connection;
mod figures;
mod info;
mod options;
mod panes;
mod sample;
mod screen;
mod shards;
mod terminal;
mod tls;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;

pub use connection::{Connection, Target};
pub use options::Options;
pub use sample::Sample;
pub use screen::{Line, State, View, draw};

/// Runs the program. `args` are its arguments without the program's name.
pub fn run(args: impl Iterator<Item = OsString>) -> ExitCode {
    let options = match Options::read(args) {
        Ok(options) => options,
        Err(error) => {
            let hint = "try 'punctual top --help'";
            let _ = writeln!(io::stderr(), "punctual top: {error}; {hint}");
            return ExitCode::from(2);
        }
    };
    if options.help {
        print(options::HELP);
        return ExitCode::SUCCESS;
    }
    let address = options.address();
    match show(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "punctual top: {address}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn show(options: Options) -> io::Result<()> {
    let (once, interval) = (options.once, options.interval);
    let target = Target::new(options)?;
    if !once {
        return app::live(target, interval);
    }
    let (now, before) = (&Sample::take(&mut target.connect()?)?, None);
    print(&panes::Samples { now, before }.page());
    Ok(())
}

/// Writes to standard output. Ignores a closed pipe, as in `punctual top --once | head -1`.
fn print(text: &str) {
    let _ = io::stdout().write_all(text.as_bytes());
}
