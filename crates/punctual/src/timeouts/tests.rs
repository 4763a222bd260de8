//! Compares `Timeouts` with a `BTreeMap` of (rounded instant, number of the arming), step by step.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::vec::Vec;

/// Returns `many`, or `few` under Miri, which is a thousand times slower.
const fn sized(many: usize, few: usize) -> usize {
    if cfg!(miri) { few } else { many }
}

/// An operation. An `i64` is a time in nanoseconds after the clock.
#[derive(Clone, Copy, Debug)]
enum Op {
    Insert(i64),
    /// Removes the value that the number picks.
    Remove(u8),
    /// Resets the value that the `u8` picks.
    Reset(u8, i64),
    /// Advances the clock by 2 to this power, in nanoseconds.
    Advance(u32),
    TakeNext,
    /// Takes at most this many values.
    TakeUntil(u8),
    JumpToNext,
    Clear,
}

/// Returns times from six hours before the clock to 30 hours after it.
fn distance() -> impl Strategy<Value = i64> {
    (-40i64..200, 0..40).prop_map(|(mantissa, exponent)| mantissa << exponent)
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        8 => distance().prop_map(Op::Insert),
        4 => any::<u8>().prop_map(Op::Remove),
        6 => (any::<u8>(), distance()).prop_map(|(pick, time)| Op::Reset(pick, time)),
        4 => (0u32..30).prop_map(Op::Advance),
        4 => Just(Op::TakeNext),
        2 => (0u8..20).prop_map(Op::TakeUntil),
        3 => Just(Op::JumpToNext),
        1 => Just(Op::Clear),
    ];
    // Long enough for more than 32 values, with which the wheel files entries.
    prop::collection::vec(op, sized(400, 20))
}

struct Model {
    queue: Timeouts<u64>,
    start: Instant,
    now: Instant,
    armings: u64,
    /// Values with their keys, by rounded instant and arming.
    order: BTreeMap<(Instant, u64), (TimerKey, u64)>,
    stale: Vec<TimerKey>,
}

impl Model {
    fn new(granularity: u64) -> Self {
        let start = Instant::now();
        Model {
            queue: Timeouts::new(start, Duration::from_nanos(granularity)),
            start,
            now: start,
            armings: 0,
            order: BTreeMap::new(),
            stale: Vec::new(),
        }
    }

    fn time(&self, nanos: i64) -> Instant {
        let by = Duration::from_nanos(nanos.unsigned_abs());
        match nanos {
            0.. => self.now + by,
            _ => self.now.checked_sub(by).unwrap_or(self.now),
        }
    }

    /// Rounds up by division, unlike the queue.
    fn rounded(&self, time: Instant) -> Instant {
        let unit = self.queue.granularity().as_nanos();
        let nanos = time.saturating_duration_since(self.start).as_nanos();
        self.start + Duration::from_nanos((nanos.div_ceil(unit) * unit) as u64)
    }

    fn pick(&self, pick: u8) -> Option<(Instant, u64)> {
        let at = usize::from(pick) % self.order.len().max(1);
        self.order.keys().nth(at).copied()
    }

    fn arm(&mut self, time: Instant, key: TimerKey, value: u64) {
        self.order
            .insert((self.rounded(time), self.armings), (key, value));
        self.armings += 1;
    }

