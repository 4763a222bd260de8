//! CPU time of a process, from `/proc` (Linux; `None` on other systems).

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use rustix::process::Pid;
use rustix::time::{ClockId, clock_gettime};

/// User plus system CPU time of each live thread of a process since the thread's start, in
/// nanoseconds by thread id, from `task/*/schedstat`.
#[derive(Debug, Clone)]
pub(crate) struct CpuTime(HashMap<u64, u64>);

impl CpuTime {
    /// Returns the CPU time of all threads of `pid`; `None` if it is not a process on this machine.
    ///
    /// The kernel updates a thread's CPU time when the thread goes to sleep, so call this function
    /// while the server is idle.
    pub(crate) fn of(pid: Pid) -> Option<Self> {
        let mut threads = HashMap::new();
        let tasks = fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())).ok()?;
        for entry in tasks.flatten() {
            let thread = entry.file_name().to_str()?.parse().ok()?;
            // A thread may end between the listing and the reading.
            let Ok(text) = fs::read_to_string(entry.path().join("schedstat")) else {
                continue;
            };
            threads.insert(thread, text.split_ascii_whitespace().next()?.parse().ok()?);
        }
        (!threads.is_empty()).then_some(Self(threads))
    }

    /// Returns the CPU time used between `earlier` and this reading.
    pub(crate) fn since(&self, earlier: &Self) -> Duration {
        let then = |thread| earlier.0.get(thread).copied().unwrap_or(0);
        let used = self
            .0
            .iter()
            .map(|(thread, now)| now.saturating_sub(then(thread)));
        Duration::from_nanos(used.sum())
    }
}

/// Returns the CPU time of the calling thread ([`ClockId::ThreadCPUTime`]) or of this process
/// ([`ClockId::ProcessCPUTime`]).
pub(crate) fn own_cpu(clock: ClockId) -> Duration {
    Duration::try_from(clock_gettime(clock)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_came_later_count_in_full_and_those_gone_not_at_all() {
        let then = CpuTime(HashMap::from([(1, 100), (2, 500)]));
        let now = CpuTime(HashMap::from([(1, 150), (3, 7)]));
        assert_eq!(now.since(&then), Duration::from_nanos(57));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn reads_this_very_process() {
        let own = rustix::process::getpid();
        assert!(CpuTime::of(own).is_some());
    }
}
