//! Phases in which keys expire and are then accessed in every way.

use super::Family;
use crate::command::{Command, Step};
use crate::draw::Draw;

/// The prefix of the keys of phases. No other keys have it.
pub const EXPIRY_PHASE_PREFIX: &[u8] = b"lapse:";

/// A phase in which short TTLs expire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpiryPhase {
    /// Commands that give the keys of the phase their deadlines.
    pub arm: Vec<Step>,
    /// Time limit for `arm`, shorter than every TTL that `arm` removes or changes. If `arm` takes
    /// longer, keys with these TTLs may have expired already, and the phase is not compared.
    pub arm_limit_ms: u64,
    /// Time until every TTL has expired on both servers.
    pub wait_ms: u64,
    /// Commands that access the keys in every way in which a command can access an expired key.
    pub probe: Vec<Step>,
    /// The command that deletes the remaining keys.
    pub clean: Step,
}

/// A way to give one key of a phase its short TTL.
type Arm = fn(&mut Draw, &[u8], &str, &mut Vec<Step>);

/// Groups of commands that give the key a short TTL. Their replies do not depend on whether the key
/// expires at once, because no command after the short TTL accesses the key.
const ARMS: &[Arm] = &[
    |_, key, ttl_ms, steps| {
        steps.push(
            Command::new("SET")
                .arg(key)
                .arg("v")
                .arg("PX")
                .arg(ttl_ms)
                .into(),
        )
    },
    |_, key, ttl_ms, steps| {
        steps.push(Command::new("PSETEX").arg(key).arg(ttl_ms).arg("12").into())
    },
    |draw, key, ttl_ms, steps| {
        steps.push(Command::new("SET").arg(key).arg(draw.value()).into());
        steps.push(Command::new("PEXPIRE").arg(key).arg(ttl_ms).into());
    },
    |_, key, ttl_ms, steps| {
        steps.push(
            Command::new("SET")
                .arg(key)
                .arg("v")
                .arg("EX")
                .arg("5000")
                .into(),
        );
        steps.push(
            Command::new("PEXPIRE")
                .arg(key)
                .arg(ttl_ms)
                .arg("LT")
                .into(),
        );
    },
    |_, key, ttl_ms, steps| {
        steps.push(Command::new("SET").arg(key).arg("v").into());
        steps.push(Command::new("GETEX").arg(key).arg("PX").arg(ttl_ms).into());
    },
    |_, key, ttl_ms, steps| {
        let other = [key, b":moved"].concat();
        steps.push(
            Command::new("SET")
                .arg(&other)
                .arg("5")
                .arg("EX")
                .arg("5000")
                .into(),
        );
        steps.push(Command::new("INCR").arg(&other).into());
        steps.push(Command::new("APPEND").arg(&other).arg("0").into());
        steps.push(Command::new("RENAME").arg(&other).arg(key).into());
        steps.push(
            Command::new("PEXPIRE")
                .arg(key)
                .arg(ttl_ms)
                .arg("XX")
                .into(),
        );
    },
    |_, key, ttl_ms, steps| {
        let other = [key, b":moved"].concat();
        steps.push(
            Command::new("SET")
                .arg(&other)
                .arg("5")
                .arg("EX")
                .arg("5000")
                .into(),
        );
        steps.push(Command::new("COPY").arg(&other).arg(key).into());
        steps.push(Command::new("PEXPIRE").arg(key).arg(ttl_ms).into());
        steps.push(Command::new("PERSIST").arg(&other).into());
    },
];

