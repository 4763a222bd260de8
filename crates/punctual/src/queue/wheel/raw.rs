//! The raw wheel: it files entries and asks their owner whether they still stand.
//!
//! Ground rules
//!
//! - The owner keeps the timers. The wheel keeps 12-byte entries (32 bits of the deadline, index,
//!   generation) and looks at a timer only through [`Timers`]. So a cancel touches nothing here:
//!   the owner changes the timer's generation and its entry is dead. A re-arm to a later tick
//!   touches nothing either: the entry is found *stale* when its slot comes, and filed again.
//! - An entry is never filed later than its timer is due. Hence nothing fires late, and every live
//!   timer has exactly one entry whose generation is its own.
//! - `cursor`: every entry in the levels is due at or after it, and lies where
//!   `deadline ^ cursor` says (see `level`). The cursor may run ahead of the clock; what is armed
//!   before it goes to `front`.
//! - At most one slot is `pending`: the slot of the cursor's own digit at a level above 0, half
//!   emptied into the levels below. While it is pending, what belongs below it is appended to it,
//!   so equal deadlines keep their order.
//! - Equal deadlines lie in one slot, in arming order, unless the slot is marked `mixed`: a stale
//!   entry was filed again behind younger ones. A mixed tick goes through `front`, which orders it.
//! - `first` bounds all live deadlines from below; if its owner confirms it, it is the earliest.

use super::chunk::{CHUNK, Entry, NONE, Pool, Slot};
use super::front::{Early, Front, Staged};
use super::level::{FAR, LEVELS, Level, deadline_in, digit, level_of, slot_start};
use super::sweep::Sweep;
use core::mem::size_of;

/// What a [`RawWheel`] asks the owner of the timers.
///
/// An implementation should be a few instructions: it is asked once or twice in a timer's life.
pub trait Timers {
    /// Whether [`Timers::order`] tells the arming order. If not, equal deadlines are popped in no
    /// particular order and the wheel never sorts.
    const ORDERED: bool = false;

    /// The deadline the timer `index` has now, in ticks, if an entry of this `generation` still
    /// stands for it; `None` if that entry is dead.
    ///
    /// Between two calls that reach the wheel, a deadline may only grow while the generation stays
    /// the same. To re-arm earlier (or, when `ORDERED`, to the same tick), take a new generation,
    /// [`insert`](RawWheel::insert) it and [`forget`](RawWheel::forget) the old one.
    fn deadline(&self, index: u32, generation: u32) -> Option<u64>;

    /// The place of the timer's last arming among all armings; compared modulo 2^32.
    fn order(&self, index: u32) -> u32 {
        let _ = index;
        0
    }
}

/// An entry that fell due, taken out of the wheel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// The timer's deadline, in ticks.
    pub deadline: u64,
    /// The timer's index.
    pub index: u32,
    /// The generation of the entry.
    pub generation: u32,
}

/// What a [`RawWheel::step`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// This timer is due and its entry is out of the wheel.
    Due(Due),
    /// The budget is used up; there may be more to do now.
    Busy,
    /// Nothing is due.
    Idle,
}

/// A slot with entries: where it is, and a tick none of them is due before.
#[derive(Clone, Copy, Debug)]
struct Place {
    level: usize,
    slot: usize,
    start: u64,
    /// Where in its only chunk the entry due at `start` lies, if the slot is served as it is.
    least: Option<usize>,
}

