//! The workloads of `bench server`, one row each, and their encoding.
//!
//! A row's words may contain placeholders: `{n}` is a random number for each command (12 digits), `{data}` the value, `{sha}`
//! the SHA1 of the row's script, `{job}` a JSON text of 1 KB. Everything else is sent literally.

use punctual_resp::encode_command;

use crate::scripts::{self, Script};

/// Digits of `{n}`: after `key:` they make a key of 16 bytes, as in redis-benchmark.
const DIGITS: usize = 12;

/// A command to measure.
#[derive(Debug)]
pub(crate) struct Workload {
    /// The name for `--tests`.
    pub(crate) name: &'static str,
    /// The command, one word per argument.
    command: &'static [&'static str],
    /// Required state before the measurement.
    pub(crate) before: Before,
}

/// Initial state of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    /// Any state: earlier rounds do not change the cost.
    Anything,
    /// These keys are removed first, so that each round starts in the same state.
    Without(&'static [&'static str]),
    /// The keys are removed, and then this command runs for as many values of `{n}` as [`Each`] defines.
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

use Before::{Anything, Filled, Without};

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
    Workload { name: "lrange_300", command: &["LRANGE", "mylist", "0", "299"],
               before: Filled { with: &["RPUSH", "mylist", "{data}"], each: Each::Times(1000), without: &["mylist"] } },
    Workload { name: "lrange_500", command: &["LRANGE", "mylist", "0", "499"],
               before: Filled { with: &["RPUSH", "mylist", "{data}"], each: Each::Times(1000), without: &["mylist"] } },
    Workload { name: "lrange_600", command: &["LRANGE", "mylist", "0", "599"],
               before: Filled { with: &["RPUSH", "mylist", "{data}"], each: Each::Times(1000), without: &["mylist"] } },
    Workload { name: "lindex", command: &["LINDEX", "mylist", "50000"],
               before: Filled { with: &["RPUSH", "mylist", "{data}"], each: Each::Times(100_000), without: &["mylist"] } },
    // The cost of pushing and popping does not depend on the list's length; loading it takes some seconds.
    Workload { name: "lpush_10m", command: &["LPUSH", "mylist", "{data}"],
               before: Filled { with: &["RPUSH", "mylist", "{data}"], each: Each::Times(10_000_000), without: &["mylist"] } },
    Workload { name: "lpop_10m", command: &["LPOP", "mylist"],
               before: Filled { with: &["RPUSH", "mylist", "{data}"], each: Each::Times(10_000_000), without: &["mylist"] } },
    Workload { name: "lindex_10m", command: &["LINDEX", "mylist", "5000000"],
               before: Filled { with: &["RPUSH", "mylist", "{data}"], each: Each::Times(10_000_000), without: &["mylist"] } },
    Workload { name: "sadd",   command: &["SADD", "myset", "element:{n}"], before: Without(&["myset"]) },
    Workload { name: "spop",   command: &["SPOP", "myset"],
               before: Filled { with: &["SADD", "myset", "element:{n}"], each: Each::Request, without: &["myset"] } },
    Workload { name: "hset",   command: &["HSET", "myhash", "element:{n}", "{data}"], before: Without(&["myhash"]) },
    Workload { name: "hget",   command: &["HGET", "myhash", "element:{n}"],
               before: Filled { with: &["HSET", "myhash", "element:{n}", "{data}"], each: Each::Key, without: &["myhash"] } },
    // Updates the score of a member of a complete set.
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

/// Returns the text of `--tests` in the long help.
pub(crate) fn help() -> String {
    let names: Vec<&str> = WORKLOADS.iter().map(|workload| workload.name).collect();
    format!(
        "Which commands, separated by commas [default: set,get,incr; with --threads set,get]\n\n\
         Known: {}; `all` for all of them but those of 10M, which take minutes. What a server does not know is skipped with a note.",
        names.join(", ")
    )
}

/// Returns the workloads of these names, in the given order; `Err` with the first unknown name.
pub(crate) fn find<'a>(names: &[&'a str]) -> Result<Vec<&'static Workload>, &'a str> {
    if names.iter().any(|name| name.eq_ignore_ascii_case("all")) {
        return Ok(WORKLOADS.iter().filter(|w| !w.is_long()).collect());
    }
    let known = |name: &&'a str| {
        WORKLOADS
            .iter()
            .find(|workload| workload.name.eq_ignore_ascii_case(name))
            .ok_or(*name)
    };
    names.iter().map(known).collect()
}

impl Workload {
    /// Returns true if loading the initial state takes minutes.
    fn is_long(&self) -> bool {
        self.name.ends_with("_10m")
    }

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

/// An encoded command, with holes for the numbers.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    bytes: Vec<u8>,
    /// Offset of each `{n}` in `bytes`.
    holes: Vec<usize>,
}

impl Template {
    /// Encodes `words`; each `{n}` becomes twelve zeros and a hole.
    pub(crate) fn new(words: &[&str], size: usize) -> Self {
        let data = "x".repeat(size);
        let mark = "\u{1}".repeat(DIGITS);
        let words: Vec<String> = words
            .iter()
            .map(|word| word.replace("{data}", &data).replace("{n}", &mark))
            .collect();
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let mut bytes = Vec::new();
        encode_command(&mut bytes, &words);
        let mut holes = Vec::new();
        let mut at = 0;
        while let Some(found) = find_placeholder(&bytes[at..]) {
            let hole = at + found;
            holes.push(hole);
            bytes[hole..hole + DIGITS].fill(b'0');
            at = hole + DIGITS;
        }
        Self { bytes, holes }
    }

    /// Returns the bytes of the command.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the command repeated `times` times, to be filled in place.
    pub(crate) fn repeat(&self, times: usize) -> Self {
        let length = self.bytes.len();
        Self {
            bytes: self.bytes.repeat(times),
            holes: (0..times)
                .flat_map(|copy| self.holes.iter().map(move |hole| copy * length + hole))
                .collect(),
        }
    }

    /// Writes the next number into every hole.
    pub(crate) fn fill(&mut self, mut next: impl FnMut() -> u64) {
        for &hole in &self.holes {
            write_digits(&mut self.bytes[hole..hole + DIGITS], next());
        }
    }
}

/// Returns the offset of the next placeholder, whose first byte is 1; no other byte of a template is 1.
fn find_placeholder(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|&byte| byte == 1)
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
        template.fill(|| 1);
        assert_eq!(
            template.bytes(),
            b"*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000001\r\n$3\r\nxxx\r\n"
        );
    }

    #[test]
    fn every_hole_of_every_copy_is_filled() {
        let mut template = find(&["mset"]).unwrap()[0].template(1).repeat(3);
        let mut next = 0;
        template.fill(|| {
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
    fn names_are_unique_and_unknown_ones_told() {
        for (at, workload) in WORKLOADS.iter().enumerate() {
            assert!(
                WORKLOADS[..at]
                    .iter()
                    .all(|other| other.name != workload.name)
            );
        }
        assert_eq!(find(&["set", "nope"]).unwrap_err(), "nope");
        assert_eq!(find(&["ALL"]).unwrap().len(), WORKLOADS.len() - 3);
        assert!(find(&["lindex_10m"]).is_ok());
        assert!(find(&["SET"]).is_ok());
    }
}
