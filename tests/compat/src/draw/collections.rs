//! Keys, elements, scores and coordinates for the types other than strings.

use super::Draw;
use super::pool::{
    BAD_SCORES, BITS, ELEMENTS, GEOS, HASHES, HLLS, LEXES, LISTS, SCORES, SETS, STREAMS, WEIGHTS,
    ZSETS,
};

/// A type of value, or a special use of a type, with its own keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Lists.
    List,
    /// Hashes.
    Hash,
    /// Sets.
    Set,
    /// Sorted sets.
    Zset,
    /// Streams.
    Stream,
    /// Strings as arrays of bits.
    Bits,
    /// HyperLogLogs.
    Hll,
    /// Sorted sets with coordinates.
    Geo,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 8] = [
        Kind::List,
        Kind::Hash,
        Kind::Set,
        Kind::Zset,
        Kind::Stream,
        Kind::Bits,
        Kind::Geo,
        Kind::Hll,
    ];

    /// Returns the keys of this kind.
    pub fn keys(self) -> &'static [&'static [u8]] {
        match self {
            Kind::List => LISTS,
            Kind::Hash => HASHES,
            Kind::Set => SETS,
            Kind::Zset => ZSETS,
            Kind::Stream => STREAMS,
            Kind::Bits => BITS,
            Kind::Hll => HLLS,
            Kind::Geo => GEOS,
        }
    }
}

impl Draw {
    /// Returns a key of some kind, except [`Kind::Hll`] and [`Kind::Geo`], whose keys only their
    /// own commands write: other commands could corrupt a HyperLogLog, and all scores that are not
    /// coordinates decode to one point.
    pub fn typed_key(&mut self) -> Vec<u8> {
        let shared = &Kind::ALL[..Kind::ALL.len() - 2];
        let kind = shared[self.count(0..=shared.len() - 1)];
        self.pick(kind.keys()).to_vec()
    }

    /// Returns a geo key.
    pub fn geo_key(&mut self) -> Vec<u8> {
        self.pick(GEOS).to_vec()
    }

    /// Returns a key from which coordinates are read, rarely a key without coordinates.
    pub fn geo_source(&mut self) -> Vec<u8> {
        if self.chance(6) {
            let kind = [Kind::List, Kind::Hash, Kind::Set][self.count(0..=2)];
            self.pick(kind.keys()).to_vec()
        } else {
            self.geo_key()
        }
    }

    /// Returns a key of a HyperLogLog.
    pub fn hll_key(&mut self) -> Vec<u8> {
        self.pick(HLLS).to_vec()
    }

    /// Returns a key that usually has a value of type `kind`.
    pub fn key_of(&mut self, kind: Kind) -> Vec<u8> {
        match self.between(0..=99) {
            0..=79 => self.pick(kind.keys()).to_vec(),
            80..=91 => self.key(),
            _ => self.typed_key(),
        }
    }

    /// Returns between one and `most` results of [`key_of`](Draw::key_of), with repetitions.
    pub fn keys_of(&mut self, kind: Kind, most: usize) -> Vec<Vec<u8>> {
        let count = self.count(1..=most);
        (0..count).map(|_| self.key_of(kind)).collect()
    }

    /// Returns a key of sorted sets whose scores are all equal, for commands that keep the scores
    /// equal. Rarely returns a key with a text.
    pub fn lex_key(&mut self) -> Vec<u8> {
        if self.chance(5) {
            self.lcs_key()
        } else {
            self.pick(LEXES).to_vec()
        }
    }

    /// Returns an element, member or field, usually from a small set.
    pub fn element(&mut self) -> Vec<u8> {
        match self.between(0..=99) {
            0..=54 => ELEMENTS[self.count(0..=15)].to_vec(),
            55..=79 => self.pick(ELEMENTS).to_vec(),
            80..=92 => self.between(-40..=40).to_string().into_bytes(),
            _ => self.value(),
        }
    }

    /// Returns between one and `most` elements, with repetitions.
    pub fn elements(&mut self, most: usize) -> Vec<Vec<u8>> {
        let count = self.count(1..=most);
        (0..count).map(|_| self.element()).collect()
    }

    /// Returns about as many distinct elements as the compact encodings of collections allow:
    /// integers, or short words.
    pub fn many_elements(&mut self) -> Vec<Vec<u8>> {
        let count = self.weighted(&[
            (3, 100_usize),
            (4, 127),
            (4, 128),
            (4, 129),
            (2, 300),
            (3, 511),
            (3, 512),
            (3, 513),
            (1, 700),
        ]);
        let start = self.between(-300..=300);
        let step = [1, 1, 3, 70_000][self.count(0..=3)];
        let words = self.chance(50);
        (start..)
            .take(count)
            .map(|n| {
                let number = n * step;
                if words {
                    format!("m{number}").into_bytes()
                } else {
                    number.to_string().into_bytes()
                }
            })
            .collect()
    }

