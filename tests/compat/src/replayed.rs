//! Comparison of two servers that must have the same data, because one of them has applied the
//! other's log of changes.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use punctual_resp::Value;

use crate::command::{Command, Quoted};
use crate::link::{Link, LinkError, Side};

/// Number of databases: Redis's default.
const DATABASES: usize = 16;
/// Maximum number of comparisons. Differences count only if every comparison finds one: a key may
/// expire between the queries to the two servers.
const ATTEMPTS: usize = 20;
const PAUSE: Duration = Duration::from_millis(100);

/// The compared part of a stream's consumer groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Groups {
    /// All fields of XINFO GROUPS.
    Whole,
    /// Names, last delivered IDs and numbers of pending entries. The log of redis-server 7.0 does
    /// not preserve the other fields: consumers without entries, and sometimes the number of
    /// entries read, and so the lag. Later servers compute these two numbers in another way.
    Delivered,
}

/// Returns true if a change by this command may be missing from the log, or after a
/// replay of the log, because of redis-server.
///
/// The log of a redis-server lacks a BITFIELD that adds zeros to a string but sets no number, and
/// scripts can turn off replication. If a redis-server replays the log, SORT fails and stores
/// nothing if a command just before it has parsed a number beyond the normal doubles, such as
/// 1e-320 or 1e400: redis-server does not clear `errno`.
pub fn may_differ(command: &Command, of_redis: bool, to_redis: bool) -> bool {
    let says = |what: &str| {
        let within = |arg: &Vec<u8>| {
            let arg = arg.to_ascii_lowercase();
            arg.windows(what.len()).any(|part| part == what.as_bytes())
        };
        command.args().iter().any(within)
    };
    of_redis && (says("set_repl") || says("bitfield")) || to_redis && says("sort")
}

/// Returns the members and scores of a sorted set, the fields of a hash with their deadlines, the
/// digest and the groups of a stream, and the digest of any other value.
///
/// The digests of equal sorted sets may differ: redis-server stores the scores of small ones as
/// text, and after a full sync a replica may have 0 for the -0 of its primary, or
/// 0.10000000000000001 for 0.1. The digest of a stream covers only its entries. Valkey's digest of
/// a hash does not cover deadlines.
fn value(link: &mut Link, key: &[u8], compared: Groups) -> Result<String, LinkError> {
    let kind = link.ask(&Command::new("TYPE").arg(key))?;
    match kind.as_bytes() {
        Some(b"zset") => scores(link, key),
        Some(b"hash") => fields(link, key),
        Some(b"stream") => Ok(digest(link, key)? + &groups(link, key, compared)?),
        _ => digest(link, key),
    }
}

fn groups(link: &mut Link, key: &[u8], compared: Groups) -> Result<String, LinkError> {
    let groups = link.ask(&Command::of(&["XINFO", "GROUPS"]).arg(key))?;
    let mut text = String::new();
    for group in groups.as_slice().unwrap_or_default() {
        for field in group.as_slice().unwrap_or_default().chunks(2) {
            let name = field[0].as_bytes().unwrap_or_default();
            let is_delivered = matches!(name, b"name" | b"pending" | b"last-delivered-id");
            if is_delivered || compared == Groups::Whole {
                text += &format!(" {} {:?}", Quoted(name), field.get(1));
            }
        }
    }
    Ok(text)
}

fn digest(link: &mut Link, key: &[u8]) -> Result<String, LinkError> {
    let reply = link.ask(&Command::of(&["DEBUG", "DIGEST-VALUE"]).arg(key))?;
    let digest = reply
        .as_slice()
        .and_then(|digests| digests.first()?.as_bytes());
    Ok(Quoted(digest.unwrap_or_default()).to_string())
}

