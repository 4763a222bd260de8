//! Tests of the wheel against a simple model, of its private invariants, and of its bounds on
//! memory and work.

mod invariants;

use super::chunk::{CHUNK, NONE};
use super::serve::RUN_MAX;
use super::sweep::CANCELS_PER_STEP;
use super::{Entry, RawWheel, Step, Timers, Wheel};
use crate::Polled;
use crate::queue::armings::ArmingCounter;
use crate::queue::model::random::{cases, op, ops, span, when};
use crate::queue::model::{Model, Op, Span, Subject, When, sized};
use proptest::prelude::*;
use std::cell::Cell;
use std::collections::HashMap;

use invariants::{check_invariants, filed};

/// The timers of a wheel, except the undecided timers with these indices: their records' entries
/// count as spare.
struct Decided<'a>(&'a Wheel<u64>, &'a [u32]);

impl Timers for Decided<'_> {
    const ORDERED: bool = true;

    fn deadline(&self, index: u32, generation: u32) -> Option<u64> {
        let deadline = self.0.records.deadline(index, generation);
        deadline.filter(|_| !self.1.contains(&index))
    }

    fn is_current(&self, index: u32, generation: u32) -> bool {
        self.0.records.is_current(index, generation)
    }

    fn sequence(&self, index: u32) -> u32 {
        self.0.records.sequence(index)
    }
}

impl Subject for Wheel<u64> {
    fn check(&self) {
        if self.is_few {
            return self.check_few();
        }
        let mut valid_entries: HashMap<u32, usize> = HashMap::new();
        let mut noted = self.undecided;
        let undecided: Vec<u32> = (0..noted.take())
            .map(|at| noted.taken(at))
            .filter(|&index| self.records.at(index).is_some())
            .collect();
        check_invariants(&self.raw, &Decided(self, &undecided));
        for &index in &undecided {
            valid_entries.insert(index, 1);
            assert!(self.raw.earliest.bound() <= self.records.at(index).unwrap().deadline);
        }
        for (_, index, generation) in filed(&self.raw) {
            if self.records.deadline(index, generation).is_some() {
                *valid_entries.entry(index).or_default() += 1;
            }
        }
        assert_eq!(
            valid_entries.len(),
            self.len(),
            "every living timer has an entry that is_current"
        );
        let entries = self.raw.entries() - self.raw.dead + undecided.len();
        let spare = entries.checked_sub(self.len());
        assert!(
            spare.is_some_and(|spare| spare <= self.records.records() - self.len() + undecided.len()),
            "spare entries have a record"
        );
        assert!(
            self.raw.dead <= self.len() + 256 + 2 * CHUNK * CANCELS_PER_STEP,
            "dead entries are bounded"
        );
    }
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn the_wheel_matches_the_model(ops in ops(1..150)) {
        Model::new(Wheel::many()).run(ops);
    }

    #[test]
    fn a_new_wheel_matches_the_model(ops in ops(1..150)) {
        Model::new(Wheel::new()).run(ops);
    }

    #[test]
    fn a_cleared_wheel_works(
        before in ops(1..40), after in ops(1..40),
    ) {
        Model::new(Wheel::many()).run(before.into_iter().chain([Op::Clear]).chain(after));
    }

