//! Handlers of the signals that end a process because of a fault in it.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::io;

use nix::libc::siginfo_t;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use signal_hook::low_level::emulate_default_handler;

/// Installs the handlers for the process.
pub(super) fn install() -> io::Result<()> {
    // On the stack that std gives each thread for this, since a thread may have used up its own; not deferred, so that
    // a fault in the handler comes back to it.
    let flags = SaFlags::SA_SIGINFO | SaFlags::SA_ONSTACK | SaFlags::SA_NODEFER;
    let action = SigAction::new(SigHandler::SigAction(handle), flags, SigSet::empty());
    for signal in [
        Signal::SIGSEGV,
        Signal::SIGBUS,
        Signal::SIGFPE,
        Signal::SIGILL,
        Signal::SIGABRT,
    ] {
        // SAFETY: `handle` has the signature that SA_SIGINFO asks for, does only what is async-signal-safe (the unwinder
        // excepted, after all else) and does not return to the code that was interrupted. Nobody relies on the handlers
        // that it replaces: std's only print that a stack has overflowed.
        unsafe { sigaction(signal, &action) }?;
    }
    Ok(())
}

/// Keeps signals that are sent to the process away from this thread, which could not report them.
pub(super) fn leave_signals_to_others() {
    // It fails for unknown signals only.
    let _ = SigSet::all().thread_block();
}

extern "C" fn handle(signal: c_int, info: *mut siginfo_t, _: *mut c_void) {
    // SAFETY: with SA_SIGINFO the kernel passes a valid `siginfo_t`, and `si_addr` reads a word of it that is initialised
    // for every signal.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr().addr()) };
    super::caught(signal, code, address);
    // Ends the process. If it cannot, the fault comes again, and its default action is in force then.
    let _ = emulate_default_handler(signal);
}
