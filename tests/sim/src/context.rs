//! Contexts: what a processor needs to go on with a thread, which are its stack, its registers and
//! the address of its thread-local variables.
//!
//! All simulated threads run on one thread of the system, which goes from one context to the next
//! without a call of the kernel. Each of them still begins and ends as a thread of the system: the
//! C library gives it a stack and thread-local variables, and frees them. In between, the system's
//! thread is *parked*: it waits, and touches neither.
//!
//! Ground rules: only the thread with the baton calls [`resume`] and [`free`]. A context is
//! resumed only after its thread has parked, or has been left by [`resume`].

use std::arch::naked_asm;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::calls::real;

/// The thread of the system does not wait yet.
const BORN: u32 = 0;
/// It waits, and another thread may run its context.
const PARKED: u32 = 1;
/// It runs its context to the end.
const FREE: u32 = 2;

/// A context that does not run, and the thread of the system to which it belongs.
#[derive(Debug)]
#[repr(C)]
pub struct Context {
    /// The stack's pointer, below which the registers are saved.
    stack: UnsafeCell<*mut u8>,
    state: AtomicU32,
}

// SAFETY: Only the thread with the baton uses `stack`. While a thread parks or ends, the changes of
// `state` synchronize its access.
unsafe impl Sync for Context {}

impl Context {
    /// Creates a context that lives until the process ends.
    pub fn leaked() -> &'static Self {
        Box::leak(Box::new(Self {
            stack: UnsafeCell::new(std::ptr::null_mut()),
            state: AtomicU32::new(BORN),
        }))
    }

    /// Makes the calling thread wait, for the first time. Another thread of the system returns from
    /// this call when it resumes the context.
    pub fn park(&self) {
        // SAFETY: The context is not shared before its state changes, and lives for ever.
        unsafe { park(self) }
    }

    /// Blocks until the context's thread waits.
    pub fn wait_until_parked(&self) {
        while self.state.load(Ordering::Acquire) == BORN {
            real::futex_wait(&self.state, BORN);
        }
    }

    /// Leaves the running context, which is this one, and resumes another. Returns when this one is
    /// resumed.
    pub fn resume(&self, next: &Self) {
        // SAFETY: The ground rules: `next` has a saved stack.
        unsafe { switch(self, next) }
    }

    /// Lets the context's own thread run it to its end.
    pub fn free(&self) {
        self.state.store(FREE, Ordering::Release);
        real::futex_wake(&self.state);
    }
}

/// Returns whether a program may change the address of its thread-local variables.
pub fn are_possible() -> bool {
    const HWCAP2_FSGSBASE: libc::c_ulong = 2;
    // SAFETY: The call only reads.
    unsafe { libc::getauxval(libc::AT_HWCAP2) & HWCAP2_FSGSBASE != 0 }
}

/// Saves the registers that a function keeps, and the address of the thread-local variables.
macro_rules! save {
    () => {
        "push rbp; push rbx; push r12; push r13; push r14; push r15; rdfsbase rax; push rax"
    };
}

/// Restores what `save` has saved, and returns from the function that saved it.
macro_rules! restore {
    () => {
        "pop rax; wrfsbase rax; pop r15; pop r14; pop r13; pop r12; pop rbx; pop rbp; ret"
    };
}

/// # Safety
/// `next` has a saved stack, and `own` is the running context.
#[unsafe(naked)]
unsafe extern "C" fn switch(own: *const Context, next: *const Context) {
    naked_asm!(save!(), "mov [rdi], rsp", "mov rsp, [rsi]", restore!())
}

/// After the change of the state, the system's thread uses registers only, because its stack
/// belongs to who resumes the context.
///
/// # Safety
/// `own` is a new context, and lives until the thread ends.
#[unsafe(naked)]
unsafe extern "C" fn park(own: *const Context) {
    naked_asm!(
        save!(),
        "mov [rdi], rsp",
        "mov r12, rdi",
        "mov dword ptr [r12 + 8], {parked}",
        // Wakes the creator.
        "mov eax, {futex}",
        "lea rdi, [r12 + 8]",
        "mov esi, {wake}",
        "mov edx, 1",
        "syscall",
        "2:",
        "cmp dword ptr [r12 + 8], {parked}",
        "jne 3f",
        "mov eax, {futex}",
        "lea rdi, [r12 + 8]",
        "mov esi, {wait}",
        "mov edx, {parked}",
        "xor r10d, r10d",
        "syscall",
        "jmp 2b",
        "3:",
        "mov rsp, [r12]",
        restore!(),
        parked = const PARKED,
        futex = const libc::SYS_futex,
        wake = const libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
        wait = const libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
    )
}
