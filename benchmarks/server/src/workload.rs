//! The workloads of `bench server`, one row each, and their encoding.
//!
//! A row's words may contain placeholders. `{n}`, `{z}` and `{i}` become numbers of 12 digits, new
//! ones in each command: `{n}` is random, `{z}` is random by Zipf's law, and `{i}` counts up.
//! `{data}` is the value, `{sha}` the SHA1 digest of the row's script, `{job}` a JSON text of 1 KB.
//! A word `;` separates the commands of a mix. All other words are sent literally.

use punctual_resp::encode_command;

use crate::error::{Error, Result};
use crate::scripts::{self, Script};

/// Number of digits of a number. With `key:` before it, a key has 16 bytes, as in redis-benchmark.
const DIGITS: usize = 12;

/// Distribution of a placeholder's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Draw {
    /// All numbers have the same probability.
    Even,
    /// The probability of k is proportional to 1 / (k + 1): Zipf's law with exponent 1.
    Zipf,
    /// Each number is used once, in ascending order.
    Next,
}

/// The placeholders of numbers, and the bytes that represent them while a template is built.
/// Templates contain no other bytes 1, 2 and 3.
const DRAWS: [(&str, char, Draw); 3] = [
    ("{n}", '\u{1}', Draw::Even),
    ("{z}", '\u{2}', Draw::Zipf),
    ("{i}", '\u{3}', Draw::Next),
];

/// A command to measure.
#[derive(Debug)]
pub(crate) struct Workload {
    /// The name for `--tests`.
    pub(crate) name: &'static str,
    /// The command, one word per argument; the commands of a mix, separated by `;`.
    command: &'static [&'static str],
    /// The state that the measurement requires.
    pub(crate) before: Before,
}

/// Initial state of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    /// Any state: data of earlier rounds does not change the cost.
    Anything,
    /// The database has no keys.
    Nothing,
    /// A database without these keys, so that each round starts in the same state.
    Without(&'static [&'static str]),
    /// The keys `without` are removed, and then the command `with` runs for as many values of `{n}`
    /// as `each` defines.
    Filled {
        with: &'static [&'static str],
        each: Each,
        without: &'static [&'static str],
    },
}

/// Number of runs of a filling command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Each {
    /// Once for each key of the keyspace.
    Key,
    /// Once for each command of the measurement, so that no collection becomes empty.
    Request,
    /// A fixed number of times.
    Times(u64),
}

use Before::{Anything, Filled, Nothing, Without};

