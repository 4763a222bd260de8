//! Runs random operations on a wheel, and compares it with the model of the library's own tests.
#![no_main]
#![allow(unexpected_cfgs)] // cargo-fuzz sets `fuzzing`

use libfuzzer_sys::fuzz_target;
use punctual::Wheel;

#[path = "../../../crates/punctual/tests/model/mod.rs"]
mod model;
use model::{Model, Op, Subject};

impl Subject for Wheel<u64> {}

fuzz_target!(|ops: Vec<Op>| {
    Model::new(Wheel::new()).run(ops);
});
