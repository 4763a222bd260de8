//! The raw wheel: files entries, and finds and pops the due entries.
//!
//! Ground rules, besides the states and their invariants, which the [module](super) lists:
//!
//! - The owner stores the timers, and the wheel reads a timer only through [`Timers`]. For a
//!   cancel, the owner changes the timer's generation, which makes the entry dead, and then calls
//!   [`forget`](RawWheel::forget), which counts it. (In a [`Wheel`](super::Wheel), a cancel leaves
//!   a spare entry instead.)
//! - Every live timer has an entry with the timer's generation, filed at its deadline or earlier.
//!   In a [`Wheel`](super::Wheel), undecided timers have no entry yet, and a timer may rarely have
//!   two entries (see `records`).
//! - The cursor may be ahead of the clock. Entries before the cursor go to the front, and stay
//!   there if the cursor is set back later. An entry that is armed later for the same tick is
//!   popped after them.
//!
//! This file has the public interface and the state. `serve` finds and pops due entries, `sweep`
//! removes dead entries, `cursor` sets the cursor back.

use super::chunk::{Entry, Packed, Pool};
use super::cursor::AT_END;
use super::earliest::Earliest;
use super::front::Front;
use super::level::{FAR, LEVELS, Level, deadline_in, digit, level_of, slot_start};
use super::sweep::{CANCELS_PER_STEP, Sweep};
use super::timers::{Step, Timers};
use core::mem::{size_of, size_of_val};

/// A hierarchical timing wheel whose caller stores the timers.
///
/// It orders `u64` ticks over their full range. A deadline in the past is due at once. No timer is
/// popped before its deadline, even if the clock steps back.
///
/// The hierarchy of wheels is from Varghese and Lauck (*Hashed and Hierarchical Timing Wheels*,
/// SOSP 1987, scheme 7). Unlike there, the wheel finds the first slot through bitmaps, without
/// stepping through empty slots.
///
/// # Examples
///
/// ```
/// use punctual::queue::wheel::{RawWheel, Timers};
///
/// /// Deadline and generation of each session.
/// struct Sessions(Vec<(u64, u32)>);
///
/// impl Timers for Sessions {
///     fn deadline(&self, index: u32, generation: u32) -> Option<u64> {
///         let &(deadline, current) = self.0.get(index as usize)?;
///         (current == generation).then_some(deadline)
///     }
/// }
///
/// let mut sessions = Sessions(vec![(100, 0), (200, 0), (300, 0)]);
/// let mut wheel = RawWheel::new();
/// for (index, &(deadline, generation)) in sessions.0.iter().enumerate() {
///     wheel.insert(deadline, index as u32, generation);
/// }
///
/// sessions.0[0].0 = 400; // re-armed later: the wheel needs no call
/// sessions.0[1].1 += 1; // cancelled: its entry is dead
/// wheel.forget(&mut sessions);
///
/// assert_eq!(wheel.next_deadline(&mut sessions), Some(300));
/// assert_eq!(wheel.pop_due(1_000, &mut sessions).map(|due| due.index), Some(2));
/// assert_eq!(wheel.pop_due(1_000, &mut sessions).map(|due| due.index), Some(0));
/// assert_eq!(wheel.pop_due(1_000, &mut sessions), None);
/// ```
#[derive(Debug)]
pub struct RawWheel {
    pub(super) cursor: u64,
    /// Bit `l`: level `l` has entries.
    pub(super) occupied: u16,
    /// Number of ticks that the pending slot spans; 1 if no slot is pending.
    pub(super) pending_span: u64,
    pub(super) levels: [Level; LEVELS],
    pub(super) pool: Pool,
    pub(super) front: Front,
    pub(super) earliest: Earliest,
    /// Number of entries in the levels and in the front, plus the held entry.
    pub(super) entries: usize,
    /// Number of entries that the owner has made dead and the wheel has not dropped yet.
    pub(super) dead: usize,
    /// Number of entries filed before the cursor, while it is ahead of the clock, since the cursor
    /// was last set back or reached the end of time.
    pub(super) before_cursor: usize,
    /// The last `now` that a caller passed.
    pub(super) now: u64,
    pub(super) sweep: Option<Sweep>,
    /// Whether the wheel or the owner's records may have memory to free.
    pub(super) has_memory_to_free: bool,
    /// Number of times that an entry was put into a slot, for tests of the work per step.
    #[cfg(test)]
    pub(super) puts: usize,
}

