//! Runs random rows with random arguments by `Turn::run`; the module `rows` of the store's tests
//! checks each command.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../../server/store/tests/rows/mod.rs"]
mod rows;

fuzz_target!(|input: &[u8]| rows::run(input));
