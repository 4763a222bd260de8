//! A queue that is an unordered array while it is small and a wheel when it is large.
//!
//! Both keep their timers in the same slab of the same records, so a migration passes the slab on
//! and builds new entries only: no timer moves, and every handle stays valid.
//!
//! The array becomes a wheel at once when it would outgrow [`MOST`]. The wheel becomes an array
//! when it has held fewer than [`FEW`] timers for [`PATIENCE`] operations. These operations together
//! cost as much as the migration and the next one back, so migrations are O(1) amortised for any load.

use super::armings::{Arming, Armings};
use super::few::Few;
use super::slab::Slab;
use super::wheel::{Timer, Wheel};
use super::{DeadlineQueue, Expired, Polled, TimerKey};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem::{replace, size_of};

/// Maximum number of timers in the array. Measured in ns for the array / the wheel with 1, 10 and 24
/// timers: arming and cancelling one 13 / 11, 12 / 11 and 12 / 11; firing and arming again 15 / 60,
/// 29 / 52 and 35 / 54; re-arming one and finding the next deadline 7 / 51, 9 / 58 and 8 / 46. The
/// array is also faster with some more timers, but firing one scans all of them twice.
/// (`examples/small_queues.rs` of commit cbe849d measured this.)
const MOST: usize = 24;

/// Number of timers below which the wheel may become an array. It is a third of `MOST`, so that a
/// load that varies by less does not migrate back and forth.
const FEW: usize = 8;

/// Number of consecutive operations that must find few timers. Migrating down and up again takes about
/// 2 us, which is 8 ns for each of them: less than the array saves.
const PATIENCE: u32 = 256;

/// Number of records per additional operation of patience. The migration back up initialises something for
/// each record.
const RECORDS_PER_OPERATION: usize = 64;

/// Timers in migration between two queues.
#[derive(Debug)]
pub(super) struct Migration<T> {
    pub(super) slab: Slab<Timer<T>>,
    pub(super) armings: Armings,
    /// The last `now`.
    pub(super) now: u64,
    /// The armings of all timers, in the order in which they fire.
    pub(super) entries: Vec<Arming>,
}

/// A queue that suits any number of timers: an array while they are few, a [`Wheel`] when they are many.
///
/// One timer costs a few nanoseconds, and ten million cost what they cost in a wheel. Each operation
/// adds one well-predicted branch to that of the underlying queue. All operations are O(1), some amortised:
/// the array holds at most 24 timers, and the preceding operations pay for a migration.
///
/// A timer takes as much memory as in the underlying queue: about 45 bytes with an 8-byte value. An empty
/// queue allocates nothing.
///
/// # Examples
///
/// ```
/// use punctual::{Adaptive, DeadlineQueue};
///
/// let mut timeouts = Adaptive::new();
/// let first = timeouts.insert(1_500, 0);
/// let others: Vec<_> = (1..100_000).map(|n| timeouts.insert(1_500 + n, n)).collect();
///
/// // By now the queue is a wheel; the handle is still valid.
/// assert_eq!(timeouts.remove(first), Some(0));
/// assert_eq!(timeouts.next_deadline(), timeouts.deadline(others[0]));
/// ```
#[derive(Debug)]
pub struct Adaptive<T> {
    state: State<T>,
    /// Number of operations since the wheel last held many timers.
    few_for: u32,
}

#[derive(Debug)]
enum State<T> {
    Few(Few<T>),
    Wheel(Box<Wheel<T>>),
}

impl<T> Default for Adaptive<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Adaptive<T> {
    /// Returns an empty queue. Allocates nothing. O(1).
    ///
    /// ```
    /// use punctual::{Adaptive, DeadlineQueue};
    /// let queue: Adaptive<u32> = Adaptive::new();
    /// assert!(queue.is_empty());
    /// ```
    pub const fn new() -> Self {
        Adaptive {
            state: State::Few(Few::new()),
            few_for: 0,
        }
    }