impl Default for RawWheel {
    fn default() -> Self {
        Self::new()
    }
}

impl RawWheel {
    /// Returns an empty wheel. Allocates nothing. O(1).
    ///
    /// ```
    /// use punctual::queue::wheel::RawWheel;
    ///
    /// static EMPTY: RawWheel = RawWheel::new();
    /// assert_eq!(EMPTY.entries(), 0);
    /// ```
    pub const fn new() -> Self {
        RawWheel {
            cursor: AT_END,
            occupied: 0,
            pending_span: 1,
            levels: [const { Level::EMPTY }; LEVELS],
            pool: Pool::new(),
            front: Front::new(),
            earliest: Earliest::new(),
            entries: 0,
            dead: 0,
            before_cursor: 0,
            now: 0,
            sweep: None,
            has_memory_to_free: false,
            #[cfg(test)]
            puts: 0,
        }
    }

    /// Files an entry for the timer `index` with the given deadline. O(1).
    ///
    /// # Panics
    ///
    /// If the entries need almost 2^32 chunks.
    ///
    /// ```
    /// # use punctual::queue::wheel::RawWheel;
    /// let mut wheel = RawWheel::new();
    /// wheel.insert(1_000, 0, 0);
    /// assert_eq!(wheel.next_wakeup(), Some(1_000));
    /// ```
    #[inline(always)]
    pub fn insert(&mut self, deadline: u64, index: u32, generation: u32) {
        self.add(Entry {
            deadline,
            index,
            generation,
        });
    }

    /// Files a new entry.
    #[inline(always)]
    pub(super) fn add(&mut self, entry: Entry) {
        self.entries += 1;
        if entry.deadline < self.earliest.first() {
            self.hold_or_file(entry);
        } else {
            self.file(entry);
        }
    }

    /// Files the held entry, if any. Then holds the new entry if it is due before all others, and
    /// files it otherwise.
    #[inline(never)]
    fn hold_or_file(&mut self, entry: Entry) {
        self.file_held();
        if entry.deadline < self.earliest.first() {
            self.hold(entry);
        } else {
            self.file(entry);
        }
    }

    /// Holds an entry that is due before all others. No other entry may be held; the held entry
    /// itself may move to an earlier tick.
    pub(super) fn hold(&mut self, entry: Entry) {
        self.front.limit_run_first(entry.deadline);
        self.earliest.hold(entry);
    }

    /// Files an entry that `entries` already counts.
    #[inline(always)]
    pub(super) fn file(&mut self, entry: Entry) {
        if entry.deadline < self.cursor && !self.set_back_for(entry.deadline) {
            self.front.stage(entry);
        } else {
            // A timer that is armed again for the tick of its dead entry has the generation of
            // that entry, which so is valid again (see `records`). It lies before the new entry,
            // and would fire the timer too early among equal deadlines. So while the wheel has dead
            // entries, the slot is unordered.
            self.place(entry, self.dead > 0);
        }
    }

    /// Drops the held entry if its timer is gone, or moves it if its timer was re-armed. Returns
    /// true if it dropped or moved the entry.
    #[inline]
    pub(super) fn update_held(&mut self, timers: &mut impl Timers) -> bool {
        let deadline = |held: Entry| timers.deadline(held.index, held.generation);
        let is_outdated = |held: Entry| deadline(held) != Some(held.deadline);
        let Some(held) = self.earliest.release_if(is_outdated) else {
            return false;
        };
        match deadline(held) {
            None => self.drop_dead(held.index, held.generation, timers),
            Some(later) if later < self.earliest.first() => {
                self.hold(timers.refiled(held.at(later)));
            }
            Some(later) => self.refile(held.at(later), timers),
        }
        true
    }

    /// Files the held entry, if any. All work on entries starts with this call. Only
    /// `Wheel::pop_due` takes entries of the run up to `run_first_until` without it, because these
    /// are due before the held entry.
    #[inline]
    pub(super) fn file_held(&mut self) {
        if let Some(held) = self.earliest.release() {
            self.file(held);
        }
    }

