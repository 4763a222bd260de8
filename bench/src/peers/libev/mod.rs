//! libev 4.33's timers, from Debian's `libev-dev`: a 4-ary heap of (time, watcher) pairs; each watcher has
//! its index in the heap.
//!
//! The comparison measures the heap: `ev_timer_start`, `ev_timer_stop` and `ev_timer_again`, which read no
//! clock and make no system call. It omits the rest of the loop: `ev_run` would read the clock and call
//! the kernel on every turn, which would hide the cost of the heap, and the time could not be passed in.
//! Instead the adapter does what `ev_run` does with due timers: while the heap's first entry is due, stop
//! its watcher. libev has no call that returns this entry; like libev's loop, the adapter reads it from
//! the heap's array. It finds the array's address in the loop once, by watching libev allocate the array
//! (`ev_set_allocator`) and searching for the pointer.
//!
//! One of libev's seconds stands for one microsecond here, and its cached time never changes, so its
//! doubles are whole numbers and exact up to 2^53. No tick; never early; in order, equal deadlines in any
//! order. A handle is the watcher's address; watchers come from a pool, so a stale handle affects the
//! timer that has its watcher now.

use std::ffi::{c_int, c_long, c_uint, c_void};
use std::mem::size_of;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::contender::Contender;

/// `struct ev_loop`, an opaque type.
#[repr(C)]
struct Loop {
    _inside: [u8; 0],
}

/// `ev_timer`, as `ev.h` declares it by default; the build script has checked its layout.
#[repr(C)]
pub struct Watcher {
    active: c_int,
    pending: c_int,
    priority: c_int,
    data: u64,
    /// libev's callback. A loop that never runs never calls it, so it links the free watchers.
    next_free: *mut Watcher,
    at: f64,
    repeat: f64,
}

/// An entry of the heap: `ANHE` with the cached time.
#[repr(C)]
struct HeapEntry {
    at: f64,
    watcher: *mut Watcher,
}

/// Index of the heap's first entry: a 4-ary heap leaves the first three unused.
const FIRST: usize = 3;
const EVBACKEND_SELECT: c_uint = 1;
const EVFLAG_NOENV: c_uint = 0x0100_0000;
/// Number of watchers by which the pool grows.
const CHUNK: usize = 4096;

unsafe extern "C" {
    fn ev_loop_new(flags: c_uint) -> *mut Loop;
    fn ev_loop_destroy(ev_loop: *mut Loop);
    fn ev_timer_start(ev_loop: *mut Loop, watcher: *mut Watcher);
    fn ev_timer_stop(ev_loop: *mut Loop, watcher: *mut Watcher);
    fn ev_timer_again(ev_loop: *mut Loop, watcher: *mut Watcher);
    fn ev_set_allocator(allocator: extern "C" fn(*mut c_void, c_long) -> *mut c_void);
}

/// Address of libev's last allocation, during the search for the heap.
static ALLOCATED: AtomicUsize = AtomicUsize::new(0);
/// Offset in a loop of the pointer to the heap's array, in bytes; `None` if it was not found.
static HEAP_AT: OnceLock<Option<usize>> = OnceLock::new();

/// Works like libev's default allocator, and stores the address of the allocation.
extern "C" fn allocate(old: *mut c_void, size: c_long) -> *mut c_void {
    if size == 0 {
        // SAFETY: libev passes a pointer that this function returned, or null.
        unsafe { libc::free(old) };
        return ptr::null_mut();
    }
    // SAFETY: as above.
    let new = unsafe { libc::realloc(old, size as usize) };
    ALLOCATED.store(new as usize, Ordering::Relaxed);
    new
}

/// Returns whether this libev has the layout that the adapter reads.
pub fn usable() -> bool {
    HEAP_AT.get_or_init(find_heap).is_some()
}

