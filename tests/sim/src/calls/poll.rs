//! `epoll`, `eventfd` and `timerfd`.

use std::ffi::{c_int, c_uint, c_void};

use libc::{epoll_event, itimerspec};

use super::time::nanos;
use super::{fail, is_ours, real};
use crate::baton;
use crate::kernel::MILLI;
use crate::kernel::descriptors::{Object, ObjectId};
use crate::kernel::poll::Epoll;
use crate::kernel::timers::Timer;

fn add(object: Object) -> c_int {
    baton::call(|kernel, me| {
        let node = kernel.threads[me].node;
        kernel.descriptors.add(node, object).0
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn epoll_create1(flags: c_int) -> c_int {
    if baton::current().is_none() {
        return real::call(libc::SYS_epoll_create1, [flags as usize]) as c_int;
    }
    add(Object::Epoll(Epoll::default()))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn eventfd(count: c_uint, flags: c_int) -> c_int {
    if baton::current().is_none() {
        let args = [count as usize, flags as usize];
        return real::call(libc::SYS_eventfd2, args) as c_int;
    }
    add(Object::Counter(count.into()))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn timerfd_create(clock: c_int, flags: c_int) -> c_int {
    if baton::current().is_none() {
        let args = [clock as usize, flags as usize];
        return real::call(libc::SYS_timerfd_create, args) as c_int;
    }
    add(Object::Timer(Timer::default()))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn timerfd_settime(
    fd: c_int,
    flags: c_int,
    new: *const itimerspec,
    old: *mut itimerspec,
) -> c_int {
    if !is_ours(fd) {
        let args = [fd as usize, flags as usize, new as usize, old as usize];
        return real::call(libc::SYS_timerfd_settime, args) as c_int;
    }
    let at = nanos(&(*new).it_value);
    debug_assert!(
        flags & libc::TFD_TIMER_ABSTIME != 0,
        "the server sets absolute times"
    );
    baton::call(|kernel, _| {
        if let Some(object) = kernel.descriptors.find(fd) {
            kernel.set_timer(object, (at != 0).then_some(at));
        }
    });
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn epoll_ctl(
    epoll: c_int,
    operation: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> c_int {
    if !is_ours(epoll) {
        let args = [
            epoll as usize,
            operation as usize,
            fd as usize,
            event as usize,
        ];
        return real::call(libc::SYS_epoll_ctl, args) as c_int;
    }
    let event = (!event.is_null()).then(|| *event);
    baton::call(|kernel, _| {
        let found = (kernel.descriptors.find(epoll), kernel.descriptors.find(fd));
        let (Some(epoll), Some(object)) = found else {
            return fail(libc::EBADF);
        };
        match (operation, event) {
            (libc::EPOLL_CTL_DEL, _) => *kernel.descriptors.watch_mut(object) = None,
            (_, Some(event)) => kernel.watch(epoll, object, event.events, event.u64),
            (_, None) => return fail(libc::EFAULT),
        }
        0
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn epoll_wait(
    fd: c_int,
    events: *mut epoll_event,
    max: c_int,
    timeout: c_int,
) -> c_int {
    if !is_ours(fd) {
        let args = [
            fd as usize,
            events as usize,
            max as usize,
            timeout as usize,
            0,
            8,
        ];
        return real::call(libc::SYS_epoll_pwait, args) as c_int;
    }
    let Some(epoll) = baton::call(|kernel, _| kernel.descriptors.find(fd)) else {
        return fail(libc::EBADF);
    };
    let mut ready = take(epoll, max);
    if ready.is_empty() && timeout != 0 {
        baton::wait(|kernel, me| {
            kernel.wait_for_changes(epoll, me);
            let time = u64::try_from(timeout).ok().map(|ms| ms * MILLI);
            let until = time.map(|time| kernel.now + time);
            kernel.begin_wait(me, until);
        });
        ready = take(epoll, max);
    }
    for (at, (bits, data)) in ready.iter().enumerate() {
        *events.add(at) = epoll_event {
            events: *bits,
            u64: *data,
        };
    }
    ready.len() as c_int
}

fn take(epoll: ObjectId, max: c_int) -> Vec<(u32, u64)> {
    baton::enter(|kernel, _| kernel.take_ready(epoll, max as usize))
}

/// Adds to the count of an `eventfd`.
pub unsafe fn write_count(fd: c_int, buf: *const c_void) -> isize {
    let more = buf.cast::<u64>().read_unaligned();
    baton::call(|kernel, _| {
        let Some(object) = kernel.descriptors.find(fd) else {
            return fail::<i64>(libc::EBADF) as isize;
        };
        if let Some(Object::Counter(count)) = kernel.descriptors.get_mut(object) {
            *count = count.saturating_add(more);
        }
        kernel.edge(object);
        8
    })
}
