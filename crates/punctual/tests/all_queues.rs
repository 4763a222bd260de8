//! Runs the same operations on every deadline queue and compares each queue with a model, step by
//! step: the order of popped timers, the next deadline, and whether stale handles are refused. The
//! unit tests of each queue also check its private invariants.
#![allow(missing_docs)]
#![allow(unexpected_cfgs)] // cargo-fuzz sets `fuzzing`

mod model;

use model::random::{cases, span, when};
use model::{Model, Op, Span, Subject, When, sized};
use proptest::prelude::*;
use punctual::{DeadlineQueue, Heap, TimerKey, Wheel};
use punctual_harness::Random;

/// Prints the name of the queue if a test panics.
struct Named(&'static str);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the queue that failed: {}", self.0);
        }
    }
}

/// Defines functions that run a test on each of these queues.
macro_rules! queues {
    ($($name:literal: $queue:ty),* $(,)?) => {
        $(impl Subject for $queue {})*

        fn run_all(ops: &[Op]) {
            $({
                let _name = Named($name);
                Model::new(<$queue>::default()).run(ops.iter().copied());
            })*
        }

        fn drain_all(fill: fn(&mut dyn Filled) -> Vec<Option<u64>>) -> Vec<Drained> {
            vec![$({
                let mut queue = <$queue>::default();
                let answers = fill(&mut queue);
                let popped = std::iter::from_fn(|| queue.pop_due(u64::MAX));
                let popped = popped.map(|expired| (expired.deadline, expired.value)).collect();
                Drained { name: $name, answers, popped }
            }),*]
        }
    };
}

queues! {
    "wheel": Wheel<u64>,
    "binary heap": Heap<u64, 2>,
    "heap of four": Heap<u64, 4>,
    "heap of eight": Heap<u64, 8>,
}

/// The results of the operations that filled a queue, and the timers that were popped afterwards.
struct Drained {
    name: &'static str,
    answers: Vec<Option<u64>>,
    popped: Vec<(u64, u64)>,
}

/// The operations that fill a queue.
trait Filled {
    fn arm(&mut self, deadline: u64, value: u64) -> TimerKey;
    fn rearm(&mut self, key: TimerKey, deadline: u64) -> bool;
    fn cancel(&mut self, key: TimerKey) -> Option<u64>;
    fn pop(&mut self, now: u64) -> Option<u64>;
}

impl<Q: DeadlineQueue<u64>> Filled for Q {
    fn arm(&mut self, deadline: u64, value: u64) -> TimerKey {
        self.insert(deadline, value)
    }

    fn rearm(&mut self, key: TimerKey, deadline: u64) -> bool {
        self.reset(key, deadline)
    }

    fn cancel(&mut self, key: TimerKey) -> Option<u64> {
        self.remove(key)
    }

    fn pop(&mut self, now: u64) -> Option<u64> {
        self.pop_due(now).map(|expired| expired.value)
    }
}

/// Returns operations that nearly all re-arm one of many timers, to earlier and later ticks.
fn storm() -> impl Strategy<Value = Vec<Op>> {
    let reset = prop_oneof![
        3 => (any::<u8>(), when()),
        2 => (any::<u8>(), (0u8..8, 0u8..12).prop_map(|(mantissa, exponent)| {
            When::In(Span { mantissa, exponent })
        })),
    ];
    let step = prop_oneof![
        20 => reset.prop_map(|(pick, when)| Op::Reset(pick, when)),
        1 => Just(Op::NextDeadline),
        1 => Just(Op::PopOne),
        1 => span().prop_map(Op::Advance),
    ];
    let crowd = prop::collection::vec((10u8..60, when()), 1..4);
    (
        crowd,
        prop::collection::vec(step, sized(100, 5)..sized(400, 20)),
    )
        .prop_map(|(crowd, steps)| {
            let crowd = crowd
                .into_iter()
                .map(|(count, when)| Op::Burst(count, when));
            crowd.chain(steps).collect()
        })
}

