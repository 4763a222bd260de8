//! `punctual_raw_wheel`: the wheel for timers that are fields of the caller's records.
//!
//! The wheel calls back through a table of functions while it works. A `RefCell` refuses a callback
//! that uses its own wheel.

use crate::Status;
use crate::boundary::{guarded, on};
use crate::wheel::store_result;
use punctual::queue::wheel::{Entry, RawWheel, Step, Timers};
use std::cell::RefCell;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// The functions through which a punctual_raw_wheel queries the owner of the timers. Keep them to a
/// few instructions: the wheel calls them once or twice in a timer's life. They must not use the
/// calling wheel (it returns PUNCTUAL_REENTERED), throw, or longjmp.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TimerTable {
    /// Passed to the functions; may be NULL.
    pub owner: *mut c_void,
    /// Required. If `generation` is current for the timer `index`, sets `*deadline` to the timer's
    /// present deadline and returns true. Otherwise the entry is dead, and it returns false.
    /// Indices are those passed to punctual_raw_wheel_insert.
    ///
    /// Between two calls of the wheel's functions a deadline may only grow while the generation
    /// stays the same. To re-arm a timer earlier, set a new generation, insert it and forget the
    /// old one. With `order`, the same applies to re-arming at the same tick.
    pub deadline: Option<
        unsafe extern "C-unwind" fn(
            owner: *mut c_void,
            index: u32,
            generation: u32,
            deadline: *mut u64,
        ) -> bool,
    >,
    /// Returns the number of the timer's last arming; a later arming has a larger number. Equal
    /// deadlines are popped in this order. NULL: equal deadlines are popped in no particular order,
    /// and the wheel never sorts them.
    pub order: Option<unsafe extern "C-unwind" fn(owner: *mut c_void, index: u32) -> u32>,
}

/// A due entry that was removed from the wheel.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawDue {
    /// The timer's deadline.
    pub deadline: u64,
    /// The timer's index.
    pub index: u32,
    /// The generation of the entry.
    pub generation: u32,
}

/// A hierarchical timing wheel for timers that live in the caller's records, such as an array of
/// sessions or the slots of a cache. It stores an entry of 12 bytes per timer (part of the
/// deadline, index, generation) and asks the owner whether the entry is current, and for the
/// deadline.
///
/// - To arm: set the deadline in your record, then call punctual_raw_wheel_insert.
/// - To cancel: change the generation in your record, then call punctual_raw_wheel_forget.
/// - To re-arm later: set the deadline in your record. No call is needed.
/// - To re-arm earlier: set a new deadline and a new generation, insert, forget.
///
/// Prefer punctual_wheel unless you have records with an index anyway and memory or cache misses
/// matter: it keeps the records itself and reuses the entries of cancelled timers.
pub struct TimerFiles {
    table: TimerTable,
    wheel: RefCell<RawWheel>,
}

/// The owner of the timers, queried for the order of armings if `ORDERED`.
struct Owner<'a, const ORDERED: bool>(&'a TimerFiles);

impl<const ORDERED: bool> Timers for Owner<'_, ORDERED> {
    const ORDERED: bool = ORDERED;

    #[inline]
    fn deadline(&self, index: u32, generation: u32) -> Option<u64> {
        let table = &self.0.table;
        let mut deadline = 0;
        // SAFETY: the creator of the wheel promised functions that may be called with their owner
        // from within the wheel's functions; `deadline` outlives the call.
        let stands =
            unsafe { (table.deadline?)(table.owner, index, generation, &raw mut deadline) };
        stands.then_some(deadline)
    }

    #[inline]
    fn sequence(&self, index: u32) -> u32 {
        let table = &self.0.table;
        // SAFETY: as for `deadline`.
        table
            .order
            .map_or(0, |order| unsafe { order(table.owner, index) })
    }
}

