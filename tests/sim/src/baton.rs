//! The baton: of all simulated threads, only the thread that has it runs.
//!
//! Ground rules: a thread enters the [`Kernel`] only through [`enter`] and [`wait`], and leaves it
//! before it hands the baton over. Calls that a thread makes inside the kernel, such as calls
//! of the allocator, go to the real system ([`current`] returns `None`).

use std::cell::{Cell, UnsafeCell};

use crate::context::{self, Context};
use crate::kernel::Kernel;
use crate::kernel::threads::{State, Tid, Wake};
use crate::verdict;

struct Global(UnsafeCell<Option<Kernel>>);

// SAFETY: Only the thread with the baton touches the kernel, and a handover synchronizes the two
// threads. Before the first simulated thread exists, only the main thread touches it.
unsafe impl Sync for Global {}

static KERNEL: Global = Global(UnsafeCell::new(None));

thread_local! {
    /// Number of this thread; `usize::MAX` if it is not simulated.
    static ME: Cell<Tid> = const { Cell::new(usize::MAX) };
    /// Whether this thread is inside the kernel.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Sets the kernel of the process, and makes the calling thread its first thread.
pub fn begin(mut kernel: Kernel) {
    assert!(context::are_possible(), "the processor has FSGSBASE");
    let tid = kernel.add_thread(crate::kernel::DRIVER, Context::leaked());
    kernel.threads[tid].state = State::Active;
    kernel.runnable.clear();
    // SAFETY: No simulated thread exists yet.
    unsafe { *KERNEL.0.get() = Some(kernel) };
    ME.set(tid);
}

/// Returns the calling thread's number if it is simulated and not inside the kernel.
#[inline]
pub fn current() -> Option<Tid> {
    let me = ME.get();
    (me != usize::MAX && !INSIDE.get()).then_some(me)
}

/// Makes the calling thread a simulated one, and waits for the baton.
pub fn join(tid: Tid, context: &Context) {
    ME.set(tid);
    context.park();
    free_ended();
}

/// Lets the thread that had the baton before end, if it has left its context for ever.
fn free_ended() {
    if let Some(context) = enter(|kernel, _| kernel.ended.take()) {
        context.free();
    }
}

/// Uses the kernel. The calling thread has the baton.
///
/// # Panics
/// The calling thread is not simulated, or is inside the kernel.
pub fn enter<R>(work: impl FnOnce(&mut Kernel, Tid) -> R) -> R {
    let me = current().expect("a simulated thread");
    INSIDE.set(true);
    // SAFETY: This thread has the baton, and `INSIDE` excludes a second reference.
    let kernel = unsafe { &mut *KERNEL.0.get() };
    let result = work(kernel.as_mut().expect("the kernel is set"), me);
    INSIDE.set(false);
    result
}

/// Enters the kernel for a call of the program. The seed may let another thread run first.
pub fn call<R>(work: impl FnOnce(&mut Kernel, Tid) -> R) -> R {
    let preempts = enter(|kernel, _| {
        kernel.count_call();
        let rate = kernel.weather.preempts;
        kernel.draws.chance(rate)
    });
    if preempts {
        wait(|kernel, me| kernel.give_up(me));
    }
    enter(work)
}

/// Begins to wait, as `prepare` says, and lets other threads run until the wait ends.
pub fn wait(prepare: impl FnOnce(&mut Kernel, Tid)) -> Wake {
    let (next, own) = enter(|kernel, me| {
        prepare(kernel, me);
        let next = kernel.schedule();
        let context = |tid: Tid| kernel.threads[tid].context;
        (next.map(&context), context(me))
    });
    let Some(next) = next else {
        verdict::stop("nothing can run and nothing will happen");
    };
    if !std::ptr::eq(next, own) {
        own.resume(next);
        free_ended();
    }
    enter(|kernel, me| kernel.threads[me].wake)
}

/// Ends the calling thread: hands the baton over for the last time. Returns on the thread of the
/// system to which the context belongs, when another thread has the baton.
pub fn leave() {
    let (next, own) = enter(|kernel, me| {
        kernel.end_thread(me);
        let own = kernel.threads[me].context;
        kernel.ended = Some(own);
        let next = kernel.schedule();
        (next.map(|tid| kernel.threads[tid].context), own)
    });
    ME.set(usize::MAX);
    match next {
        Some(next) => own.resume(next),
        None => verdict::stop("nothing can run and nothing will happen"),
    }
}
