//! Tests of `DelayQueue` against a sorted map, and of its wake-ups.

use std::collections::BTreeMap;

use futures_core::{FusedStream, Stream};
use proptest::prelude::*;

use super::*;

#[test]
fn a_delay_queue_wakes_its_task_for_the_earliest() {
    let time = VirtualTime::new();
    let _entered = time.enter();
    let task = Task::new();
    let mut queue = DelayQueue::new();
    let late = queue.insert("late", 50 * MS);
    assert_eq!(armed(), 0, "nobody waits");
    assert!(queue.poll_expired(&mut task.cx()).is_pending());
    queue.insert("sooner", 20 * MS);
    queue.insert("latest", 60 * MS);
    assert_eq!(armed(), 1);
    time.advance(20 * MS);
    assert_eq!(task.woken(), 1);
    let Poll::Ready(Some(expired)) = queue.poll_expired(&mut task.cx()) else {
        panic!("the deadline has passed");
    };
    assert_eq!(expired.value, "sooner");
    assert_eq!(expired.deadline, now());
    assert!(queue.poll_expired(&mut task.cx()).is_pending());
    assert!(queue.reset(late, 5 * MS));
    time.advance(5 * MS);
    assert_eq!(task.woken(), 1);
    let next = Pin::new(&mut queue).poll_next(&mut task.cx());
    assert!(matches!(next, Poll::Ready(Some(expired)) if expired.value == "late"));
    assert_eq!((queue.len(), armed()), (1, 0));
}

#[test]
fn emptying_a_delay_queue_wakes_its_task() {
    let time = VirtualTime::new();
    let _entered = time.enter();
    let task = Task::new();
    let mut queue = DelayQueue::new();
    let key = queue.insert((), 50 * MS);
    assert!(queue.poll_expired(&mut task.cx()).is_pending());
    assert_eq!(queue.remove(key), Some(()));
    assert_eq!((task.woken(), armed()), (1, 0));
    assert_eq!(queue.poll_expired(&mut task.cx()), Poll::Ready(None));
    queue.insert((), 50 * MS);
    assert!(queue.poll_expired(&mut task.cx()).is_pending());
    queue.clear();
    assert_eq!((task.woken(), armed()), (1, 0));
    queue.insert((), 50 * MS);
    assert!(queue.poll_expired(&mut task.cx()).is_pending());
    drop(queue);
    assert_eq!((armed(), task.woken(), task.waker_clones()), (0, 0, 0));
}

#[test]
fn a_task_that_found_a_delay_queue_empty_is_woken_for_a_new_value() {
    let time = VirtualTime::new();
    let _entered = time.enter();
    let (first, second) = (Task::new(), Task::new());
    let mut queue = DelayQueue::new();
    for task in [&first, &second] {
        assert_eq!(queue.poll_expired(&mut task.cx()), Poll::Ready(None));
    }
    assert_eq!((first.waker_clones(), second.waker_clones()), (0, 1));
    queue.insert("late", 50 * MS);
    queue.insert("sooner", 20 * MS);
    assert_eq!((second.woken(), armed()), (0, 1));
    time.advance(20 * MS);
    assert_eq!((first.woken(), second.woken()), (0, 1));
    assert!(
        matches!(queue.poll_expired(&mut second.cx()), Poll::Ready(Some(one)) if one.value == "sooner")
    );
    queue.clear();
    assert_eq!(queue.poll_expired(&mut first.cx()), Poll::Ready(None));
    queue.insert("due", Duration::ZERO);
    assert_eq!((first.woken(), armed()), (1, 0));
    let due = queue.poll_expired(&mut first.cx());
    assert!(matches!(due, Poll::Ready(Some(one)) if one.value == "due"));
    assert_eq!(queue.poll_expired(&mut first.cx()), Poll::Ready(None));
    assert_eq!(first.waker_clones(), 1);
    drop(queue);
    assert_eq!((first.waker_clones(), second.waker_clones()), (0, 0));
}

