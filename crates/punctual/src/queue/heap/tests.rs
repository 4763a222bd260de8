//! The heaps against the model, and their bounds.

use super::{Heap, LazyHeap};
use crate::DeadlineQueue;
use crate::queue::model::random::{cases, ops};
use crate::queue::model::{Model, Op, Subject, sized};
use proptest::prelude::*;

impl<const D: usize> Subject for Heap<u64, D> {
    fn check(&self) {
        self.heap.check();
    }
}

impl<const D: usize> Subject for LazyHeap<u64, D> {
    fn check(&self) {
        LazyHeap::check(self);
    }
}

/// Runs operations on heaps of every arity.
fn run_all(ops: &[Op]) {
    run::<2>(ops);
    run::<3>(ops);
    run::<4>(ops);
    run::<8>(ops);
    run::<12>(ops);
}

fn run<const D: usize>(ops: &[Op]) {
    Model::new(Heap::<u64, D>::default()).run(ops.iter().copied());
    Model::new(LazyHeap::<u64, D>::default()).run(ops.iter().copied());
}

proptest! {
    #![proptest_config(cases(32))]

    #[test]
    fn heaps_do_what_the_model_does(ops in ops(1..120)) {
        run_all(&ops);
    }

    #[test]
    fn heaps_number_their_armings_anew(
        ops in ops(1..120), left in 0u32..200,
    ) {
        let mut heap = Heap::new();
        heap.heap.wear(left);
        Model::new(heap).run(ops.iter().copied());
        let mut heap = LazyHeap::new();
        heap.wear(left);
        Model::new(heap).run(ops);
    }

    #[test]
    fn clearing_leaves_good_heaps(
        before in ops(1..40), after in ops(1..40),
    ) {
        run_all(&[before, vec![Op::Clear], after].concat());
    }
}

#[test]
fn a_timer_takes_what_it_says() {
    let many = sized(4096, 64) as u64;
    let (mut heap, mut lazy) = (Heap::new(), LazyHeap::new());
    for n in 0..many {
        heap.insert(n, n);
        lazy.insert(n, n);
    }
    heap.shrink_to_fit();
    lazy.shrink_to_fit();
    assert_eq!(heap.memory(), size_of::<Heap<u64>>() + many as usize * 32);
    assert_eq!(
        lazy.memory(),
        size_of::<LazyHeap<u64>>() + many as usize * 48
    );
}

#[test]
fn memory_is_given_back() {
    fn fill_and_drain(mut queue: impl DeadlineQueue<u64>) {
        let many = sized(100_000, 200) as u64;
        let keys: Vec<_> = (0..many)
            .map(|n| queue.insert(n * 7919 % many, n))
            .collect();
        let full = queue.memory();
        for key in keys {
            assert!(queue.remove(key).is_some());
        }
        assert!(
            queue.memory() < 1024 * 48 + 512,
            "{} of {full}",
            queue.memory()
        );
    }
    fill_and_drain(Heap::new());
    fill_and_drain(LazyHeap::new());
}

#[test]
fn lazy_garbage_is_bounded_whatever_happens() {
    let mut heap = LazyHeap::new();
    let keys: Vec<_> = (0..100u64).map(|n| heap.insert(u64::MAX - n, n)).collect();
    for round in (0..sized(200, 3) as u64).rev() {
        for &key in &keys {
            // Earlier every time: every re-arming leaves a dead entry.
            assert!(heap.reset(key, round * 1_000 + u64::from(key.index())));
            assert!(heap.entries() <= 2 * keys.len() + 64);
        }
    }
    heap.check();
    let fired: Vec<_> = std::iter::from_fn(|| heap.pop_due(1_000)).collect();
    assert!(fired.is_sorted_by_key(|expired| expired.deadline));
    assert_eq!(fired.len(), 100);
}

#[test]
fn putting_off_files_no_entries() {
    let mut heap = LazyHeap::new();
    let key = heap.insert(1_000, ());
    for deadline in [5_000, 1 << 32, 2_000, 1_000, 9_000, 3_000] {
        assert!(heap.reset(key, deadline));
    }
    assert_eq!(heap.entries(), 1);
    assert_eq!(heap.next_wakeup(), Some(1_000));
    assert_eq!(heap.pop_due(2_999), None);
    assert_eq!(heap.next_wakeup(), Some(3_000));
    assert!(heap.pop_due(3_000).is_some());
    assert_eq!((heap.entries(), heap.next_wakeup()), (0, None));
}

#[test]
fn a_timer_put_off_beyond_32_bits_comes_back() {
    let mut heap = LazyHeap::new();
    let key = heap.insert(1_000, ());
    for deadline in [u64::MAX, 2_000] {
        assert!(heap.reset(key, deadline));
        assert_eq!(heap.next_deadline(), Some(deadline));
    }
    assert_eq!(heap.pop_due(1_999), None);
    assert_eq!(
        heap.pop_due(2_000).map(|expired| expired.deadline),
        Some(2_000)
    );
}
