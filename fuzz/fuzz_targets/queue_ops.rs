//! Any operations on a wheel, held against the model of the crate's own tests.
#![no_main]
#![allow(unexpected_cfgs)] // cargo-fuzz sets `fuzzing`

use libfuzzer_sys::fuzz_target;
use punctual::{Polled, Wheel};

#[path = "../../crates/punctual/tests/model/mod.rs"]
mod model;
use model::{Model, Op, Subject};

impl Subject for Wheel<u64> {
    fn poll(&mut self, now: u64, budget: &mut usize) -> Polled<u64> {
        self.poll_due(now, budget)
    }

    fn shrink(&mut self) {
        self.shrink_to_fit();
    }
}

fuzz_target!(|ops: Vec<Op>| {
    Model::new(Wheel::new()).run(ops);
});
