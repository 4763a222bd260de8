//! Random keys, values and numbers, all from one seed.
//!
//! Neither this module nor the generators read a clock or a reply, so a seed gives the same stream
//! on every machine and in every run.
//!
//! Three groups of keys bound the memory and time of both servers. Plain keys have small values.
//! `big:*` keys may grow to tens of kilobytes. `lcs:*` keys have texts short enough for LCS, which
//! takes quadratic time; no other commands write texts to them. In addition each type has its own
//! keys ([`Kind`]), which commands for other types rarely use.

mod collections;
mod pool;

pub use collections::Kind;

use rand::RngExt;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use pool::{BAD_INTEGERS, BIG_KEYS, EDGE_INTEGERS, KEYS, LCS_KEYS, LEXES, VALUES, WEIGHTS};

/// Absolute deadlines (Unix milliseconds) are drawn from this band, and no relative TTL reaches
/// into it. So a deadline in this band must be exactly equal on both servers.
pub const ABSOLUTE_BAND_MS: std::ops::Range<i64> = 4_000_000_000_000..5_000_000_000_000;

/// The random source of all generators.
#[derive(Debug)]
pub struct Draw {
    rng: ChaCha8Rng,
}

impl Draw {
    /// Returns a source whose whole sequence is determined by `seed`.
    pub fn new(seed: u64) -> Self {
        Self {
            rng: ChaCha8Rng::seed_from_u64(seed),
        }
    }

    /// Returns true with a probability of `percent`.
    pub fn chance(&mut self, percent: u32) -> bool {
        self.rng.random_ratio(percent.min(100), 100)
    }

    /// Returns a number in the range.
    pub fn between(&mut self, range: std::ops::RangeInclusive<i64>) -> i64 {
        self.rng.random_range(range)
    }

    /// Returns a number in the range, as a `usize`.
    pub fn count(&mut self, range: std::ops::RangeInclusive<usize>) -> usize {
        self.rng.random_range(range)
    }

