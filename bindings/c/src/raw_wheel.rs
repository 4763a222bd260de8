//! `punctual_raw_wheel`: the wheel for timers that live in records of the caller's.
//!
//! The wheel asks back through a table of functions while it works. A `RefCell` sees to it that a
//! callback that uses its own wheel is refused instead of meeting it half changed.

use crate::Status;
use crate::boundary::guarded;
use punctual::queue::wheel::{Due, Place, RawWheel, Step, Timers};
use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// What a punctual_raw_wheel asks the owner of the timers. The functions should be a few instructions: they are
/// called once or twice in a timer's life. They must not use the wheel that calls them (it answers
/// PUNCTUAL_REENTERED), throw, or jump out.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TimerTable {
    /// Handed to the functions; may be NULL.
    pub owner: *mut c_void,
    /// Required. If an entry of this generation still stands for the timer `index`: sets `*deadline` to the
    /// deadline the timer has now and returns true. False if that entry is dead. Indices are those that were
    /// given to punctual_raw_wheel_insert.
    ///
    /// Between two calls of the wheel's functions a deadline may only grow while the generation stays the same.
    /// To re-arm a timer earlier, give it a new generation, insert that one and forget the old one. With
    /// `order`, the same goes for re-arming it to the same tick.
    pub deadline: Option<
        unsafe extern "C-unwind" fn(
            owner: *mut c_void,
            index: u32,
            generation: u32,
            deadline: *mut u64,
        ) -> bool,
    >,
    /// The place of the timer's last arming among all armings, compared modulo 2^32: equal deadlines
    /// are then popped in that order. NULL: in no particular order, and the wheel never sorts them.
    pub order: Option<unsafe extern "C-unwind" fn(owner: *mut c_void, index: u32) -> u32>,
}

/// Told where an entry of the timer `index` lies now. Keep `place`, a number below 1024, in the timer's record. The rules for
/// the functions of punctual_raw_timers hold.
pub type Moved = Option<
    unsafe extern "C-unwind" fn(owner: *mut c_void, index: u32, generation: u32, place: u16),
>;

/// An entry that fell due and is out of the wheel.
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

/// A hierarchical timing wheel that leaves the timers where they are: in an array of sessions, in the slots of
/// a cache. It files 12 bytes for each (part of the deadline, index, generation) and asks the owner whether an
/// entry still stands, and for when.
///
/// - To arm: set the deadline in your record, then punctual_raw_wheel_insert.
/// - To cancel: change the generation in your record, then punctual_raw_wheel_forget.
/// - To put off: set the later deadline in your record. The wheel need not be told.
/// - To re-arm earlier: a new deadline and a new generation, insert, forget; or see punctual_raw_wheel_reuse.
///
/// Take punctual_wheel unless records with an index exist anyway and memory or cache misses
/// count: it does the book-keeping, and reuses the entries of timers that were cancelled.
pub struct TimerFiles {
    table: TimerTable,
    /// Of punctual_raw_wheel_watch.
    moved: Cell<Moved>,
    wheel: RefCell<RawWheel>,
}

impl TimerFiles {
    fn tell_place(&self, index: u32, generation: u32, place: Place) {
        if let Some(moved) = self.moved.get() {
            // SAFETY: whoever gave it promised that it may be called with the owner, from within the wheel's
            // functions.
            unsafe { moved(self.table.owner, index, generation, place.to_bits()) }
        }
    }
}

/// The owner, asked for deadlines only.
struct Unordered<'a>(&'a TimerFiles);

/// The owner, asked for the order of armings too.
struct Ordered<'a>(Unordered<'a>);

impl Timers for Unordered<'_> {
    #[inline]
    fn deadline(&self, index: u32, generation: u32) -> Option<u64> {
        let table = &self.0.table;
        let mut deadline = 0;
        // SAFETY: whoever made the wheel promised functions that may be called with their owner, from
        // within the wheel's functions; `deadline` outlives the call.
        let stands =
            unsafe { (table.deadline?)(table.owner, index, generation, &raw mut deadline) };
        stands.then_some(deadline)
    }

    #[inline]
    fn moved(&mut self, index: u32, generation: u32, place: Place) {
        self.0.tell_place(index, generation, place);
    }
}

impl Timers for Ordered<'_> {
    const ORDERED: bool = true;

    #[inline]
    fn deadline(&self, index: u32, generation: u32) -> Option<u64> {
        self.0.deadline(index, generation)
    }

    #[inline]
    fn order(&self, index: u32) -> u32 {
        let table = &self.0.0.table;
        // SAFETY: as for `deadline`.
        table
            .order
            .map_or(0, |order| unsafe { order(table.owner, index) })
    }

    #[inline]
    fn moved(&mut self, index: u32, generation: u32, place: Place) {
        self.0.moved(index, generation, place);
    }
}