    /// Returns the value that must be taken next, and forgets it.
    fn due(&mut self) -> Option<u64> {
        let first = self.order.first_entry()?;
        if first.key().0 > self.now {
            return None;
        }
        let (key, value) = first.remove();
        self.stale.push(key);
        Some(value)
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Insert(nanos) => {
                let (time, value) = (self.time(nanos), self.armings);
                let key = self.queue.insert(time, value);
                self.arm(time, key, value);
                assert_eq!(self.queue.time(key), Some(self.rounded(time)));
            }
            Op::Remove(pick) => {
                if let Some(at) = self.pick(pick)
                    && let Some((key, value)) = self.order.remove(&at)
                {
                    assert_eq!(self.queue.remove(key), Some(value));
                    self.stale.push(key);
                }
            }
            Op::Reset(pick, nanos) => {
                let time = self.time(nanos);
                if let Some(at) = self.pick(pick)
                    && let Some((key, value)) = self.order.remove(&at)
                {
                    assert!(self.queue.reset(key, time));
                    self.arm(time, key, value);
                }
            }
            Op::Advance(exponent) => self.now += Duration::from_nanos(1 << exponent),
            Op::TakeNext => assert_eq!(self.queue.take_next(self.now), self.due()),
            Op::TakeUntil(most) => {
                let taken = self.queue.take_until(self.now).take(usize::from(most));
                for value in taken.collect::<Vec<_>>() {
                    assert_eq!(Some(value), self.due());
                }
            }
            Op::JumpToNext => {
                if let Some(next) = self.queue.next_time() {
                    self.now = self.now.max(next);
                    assert_eq!(self.queue.take_next(self.now), self.due());
                }
            }
            Op::Clear => {
                self.queue.clear();
                let keys = self.order.values().map(|&(key, _)| key);
                self.stale.extend(keys);
                self.order.clear();
            }
        }
    }

    fn compare(&mut self) {
        assert_eq!(self.queue.len(), self.order.len());
        let first = self.order.first_key_value().map(|(&(time, _), _)| time);
        assert_eq!(self.queue.next_time(), first);
        if let Some(&key) = self.stale.last() {
            assert!(self.queue.get(key).is_none() && self.queue.time(key).is_none());
            assert_eq!(self.queue.remove(key), None);
            assert!(!self.queue.reset(key, self.now));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: sized(256, 4) as u32,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_queue_of_instants_matches_the_model(granularity in 0u32..36, ops in ops()) {
        let mut model = Model::new(1 << granularity);
        for op in ops {
            model.apply(op);
            model.compare();
        }
        model.now += Duration::from_secs(1 << 30);
        while let Some(value) = model.queue.take_next(model.now) {
            assert_eq!(Some(value), model.due());
        }
        model.compare();
        assert!(model.queue.is_empty());
    }
}

#[test]
fn the_granularity_is_a_power_of_two() {
    let of = |length| Timeouts::<()>::new(Instant::now(), length).granularity();
    assert_eq!(of(Duration::ZERO), Duration::from_nanos(1));
    assert_eq!(of(Duration::from_nanos(1_023)), Duration::from_nanos(512));
    assert_eq!(of(Duration::MAX), Duration::from_nanos(1 << 40));
}

#[test]
fn instants_out_of_range_count_as_the_first_and_the_last() {
    let day = Duration::from_secs(24 * 3_600);
    let start = Instant::now() + 2 * day;
    for granularity in [Duration::ZERO, Duration::from_millis(1), Duration::MAX] {
        let mut queue = Timeouts::new(start, granularity);
        queue.insert(start - day, "before the start");
        let far = start + 200_000 * day;
        queue.insert(far, "after centuries");
        // The clock is before the start, so nothing is due.
        assert_eq!(queue.take_next(start - day), None);
        assert_eq!(queue.take_next(start), Some("before the start"));
        assert_eq!(queue.take_next(start + 50_000 * day), None);
        assert!(queue.next_time().is_some_and(|next| next < far));
        assert_eq!(queue.take_next(far), Some("after centuries"));
    }
}

#[test]
fn an_empty_queue_frees_the_memory_of_its_values() {
    let start = Instant::now();
    let mut queue = Timeouts::new(start, Duration::from_millis(1));
    let second = Duration::from_secs(1);
    let count = sized(50_000, 2_000) as u64;
    for value in 0..count {
        queue.insert(start + second, value);
    }
    assert_eq!(queue.take_until(start + 2 * second).count() as u64, count);
    let full = queue.wheel.memory();
    while queue.wheel.has_memory_to_free() {
        assert_eq!(queue.take_next(start + 2 * second), None);
    }
    assert!(queue.wheel.memory() < full / 8, "{full} bytes before");
}