    /// Returns a score as text, usually a small one; one in twenty is invalid.
    pub fn score(&mut self) -> Vec<u8> {
        match self.between(0..=99) {
            0..=54 => self.between(-9..=9).to_string().into_bytes(),
            55..=69 => format!("{}.5", self.between(-9..=9)).into_bytes(),
            70..=94 => self.pick(SCORES).to_vec(),
            _ => self.pick(BAD_SCORES).to_vec(),
        }
    }

    /// Returns a bound of a range of scores.
    pub fn score_bound(&mut self) -> Vec<u8> {
        match self.between(0..=99) {
            0..=19 => self.pick(&[&b"-inf"[..], b"+inf", b"inf"]).to_vec(),
            20..=39 => [&b"("[..], &self.score()].concat(),
            _ => self.score(),
        }
    }

    /// Returns a bound of a range of members.
    pub fn lex_bound(&mut self) -> Vec<u8> {
        match self.between(0..=99) {
            0..=29 => self.pick(&[&b"-"[..], b"+"]).to_vec(),
            30..=64 => [&b"["[..], &self.element()].concat(),
            65..=94 => [&b"("[..], &self.element()].concat(),
            _ => self
                .pick(&[&b""[..], b"a", b"(", b"[", b"-x", b"++", b"inf"])
                .to_vec(),
        }
    }

    /// Returns a rank or an index: usually near the ends, often beyond, sometimes a boundary case
    /// or invalid.
    pub fn index(&mut self) -> Vec<u8> {
        match self.between(0..=99) {
            0..=79 => self.between(-12..=12).to_string().into_bytes(),
            80..=89 => self.between(-700..=700).to_string().into_bytes(),
            _ => self.integer(),
        }
    }

    /// Returns a count of elements to take or remove: usually between 0 and 6.
    pub fn how_many(&mut self) -> Vec<u8> {
        match self.between(0..=99) {
            0..=74 => self.between(0..=6).to_string().into_bytes(),
            75..=84 => self.between(-5..=600).to_string().into_bytes(),
            _ => self.integer(),
        }
    }

    /// Returns a number of random elements to request; a negative number allows repetitions.
    pub fn sample_size(&mut self) -> Vec<u8> {
        match self.between(0..=99) {
            0..=89 => self.between(-15..=40).to_string().into_bytes(),
            90..=94 => self
                .pick(&["1000", "9223372036854775807", "-9223372036854775808"])
                .as_bytes()
                .to_vec(),
            _ => self
                .pick(&[&b"abc"[..], b"", b"1.5", b"+5", b"05"])
                .to_vec(),
        }
    }

    /// Returns the number of keys that a command announces before `there` keys; one in fifteen is
    /// drawn at random and usually wrong.
    pub fn announced(&mut self, there: usize) -> Vec<u8> {
        match self.between(0..=14) {
            0 => self
                .one_of("0|-1|1|2|3|1000|abc||9223372036854775807")
                .into(),
            _ => there.to_string().into_bytes(),
        }
    }

    /// Returns a longitude: usually in a region of a few degrees, sometimes anywhere, sometimes out
    /// of range.
    pub fn longitude(&mut self) -> Vec<u8> {
        self.degrees(
            13,
            &[
                "180", "-180", "179.999", "180.0001", "-181", "0", "inf", "nan", "x", "",
            ],
        )
    }

    /// Returns a latitude with the same distribution.
    pub fn latitude(&mut self) -> Vec<u8> {
        self.degrees(
            38,
            &[
                "85.05112878",
                "-85.05112878",
                "85.06",
                "-86",
                "90",
                "0",
                "84.9",
                "-inf",
                "x",
                "",
            ],
        )
    }

    fn degrees(&mut self, around: i64, edges: &[&str]) -> Vec<u8> {
        match self.between(0..=99) {
            0..=79 => format!(
                "{}.{:06}",
                around + self.between(-3..=3),
                self.between(0..=999_999)
            ),
            80..=92 => format!("{}.{}", self.between(-80..=80), self.between(0..=99_999)),
            _ => self.pick(edges).to_owned(),
        }
        .into_bytes()
    }

    /// Returns the key of a string or a hash to which SORT's patterns refer.
    pub fn weight_key(&mut self) -> Vec<u8> {
        self.pick(WEIGHTS).to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_elements_are_all_different() {
        let mut draw = Draw::new(1);
        for _ in 0..20 {
            let mut elements = draw.many_elements();
            let count = elements.len();
            elements.sort();
            elements.dedup();
            assert_eq!(elements.len(), count);
        }
    }

    /// For a large negative number, a server would build a reply with so many elements.
    #[test]
    fn no_sample_with_repeats_is_large() {
        let mut draw = Draw::new(2);
        for _ in 0..10_000 {
            let size = draw.sample_size();
            if let Ok(size) = String::from_utf8(size).expect("ASCII").parse::<i64>() {
                assert!(size >= -15 || size == i64::MIN, "{size}");
            }
        }
    }
}
