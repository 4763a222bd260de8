//! `daemonize yes`: the server continues in a child process in the background.
//!
//! As in Redis, the parent process exits with status 0 when it has read the configuration. Later
//! errors are in the log file.

#![allow(unsafe_code)]

use std::fs::OpenOptions;
use std::io;

use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

/// Default of `pidfile` if `daemonize` is on.
pub(crate) const PIDFILE: &str = "/var/run/redis.pid";

/// Continues in a child process with a session of its own and `/dev/null` as standard input, output
/// and error. The calling process exits with status 0.
///
/// # Errors
/// The process has more than one thread, the system refuses a fork, or the system is not Linux.
pub(crate) fn detach() -> io::Result<()> {
    if threads()? != 1 {
        return Err(io::Error::other("the process has other threads"));
    }
    // SAFETY: a fork copies only the calling thread. The check above ensures that it is the only
    // thread, and no other thread can start in between. So no missing thread holds a lock or has
    // half-written memory in the child, and the child may call any function.
    match unsafe { libc::fork() } {
        -1 => return Err(io::Error::last_os_error()),
        0 => {}
        _ => std::process::exit(0),
    }
    // `setsid` fails only for the leader of a process group. A new child is no leader.
    let _ = rustix::process::setsid();
    // Errors are ignored, as in Redis: the server also works without /dev/null.
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