    /// Becomes a wheel if it has many timers, and adds one more.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, deadline: u64, value: T) -> TimerKey {
        if let State::Few(few) = &mut self.state {
            self.few_for = 0;
            let few = replace(few, Few::new());
            self.state = State::Wheel(Box::new(Wheel::from_migration(few.into_migration())));
        }
        match &mut self.state {
            State::Few(few) => few.insert(deadline, value),
            State::Wheel(wheel) => {
                if wheel.len() + 1 == FEW {
                    self.few_for = 0;
                }
                wheel.insert(deadline, value)
            }
        }
    }

    /// Does an operation on a wheel that may have few timers afterwards, and counts it then. With more timers, the
    /// operation is called directly: what follows a call costs it the registers.
    #[cold]
    #[inline(never)]
    fn counted<R>(&mut self, op: impl FnOnce(&mut Wheel<T>) -> R) -> Option<R> {
        let State::Wheel(wheel) = &mut self.state else {
            return None; // unreachable
        };
        let result = op(wheel);
        if wheel.len() < FEW {
            self.count_few();
        }
        Some(result)
    }

    /// Counts an operation on a wheel of few timers, and becomes an array after enough of them.
    #[cold]
    #[inline(never)]
    fn count_few(&mut self) {
        self.few_for = self.few_for.saturating_add(1);
        // First frees leftover memory in pieces, so that the migration is short.
        if let State::Wheel(wheel) = &mut self.state
            && !wheel.free_piece()
            && !wheel.purge()
            && self.few_for as usize >= PATIENCE as usize + wheel.records() / RECORDS_PER_OPERATION
        {
            self.shrink();
        }
    }

    /// Returns whether memory may be waiting to be freed, which polling does. O(1).
    #[cfg(feature = "std")]
    pub(crate) fn has_memory_to_free(&self) -> bool {
        match &self.state {
            State::Few(few) => few.has_memory_to_free(),
            State::Wheel(wheel) => wheel.has_memory_to_free(),
        }
    }

    /// Number of entries, dead ones included, which `next_deadline` may have to scan. O(1).
    #[cfg(feature = "std")]
    pub(crate) fn entries(&self) -> usize {
        match &self.state {
            State::Few(few) => few.len(),
            State::Wheel(wheel) => wheel.entries(),
        }
    }

    /// Becomes an array.
    fn shrink(&mut self) {
        let empty = State::Few(Few::new());
        self.state = match replace(&mut self.state, empty) {
            State::Wheel(wheel) => State::Few(Few::from_migration(wheel.into_migration())),
            few => few,
        };
    }
}

impl<T> DeadlineQueue<T> for Adaptive<T> {
    /// O(1) amortised.
    #[inline]
    fn insert(&mut self, deadline: u64, value: T) -> TimerKey {
        match &mut self.state {
            State::Few(few) if few.len() < MOST => few.insert(deadline, value),
            State::Wheel(wheel) if wheel.len() >= FEW => wheel.insert(deadline, value),
            _ => self.grow(deadline, value),
        }
    }

    /// O(1) amortised.
    #[inline]
    fn remove(&mut self, key: TimerKey) -> Option<T> {
        match &mut self.state {
            State::Few(few) => few.remove(key),
            State::Wheel(wheel) if wheel.len() > FEW => wheel.remove(key),
            State::Wheel(_) => self.counted(|wheel| wheel.remove(key)).flatten(),
        }
    }

    /// O(1) amortised.
    #[inline]
    fn reset(&mut self, key: TimerKey, deadline: u64) -> bool {
        match &mut self.state {
            State::Few(few) => few.reset(key, deadline),
            State::Wheel(wheel) if wheel.len() > FEW => wheel.reset(key, deadline),
            State::Wheel(_) => self.counted(|wheel| wheel.reset(key, deadline)) == Some(true),
        }
    }

    #[inline]
    fn get(&self, key: TimerKey) -> Option<&T> {
        match &self.state {
            State::Few(few) => few.get(key),
            State::Wheel(wheel) => wheel.get(key),
        }
    }

    #[inline]
    fn get_mut(&mut self, key: TimerKey) -> Option<&mut T> {
        match &mut self.state {
            State::Few(few) => few.get_mut(key),
            State::Wheel(wheel) => wheel.get_mut(key),
        }
    }

    #[inline]
    fn deadline(&self, key: TimerKey) -> Option<u64> {
        match &self.state {
            State::Few(few) => few.deadline(key),
            State::Wheel(wheel) => wheel.deadline(key),
        }
    }

