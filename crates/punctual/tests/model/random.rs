//! Random operations for the [model](super::Model), from proptest.

#[cfg(miri)]
pub use super::drawn::{op, span, when};
use super::{Op, sized};
#[cfg(not(miri))]
use super::{Span, When};
use proptest::prelude::*;
use std::ops::Range;

/// Returns any distance.
#[cfg(not(miri))]
pub fn span() -> impl Strategy<Value = Span> {
    // Nearly half of the distances are at most 2,040 ticks, so that timers share ticks and slots.
    // The longest distances reach the top level of the wheel.
    let exponent = prop_oneof![6 => 0u8..4, 4 => 0u8..16, 2 => 0u8..40, 1 => 0u8..64];
    (any::<u8>(), exponent).prop_map(|(mantissa, exponent)| Span { mantissa, exponent })
}

/// Returns any deadline.
#[cfg(not(miri))]
pub fn when() -> impl Strategy<Value = When> {
    prop_oneof![
        6 => span().prop_map(When::In),
        1 => span().prop_map(When::Ago),
        1 => prop_oneof![any::<u64>(), Just(u64::MAX), Just(0)].prop_map(When::At),
        3 => (any::<u8>(), any::<i8>()).prop_map(|(pick, off)| When::With(pick, off)),
    ]
}

/// Returns any operation, except [`Op::Clear`] and [`Op::Drain`].
#[cfg(not(miri))]
pub fn op() -> impl Strategy<Value = Op> {
    let pick = any::<u8>;
    prop_oneof![
        10 => when().prop_map(Op::Insert),
        2 => (any::<u8>(), when()).prop_map(|(count, when)| Op::Burst(count % 60, when)),
        6 => pick().prop_map(Op::Remove),
        2 => Just(Op::RemoveLast),
        8 => (pick(), when()).prop_map(|(pick, when)| Op::Reset(pick, when)),
        1 => pick().prop_map(Op::Change),
        1 => pick().prop_map(Op::Stale),
        5 => span().prop_map(Op::Advance),
        1 => span().prop_map(Op::StepBack),
        3 => Just(Op::PopOne),
        2 => Just(Op::PopAll),
        2 => any::<u8>().prop_map(|budget| Op::Poll(budget % 40)),
        3 => any::<u8>().prop_map(|budget| Op::PollOnce(budget % 30)),
        4 => Just(Op::NextDeadline),
        2 => Just(Op::JumpToNext),
        1 => Just(Op::Iterate),
        1 => Just(Op::Shrink),
    ]
}

/// Returns a random number of operations in `count`; fewer under Miri.
pub fn ops(count: Range<usize>) -> impl Strategy<Value = Vec<Op>> {
    let divisor = sized(1, 10);
    prop::collection::vec(
        op(),
        (count.start / divisor).max(1)..(count.end / divisor).max(2),
    )
}

/// Returns a configuration with `many` cases, fewer under Miri; `PROPTEST_CASES` overrides it.
pub fn cases(many: u32) -> ProptestConfig {
    let config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => config,
        None => ProptestConfig {
            cases: if cfg!(miri) {
                (many / 64).clamp(1, 4)
            } else {
                many
            },
            ..config
        },
    }
}