/// A hierarchical timing wheel whose timers are kept by somebody else.
///
/// It orders `u64` ticks over their full range. Deadlines in the past are due at once. Nothing is
/// popped before its deadline, whatever the clock does.
///
/// The hierarchy of wheels is Varghese and Lauck's (*Hashed and Hierarchical Timing Wheels*, SOSP
/// 1987, scheme 7), with slots found through bitmaps instead of by stepping through empty ones.
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
/// sessions.0[0].0 = 400; // later: the wheel need not know
/// sessions.0[1].1 += 1; // cancelled: its entry no longer stands
/// wheel.forget(&sessions);
///
/// assert_eq!(wheel.next_deadline(&sessions), Some(300));
/// assert_eq!(wheel.pop_due(1_000, &sessions).map(|due| due.index), Some(2));
/// assert_eq!(wheel.pop_due(1_000, &sessions).map(|due| due.index), Some(0));
/// assert_eq!(wheel.pop_due(1_000, &sessions), None);
/// ```
#[derive(Debug)]
pub struct RawWheel {
    pub(super) cursor: u64,
    /// Bit `l`: level `l` has entries.
    pub(super) occupied: u16,
    /// The level of the pending slot; 0 if there is none.
    pub(super) pending: u8,
    /// Level and slot of the last insertion.
    pub(super) last: (u8, u8),
    pub(super) levels: [Level; LEVELS],
    pub(super) pool: Pool,
    pub(super) front: Front,
    pub(super) first: Option<Due>,
    /// All entries: in the levels and in front.
    pub(super) entries: usize,
    /// Those the owner killed.
    pub(super) dead: usize,
    /// Entries that came before a cursor that is ahead of the clock, since it was last set back.
    behind: usize,
    /// The clock as last seen.
    now: u64,
    pub(super) sweep: Option<Sweep>,
    /// Entries put into slots, to test how much work a step does.
    #[cfg(test)]
    pub(super) puts: usize,
}

impl Default for RawWheel {
    fn default() -> Self {
        Self::new()
    }
}

impl RawWheel {
    /// An empty wheel. Allocates nothing. O(1).
    ///
    /// ```
    /// use punctual::queue::wheel::RawWheel;
    ///
    /// static EMPTY: RawWheel = RawWheel::new();
    /// assert_eq!(EMPTY.entries(), 0);
    /// ```
    pub const fn new() -> Self {
        RawWheel {
            cursor: 0,
            occupied: 0,
            pending: 0,
            last: (0, 0),
            levels: [const { Level::EMPTY }; LEVELS],
            pool: Pool::new(),
            front: Front::new(),
            first: None,
            entries: 0,
            dead: 0,
            behind: 0,
            now: 0,
            sweep: None,
            #[cfg(test)]
            puts: 0,
        }
    }

    /// Files an entry for the timer `index`, whose deadline the owner has just set. O(1).
    ///
    /// # Panics
    ///
    /// If the entries outgrow 2^32 chunks.
    ///
    /// ```
    /// # use punctual::queue::wheel::RawWheel;
    /// let mut wheel = RawWheel::new();
    /// wheel.insert(1_000, 0, 0);
    /// assert_eq!(wheel.next_wakeup(), Some(1_000));
    /// ```
    #[inline]
    pub fn insert(&mut self, deadline: u64, index: u32, generation: u32) {
        if self
            .first
            .map_or(self.entries == 0, |first| deadline < first.deadline)
        {
            self.first = Some(Due {
                deadline,
                index,
                generation,
            });
        }
        self.entries += 1;
        if deadline < self.cursor && !self.set_back_for(deadline) {
            self.front.stage(Staged {
                deadline,
                index,
                generation,
            });
            return;
        }
        let (level, slot) = self.file(deadline, index, generation);
        self.last = (level as u8, slot as u8);
    }

    /// Tells the wheel that one filed entry has died: [`Timers::deadline`] now answers `None` for it.
    ///
    /// O(1); now and then it looks at a few entries, so that dead ones stay fewer than the live
    /// ones and some 256. The last inserted entry is taken out at once if it is the dead one:
    /// arming and cancelling leaves nothing behind.
    ///
    /// ```
    /// # use punctual::queue::wheel::{RawWheel, Timers};
    /// struct Gone;
    /// impl Timers for Gone {
    ///     fn deadline(&self, _: u32, _: u32) -> Option<u64> { None }
    /// }
    /// let mut wheel = RawWheel::new();
    /// wheel.insert(1_000, 0, 0);
    /// wheel.forget(&Gone);
    /// assert_eq!((wheel.entries(), wheel.live()), (0, 0));
    /// ```
    #[inline]
    pub fn forget(&mut self, timers: &impl Timers) {
        self.dead += 1;
        self.drop_last(timers);
        if self.sweep.is_some() || self.entries > 2 * self.live() + 256 {
            self.sweep(timers);
        }
    }