    /// Returns one of the items with equal probability.
    ///
    /// # Panics
    /// If there are no items.
    pub fn pick<'a, T: ?Sized>(&mut self, items: &[&'a T]) -> &'a T {
        items[self.rng.random_range(0..items.len())]
    }

    /// Returns one of the words, which `|` separates, with equal probability.
    pub fn one_of<'a>(&mut self, words: &'a str) -> &'a str {
        self.pick(&words.split('|').collect::<Vec<_>>())
    }

    /// Returns one of the items by weight.
    ///
    /// # Panics
    /// If the weights sum to zero.
    pub fn weighted<T: Copy>(&mut self, items: &[(u32, T)]) -> T {
        let total: u32 = items.iter().map(|(weight, _)| weight).sum();
        let mut left = self.rng.random_range(0..total);
        for &(weight, item) in items {
            if left < weight {
                return item;
            }
            left -= weight;
        }
        unreachable!("the random number is less than the sum of the weights")
    }

    /// Returns a key of any group except `lcs:*`: mostly one of the first eight plain keys, rarely
    /// a key of a type.
    pub fn key(&mut self) -> Vec<u8> {
        match self.between(0..=99) {
            0..=77 => KEYS[self.count(0..=7)].to_vec(),
            78..=94 => self.pick(KEYS).to_vec(),
            95..=97 => self.pick(BIG_KEYS).to_vec(),
            _ => self.typed_key(),
        }
    }

    /// Returns a key for commands on keys of any type: half of the time, a key of a type.
    pub fn any_key(&mut self) -> Vec<u8> {
        if self.chance(50) {
            self.typed_key()
        } else {
            self.key()
        }
    }

    /// Returns between one and `most` results of [`any_key`](Draw::any_key), with repetitions.
    pub fn any_keys(&mut self, most: usize) -> Vec<Vec<u8>> {
        let count = self.count(1..=most);
        (0..count).map(|_| self.any_key()).collect()
    }

    /// Returns between one and `most` results of [`key`](Draw::key), with repetitions.
    pub fn keys(&mut self, most: usize) -> Vec<Vec<u8>> {
        let count = self.count(1..=most);
        (0..count).map(|_| self.key()).collect()
    }

    /// Returns a key whose value may grow large.
    pub fn big_key(&mut self) -> Vec<u8> {
        self.pick(BIG_KEYS).to_vec()
    }

    /// Returns a key for LCS.
    pub fn lcs_key(&mut self) -> Vec<u8> {
        self.pick(LCS_KEYS).to_vec()
    }

    /// Returns a small value, often a boundary case of an encoding or of a number parser.
    pub fn value(&mut self) -> Vec<u8> {
        match self.between(0..=99) {
            0..=59 => self.pick(VALUES).to_vec(),
            60..=74 => self.between(-20_000..=20_000).to_string().into_bytes(),
            75..=79 => self.rng.random::<i64>().to_string().into_bytes(),
            80..=84 => self.float(),
            85..=94 => {
                let length = self.count(1..=60);
                (0..length)
                    .map(|_| b'a' + self.rng.random_range(0..26u8))
                    .collect()
            }
            _ => {
                let length = self.count(1..=30);
                (0..length).map(|_| self.rng.random()).collect()
            }
        }
    }

    /// Returns a value of up to 20 kB.
    pub fn big_value(&mut self) -> Vec<u8> {
        let length = self.count(1_000..=20_000);
        let start: u8 = self.rng.random();
        (0..length)
            .map(|index| start.wrapping_add((index % 251) as u8))
            .collect()
    }

    /// Returns a text of up to 60 letters from an alphabet of four, so that common subsequences are
    /// long.
    pub fn lcs_text(&mut self) -> Vec<u8> {
        let length = self.count(0..=60);
        (0..length)
            .map(|_| b'a' + self.rng.random_range(0..4u8))
            .collect()
    }

    /// Returns an integer as text: mostly small, often a boundary case, sometimes not an integer.
    pub fn integer(&mut self) -> Vec<u8> {
        match self.between(0..=99) {
            0..=59 => self.between(-100..=100).to_string().into_bytes(),
            60..=87 => EDGE_INTEGERS[self.count(0..=EDGE_INTEGERS.len() - 1)]
                .to_string()
                .into_bytes(),
            _ => self.bad_integer(),
        }
    }

    /// Returns a text that is not an integer of 64 bits.
    pub fn bad_integer(&mut self) -> Vec<u8> {
        self.pick(BAD_INTEGERS).to_vec()
    }

    /// Returns a float as text, usually a valid one.
    pub fn float(&mut self) -> Vec<u8> {
        match self.between(0..=99) {
            0..=39 => {
                format!("{}.{}", self.between(-1000..=1000), self.between(0..=999)).into_bytes()
            }
            40..=59 => {
                format!("{}e{}", self.between(-99..=99), self.between(-30..=30)).into_bytes()
            }
            60..=79 => self
                .one_of("0.1|0.2|-0.1|1e10|3.0e3|5|-5|0|-0.0|1e17")
                .into(),
            _ => self
                .pick(&[
                    &b"inf"[..],
                    b"-inf",
                    b"+inf",
                    b"infinity",
                    b"nan",
                    b"-nan",
                    b"",
                    b" 1",
                    b"1 ",
                    b"abc",
                    b"1.5.5",
                    b"0x10",
                    b"0xA.8p1",
                    b"1e400",
                    b"-1e400",
                    b"1e5000",
                    b"1e-5000",
                    b"+1.5",
                    b".5",
                    b"5.",
                    b"1,5",
                    b"1e",
                    b"e1",
                    b"1.5\x00",
                    b"9223372036854775807",
                    b"179769313486231570000000000000000000000",
                ])
                .to_vec(),
        }
    }

    /// Returns a relative TTL in units of `1 / per_second` seconds: far in the future, in the past,
    /// or invalid. No TTL can expire during the stream, and no deadline falls into
    /// [`ABSOLUTE_BAND_MS`].
    pub fn ttl(&mut self, per_second: i64) -> Vec<u8> {
        match self.between(0..=99) {
            0..=69 => (self.between(2_000..=100_000) * per_second)
                .to_string()
                .into_bytes(),
            70..=74 => (self.between(1_000_000_000..=1_500_000_000) * per_second)
                .to_string()
                .into_bytes(),
            75..=82 => self
                .pick(&["0", "-1", "-1000", "-9999999999"])
                .as_bytes()
                .to_vec(),
            83..=87 => {
                // Valid and extremely far. The TTLs differ: if a key got the same TTL twice, the
                // deadlines might be equal on one server and a millisecond apart on the other, and
                // GT and LT would reply differently.
                let farthest = if per_second == 1 {
                    9_223_370_000_000_000
                } else {
                    9_223_370_000_000_000_000
                };
                (farthest - self.between(0..=farthest / 2))
                    .to_string()
                    .into_bytes()
            }
            88..=91 if per_second == 1 => self
                .pick(&["9223372036854775", "9223372036854776", "-9223372036854776"])
                .as_bytes()
                .to_vec(),
            88..=91 => self
                .pick(&[
                    "9223372036854775807",
                    "-9223372036854775808",
                    "-9223372036854775807",
                ])
                .as_bytes()
                .to_vec(),
            _ => self.bad_integer(),
        }
    }

    /// Returns an absolute deadline in units of `1 / per_second` seconds: in [`ABSOLUTE_BAND_MS`],
    /// in the past, at the end of the range of 64 bits, or invalid.
    pub fn deadline(&mut self, per_second: i64) -> Vec<u8> {
        match self.between(0..=99) {
            0..=79 => {
                let unit_ms = 1000 / per_second;
                self.between(
                    ABSOLUTE_BAND_MS.start / unit_ms..=(ABSOLUTE_BAND_MS.end - 1) / unit_ms,
                )
                .to_string()
                .into_bytes()
            }
            80..=86 => self
                .pick(&["0", "-1", "1", "1000", "1600000000", "-9999999999"])
                .as_bytes()
                .to_vec(),
            87..=92 => self
                .one_of(
                    "9223372036854775807|-9223372036854775808|9223372036854775|9223372036854776",
                )
                .into(),
            _ => self.bad_integer(),
        }
    }

    /// Returns a database index: usually one of the first three, sometimes an invalid one.
    pub fn database(&mut self) -> Vec<u8> {
        match self.between(0..=99) {
            0..=84 => self.between(0..=2).to_string().into_bytes(),
            85..=89 => b"15".to_vec(),
            90..=94 => self
                .pick(&["16", "-1", "1000000", "2147483648", "9223372036854775807"])
                .as_bytes()
                .to_vec(),
            _ => self.bad_integer(),
        }
    }

    /// Returns a glob pattern over the keys or channels.
    pub fn pattern(&mut self) -> Vec<u8> {
        self.pick(&[
            &b"*"[..],
            b"k*",
            b"k?",
            b"k[0-3]",
            b"k[^0-3]",
            b"k[13]",
            b"*1",
            b"?",
            b"??",
            b"",
            b"k\\*",
            b"k\\",
            b"user:*",
            b"*:*",
            b"[",
            b"[a-",
            b"[z-a]*",
            b"k[]",
            b"**",
            b"*k*",
            b"no such key",
            b"{tag}*",
            b"\xff*",
            b"*\r\n*",
            b"\\\\k",
            b"k[\\1]",
            b"K*",
            b"ch*",
            b"ch:[a-c]",
            b"news.*",
        ])
        .to_vec()
    }

    /// Returns the word, sometimes in mixed case.
    pub fn case(&mut self, word: &str) -> Vec<u8> {
        if self.chance(85) {
            return word.as_bytes().to_vec();
        }
        word.bytes()
            .map(|byte| {
                if self.chance(50) {
                    byte.to_ascii_lowercase()
                } else {
                    byte.to_ascii_uppercase()
                }
            })
            .collect()
    }

    /// Returns random bits.
    pub fn bits(&mut self) -> u64 {
        self.rng.random()
    }
}