    #[test]
    #[cfg_attr(miri, ignore = "long, and the cursor is set back in other tests too")]
    fn the_cursor_is_set_back(
        far in prop::collection::vec(when(), 25..60), ops in ops(1..100),
    ) {
        // Arms many timers far ahead, moves the cursor to them, and arms many timers before the
        // cursor.
        let ahead = Span { mantissa: 200, exponent: 20 };
        let bait = (0..30).map(|_| Op::Insert(When::In(ahead)));
        let lead = far.into_iter().map(Op::Insert).chain(bait).chain([Op::NextDeadline]);
        let near = (0..100).map(|n| Op::Insert(When::In(Span { mantissa: n, exponent: n % 13 })));
        Model::new(Wheel::many()).run(lead.chain(near).chain(ops));
    }
}

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn a_long_run_matches_the_model(ops in ops(1_000..1_500)) {
        Model::new(Wheel::many()).run(ops);
    }

    #[test]
    fn a_sweep_survives_other_operations(
        near in 4u8..14, kill in any::<u8>(),
        ops in prop::collection::vec((0u8..12, any::<u8>()), sized(300, 20)..sized(500, 30)),
    ) {
        // Fills slots with many timers, and cancels so many that a sweep has just started.
        let bursts = (0..10).map(|n| Op::Burst(sized(180, 40) as u8, When::In(Span { mantissa: 3 + n * 5, exponent: near })));
        let kills = (0..sized(1_030, 320) as u32 + u32::from(kill % 32)).map(|n| Op::Remove((n as u8).wrapping_mul(kill | 1)));
        let span = |mantissa: u8| Span { mantissa: mantissa % 8, exponent: near };
        let meanwhile = ops.into_iter().map(|(what, n)| match what {
            0 | 1 => Op::PollOnce(n % 64),
            2 => Op::Advance(span(n)),
            3 => Op::NextDeadline,
            4 => Op::Burst(n % 80, When::In(span(n))),
            5 => Op::StepBack(span(n)),
            6 => Op::Reset(n, When::In(span(n / 8))),
            _ => Op::Remove(n),
        });
        Model::new(Wheel::many()).run(bursts.chain(kills).chain(meanwhile));
    }

    #[test]
    #[cfg_attr(miri, ignore = "long, and other tests sweep too")]
    fn sweeps_do_not_disturb_other_operations(
        ops in prop::collection::vec(op(), 50), bursts in prop::collection::vec((when(), any::<u8>()), 10),
    ) {
        // Interleaves so many cancels that sweeps start with all other operations.
        let churn = bursts.into_iter().zip(ops.chunks(5)).flat_map(|((when, seed), ops)| {
            let kill = (0..100u8).map(move |n| Op::Remove(n.wrapping_mul(seed | 1)));
            [Op::Burst(120, when)].into_iter().chain(kill).chain(ops.to_vec())
        });
        Model::new(Wheel::many()).run(churn.collect::<Vec<_>>());
    }
}

/// The deadline and the generation of each timer, and the number of lookups. Timers with equal
/// deadlines have no order.
#[derive(Default)]
struct Sessions(Vec<(u64, u32)>, Cell<usize>);

impl Timers for Sessions {
    fn deadline(&self, index: u32, generation: u32) -> Option<u64> {
        self.1.set(self.1.get() + 1);
        let &(deadline, current) = self.0.get(index as usize)?;
        (current == generation).then_some(deadline)
    }
}

/// Pops all due entries in small steps. Returns them and the maximum work of one step.
fn small_steps(
    raw: &mut RawWheel,
    now: u64,
    timers: &mut Sessions,
    budget: usize,
) -> (Vec<Entry>, usize) {
    let (mut popped, mut most) = (Vec::new(), 0);
    loop {
        let (mut left, before) = (budget, raw.puts + timers.1.get());
        match raw.step(now, timers, &mut left) {
            Step::Due(due) => popped.push(due),
            Step::Busy => assert_eq!(left, 0),
            Step::Idle => return (popped, most),
        }
        most = most.max(raw.puts + timers.1.get() - before);
    }
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn the_raw_wheel_pops_every_timer_at_its_deadline(
        spans in prop::collection::vec((span(), span(), any::<u8>()), 1..sized(200, 20)), budget in 1usize..40,
    ) {
        let mut owner = Sessions::default();
        let mut raw = RawWheel::new();
        for (index, &(Span { mantissa, exponent }, _, _)) in spans.iter().enumerate() {
            let deadline = u64::from(mantissa) << exponent;
            owner.0.push((deadline, 0));
            raw.insert(deadline, index as u32, 0);
        }
        for (index, &(_, Span { mantissa, exponent }, what)) in spans.iter().enumerate() {
            let (deadline, generation) = &mut owner.0[index];
            let other = u64::from(mantissa) << exponent;
            match what % 4 {
                0 => *deadline = other.max(*deadline), // re-armed later
                1 if other < *deadline => {
                    (*deadline, *generation) = (other, 1);
                    raw.insert(other, index as u32, 1);
                    raw.forget(&mut owner);
                }
                2 => {
                    *generation = u32::MAX;
                    raw.forget(&mut owner);
                }
                _ => {}
            }
            if what > 200 {
                let live = owner.0.iter().filter(|timer| timer.1 != u32::MAX);
                let earliest = live.map(|timer| timer.0).min();
                prop_assert_eq!(raw.next_deadline(&mut owner), earliest);
            }
        }
        check_invariants(&raw, &owner);
        let mut expected: Vec<u64> =
            owner.0.iter().filter(|timer| timer.1 != u32::MAX).map(|timer| timer.0).collect();
        expected.sort_unstable();
        let (popped, most) = small_steps(&mut raw, u64::MAX, &mut owner, budget);
        prop_assert!(most <= 2 * (budget + RUN_MAX), "{} lookups and moves for {}", most, budget);
        prop_assert_eq!(popped.iter().map(|due| due.deadline).collect::<Vec<_>>(), expected);
        prop_assert_eq!((raw.entries(), raw.live(), raw.next_wakeup()), (0, 0, None));
    }
}

