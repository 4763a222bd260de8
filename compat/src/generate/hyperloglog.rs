//! HyperLogLogs. Their bytes are compared too: GET shows them, and the audit asks for it.

use super::named;
use crate::command::{Command, Step};
use crate::draw::{Draw, Kind};

/// Commands that may be given any arguments at all.
pub(super) const ANY_ARGUMENTS: &[&str] = &["PFADD", "PFCOUNT", "PFMERGE"];

const MAKERS: &[(u32, super::Maker)] = &[
    (40, add),
    (4, grow),
    (22, count),
    (16, merge),
    (5, look_inside),
    (2, corrupt),
    (2, delete),
];

/// Appends one HyperLogLog command.
pub(super) fn commands(draw: &mut Draw, steps: &mut Vec<Step>) {
    draw.weighted(MAKERS)(draw, steps);
}

fn add(draw: &mut Draw, steps: &mut Vec<Step>) {
    let mut command = named(draw, "PFADD").arg(draw.key_of(Kind::Hll));
    if draw.chance(92) {
        command.extend(draw.elements(8));
    }
    steps.push(command.into());
}

/// Some of these in a row leave the sparse form.
fn grow(draw: &mut Draw, steps: &mut Vec<Step>) {
    let mut command = named(draw, "PFADD").arg(draw.key_of(Kind::Hll));
    let salt = draw.between(0..=9).to_string();
    command.extend(
        draw.many_elements()
            .into_iter()
            .map(|element| [element, salt.clone().into_bytes()].concat()),
    );
    steps.push(command.into());
}

fn count(draw: &mut Draw, steps: &mut Vec<Step>) {
    let mut command = named(draw, "PFCOUNT");
    command.extend(draw.keys_of(Kind::Hll, 3));
    steps.push(command.into());
}

fn merge(draw: &mut Draw, steps: &mut Vec<Step>) {
    let mut command = named(draw, "PFMERGE").arg(draw.key_of(Kind::Hll));
    if draw.chance(95) {
        command.extend(draw.keys_of(Kind::Hll, 3));
    }
    steps.push(command.into());
}

fn look_inside(draw: &mut Draw, steps: &mut Vec<Step>) {
    let key = draw.key_of(Kind::Hll);
    let command = match draw.between(0..=2) {
        0 => Command::new("STRLEN").arg(key),
        1 => Command::new("GET").arg(key),
        _ => Command::new("GETRANGE").arg(key).arg("0").arg("15"),
    };
    steps.push(command.into());
}

/// Strings that are nearly HyperLogLogs.
fn corrupt(draw: &mut Draw, steps: &mut Vec<Step>) {
    let key = draw.key_of(Kind::Hll);
    let value = draw
        .pick(&[
            &b"HYLL"[..],
            b"HYLL\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
            b"HYLL\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00short",
            b"HYLL\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
            b"not a HyperLogLog",
            b"",
        ])
        .to_vec();
    steps.push(Command::new("SET").arg(&key).arg(value).into());
    commands(draw, steps);
    steps.push(Command::new("DEL").arg(key).into());
}

fn delete(draw: &mut Draw, steps: &mut Vec<Step>) {
    steps.push(named(draw, "DEL").arg(draw.key_of(Kind::Hll)).into());
}
