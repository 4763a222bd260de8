//! Tests of the priority queue against a sorted `Vec`.

use super::*;
use crate::queue::model::random::cases;
use crate::queue::model::sized;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Op<P> {
    Push(P),
    Pop,
    PopPush(P),
    PopDue(P),
    Change(u8, P),
    Remove(u8),
    Replace(u8),
    Stale(u8),
    Extend(Vec<P>),
    Shrink,
    Clear,
}

fn op<P: Clone + std::fmt::Debug + 'static>(
    priority: impl Strategy<Value = P> + Clone + 'static,
) -> impl Strategy<Value = Op<P>> {
    let pick = any::<u8>;
    prop_oneof![
        10 => priority.clone().prop_map(Op::Push),
        5 => Just(Op::Pop),
        4 => priority.clone().prop_map(Op::PopPush),
        3 => priority.clone().prop_map(Op::PopDue),
        6 => (pick(), priority.clone()).prop_map(|(pick, priority)| Op::Change(pick, priority)),
        4 => pick().prop_map(Op::Remove),
        1 => pick().prop_map(Op::Replace),
        2 => pick().prop_map(Op::Stale),
        2 => prop::collection::vec(priority, 0..40).prop_map(Op::Extend),
        1 => Just(Op::Shrink),
        1 => Just(Op::Clear),
    ]
}

/// The model: the expected entries, sorted by priority and then by insertion.
struct Sorted<P> {
    entries: Vec<(P, u32, TimerKey)>,
    last_value: u32,
    stale: Vec<TimerKey>,
}

impl<P: Ord + Clone + std::fmt::Debug> Sorted<P> {
    fn add(&mut self, priority: P, value: u32, key: TimerKey) {
        assert!(!self.stale.contains(&key), "the handle of a removed value");
        let place = self.entries.partition_point(|entry| entry.0 <= priority);
        self.entries.insert(place, (priority, value, key));
    }

    fn take(&mut self, place: usize) -> Option<(P, u32)> {
        if place >= self.entries.len() {
            return None;
        }
        let (priority, value, key) = self.entries.remove(place);
        self.stale.push(key);
        Some((priority, value))
    }

    fn next(&mut self) -> u32 {
        self.last_value += 1;
        self.last_value
    }

    /// Returns the position of the value that `pick` selects, or `None` if there are no values.
    fn pick(&self, pick: u8) -> Option<usize> {
        let len = self.entries.len();
        (len > 0).then(|| usize::from(pick) % len)
    }
}

fn run<P: Ord + Clone + std::fmt::Debug, const D: usize>(ops: &[Op<P>], armings_left: Option<u32>) {
    let mut queue = PriorityQueue::<P, u32, D>::default();
    if let Some(left) = armings_left {
        queue.heap.renumber_after(left);
    }
    let mut model = Sorted {
        entries: Vec::new(),
        last_value: 0,
        stale: Vec::new(),
    };
    for op in ops {
        match op.clone() {
            Op::Push(priority) => {
                let value = model.next();
                let key = queue.push(priority.clone(), value);
                model.add(priority, value, key);
            }
            Op::Pop => assert_eq!(queue.pop(), model.take(0)),
            Op::PopPush(priority) => {
                let value = model.next();
                let (key, least) = queue.pop_push(priority.clone(), value);
                assert_eq!(least, model.take(0));
                model.add(priority, value, key);
            }
            Op::PopDue(limit) => {
                let due = model.entries.first().is_some_and(|least| least.0 <= limit);
                let expected = if due { model.take(0) } else { None };
                assert_eq!(queue.pop_due(&limit), expected);
            }
            Op::Change(pick, priority) => {
                let Some(place) = model.pick(pick) else {
                    continue;
                };
                let (old, value, key) = model.entries.remove(place);
                assert_eq!(queue.change_priority(key, priority.clone()), Some(old));
                assert_eq!(queue.priority(key), Some(&priority));
                model.add(priority, value, key);
            }
            Op::Remove(pick) => {
                let Some(place) = model.pick(pick) else {
                    continue;
                };
                let key = model.entries[place].2;
                assert_eq!(queue.remove(key), model.take(place));
            }
            Op::Replace(pick) => {
                let Some(place) = model.pick(pick) else {
                    continue;
                };
                let value = model.next();
                let entry = &mut model.entries[place];
                assert_eq!(queue.get_mut(entry.2).copied(), Some(entry.1));
                *queue.get_mut(entry.2).expect("a live value") = value;
                entry.1 = value;
                assert_eq!(queue.get(entry.2), Some(&value));
            }
            Op::Stale(pick) => {
                let stale = usize::from(pick) % model.stale.len().max(1);
                let (Some(&key), Some(entry)) = (model.stale.get(stale), model.entries.first())
                else {
                    continue;
                };
                assert_eq!(queue.get(key), None);
                assert_eq!(queue.get_mut(key), None);
                assert_eq!(queue.priority(key), None);
                assert_eq!(queue.change_priority(key, entry.0.clone()), None);
                assert_eq!(queue.remove(key), None);
            }
            Op::Extend(priorities) => extend(&mut queue, &mut model, priorities),
            Op::Shrink => queue.shrink_to_fit(),
            Op::Clear => {
                queue.clear();
                while model.take(0).is_some() {}
            }
        }
        queue.heap.check();
        assert_eq!(queue.len(), model.entries.len());
        assert_eq!(queue.is_empty(), model.entries.is_empty());
        let least = model.entries.first();
        assert_eq!(
            queue.peek(),
            least.map(|(priority, value, _)| (priority, value))
        );
        assert_eq!(
            queue.peek_priority(),
            least.map(|(priority, _, _)| priority)
        );
    }
    assert_same(queue, model);
}