/// Returns true if `argument` is a key of the generators. Reports use it to distinguish keys from
/// options.
pub fn is_drawn_key(argument: &[u8]) -> bool {
    [KEYS, BIG_KEYS, LCS_KEYS, LEXES, WEIGHTS]
        .into_iter()
        .chain(Kind::ALL.map(Kind::keys))
        .any(|group| group.contains(&argument))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_sequence() {
        let sequence = |seed| {
            let mut draw = Draw::new(seed);
            (0..200)
                .map(|_| (draw.key(), draw.value(), draw.ttl(1000)))
                .collect::<Vec<_>>()
        };
        assert_eq!(sequence(7), sequence(7));
        assert_ne!(sequence(7), sequence(8));
    }

    #[test]
    fn no_relative_ttl_can_fall_in_the_absolute_band_or_expire() {
        // The clocks of 2020 and 2046.
        for now_ms in [1_577_836_800_000_i64, 2_400_000_000_000] {
            let mut draw = Draw::new(1);
            for _ in 0..20_000 {
                let text = draw.ttl(1000);
                let Some(ttl_ms) = std::str::from_utf8(&text)
                    .ok()
                    .and_then(|text| text.parse::<i64>().ok())
                else {
                    continue;
                };
                if ttl_ms.to_string().as_bytes() != text {
                    // `05` and `+5` are not integers for Redis.
                    continue;
                }
                let Some(deadline_ms) = now_ms.checked_add(ttl_ms) else {
                    continue;
                };
                assert!(!ABSOLUTE_BAND_MS.contains(&deadline_ms), "{ttl_ms}");
                assert!(!(1..1_000_000).contains(&ttl_ms), "{ttl_ms}");
            }
        }
    }

    #[test]
    fn keys_are_recognised() {
        let mut draw = Draw::new(3);
        assert!((0..1000).all(|_| is_drawn_key(&draw.key()) && is_drawn_key(&draw.any_key())));
        assert!(is_drawn_key(&draw.key_of(Kind::Zset)));
        assert!(!is_drawn_key(b"NX"));
    }
}