    /// One step of bounded work: pops a due entry, or does a part of what must be done before.
    ///
    /// Every entry moved, dropped or looked at takes 1 from `budget`; the last piece of work may
    /// overdraw it by less than a chunk (20 entries). A slot of a million entries is moved over as
    /// many calls as the budgets need. Amortised over its life an entry costs at most one move per
    /// level it descends: O(log64 of its distance in ticks).
    ///
    /// ```
    /// # use punctual::queue::wheel::{RawWheel, Step, Timers};
    /// struct Sessions(Vec<u64>);
    /// impl Timers for Sessions {
    ///     fn deadline(&self, index: u32, _: u32) -> Option<u64> { self.0.get(index as usize).copied() }
    /// }
    /// let sessions = Sessions(vec![7; 1_000]);
    /// let mut wheel = RawWheel::new();
    /// (0..1_000).for_each(|index| wheel.insert(7, index, 0));
    ///
    /// let mut fired = 0;
    /// let mut budget = 100;
    /// while let Step::Due(due) = wheel.step(7, &sessions, &mut budget) {
    ///     fired += 1;
    /// }
    /// assert_eq!((fired, budget), (100, 0));
    /// ```
    pub fn step(&mut self, now: u64, timers: &impl Timers, budget: &mut usize) -> Step {
        self.now = now;
        if self.first.is_some_and(|first| first.deadline > now) {
            return Step::Idle;
        }
        loop {
            if self.front.has_staged() {
                if *budget == 0 {
                    return Step::Busy;
                }
                *budget -= 1;
                self.settle(timers);
                continue;
            }
            let place = self.first_place();
            if let Some(&top) = self.front.peek()
                && place.is_none_or(|place| self.front_goes_first(&top, &place, timers))
            {
                if top.deadline > now {
                    let Early {
                        deadline,
                        index,
                        generation,
                        ..
                    } = top;
                    return self.idle(
                        place,
                        Some(Due {
                            deadline,
                            index,
                            generation,
                        }),
                    );
                }
                if *budget == 0 {
                    return Step::Busy;
                }
                *budget -= 1;
                self.front.pop();
                if let Some(due) = self.judge(top.deadline, top.index, top.generation, timers) {
                    return Step::Due(due);
                }
                continue;
            }
            let Some(place) = place else {
                return self.idle(None, None);
            };
            if place.start > now {
                return self.idle(Some(place), self.entry_at(&place));
            }
            if *budget == 0 {
                return Step::Busy;
            }
            if place.level == 0 || place.least.is_some() {
                *budget -= 1;
                let deadline = place.start;
                let entry = if self.must_pour(&place, timers) {
                    self.pour(&place, timers);
                    continue;
                } else {
                    self.take_out(&place)
                };
                if let Some(due) = self.judge(deadline, entry.index, entry.generation, timers) {
                    return Step::Due(due);
                }
            } else {
                let moved = self.cascade(&place, timers);
                *budget = budget.saturating_sub(moved);
            }
        }
    }