    /// Marks the slot of the tick `filed` unordered, because a timer was armed again for the tick
    /// of its entry. O(1).
    pub(super) fn mark_unordered(&mut self, filed: u64) {
        if filed < self.cursor {
            return; // in the front, which compares sequences again at a pop
        }
        // The entry is in the tick's slot, in the pending slot above it, or already in the front.
        for at in [level_of((filed ^ self.cursor) | 1), self.pending()] {
            let level = &mut self.levels[at];
            level.unordered |= level.occupied & 1 << digit(filed, at);
        }
    }

    /// Counts one filed entry as dead: [`Timers::deadline`] now returns `None` for it.
    ///
    /// O(1) amortised: some calls also sweep a few entries, so that there are fewer dead entries
    /// than live entries plus some hundreds.
    ///
    /// ```
    /// # use punctual::queue::wheel::{RawWheel, Timers};
    /// struct Gone;
    /// impl Timers for Gone {
    ///     fn deadline(&self, _: u32, _: u32) -> Option<u64> { None }
    /// }
    /// let mut wheel = RawWheel::new();
    /// wheel.insert(1_000, 0, 0);
    /// wheel.forget(&mut Gone);
    /// assert_eq!(wheel.live(), 0);
    /// ```
    #[inline]
    pub fn forget(&mut self, timers: &mut impl Timers) {
        self.forget_among(self.live().saturating_sub(1), timers);
    }

    /// Does what [`forget`](Self::forget) does, given the number of live timers.
    #[inline]
    pub(super) fn forget_among(&mut self, live: usize, timers: &mut impl Timers) {
        self.dead += 1;
        if self.dead.is_multiple_of(CANCELS_PER_STEP)
            && (self.dead > live + 256 || self.sweep.is_some())
        {
            self.sweep(timers);
        }
    }

    /// Does one step of bounded work: pops a due entry, or does part of the work that must come
    /// first.
    ///
    /// Every entry that the wheel moves, drops or looks up takes 1 from `budget`. The last piece of
    /// work may exceed the budget by less than 512 entries. A slot of a million entries is moved
    /// over several calls. The budget does not limit the packing of the entries, which
    /// [`shrink_to_fit`](Self::shrink_to_fit) describes. Over its life, an entry costs at most one
    /// move per level that it descends: O(log64 of the ticks until its deadline), amortised.
    ///
    /// ```
    /// # use punctual::queue::wheel::{RawWheel, Step, Timers};
    /// struct Sessions(Vec<u64>);
    /// impl Timers for Sessions {
    ///     fn deadline(&self, index: u32, _: u32) -> Option<u64> { self.0.get(index as usize).copied() }
    /// }
    /// let mut sessions = Sessions(vec![7; 1_000]);
    /// let mut wheel = RawWheel::new();
    /// (0..1_000).for_each(|index| {
    ///     wheel.insert(7, index, 0);
    /// });
    ///
    /// let (mut fired, mut turns) = (0, 0);
    /// let mut budget = 100;
    /// loop {
    ///     match wheel.step(7, &mut sessions, &mut budget) {
    ///         Step::Due(_) => fired += 1,
    ///         Step::Busy => (turns, budget) = (turns + 1, 100), // time for other work
    ///         Step::Idle => break,
    ///     }
    /// }
    /// assert!(fired == 1_000 && turns >= 10);
    /// ```
    #[inline]
    pub fn step(&mut self, now: u64, timers: &mut impl Timers, budget: &mut usize) -> Step {
        if self.is_idle(now) {
            return Step::Idle;
        }
        self.file_held();
        // The common case: the next entry of the run.
        if *budget > 0
            && let Some(next) = self.peek_run(now)
        {
            *budget -= 1;
            self.front.advance();
            if let Some(due) = self.resolve_ready(next, timers) {
                return Step::Due(due);
            }
        }
        self.serve(timers, budget)
    }

    /// Pops the earliest due timer. This is [`RawWheel::step`] without a budget. O(1) amortised.
    ///
    /// ```
    /// # use punctual::queue::wheel::{RawWheel, Timers};
    /// struct Sessions(Vec<u64>);
    /// impl Timers for Sessions {
    ///     fn deadline(&self, index: u32, _: u32) -> Option<u64> { self.0.get(index as usize).copied() }
    /// }
    /// let mut sessions = Sessions(vec![20, 10]);
    /// let mut wheel = RawWheel::new();
    /// wheel.insert(20, 0, 0);
    /// wheel.insert(10, 1, 0);
    /// assert_eq!(wheel.pop_due(9, &mut sessions), None);
    /// assert_eq!(wheel.pop_due(10, &mut sessions).map(|due| due.index), Some(1));
    /// assert_eq!(wheel.pop_due(10, &mut sessions), None);
    /// ```
    #[inline]
    pub fn pop_due(&mut self, now: u64, timers: &mut impl Timers) -> Option<Entry> {
        let mut budget = usize::MAX;
        loop {
            match self.step(now, timers, &mut budget) {
                Step::Due(due) => return Some(due),
                Step::Busy => {}
                Step::Idle => return None,
            }
        }
    }

