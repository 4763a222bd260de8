//! Random commands with random arguments, from fixed seeds. The fuzz target `store_turn` runs the
//! same code with the fuzzer's bytes.

mod rows;

use punctual_harness::Random;

#[test]
fn random_rows_keep_the_properties_of_commands() {
    for seed in 0..SEEDS {
        eprintln!("seed {seed}");
        let mut random = Random::new(seed);
        let input: Vec<u8> = (0..LENGTH).map(|_| random.bits() as u8).collect();
        rows::run(&input);
    }
}

const SEEDS: u64 = 8;
/// Bytes of input for each seed.
const LENGTH: usize = 8192;