    /// Pops the earliest timer that is due, however much work that is: [`RawWheel::step`] without
    /// a budget. O(1) amortised, as there.
    ///
    /// ```
    /// # use punctual::queue::wheel::{RawWheel, Timers};
    /// struct Sessions(Vec<u64>);
    /// impl Timers for Sessions {
    ///     fn deadline(&self, index: u32, _: u32) -> Option<u64> { self.0.get(index as usize).copied() }
    /// }
    /// let sessions = Sessions(vec![20, 10]);
    /// let mut wheel = RawWheel::new();
    /// wheel.insert(20, 0, 0);
    /// wheel.insert(10, 1, 0);
    /// assert_eq!(wheel.pop_due(9, &sessions), None);
    /// assert_eq!(wheel.pop_due(10, &sessions).map(|due| due.index), Some(1));
    /// assert_eq!(wheel.pop_due(10, &sessions), None);
    /// ```
    #[inline]
    pub fn pop_due(&mut self, now: u64, timers: &impl Timers) -> Option<Due> {
        let mut budget = usize::MAX;
        loop {
            match self.step(now, timers, &mut budget) {
                Step::Due(due) => return Some(due),
                Step::Busy => {}
                Step::Idle => return None,
            }
        }
    }

    /// A tick before which nothing is due, and at which something may be; `None` if there are no
    /// entries. O(1): a few bit operations.
    ///
    /// An event loop that sleeps until then and steps the wheel may wake up to find nothing due;
    /// that costs it one look.
    ///
    /// ```
    /// # use punctual::queue::wheel::RawWheel;
    /// let mut wheel = RawWheel::new();
    /// assert_eq!(wheel.next_wakeup(), None);
    /// wheel.insert(123_456, 0, 0);
    /// assert!(wheel.next_wakeup().is_some_and(|tick| tick <= 123_456));
    /// ```
    pub fn next_wakeup(&self) -> Option<u64> {
        if self.entries == 0 {
            return None;
        }
        if let Some(first) = self.first {
            return Some(first.deadline);
        }
        let start = self.first_slot().map(|place| place.start);
        match (self.front.bound(), start) {
            (Some(front), Some(start)) => Some(front.min(start)),
            (front, start) => front.or(start),
        }
    }

    /// The earliest deadline of all live timers; `None` if there are none.
    ///
    /// O(1) if nothing was popped, cancelled or put off since the last call. Otherwise it may
    /// cascade the earliest slot, which is work done early, not work added: O(1) amortised.
    ///
    /// ```
    /// # use punctual::queue::wheel::{RawWheel, Timers};
    /// struct Sessions(Vec<u64>);
    /// impl Timers for Sessions {
    ///     fn deadline(&self, index: u32, _: u32) -> Option<u64> { self.0.get(index as usize).copied() }
    /// }
    /// let sessions = Sessions(vec![1_000_003, 1_000_002]);
    /// let mut wheel = RawWheel::new();
    /// wheel.insert(1_000_003, 0, 0);
    /// wheel.insert(1_000_002, 1, 0);
    /// assert_eq!(wheel.next_deadline(&sessions), Some(1_000_002));
    /// ```
    #[inline]
    pub fn next_deadline(&mut self, timers: &impl Timers) -> Option<u64> {
        if let Some(first) = self.first
            && timers.deadline(first.index, first.generation) == Some(first.deadline)
        {
            return Some(first.deadline);
        }
        self.find_first(timers)
    }

    /// Entries filed, dead ones included. O(1).
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

    /// Entries filed and not forgotten: as many as the owner has timers armed. O(1).
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

    /// Bytes taken by the wheel itself and by its allocations. O(number of pool segments).
    ///
    /// ```
    /// # use punctual::queue::wheel::RawWheel;
    /// assert!(RawWheel::new().memory() < 512);
    /// ```
    pub fn memory(&self) -> usize {
        let levels: usize = self.levels.iter().map(Level::memory).sum();
        size_of::<Self>() + levels + self.pool.memory() + self.front.memory()
    }

