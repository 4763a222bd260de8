//! Seeded random numbers.

use std::hash::{BuildHasher, RandomState};

use crate::number;

/// The generator SplitMix64 (Steele, Lea, Flood 2014): one addition and two multiplications per
/// number.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates a generator. Generators with equal seeds return equal numbers.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`, or 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(end)) >> 64) as u64
    }

    /// Returns a number from 1 to 2^bits - 1. Each length in bits has the same probability. `bits`
    /// must be from 1 to 64.
    pub fn length(&mut self, bits: u64) -> u64 {
        let bits = self.below(bits);
        1 << bits | self.below(1 << bits)
    }
}

/// Returns the seed of a test's random numbers, and prints it: the number in the first of these
/// environment variables that is set, or a random seed.
///
/// # Panics
/// If the value of the variable is not a number.
#[track_caller]
pub fn seed(variables: &[&str]) -> u64 {
    let given = variables.iter().find_map(|name| number(name));
    let seed = given.unwrap_or_else(|| RandomState::new().hash_one(0));
    println!("{}={seed}", variables[0]);
    seed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_paper_and_within_bounds() {
        // The first numbers of the reference implementation with this seed.
        let mut random = Random::new(1_234_567);
        let first = [random.bits(), random.bits()];
        assert_eq!(
            first,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]
        );
        for end in 1..100 {
            assert!(random.below(end) < end);
            let bits = end.min(64);
            let length = random.length(bits);
            assert!(length > 0 && u128::from(length) < 1 << bits);
        }
        assert_eq!(random.below(0), 0);
    }
}