    /// Returns a tick before which nothing is due, or `None` if the wheel has no entries. O(1).
    ///
    /// An event loop can sleep until this tick and then step the wheel. The step may find nothing
    /// due; then the loop sleeps again.
    ///
    /// ```
    /// # use punctual::queue::wheel::RawWheel;
    /// let mut wheel = RawWheel::new();
    /// assert_eq!(wheel.next_wakeup(), None);
    /// wheel.insert(123_456, 0, 0);
    /// assert!(wheel.next_wakeup().is_some_and(|tick| tick <= 123_456));
    /// ```
    #[inline]
    pub fn next_wakeup(&self) -> Option<u64> {
        // A step that finds nothing due raises this bound to the start of the first slot or to the
        // first entry in the front.
        (self.entries > 0).then_some(self.earliest.bound())
    }

    /// Returns the earliest deadline of all live timers, or `None` if no timer is live.
    ///
    /// O(1) if no timer was popped, cancelled or re-armed since the last call. Otherwise the call
    /// may cascade the earliest slot, which later pops then need not do: O(1) amortised.
    ///
    /// ```
    /// # use punctual::queue::wheel::{RawWheel, Timers};
    /// struct Sessions(Vec<u64>);
    /// impl Timers for Sessions {
    ///     fn deadline(&self, index: u32, _: u32) -> Option<u64> { self.0.get(index as usize).copied() }
    /// }
    /// let mut sessions = Sessions(vec![1_000_003, 1_000_002]);
    /// let mut wheel = RawWheel::new();
    /// wheel.insert(1_000_003, 0, 0);
    /// wheel.insert(1_000_002, 1, 0);
    /// assert_eq!(wheel.next_deadline(&mut sessions), Some(1_000_002));
    /// ```
    #[inline]
    pub fn next_deadline(&mut self, timers: &mut impl Timers) -> Option<u64> {
        self.earliest
            .known(timers)
            .or_else(|| self.find_first(timers))
    }

    /// Returns the number of filed entries, including dead entries. O(1).
    ///
    /// ```
    /// # use punctual::queue::wheel::RawWheel;
    /// let mut wheel = RawWheel::new();
    /// wheel.insert(5, 0, 0);
    /// assert_eq!(wheel.entries(), 1);
    /// ```
    #[inline]
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// Calls `visit` with each filed entry in no particular order, dead entries included: the tick
    /// under which it is filed, or `None` if the wheel keeps only a part of the tick, then its
    /// index and its generation. For checks of the owner's data. O(entries).
    ///
    /// ```
    /// # use punctual::queue::wheel::RawWheel;
    /// let mut wheel = RawWheel::new();
    /// wheel.insert(5, 7, 1);
    /// wheel.each_entry(|tick, index, generation| {
    ///     assert_eq!((tick, index, generation), (Some(5), 7, 1));
    /// });
    /// ```
    pub fn each_entry(&self, mut visit: impl FnMut(Option<u64>, u32, u32)) {
        let held = self.earliest.is_held().then(|| self.earliest.candidate());
        for entry in self.front.entries().chain(held) {
            visit(Some(entry.deadline), entry.index, entry.generation);
        }
        for (level, slots) in self.levels.iter().enumerate() {
            let mut left = slots.occupied;
            while left != 0 {
                let slot = left.trailing_zeros() as usize;
                left &= left - 1;
                let start = slot_start(self.cursor, level, slot);
                let chunks = self.pool.chunks(slots.slot(slot));
                for entry in chunks.flat_map(|chunk| chunk.entries()) {
                    let tick = (level < FAR).then(|| deadline_in(start, level, entry.low));
                    visit(tick, entry.index, entry.generation);
                }
            }
        }
    }

