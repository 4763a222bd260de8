//! Hash commands, without the commands on deadlines of fields (see `fields`).

use super::Maker::{self, Call, Line};
use super::{line, named};
use crate::command::{Command, Step};
use crate::draw::{Draw, Kind};

/// Commands that may get any arguments; `errors.rs` has the criteria.
pub(super) const ANY_ARGUMENTS: &str = "HSET|HSETNX|HMSET|HGET|HMGET|HGETALL|HKEYS|HVALS|HLEN|\
     HSTRLEN|HEXISTS|HDEL|HINCRBY|HINCRBYFLOAT|HSCAN";

const MAKERS: &[(u32, Maker)] = &[
    (24, Call(set)),
    (1, Call(grow)),
    (4, Line("HSETNX hash element element")),
    (10, Line("HGET hash element")),
    (6, Line("HMGET hash element*5")),
    (9, Line("HGETALL|HKEYS|HVALS hash")),
    (4, Call(length)),
    (4, Line("HEXISTS hash element")),
    (10, Line("HDEL hash element*6")),
    (9, Call(count)),
    (8, Call(count_float)),
    (8, Call(sample)),
    (4, Call(page)),
    (1, Line("DEL hash")),
];

/// Appends one hash command, or a short group of related ones.
pub(super) fn commands(draw: &mut Draw, steps: &mut Vec<Step>) {
    super::make(draw, MAKERS, steps);
}

fn set(draw: &mut Draw, steps: &mut Vec<Step>) {
    let name = draw.weighted(&[(5, "HSET"), (1, "HMSET")]);
    let mut command = named(draw, name).arg(draw.key_of(Kind::Hash));
    for field in draw.elements(5) {
        command.push(field);
        let value = match draw.between(0..=99) {
            0..=79 => draw.element(),
            80..=98 => draw.value(),
            _ => draw.big_value(),
        };
        command.push(value);
    }
    if draw.chance(3) {
        command.push(draw.element());
    }
    steps.push(command.into());
}

fn grow(draw: &mut Draw, steps: &mut Vec<Step>) {
    let mut command = named(draw, "HSET").arg(draw.key_of(Kind::Hash));
    for field in draw.many_elements() {
        command.push(&field);
        command.push(&field[..field.len().min(3)]);
    }
    steps.push(command.into());
}

fn length(draw: &mut Draw, steps: &mut Vec<Step>) {
    let key = draw.key_of(Kind::Hash);
    let command = if draw.chance(50) {
        named(draw, "HLEN").arg(key)
    } else {
        named(draw, "HSTRLEN").arg(key).arg(draw.element())
    };
    steps.push(command.into());
}

fn count(draw: &mut Draw, steps: &mut Vec<Step>) {
    let command = line::command(draw, "HINCRBY hash element integer");
    put_number_first(draw, &command, steps);
    steps.push(command.into());
}

fn count_float(draw: &mut Draw, steps: &mut Vec<Step>) {
    let command = line::command(draw, "HINCRBYFLOAT hash element float");
    put_number_first(draw, &command, steps);
    steps.push(command.into());
}

/// Half of the time, sets the field to a number before a command that adds to it: arithmetic on
/// words usually fails.
fn put_number_first(draw: &mut Draw, command: &Command, steps: &mut Vec<Step>) {
    if draw.chance(50) {
        let number = if draw.chance(50) {
            draw.integer()
        } else {
            draw.float()
        };
        let set = Command::new("HSET")
            .arg(&command.args()[1])
            .arg(&command.args()[2])
            .arg(number);
        steps.push(set.into());
    }
}

/// Appends a request for random fields, and before it one for the whole hash, against which the
/// comparison checks them.
fn sample(draw: &mut Draw, steps: &mut Vec<Step>) {
    let key = draw.key_of(Kind::Hash);
    steps.push(Command::new("HGETALL").arg(&key).into());
    let mut command = named(draw, "HRANDFIELD").arg(key);
    if draw.chance(80) {
        command.push(draw.sample_size());
        if draw.chance(50) {
            let option = draw.weighted(&[(12, "WITHVALUES"), (1, "WITHSCORES")]);
            command.push(draw.case(option));
        }
    }
    steps.push(command.into());
}

fn page(draw: &mut Draw, steps: &mut Vec<Step>) {
    let key = draw.key_of(Kind::Hash);
    super::scans::page(draw, "HSCAN", key, steps);
}
