//! SORT and SORT_RO, and the strings and hashes to which their patterns refer.

use super::named;
use crate::command::{Command, Step};
use crate::draw::{Draw, Kind};

/// The prefixes of the keys to which SORT's patterns refer.
pub const SORT_PREFIXES: &[&str] = &["w_", "wh_", "->", "no"];

/// Appends a SORT and the two commands that must precede it, or commands that create or delete keys
/// for a later SORT.
pub(super) fn commands(draw: &mut Draw, steps: &mut Vec<Step>) {
    match draw.between(0..=9) {
        0..=1 => look_up(draw, steps),
        2..=3 => numbers(draw, steps),
        _ => sort(draw, steps),
    }
}

fn look_up(draw: &mut Draw, steps: &mut Vec<Step>) {
    let key = draw.weight_key();
    let value = if draw.chance(70) {
        draw.between(-9..=9).to_string().into_bytes()
    } else {
        draw.value()
    };
    let command = match (key.starts_with(b"wh"), draw.between(0..=9)) {
        (_, 0) => Command::new("DEL").arg(key),
        (true, _) => Command::new("HSET").arg(key).arg("f").arg(value),
        (false, _) => Command::new("SET").arg(key).arg(value),
    };
    steps.push(command.into());
}

/// Appends commands that replace a key by a collection of numbers. Most other collections contain
/// words.
fn numbers(draw: &mut Draw, steps: &mut Vec<Step>) {
    let (kind, name) = draw.weighted(&[
        (3, (Kind::List, "RPUSH")),
        (2, (Kind::Set, "SADD")),
        (2, (Kind::Zset, "ZADD")),
    ]);
    let key = draw.pick(kind.keys()).to_vec();
    steps.push(Command::new("DEL").arg(&key).into());
    let mut command = Command::new(name).arg(key);
    for _ in 0..draw.between(1..=12) {
        if kind == Kind::Zset {
            command.push(draw.between(-3..=3).to_string());
        }
        let number = match draw.between(0..=9) {
            0..=6 => draw.between(0..=5).to_string(),
            7..=8 => format!("{}.{}", draw.between(-20..=20), draw.between(0..=99)),
            _ => draw
                .pick(&["1e3", "inf", "-inf", "0x10", "+5", "", "-0"])
                .to_owned(),
        };
        command.push(number);
    }
    steps.push(command.into());
}

fn pattern(draw: &mut Draw) -> &'static str {
    draw.weighted(&[
        (6, "w_*"),
        (5, "wh_*->f"),
        (1, "wh_*->nosuch"),
        (1, "w_*->f"),
        (1, "wh_*->"),
        (1, "->*"),
        (1, "no*such"),
        (1, "w_1"),
        (1, ""),
    ])
}

fn sort(draw: &mut Draw, steps: &mut Vec<Step>) {
    let kind = draw.weighted(&[
        (4, Kind::List),
        (3, Kind::Set),
        (3, Kind::Zset),
        (1, Kind::Hash),
    ]);
    let name = draw.weighted(&[(4, "SORT"), (1, "SORT_RO")]);
    let mut command = named(draw, name).arg(draw.key_of(kind));
    let by = draw.chance(40).then(|| {
        if draw.chance(20) {
            "nosort"
        } else {
            pattern(draw)
        }
    });
    if let Some(pattern) = by {
        command.push(draw.case("BY"));
        command.push(pattern);
    }
    let alpha = draw.chance(45);
    if alpha {
        command.push(draw.case("ALPHA"));
    }
    if draw.chance(50) {
        let order = draw.pick(&["ASC", "DESC"]);
        command.push(draw.case(order));
    }
    let limited = draw.chance(25);
    // With LIMIT, an unordered result is an arbitrary part of the collection, and its lookups would
    // cause different events.
    let ordered = !alpha && by.is_none_or(|pattern| pattern.contains('*'));
    if ordered || !limited {
        for _ in 0..draw.weighted(&[(6, 0), (3, 1), (2, 2)]) {
            command.push(draw.case("GET"));
            let pattern = if draw.chance(35) { "#" } else { pattern(draw) };
            command.push(pattern);
        }
    }
    if limited {
        command.push(draw.case("LIMIT"));
        for _ in 0..2 {
            let number = if draw.chance(90) {
                draw.between(-1..=8).to_string().into_bytes()
            } else {
                draw.integer()
            };
            command.push(number);
        }
    }
    // With BY and ALPHA, looked-up texts may be equal, and then the order of the result is
    // undefined.
    if !(by.is_some() && alpha) && draw.chance(25) {
        command.push(draw.case("STORE"));
        command.push(draw.key_of(Kind::List));
    }
    if draw.chance(2) {
        command.push("NOSUCH");
    }
    // redis-server's SORT fails if C's `errno` says that a number is out of range, even if other
    // code has set `errno` before. SORT also converts a small sorted set to a skiplist, and parsing
    // a score near zero sets `errno`. So this SORT_RO makes the conversion first.
    let converts = Command::new("SORT_RO").arg(&command.args()[1]).arg("ALPHA");
    steps.push(converts.into());
    // ZINCRBY parses a number and so clears `errno`. It is a write, so that it is replicated and
    // clears `errno` on replicas as well.
    let clears = ["ZINCRBY", "sorts", "1", "m"];
    steps.push(Command::of(&clears).into());
    steps.push(command.into());
}
