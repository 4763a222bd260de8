//! Clocks, sleep and randomness.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

use libc::{clockid_t, size_t, ssize_t, timespec, timeval};

use super::real;
use crate::baton;
use crate::kernel::draws::Draws;
use crate::kernel::{Nanos, SECOND};

pub fn nanos(time: &timespec) -> Nanos {
    time.tv_sec.max(0) as u64 * SECOND + time.tv_nsec.max(0) as u64
}

fn split(nanos: Nanos) -> timespec {
    timespec {
        tv_sec: (nanos / SECOND) as i64,
        tv_nsec: (nanos % SECOND) as i64,
    }
}

fn is_wall(clock: clockid_t) -> bool {
    matches!(clock, libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE)
}

fn read_clock(wall: bool) -> Nanos {
    baton::enter(|kernel, me| kernel.read_clock(kernel.threads[me].node, wall))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int {
    if baton::current().is_none() {
        let args = [clock as usize, time as usize];
        return real::call(libc::SYS_clock_gettime, args) as c_int;
    }
    *time = split(read_clock(is_wall(clock)));
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn gettimeofday(time: *mut timeval, zone: *mut c_void) -> c_int {
    if baton::current().is_none() {
        let args = [time as usize, zone as usize];
        return real::call(libc::SYS_gettimeofday, args) as c_int;
    }
    let now = read_clock(true);
    (*time).tv_sec = (now / SECOND) as i64;
    (*time).tv_usec = (now % SECOND / 1_000) as i64;
    0
}

/// Sleeps until true time goes on by `time`.
pub fn sleep(time: Nanos) {
    baton::wait(|kernel, me| {
        kernel.count_call();
        let until = kernel.now + time;
        kernel.begin_wait(me, Some(until));
    });
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nanosleep(time: *const timespec, left: *mut timespec) -> c_int {
    if baton::current().is_none() {
        let args = [time as usize, left as usize];
        return real::call(libc::SYS_nanosleep, args) as c_int;
    }
    sleep(nanos(&*time));
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn clock_nanosleep(
    clock: clockid_t,
    flags: c_int,
    time: *const timespec,
    left: *mut timespec,
) -> c_int {
    if baton::current().is_none() {
        let args = [clock as usize, flags as usize, time as usize, left as usize];
        // This function returns the error number itself.
        return -real::system(libc::SYS_clock_nanosleep, args) as c_int;
    }
    let mut time = nanos(&*time);
    if flags & libc::TIMER_ABSTIME != 0 {
        time = time.saturating_sub(read_clock(is_wall(clock)));
    }
    sleep(time);
    0
}

/// Fills a buffer with random bytes. Outside of the simulation they are the same in each process,
/// because static variables that are initialized before a run must be.
pub fn randomize(bytes: &mut [u8]) {
    static CALLS: AtomicU64 = AtomicU64::new(1);
    match baton::current() {
        Some(_) => baton::enter(|kernel, _| kernel.draws.fill(bytes)),
        None => Draws::new(CALLS.fetch_add(1, Ordering::Relaxed)).fill(bytes),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(buf: *mut c_void, len: size_t, _flags: c_uint) -> ssize_t {
    randomize(std::slice::from_raw_parts_mut(buf.cast::<u8>(), len));
    len as ssize_t
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getpid() -> c_int {
    match baton::current() {
        None => real::system(libc::SYS_getpid, [0; 6]) as c_int,
        Some(_) => baton::enter(|kernel, me| 1_000 + kernel.threads[me].node as c_int),
    }
}