fn extend<P: Ord + Clone + std::fmt::Debug, const D: usize>(
    queue: &mut PriorityQueue<P, u32, D>,
    model: &mut Sorted<P>,
    priorities: Vec<P>,
) {
    let first = model.last_value + 1;
    queue.extend(
        (first..)
            .zip(&priorities)
            .map(|(value, priority)| (priority.clone(), value)),
    );
    let mut keys = vec![None; priorities.len()];
    for (key, _, &value) in queue.iter().filter(|(_, _, value)| **value >= first) {
        keys[(value - first) as usize] = Some(key);
    }
    for (priority, key) in priorities.into_iter().zip(keys) {
        let value = model.next();
        model.add(priority, value, key.expect("every value has a handle"));
    }
}

fn assert_same<P: Ord + Clone + std::fmt::Debug, const D: usize>(
    queue: PriorityQueue<P, u32, D>,
    model: Sorted<P>,
) {
    let mut seen: Vec<_> = queue.iter().map(|(key, _, &value)| (value, key)).collect();
    let mut known: Vec<_> = model
        .entries
        .iter()
        .map(|&(_, value, key)| (value, key))
        .collect();
    seen.sort_unstable();
    known.sort_unstable();
    assert_eq!(seen, known);
    let known: Vec<_> = model
        .entries
        .into_iter()
        .map(|(priority, value, _)| (priority, value))
        .collect();
    assert_eq!(queue.into_sorted_vec(), known);
}

fn run_all<P: Ord + Clone + std::fmt::Debug>(ops: &[Op<P>]) {
    run::<P, 2>(ops, None);
    run::<P, 3>(ops, None);
    run::<P, 4>(ops, None);
    run::<P, 12>(ops, None);
    run::<P, 4>(ops, Some(30));
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn equal_priorities_keep_their_order(ops in prop::collection::vec(op(0u8..8), 1..sized(150, 6))) {
        run_all(&ops);
    }

    #[test]
    fn floats_of_any_bits(ops in prop::collection::vec(op(any::<u64>().prop_map(|bits| TotalF64::new(f64::from_bits(bits)))), 1..sized(100, 6))) {
        run_all(&ops);
    }

    #[test]
    fn priorities_that_own_memory(ops in prop::collection::vec(op("[a-c]{0,3}"), 1..sized(80, 6))) {
        run_all(&ops);
    }

    #[test]
    fn greatest_first(ops in prop::collection::vec(op((0u8..20).prop_map(core::cmp::Reverse)), 1..sized(80, 6))) {
        run_all(&ops);
    }
}

#[test]
fn values_are_dropped_once() {
    let value = std::rc::Rc::new(());
    let mut queue: PriorityQueue<_, _> =
        (0..100u32).map(|n| (n * 37 % 100, value.clone())).collect();
    (0..30).for_each(|_| drop(queue.pop()));
    assert_eq!(std::rc::Rc::strong_count(&value), 71);
    let sorted = queue.into_sorted_vec();
    assert!(sorted.iter().map(|(priority, _)| *priority).eq(30..100));
    drop(sorted);
    assert_eq!(std::rc::Rc::strong_count(&value), 1);
}
