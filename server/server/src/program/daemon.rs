//! `daemonize yes`: the server continues in a child process in the background.
//!
//! As in Redis, the parent exits with status 0 after it has read the configuration; later errors
//! are in the log file.

#![allow(unsafe_code)]

use std::fs::OpenOptions;
use std::io;

use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

/// Default of `pidfile` if `daemonize` is on.
pub(crate) const PIDFILE: &str = "/var/run/redis.pid";

/// Continues in a child process, in a session of its own and with `/dev/null` as standard input,
/// output and error. The calling process exits with status 0.
///
/// # Errors
/// The process has more than one thread, or the system refuses a fork.
pub(crate) fn detach() -> io::Result<()> {
    if threads()? != 1 {
        return Err(io::Error::other("the process has other threads"));
    }
    // SAFETY: a fork copies only the calling thread. It is the only thread, as counted above, and
    // no other thread can start meanwhile. So no missing thread of the child holds a lock or has
    // half-written memory, and the child may do everything that the parent may.
    match unsafe { libc::fork() } {
        -1 => return Err(io::Error::last_os_error()),
        0 => {}
        _ => std::process::exit(0),
    }
    // `setsid` fails only for the leader of a process group, which a new child is not.
    let _ = rustix::process::setsid();
    // Best effort, as in Redis: without /dev/null the server still serves.
    if let Ok(null) = OpenOptions::new().read(true).write(true).open("/dev/null") {
        let _ = dup2_stdin(&null);
        let _ = dup2_stdout(&null);
        let _ = dup2_stderr(&null);
    }
    Ok(())
}

/// Returns the number of threads of this process.
#[cfg(target_os = "linux")]
fn threads() -> io::Result<usize> {
    Ok(std::fs::read_dir("/proc/self/task")?.count())
}

#[cfg(not(target_os = "linux"))]
fn threads() -> io::Result<usize> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

#[cfg(test)]
mod tests {
    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_with_threads_is_not_forked() {
        let (end, wait) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || wait.recv());
        let error = super::detach().unwrap_err();
        assert_eq!(error.to_string(), "the process has other threads");
        drop(end);
        let _ = other.join();
    }
}