    #[inline]
    fn len(&self) -> usize {
        match &self.state {
            State::Few(few) => few.len(),
            State::Wheel(wheel) => wheel.len(),
        }
    }

    /// Becomes an array.
    fn clear(&mut self) {
        match &mut self.state {
            State::Few(few) => few.clear(),
            State::Wheel(wheel) => {
                wheel.clear();
                self.shrink();
            }
        }
    }

    fn iter<'a>(&'a self) -> impl Iterator<Item = (TimerKey, u64, &'a T)>
    where
        T: 'a,
    {
        let (few, wheel) = match &self.state {
            State::Few(few) => (Some(few.iter()), None),
            State::Wheel(wheel) => (None, Some(wheel.iter())),
        };
        let few = few.into_iter().flatten();
        few.chain(wheel.into_iter().flatten())
    }

    #[inline]
    fn pop_due(&mut self, now: u64) -> Option<Expired<T>> {
        match &mut self.state {
            State::Few(few) => few.pop_due(now),
            State::Wheel(wheel) if wheel.len() > FEW => wheel.pop_due(now),
            State::Wheel(_) => self.counted(|wheel| wheel.pop_due(now)).flatten(),
        }
    }

    #[inline]
    fn next_wakeup(&self) -> Option<u64> {
        match &self.state {
            State::Few(few) => few.next_wakeup(),
            State::Wheel(wheel) => wheel.next_wakeup(),
        }
    }

    /// O(1) amortised.
    #[inline]
    fn next_deadline(&mut self) -> Option<u64> {
        match &mut self.state {
            State::Few(few) => few.next_deadline(),
            State::Wheel(wheel) => wheel.next_deadline(),
        }
    }

    /// O(budget); a scan of the array counts as one.
    #[inline]
    fn poll_due(&mut self, now: u64, budget: &mut usize) -> Polled<T> {
        match &mut self.state {
            State::Few(few) => few.poll_due(now, budget),
            State::Wheel(wheel) => {
                let polled = wheel.poll_due(now, budget);
                if wheel.len() < FEW {
                    self.count_few();
                }
                polled
            }
        }
    }

    /// Becomes an array if timers are few.
    fn shrink_to_fit(&mut self) {
        if let State::Wheel(wheel) = &mut self.state
            && wheel.len() < FEW
        {
            self.shrink();
        }
        match &mut self.state {
            State::Few(few) => few.shrink_to_fit(),
            State::Wheel(wheel) => wheel.shrink_to_fit(),
        }
    }

    fn memory(&self) -> usize {
        size_of::<Self>()
            + match &self.state {
                State::Few(few) => few.memory() - size_of::<Few<T>>(),
                State::Wheel(wheel) => wheel.memory(),
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::model::random::{cases, ops, span, when};
    use crate::queue::model::{Model, Op, Subject, sized};
    use proptest::prelude::*;

    impl Subject for Adaptive<u64> {
        fn check(&self) {
            match &self.state {
                State::Few(few) => {
                    assert!(few.len() <= MOST);
                    few.check();
                }
                State::Wheel(wheel) => wheel.check(),
            }
        }
    }

    fn is_wheel<T>(queue: &Adaptive<T>) -> bool {
        matches!(queue.state, State::Wheel(_))
    }

    /// Operations that grow the queue to a wheel, use it, drain it, and use it with few timers.
    fn grow_and_shrink() -> impl Strategy<Value = Vec<Op>> {
        let few = prop_oneof![
            when().prop_map(Op::Insert),
            any::<u8>().prop_map(Op::Remove),
            Just(Op::RemoveLast),
            (any::<u8>(), when()).prop_map(|(pick, when)| Op::Reset(pick, when)),
            Just(Op::PopOne),
            Just(Op::NextDeadline),
            span().prop_map(Op::Advance),
            any::<u8>().prop_map(Op::Stale),
        ];
        let up = prop::collection::vec((any::<u8>(), when()), 2..6).prop_map(|bursts| {
            bursts
                .into_iter()
                .map(|(count, when)| Op::Burst(count, when))
        });
        let many = ops(0..60);
        let down = (0usize..20).prop_map(|left| Op::Drain(left as u8));
        let few = prop::collection::vec(few, 0..2 * PATIENCE as usize);
        (up, many, down, few)
            .prop_map(|(up, many, down, few)| up.chain(many).chain([down]).chain(few).collect())
    }

    proptest! {
        #![proptest_config(cases(64))]

        #[test]
        fn it_matches_the_model(ops in ops(1..150)) {
            Model::new(Adaptive::new()).run(ops);
        }
    }

    proptest! {
        #![proptest_config(cases(24))]

        #[test]
        #[cfg_attr(miri, ignore = "large, and takes no other path than the small ones")]
        fn growing_and_shrinking_matches_the_model(cycles in prop::collection::vec(grow_and_shrink(), 1..4)) {
            Model::new(Adaptive::new()).run(cycles.into_iter().flatten());
        }
    }

    #[test]
    fn handles_survive_migrations() {
        let mut queue = Adaptive::new();
        let keys: Vec<_> = (0..sized(1_000, 100) as u64)
            .map(|n| queue.insert(10 + n % 7, n))
            .collect();
        assert!(is_wheel(&queue));
        let (few, others) = keys.split_at(FEW - 1);
        for (n, &key) in (0..).zip(&keys).skip(few.len()) {
            assert_eq!(queue.remove(key), Some(n));
        }
        for _ in 0..PATIENCE + 1_000 / RECORDS_PER_OPERATION as u32 {
            assert!(queue.reset(few[0], 100));
        }
        assert!(!is_wheel(&queue));
        assert!(others.iter().all(|&key| queue.get(key).is_none()));
        for (n, &key) in (0..).zip(few) {
            assert_eq!(queue.get(key), Some(&n));
        }
        assert_eq!(queue.deadline(few[0]), Some(100));
        let popped = core::iter::from_fn(|| queue.pop_due(100)).map(|expired| expired.value);
        assert_eq!(popped.collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 0]);
    }

    #[test]
    fn equal_deadlines_keep_their_order_in_migrations() {
        let mut queue = Adaptive::new();
        let keys: Vec<_> = (0..24).map(|n| queue.insert(50, n)).collect();
        // Move two timers behind all others: one by a re-arm to the same tick, one by way of a later tick.
        assert!(queue.reset(keys[3], 50));
        assert!(queue.reset(keys[4], 70) && queue.reset(keys[4], 50));
        let last = queue.insert(80, 24);
        (25..29).for_each(|n| {
            queue.insert(60, n);
        });
        assert!(is_wheel(&queue));
        assert!(queue.reset(keys[9], 50));
        for &key in &keys[14..] {
            queue.remove(key);
        }
        let mut popped = Vec::new();
        popped.extend((0..12).filter_map(|_| queue.pop_due(50)));
        for n in 0..PATIENCE {
            assert!(queue.reset(last, 90 - u64::from(n % 2)));
        }
        assert!(!is_wheel(&queue));
        popped.extend(core::iter::from_fn(|| queue.pop_due(90)));
        let values: Vec<u64> = popped.iter().map(|expired| expired.value).collect();
        let expected = [
            0, 1, 2, 5, 6, 7, 8, 10, 11, 12, 13, 3, 4, 9, 25, 26, 27, 28, 24,
        ];
        assert_eq!(values, expected);
    }

    #[test]
    fn it_does_not_migrate_back_and_forth() {
        let mut queue = Adaptive::new();
        let mut keys: Vec<_> = (0..=MOST as u64).map(|n| queue.insert(n, n)).collect();
        for _ in 0..sized(2_000, 1) {
            keys.drain(FEW - 2..).for_each(|key| {
                queue.remove(key);
            });
            while keys.len() <= FEW {
                keys.push(queue.insert(9, 9));
            }
            assert!(is_wheel(&queue));
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "large, and takes no other path than the small ones")]
    fn memory_is_freed_after_many_timers() {
        let mut queue = Adaptive::new();
        let empty = queue.memory();
        assert!(empty <= 160, "{empty} bytes");
        (0..100_000).for_each(|n| {
            queue.insert(n % 60_000, n);
        });
        while queue.pop_due(60_000).is_some() {}
        (0..2 * u64::from(PATIENCE)).for_each(|n| {
            let key = queue.insert(70_000, n);
            queue.remove(key);
        });
        assert!(!is_wheel(&queue));
        assert!(queue.memory() < 50_000, "{} bytes", queue.memory());
    }
}