fn fields(link: &mut Link, key: &[u8]) -> Result<String, LinkError> {
    let all = link.ask(&Command::new("HGETALL").arg(key))?;
    let all: Vec<&[u8]> = all
        .as_slice()
        .unwrap_or_default()
        .iter()
        .filter_map(Value::as_bytes)
        .collect();
    let mut ask = Command::of(&["HPEXPIRETIME"]).arg(key).arg("FIELDS");
    ask.push((all.len() / 2).to_string());
    ask.extend(all.iter().step_by(2));
    // A redis-server before 7.4 has no deadlines of fields, and replies with an error.
    let deadlines = link.ask(&ask)?;
    let deadlines = deadlines.as_slice().unwrap_or_default();
    let mut fields: Vec<String> = all
        .chunks(2)
        .enumerate()
        .map(|(at, pair)| {
            let deadline = deadlines.get(at).and_then(Value::as_int).unwrap_or(-1);
            let [field, value] = [0, 1].map(|at| Quoted(pair.get(at).copied().unwrap_or_default()));
            format!("{field}={value}@{deadline}")
        })
        .collect();
    fields.sort_unstable();
    Ok(fields.join(" "))
}

fn scores(link: &mut Link, key: &[u8]) -> Result<String, LinkError> {
    let range = Command::of(&["ZRANGE"]).arg(key).arg("0").arg("-1");
    let reply = link.ask(&range.arg("WITHSCORES"))?;
    let words = reply.as_slice().unwrap_or_default().iter();
    let words = words.filter_map(Value::as_bytes).enumerate();
    let words = words.map(|(at, word)| {
        let score = || std::str::from_utf8(word).ok()?.parse::<f64>().ok();
        match score() {
            // Adding zero turns -0 into 0.
            Some(score) if at % 2 == 1 => (score + 0.0).to_string(),
            _ => Quoted(word).to_string(),
        }
    });
    Ok(words.collect::<Vec<_>>().join(" "))
}

/// Returns a line for each key of a server: the database, the name, the value and the deadline.
fn contents(link: &mut Link, compared: Groups) -> Result<Vec<String>, LinkError> {
    let mut lines = Vec::new();
    for db in 0..DATABASES {
        link.ask(&Command::of(&["SELECT", &db.to_string()]))?;
        // KEYS accesses every key, so redis-server removes the expired ones.
        let keys = link.ask(&Command::of(&["KEYS", "*"]))?;
        let keys = keys.as_slice().unwrap_or_default();
        for key in keys.iter().filter_map(Value::as_bytes) {
            let value = value(link, key, compared)?;
            let deadline = link.ask(&Command::new("PEXPIRETIME").arg(key))?;
            lines.push(format!("{db} {} {value} {deadline:?}", Quoted(key)));
        }
    }
    lines.sort_unstable();
    Ok(lines)
}

/// Returns the first lines of `these` that are not in `those`, with the dumps of their keys.
fn only(
    link: &mut Link,
    these: &[String],
    those: &[String],
    side: Side,
) -> Result<String, LinkError> {
    let mut text = String::new();
    let differ = |line: &&String| those.binary_search(line).is_err();
    for line in these.iter().filter(differ).take(5) {
        let mut words = line.split(' ');
        let (db, key) = (
            words.next().unwrap_or_default(),
            words.next().unwrap_or_default(),
        );
        link.ask(&Command::of(&["SELECT", db]))?;
        let dump = link.ask(&Command::of(&["DUMP", key]))?;
        let dump = dump.as_bytes().unwrap_or_default().escape_ascii();
        text += &format!("{side}: {line} {dump}\n");
    }
    Ok(text)
}

/// Compares all keys of two servers: names, deadlines and values, most values by DEBUG
/// DIGEST-VALUE. Returns the first differences of the last comparison if there are differences for
/// two seconds.
///
/// # Errors
/// A [`LinkError`] if a server does not reply.
pub fn differences(
    a: SocketAddr,
    b: SocketAddr,
    groups: Groups,
) -> Result<Option<String>, LinkError> {
    let (mut a, mut b) = (Link::connect(Side::A, a)?, Link::connect(Side::B, b)?);
    let mut found = None;
    for _ in 0..ATTEMPTS {
        let (ours, theirs) = (contents(&mut a, groups)?, contents(&mut b, groups)?);
        if ours == theirs {
            return Ok(None);
        }
        found =
            Some(only(&mut a, &ours, &theirs, Side::A)? + &only(&mut b, &theirs, &ours, Side::B)?);
        thread::sleep(PAUSE);
    }
    Ok(found)
}
