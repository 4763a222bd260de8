//! Comparison of INCRBYFLOAT with a redis-server on this machine. Without one, the test prints a
//! message and passes. Only on x86-64: on other machines Redis computes in other formats.
#![cfg(target_arch = "x86_64")]

mod oracle;

use oracle::Both;
use rand::{Rng, RngExt};

const SUMS: usize = 4000;

/// Returns a text that is usually a number, often near the limits of the floating-point format.
fn number(random: &mut impl Rng) -> String {
    let sign = ["", "-", "+"][random.random_range(0..3)];
    let exponents = [-40..40, -4960..-4900, 4900..4940, -20..20];
    let exponents = exponents[random.random_range(0..4)].clone();
    let exponent = random.random_range(exponents);
    match random.random_range(0..7) {
        0 => format!("{sign}{}", random.random::<i64>().unsigned_abs()),
        1 => format!(
            "{sign}{}.{}",
            random.random_range(0..1000),
            random.random_range(0..100_000_000)
        ),
        2 => format!("{sign}{}e{exponent}", random.random::<u64>()),
        3 => format!(
            "{sign}{}.{}e{exponent}",
            random.random::<u8>(),
            random.random::<u128>()
        ),
        4 => format!("{sign}0x{:x}p{}", random.random::<u128>(), exponent * 3),
        5 => format!(
            "{sign}0x1.{:x}p{}",
            random.random::<u64>(),
            random.random_range(-16_450..16_390)
        ),
        _ => {
            let letters = b"0123456789.eExXp+-infa ";
            (0..random.random_range(0..8))
                .map(|_| char::from(letters[random.random_range(0..letters.len())]))
                .collect()
        }
    }
}

#[test]
fn sums_match_redis() {
    let Some(mut both) = Both::start() else {
        return;
    };
    let mut random = oracle::random();
    for _ in 0..SUMS {
        let (start, increment) = (number(&mut random), number(&mut random));
        both.same(&["SET", "k", &start]);
        both.same(&["INCRBYFLOAT", "k", &increment]);
        both.line("GET k");
    }
}