/// Returns the wheel behind a nullable pointer. Shared, because callbacks may hold the pointer too.
#[inline]
fn wheel_ref<'a>(wheel: Option<NonNull<TimerFiles>>) -> Option<&'a TimerFiles> {
    // SAFETY: the caller passes a pointer from `punctual_raw_wheel_new` that is not freed, and no
    // other thread uses it meanwhile; a RefCell contains everything that changes.
    wheel.map(|wheel| unsafe { wheel.as_ref() })
}

/// Runs `body` on the wheel behind a nullable pointer, unless one of its callbacks makes the call.
fn with_wheel(
    wheel: Option<NonNull<TimerFiles>>,
    body: impl FnOnce(&TimerFiles, &mut RawWheel) -> Status,
) -> Status {
    on(wheel_ref(wheel), |files| {
        match files.wheel.try_borrow_mut() {
            Ok(mut wheel) => body(files, &mut wheel),
            Err(_) => Status::Reentered,
        }
    })
}

/// Runs `body` on the wheel behind a nullable pointer, with `timers` as the view of its owner.
macro_rules! with_timers {
    ($pointer:expr, |$wheel:ident, $timers:ident| $body:expr) => {
        with_wheel($pointer, |files, $wheel| {
            if files.table.order.is_some() {
                let $timers = &mut Owner::<true>(files);
                $body
            } else {
                let $timers = &mut Owner::<false>(files);
                $body
            }
        })
    };
}

impl From<Entry> for RawDue {
    fn from(due: Entry) -> Self {
        RawDue {
            deadline: due.deadline,
            index: due.index,
            generation: due.generation,
        }
    }
}

/// Creates an empty wheel for the timers of `timers`; free it with punctual_raw_wheel_free. The
/// table is copied; its `owner` must outlive the wheel. O(1).
///
/// Returns NULL if `timers` or its `deadline` is NULL.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_raw_wheel_new(timers: Option<&TimerTable>) -> Option<Box<TimerFiles>> {
    let table = *timers?;
    table.deadline?;
    Some(Box::new(TimerFiles {
        table,
        wheel: RefCell::new(RawWheel::new()),
    }))
}

/// Frees a wheel without calling its functions. NULL is allowed. O(memory).
///
/// Threads: one at a time, not from a callback of the wheel, and no use afterwards.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_raw_wheel_free(wheel: Option<Box<TimerFiles>>) {
    guarded((), || drop(wheel));
}

/// Inserts an entry for the timer `index`, whose deadline the caller has just set in its record.
/// O(1).
///
/// Returns PUNCTUAL_OK, or PUNCTUAL_NULL, PUNCTUAL_REENTERED.
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_raw_wheel_insert(
    wheel: Option<NonNull<TimerFiles>>,
    deadline: u64,
    index: u32,
    generation: u32,
) -> Status {
    with_wheel(wheel, |_, wheel| {
        wheel.insert(deadline, index, generation);
        Status::Ok
    })
}

/// Reports that an entry has died: its owner now returns false for it. The wheel sweeps a few
/// entries from time to time, so that dead entries stay fewer than the live ones plus some 256.
/// O(1).
///
/// Returns PUNCTUAL_OK, or PUNCTUAL_NULL, PUNCTUAL_REENTERED.
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_raw_wheel_forget(wheel: Option<NonNull<TimerFiles>>) -> Status {
    with_timers!(wheel, |wheel, timers| {
        wheel.forget(timers);
        Status::Ok
    })
}

/// Removes the first entry that is due at `now`. `*due` receives the entry; `due` may be NULL. O(1)
/// amortised.
///
/// Returns PUNCTUAL_OK, or PUNCTUAL_IDLE if nothing is due (`*due` is unchanged), PUNCTUAL_NULL,
/// PUNCTUAL_REENTERED.
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_raw_wheel_pop_due(
    wheel: Option<NonNull<TimerFiles>>,
    now: u64,
    due: Option<&mut MaybeUninit<RawDue>>,
) -> Status {
    with_timers!(wheel, |wheel, timers| {
        let found = wheel.pop_due(now, timers).map(RawDue::from);
        store_result(found, due, Status::Idle)
    })
}