/// All workloads. Keys, members and fields are named as in redis-benchmark.
#[rustfmt::skip]
pub(crate) const WORKLOADS: &[Workload] = &[
    Workload { name: "ping",   command: &["PING"], before: Anything },
    Workload { name: "set",    command: &["SET", "key:{n}", "{data}"], before: Anything },
    Workload { name: "get",    command: &["GET", "key:{n}"],
               before: Filled { with: &["SET", "key:{n}", "{data}"], each: Each::Key, without: &[] } },
    Workload { name: "incr",   command: &["INCR", "counter:{n}"], before: Anything },
    Workload { name: "mset",   before: Anything, command: &["MSET",
               "key:{n}", "{data}", "key:{n}", "{data}", "key:{n}", "{data}", "key:{n}", "{data}", "key:{n}", "{data}",
               "key:{n}", "{data}", "key:{n}", "{data}", "key:{n}", "{data}", "key:{n}", "{data}", "key:{n}", "{data}"] },
    Workload { name: "mget",   command: &["MGET", "key:{n}", "key:{n}", "key:{n}", "key:{n}", "key:{n}",
                                          "key:{n}", "key:{n}", "key:{n}", "key:{n}", "key:{n}"],
               before: Filled { with: &["SET", "key:{n}", "{data}"], each: Each::Key, without: &[] } },
    Workload { name: "setex",  command: &["SET", "key:{n}", "{data}", "EX", "3600"], before: Anything },
    Workload { name: "expire", command: &["EXPIRE", "key:{n}", "3600"],
               before: Filled { with: &["SET", "key:{n}", "{data}"], each: Each::Key, without: &[] } },
    Workload { name: "lpush",  command: &["LPUSH", "mylist", "{data}"], before: Without(&["mylist"]) },
    Workload { name: "rpush",  command: &["RPUSH", "mylist", "{data}"], before: Without(&["mylist"]) },
    Workload { name: "lpop",   command: &["LPOP", "mylist"],
               before: Filled { with: &["RPUSH", "mylist", "{data}"], each: Each::Request, without: &["mylist"] } },
    Workload { name: "rpop",   command: &["RPOP", "mylist"],
               before: Filled { with: &["RPUSH", "mylist", "{data}"], each: Each::Request, without: &["mylist"] } },
    Workload { name: "lrange", command: &["LRANGE", "mylist", "0", "99"],
               before: Filled { with: &["RPUSH", "mylist", "{data}"], each: Each::Times(1000), without: &["mylist"] } },
    Workload { name: "lindex", command: &["LINDEX", "mylist", "50000"],
               before: Filled { with: &["RPUSH", "mylist", "{data}"], each: Each::Times(100_000), without: &["mylist"] } },
    // Each measurement loads ten million elements first, so the whole row takes minutes.
    Workload { name: "lindex_10m", command: &["LINDEX", "mylist", "5000000"],
               before: Filled { with: &["RPUSH", "mylist", "{data}"], each: Each::Times(10_000_000), without: &["mylist"] } },
    Workload { name: "sadd",   command: &["SADD", "myset", "element:{n}"], before: Without(&["myset"]) },
    Workload { name: "spop",   command: &["SPOP", "myset"],
               before: Filled { with: &["SADD", "myset", "element:{n}"], each: Each::Request, without: &["myset"] } },
    Workload { name: "hset",   command: &["HSET", "myhash", "element:{n}", "{data}"], before: Without(&["myhash"]) },
    Workload { name: "hget",   command: &["HGET", "myhash", "element:{n}"],
               before: Filled { with: &["HSET", "myhash", "element:{n}", "{data}"], each: Each::Key, without: &["myhash"] } },
    // Updates the score of a member: the sorted set has all members.
    Workload { name: "zadd",   command: &["ZADD", "myzset", "{n}", "element:{n}"],
               before: Filled { with: &["ZADD", "myzset", "{n}", "element:{n}"], each: Each::Key, without: &["myzset"] } },
    Workload { name: "zrank",  command: &["ZRANK", "myzset", "element:{n}"],
               before: Filled { with: &["ZADD", "myzset", "{n}", "element:{n}"], each: Each::Key, without: &["myzset"] } },
    Workload { name: "zrange_100", command: &["ZRANGE", "myzset", "{n}", "+inf", "BYSCORE", "LIMIT", "0", "100"],
               before: Filled { with: &["ZADD", "myzset", "{n}", "element:{n}"], each: Each::Key, without: &["myzset"] } },
    Workload { name: "zpopmin", command: &["ZPOPMIN", "myzset"],
               before: Filled { with: &["ZADD", "myzset", "{n}", "element:{n}"], each: Each::Request, without: &["myzset"] } },
    Workload { name: "xadd",   command: &["XADD", "mystream", "*", "myfield", "{data}"], before: Without(&["mystream"]) },
    Workload { name: "xadd_3", command: &["XADD", "mystream", "*", "name", "{n}", "size", "{n}", "kind", "{n}"],
               before: Without(&["mystream"]) },
    Workload { name: "xrange_100", command: &["XRANGE", "mystream", "{n}", "+", "COUNT", "100"],
               before: Filled { with: &["XADD", "mystream", "{n}-1", "myfield", "{data}"], each: Each::Key, without: &["mystream"] } },
    Workload { name: "xread_100", command: &["XREAD", "COUNT", "100", "STREAMS", "mystream", "{n}"],
               before: Filled { with: &["XADD", "mystream", "{n}-1", "myfield", "{data}"], each: Each::Key, without: &["mystream"] } },
    // For several event loops: collections with many keys, a mix of commands, one key that all
    // clients use, and keys with frequencies by Zipf's law.
    Workload { name: "lpush_many", command: &["LPUSH", "list:{n}", "{data}"], before: Nothing },
    Workload { name: "zadd_many", command: &["ZADD", "zset:{n}", "{n}", "element:{n}"], before: Nothing },
    Workload { name: "mixed",  before: Nothing, command: &[
               "SET", "key:{n}", "{data}", ";", "GET", "key:{n}", ";", "INCR", "counter:{n}", ";", "GET", "key:{n}", ";",
               "LPUSH", "list:{n}", "{data}", ";", "GET", "key:{n}", ";", "ZADD", "zset:{n}", "{n}", "element:{n}", ";",
               "MSET", "key:{n}", "{data}", "key:{n}", "{data}", "key:{n}", "{data}"] },
    Workload { name: "set_one", command: &["SET", "key", "{data}"], before: Anything },
    Workload { name: "get_one", command: &["GET", "key"],
               before: Filled { with: &["SET", "key", "{data}"], each: Each::Times(1), without: &[] } },
    Workload { name: "incr_one", command: &["INCR", "counter"], before: Anything },
    Workload { name: "set_zipf", command: &["SET", "key:{z}", "{data}"], before: Anything },
    Workload { name: "get_zipf", command: &["GET", "key:{z}"],
               before: Filled { with: &["SET", "key:{n}", "{data}"], each: Each::Key, without: &[] } },
    Workload { name: "incr_zipf", command: &["INCR", "counter:{z}"], before: Anything },
    // The scripts are in `scripts.rs`.
    Workload { name: "eval_get", command: &["EVALSHA", "{sha}", "1", "key:{n}"],
               before: Filled { with: &["SET", "key:{n}", "{data}"], each: Each::Key, without: &[] } },
    Workload { name: "eval_set_get", command: &["EVALSHA", "{sha}", "1", "key:{n}", "{data}"], before: Anything },
    Workload { name: "eval_limiter", command: &["EVALSHA", "{sha}", "1", "limiter", "{n}", "1", "100"], before: Without(&["limiter"]) },
    Workload { name: "eval_cjson", command: &["EVALSHA", "{sha}", "0", "{job}"], before: Anything },
    Workload { name: "eval_loop", command: &["EVALSHA", "{sha}", "0"], before: Anything },
    Workload { name: "fcall", command: &["FCALL", "punctual_bench_get", "1", "key:{n}"],
               before: Filled { with: &["SET", "key:{n}", "{data}"], each: Each::Key, without: &[] } },
];

