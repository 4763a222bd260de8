//! Processes: one for each seed, with the same addresses in each run.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::FromRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::time::Duration;

use crate::options::Options;
use crate::{run, verdict};

/// The process of a seed.
pub struct Child {
    pub seed: u64,
    process: libc::pid_t,
    output: File,
}

impl Child {
    /// Starts the run of a seed, on one processor.
    pub fn start(seed: u64, slot: usize, options: &Options) -> Self {
        let mut ends = [0; 2];
        // SAFETY: The array has room for two descriptors. This process has one thread.
        let process = unsafe {
            assert_eq!(libc::pipe(ends.as_mut_ptr()), 0, "a pipe is free");
            libc::fork()
        };
        assert!(process >= 0, "the system has room for a process");
        // SAFETY: The descriptors are open, and each process owns one of them.
        let (read, write) = unsafe { (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1])) };
        if process == 0 {
            drop(read);
            use_one_processor(slot);
            verdict::report_to(write);
            run::run(seed, options);
        }
        Self {
            seed,
            process,
            output: read,
        }
    }

    /// Blocks until the run has ended. Returns its line.
    pub fn result(mut self) -> String {
        let mut line = String::new();
        let read = self.output.read_to_string(&mut line);
        let mut status = 0;
        // SAFETY: The process is a child of this one, which nothing else waits for.
        unsafe { libc::waitpid(self.process, &raw mut status, 0) };
        if line.is_empty() || read.is_err() {
            line = format!("failed the process ended with status {status:#x}");
        }
        line
    }
}

/// Keeps the process on one processor: a handover between threads is then a plain switch.
fn use_one_processor(slot: usize) {
    // SAFETY: The sets are plain structures, and the call changes only this process.
    unsafe {
        let mut allowed: libc::cpu_set_t = std::mem::zeroed();
        let size = size_of::<libc::cpu_set_t>();
        if libc::sched_getaffinity(0, size, &raw mut allowed) != 0 {
            return;
        }
        let found = (0..libc::CPU_SETSIZE as usize).filter(|cpu| libc::CPU_ISSET(*cpu, &allowed));
        let found: Vec<usize> = found.collect();
        let mut own: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(found[slot % found.len()], &mut own);
        libc::sched_setaffinity(0, size, &raw const own);
    }
}

/// Starts the program again without random addresses, if its addresses are random.
pub fn fix_addresses() {
    const FLAG: libc::c_ulong = libc::ADDR_NO_RANDOMIZE as libc::c_ulong;
    // SAFETY: The calls change only this process's flags.
    unsafe {
        let now = libc::personality(0xffff_ffff);
        if now < 0 || now as libc::c_ulong & FLAG != 0 {
            return;
        }
        if libc::personality(now as libc::c_ulong | FLAG) < 0 {
            return;
        }
    }
    let mut arguments = std::env::args_os();
    let program = arguments.next().expect("the program has a name");
    let error = std::process::Command::new(program).args(arguments).exec();
    panic!("the program cannot be started again: {error}");
}

/// Returns the processor's time of all runs that have ended.
pub fn processor_time() -> Duration {
    // SAFETY: The structure is plain, and the call fills it.
    let used = unsafe {
        let mut used: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut used);
        used
    };
    let time = |part: libc::timeval| {
        Duration::from_secs(part.tv_sec as u64) + Duration::from_micros(part.tv_usec as u64)
    };
    time(used.ru_utime) + time(used.ru_stime)
}