/// Creates a loop, arms two timers and searches the loop for the array that libev allocated for them.
fn find_heap() -> Option<usize> {
    let mut watchers = [Watcher::armed_for(7.0, 0), Watcher::armed_for(5.0, 0)];
    let first = watchers.as_mut_ptr();
    // SAFETY: the allocator is equivalent to the default one, so it may be set at any time. Only this
    // thread uses the loop, the watchers outlive their active time, and only allocations of malloc are
    // read, within their sizes.
    unsafe {
        ev_set_allocator(allocate);
        let ev_loop = ev_loop_new(EVBACKEND_SELECT | EVFLAG_NOENV);
        if ev_loop.is_null() {
            return None;
        }
        ALLOCATED.store(0, Ordering::Relaxed);
        // The array grows with either of them.
        ev_timer_start(ev_loop, first);
        ev_timer_start(ev_loop, first.add(1));
        let heap = ALLOCATED.load(Ordering::Relaxed);
        let words = libc::malloc_usable_size(ev_loop.cast()) / size_of::<usize>();
        let place = (0..words).find(|&at| *ev_loop.cast::<usize>().add(at) == heap);
        let place = place.filter(|_| heap != 0).filter(|_| {
            let entry = &*(heap as *const HeapEntry).add(FIRST);
            entry.watcher == first.add(1) && entry.at == (*first.add(1)).at
        });
        ev_timer_stop(ev_loop, first);
        ev_timer_stop(ev_loop, first.add(1));
        ev_loop_destroy(ev_loop);
        place.map(|at| at * size_of::<usize>())
    }
}

impl Watcher {
    fn armed_for(after: f64, payload: u64) -> Self {
        Watcher {
            active: 0,
            pending: 0,
            priority: 0,
            data: payload,
            next_free: ptr::null_mut(),
            at: after,
            repeat: 0.0,
        }
    }
}

/// A loop that never runs, and its watchers.
pub struct Libev {
    ev_loop: *mut Loop,
    /// Address in the loop of the pointer to the heap's array.
    heap: *const *const HeapEntry,
    /// The loop's cached time, which libev adds to every delay.
    base: f64,
    live: usize,
    /// Chunks of watchers, each from a `Box` that is freed on drop.
    pool: Vec<*mut [Watcher]>,
    free: *mut Watcher,
}

/// Returns the delay for a deadline, in libev's seconds, plus a half, because `ev_timer_again` stops a
/// timer with a delay of zero.
#[inline]
fn delay(deadline: u64) -> f64 {
    deadline as f64 + 0.5
}

impl Libev {
    /// Returns the heap's first entry, which must exist.
    #[inline]
    fn first(&self) -> &HeapEntry {
        debug_assert!(self.live > 0);
        // SAFETY: `heap` is the address in the loop of the pointer to the heap's array, as `find_heap`
        // established; with a live timer the array has its first entry.
        unsafe { &*(*self.heap).add(FIRST) }
    }

    #[cold]
    fn grow(&mut self) {
        let chunk: Box<[Watcher]> = (0..CHUNK).map(|_| Watcher::armed_for(0.0, 0)).collect();
        let chunk = Box::into_raw(chunk);
        // The chunk's first watcher is used first.
        for at in (0..CHUNK).rev() {
            // SAFETY: the chunk has `CHUNK` watchers, and no other pointer to them exists yet.
            unsafe {
                let watcher = chunk.cast::<Watcher>().add(at);
                (*watcher).next_free = self.free;
                self.free = watcher;
            }
        }
        self.pool.push(chunk);
    }

    /// Stops the first watcher and returns it to the pool, as `ev_run` does before the callback.
    #[inline]
    fn take_first(&mut self) -> u64 {
        let watcher = self.first().watcher;
        // SAFETY: the heap contains only watchers of this pool, which do not move.
        let payload = unsafe {
            ev_timer_stop(self.ev_loop, watcher);
            (*watcher).next_free = self.free;
            (*watcher).data
        };
        self.free = watcher;
        self.live -= 1;
        payload
    }
}

