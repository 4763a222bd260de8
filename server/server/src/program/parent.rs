//! `supervised parent`: the server belongs to the program that started it, such as a test.
//!
//! That program holds the other end of a pipe that is the server's standard input. The system
//! closes the pipe when the program ends in any way, also by SIGKILL, and the server then shuts
//! down as at SIGTERM. A pipe needs no polling, and unlike Linux's signal at the parent's death it
//! works on every system and does not depend on the thread that started the server.

use std::io::{self, Read as _, Write as _};

use rustix::process::{Signal, getpid, kill_process};

use crate::log::{self, Logger};

/// Starts a thread that sends this process SIGTERM at the end of standard input. The thread reads
/// and ignores other input.
///
/// # Errors
/// The system refuses the thread.
pub(super) fn watch(logger: &Logger) -> io::Result<()> {
    let logger = logger.clone();
    std::thread::Builder::new()
        .name("punctual-parent".into())
        .spawn(move || {
            let mut input = io::stdin().lock();
            let mut ignored = [0; 256];
            // If `read` fails, no end can be seen, so the server must not stay.
            while match input.read(&mut ignored) {
                Ok(count) => count > 0,
                Err(error) => error.kind() == io::ErrorKind::Interrupted,
            } {}
            log::warning!(logger, "The parent process has closed standard input.");
            // A process may always send a signal to itself.
            let _ = kill_process(getpid(), Signal::TERM);
        })?;
    Ok(())
}

/// Writes the line `ready port=N` to standard output, even if the log goes elsewhere. The port is 0
/// if the server has no TCP listener without encryption.
pub(super) fn announce(port: u16) {
    // The parent may not want the line and may have closed the pipe.
    let _ = writeln!(io::stdout(), "ready port={port}");
}