const MANY: u32 = sized(100_000, 100) as u32;

#[test]
fn equal_deadlines_pop_in_arming_order_however_they_were_armed() {
    let mut wheel = Wheel::many();
    let put_off: Vec<_> = (0..30).map(|n| wheel.insert(100 + n, n)).collect();
    let later: Vec<_> = (0..30).map(|n| wheel.insert(9_000, 100 + n)).collect();
    let tick = 5_000;
    for n in 0..30 {
        wheel.insert(tick, 200 + n);
        assert!(wheel.reset(put_off[n as usize], tick));
        assert!(wheel.reset(later[n as usize], tick));
    }
    // A re-arm to the same tick also changes the order of arming.
    assert!(wheel.reset(put_off[3], tick));
    let mut expected: Vec<u64> = (0..30)
        .flat_map(|n| [200 + n, n, 100 + n])
        .filter(|&n| n != 3)
        .collect();
    expected.push(3);
    for now in [99, 120, 4_000] {
        assert_eq!(wheel.pop_due(now), None);
    }
    let popped: Vec<u64> = std::iter::from_fn(|| wheel.pop_due(tick))
        .map(|expired| expired.value)
        .collect();
    assert_eq!(popped, expected);
}

#[test]
fn arming_order_survives_renumbering() {
    let mut wheel = Wheel::many();
    wheel.arming_counter = ArmingCounter::with_remaining(50);
    let keys: Vec<_> = (0..100)
        .map(|n| wheel.insert(if n % 2 == 0 { 10 } else { 700 }, n))
        .collect();
    // Some entries are in the front, already sorted, when the wheel renumbers the armings.
    wheel.insert(4, 0);
    assert!(wheel.pop_due(5).is_some());
    wheel.arming_counter = ArmingCounter::with_remaining(9);
    for n in 100..110 {
        wheel.insert(3, n);
        wheel.insert(2, n);
        assert_eq!(wheel.pop_due(5).map(|expired| expired.deadline), Some(2));
    }
    assert!(wheel.reset(keys[0], 700));
    assert!(wheel.arming_counter.next().get() < 1_000);
    let popped: Vec<_> = std::iter::from_fn(|| wheel.pop_due(700))
        .map(|expired| expired.value)
        .collect();
    let expected: Vec<_> = (100..110)
        .chain((2..100).step_by(2))
        .chain((1..100).step_by(2))
        .chain([0])
        .collect();
    assert_eq!(popped, expected);
}

#[test]
fn setting_the_cursor_back_keeps_the_order_of_a_pending_slot() {
    let mut wheel = Wheel::many();
    let many = RUN_MAX as u64 + 100;
    (0..many).for_each(|n| {
        wheel.insert(5_000, n);
    });
    assert_eq!(wheel.poll_due(5_000, &mut 45), Polled::Busy);
    assert_eq!(wheel.raw.pending(), 2);
    assert!(wheel.raw.cursor > 4_000 && wheel.raw.occupied.count_ones() > 1);
    // The clock steps back, and many timers are armed before the cursor.
    assert_eq!(wheel.poll_due(10, &mut 0), Polled::Idle);
    (1_000..1_200).for_each(|n| {
        wheel.insert(n, n);
    });
    assert!(wheel.raw.cursor < 1_000, "the cursor was set back");
    wheel.check();
    let popped: Vec<_> = std::iter::from_fn(|| wheel.pop_due(5_000))
        .map(|expired| expired.value)
        .collect();
    assert_eq!(popped, (1_000..1_200).chain(0..many).collect::<Vec<_>>());
}

/// Returns a wheel and the keys of its timers. The wheel has many entries in one slot at tick 700,
/// its cursor ahead of the clock, and a sweep halfway through the slot.
fn half_swept() -> (Wheel<u64>, Vec<crate::TimerKey>) {
    let mut wheel = Wheel::many();
    let mut keys: Vec<_> = (0..sized(2_000, 700) as u64)
        .map(|n| wheel.insert(700, n))
        .collect();
    assert_eq!(wheel.raw.find_first(&mut wheel.records), Some(700));
    assert_eq!(wheel.raw.cursor, 640);
    // The entries of the reset timers in this slot become dead.
    for n in 0.. {
        let key = keys.swap_remove(n * 7 % keys.len());
        assert!(wheel.reset(key, 699));
        assert!(wheel.remove(key).is_some());
        // The sweep begins with the entries in the front.
        if let Some((0, slots)) = wheel.raw.sweep {
            assert_eq!(slots.trailing_zeros(), 60);
            break;
        }
    }
    assert_ne!(wheel.raw.pool.sweep_end, NONE);
    (wheel, keys)
}