/// Returns operations with few ticks and many timers on each tick, some at the last tick.
fn ties() -> impl Strategy<Value = Vec<Op>> {
    let tick = prop_oneof![4 => 0u64..4, 1 => Just(u64::MAX), 1 => Just(u64::MAX - 1)];
    let at = tick.prop_map(When::At);
    let step = prop_oneof![
        6 => at.clone().prop_map(Op::Insert),
        2 => (1u8..20, at.clone()).prop_map(|(count, when)| Op::Burst(count, when)),
        6 => (any::<u8>(), at).prop_map(|(pick, when)| Op::Reset(pick, when)),
        2 => any::<u8>().prop_map(|pick| Op::Reset(pick, When::With(pick, 0))),
        4 => any::<u8>().prop_map(Op::Remove),
        1 => any::<u8>().prop_map(Op::Stale),
        3 => Just(Op::PopOne),
        2 => (0u8..5).prop_map(Op::PollOnce),
        1 => Just(Op::Advance(Span { mantissa: 1, exponent: 0 })),
        1 => Just(Op::StepBack(Span { mantissa: 2, exponent: 0 })),
        2 => Just(Op::NextDeadline),
    ];
    prop::collection::vec(step, sized(50, 5)..sized(300, 20))
}

/// Returns operations with a clock that often steps back.
fn unsteady() -> impl Strategy<Value = Vec<Op>> {
    let step = prop_oneof![
        6 => when().prop_map(Op::Insert),
        2 => any::<u8>().prop_map(Op::Remove),
        3 => (any::<u8>(), when()).prop_map(|(pick, when)| Op::Reset(pick, when)),
        4 => span().prop_map(Op::Advance),
        4 => span().prop_map(Op::StepBack),
        3 => Just(Op::PopAll),
        2 => Just(Op::JumpToNext),
        2 => (0u8..30).prop_map(Op::PollOnce),
        1 => Just(Op::Clear),
    ];
    prop::collection::vec(step, sized(50, 5)..sized(200, 20))
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    #[cfg_attr(miri, ignore = "large, and takes no other path than the small ones")]
    fn all_survive_storms_of_rearming(ops in storm()) {
        run_all(&ops);
    }

    #[test]
    #[cfg_attr(miri, ignore = "large, and takes no other path than the small ones")]
    fn all_keep_the_arming_order_of_ties(ops in ties()) {
        run_all(&ops);
    }

    #[test]
    #[cfg_attr(miri, ignore = "large, and takes no other path than the small ones")]
    fn all_survive_a_clock_that_steps_back(ops in unsteady()) {
        run_all(&ops);
    }
}

/// Runs a realistic workload, with more timers than the model can handle. Compares the results of
/// the queues with each other.
#[test]
fn all_pop_the_same_of_a_hundred_thousand_timers() {
    const TIMERS: u64 = sized(100_000, 60) as u64;

    fn fill(queue: &mut dyn Filled) -> Vec<Option<u64>> {
        let mut random = Random::new(42);
        let mut below = |end| random.below(end);
        let (mut keys, mut answers) = (Vec::new(), Vec::new());
        for value in 0..TIMERS {
            let now = value / 7;
            let timeout = [30, 1_000, 60_000, below(1 << 20)][value as usize % 4];
            keys.push(queue.arm(now + timeout, value));
            let at = below(value + 1) as usize;
            match value % 5 {
                0 => answers.push(queue.cancel(keys[at])),
                1 | 2 => {
                    let armed = queue.rearm(keys[at], now + below(50_000));
                    answers.push(armed.then_some(value));
                }
                _ => answers.push(queue.pop(now)),
            }
        }
        answers
    }

    let drained = drain_all(fill);
    let (first, others) = drained.split_first().expect("there are queues");
    assert!(first.popped.len() as u64 > TIMERS / 5);
    assert!(first.popped.is_sorted_by_key(|&(deadline, _)| deadline));
    assert!(first.answers.iter().flatten().count() as u64 > TIMERS / 4);
    for Drained {
        name,
        answers,
        popped,
    } in others
    {
        let differs = answers.iter().zip(&first.answers);
        let differs = differs.enumerate().find(|(_, (one, other))| one != other);
        assert_eq!(differs, None, "the {name} returns other results");
        let differs = popped.iter().zip(&first.popped);
        let differs = differs.enumerate().find(|(_, (one, other))| one != other);
        assert_eq!(differs, None, "the {name} pops other timers");
        assert_eq!(popped.len(), first.popped.len(), "the {name} has lost some");
    }
}
