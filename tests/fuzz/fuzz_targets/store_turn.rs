//! Runs random commands with random arguments on a store, by `Turn::run`. The module `rows` of the
//! store's tests draws the commands and checks each one.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../../server/store/tests/rows/mod.rs"]
mod rows;

fuzz_target!(|input: &[u8]| rows::run(input));