/// Groups of commands that give the key a short TTL and remove the TTL again: the key must exist
/// afterwards.
const SURVIVORS: &[Arm] = &[
    |_, key, ttl_ms, steps| {
        steps.push(
            Command::new("SET")
                .arg(key)
                .arg("v")
                .arg("PX")
                .arg(ttl_ms)
                .into(),
        );
        steps.push(Command::new("PERSIST").arg(key).into());
    },
    |_, key, ttl_ms, steps| {
        steps.push(Command::new("PSETEX").arg(key).arg(ttl_ms).arg("v").into());
        steps.push(Command::new("SET").arg(key).arg("w").into());
    },
    |_, key, ttl_ms, steps| {
        steps.push(Command::new("PSETEX").arg(key).arg(ttl_ms).arg("v").into());
        steps.push(Command::new("EXPIRE").arg(key).arg("5000").arg("GT").into());
    },
    |_, key, ttl_ms, steps| {
        steps.push(Command::new("PSETEX").arg(key).arg(ttl_ms).arg("v").into());
        steps.push(Command::new("GETSET").arg(key).arg("w").into());
    },
    |_, key, ttl_ms, steps| {
        steps.push(Command::new("PSETEX").arg(key).arg(ttl_ms).arg("v").into());
        steps.push(Command::new("GETEX").arg(key).arg("PERSIST").into());
    },
    |_, key, ttl_ms, steps| {
        steps.push(Command::new("PSETEX").arg(key).arg(ttl_ms).arg("v").into());
        steps.push(Command::new("DEL").arg(key).into());
        steps.push(Command::new("SET").arg(key).arg("again").into());
    },
];

/// Commands that access an expired key; `@` is the key.
const PROBES: &[&[&str]] = &[
    &["GET", "@"],
    &["EXISTS", "@", "@"],
    &["TTL", "@"],
    &["PTTL", "@"],
    &["EXPIRETIME", "@"],
    &["TYPE", "@"],
    &["STRLEN", "@"],
    &["GETDEL", "@"],
    &["GETEX", "@", "PERSIST"],
    &["GETRANGE", "@", "0", "-1"],
    &["PERSIST", "@"],
    &["EXPIRE", "@", "100"],
    &["PEXPIRE", "@", "100000", "NX"],
    &["EXPIRE", "@", "-1"],
    &["DEL", "@"],
    &["UNLINK", "@"],
    &["TOUCH", "@"],
    &["RENAME", "@", "@:to"],
    &["COPY", "@", "@:to"],
    &["MOVE", "@", "1"],
    &["OBJECT", "ENCODING", "@"],
    &["MGET", "@", "@"],
    &["SET", "@", "x", "XX"],
    &["SET", "@", "x", "NX", "GET"],
    &["SET", "@", "x", "KEEPTTL"],
    &["SETNX", "@", "x"],
    &["GETSET", "@", "x"],
    &["MSETNX", "@", "x"],
    &["INCR", "@"],
    &["INCRBYFLOAT", "@", "1.5"],
    &["APPEND", "@", "x"],
    &["SETRANGE", "@", "3", "x"],
    &["SETRANGE", "@", "0", ""],
    &["LCS", "@", "@"],
    &["KEYS", "lapse:*"],
];

/// Commands that create a collection, which then gets a short TTL.
const COLLECTIONS: &[(Family, &[&str])] = &[
    (Family::Lists, &["RPUSH", "@", "a", "b"]),
    (Family::Hashes, &["HSET", "@", "f", "v"]),
    (Family::Sets, &["SADD", "@", "1", "2"]),
    (Family::Sets, &["SADD", "@", "a", "b"]),
    (Family::Zsets, &["ZADD", "@", "1", "a", "2", "b"]),
    (Family::Bitmaps, &["SETBIT", "@", "7", "1"]),
    (Family::Hyperloglog, &["PFADD", "@", "a"]),
    (Family::Geo, &["GEOADD", "@", "13.361389", "38.115556", "a"]),
];

