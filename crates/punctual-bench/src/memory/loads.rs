//! The data of `bench server --memory`: keys and collections.

use clap::ValueEnum;
use punctual_resp::encode_command;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::bars;
use crate::workload::write_digits;

/// TTLs of keys: between one and two hours, so that none expires during the run.
const TTL_MS: std::ops::Range<u64> = 3_600_000..7_200_000;

/// A type in `--types`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Type {
    /// Strings, with and without a TTL.
    Keys,
    /// Hashes of five small fields.
    Hashes,
    /// One set.
    Set,
    /// One sorted set.
    Zset,
    /// One list.
    List,
    /// One stream of entries with two small fields.
    Stream,
    /// Timers that fire once, with a command of 32 bytes. Only if they are named: other servers have none.
    Timers,
}

/// Bound on a server's memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Bar {
    /// Bytes per element, with values of 16 bytes.
    Bytes(f64),
    /// Ratio to redis-server's.
    Ratio(f64),
}

/// A kind of element to load.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) of: Type,
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
pub(crate) const LOADS: &[Load] = &[
    Load {
        of: Type::Keys,
        name: "keys with TTL",
        command: "SET",
        count: &["DBSIZE"],
        bar: Bar::Bytes(bars::BYTES_PER_KEY_WITH_TTL),
        write: Writer::key_with_ttl,
    },
    Load {
        of: Type::Keys,
        name: "keys without TTL",
        command: "SET",
        count: &["DBSIZE"],
        bar: Bar::Bytes(bars::BYTES_PER_KEY_WITHOUT_TTL),
        write: Writer::key,
    },
    Load {
        of: Type::Hashes,
        name: "hashes of 5 fields",
        command: "HSET",
        count: &["DBSIZE"],
        bar: Bar::Ratio(bars::COLLECTION_BYTES_RATIO),
        write: Writer::hash,
    },
    Load {
        of: Type::Set,
        name: "members of a set",
        command: "SADD",
        count: &["SCARD", "myset"],
        bar: Bar::Ratio(bars::COLLECTION_BYTES_RATIO),
        write: Writer::member,
    },
    Load {
        of: Type::Zset,
        name: "members of a sorted set",
        command: "ZADD",
        count: &["ZCARD", "myzset"],
        bar: Bar::Ratio(bars::COLLECTION_BYTES_RATIO),
        write: Writer::scored_member,
    },
    Load {
        of: Type::List,
        name: "items of a list",
        command: "RPUSH",
        count: &["LLEN", "mylist"],
        bar: Bar::Ratio(bars::COLLECTION_BYTES_RATIO),
        write: Writer::item,
    },
    Load {
        of: Type::Stream,
        name: "entries of a stream",
        command: "XADD",
        count: &["XLEN", "mystream"],
        bar: Bar::Ratio(bars::COLLECTION_BYTES_RATIO),
        write: Writer::entry,
    },
    Load {
        of: Type::Timers,
        name: "timers",
        command: "TIMER",
        count: &["DBSIZE"],
        bar: Bar::Bytes(bars::BYTES_PER_TIMER),
        write: Writer::timer,
    },
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

    /// Writes the number into the value's last digits, after a letter: values are distinct and no integers.
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

/// Returns `key:` and twelve digits, as in the workloads.
pub(super) fn key_name(index: u64) -> [u8; 16] {
    let mut name = *b"key:000000000000";
    write_digits(&mut name[4..], index);
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