    /// Drops all entries and gives all memory back. The clock last seen is kept. O(memory).
    ///
    /// ```
    /// # use punctual::queue::wheel::RawWheel;
    /// let mut wheel = RawWheel::new();
    /// wheel.insert(5, 0, 0);
    /// wheel.clear();
    /// assert_eq!((wheel.entries(), wheel.next_wakeup()), (0, None));
    /// ```
    pub fn clear(&mut self) {
        *self = RawWheel {
            cursor: self.now,
            now: self.now,
            ..RawWheel::new()
        };
    }

    /// Packs the entries into as little memory as they need and gives the rest back. O(entries).
    ///
    /// The wheel does this by itself when less than an eighth of its memory is in use.
    ///
    /// ```
    /// # use punctual::queue::wheel::RawWheel;
    /// let mut wheel = RawWheel::new();
    /// wheel.insert(5, 0, 0);
    /// wheel.shrink_to_fit();
    /// assert_eq!(wheel.entries(), 1);
    /// ```
    pub fn shrink_to_fit(&mut self) {
        let mut pool = Pool::new();
        for level in &mut self.levels {
            let mut occupied = level.occupied;
            if occupied == 0 {
                *level = Level::EMPTY;
            }
            while occupied != 0 {
                let slot = occupied.trailing_zeros() as usize;
                occupied &= occupied - 1;
                let mut packed = Slot::EMPTY;
                let mut id = level.slot(slot).head;
                while id != NONE {
                    let chunk = self.pool.get(id);
                    chunk
                        .live()
                        .iter()
                        .for_each(|&entry| packed.push(&mut pool, entry));
                    id = chunk.next;
                }
                *level.slot_mut(slot) = packed;
            }
        }
        self.pool = pool; // nothing is watched in it: a sweep goes back to the start of its slot
        self.front.trim();
    }

    /// The owner numbered the arming order anew: what was ordered by the old numbers is put back. O(entries in front).
    pub(super) fn reorder(&mut self) {
        self.front.restage();
    }

    /// Files an entry that is due at or after the cursor; tells where.
    #[inline]
    pub(super) fn file(&mut self, deadline: u64, index: u32, generation: u32) -> (usize, usize) {
        let level = level_of(deadline ^ self.cursor).max(usize::from(self.pending));
        let slot = digit(deadline, level);
        self.put(
            level,
            slot,
            Entry {
                low: deadline as u32,
                index,
                generation,
            },
        );
        (level, slot)
    }

    #[inline]
    fn put(&mut self, level: usize, slot: usize, entry: Entry) {
        #[cfg(test)]
        {
            self.puts += 1;
        }
        let to = &mut self.levels[level];
        to.occupied |= 1 << slot;
        to.slot_mut(slot).push(&mut self.pool, entry);
        self.occupied |= 1 << level;
    }

    /// Files an entry whose timer was re-armed since: behind younger ones, so its slot is mixed.
    fn refile(&mut self, deadline: u64, index: u32, generation: u32) {
        if deadline < self.cursor {
            self.front.stage(Staged {
                deadline,
                index,
                generation,
            });
        } else {
            let (level, slot) = self.file(deadline, index, generation);
            self.levels[level].mixed |= 1 << slot;
        }
    }

    /// Decides what becomes of an entry taken out at `deadline`, which has come: due, dead, or
    /// stale and filed again.
    #[inline]
    fn judge(
        &mut self,
        deadline: u64,
        index: u32,
        generation: u32,
        timers: &impl Timers,
    ) -> Option<Due> {
        match timers.deadline(index, generation) {
            None => {
                self.bury();
                None
            }
            Some(later) if later > deadline => {
                self.refile(later, index, generation);
                None
            }
            Some(deadline) => {
                self.entries -= 1;
                self.first = None;
                Some(Due {
                    deadline,
                    index,
                    generation,
                })
            }
        }
    }

    /// Counts a dead entry out.
    #[inline]
    pub(super) fn bury(&mut self) {
        self.entries -= 1;
        self.dead = self.dead.saturating_sub(1);
    }

