//! `punctual_raw_wheel`: the wheel for timers that the caller stores in its own records.
//!
//! While the wheel works, it calls functions of the caller through a table. A `RefCell` detects a
//! callback that uses its own wheel.

use crate::Status;
use crate::boundary::{guarded, on};
use crate::wheel::store_result;
use punctual::queue::wheel::{self, Entry, Step, Timers};
use std::cell::RefCell;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// The functions through which a punctual_raw_wheel reads the caller's timers. They should take a
/// few instructions, because most functions of the wheel may call them. They must not throw,
/// longjmp, or use the wheel that calls them: its functions then return PUNCTUAL_REENTERED.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawTimers {
    /// Pointer that the wheel passes to the functions; may be NULL.
    pub owner: *mut c_void,
    /// Required. If `generation` is the current generation of the timer `index`, writes the timer's
    /// current deadline to `*deadline` and returns true. Otherwise the entry is dead, and the
    /// function returns false. `index` and `generation` were passed to punctual_raw_wheel_insert.
    ///
    /// While the generation stays the same, the deadline may only grow. To re-arm a timer to an
    /// earlier tick, give it a new generation, insert an entry of that generation, and forget the
    /// old entry. If `order` is set, do the same to re-arm a timer to the same tick.
    pub deadline: Option<
        unsafe extern "C-unwind" fn(
            owner: *mut c_void,
            index: u32,
            generation: u32,
            deadline: *mut u64,
        ) -> bool,
    >,
    /// Returns the number of the timer's last arming. A later arming must have a larger number.
    /// Timers with equal deadlines are popped in the order of these numbers. If NULL, they are
    /// popped in no particular order.
    pub order: Option<unsafe extern "C-unwind" fn(owner: *mut c_void, index: u32) -> u32>,
}

/// A due entry that was removed from the wheel.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawDue {
    /// Deadline of the timer.
    pub deadline: u64,
    /// Index of the timer.
    pub index: u32,
    /// Generation of the entry.
    pub generation: u32,
}

/// A hierarchical timing wheel for timers that the caller stores in its own records, such as an
/// array of sessions or the slots of a cache. The wheel stores an entry of 12 bytes per timer
/// (index, generation and a part of the deadline). It reads the timer's deadline from the caller's
/// record, and whether the entry is current.
///
/// - To arm: set the deadline in your record, then call punctual_raw_wheel_insert.
/// - To cancel: change the generation in your record, then call punctual_raw_wheel_forget.
/// - To re-arm later: set the deadline in your record. No call is needed.
/// - To re-arm earlier: set a new deadline and a new generation, insert, forget.
///
/// Prefer punctual_wheel, which stores its timers and reuses the entries of cancelled timers. Use
/// this wheel if you already have records with an index, and memory or cache misses matter.
pub struct RawWheel {
    table: RawTimers,
    wheel: RefCell<wheel::RawWheel>,
}

/// The caller's timers, as the engine's wheel reads them. If `ORDERED`, the table has `order`.
struct Owner<'a, const ORDERED: bool>(&'a RawWheel);