#[test]
fn a_sweep_survives_joining_its_slot_to_another() {
    let (mut wheel, keys) = half_swept();
    (0..300).for_each(|n| {
        wheel.insert(n % 63, n);
    });
    assert_eq!(wheel.raw.cursor, 0, "the cursor was set back");
    // Another slot takes the position of the sweep.
    (0..50).for_each(|n| {
        wheel.insert(60, n);
    });
    for (n, key) in keys.into_iter().enumerate() {
        assert!(wheel.remove(key).is_some());
        if n % sized(1, 128) == 0 {
            wheel.check();
        }
    }
}

#[test]
fn a_sweep_survives_draining_its_chunk() {
    let (mut wheel, keys) = half_swept();
    for _ in 0..sized(600, 130) {
        assert!(wheel.pop_due(700).is_some());
    }
    assert!(wheel.raw.sweep.is_some());
    for (n, key) in keys.into_iter().enumerate() {
        wheel.remove(key);
        if n % sized(1, 128) == 0 {
            wheel.check();
        }
    }
}

#[test]
fn a_large_slot_moves_within_the_budget() {
    let tick = 123_456_789;
    let mut owner = Sessions::default();
    owner
        .0
        .extend((0..MANY).map(|index| (tick + u64::from(index % 3), 0)));
    for budget in [1, 64] {
        let mut raw = RawWheel::new();
        for (index, &(due, _)) in owner.0.iter().enumerate() {
            raw.insert(due, index as u32, 0);
        }
        assert_eq!(raw.step(u64::MAX, &mut owner, &mut 0), Step::Busy);
        let (popped, most) = small_steps(&mut raw, tick + 1, &mut owner, budget);
        assert_eq!(
            popped.len(),
            (0..MANY).filter(|index| index % 3 < 2).count()
        );
        assert!(popped.is_sorted_by_key(|due| due.deadline));
        assert!(
            most <= 2 * (budget + RUN_MAX),
            "{most} lookups and moves for {budget}"
        );
        check_invariants(&raw, &owner);
    }
}

#[test]
fn cancels_leave_bounded_memory() {
    let mut wheel = Wheel::many();
    let mut random = 1u64;
    let mut keys: Vec<_> = (0..u64::from(MANY) / 10)
        .map(|n| wheel.insert(60_000 + n, n))
        .collect();
    let mut most = 0;
    for n in 0..u64::from(MANY) * 2 {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let at = (random >> 33) as usize % keys.len();
        assert!(wheel.remove(keys[at]).is_some());
        // Timers far ahead, whose entries would stay for a long time without sweeps.
        keys[at] = wheel.insert(random >> (random % 40), n);
        most = most.max(wheel.raw.entries());
        // Re-arms some timers to an earlier tick, which also makes their entries dead.
        let at = (random >> 13) as usize % keys.len();
        let deadline = wheel.deadline(keys[at]).unwrap();
        assert!(wheel.reset(keys[at], deadline / 2));
        most = most.max(wheel.raw.entries());
    }
    assert!(
        most <= keys.len() * 9 / 4 + 512,
        "{most} entries of {} timers",
        keys.len()
    );
    wheel.check();
    let bound = keys.len() * (24 + 2 * 25) + (1 << 16);
    assert!(
        wheel.memory() < bound,
        "{} bytes, {bound} are enough",
        wheel.memory()
    );
}

#[test]
fn cancels_before_the_cursor_are_swept_too() {
    let mut wheel = Wheel::many();
    (0..100).for_each(|n| {
        wheel.insert(1_000_000, n);
    });
    assert_eq!(wheel.pop_due(900_000), None);
    assert_eq!(
        wheel.pop_due(2_000_000).map(|expired| expired.value),
        Some(0)
    );
    // The clock steps back: every new timer is before the cursor.
    for n in 0..u64::from(MANY) {
        let keys: Vec<_> = (0..3)
            .map(|m| wheel.insert(500_000 + n % 1_000 + m, n))
            .collect();
        if n % 7 == 0 {
            assert_eq!(wheel.next_deadline(), Some(500_000 + n % 1_000));
        }
        keys.into_iter()
            .for_each(|key| assert!(wheel.remove(key).is_some()));
        assert!(
            wheel.raw.entries() < 3 * 100 + 512,
            "{} entries",
            wheel.raw.entries()
        );
    }
    wheel.check();
}

#[test]
fn armed_and_cancelled_timeouts_reuse_entries() {
    let mut wheel = Wheel::many();
    for n in 0..sized(1_000, 100) as u64 {
        let key = wheel.insert(n * 1_000, n);
        wheel.remove(key);
        assert_eq!(wheel.raw.entries(), 1);
    }
}

