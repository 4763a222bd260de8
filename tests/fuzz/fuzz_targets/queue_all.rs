//! Runs random operations on every deadline queue, and compares each queue with the model of the
//! library's own tests. `queue_ops` tests only the wheel, and reaches more of the wheel's code.
#![no_main]
#![allow(unexpected_cfgs)] // cargo-fuzz sets `fuzzing`

use libfuzzer_sys::fuzz_target;
use punctual::{Heap, Wheel};

#[path = "../../../crates/punctual/tests/model/mod.rs"]
mod model;
use model::{Model, Op, Subject};

macro_rules! queues {
    ($($queue:ty),* $(,)?) => {
        $(impl Subject for $queue {})*

        fn run_all(ops: &[Op]) {
            $(Model::new(<$queue>::default()).run(ops.iter().copied());)*
        }
    };
}

queues! {
    Wheel<u64>,
    Heap<u64, 2>,
    Heap<u64, 4>,
    Heap<u64, 8>,
}

fuzz_target!(|ops: Vec<Op>| {
    run_all(&ops);
});