/// Returns the long help of `--pipeline`, which names the commands of `--tests`.
pub(crate) fn help() -> String {
    let names: Vec<&str> = WORKLOADS.iter().map(|workload| workload.name).collect();
    format!(
        "Commands in flight on each connection\n\nCommands for --tests: {}; `all` for all of them except lindex_10m, which takes minutes. \
         A command that a server does not know has no figures.",
        names.join(", ")
    )
}

/// Returns the workloads of these names, in the given order.
pub(crate) fn find(names: &[impl AsRef<str>]) -> Result<Vec<&'static Workload>> {
    if names.iter().any(|name| name.as_ref() == "all") {
        return Ok(WORKLOADS
            .iter()
            .filter(|workload| workload.name != "lindex_10m")
            .collect());
    }
    let known = |name: &_| {
        let name = AsRef::<str>::as_ref(name);
        let found = WORKLOADS.iter().find(|workload| workload.name == name);
        found.ok_or_else(|| Error::Options(format!("--tests {name}: {}", help())))
    };
    names.iter().map(known).collect()
}

impl Workload {
    /// Returns the encoded command, with values of `size` bytes.
    pub(crate) fn template(&self, size: usize) -> Template {
        let sha = scripts::of(self.name).map_or_else(String::new, Script::sha);
        let words: Vec<&str> = self
            .command
            .iter()
            .map(|&word| match word {
                "{sha}" => &sha,
                "{job}" => scripts::JOB,
                word => word,
            })
            .collect();
        Template::new(&words, size)
    }
}

/// Encoded commands with *holes*: places for the numbers.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    bytes: Vec<u8>,
    /// Offset and distribution of each placeholder in `bytes`.
    holes: Vec<(usize, Draw)>,
    /// The end of each command: an index into `bytes`, and an index into `holes`.
    ends: Vec<(usize, usize)>,
}

impl Template {
    /// Encodes `words`; each placeholder of a number becomes twelve zeros and a hole.
    pub(crate) fn new(words: &[&str], size: usize) -> Self {
        let data = "x".repeat(size);
        let mut template = Self {
            bytes: Vec::new(),
            holes: Vec::new(),
            ends: Vec::new(),
        };
        for command in words.split(|word| *word == ";") {
            let words: Vec<String> = command
                .iter()
                .map(|word| {
                    let word = word.replace("{data}", &data);
                    DRAWS.iter().fold(word, |word, (placeholder, mark, _)| {
                        word.replace(placeholder, &mark.to_string().repeat(DIGITS))
                    })
                })
                .collect();
            let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            template.add(&words);
        }
        template
    }

