//! Deadlines of hash fields, new in Redis 7.4: the tests omit them if the oracle is older.
//!
//! A group of steps that sets a relative deadline also removes it: after a stall of the machine,
//! the comparison aligns the deadlines of keys on both servers, but not the deadlines of fields.

use super::Maker::{self, Call};
use super::{line, named};
use crate::command::{Command, Step};
use crate::draw::{Draw, Kind};

const MAKERS: &[(u32, Maker)] = &[
    (10, Call(set)),
    (20, Call(until)),
    (10, Call(lasting)),
    (16, Call(ask)),
    (6, Call(persist)),
    (12, Call(super::hashes::commands)),
    (3, Call(wrong)),
];

/// Appends one command on fields with deadlines, or a short group of related ones.
pub(super) fn commands(draw: &mut Draw, steps: &mut Vec<Step>) {
    super::make(draw, MAKERS, steps);
}

fn set(draw: &mut Draw, steps: &mut Vec<Step>) {
    let mut command = Command::new("HSET").arg(draw.key_of(Kind::Hash));
    for field in draw.elements(6) {
        command.push(field);
        command.push(draw.element());
    }
    steps.push(command.into());
}

/// Appends FIELDS, the number of fields and the fields; the number is rarely wrong.
fn push_fields(draw: &mut Draw, command: &mut Command) {
    let fields = draw.elements(4);
    command.push(draw.case("FIELDS"));
    command.push(draw.announced(fields.len()));
    command.extend(fields);
}

fn push_condition(draw: &mut Draw, command: &mut Command) {
    line::append(draw, command, "45% NX|XX|GT|LT|NX|XX|GT|LT|KEEPTTL");
}

fn until(draw: &mut Draw, steps: &mut Vec<Step>) {
    let (name, per_second) = draw.weighted(&[(1, ("HEXPIREAT", 1)), (1, ("HPEXPIREAT", 1000))]);
    let mut command = named(draw, name)
        .arg(draw.key_of(Kind::Hash))
        .arg(draw.deadline(per_second));
    push_condition(draw, &mut command);
    push_fields(draw, &mut command);
    steps.push(command.into());
}

fn lasting(draw: &mut Draw, steps: &mut Vec<Step>) {
    let (name, ask, per_second) = draw.weighted(&[
        (1, ("HEXPIRE", "HTTL", 1)),
        (1, ("HPEXPIRE", "HPTTL", 1000)),
    ]);
    let key = draw.key_of(Kind::Hash);
    let mut command = named(draw, name).arg(&key).arg(draw.ttl(per_second));
    push_condition(draw, &mut command);
    let before = command.args().len();
    push_fields(draw, &mut command);
    let fields = command.args()[before..].to_vec();
    steps.push(command.into());
    for name in [ask, "HPERSIST"] {
        let mut command = named(draw, name).arg(&key);
        command.extend(&fields);
        steps.push(command.into());
    }
}

fn ask(draw: &mut Draw, steps: &mut Vec<Step>) {
    let name = draw.pick(&["HTTL", "HPTTL", "HEXPIRETIME", "HPEXPIRETIME"]);
    let mut command = named(draw, name).arg(draw.key_of(Kind::Hash));
    push_fields(draw, &mut command);
    steps.push(command.into());
}

fn persist(draw: &mut Draw, steps: &mut Vec<Step>) {
    let mut command = named(draw, "HPERSIST").arg(draw.key_of(Kind::Hash));
    push_fields(draw, &mut command);
    steps.push(command.into());
}

fn wrong(draw: &mut Draw, steps: &mut Vec<Step>) {
    let words = draw.pick(&[
        &["HEXPIRE"][..],
        &["HEXPIRE", "h0"],
        &["HEXPIRE", "h0", "100"],
        &["HEXPIRE", "h0", "100", "FIELDS"],
        &["HEXPIRE", "h0", "100", "FIELDS", "1"],
        &["HEXPIRE", "h0", "-1", "FIELDS", "1", "a"],
        &["HPEXPIREAT", "h0", "1", "FIELDS", "1", "a", "b"],
        &[
            "HPEXPIREAT",
            "h0",
            "4100000000000",
            "NX",
            "XX",
            "FIELDS",
            "1",
            "a",
        ],
        &["HPEXPIREAT", "h0", "4100000000000", "FIELDS", "0"],
        &["HTTL", "h0"],
        &["HTTL", "h0", "FIELDS", "1"],
        &["HTTL", "h0", "NOSUCH", "1", "a"],
        &["HPERSIST", "h0", "FIELDS", "2", "a"],
    ]);
    steps.push(Command::of(words).into());
}
