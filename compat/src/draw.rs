//! Drawing keys, values and numbers, all from one seed.
//!
//! Nothing here or in the generators reads a clock or a reply, so a seed gives the same stream
//! on every machine and on every run.
//!
//! Three groups of keys keep the memory and time of both servers bounded: plain keys hold small
//! values, `big:*` keys may grow to some tens of kilobytes, and `lcs:*` keys hold texts short
//! enough for the quadratic LCS and are never written by anything else. Beside them each type has keys
//! of its own ([`Kind`]), which other families draw seldom.

mod collections;
mod pool;

pub use collections::Kind;

use rand::RngExt;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use pool::{BAD_INTEGERS, BIG_KEYS, EDGE_INTEGERS, KEYS, LCS_KEYS, LEXES, VALUES, WEIGHTS};

/// Absolute deadlines (unix milliseconds) are drawn from this band, and no relative TTL reaches
/// into it: a deadline read back in the band must be equal to the millisecond on both sides.
pub const ABSOLUTE_BAND_MS: std::ops::Range<i64> = 4_000_000_000_000..5_000_000_000_000;

/// Where every generator draws from.
#[derive(Debug)]
pub struct Draw {
    rng: ChaCha8Rng,
}

impl Draw {
    /// A source whose whole sequence follows from `seed`.
    pub fn new(seed: u64) -> Self {
        Self {
            rng: ChaCha8Rng::seed_from_u64(seed),
        }
    }

    /// True in `percent` of a hundred draws.
    pub fn chance(&mut self, percent: u32) -> bool {
        self.rng.random_ratio(percent.min(100), 100)
    }

    /// A number in the range.
    pub fn between(&mut self, range: std::ops::RangeInclusive<i64>) -> i64 {
        self.rng.random_range(range)
    }

    /// A count in the range.
    pub fn count(&mut self, range: std::ops::RangeInclusive<usize>) -> usize {
        self.rng.random_range(range)
    }

    /// One of the items, each as likely.
    ///
    /// # Panics
    /// If there are none.
    pub fn pick<'a, T: ?Sized>(&mut self, items: &[&'a T]) -> &'a T {
        items[self.rng.random_range(0..items.len())]
    }

    /// One of the items by weight.
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
        unreachable!("the draw lies below the sum of the weights")
    }

    /// A key of any group but `lcs:*`; four in five draws hit the first eight keys, few those of the types.
    pub fn key(&mut self) -> Vec<u8> {
        match self.between(0..=99) {
            0..=77 => KEYS[self.count(0..=7)].to_vec(),
            78..=94 => self.pick(KEYS).to_vec(),
            95..=97 => self.pick(BIG_KEYS).to_vec(),
            _ => self.typed_key(),
        }
    }

    /// A key for commands that are about keys of any type: as often one of the types' as any other.
    pub fn any_key(&mut self) -> Vec<u8> {
        if self.chance(50) {
            self.typed_key()
        } else {
            self.key()
        }
    }

    /// Between one and `most` of these, repeats included.
    pub fn any_keys(&mut self, most: usize) -> Vec<Vec<u8>> {
        let count = self.count(1..=most);
        (0..count).map(|_| self.any_key()).collect()
    }

    /// Between one and `most` keys, repeats included.
    pub fn keys(&mut self, most: usize) -> Vec<Vec<u8>> {
        let count = self.count(1..=most);
        (0..count).map(|_| self.key()).collect()
    }

    /// A key whose value may grow large.
    pub fn big_key(&mut self) -> Vec<u8> {
        self.pick(BIG_KEYS).to_vec()
    }

    /// A key of LCS.
    pub fn lcs_key(&mut self) -> Vec<u8> {
        self.pick(LCS_KEYS).to_vec()
    }

    /// A small value, often at an edge of an encoding or of a number parser.
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

    /// A value of up to 20 kB.
    pub fn big_value(&mut self) -> Vec<u8> {
        let length = self.count(1_000..=20_000);
        let start: u8 = self.rng.random();
        (0..length)
            .map(|index| start.wrapping_add((index % 251) as u8))
            .collect()
    }

    /// A text of up to 60 letters out of four, so that common subsequences are long.
    pub fn lcs_text(&mut self) -> Vec<u8> {
        let length = self.count(0..=60);
        (0..length)
            .map(|_| b'a' + self.rng.random_range(0..4u8))
            .collect()
    }

    /// An integer as text: mostly small, often an edge, sometimes no integer at all.
    pub fn integer(&mut self) -> Vec<u8> {
        match self.between(0..=99) {
            0..=59 => self.between(-100..=100).to_string().into_bytes(),
            60..=87 => EDGE_INTEGERS[self.count(0..=EDGE_INTEGERS.len() - 1)]
                .to_string()
                .into_bytes(),
            _ => self.bad_integer(),
        }
    }

    /// A text that is not an integer, or not one of 64 bits.
    pub fn bad_integer(&mut self) -> Vec<u8> {
        self.pick(BAD_INTEGERS).to_vec()
    }

    /// A float as text, mostly a valid one.
    pub fn float(&mut self) -> Vec<u8> {
        match self.between(0..=99) {
            0..=39 => {
                format!("{}.{}", self.between(-1000..=1000), self.between(0..=999)).into_bytes()
            }
            40..=59 => {
                format!("{}e{}", self.between(-99..=99), self.between(-30..=30)).into_bytes()
            }
            60..=79 => self
                .pick(&[
                    &b"0.1"[..],
                    b"0.2",
                    b"-0.1",
                    b"1e10",
                    b"3.0e3",
                    b"5",
                    b"-5",
                    b"0",
                    b"-0.0",
                    b"1e17",
                ])
                .to_vec(),
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

    /// A relative TTL in units of which `per_second` make a second: far away, already past or invalid;
    /// never one that could run out while the stream runs, and never one that lands in the absolute band.
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
                // Valid and absurdly far. Jittered: two equal TTLs given within a millisecond on one side
                // but not on the other would make GT and LT answer differently.
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

    /// An absolute deadline in units of which `per_second` make a second: in the band, long past or invalid.
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
                .pick(&[
                    "9223372036854775807",
                    "-9223372036854775808",
                    "9223372036854775",
                    "9223372036854776",
                ])
                .as_bytes()
                .to_vec(),
            _ => self.bad_integer(),
        }
    }

    /// A database index: mostly one of the first three, sometimes a bad one.
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

    /// A glob pattern over the keys or channels.
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

    /// The words with their letters' case mixed now and then.
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

    /// Some raw bits, for decisions that none of the above fits.
    pub fn bits(&mut self) -> u64 {
        self.rng.random()
    }
}

/// Whether `argument` is one of the keys that generators draw, so that reports can tell keys from options.
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
    fn no_relative_ttl_can_land_in_the_absolute_band_nor_run_out() {
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
                    // `05` and `+5` are no integers to redis.
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
