//! The data of `bench server --memory`: keys and collections.

use punctual_resp::encode_command;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::sheet::Bar;
use crate::workload::{key_name, write_digits};

/// TTLs of keys: between one and two hours, so that no key expires during the run.
const TTL_MS: std::ops::Range<u64> = 3_600_000..7_200_000;

/// A kind of element to load.
#[derive(Debug)]
pub(crate) struct Load {
    /// Name for `--tests`.
    pub(crate) test: &'static str,
    /// Name in the table.
    pub(crate) name: &'static str,
    /// The command that loads one element.
    pub(crate) command: &'static str,
    /// The command that counts the elements.
    pub(crate) count: &'static [&'static str],
    pub(crate) bar: Bar,
    /// Appends the command for the element with this number.
    pub(crate) write: fn(&mut Writer, u64, &mut Vec<u8>),
}

/// All loads.
#[rustfmt::skip]
pub(crate) const LOADS: &[Load] = &[
    Load { test: "keys", name: "keys with TTL", command: "SET", count: &["DBSIZE"],
           bar: Bar::AtMost(74.0), write: Writer::key_with_ttl },
    Load { test: "keys", name: "keys without TTL", command: "SET", count: &["DBSIZE"],
           bar: Bar::AtMost(60.0), write: Writer::key },
    Load { test: "hashes", name: "hashes of 5 fields", command: "HSET", count: &["DBSIZE"],
           bar: Bar::RatioAtMost(0.85), write: Writer::hash },
    Load { test: "set", name: "members of a set", command: "SADD", count: &["SCARD", "myset"],
           bar: Bar::RatioAtMost(0.85), write: Writer::member },
    Load { test: "zset", name: "members of a sorted set", command: "ZADD", count: &["ZCARD", "myzset"],
           bar: Bar::RatioAtMost(0.85), write: Writer::scored_member },
    Load { test: "list", name: "items of a list", command: "RPUSH", count: &["LLEN", "mylist"],
           bar: Bar::RatioAtMost(0.85), write: Writer::item },
    Load { test: "stream", name: "entries of a stream", command: "XADD", count: &["XLEN", "mystream"],
           bar: Bar::RatioAtMost(0.85), write: Writer::entry },
    Load { test: "timers", name: "timers", command: "TIMER", count: &["DBSIZE"],
           bar: Bar::AtMost(180.0), write: Writer::timer },
];

/// Writes the commands of a load.
#[derive(Debug)]
pub(crate) struct Writer {
    rng: ChaCha8Rng,
    value: Vec<u8>,
}

impl Writer {
    /// Creates a writer of values of `size` bytes, 12 or more.
    pub(crate) fn new(rng: ChaCha8Rng, size: usize) -> Self {
        Self {
            rng,
            value: vec![b'v'; size],
        }
    }

    /// Writes the number into the last bytes of the value. The values are distinct, and begin with
    /// a letter, so they are not integers.
    fn number(&mut self, index: u64) {
        let digits = self.value.len() - 11;
        write_digits(&mut self.value[digits..], index);
    }

    fn key(&mut self, index: u64, out: &mut Vec<u8>) {
        self.number(index);
        encode_command(out, &[b"SET", &key_name(index)[..], &self.value]);
    }

    fn key_with_ttl(&mut self, index: u64, out: &mut Vec<u8>) {
        self.number(index);
        let millis = self.rng.random_range(TTL_MS).to_string();
        encode_command(
            out,
            &[
                b"SET",
                &key_name(index)[..],
                &self.value,
                b"PX",
                millis.as_bytes(),
            ],
        );
    }

    /// Writes a hash like a user's record: a number, words, a flag.
    fn hash(&mut self, index: u64, out: &mut Vec<u8>) {
        let (key, id, name) = (key_name(index), index.to_string(), format!("user {index}"));
        let fields: [&[u8]; 10] = [
            b"id",
            id.as_bytes(),
            b"name",
            name.as_bytes(),
            b"plan",
            b"basic",
            b"visits",
            b"17",
            b"active",
            b"1",
        ];
        let words: Vec<&[u8]> = [&b"HSET"[..], &key].into_iter().chain(fields).collect();
        encode_command(out, &words);
    }

    fn member(&mut self, index: u64, out: &mut Vec<u8>) {
        encode_command(out, &[b"SADD", &b"myset"[..], &element(index)]);
    }

    /// Writes a member with a random score.
    fn scored_member(&mut self, index: u64, out: &mut Vec<u8>) {
        let score = self.rng.random_range(0..1_000_000_000_u64).to_string();
        encode_command(
            out,
            &[b"ZADD", &b"myzset"[..], score.as_bytes(), &element(index)],
        );
    }

    fn item(&mut self, index: u64, out: &mut Vec<u8>) {
        encode_command(out, &[b"RPUSH", &b"mylist"[..], &element(index)]);
    }

    /// Writes a timer whose command has 32 bytes.
    fn timer(&mut self, index: u64, out: &mut Vec<u8>) {
        let millis = self.rng.random_range(TTL_MS).to_string();
        let words: [&[u8]; 9] = [
            b"TIMER",
            b"SET",
            &key_name(index),
            b"IN",
            millis.as_bytes(),
            b"DO",
            b"SET",
            &element(index),
            b"the-value-is!",
        ];
        encode_command(out, &words);
    }

    /// Writes an entry with a name and a number.
    fn entry(&mut self, index: u64, out: &mut Vec<u8>) {
        let number = index.to_string();
        let words: [&[u8]; 7] = [
            b"XADD",
            b"mystream",
            b"*",
            b"name",
            &element(index),
            b"number",
            number.as_bytes(),
        ];
        encode_command(out, &words);
    }
}

/// Returns `element:` and eight digits, 16 bytes.
fn element(index: u64) -> [u8; 16] {
    let mut name = *b"element:00000000";
    write_digits(&mut name[8..], index);
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn every_load_writes_its_own_command() {
        for load in LOADS {
            let mut writer = Writer::new(ChaCha8Rng::seed_from_u64(1), 16);
            let (mut first, mut second) = (Vec::new(), Vec::new());
            (load.write)(&mut writer, 1, &mut first);
            (load.write)(&mut writer, 2, &mut second);
            assert_ne!(first, second, "{}", load.name);
            let name = format!("\r\n{}\r\n", load.command);
            assert!(
                String::from_utf8_lossy(&first).contains(&name),
                "{}",
                load.name
            );
        }
    }
}
