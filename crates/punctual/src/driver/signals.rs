//! Signal masks: the driver's thread blocks all signals, and its workers have the program's mask.
//!
//! A program may block a signal and wait for it (`sigwait`, signalfd) at any time, also after it
//! has armed its first timer. If the driver's thread did not block the signal, it would receive the
//! signal and the process would die. Workers call functions of the program, which may start
//! processes that inherit the mask. So workers do not block signals.

use core::cell::Cell;

#[cfg(all(unix, not(miri), not(loom)))]
mod mask {
    use nix::sys::signal::{SigSet, SigmaskHow, Signal};

    pub(super) type Mask = SigSet;

    /// Blocks all signals except faults. Returns the previous mask, or `None` if the system
    /// refuses.
    pub(super) fn block() -> Option<Mask> {
        let mut all = SigSet::all();
        // A thread must receive the signals of its own faults, so that handlers can report them.
        for fault in [
            Signal::SIGSEGV,
            Signal::SIGBUS,
            Signal::SIGFPE,
            Signal::SIGILL,
            Signal::SIGABRT,
            Signal::SIGTRAP,
            Signal::SIGSYS,
        ] {
            all.remove(fault);
        }
        all.thread_swap_mask(SigmaskHow::SIG_SETMASK).ok()
    }

    pub(super) fn set(mask: &Mask) {
        let _ = mask.thread_set_mask();
    }
}

#[cfg(not(all(unix, not(miri), not(loom))))]
mod mask {
    pub(super) type Mask = ();

    pub(super) fn block() -> Option<Mask> {
        None
    }

    pub(super) fn set(_: &Mask) {}
}

/// The signal mask of a thread of the program.
#[derive(Clone, Copy)]
pub(super) struct SignalMask(Option<mask::Mask>);

std::thread_local! {
    /// Set on a thread that blocks signals: the mask of the program's thread that started it.
    static PROGRAM_MASK: Cell<Option<SignalMask>> = const { Cell::new(None) };
}

/// Calls `start` with all signals blocked, so that a thread that it starts blocks them from the
/// beginning. Passes the previous mask to `start`.
pub(super) fn with_signals_blocked<R>(start: impl FnOnce(SignalMask) -> R) -> R {
    let before = mask::block();
    let started = start(SignalMask(before));
    if let Some(before) = before {
        mask::set(&before);
    }
    started
}

/// Returns the mask for threads that this thread starts, or `None` if they inherit this thread's
/// mask.
pub(super) fn program_mask() -> Option<SignalMask> {
    PROGRAM_MASK.get()
}

impl SignalMask {
    /// Leaves signals blocked on the calling thread, and saves this mask for the threads that it
    /// starts.
    pub(super) fn keep(self) {
        PROGRAM_MASK.set(Some(self));
    }

    /// Sets this mask on the calling thread.
    pub(super) fn apply(self) {
        if let Some(mask) = self.0 {
            mask::set(&mask);
        }
    }
}

#[cfg(all(test, target_os = "linux", not(miri), not(loom)))]
mod tests {
    use std::sync::mpsc::{Sender, channel};
    use std::{fs, thread};

    use nix::sys::signal::{SigSet, Signal};

    use super::super::{Alarm, Driver, Fired, Jobs, Workers};

    /// Returns the mask of blocked signals that the kernel reports for this thread.
    fn blocked() -> u64 {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
        u64::from_str_radix(mask.unwrap().trim(), 16).unwrap()
    }

    fn bit(signal: Signal) -> u64 {
        1 << (signal as u32 - 1)
    }

    struct Look(Sender<u64>);

    impl Alarm for Look {
        type Job = Sender<u64>;

        fn fire(&mut self, _due: u64, _now: u64) -> Fired<Self::Job> {
            let _ = self.0.send(blocked());
            Fired::Do(self.0.clone())
        }
    }

    #[test]
    fn the_driver_blocks_signals_and_its_workers_use_the_programs_mask() {
        let (sender, receiver) = channel();
        let driver = Driver::new(Workers::new(|jobs: &mut Jobs<'_, Sender<u64>>| {
            for sender in jobs {
                let _ = sender.send(blocked());
            }
        }));
        let program = thread::scope(|scope| {
            let arming = scope.spawn(|| {
                SigSet::from(Signal::SIGUSR2).thread_block().unwrap();
                let before = blocked();
                driver.arm(0, Look(sender));
                assert_eq!(blocked(), before);
                before
            });
            arming.join().unwrap()
        });
        let (of_driver, of_worker) = (receiver.recv().unwrap(), receiver.recv().unwrap());
        assert_ne!(of_driver & bit(Signal::SIGTERM), 0);
        assert_ne!(of_driver & bit(Signal::SIGCHLD), 0);
        assert_eq!(of_driver & bit(Signal::SIGSEGV), 0);
        assert_eq!(of_worker, program);
        assert_ne!(program & bit(Signal::SIGUSR2), 0);
    }
}
