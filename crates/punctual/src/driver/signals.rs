//! Signals are the program's business: the driver's thread hears none, and what it starts hears what the program did.
//!
//! A program may block a signal and wait for it (`sigwait`, signalfd) at any time, also after it has armed its first timer.
//! A thread that had not blocked it would be given the signal, and the process would die of it. Threads that call
//! functions of the program are not deaf: they may start processes, which inherit what is blocked.

use core::cell::Cell;

#[cfg(all(unix, not(miri), not(loom)))]
mod mask {
    use nix::sys::signal::{SigSet, SigmaskHow, Signal};

    pub(super) type Mask = SigSet;

    /// Blocks what may be blocked; what was blocked before, unless the system refuses.
    pub(super) fn block() -> Option<Mask> {
        let mut all = SigSet::all();
        // What a fault of the thread itself raises is for it to hear: handlers tell of the fault.
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

/// What a thread of the program had blocked.
#[derive(Clone, Copy)]
pub(super) struct Heard(Option<mask::Mask>);

std::thread_local! {
    /// On a deaf thread: what the program had blocked when it started it.
    static OUTSIDE: Cell<Option<Heard>> = const { Cell::new(None) };
}

/// Calls `start`: a thread that it starts is deaf from the first moment, and keeps what it is given.
pub(super) fn deaf<R>(start: impl FnOnce(Heard) -> R) -> R {
    let before = mask::block();
    let started = start(Heard(before));
    if let Some(before) = before {
        mask::set(&before);
    }
    started
}

/// Of the thread that calls this: what threads it starts have to [hear](Heard::hear), if not the same as it does.
pub(super) fn of_the_program() -> Option<Heard> {
    OUTSIDE.get()
}

impl Heard {
    /// This thread stays deaf, and what it starts does not.
    pub(super) fn keep(self) {
        OUTSIDE.set(Some(self));
    }

    /// This thread hears what the program did.
    pub(super) fn hear(self) {
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

    /// What the kernel says that this thread has blocked.
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
    fn the_driver_is_deaf_and_its_workers_hear_what_the_program_does() {
        let (tell, told) = channel();
        let driver = Driver::new(Workers::new(|jobs: &mut Jobs<'_, Sender<u64>>| {
            for tell in jobs {
                let _ = tell.send(blocked());
            }
        }));
        let program = thread::scope(|scope| {
            let arming = scope.spawn(|| {
                SigSet::from(Signal::SIGUSR2).thread_block().unwrap();
                let before = blocked();
                driver.arm(0, Look(tell));
                assert_eq!(blocked(), before);
                before
            });
            arming.join().unwrap()
        });
        let (of_driver, of_worker) = (told.recv().unwrap(), told.recv().unwrap());
        assert_ne!(of_driver & bit(Signal::SIGTERM), 0);
        assert_ne!(of_driver & bit(Signal::SIGCHLD), 0);
        assert_eq!(of_driver & bit(Signal::SIGSEGV), 0);
        assert_eq!(of_worker, program);
        assert_ne!(program & bit(Signal::SIGUSR2), 0);
    }
}