#[test]
fn memory_is_freed_when_timers_leave() {
    let mut wheel = Wheel::many();
    let empty = wheel.memory();
    for n in 0..u64::from(MANY) {
        wheel.insert(n * 7 % 60_000, n);
    }
    let full = wheel.memory();
    assert!(full < 60 * MANY as usize || cfg!(miri), "{full} bytes");
    let mut popped = 0;
    while wheel.pop_due(59_000).is_some() {
        popped += 1;
    }
    assert!(popped > MANY / 2);
    if !cfg!(miri) {
        assert!(
            wheel.raw.memory() < full / 8,
            "{} of {full} bytes",
            wheel.raw.memory()
        );
    }
    while wheel.pop_due(60_000).is_some() {}
    // The memory of the records is freed in pieces.
    (0..MANY / 1_000).for_each(|_| assert_eq!(wheel.pop_due(60_000), None));
    assert!(
        wheel.memory() < empty + 200_000,
        "{} bytes empty",
        wheel.memory()
    );
}

#[test]
fn a_clock_that_stands_still_or_steps_back_loses_nothing() {
    let mut wheel = Wheel::many();
    let mut popped = Vec::new();
    for (n, now) in [1_000u64, 1_000, 50, 70_000, 0, u64::MAX, 3, 69_000]
        .into_iter()
        .enumerate()
    {
        for deadline in [0, 60, 500, 1_000, 66_000, 70_001, u64::MAX] {
            wheel.insert(deadline, n);
        }
        while let Some(expired) = wheel.pop_due(now) {
            assert!(expired.deadline <= now);
            popped.push(expired.deadline);
        }
        assert!(wheel.next_deadline().is_none_or(|next| next > now));
    }
    while let Some(expired) = wheel.pop_due(u64::MAX) {
        popped.push(expired.deadline);
    }
    assert_eq!(popped.len(), 8 * 7);
}

/// When many timers fire or are cancelled, no call frees more than a few blocks. In the end all
/// memory is freed.
#[test]
#[cfg_attr(miri, ignore = "takes a hundred thousand timers")]
fn many_timers_are_freed_in_pieces() {
    // One piece of the records, one piece of the front's entries, and a few pieces of the pool's
    // segments, one for each opened slot.
    const MOST: usize = (32 + 16 + 3 * 8 * 4) << 10;
    for cancelled in [false, true] {
        let mut wheel = Wheel::many();
        let empty = wheel.memory();
        let keys: Vec<_> = (0..u64::from(MANY))
            .map(|n| wheel.insert(n * 7919 % 60_000, n))
            .collect();
        wheel.shrink_to_fit(); // frees room that was never used
        let full = wheel.memory();
        let (mut before, mut most) = (full, 0);
        let mut freed = |wheel: &Wheel<u64>| {
            let memory = wheel.memory();
            most = most.max(before.saturating_sub(memory));
            before = memory;
        };
        for key in keys.into_iter().filter(|_| cancelled) {
            assert!(wheel.remove(key).is_some());
            freed(&wheel);
        }
        while !wheel.is_empty() {
            wheel.poll_due(60_000, &mut 16);
            freed(&wheel);
        }
        let mut polls = 0;
        while wheel.has_memory_to_free() {
            assert_eq!(wheel.pop_due(60_000), None);
            freed(&wheel);
            polls += 1;
        }
        assert!(full > 4 * MOST, "{full} bytes are not many");
        assert!(most <= MOST, "{most} of {full} bytes were freed at once");
        assert!(before < empty + 34_000, "{before} bytes are left");
        assert!(polls <= full / (32 << 10) + 1, "{polls} polls");
    }
}

/// Ticks are Unix time in nanoseconds, and the wheel was never polled, so all entries are on the
/// top level.
#[test]
fn a_wheel_that_was_never_polled_sweeps_entries() {
    let mut wheel = Wheel::many();
    let start = 1_763_000_000_000_000_000;
    let other = wheel.insert(start + 5_000_000_000, 0);
    for n in 0..sized(10_000, 50) as u64 {
        let key = wheel.insert(start + n * 1_000 + n % 7 * 1_000_000, n);
        assert!(wheel.remove(key).is_some());
        assert!(wheel.reset(other, start + 4_000_000_000 - n));
        assert!(wheel.raw.entries() < 1_000);
    }
    wheel.check();
    assert_eq!(wheel.next_deadline(), wheel.deadline(other));
    assert!(wheel.pop_due(start + 5_000_000_000).is_some());
}