#[test]
fn a_delay_queue_is_terminated_while_it_is_empty() {
    let mut queue = DelayQueue::new();
    assert!(queue.is_terminated());
    let key = queue.insert((), MS);
    assert!(!queue.is_terminated());
    queue.remove(key);
    assert!(queue.is_terminated());
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u64),
    Remove(usize),
    Reset(usize, u64),
    Poll,
    Advance(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..300u64).prop_map(Step::Insert),
        1 => any::<usize>().prop_map(Step::Remove),
        1 => (any::<usize>(), 0..300u64).prop_map(|(which, delay)| Step::Reset(which, delay)),
        4 => Just(Step::Poll),
        3 => (0..100u64).prop_map(Step::Advance),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 4 } else { 256 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// The queue yields values in the order of a sorted map. It wakes the waiting task when a value
    /// is due or when the queue becomes empty.
    #[test]
    fn a_delay_queue_matches_a_sorted_map(steps in prop::collection::vec(step(), 1..if cfg!(miri) { 40 } else { 200 })) {
        let time = VirtualTime::new();
        let _entered = time.enter();
        let task = Task::new();
        let mut queue = DelayQueue::new();
        // (deadline, order of arming) -> name
        let mut model = BTreeMap::new();
        let mut keys = Vec::new();
        let (mut now, mut order) = (0, 0);
        let (mut waits, mut found_empty, mut woken) = (false, false, false);
        let nanos = Duration::from_nanos;
        for step in steps {
            order += 1;
            let find = |name: usize, model: &BTreeMap<(u64, usize), usize>| {
                model.iter().find(|(_, other)| **other == name).map(|(at, _)| *at)
            };
            match step {
                Step::Insert(delay) => {
                    model.insert((now + delay, order), keys.len());
                    keys.push(queue.insert(keys.len(), nanos(delay)));
                }
                Step::Remove(which) if !keys.is_empty() => {
                    let name = which % keys.len();
                    let at = find(name, &model);
                    prop_assert_eq!(queue.remove(keys[name]), at.map(|_| name));
                    at.map(|at| model.remove(&at));
                }
                Step::Reset(which, delay) if !keys.is_empty() => {
                    let name = which % keys.len();
                    let at = find(name, &model);
                    prop_assert_eq!(queue.reset(keys[name], nanos(delay)), at.is_some());
                    if let Some(at) = at {
                        model.remove(&at);
                        model.insert((now + delay, order), name);
                    }
                }
                Step::Poll => {
                    (waits, found_empty) = (false, false);
                    match queue.poll_expired(&mut task.cx()) {
                        Poll::Pending => {
                            waits = true;
                            prop_assert!(model.first_key_value().is_some_and(|(at, _)| at.0 > now));
                        }
                        Poll::Ready(None) => {
                            found_empty = true;
                            prop_assert!(model.is_empty());
                        }
                        Poll::Ready(Some(expired)) => {
                            let ((due, _), name) = model.pop_first().unwrap();
                            prop_assert!(due <= now);
                            prop_assert_eq!((expired.key, expired.value), (keys[name], name));
                        }
                    }
                    woken = false;
                    task.woken();
                }
                Step::Advance(by) => {
                    time.advance(nanos(by));
                    now += by;
                }
                _ => {}
            }
            woken |= task.woken() > 0;
            if waits {
                let ready = model.first_key_value().is_none_or(|(at, _)| at.0 <= now);
                prop_assert!(woken || !ready, "the waiting task is not woken");
            }
            if found_empty {
                let ready = model.first_key_value().is_some_and(|(at, _)| at.0 <= now);
                prop_assert!(woken || !ready, "a task that found the queue empty is not woken");
            }
            prop_assert!(armed() <= 1);
            prop_assert_eq!(queue.len(), model.len());
        }
    }
}