/// Commands of the other families that access an expired key.
const COLLECTION_PROBES: &[(Family, &[&str])] = &[
    (Family::Lists, &["LPUSH", "@", "x"]),
    (Family::Lists, &["RPUSHX", "@", "x"]),
    (Family::Lists, &["LPOP", "@"]),
    (Family::Lists, &["LRANGE", "@", "0", "-1"]),
    (Family::Lists, &["LMOVE", "@", "@:to", "LEFT", "LEFT"]),
    (Family::Lists, &["LINSERT", "@", "BEFORE", "a", "x"]),
    (Family::Lists, &["LMPOP", "1", "@", "LEFT"]),
    (Family::Hashes, &["HSET", "@", "g", "x"]),
    (Family::Hashes, &["HGETALL", "@"]),
    (Family::Hashes, &["HDEL", "@", "f"]),
    (Family::Hashes, &["HINCRBY", "@", "f", "1"]),
    (Family::Hashes, &["HRANDFIELD", "@"]),
    (Family::Sets, &["SADD", "@", "x"]),
    (Family::Sets, &["SMEMBERS", "@"]),
    (Family::Sets, &["SREM", "@", "a"]),
    (Family::Sets, &["SMOVE", "@", "@:to", "a"]),
    (Family::Sets, &["SUNIONSTORE", "@:to", "@"]),
    (Family::Sets, &["SINTERCARD", "1", "@"]),
    (Family::Zsets, &["ZADD", "@", "XX", "1", "a"]),
    (Family::Zsets, &["ZADD", "@", "1", "x"]),
    (Family::Zsets, &["ZRANGE", "@", "0", "-1"]),
    (Family::Zsets, &["ZPOPMIN", "@"]),
    (Family::Zsets, &["ZUNIONSTORE", "@:to", "1", "@"]),
    (Family::Zsets, &["ZREMRANGEBYRANK", "@", "0", "0"]),
    (Family::Bitmaps, &["SETBIT", "@", "3", "1"]),
    (Family::Bitmaps, &["BITCOUNT", "@"]),
    (Family::Bitmaps, &["BITOP", "NOT", "@:to", "@"]),
    (Family::Hyperloglog, &["PFCOUNT", "@"]),
    (Family::Hyperloglog, &["PFMERGE", "@:to", "@"]),
    (Family::Geo, &["GEOPOS", "@", "a"]),
    (Family::Sort, &["SORT", "@"]),
    (Family::Sort, &["SORT", "@", "ALPHA", "STORE", "@:to"]),
    (Family::Dumps, &["DUMP", "@"]),
];

/// Returns a command from the words, with `@` replaced by the key.
fn about(words: &[&str], key: &[u8]) -> Command {
    let mut command = Command::new(words[0]);
    for word in &words[1..] {
        match word.strip_prefix('@') {
            Some(rest) => command.push([key, rest.as_bytes()].concat()),
            None => command.push(word),
        }
    }
    command
}

/// Returns a phase with twenty keys that get short TTLs. In some phases, a third of the keys lose
/// the short TTL again.
pub(super) fn phase(draw: &mut Draw, number: u64, has: impl Fn(Family) -> bool) -> ExpiryPhase {
    let of = |table: &[(Family, &'static [&'static str])]| -> Vec<&'static [&'static str]> {
        table
            .iter()
            .filter(|(family, _)| has(*family))
            .map(|(_, words)| *words)
            .collect()
    };
    let collections = of(COLLECTIONS);
    let probes = [PROBES.to_vec(), of(COLLECTION_PROBES)].concat();
    // One phase in eight also removes short TTLs. These TTLs are longer, so that they do not expire
    // before.
    let with_survivors = draw.chance(12);
    let longest_ms = if with_survivors { 300 } else { 25 };
    let mut arm = Vec::new();
    let mut probe = Vec::new();
    let mut clean = Command::new("UNLINK");
    for index in 0..20 {
        let key = [EXPIRY_PHASE_PREFIX, format!("{number}:{index}").as_bytes()].concat();
        let survives = with_survivors && index % 3 == 0;
        let (ways, shortest_ms) = if survives {
            (SURVIVORS, 250)
        } else {
            // A shorter TTL could already have passed when Redis sets it: Redis reads its clock
            // again for this check.
            (ARMS, 10)
        };
        let ttl_ms = draw.between(shortest_ms..=longest_ms).to_string();
        if !survives && !collections.is_empty() && draw.chance(60) {
            arm.push(about(draw.pick(&collections), &key).into());
            arm.push(Command::new("PEXPIRE").arg(&key).arg(&ttl_ms).into());
        } else {
            let way = ways[draw.count(0..=ways.len() - 1)];
            way(draw, &key, &ttl_ms, &mut arm);
        }
        probe.push(about(draw.pick(&probes), &key).into());
        probe.push(Command::new("EXISTS").arg(&key).into());
        for end in ["", ":moved", ":to"] {
            clean.push([&key, end.as_bytes()].concat());
        }
    }
    let arm_limit_ms = if with_survivors { 200 } else { 4_000 };
    ExpiryPhase {
        arm,
        arm_limit_ms,
        wait_ms: longest_ms.unsigned_abs() + 15,
        probe,
        clean: clean.into(),
    }
}