/// Same as punctual_raw_wheel_pop_due with bounded work: every entry moved, dropped or checked
/// takes 1 from `*budget`. The last step may exceed the budget by less than 512 entries.
/// O(*budget).
///
/// Returns PUNCTUAL_OK (an entry: `*due`, if not NULL), PUNCTUAL_IDLE (nothing is due),
/// PUNCTUAL_BUSY (the budget is exhausted; more may be due), or PUNCTUAL_NULL if `wheel` or
/// `budget` is NULL, PUNCTUAL_REENTERED.
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_raw_wheel_poll(
    wheel: Option<NonNull<TimerFiles>>,
    now: u64,
    budget: Option<&mut usize>,
    due: Option<&mut MaybeUninit<RawDue>>,
) -> Status {
    let Some(budget) = budget else {
        return Status::Null;
    };
    with_timers!(wheel, |wheel, timers| {
        match wheel.step(now, timers, budget) {
            Step::Idle => Status::Idle,
            Step::Busy => Status::Busy,
            Step::Due(found) => store_result(Some(found.into()), due, Status::Ok),
        }
    })
}

/// `*deadline` receives the earliest deadline of all timers; `deadline` may be NULL. O(1)
/// amortised.
///
/// Returns PUNCTUAL_OK, or PUNCTUAL_IDLE if there are no timers (`*deadline` is unchanged),
/// PUNCTUAL_NULL, PUNCTUAL_REENTERED.
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_raw_wheel_next_deadline(
    wheel: Option<NonNull<TimerFiles>>,
    deadline: Option<&mut MaybeUninit<u64>>,
) -> Status {
    with_timers!(wheel, |wheel, timers| {
        store_result(wheel.next_deadline(timers), deadline, Status::Idle)
    })
}

/// `*tick` receives a lower bound of all deadlines; `tick` may be NULL. A loop that sleeps until
/// then and pops may find nothing due, at the cost of one call. O(1).
///
/// Returns PUNCTUAL_OK, or PUNCTUAL_IDLE if there are no entries (`*tick` is unchanged),
/// PUNCTUAL_NULL, PUNCTUAL_REENTERED.
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_raw_wheel_next_wakeup(
    wheel: Option<NonNull<TimerFiles>>,
    tick: Option<&mut MaybeUninit<u64>>,
) -> Status {
    with_wheel(wheel, |_, wheel| {
        store_result(wheel.next_wakeup(), tick, Status::Idle)
    })
}

/// Returns the number of entries inserted and not forgotten, which equals the number of armed
/// timers. 0 if `wheel` is NULL or is calling a function of its table. O(1).
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_raw_wheel_len(wheel: Option<NonNull<TimerFiles>>) -> usize {
    wheel_ref(wheel)
        .and_then(|files| files.wheel.try_borrow().ok().map(|wheel| wheel.live()))
        .unwrap_or(0)
}

/// Removes all entries and releases all memory, without calling the wheel's functions. O(memory).
///
/// Returns PUNCTUAL_OK, or PUNCTUAL_NULL, PUNCTUAL_REENTERED.
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_raw_wheel_clear(wheel: Option<NonNull<TimerFiles>>) -> Status {
    with_wheel(wheel, |_, wheel| {
        wheel.clear();
        Status::Ok
    })
}

/// Returns the size of the wheel in bytes; 0 if `wheel` is NULL or is calling a function of its
/// table. O(memory / 64 KiB).
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_raw_wheel_memory(wheel: Option<NonNull<TimerFiles>>) -> usize {
    wheel_ref(wheel)
        .and_then(|files| files.wheel.try_borrow().ok().map(|wheel| wheel.memory()))
        .unwrap_or(0)
}