    /// Moves one staged entry to where it belongs.
    pub(super) fn settle(&mut self, timers: &impl Timers) {
        let Some(Staged {
            index, generation, ..
        }) = self.front.unstage()
        else {
            return;
        };
        match timers.deadline(index, generation) {
            None => self.bury(),
            Some(deadline) if deadline >= self.cursor => self.refile(deadline, index, generation),
            Some(deadline) => {
                let order = timers.order(index);
                self.front.push(Early {
                    deadline,
                    order,
                    index,
                    generation,
                });
            }
        }
    }

    /// The first occupied slot, by the bitmaps alone.
    #[inline]
    fn first_slot(&self) -> Option<Place> {
        if self.pending != 0 {
            let level = usize::from(self.pending);
            return Some(Place {
                level,
                slot: digit(self.cursor, level),
                start: self.cursor,
                least: None,
            });
        }
        if self.occupied == 0 {
            return None;
        }
        let level = self.occupied.trailing_zeros() as usize;
        let slot = self.levels[level].occupied.trailing_zeros() as usize;
        Some(Place {
            level,
            slot,
            start: slot_start(self.cursor, level, slot),
            least: None,
        })
    }

    /// The first occupied slot. One with few entries is served as it is, without cascading: then
    /// `start` is its earliest deadline.
    #[inline]
    fn first_place(&self) -> Option<Place> {
        let mut place = self.first_slot()?;
        if place.level > 0 && place.level < FAR && self.pending == 0 {
            let slot = self.levels[place.level].slot(place.slot);
            if slot.is_one_chunk() {
                let chunk = self.pool.get(slot.head);
                let (mut least, mut at) = (u64::MAX, usize::from(chunk.begin));
                for (offset, entry) in chunk.live().iter().enumerate() {
                    let deadline = deadline_in(place.start, place.level, entry.low);
                    if deadline < least {
                        (least, at) = (deadline, usize::from(chunk.begin) + offset);
                    }
                }
                place.start = deadline_in(place.start, place.level, chunk.entries[at % CHUNK].low);
                place.least = Some(at);
            }
        }
        Some(place)
    }

    /// Whether a slot's entries may be out of arming order. On the far levels a timer that was
    /// re-armed cannot be told from one that was not, so they always may.
    #[inline]
    fn is_mixed(&self, place: &Place) -> bool {
        place.level >= FAR || self.levels[place.level].is_mixed(place.slot)
    }

    /// Whether the heap's top goes before everything at `place`. On a tie it does, having been
    /// armed before, unless the slot is out of order.
    #[inline]
    fn front_goes_first<T: Timers>(&self, top: &Early, place: &Place, _: &T) -> bool {
        top.deadline < place.start
            || (top.deadline == place.start && !(T::ORDERED && self.is_mixed(place)))
    }

    /// Whether the tick at `place` has to be ordered in front before it is popped.
    #[inline]
    fn must_pour<T: Timers>(&self, place: &Place, _: &T) -> bool {
        if !T::ORDERED || !self.is_mixed(place) {
            return false;
        }
        if self
            .front
            .peek()
            .is_some_and(|top| top.deadline == place.start)
        {
            return true;
        }
        let slot = self.levels[place.level].slot(place.slot);
        let chunk = self.pool.get(slot.head);
        match place.least {
            None => !slot.is_one_chunk() || chunk.len() > 1,
            Some(at) => {
                let low = chunk.entries[at].low;
                chunk.live().iter().filter(|entry| entry.low == low).count() > 1
            }
        }
    }

    /// Moves one entry, due now, to the front, where arming order counts.
    #[cold]
    fn pour(&mut self, place: &Place, timers: &impl Timers) {
        let entry = self.take_out(place);
        match timers.deadline(entry.index, entry.generation) {
            None => self.bury(),
            Some(later) if later > place.start => self.refile(later, entry.index, entry.generation),
            Some(deadline) => {
                let order = timers.order(entry.index);
                self.front.push(Early {
                    deadline,
                    order,
                    index: entry.index,
                    generation: entry.generation,
                });
            }
        }
    }

