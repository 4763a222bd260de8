//! Set commands.

use super::named;
use crate::command::{Command, Step};
use crate::draw::{Draw, Kind};

/// Commands that may get any arguments; `errors.rs` has the criteria.
pub(super) const ANY_ARGUMENTS: &[&str] = &[
    "SADD",
    "SREM",
    "SCARD",
    "SISMEMBER",
    "SMISMEMBER",
    "SMEMBERS",
    "SMOVE",
    "SINTER",
    "SUNION",
    "SDIFF",
    "SINTERSTORE",
    "SUNIONSTORE",
    "SDIFFSTORE",
    "SINTERCARD",
    "SSCAN",
];

const MAKERS: &[(u32, super::Maker)] = &[
    (26, add),
    (1, grow),
    (10, remove),
    (4, size),
    (8, contains),
    (6, members),
    (6, move_between),
    (5, pop),
    (7, sample),
    (10, combine),
    (9, combine_and_store),
    (6, intersect_count),
    (4, page),
    (1, delete),
];

/// Appends one set command, or a short group of related ones.
pub(super) fn commands(draw: &mut Draw, steps: &mut Vec<Step>) {
    draw.weighted(MAKERS)(draw, steps);
}

fn add(draw: &mut Draw, steps: &mut Vec<Step>) {
    let mut command = named(draw, "SADD").arg(draw.key_of(Kind::Set));
    if draw.chance(30) {
        // Only integers, so that a set keeps the encoding intset.
        for _ in 0..draw.between(1..=8) {
            let width =
                draw.weighted(&[(8, 40_i64), (2, 40_000), (1, 3_000_000_000), (1, i64::MAX)]);
            command.push(draw.between(-width..=width).to_string());
        }
    } else {
        command.extend(draw.elements(6));
    }
    steps.push(command.into());
}

fn grow(draw: &mut Draw, steps: &mut Vec<Step>) {
    let mut command = named(draw, "SADD").arg(draw.key_of(Kind::Set));
    command.extend(draw.many_elements());
    steps.push(command.into());
}

fn remove(draw: &mut Draw, steps: &mut Vec<Step>) {
    let mut command = named(draw, "SREM").arg(draw.key_of(Kind::Set));
    command.extend(draw.elements(6));
    steps.push(command.into());
}

fn size(draw: &mut Draw, steps: &mut Vec<Step>) {
    steps.push(named(draw, "SCARD").arg(draw.key_of(Kind::Set)).into());
}

fn contains(draw: &mut Draw, steps: &mut Vec<Step>) {
    let key = draw.key_of(Kind::Set);
    let command = if draw.chance(50) {
        named(draw, "SISMEMBER").arg(key).arg(draw.element())
    } else {
        let mut command = named(draw, "SMISMEMBER").arg(key);
        command.extend(draw.elements(5));
        command
    };
    steps.push(command.into());
}

fn members(draw: &mut Draw, steps: &mut Vec<Step>) {
    steps.push(named(draw, "SMEMBERS").arg(draw.key_of(Kind::Set)).into());
}

fn move_between(draw: &mut Draw, steps: &mut Vec<Step>) {
    let from = draw.key_of(Kind::Set);
    let to = if draw.chance(10) {
        from.clone()
    } else {
        draw.key_of(Kind::Set)
    };
    steps.push(
        named(draw, "SMOVE")
            .arg(from)
            .arg(to)
            .arg(draw.element())
            .into(),
    );
}

/// Appends SPOP, which removes random members: either it removes all members, or the rest is
/// deleted after it.
fn pop(draw: &mut Draw, steps: &mut Vec<Step>) {
    let key = draw.key_of(Kind::Set);
    steps.push(Command::new("SMEMBERS").arg(&key).into());
    let command = named(draw, "SPOP").arg(&key);
    if draw.chance(35) {
        let most = draw.pick(&["1000000", "9223372036854775807"]);
        steps.push(command.arg(most).into());
        return;
    }
    let command = if draw.chance(60) {
        command.arg(draw.how_many())
    } else {
        command
    };
    steps.push(command.into());
    steps.push(Command::new("SCARD").arg(&key).into());
    steps.push(Command::new("DEL").arg(key).into());
}

/// Appends a request for random members, and before it one for the whole set, against which the
/// comparison checks them.
fn sample(draw: &mut Draw, steps: &mut Vec<Step>) {
    let key = draw.key_of(Kind::Set);
    steps.push(Command::new("SMEMBERS").arg(&key).into());
    let mut command = named(draw, "SRANDMEMBER").arg(key);
    if draw.chance(80) {
        command.push(draw.sample_size());
    }
    if draw.chance(2) {
        command.push(draw.element());
    }
    steps.push(command.into());
}

fn combine(draw: &mut Draw, steps: &mut Vec<Step>) {
    let name = draw.pick(&["SINTER", "SUNION", "SDIFF"]);
    let mut command = named(draw, name);
    command.extend(draw.keys_of(Kind::Set, 4));
    steps.push(command.into());
}

fn combine_and_store(draw: &mut Draw, steps: &mut Vec<Step>) {
    let name = draw.pick(&["SINTERSTORE", "SUNIONSTORE", "SDIFFSTORE"]);
    let mut command = named(draw, name).arg(draw.key_of(Kind::Set));
    command.extend(draw.keys_of(Kind::Set, 3));
    steps.push(command.into());
}

fn intersect_count(draw: &mut Draw, steps: &mut Vec<Step>) {
    let keys = draw.keys_of(Kind::Set, 3);
    let mut command = named(draw, "SINTERCARD").arg(draw.announced(keys.len()));
    command.extend(keys);
    if draw.chance(50) {
        command.push(draw.case("LIMIT"));
        command.push(draw.how_many());
    }
    steps.push(command.into());
}

fn page(draw: &mut Draw, steps: &mut Vec<Step>) {
    let key = draw.key_of(Kind::Set);
    super::scans::page(draw, "SSCAN", key, steps);
}

fn delete(draw: &mut Draw, steps: &mut Vec<Step>) {
    steps.push(named(draw, "DEL").arg(draw.key_of(Kind::Set)).into());
}
