//! Threads, and waiting at an address.

use std::ffi::{c_int, c_long, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{pthread_attr_t, pthread_key_t, pthread_t, timespec};

use super::real::{self, Hidden};
use super::time::{nanos, randomize};
use super::{answer, fail};
use crate::baton;
use crate::context::Context;
use crate::kernel::threads::{Tid, Wake};
use crate::kernel::{MICRO, Nanos};
use crate::usage::{self, Owner};
use crate::world;

type Start = extern "C" fn(*mut c_void) -> *mut c_void;
type Create =
    unsafe extern "C" fn(*mut pthread_t, *const pthread_attr_t, Start, *mut c_void) -> c_int;
type Join = unsafe extern "C" fn(pthread_t, *mut *mut c_void) -> c_int;

static CREATE: Hidden = Hidden::new(c"pthread_create");
static JOIN: Hidden = Hidden::new(c"pthread_join");

/// Simulated time for which a thread gives up the processor. A loop that waits for replies yields
/// again and again, so a short time only costs real time.
const YIELD_TIME: Nanos = 4 * MICRO;

/// The variable of a thread whose destructor runs last: it hands over the baton.
static LAST: OnceLock<pthread_key_t> = OnceLock::new();

/// What a new thread gets.
struct Birth {
    tid: Tid,
    owner: Owner,
    context: &'static Context,
    start: Start,
    argument: *mut c_void,
}

extern "C" fn last(_: *mut c_void) {
    baton::leave();
}

/// Creates the variable whose destructor ends a thread. Destructors run in the order of creation,
/// so this comes after the variables of the allocator.
pub fn prepare() {
    LAST.get_or_init(|| {
        let mut key = 0;
        // SAFETY: The destructor is a plain function.
        let error = unsafe { libc::pthread_key_create(&raw mut key, Some(last)) };
        assert_eq!(error, 0, "a key is free");
        key
    });
}

extern "C" fn run(birth: *mut c_void) -> *mut c_void {
    // SAFETY: `pthread_create` below made it of a box.
    let birth = unsafe { Box::from_raw(birth.cast::<Birth>()) };
    baton::join(birth.tid, birth.context);
    usage::adopt(birth.owner);
    let key = *LAST.get().expect("prepared");
    // SAFETY: The key exists; the value must only differ from null.
    unsafe { libc::pthread_setspecific(key, (&raw const *birth.context).cast()) };
    let (start, argument) = (birth.start, birth.argument);
    drop(birth);
    start(argument)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_create(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    let create: Create = std::mem::transmute(CREATE.get());
    if baton::current().is_none() {
        return create(thread, attributes, start, argument);
    }
    prepare();
    let context = Context::leaked();
    let (tid, owner) = baton::call(|kernel, me| {
        let node = world::node_to_start().unwrap_or(kernel.threads[me].node);
        (kernel.add_thread(node, context), kernel.nodes[node].life)
    });
    let birth = Box::new(Birth {
        tid,
        owner,
        context,
        start,
        argument,
    });
    let error = create(thread, attributes, run, Box::into_raw(birth).cast());
    assert_eq!(error, 0, "the system has room for a thread");
    context.wait_until_parked();
    let handle = *thread;
    baton::enter(|kernel, _| kernel.threads[tid].handle = handle);
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_join(thread: pthread_t, result: *mut *mut c_void) -> c_int {
    let join: Join = std::mem::transmute(JOIN.get());
    if baton::current().is_some() {
        let tid = baton::call(|kernel, _| kernel.find_thread(thread));
        let tid = tid.expect("a simulated thread joins simulated threads");
        if !baton::enter(|kernel, _| kernel.has_ended(tid)) {
            baton::wait(|kernel, me| kernel.begin_join(me, tid));
        }
    }
    // The thread has handed over its baton, and ends within a moment.
    join(thread, result)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sched_yield() -> c_int {
    if baton::current().is_none() {
        return real::call(libc::SYS_sched_yield, [0; 6]) as c_int;
    }
    baton::wait(|kernel, me| {
        kernel.count_call();
        kernel.now += YIELD_TIME;
        kernel.give_up(me);
    });
    0
}

/// The function through which the standard library and parking_lot use futexes. It has a variable
/// number of arguments in C, which the calling convention passes as six here.
#[unsafe(no_mangle)]
unsafe extern "C" fn syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    match number {
        libc::SYS_getrandom => {
            randomize(std::slice::from_raw_parts_mut(a as *mut u8, b));
            b as c_long
        }
        libc::SYS_futex if baton::current().is_some() => {
            futex(a, b as c_int, c, d as *const timespec)
        }
        _ => real::call(number, [a, b, c, d, e, f]) as c_long,
    }
}

unsafe fn futex(address: usize, operation: c_int, value: usize, time: *const timespec) -> c_long {
    let is_wall = operation & libc::FUTEX_CLOCK_REALTIME != 0;
    let operation = operation & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME);
    match operation {
        libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET => {
            let word = &*(address as *const AtomicU32);
            let same = baton::call(|_, _| word.load(Ordering::SeqCst) == value as u32);
            if !same {
                return fail(libc::EAGAIN);
            }
            let time = (!time.is_null()).then(|| nanos(&*time));
            let wake = baton::wait(|kernel, me| {
                let node = &kernel.nodes[kernel.threads[me].node];
                // FUTEX_WAIT has a duration, the other operation a time of a clock.
                let until = time.map(|time| match (operation, is_wall) {
                    (libc::FUTEX_WAIT, _) => kernel.now + time,
                    (_, true) => node.true_time(time),
                    (_, false) => kernel.now + time.saturating_sub(node.stopwatch(kernel.now)),
                });
                kernel.wait_at(me, address, until);
            });
            match wake {
                Wake::Woken => 0,
                Wake::TimedOut => fail(libc::ETIMEDOUT),
            }
        }
        libc::FUTEX_WAKE | libc::FUTEX_WAKE_BITSET => {
            baton::call(|kernel, _| kernel.wake_at(address, value) as c_long)
        }
        _ => answer(Err(libc::ENOSYS)),
    }
}