    /// Takes out the entry that `place` stands for.
    #[inline]
    fn take_out(&mut self, place: &Place) -> Entry {
        let level = &mut self.levels[place.level];
        let slot = level.slot_mut(place.slot);
        let entry = match place.least {
            None => {
                self.cursor = place.start;
                slot.pop(&mut self.pool)
            }
            Some(at) => slot.remove(&mut self.pool, at),
        };
        if slot.is_empty() {
            self.vacate(place.level, place.slot);
        }
        entry
    }

    #[inline]
    pub(super) fn vacate(&mut self, level: usize, slot: usize) {
        self.levels[level].vacate(slot);
        if self.levels[level].occupied == 0 {
            self.occupied &= !(1 << level);
        }
        if usize::from(self.pending) == level && slot == digit(self.cursor, level) {
            self.pending = 0;
        }
    }

    /// Moves the first chunk of the slot at `place` to the levels below; tells how many entries.
    ///
    /// Entries that come to level 0 are about to fire, so here they are looked at, a chunk at a
    /// time: the looks do not depend on each other, and their cache misses overlap.
    fn cascade(&mut self, place: &Place, timers: &impl Timers) -> usize {
        let &Place { level, slot, .. } = place;
        let start = slot_start(self.cursor, level, slot);
        self.cursor = start;
        self.pending = level as u8;
        let mixed = self.is_mixed(place);
        let list = self.levels[level].slot_mut(slot);
        let chunk = list.pop_chunk(&mut self.pool);
        if list.is_empty() {
            self.vacate(level, slot);
        }
        let entries = chunk.live();
        if level > 1 && level < FAR {
            for &entry in entries {
                self.put_below(deadline_in(start, level, entry.low), entry, mixed);
            }
            return entries.len();
        }
        let mut looks = [None; CHUNK];
        for (look, entry) in looks.iter_mut().zip(entries) {
            *look = timers.deadline(entry.index, entry.generation);
        }
        for (
            &look,
            &Entry {
                low,
                index,
                generation,
            },
        ) in looks.iter().zip(entries)
        {
            match look {
                None => self.bury(),
                Some(deadline) if deadline < start => self.refile(deadline, index, generation),
                Some(deadline) => {
                    let mixed = mixed || deadline != deadline_in(start, level, low);
                    self.put_below(
                        deadline,
                        Entry {
                            low: deadline as u32,
                            index,
                            generation,
                        },
                        mixed,
                    );
                }
            }
        }
        entries.len()
    }

    /// Puts an entry of the pending slot where it belongs now, on the levels below it or, if its
    /// timer was re-armed, anywhere.
    #[inline]
    fn put_below(&mut self, deadline: u64, entry: Entry, mixed: bool) {
        let level = level_of(deadline ^ self.cursor);
        let slot = digit(deadline, level);
        self.put(level, slot, entry);
        self.levels[level].mixed |= u64::from(mixed) << slot;
    }

    /// The entry that `place` stands for, if it stands for a single tick.
    #[inline]
    fn entry_at(&self, place: &Place) -> Option<Due> {
        if place.level > 0 && place.least.is_none() {
            return None;
        }
        let chunk = self
            .pool
            .get(self.levels[place.level].slot(place.slot).head);
        let at = place.least.unwrap_or(usize::from(chunk.begin));
        let Entry {
            index, generation, ..
        } = chunk.entries[at % CHUNK];
        Some(Due {
            deadline: place.start,
            index,
            generation,
        })
    }

