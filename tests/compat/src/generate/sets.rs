//! Set commands.

use super::Maker::{self, Call, Line};
use super::{line, named};
use crate::command::{Command, Step};
use crate::draw::{Draw, Kind};

/// Commands that may get any arguments; `errors.rs` has the criteria.
pub(super) const ANY_ARGUMENTS: &str = "SADD|SREM|SCARD|SISMEMBER|SMISMEMBER|SMEMBERS|SMOVE|SINTER|\
     SUNION|SDIFF|SINTERSTORE|SUNIONSTORE|SDIFFSTORE|SINTERCARD|SSCAN";

const MAKERS: &[(u32, Maker)] = &[
    (26, Call(add)),
    (1, Line("SADD set many-elements")),
    (10, Line("SREM set element*6")),
    (4, Line("SCARD set")),
    (8, Call(contains)),
    (6, Line("SMEMBERS set")),
    (6, Call(move_between)),
    (5, Call(pop)),
    (7, Call(sample)),
    (10, Line("SINTER|SUNION|SDIFF set*4")),
    (9, Line("SINTERSTORE|SUNIONSTORE|SDIFFSTORE set set*3")),
    (6, Call(intersect_count)),
    (4, Call(page)),
    (1, Line("DEL set")),
];

/// Appends one set command, or a short group of related ones.
pub(super) fn commands(draw: &mut Draw, steps: &mut Vec<Step>) {
    super::make(draw, MAKERS, steps);
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
    line::append(draw, &mut command, "80% sample-size");
    line::append(draw, &mut command, "2% element");
    steps.push(command.into());
}

fn intersect_count(draw: &mut Draw, steps: &mut Vec<Step>) {
    let keys = draw.keys_of(Kind::Set, 3);
    let mut command = named(draw, "SINTERCARD").arg(draw.announced(keys.len()));
    command.extend(keys);
    line::append(draw, &mut command, "50% LIMIT how-many");
    steps.push(command.into());
}

fn page(draw: &mut Draw, steps: &mut Vec<Step>) {
    let key = draw.key_of(Kind::Set);
    super::scans::page(draw, "SSCAN", key, steps);
}