impl<const ORDERED: bool> Timers for Owner<'_, ORDERED> {
    const ORDERED: bool = ORDERED;

    #[inline]
    fn deadline(&self, index: u32, generation: u32) -> Option<u64> {
        let table = &self.0.table;
        let mut deadline = 0;
        // SAFETY: the creator of the wheel guarantees that the wheel may call the functions of the
        // table with `owner`. `deadline` outlives the call.
        let is_current =
            unsafe { (table.deadline?)(table.owner, index, generation, &raw mut deadline) };
        is_current.then_some(deadline)
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

/// Returns the wheel behind a nullable pointer, as a shared reference, because a callback may use
/// the same pointer meanwhile.
#[inline]
fn wheel_ref<'a>(wheel: Option<NonNull<RawWheel>>) -> Option<&'a RawWheel> {
    // SAFETY: the caller passes a pointer from `punctual_raw_wheel_new` that is not freed, and no
    // other thread uses it meanwhile. All data that changes is in a `RefCell`.
    wheel.map(|wheel| unsafe { wheel.as_ref() })
}

/// Calls `body` with the wheel behind a nullable pointer. Returns [`Status::Reentered`] in a
/// callback of this wheel.
fn with_wheel(
    wheel: Option<NonNull<RawWheel>>,
    body: impl FnOnce(&RawWheel, &mut wheel::RawWheel) -> Status,
) -> Status {
    on(wheel_ref(wheel), |raw| match raw.wheel.try_borrow_mut() {
        Ok(mut wheel) => body(raw, &mut wheel),
        Err(_) => Status::Reentered,
    })
}

/// Evaluates `body` with the wheel behind a nullable pointer and with its caller's `timers`.
macro_rules! with_timers {
    ($pointer:expr, |$wheel:ident, $timers:ident| $body:expr) => {
        with_wheel($pointer, |raw, $wheel| {
            if raw.table.order.is_some() {
                let $timers = &mut Owner::<true>(raw);
                $body
            } else {
                let $timers = &mut Owner::<false>(raw);
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

/// Creates an empty wheel for the caller's timers. Free it with punctual_raw_wheel_free. The table
/// `timers` is copied; its `owner` must outlive the wheel. O(1).
///
/// Returns NULL if `timers` or its `deadline` is NULL.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_raw_wheel_new(timers: Option<&RawTimers>) -> Option<Box<RawWheel>> {
    let table = *timers?;
    table.deadline?;
    Some(Box::new(RawWheel {
        table,
        wheel: RefCell::new(wheel::RawWheel::new()),
    }))
}

/// Frees a wheel without calling the functions of its table. NULL is allowed. O(memory).
///
/// Threads: one at a time, and not in a callback of the wheel. Do not use the wheel afterwards.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_raw_wheel_free(wheel: Option<Box<RawWheel>>) {
    guarded((), || drop(wheel));
}

/// Inserts an entry for the timer `index`, whose deadline and generation the caller has just set in
/// its record. O(1).
///
/// Returns PUNCTUAL_OK, PUNCTUAL_NULL or PUNCTUAL_REENTERED.
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_raw_wheel_insert(
    wheel: Option<NonNull<RawWheel>>,
    deadline: u64,
    index: u32,
    generation: u32,
) -> Status {
    with_wheel(wheel, |_, wheel| {
        wheel.insert(deadline, index, generation);
        Status::Ok
    })
}

/// Reports that one entry is dead: the table's `deadline` now returns false for it. Some calls also
/// sweep a few entries, so that there are fewer dead entries than live entries plus some hundreds.
/// O(1) amortised.
///
/// Returns PUNCTUAL_OK, PUNCTUAL_NULL or PUNCTUAL_REENTERED.
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_raw_wheel_forget(wheel: Option<NonNull<RawWheel>>) -> Status {
    with_timers!(wheel, |wheel, timers| {
        wheel.forget(timers);
        Status::Ok
    })
}

/// Removes the first entry that is due at `now` and writes it to `*due`; `due` may be NULL. O(1)
/// amortised.
///
/// Returns PUNCTUAL_OK, PUNCTUAL_IDLE if no timer is due (`*due` is unchanged), PUNCTUAL_NULL, or
/// PUNCTUAL_REENTERED.
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_raw_wheel_pop_due(
    wheel: Option<NonNull<RawWheel>>,
    now: u64,
    due: Option<&mut MaybeUninit<RawDue>>,
) -> Status {
    with_timers!(wheel, |wheel, timers| {
        let found = wheel.pop_due(now, timers).map(RawDue::from);
        store_result(found, due, Status::Idle)
    })
}

/// Pops like punctual_raw_wheel_pop_due, with bounded work: every entry that the wheel moves, drops
/// or checks takes 1 from `*budget`. The last step may exceed the budget by less than 512 entries.
/// O(*budget).
///
/// Returns PUNCTUAL_OK (an entry was popped and written to `*due`, if not NULL), PUNCTUAL_IDLE (no
/// entry is due), PUNCTUAL_BUSY (the budget is used up; more entries may be due), PUNCTUAL_NULL if
/// `wheel` or `budget` is NULL, or PUNCTUAL_REENTERED.
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_raw_wheel_poll(
    wheel: Option<NonNull<RawWheel>>,
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

/// Writes the earliest deadline of all timers to `*deadline`; `deadline` may be NULL. O(1)
/// amortised.
///
/// Returns PUNCTUAL_OK, PUNCTUAL_IDLE if no timer is armed (`*deadline` is unchanged),
/// PUNCTUAL_NULL, or PUNCTUAL_REENTERED.
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_raw_wheel_next_deadline(
    wheel: Option<NonNull<RawWheel>>,
    deadline: Option<&mut MaybeUninit<u64>>,
) -> Status {
    with_timers!(wheel, |wheel, timers| {
        store_result(wheel.next_deadline(timers), deadline, Status::Idle)
    })
}

/// Writes a lower bound of all deadlines to `*tick`; `tick` may be NULL. A loop that sleeps until
/// this tick and then pops may find no entry due; then it sleeps again. O(1).
///
/// Returns PUNCTUAL_OK, PUNCTUAL_IDLE if the wheel has no entries (`*tick` is unchanged),
/// PUNCTUAL_NULL, or PUNCTUAL_REENTERED.
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_raw_wheel_next_wakeup(
    wheel: Option<NonNull<RawWheel>>,
    tick: Option<&mut MaybeUninit<u64>>,
) -> Status {
    with_wheel(wheel, |_, wheel| {
        store_result(wheel.next_wakeup(), tick, Status::Idle)
    })
}

/// Returns the number of entries that were inserted and neither popped nor forgotten, which equals
/// the number of armed timers. Returns 0 if `wheel` is NULL or is calling a function of its table.
/// O(1).
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_raw_wheel_len(wheel: Option<NonNull<RawWheel>>) -> usize {
    wheel_ref(wheel)
        .and_then(|raw| raw.wheel.try_borrow().ok().map(|wheel| wheel.live()))
        .unwrap_or(0)
}

/// Removes all entries and frees their memory, without calling the functions of the table.
/// O(memory).
///
/// Returns PUNCTUAL_OK, PUNCTUAL_NULL or PUNCTUAL_REENTERED.
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_raw_wheel_clear(wheel: Option<NonNull<RawWheel>>) -> Status {
    with_wheel(wheel, |_, wheel| {
        wheel.clear();
        Status::Ok
    })
}

/// Returns the size of the wheel in bytes, or 0 if `wheel` is NULL or is calling a function of its
/// table. O(1).
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_raw_wheel_memory(wheel: Option<NonNull<RawWheel>>) -> usize {
    wheel_ref(wheel)
        .and_then(|raw| raw.wheel.try_borrow().ok().map(|wheel| wheel.memory()))
        .unwrap_or(0)
}