    /// Ends a step with nothing due. `place` is the first slot with entries, `first` the first entry if known.
    fn idle(&mut self, place: Option<Place>, first: Option<Due>) -> Step {
        self.first = first;
        if self.pending == 0 {
            let start = place.map(|place| slot_start(self.cursor, place.level, place.slot));
            match start {
                None => (self.cursor, self.behind) = (self.now, 0),
                // No entry changes its level when the cursor moves up to, not into, the first slot.
                Some(start) if start > self.now => self.cursor = self.cursor.max(self.now),
                Some(_) => {}
            }
        }
        self.trim();
        Step::Idle
    }

    /// Gives memory back when most of it lies idle.
    #[inline]
    pub(super) fn trim(&mut self) {
        if self.pool.is_sparse() {
            self.shrink_to_fit();
        }
        self.front.trim();
    }

    #[inline(never)]
    fn find_first(&mut self, timers: &impl Timers) -> Option<u64> {
        self.first = None;
        loop {
            while self.front.has_staged() {
                self.settle(timers);
            }
            let place = self.first_place();
            let Due {
                deadline,
                index,
                generation,
            } = match (self.front.peek(), place) {
                (Some(top), place) if place.is_none_or(|place| top.deadline <= place.start) => {
                    let &Early {
                        deadline,
                        index,
                        generation,
                        ..
                    } = top;
                    if timers.deadline(index, generation) != Some(deadline) {
                        self.front.pop();
                    }
                    Due {
                        deadline,
                        index,
                        generation,
                    }
                }
                (_, None) => return None,
                (_, Some(place)) => match self.entry_at(&place) {
                    Some(entry) => {
                        if timers.deadline(entry.index, entry.generation) != Some(entry.deadline) {
                            self.take_out(&place);
                        }
                        entry
                    }
                    None => {
                        self.cascade(&place, timers);
                        continue;
                    }
                },
            };
            match timers.deadline(index, generation) {
                None => self.bury(),
                Some(same) if same == deadline => {
                    self.first = Some(Due {
                        deadline,
                        index,
                        generation,
                    });
                    return Some(deadline);
                }
                Some(other) => self.refile(other, index, generation),
            }
        }
    }

    /// Decides whether an entry that comes before the cursor is reason enough to set it back to
    /// the clock; tells whether that was done.
    ///
    /// The cursor runs ahead of the clock when the next deadline is asked for. What is armed
    /// before it then goes to the front, a heap. If that goes on, the cursor is set back. Each
    /// entry may have to cascade again for that, so it is done once in entries/16 insertions.
    #[cold]
    fn set_back_for(&mut self, deadline: u64) -> bool {
        if deadline < self.now {
            return false;
        }
        self.behind += 1;
        if self.behind < 64 + self.entries / 16 {
            return false;
        }
        self.set_back(self.now);
        true
    }

    /// Sets the cursor back to `to`. All entries below the level of the highest digit that changes
    /// belong into one slot of that level, and their lists are joined there. O(64 per level).
    fn set_back(&mut self, to: u64) {
        let home = level_of(self.cursor ^ to);
        let slot = digit(self.cursor, home);
        let mut joined = Slot::EMPTY;
        let mut mixed = false;
        // From below: what a pending slot has given to lower levels was armed before the rest of it.
        for level in &mut self.levels[..home] {
            while level.occupied != 0 {
                let slot = level.occupied.trailing_zeros() as usize;
                mixed |= level.is_mixed(slot);
                joined.append(&mut self.pool, level.slot(slot));
                *level.slot_mut(slot) = Slot::EMPTY;
                level.vacate(slot);
            }
        }
        self.occupied &= u16::MAX << home;
        let level = &mut self.levels[home];
        joined.append(&mut self.pool, level.slot(slot));
        if !joined.is_empty() {
            *level.slot_mut(slot) = joined;
            level.occupied |= 1 << slot;
            level.mixed |= u64::from(mixed) << slot;
            self.occupied |= 1 << home;
        }
        self.cursor = to;
        self.pending = 0;
        self.behind = 0;
        self.restart_sweep();
    }
}
