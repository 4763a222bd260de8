//! Handlers of the signals that a fault in the process raises, such as SIGSEGV.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::io;

use nix::libc::siginfo_t;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use signal_hook::low_level::emulate_default_handler;

/// Installs the handlers for the process.
pub(super) fn install() -> io::Result<()> {
    // The handler runs on the alternate stack that std gives each thread, because the thread's own
    // stack may have overflowed. SA_NODEFER: a fault in the handler calls the handler again.
    let flags = SaFlags::SA_SIGINFO | SaFlags::SA_ONSTACK | SaFlags::SA_NODEFER;
    let action = SigAction::new(SigHandler::SigAction(handle), flags, SigSet::empty());
    for signal in [
        Signal::SIGSEGV,
        Signal::SIGBUS,
        Signal::SIGFPE,
        Signal::SIGILL,
        Signal::SIGABRT,
    ] {
        // SAFETY: `handle` has the signature that SA_SIGINFO requires. It calls only
        // async-signal-safe functions, except the unwinder, which runs after the cause is
        // reported. It does not return to the interrupted code. Nothing depends on the replaced
        // handlers: std's handlers only report a stack overflow.
        unsafe { sigaction(signal, &action) }?;
    }
    Ok(())
}

/// Blocks all signals in the calling thread. The thread `punctual-crash` calls this, because it
/// cannot report a signal of its own.
pub(super) fn block_signals() {
    // The call fails only for unknown signals.
    let _ = SigSet::all().thread_block();
}

extern "C" fn handle(signal: c_int, info: *mut siginfo_t, _: *mut c_void) {
    // SAFETY: with SA_SIGINFO, the kernel passes a valid `siginfo_t`. `si_addr` reads a word of it
    // that is initialised for every signal.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr().addr()) };
    super::report_signal(signal, code, address);
    // Does not return: restores the signal's default action, which ends the process, and raises the
    // signal. It fails only for signals that it does not know.
    let _ = emulate_default_handler(signal);
}