/// Runs `body` on the wheel, `timers` being its owner in the right form.
macro_rules! with_timers {
    ($files:expr, |$wheel:ident, $timers:ident| $body:expr) => {{
        match $files.wheel.try_borrow_mut() {
            Err(_) => Status::Reentered,
            Ok(mut borrowed) => {
                let $wheel = &mut *borrowed;
                guarded(Status::Panicked, || {
                    if $files.table.order.is_some() {
                        let $timers = &mut Ordered(Unordered($files));
                        $body
                    } else {
                        let $timers = &mut Unordered($files);
                        $body
                    }
                })
            }
        }
    }};
}

/// The wheel behind a pointer that may be null. Shared: callbacks may hold the pointer too.
#[inline]
fn files<'a>(wheel: Option<NonNull<TimerFiles>>) -> Option<&'a TimerFiles> {
    // SAFETY: the caller gives a pointer from `punctual_raw_wheel_new` that was not freed, and no
    // other thread uses it meanwhile; behind it, everything that changes is in a RefCell.
    wheel.map(|wheel| unsafe { wheel.as_ref() })
}

impl From<Due> for RawDue {
    fn from(due: Due) -> Self {
        RawDue {
            deadline: due.deadline,
            index: due.index,
            generation: due.generation,
        }
    }
}

/// A new empty wheel for the timers that `timers` tells of; give it back with punctual_raw_wheel_free. The
/// table is copied; what its `owner` points to must live as long as the wheel. O(1).
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
        moved: Cell::new(None),
        wheel: RefCell::new(RawWheel::new()),
    }))
}

/// Frees a wheel. The timers are not asked. NULL is allowed. O(memory).
///
/// Threads: one at a time, not from a callback of the wheel, and nobody uses it afterwards.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_raw_wheel_free(wheel: Option<Box<TimerFiles>>) {
    guarded((), || drop(wheel));
}

/// Files an entry for the timer `index`, whose deadline the caller has just set in its record. O(1).
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
    let Some(files) = files(wheel) else {
        return Status::Null;
    };
    match files.wheel.try_borrow_mut() {
        Ok(mut wheel) => guarded(Status::Panicked, || {
            let place = wheel.insert(deadline, index, generation);
            files.tell_place(index, generation, place);
            Status::Ok
        }),
        Err(_) => Status::Reentered,
    }
}

/// Has the wheel tell `moved` where entries lie: each when it is inserted, and again when it is filed elsewhere. That is what
/// punctual_raw_wheel_reuse wants to know. Of entries that were inserted before nothing is told until they move, so call
/// this first. NULL: nobody is told, as at first.
///
/// Returns PUNCTUAL_OK, or PUNCTUAL_NULL if `wheel` is.
///
/// Threads: one at a time.
///
/// # Safety
///
/// `moved` can be called with the wheel's owner, from within the wheel's functions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_raw_wheel_watch(
    wheel: Option<NonNull<TimerFiles>>,
    moved: Moved,
) -> Status {
    let Some(files) = files(wheel) else {
        return Status::Null;
    };
    files.moved.set(moved);
    Status::Ok
}

/// Re-arms a timer for an earlier deadline, which the caller has just set in its record, without filing anything, if its
/// entry can stand for that too: it lies at `place`, as was told last, and in a slot that holds the new deadline as well.
/// The generation stays. (To re-arm later nothing need be asked.) O(1).
///
/// Returns PUNCTUAL_OK, or PUNCTUAL_IDLE if the entry cannot: then take a new generation, insert that and forget the old one.
/// PUNCTUAL_NULL if `wheel` is, or nobody is told of places (punctual_raw_wheel_watch); PUNCTUAL_REENTERED.
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_raw_wheel_reuse(
    wheel: Option<NonNull<TimerFiles>>,
    place: u16,
    deadline: u64,
    index: u32,
    generation: u32,
) -> Status {
    let Some(files) = files(wheel).filter(|files| files.moved.get().is_some()) else {
        return Status::Null;
    };
    match files.wheel.try_borrow_mut() {
        Ok(mut wheel) => guarded(Status::Panicked, || {
            if wheel.reuse(Place::from_bits(place), deadline, index, generation) {
                Status::Ok
            } else {
                Status::Idle
            }
        }),
        Err(_) => Status::Reentered,
    }
}

/// Tells the wheel that one filed entry has died: its owner now answers false for it. Now and
/// then the wheel looks at a few entries, so that dead ones stay fewer than the live ones and some 256. O(1).
///
/// Returns PUNCTUAL_OK, or PUNCTUAL_NULL, PUNCTUAL_REENTERED.
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_raw_wheel_forget(wheel: Option<NonNull<TimerFiles>>) -> Status {
    let Some(files) = files(wheel) else {
        return Status::Null;
    };
    with_timers!(files, |wheel, timers| {
        wheel.forget(timers);
        Status::Ok
    })
}

