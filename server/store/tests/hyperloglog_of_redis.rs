//! Comparison of HyperLogLogs, byte for byte, with a redis-server on this machine. Without one, the
//! tests print a message and pass.

mod oracle;

use oracle::Both;
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
/// `hll-sparse-max-bytes`, number of commands, maximum number of elements per command.
const ROUNDS: [(u64, usize, usize); 4] = [
    (3000, 300, 300),
    (3000, 2000, 4),
    (100, 500, 20),
    (16_000, 60, 4000),
];

fn elements(random: &mut StdRng, most: usize) -> Vec<Vec<u8>> {
    let count = random.random_range(0..=most);
    (0..count)
        .map(|_| {
            let len = random.random_range(0..30);
            (0..len).map(|_| random.random()).collect()
        })
        .collect()
}

/// Runs random commands of the family, each followed by GET.
#[test]
fn strings_match_redis() {
    let Some(mut both) = Both::start() else {
        return;
    };
    let mut random = oracle::random();
    for (sparse_max, steps, most) in ROUNDS {
        let limit = sparse_max.to_string();
        both.theirs(&["config", "set", "hll-sparse-max-bytes", &limit]);
        let mut limits = both.store.limits();
        limits.hll_sparse_bytes = sparse_max as usize;
        both.store.set_limits(limits);
        both.line("FLUSHALL");
        for _ in 0..steps {
            let key = *KEYS.choose(&mut random).unwrap();
            match random.random_range(0..20) {
                0 => both.line(&format!("PFCOUNT {key}")),
                1 => {
                    let other = KEYS.choose(&mut random).unwrap();
                    both.line(&format!("PFCOUNT {key} {other} nokey"))
                }
                2 => {
                    let others = random.random_range(0..3);
                    let mut words = vec!["PFMERGE", key];
                    words.extend(KEYS.sample(&mut random, others));
                    both.same(&words)
                }
                3 if most < 100 => both.line(&format!("DEL {key}")),
                4 => both.line(&format!("PFDEBUG DECODE {key}")),
                5 => both.line(&format!("PFDEBUG ENCODING {key}")),
                6 if random.random_bool(0.1) => both.line(&format!("PFDEBUG GETREG {key}")),
                _ => {
                    let mut words = vec![b"PFADD".to_vec(), key.into()];
                    words.extend(elements(&mut random, most));
                    both.same(&words)
                }
            };
            both.line(&format!("GET {key}"));
        }
        for key in KEYS {
            both.line(&format!("PFCOUNT {key}"));
            both.line(&format!("PFDEBUG GETREG {key}"));
        }
    }
}

/// Compares estimates of one key at many sizes, and of sketches with extreme registers.
#[test]
fn estimates_match_redis() {
    let Some(mut both) = Both::start() else {
        return;
    };
    let mut number = 0_u64;
    for step in 1..80 {
        let mut words = vec![b"PFADD".to_vec(), b"k".to_vec()];
        for _ in 0..step * 20 {
            number += 1;
            words.push(number.to_string().into_bytes());
        }
        both.same(&words);
        both.line("PFCOUNT k");
    }
    // Dense sketches whose registers are all full, all empty, or repeat a pattern.
    let mut wide = b"HYLL\0\0\0\0\0\0\0\0\0\0\0\x80".to_vec();
    wide.resize(16 + 12_288, 0);
    for filling in [0xff, 0, 0b0100_0001, 0b1100_1111, 0b0011_0011] {
        wide[16..].fill(filling);
        both.same(&[&b"SET"[..], b"wide", &wide]);
        both.line("PFCOUNT wide");
        both.line("PFCOUNT wide k");
        both.line("PFADD wide x y z");
        both.line("PFMERGE all wide k");
        both.line("GET all");
        both.line("GET wide");
    }
}

/// Runs PFADD on sparse sketches with runs of any kind in any order, which no server creates.
#[test]
fn changes_of_arbitrary_runs_match_redis() {
    let Some(mut both) = Both::start() else {
        return;
    };
    let mut random = oracle::random();
    for _ in 0..100 {
        let mut string = b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\x80".to_vec();
        let mut left = 16_384;
        while left > 0 {
            let (run, len): (Vec<u8>, usize) = match random.random_range(0..4) {
                0 => {
                    let len = random.random_range(1..=left.min(64));
                    (vec![len as u8 - 1], len)
                }
                1 => {
                    let len = random.random_range(1..=left.min(400));
                    let less = len - 1;
                    (vec![0x40 | (less >> 8) as u8, less as u8], len)
                }
                _ => {
                    let len = random.random_range(1..=left.min(4));
                    let value = random.random_range(0..4);
                    (vec![0x80 | value << 2 | (len as u8 - 1)], len)
                }
            };
            string.extend(run);
            left -= len;
        }
        both.same(&[&b"SET"[..], b"k", &string]);
        both.line("PFCOUNT k");
        for _ in 0..20 {
            let mut words = vec![b"PFADD".to_vec(), b"k".to_vec()];
            words.extend(elements(&mut random, 20));
            both.same(&words);
            both.line("GET k");
        }
        both.line("PFCOUNT k");
    }
}