    /// Encodes one command.
    fn add(&mut self, words: &[&[u8]]) {
        let mut at = self.bytes.len();
        encode_command(&mut self.bytes, words);
        let draw_of = |byte| DRAWS.iter().find(|draw| draw.1 as u8 == byte);
        while let Some((found, draw)) = self.bytes[at..]
            .iter()
            .enumerate()
            .find_map(|(offset, &byte)| Some((offset, draw_of(byte)?.2)))
        {
            let hole = at + found;
            self.holes.push((hole, draw));
            self.bytes[hole..hole + DIGITS].fill(b'0');
            at = hole + DIGITS;
        }
        self.ends.push((self.bytes.len(), self.holes.len()));
    }

    /// Returns the bytes of the commands.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns a template with `times` commands: the commands of this template in turn, beginning
    /// with the command `first`.
    pub(crate) fn repeat(&self, first: usize, times: usize) -> Self {
        let mut all = Self {
            bytes: Vec::with_capacity(self.bytes.len() * times),
            holes: Vec::new(),
            ends: Vec::new(),
        };
        for number in first..first + times {
            let number = number % self.ends.len();
            let begin = number
                .checked_sub(1)
                .map_or((0, 0), |before| self.ends[before]);
            let end = self.ends[number];
            let moved = all.bytes.len();
            all.bytes.extend_from_slice(&self.bytes[begin.0..end.0]);
            let holes = self.holes[begin.1..end.1].iter();
            all.holes
                .extend(holes.map(|(hole, draw)| (hole - begin.0 + moved, *draw)));
            all.ends.push((all.bytes.len(), all.holes.len()));
        }
        all
    }

    /// Writes the next number into every hole.
    pub(crate) fn fill(&mut self, mut next: impl FnMut(Draw) -> u64) {
        for &(hole, draw) in &self.holes {
            write_digits(&mut self.bytes[hole..hole + DIGITS], next(draw));
        }
    }
}

/// Returns the name of a key: `key:` and twelve digits, as in the workloads.
pub(crate) fn key_name(index: u64) -> [u8; 16] {
    let mut name = *b"key:000000000000";
    write_digits(&mut name[4..], index);
    name
}

/// Writes `number` in decimal, right-aligned, with leading zeros; drops digits that do not fit.
pub(crate) fn write_digits(field: &mut [u8], mut number: u64) {
    for digit in field.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_sixteen_bytes() {
        let mut template = find(&["set"]).unwrap()[0].template(3);
        template.fill(|_| 1);
        assert_eq!(
            template.bytes(),
            b"*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000001\r\n$3\r\nxxx\r\n"
        );
    }

    #[test]
    fn every_hole_of_every_copy_is_filled() {
        let mut template = find(&["mset"]).unwrap()[0].template(1).repeat(0, 3);
        let mut next = 0;
        template.fill(|_| {
            next += 1;
            next
        });
        assert_eq!(next, 30);
        let text = String::from_utf8(template.bytes().to_vec()).unwrap();
        for number in 1..=30 {
            assert!(text.contains(&format!("key:{number:012}")), "{number}");
        }
    }

    #[test]
    fn a_mix_goes_round() {
        let mix = Template::new(
            &["GET", "a:{n}", ";", "SET", "b:{z}", "{data}", ";", "PING"],
            2,
        );
        let mut draws = Vec::new();
        let mut three = mix.repeat(1, 3);
        three.fill(|draw| {
            draws.push(draw);
            7
        });
        assert_eq!(draws, [Draw::Zipf, Draw::Even]);
        assert_eq!(
            String::from_utf8_lossy(three.bytes()),
            "*3\r\n$3\r\nSET\r\n$14\r\nb:000000000007\r\n$2\r\nxx\r\n*1\r\n$4\r\nPING\r\n\
             *2\r\n$3\r\nGET\r\n$14\r\na:000000000007\r\n"
        );
    }

    #[test]
    fn names_are_unique_and_unknown_names_refused() {
        for (at, workload) in WORKLOADS.iter().enumerate() {
            assert!(
                WORKLOADS[..at]
                    .iter()
                    .all(|other| other.name != workload.name)
            );
        }
        assert!(find(&["set", "nope"]).is_err());
        assert_eq!(find(&["all"]).unwrap().len(), WORKLOADS.len() - 1);
        assert!(find(&["lindex_10m"]).is_ok());
    }
}
