//! Tests of the heap against the model, and of its memory bounds.

use super::Heap;
use crate::queue::model::random::{cases, ops};
use crate::queue::model::{Model, Op, Subject, sized};
use proptest::prelude::*;

impl<const D: usize> Subject for Heap<u64, D> {
    fn check(&self) {
        self.heap.check();
    }
}

/// Runs the operations on heaps of several arities.
fn run_all(ops: &[Op]) {
    run::<2>(ops);
    run::<3>(ops);
    run::<4>(ops);
    run::<8>(ops);
    run::<12>(ops);
}

fn run<const D: usize>(ops: &[Op]) {
    Model::new(Heap::<u64, D>::default()).run(ops.iter().copied());
}

proptest! {
    #![proptest_config(cases(32))]

    #[test]
    fn heaps_match_the_model(ops in ops(1..120)) {
        run_all(&ops);
    }

    #[test]
    fn heaps_renumber_their_armings(
        ops in ops(1..120), left in 0u32..200,
    ) {
        let mut heap = Heap::new();
        heap.heap.renumber_after(left);
        Model::new(heap).run(ops);
    }

    #[test]
    fn cleared_heaps_work(
        before in ops(1..40), after in ops(1..40),
    ) {
        run_all(&[before, vec![Op::Clear], after].concat());
    }
}

#[test]
fn a_timer_takes_the_documented_memory() {
    let many = sized(4096, 64) as u64;
    let mut heap = Heap::new();
    for n in 0..many {
        heap.insert(n, n);
    }
    heap.shrink_to_fit();
    assert_eq!(heap.memory(), size_of::<Heap<u64>>() + many as usize * 32);
}

#[test]
fn memory_is_freed() {
    let mut heap = Heap::new();
    let many = sized(100_000, 200) as u64;
    let keys: Vec<_> = (0..many).map(|n| heap.insert(n * 7919 % many, n)).collect();
    let full = heap.memory();
    for key in keys {
        assert!(heap.remove(key).is_some());
    }
    let left = heap.memory();
    assert!(left < 1024 * 32 + 512, "{left} of {full}");
}
