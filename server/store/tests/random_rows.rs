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

#[test]
fn commands_as_text_keep_the_properties_of_commands() {
    let lines = [
        "#8",
        "SET k 1 PX 100",
        "HSET h f 1 g 2",
        "HPEXPIRE h 50 FIELDS 1 f",
        "MULTI",
        "SELECT 1",
        "RPUSH l a b c",
        "SADD s a b",
        "EXEC",
        "+60",
        "SELECT 0",
        "HGETALL h",
        "+60",
        "GET k",
        "XGROUP CREATE x g 0 MKSTREAM",
        "XADD x * f 1",
        "XREADGROUP GROUP g c STREAMS x >",
        "SETBIT b 4294967295 1",
        "SRANDMEMBER s -9223372036854775808",
        "JOB ADD q p",
        "EXEC",
    ];
    rows::run(lines.join("\n").as_bytes());
}

const SEEDS: u64 = 8;
/// Bytes of input for each seed.
const LENGTH: usize = 8192;
