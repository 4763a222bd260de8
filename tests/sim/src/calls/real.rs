//! Calls of the real system, past the functions that the simulation defines.

use std::arch::asm;
use std::ffi::{c_int, c_long, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// Makes a system call with up to six arguments; further ones are 0. Returns its result, or a
/// negative error number.
///
/// # Safety
/// As the call's manual says.
#[cfg(target_arch = "x86_64")]
pub unsafe fn system<const N: usize>(number: c_long, given: [usize; N]) -> isize {
    let mut args = [0; 6];
    args[..N].copy_from_slice(&given);
    let result: isize;
    // SAFETY: The kernel keeps all registers except those named here.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") args[0], in("rsi") args[1], in("rdx") args[2],
            in("r10") args[3], in("r8") args[4], in("r9") args[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack)
        );
    }
    result
}

/// Makes a system call, with the result that the C library's functions have.
///
/// # Safety
/// As the call's manual says.
pub unsafe fn call<const N: usize>(number: c_long, args: [usize; N]) -> isize {
    // SAFETY: The caller promises it.
    let result = unsafe { system(number, args) };
    match result {
        -4095..0 => super::fail::<i64>(-result as c_int) as isize,
        _ => result,
    }
}

/// Blocks while the word has this value.
pub fn futex_wait(word: &AtomicU32, value: u32) {
    let op = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    let args = [word.as_ptr() as usize, op as usize, value as usize];
    // SAFETY: The word is valid during the call.
    unsafe { system(libc::SYS_futex, args) };
}

/// Wakes the thread that waits at the word.
pub fn futex_wake(word: &AtomicU32) {
    let op = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    let args = [word.as_ptr() as usize, op as usize, 1];
    // SAFETY: The word is valid during the call.
    unsafe { system(libc::SYS_futex, args) };
}

/// A function of the C library that the simulation hides.
pub struct Hidden {
    name: &'static std::ffi::CStr,
    found: AtomicPtr<c_void>,
}

impl Hidden {
    pub const fn new(name: &'static std::ffi::CStr) -> Self {
        Self {
            name,
            found: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// Returns the function's address.
    pub fn get(&self) -> *mut c_void {
        let found = self.found.load(Ordering::Relaxed);
        if !found.is_null() {
            return found;
        }
        // SAFETY: The name is a C string.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        assert!(!found.is_null(), "the C library has {:?}", self.name);
        self.found.store(found, Ordering::Relaxed);
        found
    }
}
