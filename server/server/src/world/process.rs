//! Measurements of this process, and the pid file. The figures of memory are from Linux's `/proc`;
//! on other systems they are 0 or `None`.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike as _};

use crate::log::{self, Logger};

/// The pid file, which is removed on drop.
pub(crate) struct PidFile {
    path: PathBuf,
    logger: Logger,
}

impl PidFile {
    /// Writes the process id. A failure only logs a warning, as in Redis.
    pub(crate) fn write(path: &Path, logger: &Logger) -> Option<Self> {
        if let Err(e) = fs::write(path, format!("{}\n", std::process::id())) {
            log::warning!(logger, "Failed to write PID file: {e}");
            return None;
        }
        Some(Self {
            path: path.to_owned(),
            logger: logger.clone(),
        })
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if fs::remove_file(&self.path).is_ok() {
            log::notice!(self.logger, "Removing the pid file.");
        }
    }
}

/// An exclusive lock of a file, which ends with this value or with the process.
pub(crate) struct FileLock {
    _file: fs::File,
}

impl FileLock {
    /// Creates the file if necessary, and locks it. Returns `None` if it is locked already.
    pub(crate) fn take(path: &Path) -> io::Result<Option<Self>> {
        let mut options = fs::OpenOptions::new();
        let file = options.create(true).append(true).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }
}

/// Replaces this process by a new run of the program with the same arguments. Open files and
/// sockets are closed, except the standard streams. Nothing is dropped or flushed. Returns only if
/// this fails.
pub(crate) fn run_anew() -> io::Error {
    let mut args = std::env::args_os();
    let name = args.next().unwrap_or_default();
    match std::env::current_exe() {
        Ok(path) => Command::new(path).arg0(name).args(args).exec(),
        Err(error) => error,
    }
}

/// Returns the name and version of the kernel, and the machine's architecture.
pub(crate) fn os() -> String {
    let name = rustix::system::uname();
    format!(
        "{} {} {}",
        name.sysname().to_string_lossy(),
        name.release().to_string_lossy(),
        name.machine().to_string_lossy()
    )
}

/// Returns the path of the running program.
pub(crate) fn executable() -> String {
    std::env::current_exe().map_or(String::new(), |p| p.display().to_string())
}

/// Returns the current and the peak number of resident bytes.
pub(crate) fn memory() -> (u64, u64) {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = |name: &str| field_kib(&status, name).unwrap_or(0) * 1024;
    (kib("VmRSS:"), kib("VmHWM:"))
}

/// Returns the number of resident bytes not backed by a file, or `None` if the system does not
/// report it.
pub(crate) fn anonymous_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    Some(field_kib(&status, "RssAnon:")? * 1024)
}

/// Returns the machine's memory in bytes.
pub(crate) fn total_memory() -> u64 {
    let info = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    field_kib(&info, "MemTotal:").unwrap_or(0) * 1024
}

fn field_kib(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|l| l.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Returns the system's limit of pending connections, or `None` if the system does not report it.
pub(crate) fn listen_backlog_max() -> Option<u32> {
    let text = fs::read_to_string("/proc/sys/net/core/somaxconn").ok()?;
    text.trim().parse().ok()
}

/// Returns the user and the system CPU time of all threads, in seconds.
pub(crate) fn cpu_seconds() -> (f64, f64) {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else {
        return (0.0, 0.0);
    };
    let seconds = |time: TimeVal| time.num_microseconds() as f64 / 1e6;
    (seconds(usage.user_time()), seconds(usage.system_time()))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #[test]
    fn figures_are_those_of_a_running_process() {
        let (rss, peak) = super::memory();
        let anonymous = super::anonymous_memory().unwrap();
        assert!((1..rss).contains(&anonymous));
        assert!(rss > 0 && peak >= rss && super::total_memory() > rss);
        assert!(super::os().contains("Linux"));
        assert!(!super::executable().is_empty());
    }
}