    /// Returns the number of filed entries that the owner has not [forgotten](Self::forget): one
    /// per armed timer, plus spare entries. O(1).
    ///
    /// ```
    /// # use punctual::queue::wheel::RawWheel;
    /// let mut wheel = RawWheel::new();
    /// wheel.insert(5, 0, 0);
    /// assert_eq!(wheel.live(), 1);
    /// ```
    #[inline]
    pub fn live(&self) -> usize {
        self.entries.saturating_sub(self.dead)
    }

    /// Returns the bytes taken by the wheel and its allocations. O(1).
    ///
    /// ```
    /// # use punctual::queue::wheel::RawWheel;
    /// assert!(RawWheel::new().memory() < 1_024);
    /// ```
    pub fn memory(&self) -> usize {
        let levels = self
            .levels
            .iter()
            .filter_map(|level| level.slots.as_deref());
        let levels: usize = levels.map(size_of_val).sum();
        size_of::<Self>() + levels + self.pool.memory() + self.front.memory()
    }

    /// Drops all entries and frees all memory. Keeps the last `now`. O(allocated memory).
    ///
    /// ```
    /// # use punctual::queue::wheel::RawWheel;
    /// let mut wheel = RawWheel::new();
    /// wheel.insert(5, 0, 0);
    /// wheel.clear();
    /// assert_eq!((wheel.entries(), wheel.next_wakeup()), (0, None));
    /// ```
    pub fn clear(&mut self) {
        self.clear_lazily();
        self.pool.free_leftovers();
        self.has_memory_to_free = false;
    }

    /// Packs the entries into as few chunks as possible and frees the other chunks. O(entries).
    ///
    /// The wheel packs its entries by itself when less than an eighth of its memory is in use.
    ///
    /// ```
    /// # use punctual::queue::wheel::RawWheel;
    /// let mut wheel = RawWheel::new();
    /// wheel.insert(5, 0, 0);
    /// wheel.shrink_to_fit();
    /// assert_eq!(wheel.entries(), 1);
    /// ```
    pub fn shrink_to_fit(&mut self) {
        self.pack();
        self.pool.free_leftovers();
        self.has_memory_to_free = false;
        self.front.trim();
    }

    /// Puts an entry that is due at or after the cursor into its slot.
    #[inline(always)]
    pub(super) fn place(&mut self, entry: Entry, is_unordered: bool) {
        // Entries for the levels below the pending slot go into the pending slot.
        let level = level_of((entry.deadline ^ self.cursor) | self.pending_span);
        let slot = digit(entry.deadline, level);
        self.front.limit_run_first(entry.deadline);
        self.put(level, slot, entry.packed(), is_unordered);
    }

    #[inline(always)]
    pub(super) fn put(&mut self, level: usize, slot: usize, entry: Packed, is_unordered: bool) {
        #[cfg(test)]
        {
            self.puts += 1;
        }
        let to = &mut self.levels[level];
        if to.slot_mut(slot).push(&mut self.pool, entry) {
            to.occupied |= 1 << slot;
            self.occupied |= 1 << level;
        }
        to.unordered |= u64::from(is_unordered) << slot;
    }

    /// Files an entry again, after its timer was re-armed, and reports that to the owner.
    pub(super) fn refile(&mut self, entry: Entry, timers: &mut impl Timers) {
        self.file_unordered(timers.refiled(entry));
    }

    /// Files an entry that `entries` already counts, and marks its slot unordered.
    pub(super) fn file_unordered(&mut self, entry: Entry) {
        if entry.deadline < self.cursor {
            self.front.stage(entry);
        } else {
            self.place(entry, true);
        }
    }

    /// Counts a removed entry without a timer, dead or spare, and reports it to the owner.
    #[inline]
    pub(super) fn drop_dead(&mut self, index: u32, generation: u32, timers: &mut impl Timers) {
        self.entries -= 1;
        if !timers.dropped(index, generation) {
            self.dead = self.dead.saturating_sub(1);
        }
    }

    /// Returns the level of the pending slot, or 0 if no slot is pending.
    #[inline]
    pub(super) fn pending(&self) -> usize {
        level_of(self.pending_span)
    }

    /// Updates the bitmaps for an emptied slot.
    #[inline]
    pub(super) fn vacate(&mut self, level: usize, slot: usize) {
        self.levels[level].vacate(slot);
        if self.levels[level].occupied == 0 {
            self.occupied &= !(1 << level);
        }
        if level > 0 && self.pending() == level && slot == digit(self.cursor, level) {
            self.pending_span = 1;
        }
    }
}