impl Contender for Libev {
    const NAME: &'static str = "libev";
    type Handle = NonNull<Watcher>;

    /// # Panics
    /// Panics if `usable` is false, or if libev cannot create a loop.
    fn new() -> Self {
        let at = HEAP_AT.get_or_init(find_heap);
        let at = at.expect("another libev than 4.33 as Debian builds it");
        let mut probe = Watcher::armed_for(0.0, 0);
        // SAFETY: only this value uses the loop; the watcher is stopped before it is dropped; `at` lies
        // within a loop.
        unsafe {
            let ev_loop = ev_loop_new(EVBACKEND_SELECT | EVFLAG_NOENV);
            assert!(!ev_loop.is_null(), "libev cannot make a loop");
            ev_timer_start(ev_loop, &raw mut probe);
            let base = probe.at;
            ev_timer_stop(ev_loop, &raw mut probe);
            Libev {
                ev_loop,
                heap: ev_loop.byte_add(at).cast(),
                base,
                live: 0,
                pool: Vec::new(),
                free: ptr::null_mut(),
            }
        }
    }

    #[inline]
    fn arm(&mut self, deadline: u64, payload: u64) -> Self::Handle {
        if self.free.is_null() {
            self.grow();
        }
        let watcher = self.free;
        self.live += 1;
        // SAFETY: a free watcher of the pool is not null, not active and not shared.
        unsafe {
            self.free = (*watcher).next_free;
            (*watcher).at = delay(deadline);
            (*watcher).data = payload;
            ev_timer_start(self.ev_loop, watcher);
            NonNull::new_unchecked(watcher)
        }
    }

    #[inline]
    fn cancel(&mut self, handle: Self::Handle) -> bool {
        // SAFETY: watchers of the pool live as long as the pool, whether they are active or not.
        unsafe {
            if (*handle.as_ptr()).active == 0 {
                return false;
            }
            ev_timer_stop(self.ev_loop, handle.as_ptr());
            (*handle.as_ptr()).next_free = self.free;
        }
        self.free = handle.as_ptr();
        self.live -= 1;
        true
    }

    #[inline]
    fn rearm(&mut self, handle: &mut Self::Handle, deadline: u64) {
        // SAFETY: as in `cancel`. An active watcher moves within the heap; libev does not read its
        // repetition again, because due watchers are stopped.
        unsafe {
            if (*handle.as_ptr()).active == 0 {
                return;
            }
            (*handle.as_ptr()).repeat = delay(deadline);
            ev_timer_again(self.ev_loop, handle.as_ptr());
        }
    }

    #[inline]
    fn fire(&mut self, now: u64, out: &mut impl FnMut(u64)) -> usize {
        let now = self.base + now as f64 + 1.0;
        let mut fired = 0;
        while self.live > 0 && self.first().at < now {
            out(self.take_first());
            fired += 1;
        }
        fired
    }

    #[inline]
    fn next_deadline(&mut self) -> Option<u64> {
        if self.live == 0 {
            return None;
        }
        Some((self.first().at - self.base) as u64)
    }

    #[inline]
    fn pop_earliest(&mut self, out: &mut impl FnMut(u64)) -> usize {
        if self.live == 0 {
            return 0;
        }
        out(self.take_first());
        1
    }

    fn extra_memory(&self) -> usize {
        // SAFETY: both are allocations of malloc, or null, for which it returns 0.
        unsafe {
            libc::malloc_usable_size(self.ev_loop.cast())
                + libc::malloc_usable_size((*self.heap).cast_mut().cast())
        }
    }
}

impl Drop for Libev {
    fn drop(&mut self) {
        // SAFETY: nothing uses the loop after this; libev does not access the watchers when it destroys it.
        // Each chunk came from a box, and is freed once.
        unsafe {
            ev_loop_destroy(self.ev_loop);
            for chunk in self.pool.drain(..) {
                drop(Box::from_raw(chunk));
            }
        }
    }
}