/// Takes out the first entry that is due at `now`. `*due` becomes the entry; it may be NULL. O(1) amortised.
///
/// Returns PUNCTUAL_OK, or PUNCTUAL_IDLE if nothing is due (then `*due` stays), PUNCTUAL_NULL,
/// PUNCTUAL_REENTERED.
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_raw_wheel_pop_due(
    wheel: Option<NonNull<TimerFiles>>,
    now: u64,
    due: Option<&mut MaybeUninit<RawDue>>,
) -> Status {
    let Some(files) = files(wheel) else {
        return Status::Null;
    };
    with_timers!(files, |wheel, timers| {
        match wheel.pop_due(now, timers) {
            None => Status::Idle,
            Some(found) => {
                if let Some(due) = due {
                    due.write(found.into());
                }
                Status::Ok
            }
        }
    })
}

/// punctual_raw_wheel_pop_due with bounded work: every entry moved, dropped or looked at takes 1 from
/// `*budget`; the last piece of work may overdraw it by less than 512 entries. O(*budget).
///
/// Returns PUNCTUAL_OK (an entry: `*due`, if not NULL), PUNCTUAL_IDLE (nothing is due), PUNCTUAL_BUSY (the
/// budget is used up; there may be more), or PUNCTUAL_NULL if `wheel` or `budget` is, PUNCTUAL_REENTERED.
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_raw_wheel_poll(
    wheel: Option<NonNull<TimerFiles>>,
    now: u64,
    budget: Option<&mut usize>,
    due: Option<&mut MaybeUninit<RawDue>>,
) -> Status {
    let (Some(files), Some(budget)) = (files(wheel), budget) else {
        return Status::Null;
    };
    with_timers!(files, |wheel, timers| {
        match wheel.step(now, timers, budget) {
            Step::Idle => Status::Idle,
            Step::Busy => Status::Busy,
            Step::Due(found) => {
                if let Some(due) = due {
                    due.write(found.into());
                }
                Status::Ok
            }
        }
    })
}

/// `*deadline` becomes the earliest deadline of all timers; it may be NULL. O(1) amortised.
///
/// Returns PUNCTUAL_OK, or PUNCTUAL_IDLE if there are none (then `*deadline` stays), PUNCTUAL_NULL,
/// PUNCTUAL_REENTERED.
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_raw_wheel_next_deadline(
    wheel: Option<NonNull<TimerFiles>>,
    deadline: Option<&mut MaybeUninit<u64>>,
) -> Status {
    let Some(files) = files(wheel) else {
        return Status::Null;
    };
    with_timers!(files, |wheel, timers| {
        match wheel.next_deadline(timers) {
            None => Status::Idle,
            Some(earliest) => {
                if let Some(deadline) = deadline {
                    deadline.write(earliest);
                }
                Status::Ok
            }
        }
    })
}

/// `*tick` becomes a tick before which nothing is due and at which something may be; it may be NULL. A
/// loop that sleeps until then and pops may wake up to find nothing due; that costs it one look. O(1).
///
/// Returns PUNCTUAL_OK, or PUNCTUAL_IDLE if there are no entries (then `*tick` stays), PUNCTUAL_NULL,
/// PUNCTUAL_REENTERED.
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_raw_wheel_next_wakeup(
    wheel: Option<NonNull<TimerFiles>>,
    tick: Option<&mut MaybeUninit<u64>>,
) -> Status {
    let Some(files) = files(wheel) else {
        return Status::Null;
    };
    let Ok(wheel) = files.wheel.try_borrow() else {
        return Status::Reentered;
    };
    match wheel.next_wakeup() {
        None => Status::Idle,
        Some(earliest) => {
            if let Some(tick) = tick {
                tick.write(earliest);
            }
            Status::Ok
        }
    }
}

/// Entries filed and not forgotten: as many as there are timers armed. 0 if `wheel` is NULL or is
/// just calling. O(1).
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_raw_wheel_len(wheel: Option<NonNull<TimerFiles>>) -> usize {
    files(wheel)
        .and_then(|files| files.wheel.try_borrow().ok().map(|wheel| wheel.live()))
        .unwrap_or(0)
}

/// Drops all entries and gives all memory back. The timers are not asked. O(memory).
///
/// Returns PUNCTUAL_OK, or PUNCTUAL_NULL, PUNCTUAL_REENTERED.
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_raw_wheel_clear(wheel: Option<NonNull<TimerFiles>>) -> Status {
    let Some(files) = files(wheel) else {
        return Status::Null;
    };
    match files.wheel.try_borrow_mut() {
        Ok(mut wheel) => guarded(Status::Panicked, || {
            wheel.clear();
            Status::Ok
        }),
        Err(_) => Status::Reentered,
    }
}

/// Bytes that the wheel takes; 0 if `wheel` is NULL or is just calling. O(memory / 64 KiB).
///
/// Threads: one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_raw_wheel_memory(wheel: Option<NonNull<TimerFiles>>) -> usize {
    files(wheel)
        .and_then(|files| files.wheel.try_borrow().ok().map(|wheel| wheel.memory()))
        .unwrap_or(0)
}
