//! CPU time and memory of a process, from `/proc` (Linux; `None` on other systems).

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use rustix::process::Pid;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// User plus system CPU time of a process since its start.
#[derive(Debug, Clone)]
pub(crate) enum CpuTime {
    /// Nanoseconds of each live thread, from `task/*/schedstat`.
    Threads(HashMap<u64, u64>),
    /// Hundredths of a second, from `stat`, on kernels without schedstat.
    Ticks(u64),
}

/// One tick of `/proc/*/stat`: USER_HZ, which Linux's ABI fixes at 100 on every common machine.
const TICK: Duration = Duration::from_millis(10);

impl CpuTime {
    /// Returns the CPU time of all threads of `pid`; `None` if it is not a process on this machine.
    ///
    /// The kernel updates a thread's CPU time when the thread goes to sleep, so call it while the server is idle.
    pub(crate) fn of(pid: Pid) -> Option<Self> {
        let pid = pid.as_raw_nonzero();
        let mut threads = HashMap::new();
        for entry in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
            let thread = entry.file_name().to_str()?.parse().ok()?;
            // A thread may end between the listing and the reading.
            let Ok(text) = fs::read_to_string(entry.path().join("schedstat")) else {
                continue;
            };
            let nanos = text.split_ascii_whitespace().next()?.parse().ok()?;
            threads.insert(thread, nanos);
        }
        if threads.values().any(|&nanos| nanos > 0) {
            return Some(Self::Threads(threads));
        }
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        parse_stat_ticks(&stat).map(Self::Ticks)
    }

    /// Returns the CPU time used between `earlier` and this reading.
    pub(crate) fn since(&self, earlier: &Self) -> Duration {
        match (self, earlier) {
            (Self::Threads(now), Self::Threads(then)) => {
                let used = now
                    .iter()
                    .map(|(thread, nanos)| {
                        nanos.saturating_sub(then.get(thread).copied().unwrap_or(0))
                    })
                    .sum();
                Duration::from_nanos(used)
            }
            (Self::Ticks(now), Self::Ticks(then)) => {
                TICK.saturating_mul(u32::try_from(now.saturating_sub(*then)).unwrap_or(u32::MAX))
            }
            // The source of the CPU time does not change during a run.
            _ => Duration::ZERO,
        }
    }
}

/// Returns utime + stime of a `/proc/PID/stat` line. The program's name is in parentheses and may itself contain spaces
/// and parentheses.
fn parse_stat_ticks(stat: &str) -> Option<u64> {
    let after_name = &stat[stat.rfind(')')? + 1..];
    let mut fields = after_name.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

/// Returns the resident memory of `pid` in bytes.
pub(crate) fn resident_bytes(pid: Pid) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1024)
}

/// Returns the number of threads of `pid`.
pub(crate) fn thread_count(pid: Pid) -> Option<usize> {
    Some(
        fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero()))
            .ok()?
            .count(),
    )
}

/// Returns the CPU time of the calling thread.
pub(crate) fn own_thread_cpu() -> Duration {
    duration(clock_gettime(ClockId::ThreadCPUTime))
}

/// Returns the CPU time of this process.
pub(crate) fn own_cpu() -> Duration {
    duration(clock_gettime(ClockId::ProcessCPUTime))
}

fn duration(time: Timespec) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(seconds, nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_line_with_a_hostile_name() {
        let line = "42 (a) b) (c) S 1 2 3 4 5 6 7 8 9 10 300 21 0 0 20 0 1 0 5 6 7";
        assert_eq!(parse_stat_ticks(line), Some(321));
        assert_eq!(parse_stat_ticks("nonsense"), None);
    }

    #[test]
    fn threads_that_came_later_count_in_full_and_those_gone_not_at_all() {
        let then = CpuTime::Threads(HashMap::from([(1, 100), (2, 500)]));
        let now = CpuTime::Threads(HashMap::from([(1, 150), (3, 7)]));
        assert_eq!(now.since(&then), Duration::from_nanos(57));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn reads_this_very_process() {
        let own = rustix::process::getpid();
        assert!(resident_bytes(own).is_some_and(|bytes| bytes > 100_000));
        assert!(thread_count(own).is_some_and(|count| count >= 1));
        let before = own_thread_cpu();
        let mut sum = 0u64;
        for i in 0..2_000_000u64 {
            sum = std::hint::black_box(sum.wrapping_add(i));
        }
        assert!(own_thread_cpu() > before);
        assert!(CpuTime::of(own).is_some());
    }
}
