//! HyperLogLogs. GET and the audit also compare their bytes.
//!
//! No other commands write to the keys of HyperLogLogs: our server refuses a corrupt HyperLogLog at
//! once, Redis often only when it reads the corrupt part.

use super::Maker::{self, Call, Line};
use super::named;
use crate::command::{Command, Step};
use crate::draw::Draw;

/// Commands that may get any arguments; `errors.rs` has the criteria.
pub(super) const ANY_ARGUMENTS: &str = "PFCOUNT";

const MAKERS: &[(u32, Maker)] = &[
    (40, Line("PFADD hll 92% element*8")),
    (4, Call(grow)),
    (22, Call(count)),
    (16, Call(merge)),
    (5, Call(look_inside)),
    (4, Call(as_a_key)),
    (3, Call(corrupt)),
    (2, Line("DEL hll")),
];

/// Appends one HyperLogLog command, or several commands on a corrupt HyperLogLog.
pub(super) fn commands(draw: &mut Draw, steps: &mut Vec<Step>) {
    super::make(draw, MAKERS, steps);
}

/// Appends a PFADD with many elements. Several such commands convert a HyperLogLog to the dense
/// encoding.
fn grow(draw: &mut Draw, steps: &mut Vec<Step>) {
    let mut command = named(draw, "PFADD").arg(draw.hll_key());
    let salt = draw.between(0..=9).to_string();
    command.extend(
        draw.many_elements()
            .into_iter()
            .map(|element| [element, salt.clone().into_bytes()].concat()),
    );
    steps.push(command.into());
}

/// Returns keys to read: of HyperLogLogs, rarely of other values.
fn sources(draw: &mut Draw) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    for _ in 0..draw.between(1..=3) {
        keys.push(if draw.chance(4) {
            draw.any_key()
        } else {
            draw.hll_key()
        });
    }
    keys
}

fn count(draw: &mut Draw, steps: &mut Vec<Step>) {
    let mut command = named(draw, "PFCOUNT");
    command.extend(sources(draw));
    steps.push(command.into());
}

fn merge(draw: &mut Draw, steps: &mut Vec<Step>) {
    let mut command = named(draw, "PFMERGE").arg(draw.hll_key());
    if draw.chance(95) {
        command.extend(sources(draw));
    }
    steps.push(command.into());
}

/// Appends a command of another family on keys of HyperLogLogs.
fn as_a_key(draw: &mut Draw, steps: &mut Vec<Step>) {
    let (one, other) = (draw.hll_key(), draw.hll_key());
    let command = match draw.between(0..=5) {
        0 => Command::new("COPY").arg(one).arg(other).arg("REPLACE"),
        1 => Command::new("RENAME").arg(one).arg(other),
        2 => Command::new("EXPIRE").arg(one).arg(draw.ttl(1)),
        3 => Command::new("PERSIST").arg(one),
        4 => Command::of(&["OBJECT", "ENCODING"]).arg(one),
        _ => Command::new("TYPE").arg(one),
    };
    steps.push(command.into());
}

fn look_inside(draw: &mut Draw, steps: &mut Vec<Step>) {
    let key = draw.hll_key();
    let command = match draw.between(0..=2) {
        0 => Command::new("STRLEN").arg(key),
        1 => Command::new("GET").arg(key),
        _ => Command::new("GETRANGE").arg(key).arg("0").arg("15"),
    };
    steps.push(command.into());
}

/// Appends commands on a value that is not a HyperLogLog, but may look like one.
fn corrupt(draw: &mut Draw, steps: &mut Vec<Step>) {
    let key = draw.hll_key();
    let delete = Command::new("DEL").arg(&key);
    steps.push(delete.clone().into());
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
    let name = draw.weighted(&[(3, "SET"), (1, "RPUSH"), (1, "SADD")]);
    steps.push(Command::new(name).arg(&key).arg(value).into());
    let command = match draw.between(0..=3) {
        0 => Command::new("PFADD").arg(key),
        1 => Command::new("PFADD").arg(key).arg("a"),
        2 => Command::new("PFCOUNT").arg(key).arg(draw.hll_key()),
        _ => Command::new("PFMERGE").arg(draw.hll_key()).arg(key),
    };
    steps.push(command.into());
    steps.push(delete.into());
}
